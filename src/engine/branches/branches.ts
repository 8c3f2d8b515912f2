/**
 * Forks, names, lists and deletes branches, and names their states.
 *
 * Each is a pure transition of a manifest and the catalog, so its cost is the length of a list, never the size of the
 * data. Always true: a branch exists from the moment the catalog names it; whatever its manifest refers to is then not
 * condemned. Branches come and go only where no other node can hold the database: its holder believes the catalog that
 * it has. Rewinding, which also exchanges the open file, is in engine/branches/rewind.
 */
import { assert } from "../../base/faults/assert.ts";
import { invalid, ServiceError, StoreError } from "../../base/faults/errors.ts";
import { limits } from "../../base/limits.ts";
import { KeyedMutex } from "../../base/collections/keyed-mutex.ts";
import type { World } from "../../base/world.ts";
import { compareBranchNames, type Catalog, type CatalogBranch } from "../../format/history/catalog.ts";
import { encodeManifest, type Manifest } from "../../format/history/manifest.ts";
import type { History } from "../../format/history/history.ts";
import { mainBranch } from "../../format/core/names.ts";
import { manifestKey } from "../../format/keys/object-keys.ts";
import type { NamedCheckpoint } from "../../format/history/refs.ts";
import { putImmutable } from "../../store/port/sure-put.ts";
import { ManifestWriter, Fenced, type ManifestWriterOptions } from "../history/manifest-writer.ts";
import { bareMain, isWritten, type Catalogs } from "../history/catalogs.ts";
import { changeHistory, readHistory, refuseCheckpoint } from "../history/branch-history.ts";
import { forkedManifest, findRestorePlan, referenced, type Plan } from "../history/timelines.ts";
import { lostCatalog, lostManifest } from "../api/missing-objects.ts";
import { fenceWriter } from "./fence-writer.ts";
import type { PageSource } from "../segments/pool-objects.ts";
import type { BranchRecord, BranchResults } from "../api/protocol.ts";
import { findPastPlan } from "../segments/past-point.ts";
import { readStatePoint } from "../segments/restore.ts";
import { withUploads } from "../history/uploads.ts";

export interface BranchParts {
  readonly catalogs: Catalogs;
  readonly world: World;
  readonly nodeId: string;
  /** The point-in-time window of a database. */
  readonly pitrMs: (uuid: string) => number;
  /** Whether no other node can hold the database now. */
  readonly isCertain: (uuid: string) => boolean;
  /** Page data of one database. */
  readonly source: (uuid: string) => PageSource;
}

const forkRacesMax = 32;

/** How to restore the state that a checkpoint's name, a transaction id or a time means. Throws not_found. */
export function planTo(
  { world, pitrMs, source }: Pick<BranchParts, "world" | "pitrMs" | "source">,
  manifest: Manifest,
  history: History,
  to: string,
): Promise<Plan> {
  const cutoffMs = world.nowMs() - pitrMs(manifest.uuid);
  return findPastPlan(source(manifest.uuid), { manifest, history, cutoffMs }, to);
}

export class Branches {
  readonly #parts: BranchParts;
  /** For changes of a database's branches, by uuid: otherwise each would make the others begin again. */
  readonly #turns = new KeyedMutex();

  constructor(parts: BranchParts) {
    this.#parts = parts;
  }

  /**
   * Forks the branch of `parent` as its manifest in the store has it, or as it was at a checkpoint or txid. The caller
   * has shipped what the fork is to see.
   */
  async fork(
    parent: ManifestWriter,
    parentName: string,
    name: string,
    at: string | undefined,
    ttlSecs: number | undefined,
  ): Promise<BranchResults["fork"]> {
    return this.#turns.take(parent.now.uuid, () => this.#fork(parent, parentName, name, at, ttlSecs));
  }

