/**
 * The open branches of one engine thread: opened on first use, closed when idle, evicted when there are too many.
 *
 * Always true: a slot that opens or closes is waited for, never bypassed (engine/pool/handle-slots); a handle is closed
 * only when object storage covers it, except at the end. How it is opened, closed and rebuilt is for
 * engine/pool/handle-lifecycle. Must not know: what is asked of a database, which nodes hold which.
 */
import { getErrorCode, ServiceError, type StoreError } from "../../base/faults/errors.ts";
import { limits } from "../../base/limits.ts";
import type { LruMap } from "../../base/collections/lru-map.ts";
import { sleep, turn } from "../../base/world.ts";
import type { ManifestWriter } from "../history/manifest-writer.ts";
import type { Catalogs } from "../history/catalogs.ts";
import type { Database } from "../database/database.ts";
import { TurnedAway } from "../api/engine-port.ts";
import { HandleLifecycle, type HandleLifecycleOptions } from "./handle-lifecycle.ts";
import { HandleSlots } from "./handle-slots.ts";
import { IdleHandles } from "./idle-handles.ts";
import { buildBranchKey, type EngineOptions, type Target } from "../api/protocol.ts";

/** Readers go on using an old copy for this long while others hold it; from then on they wait for the new one. */
export const refreshPatienceMs = 1_000;
export interface RegistryOptions extends HandleLifecycleOptions {
  readonly engine: Pick<EngineOptions, "hotHandlesMax" | "idleCloseMs">;
  readonly catalogs: Catalogs;
  /** Uuids of databases that were deleted by way of this thread; a uuid is never used again. */
  readonly deleted: LruMap<string, true>;
}

export class Registry {
  readonly #options: RegistryOptions;
  readonly #slots = new HandleSlots();
  readonly #handles: HandleLifecycle;
  readonly #idle: IdleHandles;
  /** Databases whose files are being removed to be fetched anew; the promise ends when they may be opened again. */
  readonly #purging = new Map<string, Promise<void>>();
  /** No file is opened any more. */
  #ended = false;

