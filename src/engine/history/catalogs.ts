/**
 * The catalogs of the databases whose branches this thread has touched: read once, changed by compare-and-set.
 *
 * Always true:
 * - a change is made to the newest catalog there is, or not at all; the loser of a race reads and decides again
 * - after a change left in doubt, no caller is told anything of that catalog until the very same change has been
 *   offered again and its outcome is known: what was read in between could become untrue at any time
 * - a database that was never written has no catalog, or one of number 0, and one branch, `main`
 *
 * How a database comes into being, so that no crash and no failed put leaves it half known: its folder is found empty,
 * a catalog of number 0 is put (`begin`), then the first image and the manifest, which makes the claim, then the
 * catalog of number 1 (`ensure`), and only then the first write is acknowledged. So a folder that holds anything
 * belongs to a catalog. A manifest without one was left by an older build, and is given one while it is the only
 * manifest. Any other absence is a loss, which is reported and never taken for a new database: then `main`, whose name
 * and id are known, is served from its manifest, and every other name is refused.
 */
import { ServiceError, StoreError } from "../../base/faults/errors.ts";
import { limits } from "../../base/limits.ts";
import { LruMap } from "../../base/collections/lru-map.ts";
import { sleep, type World } from "../../base/world.ts";
import { decodeCatalog, encodeCatalog, type Catalog, type CatalogBranch } from "../../format/history/catalog.ts";
import { mainBranch } from "../../format/core/names.ts";
import { catalogKey, databasePrefix, manifestKey } from "../../format/keys/object-keys.ts";
import type { ObjectStore, PutCondition } from "../../store/port/object-store.ts";
import { surePut } from "../../store/port/sure-put.ts";
import type { Alarms } from "../api/alarms.ts";
import type { SeenManifests } from "../local/seen-manifests.ts";
import { lostCatalog, wentBack } from "../api/missing-objects.ts";

/** Catalogs of one thread with a change in doubt; at this many no other one is changed. */
export const catalogDoubtsMax = 1_000;
/** Catalogs and claimed manifests that a thread remembers after their databases were closed. */
const catalogsHeldMax = 10_000;

interface HeldCatalog {
  readonly catalog: Catalog | undefined;
  readonly condition: PutCondition;
  /** Without a catalog: the folder was listed, and nothing lies in it. */
  isBare?: boolean;
}

/** A change that was put and may have landed, or may still. */
interface Doubt {
  readonly catalog: Catalog;
  readonly condition: PutCondition;
}

/** What this node has seen of catalogs. */
export interface CatalogMemory {
  readonly places: Pick<SeenManifests, "catalogSeq" | "noteCatalog" | "acceptCatalog">;
  /** Whether an operator accepts that the database's objects were put back to an older state. */
  readonly acceptsRollback: (uuid: string) => boolean;
  /** Called for a catalog that is older than one that was seen, wherever it was found, and when it no longer is. */
  readonly alarms: Pick<Alarms, "note" | "clear">;
  /** Something an operator should know; never content. */
  readonly notice: (message: string, uuid: string) => void;
  /** A change of the database's branches is in doubt: an open handle may belong to a deleted branch. */
  readonly inDoubt: (uuid: string) => void;
}

const racesMax = 64;
const nonceBytes = 16;

/** What `main` is before its first write; it is as old as its database, which the name's claim knows. */
export const bareMain: CatalogBranch = {
  name: mainBranch,
  id: mainBranch,
  createdAtMs: 0,
  parent: undefined,
  ttlAtMs: undefined,
};

/** Whether the catalog is of a database that has been written: then its branches have manifests. */
export function isWritten(catalog: Catalog | undefined): catalog is Catalog {
  return catalog !== undefined && catalog.seq > 0;
}

/**
 * The name of the branch of this id; undefined when it was deleted. Throws StoreError when there is no catalog to tell.
 */
export function findBranchName(catalog: Catalog | undefined, uuid: string, branchId: string): string | undefined {
  if (catalog) return catalog.branches.find(({ id }) => id === branchId)?.name;
  if (branchId !== mainBranch) throw lostCatalog(uuid);
  return mainBranch;
}

export class Catalogs {
  readonly #store: ObjectStore;
  readonly #world: World;
  readonly #memory: CatalogMemory | undefined;
  readonly #held = new LruMap<string, HeldCatalog>(catalogsHeldMax);
  /** Nothing is held of these. */
  readonly #doubts = new Map<string, Doubt>();
  /**
   * For databases whose catalog was put back and accepted by an operator: the ids of branches that a catalog has named
   * since. There are as many as operators accept.
   */
  readonly #namedSincePutBack = new Map<string, Set<string>>();

  constructor(store: ObjectStore, world: World, memory?: CatalogMemory) {
    this.#store = store;
    this.#world = world;
    this.#memory = memory;
  }

