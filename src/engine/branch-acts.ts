/**
 * What is asked of a database's branches, done with the handles that are open: ship first, then act on the manifests.
 */
import { ServiceError, StoreError } from "../base/faults/errors.ts";
import type { Catalog } from "../format/history/catalog.ts";
import { eraseTarget } from "./erasure/erase-live-rows.ts";
import type { ErasureRunner } from "./erasure/erasure-runner.ts";
import { needsOperator } from "./api/failures.ts";
import { branchesWithLogs } from "./local/database-files.ts";
import type { Database } from "./database/database.ts";
import type { Branches, BranchParts } from "./branches/branches.ts";
import { Fenced } from "./history/manifest-writer.ts";
import { isWritten, findBranchName } from "./history/catalogs.ts";
import { TurnedAway } from "./api/engine-port.ts";
import {
  computeLane,
  type Answer,
  type BranchAct,
  type BranchResults,
  type EngineOptions,
  type Target,
} from "./api/protocol.ts";
import { lostCatalog } from "./api/missing-objects.ts";
import type { ExpiredBranches } from "./pool/expired-branches.ts";
import type { Registry } from "./pool/registry.ts";
import { rewindBranch } from "./branches/rewind.ts";
import { shipped } from "./pool/shipped.ts";
import type { ExpiryIndexWriter } from "./maintenance/expiry-index-writer.ts";
import type { ExpiredRowSweeper } from "./maintenance/expired-row-sweeper.ts";
import type { Compactor } from "./compaction/compactor.ts";

export interface BranchActsOptions {
  readonly registry: Registry;
  readonly branches: Branches;
  readonly expired: ExpiredBranches;
  readonly parts: BranchParts;
  readonly compactor: Compactor;
  readonly erasureRunner: ErasureRunner;
  readonly sweeper: ExpiredRowSweeper;
  readonly due: ExpiryIndexWriter;
  /** Objects of the database have lost their last reference, or may have after so long. */
  readonly leftBehind: (uuid: string, afterMs?: number) => void;
  /** Something an operator should know; never content. */
  readonly notice: (message: string, uuid: string) => void;
}

export class BranchActs {
  readonly #options: BranchActsOptions;

  constructor(options: BranchActsOptions) {
    this.#options = options;
  }