  async #fork(
    parent: ManifestWriter,
    parentName: string,
    name: string,
    at: string | undefined,
    ttlSecs: number | undefined,
  ): Promise<BranchResults["fork"]> {
    const { catalogs, world } = this.#parts;
    const { uuid, branchId } = parent.now;
    this.#requireCertain(uuid);
    for (let race = 0; race < forkRacesMax; race++) {
      // The catalog first, then the manifest: what this manifest refers to was not condemned then. If anything has been
      // condemned since, and perhaps deleted, the catalog has changed and this begins again.
      const catalog = await catalogs.get(uuid);
      refuseTaken(catalog, name, world.time.sureMs());
      // The caller that forks has claimed the parent, which made the catalog.
      if (!isWritten(catalog)) throw lostCatalog(uuid);
      const manifest = (await this.#readManifest(uuid, branchId)).now;
      const history = await readHistory(this.#parts.source(uuid).store, manifest);
      const child = await this.#buildChild(manifest, history, at);
      const nowMs = world.nowMs();
      const ttlAtMs = ttlSecs === undefined ? undefined : nowMs + ttlSecs * 1_000;
      const branch: CatalogBranch = {
        name,
        id: child.branchId,
        createdAtMs: nowMs,
        ttlAtMs,
        parent: { name: parentName, id: manifest.branchId, forkTxid: child.txid },
      };
      if (await this.#announce(uuid, catalog.seq, branch, child))
        return { branch: name, parent: parentName, forkTxid: child.txid, ttlAtMs };
    }
    throw new ServiceError("unavailable", "what the fork refers to is being collected; try again", {
      retryAfterSecs: 1,
    });
  }

  async #buildChild(manifest: Manifest, history: History, at: string | undefined): Promise<Manifest> {
    const { world, nodeId } = this.#parts;
    const source = this.#parts.source(manifest.uuid);
    const plan =
      at === undefined
        ? findRestorePlan(manifest, history, manifest.txid)
        : await planTo(this.#parts, manifest, history, at);
    if (!plan) throw new ServiceError("not_found", "the branch has no state to fork yet");
    const point =
      plan.txid === manifest.txid
        ? { committedAtMs: manifest.committedAtMs, pages: manifest.pages }
        : await readStatePoint(source, manifest, plan);
    const own = { branchId: world.ulid(), nonce: world.randomBytes(16), node: nodeId, ...point };
    const child = await forkedManifest(manifest, history, plan.txid, own, source.press);
    if (!child) throw new ServiceError("not_found", `transaction ${plan.txid} cannot be restored`);
    return child;
  }

  /**
   * Writes the child's manifest, then makes it a branch; false when the catalog is no longer the one that the fork
   * began with.
   */
  async #announce(uuid: string, seq: number, branch: CatalogBranch, child: Manifest): Promise<boolean> {
    const { catalogs, world } = this.#parts;
    await putImmutable(this.#parts.source(uuid).store, manifestKey(uuid, child.branchId), encodeManifest(child));
    world.crashPoint("fork-head-put");
    const needed = new Set([...referenced(child, undefined), `head/${child.branchId}`]);
    let announced = false;
    await catalogs.update(uuid, (catalog) => {
      announced = false;
      if (catalog.branches.some(({ id }) => id === branch.id)) {
        announced = true;
        return undefined;
      }
      this.#requireCertain(uuid);
      refuseTaken(catalog, branch.name, world.time.sureMs());
      if (!catalog.branches.some(({ id }) => id === branch.parent?.id))
        throw new ServiceError("branch_not_found", `branch ${branch.parent?.name} was deleted meanwhile`);
      if (catalog.seq !== seq) return undefined;
      assert(!catalog.condemned.some(({ key }) => needed.has(key)), "what a manifest refers to is not condemned");
      announced = true;
      const others = catalog.branches.filter(({ name }) => name !== branch.name);
      return { branches: [...others, branch].sort((a, b) => compareBranchNames(a.name, b.name)) };
    });
    return announced;
  }

  /** Every branch that exists now, `main` first. `openTxid` gives the txid of an open branch. */
  async list(uuid: string, openTxid: (branch: CatalogBranch) => number | undefined): Promise<BranchResults["list"]> {
    const { catalogs, isCertain } = this.#parts;
    await catalogs.requireNoRemains(uuid);
    const catalog = await (isCertain(uuid) ? catalogs.get(uuid) : catalogs.fresh(uuid));
    const live = (isWritten(catalog) ? catalog.branches : [bareMain]).filter(
      ({ ttlAtMs }) => (ttlAtMs ?? Infinity) > this.#parts.world.nowMs(),
    );
    const branches: BranchRecord[] = [];
    for (let from = 0; from < live.length; from += limits.restoreFetchesMax) {
      const some = live.slice(from, from + limits.restoreFetchesMax);
      branches.push(...(await Promise.all(some.map(async (branch) => this.#record(uuid, branch, openTxid(branch))))));
    }
    return { branches };
  }

  async #record(uuid: string, branch: CatalogBranch, openTxid: number | undefined): Promise<BranchRecord> {
    const { name, parent, createdAtMs, ttlAtMs } = branch;
    const txid = openTxid ?? (branch === bareMain ? 0 : (await this.#readManifest(uuid, branch.id)).now.txid);
    return { name, parent: parent?.name, forkTxid: parent?.forkTxid, txid, createdAtMs, ttlAtMs };
  }

  /** The manifest of a branch that has one. */
  async #readManifest(uuid: string, branchId: string): Promise<ManifestWriter> {
    const manifest = await ManifestWriter.read(this.#manifestOptions(uuid, branchId));
    if (!manifest.exists) throw lostManifest(uuid, branchId);
    return manifest;
  }

  #manifestOptions(uuid: string, branchId: string): ManifestWriterOptions {
    const { source, world, nodeId } = this.#parts;
    return { store: source(uuid).store, world, nodeId, uuid, branchId };
  }

  /** Takes the branch out of the catalog, then fences any writer it may still have. Throws branch_not_found. */
  async remove(uuid: string, name: string): Promise<CatalogBranch> {
    if (name === mainBranch) throw invalid("the branch main cannot be deleted");
    this.#requireCertain(uuid);
    const branch = await this.#parts.catalogs.branch(uuid, name);
    await this.#turns.take(uuid, () => this.#takeOut(uuid, branch));
    return branch;
  }

  /** Takes every branch whose time is surely over out of the catalog, and gives them. */
  async removeExpired(uuid: string): Promise<readonly CatalogBranch[]> {
    const { catalogs, world } = this.#parts;
    const expired =
      (await catalogs.get(uuid))?.branches.filter(({ ttlAtMs }) => (ttlAtMs ?? Infinity) <= world.time.sureMs()) ?? [];
    for (const branch of expired) await this.#turns.take(uuid, () => this.#takeOut(uuid, branch));
    return expired;
  }

  /** The catalog first: had the fence come first and the rest failed, the branch would live on without its writer. */
  async #takeOut(uuid: string, branch: CatalogBranch): Promise<void> {
    await this.#parts.catalogs.update(uuid, (catalog) => {
      this.#requireCertain(uuid);
      const others = catalog.branches.filter(({ id }) => id !== branch.id);
      return others.length === catalog.branches.length ? undefined : { branches: others };
    });
    try {
      await fenceWriter(this.#manifestOptions(uuid, branch.id));
    } catch (error) {
      // The branch is gone regardless, and with its manifest, which the collector takes, every writer's last chance.
      if (!(error instanceof StoreError) && !(error instanceof Fenced)) throw error;
    }
  }

  /**
   * Asked before each change: another node may have taken the database since the last one. A change under way then
   * comes too late (engine/pool/ownership-transfer).
   */
  #requireCertain(uuid: string): void {
    if (this.#parts.isCertain(uuid)) return;
    throw new ServiceError(
      "unavailable",
      "this node's lease is not certain now, and another node may hold the database; no branch was changed",
      { retryAfterSecs: 1 },
    );
  }

  /**
   * Fences the writers of all branches of the deleted database. One that cannot be reached ends with its manifest,
   * which is purged.
   */
  async fenceAll(uuid: string): Promise<void> {
    for (const { id } of (await this.#parts.catalogs.get(uuid))?.branches ?? []) {
      try {
        await fenceWriter(this.#manifestOptions(uuid, id));
      } catch (error) {
        if (!(error instanceof StoreError) && !(error instanceof Fenced)) throw error;
      }
    }
  }

  /** Names the state of the manifest. The same name for another state is already_exists. */
  async name(manifest: ManifestWriter, name: string): Promise<BranchResults["checkpoint"]> {
    const { world } = this.#parts;
    let txid = manifest.now.txid;
    await this.#changeHistory(manifest, (now, history) => {
      const taken = history.checkpoints.find((checkpoint) => checkpoint.name === name);
      txid = now.txid;
      if (taken?.txid === txid) return undefined;
      if (taken)
        throw new ServiceError("already_exists", `checkpoint ${name} exists and stands for transaction ${taken.txid}`);
      refuseCheckpoint(history, now.refs.length);
      const checkpoint: NamedCheckpoint = { name, txid, createdAtMs: world.nowMs() };
      return { history: { ...history, checkpoints: [...history.checkpoints, checkpoint] }, with: () => ({}) };
    });
    return { checkpoint: name, txid };
  }

  /** The named states of the branch, oldest first. */
  async names(manifest: ManifestWriter): Promise<BranchResults["checkpoints"]> {
    const { checkpoints } = await readHistory(this.#parts.source(manifest.now.uuid).store, manifest.now);
    return { checkpoints: [...checkpoints].sort((a, b) => a.txid - b.txid || a.createdAtMs - b.createdAtMs) };
  }

  /** Takes a name back. Throws not_found. */
  async deleteCheckpoint(manifest: ManifestWriter, name: string): Promise<void> {
    let found = false;
    await this.#changeHistory(manifest, (_, history) => {
      const checkpoints = history.checkpoints.filter((checkpoint) => checkpoint.name !== name);
      if (checkpoints.length === history.checkpoints.length) return undefined;
      found = true;
      return { history: { ...history, checkpoints }, with: () => ({}) };
    });
    if (!found) throw new ServiceError("not_found", `checkpoint ${name} does not exist on this branch`);
  }

  async #changeHistory(manifest: ManifestWriter, change: Parameters<typeof changeHistory>[2]): Promise<void> {
    await withUploads(manifest, (uploads) =>
      changeHistory(this.#parts.source(manifest.now.uuid).store, uploads, change),
    );
  }
}

/** A name is free again once its branch is gone, or its time is surely over: then taking the name ends that branch. */
function refuseTaken(catalog: Catalog | undefined, name: string, sureMs: number): void {
  if (name === mainBranch) throw new ServiceError("already_exists", "the branch main always exists");
  const taken = catalog?.branches.find((branch) => branch.name === name);
  if (taken && (taken.ttlAtMs ?? Infinity) > sureMs) throw new ServiceError("already_exists", `branch ${name} exists`);
  if ((catalog?.branches.length ?? 0) >= limits.branchesMax)
    throw invalid(`a database has at most ${limits.branchesMax} branches; delete some first`);
}
