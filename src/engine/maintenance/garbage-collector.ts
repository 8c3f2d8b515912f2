/**
 * Reclaims what no branch of a database refers to any more.
 *
 * The protocol (why a paused collector can do no harm): read the catalog, then list, then mark from every manifest and
 * history; what is listed and unmarked, and can no longer be published, is *condemned* by a compare-and-set of the very
 * catalog that was read; a condemned key is never referred to again, as a fork checks the catalog it changes; after the
 * grace, and another mark, it is deleted. Data objects of a branch's present epoch are left alone unless the manifest
 * says that nothing named so early is still to come.
 *
 * Always true: only what was read makes an object garbage, never a failed read. A branch of the catalog whose manifest
 * or history is missing or cannot be decoded ends the round with that error before anything is condemned or deleted:
 * its objects are all there is to rebuild it from. A manifest that no branch of the catalog names is an unfinished
 * fork, or what is left of a deleted branch. It is condemned, and that is safe however old the catalog and however
 * incomplete the listing: a branch that was announced since has changed the catalog, so that the compare-and-set fails;
 * one that is announced later meets the condemned key and begins again under another id. A listing only proposes: a key
 * that it omits is condemned later, one that is gone already is deleted again.
 */
import { assert } from "../../base/faults/assert.ts";
import { StoreError } from "../../base/faults/errors.ts";
import { limits } from "../../base/limits.ts";
import { LruMap } from "../../base/collections/lru-map.ts";
import type { World } from "../../base/world.ts";
import type { CopyRecords } from "../../control/databases/copy-records.ts";
import type { Catalog, Condemned } from "../../format/history/catalog.ts";
import type { Manifest } from "../../format/history/manifest.ts";
import { catalogKey, databasePrefix, manifestKey, parsePoolId, purgeKey } from "../../format/keys/object-keys.ts";
import type { ObjectStore } from "../../store/port/object-store.ts";
import { decodeStored } from "../history/manifest-writer.ts";
import { isWritten, type Catalogs } from "../history/catalogs.ts";
import type { SeenManifests } from "../local/seen-manifests.ts";
import { readHistory } from "../history/branch-history.ts";
import { referenced } from "../history/timelines.ts";
import { lostManifest, wentBack } from "../api/missing-objects.ts";

/**
 * An object may come to a deleted database this many graces after the last one was removed: an hour, as the grace is by
 * default. It is looked for half way and at the end, and the erasures of the database are complete then.
 */
export const lateGraces = 6;
/** Deleted databases for which a thread remembers since when it has found nothing. */
const purgesRememberedMax = 100_000;

export interface GarbageCollectorParts {
  readonly store: ObjectStore;
  readonly world: World;
  readonly catalogs: Catalogs;
  /** What nodes have on their disks. */
  readonly records: CopyRecords;
  /** What this node has seen of each branch. */
  readonly places: Pick<SeenManifests, "isPast" | "newest">;
  readonly graceMs: number;
  /** Something an operator should know; never content. */
  readonly notice: (message: string, uuid: string) => void;
}

/** What one round did; `again` says that there is something left for a later one. */
export interface Collected {
  readonly condemned: number;
  readonly deleted: number;
  readonly again: boolean;
}

interface Marks {
  readonly live: ReadonlySet<string>;
  readonly manifests: ReadonlyMap<string, Manifest>;
}

/**
 * What a database has in object storage, and what of it its branches refer to. All keys are below the database's
 * folder.
 */
export interface Survey extends Marks {
  readonly catalog: Catalog;
  readonly listed: readonly string[];
  /** Ids of branches whose next manifest will drop what nothing refers to. */
  readonly branchesToRewrite: ReadonlySet<string>;
}

export class GarbageCollector {
  readonly #parts: GarbageCollectorParts;
  /** Since when nothing was found of each deleted database. One that is forgotten is looked for anew. */
  readonly #emptySinceMs = new LruMap<string, number>(purgesRememberedMax);

  constructor(parts: GarbageCollectorParts) {
    this.#parts = parts;
  }