  constructor(options: RegistryOptions) {
    this.#options = options;
    this.#handles = new HandleLifecycle(this.#slots, options);
    const { world, engine } = options;
    this.#idle = new IdleHandles({
      slots: this.#slots,
      handles: this.#handles,
      world,
      idleCloseMs: engine.idleCloseMs,
    });
  }

  /** The catalogs by which names of branches are resolved. */
  get catalogs(): Catalogs {
    return this.#options.catalogs;
  }

  /** How many files were opened. */
  get opened(): number {
    return this.#handles.opened;
  }

  /** How many of them gave way to others. */
  get evicted(): number {
    return this.#handles.evicted;
  }

  /** What is open of that name, whether or not its time is over; this is no use of it. */
  peek(target: Target): Database | undefined {
    return this.#slots.get(buildBranchKey(target));
  }

  /** The open database, when it is open now: the fast path, which needs no promise. */
  current(target: Target): Database | undefined {
    const key = buildBranchKey(target);
    const database = this.#slots.get(key);
    if (!database || database.ended) return undefined;
    this.#slots.used(key);
    return database;
  }

  /**
   * The open database, opened or created when it is not: at the newest manifest there is when it is to be a copy, else
   * at the one that this thread has claimed, if it has. Refuses a deleted one, and a caller whose time is over
   * meanwhile.
   */
  async use(target: Target, deadlineMs: number, manifest?: "newest"): Promise<Database> {
    const key = buildBranchKey(target);
    for (;;) {
      if (this.#ended) throw new ServiceError("unavailable", "the node is shutting down", { retryAfterSecs: 1 });
      if (this.#options.deleted.has(target.uuid))
        throw new ServiceError("database_not_found", "the database was deleted meanwhile");
      if (this.#options.world.monotonicMs() > deadlineMs)
        throw new ServiceError("request_timeout", "the request's time was over before its database was open");
      const database = this.current(target);
      if (database) return database;
      const ended = this.#slots.get(key);
      // By a clock that may be wrong: what is not shipped yet stays on the disk.
      if (ended && !ended.surelyEnded)
        throw new ServiceError("branch_not_found", `branch ${target.branch} does not exist`);
      if (ended) await this.removeDeletedBranch(target, ended.opened.branchId);
      else
        await (this.#purging.get(target.uuid) ??
          this.#slots.busy(key) ??
          this.#slots.occupy(key, () => this.#handles.open(key, target, manifest)));
    }
  }

  /**
   * Closes the handle once it is idle and opens the branch at its newest manifest. Until then it stays in use; when it
   * has not become idle for `refreshPatienceMs`, new callers wait for the new one. Leaves alone what object storage
   * does not cover, and what is not to be exchanged any more. When object storage does not give the newer state, the
   * old one is opened again.
   */
  async refresh(target: Target, database: Database, isStillWanted: () => boolean): Promise<void> {
    const { world } = this.#options;
    const key = buildBranchKey(target);
    const patientUntilMs = world.monotonicMs() + refreshPatienceMs;
    for (;;) {
      // In a turn of its own, when every caller that was given the handle has used it.
      await turn(world);
      if (this.#slots.get(key) !== database || !database.isDrained || !isStillWanted()) return;
      if (database.idle || world.monotonicMs() >= patientUntilMs) break;
      await database.rested.next(world, patientUntilMs);
    }
    this.#slots.take(key);
    let hindrance: StoreError | undefined;
    await this.#slots.occupy(key, async () => {
      while (!database.idle && !database.poisoned) await database.rested.next(world);
      if (database.poisoned) return this.#handles.closeFailed(database, target);
      this.#handles.closeHandle(database);
      hindrance = await this.#handles.reopen(key, target, database);
    });
    // Only now: every waiter has a handle by then.
    if (hindrance !== undefined) throw hindrance;
  }

  /**
   * Closes the database's open branches that may be behind their manifests, so that they are opened at the newest: this
   * node is about to write it. Only what it has claimed stays; its manifest's next move tells whether that is still the
   * newest claim.
   */
  async freshen(uuid: string): Promise<void> {
    const { opener, catalogs } = this.#options;
    opener.claims.forget(uuid);
    await catalogs.fresh(uuid);
    for (const key of this.#slots.listKeys(uuid)) {
      if (!this.#slots.get(key)?.claimed) await this.#handles.close(key, async () => {});
    }
  }

  /**
   * Closes what this thread has claimed of the database: another node is to have it. Waits until `untilMs` for the
   * callers it owes an answer, and for object storage to cover it. Otherwise it stays open; `isCovered` says whether
   * object storage has all of it nevertheless. Gives the manifests of what was closed.
   */
  async release(
    uuid: string,
    untilMs: number,
  ): Promise<{ readonly closed: readonly ManifestWriter[]; readonly isCovered: boolean }> {
    const { world } = this.#options;
    const closed: ManifestWriter[] = [];
    // What opens just now may have a manifest that was claimed here.
    const busy = this.#slots.listKeys(uuid).flatMap((key) => this.#slots.busy(key) ?? []);
    await Promise.race([Promise.allSettled(busy), sleep(world, Math.max(0, untilMs - world.monotonicMs()))]);
    for (;;) {
      const left: Database[] = [];
      for (const key of this.#slots.listKeys(uuid)) {
        const database = this.#slots.get(key);
        if (database?.idle && database.isDrained) {
          this.#slots.take(key);
          this.#handles.closeHandle(database);
          closed.push(database.opened.manifest);
        } else if (database && (database.opened.manifest.writerEpoch || !database.isDrained)) {
          left.push(database);
        }
      }
      if (left.length === 0 || world.monotonicMs() >= untilMs)
        return { closed, isCovered: left.every(({ isDrained }) => isDrained) };
      for (const database of left) database.hurry();
      await this.#slots.freed.next(world, untilMs);
    }
  }

  /**
   * Removes this node's copies of the database, with what was set aside, as soon as they are idle: its next use fetches
   * them anew.
   */
  async removeCopies(uuid: string): Promise<void> {
    await this.#openLogs(uuid);
    for (let purging = this.#purging.get(uuid); purging; purging = this.#purging.get(uuid))
      await purging.catch(() => {});
    const purging = this.#removeFiles(uuid).finally(() => this.#purging.delete(uuid));
    this.#purging.set(uuid, purging);
    await purging;
  }

  /** From now on what is open of the database stays open though nobody uses it. */
  keep(uuid: string): void {
    this.#slots.keep(uuid);
  }

  /** Ends that. */
  unkeep(uuid: string): void {
    this.#slots.unkeep(uuid);
  }

  /** Closes every branch of the database, after it has answered every caller, and removes its files: it is deleted. */
  async closeAndRemove(uuid: string): Promise<void> {
    this.#options.deleted.set(uuid, true);
    await this.abandon(uuid);
  }

  /** The same for a database that nobody has: should anybody ask for it, it is a new one. */
  async abandon(uuid: string): Promise<void> {
    this.#options.catalogs.forget(uuid);
    for (const key of this.#slots.listKeys(uuid)) await this.#handles.close(key, async () => {});
    await this.#options.opener.removeDatabase(uuid);
  }

  /**
   * Closes a branch that does not exist any more and removes its file. Its name may be another branch's by now, which
   * is left alone.
   */
  async removeDeletedBranch(target: Target, branchId: string): Promise<void> {
    await this.#removeDeletedBranch(buildBranchKey(target), target.uuid, branchId);
  }

  async #removeDeletedBranch(key: string, uuid: string, branchId: string): Promise<void> {
    const notice = (message: string): void => this.#options.events.notice("warn", message, uuid);
    await this.#handles.close(key, () => this.#options.opener.removeBranch(uuid, branchId, notice), branchId);
  }

  /**
   * Holds the branch exclusively while `act` runs on it: no call waits for it then, and object storage covers all of
   * it. Afterwards the handle is closed, and `afterwards` may exchange the file.
   */
  async exclusively<Value>(
    target: Target,
    deadlineMs: number,
    act: (database: Database) => Promise<{ readonly value: Value; readonly afterwards: () => void }>,
  ): Promise<Value> {
    const { world } = this.#options;
    const key = buildBranchKey(target);
    let database = await this.use(target, deadlineMs);
    // Another waiter for the same handle may have taken it first.
    while (this.#slots.get(key) !== database) database = await this.use(target, deadlineMs);
    this.#slots.take(key);
    let outcome: { readonly value: Value } | { readonly error: unknown } | undefined;
    await this.#slots.occupy(key, async () => {
      try {
        await this.#waitUntilDrained(database, deadlineMs);
        const { value, afterwards } = await act(database);
        // A caller that got the handle before it was taken asks for nothing that is not covered already.
        while (!database.idle) await database.rested.next(world);
        this.#handles.closeHandle(database);
        afterwards();
        outcome = { value };
      } catch (error) {
        outcome = { error };
        // A refusal has changed nothing. After anything else it is unknown what the manifest will say.
        if (!(error instanceof ServiceError || error instanceof TurnedAway)) database.failHandle(error);
        if (database.poisoned) await this.#handles.closeFailed(database, target);
        else this.#slots.release(key, database);
      }
    });
    if (outcome && "value" in outcome) return outcome.value;
    throw outcome?.error;
  }

  /**
   * Closes the handles of the database's branches that do not exist any more: one that was in use when it was to be
   * closed stays open.
   */
  async removeOtherBranches(uuid: string, branchIds: ReadonlySet<string>): Promise<void> {
    for (const [key, { opened }] of [...this.#slots.entries()]) {
      if (opened.uuid !== uuid || branchIds.has(opened.branchId)) continue;
      await this.#removeDeletedBranch(key, uuid, opened.branchId);
    }
  }

  /** Begins `act` at an instant at which no branch of the database opens or closes, with those that are open. */
  async between<Value>(uuid: string, act: (open: readonly Database[]) => Promise<Value>): Promise<Value> {
    for (let busy = this.#slots.findBusy(uuid); busy; busy = this.#slots.findBusy(uuid)) {
      // Whether it opens or fails does not matter here: it is looked up again.
      await busy.catch(() => {});
    }
    return act(this.#slots.listOpen(uuid));
  }

  /** Every open database, least recently used first. */
  databases(): Iterable<Database> {
    return this.#slots.databases();
  }

  /** The manifests of what is open. */
  manifests(): ManifestWriter[] {
    return Array.from(this.databases(), ({ opened }) => opened.manifest);
  }

  /** Closes what was not used for long, or lets it rest; says whether more wait. */
  closeIdle(): boolean {
    return this.#idle.tick();
  }

  /**
   * Closes every file; one that cannot be closed does not keep the others open. Then gives back what was only reserved.
   */
  async closeAll(): Promise<void> {
    this.#handles.endTries();
    const { world } = this.#options;
    const lastMs = world.monotonicMs() + limits.lastShipMs;
    await Promise.all(
      [...this.#slots.databases()].map(async (database) => {
        database.hurry();
        while (!database.isDrained && !database.poisoned && world.monotonicMs() < lastMs)
          await database.rested.next(world, lastMs);
      }),
    );
    const closings = this.#slots.keys().map((key) => this.#handles.close(key, async () => {}));
    for (const outcome of await Promise.allSettled(closings)) {
      if (outcome.status === "rejected")
        this.#options.events.notice("warn", `a file stayed open at the end (${getErrorCode(outcome.reason)})`, "");
    }
    await this.#releaseIds(lastMs);
  }

  async #releaseIds(untilMs: number): Promise<void> {
    this.#ended = true;
    // A caller that came so late that a file is open or opening again may still write it.
    if (!this.#slots.isEmpty) return;
    try {
      await this.#options.opener.claims.releaseAllIds((manifest) => this.#handles.isCovered(manifest), untilMs);
    } catch (error) {
      this.#options.events.notice("warn", `transaction ids stayed reserved at the end (${getErrorCode(error)})`, "");
    }
  }

  /** What this node acknowledged and has not shipped is shipped first, if it still can be: it may be nowhere else. */
  async #removeFiles(uuid: string): Promise<void> {
    const { world, opener } = this.#options;
    const untilMs = world.monotonicMs() + limits.lastShipMs;
    for (const key of this.#slots.listKeys(uuid)) {
      for (let database = this.#slots.get(key); database && !database.isDrained; database = this.#slots.get(key)) {
        if (world.monotonicMs() > untilMs)
          throw new ServiceError("unavailable", "the copy holds what is not shipped yet; try again", {
            retryAfterSecs: 1,
          });
        database.hurry();
        await database.rested.next(world, untilMs + 1);
      }
      await this.#handles.close(key, async () => {});
    }
    await opener.removeCopy(uuid);
  }

  /** Opens the database's branches whose logs hold something: their files may be its only copy. */
  async #openLogs(uuid: string): Promise<void> {
    const { opener, world } = this.#options;
    for (const branch of await opener.namesWithLogs(uuid))
      await this.use({ uuid, branch }, world.monotonicMs() + limits.lastShipMs, "newest");
  }

  async #waitUntilDrained(database: Database, deadlineMs: number): Promise<void> {
    const { world } = this.#options;
    while (!database.idle || !database.isDrained) {
      if (database.poisoned)
        throw new ServiceError("unavailable", "the database's storage failed; try again", { retryAfterSecs: 1 });
      if (world.monotonicMs() > deadlineMs)
        throw new ServiceError(
          "request_timeout",
          "the branch stayed in use for the request's whole time; nothing was changed",
        );
      database.hurry();
      await database.rested.next(world, deadlineMs + 1);
    }
  }
}