  /** The catalog as this thread last knew it, from the store the first time; undefined when there is none. */
  async get(uuid: string): Promise<Catalog | undefined> {
    return (this.#held.get(uuid) ?? (await this.#read(uuid))).catalog;
  }

  /** Forgets what is held of the database's catalog, which is to be removed. */
  forget(uuid: string): void {
    this.#held.delete(uuid);
  }

  /** The catalog in the store now; it holds until the next change. */
  async fresh(uuid: string): Promise<Catalog | undefined> {
    return (await this.#read(uuid)).catalog;
  }

  /**
   * The branch of that name if it exists now; throws branch_not_found otherwise, and database_not_found after a
   * deletion.
   */
  async branch(uuid: string, name: string): Promise<CatalogBranch> {
    const catalog = await this.get(uuid);
    if (catalog?.deletedAtMs !== undefined) throw new ServiceError("database_not_found", "the database was deleted");
    const found =
      catalog?.branches.find((branch) => branch.name === name) ?? (name === mainBranch ? bareMain : undefined);
    if (!found) await this.requireNoRemains(uuid);
    if (found && (found.ttlAtMs ?? Infinity) > this.#world.nowMs()) return found;
    throw new ServiceError("branch_not_found", `branch ${name} does not exist`);
  }

  /** Whether the newest catalog that is known here does not name the branch any more. */
  isDeleted(uuid: string, branchId: string): boolean {
    const catalog = this.#held.peek(uuid)?.catalog;
    return isWritten(catalog) && !catalog.branches.some(({ id }) => id === branchId);
  }

  /**
   * Whether the branch is unknown because this process accepted a catalog that was put back to an older one: then the
   * branch was not deleted, and its file here may be all there is of it.
   */
  wasPutBack(uuid: string, branchId: string): boolean {
    const named = this.#namedSincePutBack.get(uuid);
    return named !== undefined && !named.has(branchId);
  }

  /** Throws StoreError when the database has no catalog, but other objects. */
  async requireNoRemains(uuid: string): Promise<void> {
    const held = this.#held.get(uuid) ?? (await this.#read(uuid));
    if (held.catalog || held.isBare) return;
    // It may have been put since it was looked for.
    if ((await this.hasRemains(uuid)) && !(await this.fresh(uuid))) throw lostCatalog(uuid);
    held.isBare = true;
  }

  /** Whether object storage has anything of the database. */
  async hasRemains(uuid: string): Promise<boolean> {
    return (await this.#store.list(databasePrefix(uuid), { limit: 1 })).objects.length > 0;
  }

  /**
   * Begins the database, whose folder was found empty when it was opened: from now on what lies there is known to be
   * its own.
   */
  async begin(uuid: string): Promise<void> {
    const { catalog, condition } = this.#held.get(uuid) ?? (await this.#read(uuid));
    if (catalog) return;
    // A concurrent `begin` has done the same.
    await this.#replace(uuid, { ...this.#unwritten(uuid), nonce: this.#world.randomBytes(nonceBytes) }, condition);
  }

  /**
   * Makes the catalog say that the database has been written, once its first manifest is there: from now on a missing
   * manifest is a fault. Throws StoreError when the catalog was lost.
   */
  async ensure(uuid: string): Promise<void> {
    const catalog = (await this.get(uuid)) ?? (await this.fresh(uuid));
    if (catalog?.deletedAtMs !== undefined) throw new ServiceError("database_not_found", "the database was deleted");
    if (isWritten(catalog)) return;
    if (!catalog) await this.mend(uuid);
    else await this.update(uuid, ({ seq }) => (seq === 0 ? {} : undefined));
  }

  /**
   * Makes the catalog of a database that was found without one, and has nothing but `main`: any other manifest belongs
   * to a branch whose name is lost. Throws StoreError when the catalog's content is unknown.
   */
  async mend(uuid: string): Promise<void> {
    const { objects } = await this.#store.list(manifestKey(uuid, ""), { limit: 2 });
    // What was known is not forgotten because it is not there any more.
    const isLoneMain = objects.length === 1 && objects[0]!.key === manifestKey(uuid, mainBranch);
    const wasKnown = isWritten(this.#held.peek(uuid)?.catalog) || (this.#memory?.places.catalogSeq(uuid) ?? 0) > 0;
    if (!isLoneMain || wasKnown) throw lostCatalog(uuid);
    await this.update(uuid, ({ seq }) => (seq === 0 ? {} : undefined));
  }

  /**
   * Replaces the catalog of a written database by the same one: from now on no change that was sent before lands. The
   * exclusive holder of a database changes its branches, so that what it knows of them stays true.
   */
  async confirm(uuid: string): Promise<void> {
    await this.update(uuid, ({ seq, deletedAtMs }) => (seq > 0 && deletedAtMs === undefined ? {} : undefined));
  }

  /**
   * Changes the catalog by what `change` gives for the newest one; undefined changes nothing. `change` may throw a
   * refusal.
   */
  async update(
    uuid: string,
    change: (catalog: Catalog) => Partial<Omit<Catalog, "uuid" | "seq" | "nonce">> | undefined,
  ): Promise<Catalog> {
    for (let race = 0; race < racesMax; race++) {
      const held = this.#held.get(uuid) ?? (await this.#read(uuid));
      const before = held.catalog ?? this.#unwritten(uuid);
      const changes = change(before);
      if (!changes) return before;
      const catalog: Catalog = {
        ...before,
        ...changes,
        seq: before.seq + 1,
        nonce: this.#world.randomBytes(nonceBytes),
      };
      if (await this.#replace(uuid, catalog, held.condition)) return catalog;
    }
    throw new StoreError("unavailable", "a catalog changed too often to be changed");
  }

  async #replace(uuid: string, catalog: Catalog, condition: PutCondition): Promise<boolean> {
    if (this.#doubts.size >= catalogDoubtsMax)
      throw new StoreError("unavailable", "object storage has left too many changes of catalogs in doubt");
    // Whatever the outcome, what was held is no longer certain.
    this.#held.delete(uuid);
    this.#world.crashPoint("catalog-put");
    return this.#put(uuid, { catalog, condition });
  }

  /** Puts the catalog. Throws StoreError("unknown_outcome") and keeps the change in mind when it may still land. */
  async #put(uuid: string, change: Doubt): Promise<boolean> {
    const { catalog, condition } = change;
    try {
      const outcome = await surePut(this.#store, catalogKey(uuid), encodeCatalog(catalog), condition);
      if (this.#doubts.get(uuid) === change) this.#doubts.delete(uuid);
      if (outcome.kind === "lost") return false;
      this.#memory?.places.noteCatalog(uuid, catalog.seq);
      this.#hold(uuid, { catalog, condition: { kind: "version", version: outcome.version } });
      return true;
    } catch (error) {
      // One in doubt is enough: of two changes to the same catalog at most one lands, and a change that landed on a
      // newer catalog shows that the other's time is over.
      if (
        error instanceof StoreError &&
        error.kind === "unknown_outcome" &&
        (this.#doubts.get(uuid)?.catalog.seq ?? -1) < catalog.seq
      ) {
        this.#doubts.set(uuid, change);
        this.#held.delete(uuid);
        this.#memory?.inDoubt(uuid);
      }
      throw error;
    }
  }

  /** Offers a change that is in doubt again. Throws StoreError while its outcome is not known. */
  async #resolveDoubt(uuid: string): Promise<void> {
    const doubt = this.#doubts.get(uuid);
    if (doubt) await this.#put(uuid, doubt);
  }

  #unwritten(uuid: string): Catalog {
    const createdAtMs = this.#world.nowMs();
    return {
      uuid,
      seq: 0,
      nonce: new Uint8Array(nonceBytes),
      createdAtMs,
      branches: [{ ...bareMain, createdAtMs }],
      condemned: [],
      deletedAtMs: undefined,
    };
  }

  async #read(uuid: string): Promise<HeldCatalog> {
    await this.#resolveDoubt(uuid);
    for (let attempt = 1; ; attempt++) {
      const read = await this.#readOnce(uuid);
      const { catalog } = read;
      const seenSeq = this.#memory?.places.catalogSeq(uuid) ?? 0;
      if (!catalog || catalog.seq >= seenSeq) {
        if (catalog) this.#memory?.places.noteCatalog(uuid, catalog.seq);
        if (catalog) this.#memory?.alarms.clear(uuid, "catalog");
        this.#hold(uuid, read);
        return read;
      }
      // It may come from a cache that lags.
      if (attempt >= limits.pastManifestLooksMax) return this.#acceptOlder(read, catalog, seenSeq);
      await sleep(this.#world, limits.pastManifestPauseMs);
    }
  }

  /** The catalog was put back to an older state. Throws StoreError unless an operator accepts that. */
  #acceptOlder(read: HeldCatalog, { uuid, seq }: Catalog, seenSeq: number): HeldCatalog {
    if (!this.#memory?.acceptsRollback(uuid)) {
      const error = wentBack(uuid, catalogKey(uuid), `number ${seq}`, `number ${seenSeq}`);
      this.#memory?.alarms.note(uuid, "catalog", error);
      throw error;
    }
    this.#memory.notice(
      "the catalog in object storage is older than this node has seen, and is accepted as it is",
      uuid,
    );
    this.#memory.places.acceptCatalog(uuid, seq);
    this.#namedSincePutBack.set(uuid, new Set());
    // What was held is newer.
    this.#held.delete(uuid);
    this.#hold(uuid, read);
    return read;
  }

  async #readOnce(uuid: string): Promise<HeldCatalog> {
    const held = this.#held.peek(uuid);
    const stored = await this.#store.get(
      catalogKey(uuid),
      held?.condition.kind === "version" ? held.condition.version : undefined,
    );
    if (stored === "same") return held!;
    const catalog = stored && decodeCatalog(stored.bytes);
    if (catalog && catalog.uuid !== uuid)
      throw new StoreError("corrupt", "a catalog stands under another database's name");
    return { catalog, condition: stored ? { kind: "version", version: stored.version } : { kind: "absent" } };
  }

  #hold(uuid: string, held: HeldCatalog): void {
    // Answers may overtake each other: what is known to be newer stays.
    if ((this.#held.peek(uuid)?.catalog?.seq ?? -1) > (held.catalog?.seq ?? -1)) return;
    this.#held.set(uuid, held);
    for (const { id } of held.catalog?.branches ?? []) this.#namedSincePutBack.get(uuid)?.add(id);
  }
}