  /** One round for one database: condemns what is garbage, deletes what has been condemned for long enough. */
  async collect(uuid: string): Promise<Collected> {
    const { catalogs } = this.#parts;
    const catalog = await catalogs.fresh(uuid);
    if (!catalog) await catalogs.requireNoRemains(uuid);
    if (!isWritten(catalog) || catalog.deletedAtMs !== undefined) return { condemned: 0, deleted: 0, again: false };
    const listed = await this.list(uuid);
    const marks = await this.#markAll(catalog);
    if (!marks) return { condemned: 0, deleted: 0, again: true };
    const deleted = await this.#deleteDue(uuid, catalog, listed, marks);
    const known = new Set(catalog.condemned.map(({ key }) => key));
    const candidates = listed.filter((key) => !marks.live.has(key) && !known.has(key));
    const garbage = candidates.filter((key) => isGarbage(key, marks.manifests));
    const condemned = await this.#record(uuid, catalog, new Set(listed), deleted, garbage);
    return {
      condemned,
      deleted: deleted.size,
      again: condemned > 0 || candidates.length > garbage.length || catalog.condemned.length > 0,
    };
  }

  /**
   * Looks without changing anything; undefined when there is no catalog, or it is changed just now. Throws StoreError.
   */
  async survey(uuid: string): Promise<Survey | undefined> {
    const catalog = await this.#parts.catalogs.fresh(uuid);
    if (!catalog) return undefined;
    const listed = await this.list(uuid);
    const marks = await this.#markAll(catalog);
    if (!marks) return undefined;
    const strays = listed.filter((key) => !marks.live.has(key) && !isGarbage(key, marks.manifests));
    const writers = strays.flatMap((key) => parsePoolId(key.slice(key.indexOf("/") + 1))?.branchId ?? []);
    return { catalog, listed, ...marks, branchesToRewrite: new Set(writers) };
  }

  /**
   * Deletes every object of a database that was deleted long enough ago, its catalog last. A put that its writer has
   * abandoned may land after that: it is looked for twice more, and what came is deleted. The marker stays until then,
   * and for as long as a node may have a copy, as it tells that node of the deletion. Gives when to look again, in ms
   * from now, or what that waits for, in words; undefined when all of it is over.
   */
  async purge(uuid: string): Promise<number | string | undefined> {
    const { store, records } = this.#parts;
    const own = catalogKey(uuid).slice(databasePrefix(uuid).length);
    const listed = await this.list(uuid);
    for (const key of listed) if (key !== own) await store.delete(databasePrefix(uuid) + key);
    if (listed.length > 0) this.#emptySinceMs.delete(uuid);
    await store.delete(catalogKey(uuid));
    if (!this.#isQuiet(uuid)) return Math.max(this.#lateMs / 2, 1);
    const waitsFor = await records.end(uuid);
    if (waitsFor === undefined) await store.delete(purgeKey(uuid));
    return waitsFor;
  }

  /** Whether nothing of a deleted database was found, now and for so long that nothing more will come. */
  async isGone(uuid: string): Promise<boolean> {
    const { objects } = await this.#parts.store.list(databasePrefix(uuid), { limit: 1 });
    if (objects.length === 0) return this.#isQuiet(uuid);
    this.#emptySinceMs.delete(uuid);
    return false;
  }

  /** How late an object may come. */
  get #lateMs(): number {
    return this.#parts.graceMs * lateGraces;
  }