  async run(
    target: Target,
    act: BranchAct,
    minTxid: number,
    deadlineMs: number,
  ): Promise<Answer<BranchResults[BranchAct["act"]]>> {
    const { registry } = this.#options;
    if (act.act === "delete") return this.#delete(target, act.name, deadlineMs);
    if (act.act === "rewind") return this.#rewind(target, act.to, deadlineMs);
    // It speaks of the whole database, which may be deleted: of no state of the branch.
    if (act.act === "expunge")
      return {
        value: await this.#options.erasureRunner.run(target.uuid, act.coupons, deadlineMs),
        txid: 0,
        durableTxid: 0,
      };
    if (act.act === "sweep") return this.#sweep(target.uuid, act.branchId, deadlineMs);
    const database = await registry.use(target, deadlineMs);
    return telling(database, () => this.#act(database, target, act, minTxid, deadlineMs));
  }

  async #act(
    database: Database,
    target: Target,
    act: Exclude<BranchAct, { act: "delete" | "rewind" | "expunge" | "sweep" }>,
    minTxid: number,
    deadlineMs: number,
  ): Promise<Answer<BranchResults[BranchAct["act"]]>> {
    const { branches, parts } = this.#options;
    await this.#prove(database);
    const refusal = database.findMinTxidRefusal(minTxid);
    if (refusal) throw refusal;
    switch (act.act) {
      case "list":
        return buildAnswer(
          database,
          await branches.list(target.uuid, ({ id, name }) => this.#openTxid(target.uuid, id, name)),
        );
      case "fork":
        return buildAnswer(database, await this.#fork(database, target, act));
      case "checkpoint":
        return buildAnswer(database, await branches.name(await shipped(database), act.name));
      case "checkpoints":
        return buildAnswer(database, await branches.names(database.opened.manifest));
      case "forget-checkpoint":
        await branches.deleteCheckpoint(await shipped(database), act.name);
        this.#options.leftBehind(target.uuid);
        return buildAnswer(database, undefined);
      case "erase":
        return eraseTarget(database, act, (await parts.catalogs.get(target.uuid))?.branches ?? [], deadlineMs);
    }
  }

  async #fork(
    database: Database,
    { uuid, branch }: Target,
    { name, at, ttlSecs }: Extract<BranchAct, { act: "fork" }>,
  ): Promise<BranchResults["fork"]> {
    const { branches, parts, leftBehind, due } = this.#options;
    const forked = await branches.fork(await shipped(database), branch, name, at, ttlSecs);
    if (forked.ttlAtMs === undefined || ttlSecs === undefined) return forked;
    leftBehind(uuid, ttlSecs * 1_000);
    const child = (await parts.catalogs.get(uuid))?.branches.find((one) => one.name === name);
    // The database may not be open anywhere then.
    if (child) due.note({ uuid, branchId: child.id, atMs: forked.ttlAtMs });
    return forked;
  }

  /** Removes what is due, for an entry of the index. Speaks of no state: no caller has seen one. */
  async #sweep(uuid: string, branchId: string, deadlineMs: number): Promise<Answer<undefined>> {
    const { registry, expired, parts, sweeper, compactor, leftBehind, due } = this.#options;
    const nothing = { value: undefined, txid: 0, durableTxid: 0 };
    const catalog = await parts.catalogs.fresh(uuid);
    if (catalog?.deletedAtMs !== undefined) return nothing;
    // What is due stays noted: only a database of which nothing is left has nothing to remove.
    if (!catalog && (await parts.catalogs.hasRemains(uuid))) throw lostCatalog(uuid);
    if ((await expired.remove(uuid)).length > 0) leftBehind(uuid);
    const branch = (await parts.catalogs.get(uuid))?.branches.find(({ id }) => id === branchId);
    if (!branch) return nothing;
    if (branch.ttlAtMs !== undefined) {
      // Not surely over by the clock of this thread, or never over: the entry that led here is removed.
      due.note({ uuid, branchId, atMs: branch.ttlAtMs });
      if (branch.ttlAtMs <= parts.world.nowMs()) return nothing;
    }
    const database = await registry.use({ uuid, branch: branch.name }, deadlineMs);
    await sweeper.sweepDue(database);
    if (database.claimed) compactor.trim(database.opened.manifest);
    return nothing;
  }

  /**
   * Resolves a change of the catalog that was left in doubt, and does what is left to do if it landed. Throws
   * StoreError while it cannot.
   */
  async resolveDoubt(uuid: string): Promise<void> {
    const { parts, due, leftBehind } = this.#options;
    const catalog = await parts.catalogs.get(uuid);
    await this.#removeGoneBranches(uuid, catalog);
    for (const { id, ttlAtMs } of catalog?.branches ?? [])
      if (ttlAtMs !== undefined) due.note({ uuid, branchId: id, atMs: ttlAtMs });
    leftBehind(uuid);
  }