  /** Nothing was found just now: whether that has been so for long enough. */
  #isQuiet(uuid: string): boolean {
    const nowMs = this.#parts.world.monotonicMs();
    const sinceMs = this.#emptySinceMs.get(uuid) ?? nowMs;
    this.#emptySinceMs.set(uuid, sinceMs);
    return nowMs - sinceMs >= this.#lateMs;
  }

  /** Keys below the database's folder. */
  async list(uuid: string): Promise<string[]> {
    const prefix = databasePrefix(uuid);
    const keys: string[] = [];
    for (let after: string | undefined; ;) {
      const page = await this.#parts.store.list(prefix, { after, limit: limits.storeListMax });
      for (const { key } of page.objects) keys.push(key.slice(prefix.length));
      if (page.next === undefined) return keys;
      after = page.next;
    }
  }

  /** The marks; undefined when a branch was deleted while they were read. Throws StoreError when one cannot be read. */
  async #markAll(catalog: Catalog): Promise<Marks | undefined> {
    try {
      return await this.#mark(catalog);
    } catch (error) {
      if (!(error instanceof StoreError)) throw error;
      // What a branch had is removed after its deletion, maybe long after this catalog was read.
      const now = await this.#parts.catalogs.fresh(catalog.uuid);
      if (now && now.seq === catalog.seq) throw error;
      return undefined;
    }
  }

  /** Everything that the branches of this catalog refer to, from manifests read after the listing. */
  async #mark(catalog: Catalog): Promise<Marks> {
    const { store, places } = this.#parts;
    const live = new Set(["catalog"]);
    const manifests = new Map<string, Manifest>();
    for (const { id } of catalog.branches) {
      live.add(`head/${id}`);
      const stored = await store.get(manifestKey(catalog.uuid, id));
      if (!stored) throw lostManifest(catalog.uuid, id);
      const manifest = decodeStored({ uuid: catalog.uuid, branchId: id }, stored.bytes);
      // Older than what was here before, it may not name what is live.
      const seen = places.isPast(manifest) ? places.newest(catalog.uuid, id) : undefined;
      if (seen)
        throw wentBack(
          catalog.uuid,
          manifestKey(catalog.uuid, id),
          `epoch ${manifest.epoch}, number ${manifest.seq}`,
          `epoch ${seen.epoch}, number ${seen.seq}`,
        );
      manifests.set(id, manifest);
      for (const key of referenced(manifest, await readHistory(store, manifest))) live.add(key);
    }
    return { live, manifests };
  }

  async #deleteDue(
    uuid: string,
    catalog: Catalog,
    listed: readonly string[],
    { live }: Marks,
  ): Promise<ReadonlySet<string>> {
    const { store, world, graceMs, notice } = this.#parts;
    const present = new Set(listed);
    const deleted = new Set<string>();
    for (const { key, atMs } of catalog.condemned) {
      if (!present.has(key) || world.time.sureMs() - atMs < graceMs) continue;
      if (live.has(key)) {
        notice(`the condemned object ${key} is referred to; it is kept`, uuid);
        continue;
      }
      await store.delete(databasePrefix(uuid) + key);
      world.crashPoint("collected");
      deleted.add(key);
    }
    return deleted;
  }

  /**
   * Condemns against the catalog that was marked from: had a branch come meanwhile, this would fail and be tried later.
   */
  async #record(
    uuid: string,
    marked: Catalog,
    listed: ReadonlySet<string>,
    deleted: ReadonlySet<string>,
    garbage: readonly string[],
  ): Promise<number> {
    const { world } = this.#parts;
    const atMs = world.nowMs();
    // What a listing no longer shows is gone; what was deleted just now is looked for again next time.
    const shown = marked.condemned.filter(({ key }) => listed.has(key) || deleted.has(key));
    // What was condemned under a clock that was ahead has its grace from now on.
    const kept = shown.map(({ key, atMs: condemnedAtMs }): Condemned => ({
      key,
      atMs: world.time.believable(condemnedAtMs),
    }));
    const added = garbage
      .slice(0, Math.max(0, limits.condemnedMax - kept.length))
      .map((key): Condemned => ({ key, atMs }));
    const isSame =
      kept.length === marked.condemned.length && shown.every((one, index) => one.atMs === kept[index]!.atMs);
    if (added.length === 0 && isSame) return 0;
    let recorded = 0;
    await this.#parts.catalogs.update(uuid, (catalog) => {
      recorded = 0;
      if (catalog.seq !== marked.seq) return undefined;
      recorded = added.length;
      return { condemned: [...kept, ...added] };
    });
    this.#parts.world.crashPoint("condemned");
    return recorded;
  }
}

/** Whether the unreferenced object can never be published any more. Pure. */
function isGarbage(key: string, manifests: ReadonlyMap<string, Manifest>): boolean {
  const [folder, id] = key.split("/");
  assert(folder !== undefined, "a key has a folder");
  // An unlisted manifest is a fork that has not been announced: once condemned, it cannot be.
  if (folder === "head") return true;
  const named = folder === "seg" || folder === "hist" ? parsePoolId(id ?? "") : undefined;
  if (!named) return false;
  const manifest = manifests.get(named.branchId);
  // The branch is gone: nothing can ever refer to what its last writers still put.
  if (!manifest) return true;
  return named.epoch < manifest.epoch || (named.epoch === manifest.epoch && named.ulid < manifest.garbageBelowUlid);
}