  /** Closes the handles of branches that the catalog does not name: their deletion came late. */
  async #removeGoneBranches(uuid: string, catalog: Catalog | undefined): Promise<void> {
    if (!isWritten(catalog) || catalog.deletedAtMs !== undefined) return;
    await this.#options.registry.removeOtherBranches(uuid, new Set(catalog.branches.map(({ id }) => id)));
  }

  /** Ends branches whose time is over, and removes history that has left the window, as far as they are open here. */
  async groom(uuid: string): Promise<void> {
    const { registry, compactor, parts } = this.#options;
    await this.#options.expired.remove(uuid);
    await this.#removeGoneBranches(uuid, await parts.catalogs.get(uuid));
    for (const database of registry.databases()) {
      if (database.opened.uuid === uuid && database.claimed && !database.poisoned)
        compactor.trim(database.opened.manifest);
    }
  }

  /**
   * Opens the branches of this thread whose logs an earlier run has left, so that they are shipped without a call. Says
   * whether some could not be opened now.
   */
  async recover(options: Pick<EngineOptions, "databasesDirectory" | "lane" | "lanes">): Promise<boolean> {
    let again = false;
    for (const { uuid, branchId } of branchesWithLogs(options.databasesDirectory)) {
      if (computeLane(uuid, options.lanes) !== options.lane) continue;
      try {
        await this.#openById(uuid, branchId);
      } catch (error) {
        // A branch that is gone has nothing to ship; for one whose data cannot be used waiting does not help.
        again ||= error instanceof StoreError && !needsOperator(error);
        if (needsOperator(error))
          this.#options.notice(`a log of an earlier run could not be shipped: ${error.message}`, uuid);
      }
    }
    return again;
  }

  async #openById(uuid: string, branchId: string): Promise<void> {
    const catalog = await this.#options.parts.catalogs.get(uuid);
    const name = findBranchName(catalog, uuid, branchId);
    if (name !== undefined && catalog?.deletedAtMs === undefined)
      await this.#options.registry.use({ uuid, branch: name }, Infinity);
  }

  /**
   * Another node may have changed what this node knows of the branch's past, unless the lease or object storage rules
   * it out.
   */
  async #prove(database: Database): Promise<void> {
    if (this.#options.parts.isCertain(database.opened.uuid)) return;
    try {
      await database.prove();
    } catch (error) {
      // Nothing has happened.
      throw error instanceof Fenced ? new TurnedAway("unheld") : error;
    }
  }

  #openTxid(uuid: string, branchId: string, name: string): number | undefined {
    const database = this.#options.registry.current({ uuid, branch: name });
    return database?.opened.branchId === branchId ? database.safeTxid : undefined;
  }

  async #delete(target: Target, name: string, deadlineMs: number): Promise<Answer<undefined>> {
    const { registry, branches, leftBehind } = this.#options;
    const { id } = await branches.remove(target.uuid, name);
    await registry.removeDeletedBranch({ uuid: target.uuid, branch: name }, id);
    leftBehind(target.uuid);
    if (target.branch === name) return { value: undefined, txid: 0, durableTxid: 0 };
    return buildAnswer(await registry.use(target, deadlineMs), undefined);
  }

  async #rewind(target: Target, to: string, deadlineMs: number): Promise<Answer<BranchResults["rewind"]>> {
    const { registry, parts } = this.#options;
    return registry.exclusively(target, deadlineMs, (database) =>
      telling(database, async () => {
        await this.#prove(database);
        if (!database.opened.manifest.exists)
          throw new ServiceError("not_found", "the branch has no past to go back to");
        const { txid, writerEpochId } = await database.claimNext();
        const { rewoundTo, exchange } = await rewindBranch(parts, {
          manifest: database.opened.manifest,
          path: database.path,
          txid,
          writerEpochId,
          to,
        });
        return { value: { value: { rewoundTo }, txid, durableTxid: txid }, afterwards: exchange };
      }),
    );
  }
}

/** Runs the act; its refusals tell how far the branch is. */
async function telling<Value>(database: Database, act: () => Promise<Value>): Promise<Value> {
  try {
    return await act();
  } catch (error) {
    if (!(error instanceof ServiceError) || error instanceof Fenced) throw error;
    throw new ServiceError(error.code, error.message, { txid: database.safeTxid, ...error.detail });
  }
}

function buildAnswer<Value>(database: Database, value: Value): Answer<Value> {
  return { value, txid: database.safeTxid, durableTxid: database.durableTxid };
}
