/**
 * The open branches of one engine thread: opened on first use, closed when idle, evicted when there are too many.
 *
 * Always true: a file has at most one open handle here; a slot that opens or closes is waited for, never bypassed; a
 * poisoned handle is abandoned and rebuilt before anybody else gets it; a handle is closed only when object storage
 * covers it, except at the end. Must not know: what is asked of a database, which nodes hold which.
 */
import { assert } from "../base/assert.ts";
import { codeOf, ServiceError, StoreError } from "../base/errors.ts";
import { limits } from "../base/limits.ts";
import { Recent } from "../base/recent.ts";
import { sleep, type World } from "../base/world.ts";
import { releaseFreedMemory } from "../sqlite/guard.ts";
import { Fenced, type BranchHead } from "./branch-head.ts";
import type { Catalogs } from "./catalogs.ts";
import type { Database } from "./database.ts";
import type { DatabaseEvents } from "./database-options.ts";
import type { Dockyard } from "./dockyard.ts";
import { TurnedAway } from "./engine-port.ts";
import type { EngineOptions, Target } from "./protocol.ts";
import { isPatching } from "./restore.ts";

export interface RegistryOptions {
  readonly engine: Pick<EngineOptions, "hotHandlesMax" | "idleCloseMs" | "databasesDirectory">;
  readonly world: World;
  readonly catalogs: Catalogs;
  /** Makes open databases. */
  readonly dockyard: Dockyard;
  readonly events: Omit<DatabaseEvents, "poisoned" | "notice"> & {
    /** Something an operator should know; never content. */
    notice(level: "info" | "warn", message: string, uuid: string): void;
    /** The branch was opened. */
    opened(database: Database): void;
    /** The handle is about to be closed in order: a last look at it is possible. */
    closing(database: Database): void;
  };
}

/** How often a waiter looks again, and how often before it gives up: ten seconds in all. */
const lookAgainMs = 2;
const looksMax = 5_000;
/** Between two tries to prove the log of a failed disk. */
const proofPauseMsMax = 10_000;

export class Registry {
  readonly #options: RegistryOptions;
  /** In order of use, the least recent first. */
  readonly #open = new Map<string, Database>();
  /** Opening, closing or rebuilding: the promise ends when the key may be looked at again; a failure is everybody's who waited. */
  readonly #busy = new Map<string, Promise<void>>();
  /** Uuids of deleted databases; a uuid is never used again. */
  readonly #dropped = new Recent<string, true>(limits.droppedRememberedMax);
  /** Databases whose files are being removed to be fetched anew; the promise ends when they may be opened again. */
  readonly #purging = new Map<string, Promise<void>>();
  /** Files that are being opened: they count as open, or a burst would pass the cap. */
  #opening = 0;
  #closing = false;
  /** No file is opened any more. */
  #ended = false;
  /** Heads of handles that were closed with something that object storage does not cover. */
  readonly #uncovered = new WeakSet<BranchHead>();
  opened = 0;
  evicted = 0;
  #closedSinceTrim = 0;

  constructor(options: RegistryOptions) {
    this.#options = options;
  }

  /** The catalogs by which names of branches are resolved. */
  get catalogs(): Catalogs {
    return this.#options.catalogs;
  }

  /** Whether the database was deleted by way of this thread. */
  wasDropped(uuid: string): boolean {
    return this.#dropped.has(uuid);
  }

  /** What is open of that name, whether or not its time is over; this is no use of it. */
  peek(target: Target): Database | undefined {
    return this.#open.get(keyOf(target));
  }

  /** The open database, when it is open now: the fast path, which needs no promise. */
  current(target: Target): Database | undefined {
    const key = keyOf(target);
    const database = this.#open.get(key);
    if (!database || database.ended) return undefined;
    this.#open.delete(key);
    this.#open.set(key, database);
    return database;
  }

  /**
   * The open database, opened or created when it is not: at the newest head there is when it is to be a copy, else at the
   * one that this thread has claimed, if it has. Refuses a deleted one, and whoever's time is over meanwhile.
   */
  async use(target: Target, deadlineMs: number, head?: "newest"): Promise<Database> {
    const key = keyOf(target);
    for (;;) {
      if (this.#ended) throw new ServiceError("unavailable", "the node is shutting down", { retryAfterSecs: 1 });
      if (this.#dropped.has(target.uuid)) throw new ServiceError("database_not_found", "the database was deleted meanwhile");
      if (this.#options.world.monotonicMs() > deadlineMs) throw new ServiceError("request_timeout", "the request's time was over before its database was open");
      const database = this.current(target);
      if (database) return database;
      const ended = this.#open.get(key);
      // By a clock that may be wrong: what is not shipped yet stays on the disk.
      if (ended && !ended.surelyEnded) throw new ServiceError("branch_not_found", `branch ${target.branch} does not exist`);
      if (ended) await this.retire(target, ended.opened.branchId);
      else await (this.#purging.get(target.uuid) ?? this.#busy.get(key) ?? this.#occupy(key, () => this.#openBranch(key, target, head)));
    }
  }

  /**
   * Closes the handle once nobody uses it and opens the branch at its newest head. Until then it is used on; when it has
   * not become idle for `refreshPatienceMs`, those who come wait for the new one. Leaves alone what is not covered by
   * object storage, and what is not to be exchanged any more. When object storage does not give the newer state, the old
   * one is opened again.
   */
  async refresh(target: Target, database: Database, isStillWanted: () => boolean): Promise<void> {
    const { world } = this.#options;
    const key = keyOf(target);
    const patientUntilMs = world.monotonicMs() + limits.refreshPatienceMs;
    for (;;) {
      // In a turn of its own, when everybody who was given the handle has used it.
      await sleep(world, lookAgainMs);
      if (this.#open.get(key) !== database || !database.settled || !isStillWanted()) return;
      if (database.idle || world.monotonicMs() >= patientUntilMs) break;
    }
    this.#open.delete(key);
    let hindrance: StoreError | undefined;
    await this.#occupy(key, async () => {
      while (!database.idle && !database.poisoned) await sleep(world, lookAgainMs);
      if (database.poisoned) return this.#abandon(database, target);
      this.#shut(database);
      // Its place among the open ones stays its own.
      this.#opening++;
      hindrance = await this.#reopen(key, target, database);
    });
    // Only now: those who waited have a handle all the same.
    if (hindrance !== undefined) throw hindrance;
  }

  /**
   * Closes what is open of the database and may be behind its heads, so that it is opened at the newest: this node is
   * about to write it. Only what it has claimed stays; whether that is still the newest claim its head's next move tells.
   */
  async freshen(uuid: string): Promise<void> {
    const { dockyard, catalogs } = this.#options;
    dockyard.claims.forget(uuid);
    await catalogs.fresh(uuid);
    for (const key of this.#ownOf(uuid)) {
      if (!this.#open.get(key)?.claimed) await this.#close(key, async () => {});
    }
  }

  /**
   * Closes what this thread has claimed of the database: another node is to have it. Waits until `untilMs` for whoever it
   * owes an answer, and for object storage to cover it. What does not come to that stays open; `isCovered` says whether
   * object storage has all of it nevertheless. Gives the heads of what was closed.
   */
  async release(uuid: string, untilMs: number): Promise<{ readonly closed: readonly BranchHead[]; readonly isCovered: boolean }> {
    const { world } = this.#options;
    const closed: BranchHead[] = [];
    // What opens just now may have a head that was claimed here.
    const busy = this.#ownOf(uuid).flatMap((key) => this.#busy.get(key) ?? []);
    await Promise.race([Promise.allSettled(busy), sleep(world, Math.max(0, untilMs - world.monotonicMs()))]);
    for (;;) {
      const left: Database[] = [];
      for (const key of this.#ownOf(uuid)) {
        const database = this.#open.get(key);
        if (database?.idle && database.settled) {
          this.#open.delete(key);
          this.#shut(database);
          closed.push(database.opened.head);
        } else if (database && (database.opened.head.tenure || !database.settled)) {
          left.push(database);
        }
      }
      if (left.length === 0 || world.monotonicMs() >= untilMs) return { closed, isCovered: left.every(({ settled }) => settled) };
      for (const database of left) database.hurry();
      await sleep(world, lookAgainMs);
    }
  }

  /** Removes this node's copies of the database, with what was set aside, as soon as nobody uses them: its next use fetches them anew. */
  async purgeCopies(uuid: string): Promise<void> {
    await this.#openLogs(uuid);
    for (let purging = this.#purging.get(uuid); purging; purging = this.#purging.get(uuid)) await purging.catch(() => {});
    const purging = this.#purge(uuid).finally(() => this.#purging.delete(uuid));
    this.#purging.set(uuid, purging);
    await purging;
  }

  /** Closes every branch of the database, after everyone it owes an answer has it, and removes its files. */
  async drop(uuid: string): Promise<void> {
    this.#dropped.set(uuid, true);
    for (const key of this.#ownOf(uuid)) await this.#close(key, async () => {});
    await this.#options.dockyard.removeDatabase(uuid);
  }

  /** Closes a branch that does not exist any more and removes its file. Its name may be another branch's by now, which is left alone. */
  async retire(target: Target, branchId: string): Promise<void> {
    await this.#close(keyOf(target), async () => this.#options.dockyard.removeBranch(target.uuid, branchId), branchId);
  }

  /**
   * Keeps everybody else from the branch while `act` runs on it: nobody waits for it then, and object storage covers all
   * of it. Afterwards the handle is closed, and `afterwards` may exchange the file.
   */
  async exclusively<Value>(target: Target, deadlineMs: number, act: (database: Database) => Promise<{ readonly value: Value; readonly afterwards: () => void }>): Promise<Value> {
    const key = keyOf(target);
    let database = await this.use(target, deadlineMs);
    // Whoever waited for the same handle may have taken it first.
    while (this.#open.get(key) !== database) database = await this.use(target, deadlineMs);
    this.#open.delete(key);
    let outcome: { readonly value: Value } | { readonly error: unknown } | undefined;
    await this.#occupy(key, async () => {
      try {
        await this.#settled(database, deadlineMs);
        const { value, afterwards } = await act(database);
        // Whoever came by the handle before it was taken asks for nothing that is not covered already.
        while (!database.idle) await sleep(this.#options.world, lookAgainMs);
        this.#shut(database);
        afterwards();
        outcome = { value };
      } catch (error) {
        outcome = { error };
        // A refusal has changed nothing. After anything else nobody knows what the head will come to say.
        if (!(error instanceof ServiceError || error instanceof TurnedAway)) database.giveUp(error);
        if (database.poisoned) await this.#abandon(database, target);
        else this.#release(key, database);
      }
    });
    if (outcome && "value" in outcome) return outcome.value;
    throw outcome?.error;
  }

  /** Closes what is open of the database's branches that do not exist any more: one that was in use when it was to be closed stays open. */
  async retireOthers(uuid: string, branchIds: ReadonlySet<string>): Promise<void> {
    for (const [key, { opened }] of [...this.#open]) {
      if (opened.uuid !== uuid || branchIds.has(opened.branchId)) continue;
      await this.#close(key, async () => this.#options.dockyard.removeBranch(uuid, opened.branchId), opened.branchId);
    }
  }

  /** Begins `act` at an instant at which no branch of the database opens or closes, with those that are open. */
  async between<Value>(uuid: string, act: (open: readonly Database[]) => Promise<Value>): Promise<Value> {
    const isOwn = (key: string): boolean => key.startsWith(`${uuid}/`);
    for (;;) {
      const busy = this.#busy.entries().find(([key]) => isOwn(key));
      if (!busy) break;
      // Whether it opens or fails is of no interest here: it is looked again.
      await busy[1].catch(() => {});
    }
    return act([...this.#open].filter(([key]) => isOwn(key)).map(([, database]) => database));
  }

  /** Every open database, least recently used first. */
  databases(): Iterable<Database> {
    return this.#open.values();
  }

  /** Closes what nobody has used for `idleCloseMs`, for as long as a housekeeper may hold the thread; says whether more wait. */
  closeIdle(): boolean {
    const { world, engine } = this.#options;
    const startedMs = world.monotonicMs();
    for (const [key, database] of this.#open) {
      if (world.monotonicMs() - startedMs > limits.housekeepingBudgetMs) return true;
      if (!database.idle || !database.settled || database.lastUsedMs > startedMs - engine.idleCloseMs) continue;
      this.#open.delete(key);
      this.#shut(database);
      this.#closedSinceTrim++;
    }
    if (this.#closedSinceTrim >= limits.closedPerTrim) {
      this.#closedSinceTrim = 0;
      releaseFreedMemory();
    }
    return false;
  }

  /** Closes every file; one that cannot be closed does not keep the others open. Then gives back what was only reserved. */
  async closeAll(): Promise<void> {
    this.#closing = true;
    const { world } = this.#options;
    const lastMs = world.monotonicMs() + limits.lastShipMs;
    for (const database of this.#open.values()) database.hurry();
    while ([...this.#open.values()].some((database) => !database.settled) && world.monotonicMs() < lastMs) await sleep(world, lookAgainMs);
    const closings = [...this.#open.keys(), ...this.#busy.keys()].map((key) => this.#close(key, async () => {}));
    for (const outcome of await Promise.allSettled(closings)) {
      if (outcome.status === "rejected") this.#options.events.notice("warn", `a file stayed open at the end (${codeOf(outcome.reason)})`, "");
    }
    await this.#giveBackIds(lastMs);
  }

  async #giveBackIds(untilMs: number): Promise<void> {
    this.#ended = true;
    // Who came so late that a file is open or opening again may still write it.
    if (this.#open.size > 0 || this.#busy.size > 0) return;
    try {
      await this.#options.dockyard.claims.giveBackAll((head) => !this.#uncovered.has(head), untilMs);
    } catch (error) {
      this.#options.events.notice("warn", `transaction ids stayed reserved at the end (${codeOf(error)})`, "");
    }
  }

  /** Keeps everybody else from the key while `act` runs. */
  #occupy(key: string, act: () => Promise<void>): Promise<void> {
    assert(!this.#busy.has(key) && !this.#open.has(key), "a key is occupied by one at a time");
    const acting: Promise<void> = act().finally(() => {
      if (this.#busy.get(key) === acting) this.#busy.delete(key);
    });
    this.#busy.set(key, acting);
    // One promise for all, so that those who came first go on first.
    return acting;
  }

  /** Ends an occupation with an open handle, in one step: the handle may fail at once, and then its key is occupied again. */
  #release(key: string, database: Database): void {
    this.#busy.delete(key);
    this.#open.set(key, database);
  }

  async #openBranch(key: string, target: Target, head: "newest" | undefined): Promise<void> {
    await this.#reserveRoom();
    await this.#openReserved(key, target, head);
  }

  /** Opens the branch in the place that was taken for it. */
  async #openReserved(key: string, target: Target, head: BranchHead | "newest" | undefined): Promise<void> {
    const { dockyard, events } = this.#options;
    // A recovered log is synced from the first instant on, and that may fail before anybody has the handle.
    const failures: { readonly error: unknown }[] = [];
    let database: Database | undefined;
    try {
      const bound = {
        ...events,
        notice: (message: string) => events.notice("warn", message, target.uuid),
        poisoned: (error: unknown) => void (database ? this.#rebuild(key, target, database, error) : failures.push({ error })),
      };
      database = await dockyard.open(target, bound, head);
      this.opened++;
      this.#release(key, database);
      const [failure] = failures;
      if (failure) this.#rebuild(key, target, database, failure.error);
      else events.opened(database);
    } finally {
      this.#opening--;
    }
  }

  /** Opens the branch anew in the place of the closed handle; at the old state when the new one cannot be had. Gives what was in the way. */
  async #reopen(key: string, target: Target, old: Database): Promise<StoreError | undefined> {
    try {
      await this.#openReserved(key, target, "newest");
      return undefined;
    } catch (error) {
      if (!(error instanceof StoreError) || isPatching(old.path)) throw error;
      this.#opening++;
      await this.#openReserved(key, target, old.opened.head);
      return error;
    }
  }

  /** Closes the handle, and remembers how far the branch was served. */
  #shut(database: Database): void {
    this.#options.dockyard.noteSeen(database);
    this.#options.events.closing(database);
    try {
      database.close();
    } catch (error) {
      // The handle is gone all the same, and whoever opens the file next finds what it holds.
      this.#options.events.notice("warn", `a file did not close in order (${codeOf(error)})`, database.opened.uuid);
    }
  }

  /** The keys of the database under which something is open, or is about to be. */
  #ownOf(uuid: string): readonly string[] {
    return [...this.#open.keys(), ...this.#busy.keys()].filter((key) => key.startsWith(`${uuid}/`));
  }

  /** What this node acknowledged and has not shipped is shipped first, if it still can be: it may be nowhere else. */
  async #purge(uuid: string): Promise<void> {
    const { world, dockyard } = this.#options;
    const untilMs = world.monotonicMs() + limits.lastShipMs;
    for (const key of this.#ownOf(uuid)) {
      for (let database = this.#open.get(key); database && !database.settled; database = this.#open.get(key)) {
        if (world.monotonicMs() > untilMs) throw new ServiceError("unavailable", "the copy holds what is not shipped yet; try again", { retryAfterSecs: 1 });
        database.hurry();
        await sleep(world, lookAgainMs);
      }
      await this.#close(key, async () => {});
    }
    await dockyard.removeCopy(uuid);
  }

  /** Opens the database's branches whose logs hold something: their files may be all there is of it. */
  async #openLogs(uuid: string): Promise<void> {
    const { dockyard, world } = this.#options;
    for (const branch of await dockyard.namesWithLogs(uuid)) await this.use({ uuid, branch }, world.monotonicMs() + limits.lastShipMs, "newest");
  }

  async #settled(database: Database, deadlineMs: number): Promise<void> {
    const { world } = this.#options;
    while (!database.idle || !database.settled) {
      if (database.poisoned) throw new ServiceError("unavailable", "the database's storage failed; try again", { retryAfterSecs: 1 });
      if (world.monotonicMs() > deadlineMs) throw new ServiceError("request_timeout", "the branch stayed in use for the request's whole time; nothing was changed");
      database.hurry();
      await sleep(world, lookAgainMs);
    }
  }

  /** Takes a place among the open handles: the least recently used idle one gives way; waits when all are in use. */
  async #reserveRoom(): Promise<void> {
    for (let look = 0; look < looksMax; look++) {
      if (this.#open.size + this.#opening < this.#options.engine.hotHandlesMax) {
        this.#opening++;
        return;
      }
      const idle = this.#open.entries().find(([, database]) => database.idle && database.settled);
      if (idle) {
        this.#open.delete(idle[0]);
        this.#shut(idle[1]);
        this.evicted++;
      } else {
        // The oldest is asked to become closable.
        this.#open.values().next().value?.hurry();
        await sleep(this.#options.world, lookAgainMs);
      }
    }
    throw new ServiceError("overloaded", "every database handle of this node is in use", { retryAfterSecs: 1 });
  }

  /** Closes what is open under the key, or only the branch of that id, and calls `then`. */
  async #close(key: string, then: () => Promise<void>, branchId?: string): Promise<void> {
    for (let look = 0; look < looksMax; look++) {
      const busy = this.#busy.get(key);
      const database = this.#open.get(key);
      if (busy) {
        // An opening that failed leaves nothing to close.
        await busy.catch(() => {});
      } else if (database && branchId !== undefined && database.opened.branchId !== branchId) {
        return then();
      } else if (database && !database.idle) {
        await sleep(this.#options.world, lookAgainMs);
      } else {
        this.#open.delete(key);
        if (database && !database.settled) this.#uncovered.add(database.opened.head);
        if (database) this.#shut(database);
        return this.#occupy(key, then);
      }
    }
    throw new ServiceError("unavailable", "the database stayed in use and could not be closed", { retryAfterSecs: 1 });
  }

  /**
   * After a storage failure: everyone is refused, whoever reads or syncs is waited for, the log is proven anew. Until
   * that succeeds the key stays busy: a log that may not be on disk is never opened as if it were. A branch that was lost
   * to another writer goes the same way; what its file is worth is judged when it is opened again.
   */
  #rebuild(key: string, target: Target, database: Database, error: unknown): void {
    const { events, dockyard } = this.#options;
    const why = error instanceof Fenced ? "another node has claimed the branch" : `storage failed (${codeOf(error)})`;
    events.notice("warn", `${why}; the database is opened again once its log is proven`, target.uuid);
    dockyard.forget(database, error, (message) => events.notice("warn", message, target.uuid));
    // An exclusive act holds the key already, and abandons the handle itself.
    if (this.#open.get(key) !== database) return;
    this.#open.delete(key);
    void this.#occupy(key, () => this.#abandon(database, target));
  }

  async #abandon(database: Database, target: Target): Promise<void> {
    const { world, events, dockyard } = this.#options;
    dockyard.noteSeen(database);
    while (database.inUse) await sleep(world, lookAgainMs);
    try {
      database.abandon();
    } catch (fault) {
      events.notice("warn", `the failed handle did not close in order (${codeOf(fault)})`, target.uuid);
    }
    for (let pauseMs = lookAgainMs; ; pauseMs = Math.min(pauseMs * 2, proofPauseMsMax)) {
      try {
        return await dockyard.prove(database);
      } catch (fault) {
        events.notice("warn", `the log could not be proven (${codeOf(fault)}); ${this.#closing ? "whoever opens it next tries again" : "trying again"}`, target.uuid);
        if (this.#closing) return;
        await sleep(world, pauseMs);
      }
    }
  }
}

/** Uuids and branch names hold no slash, so the two parts can never run into each other. */
function keyOf(target: Target): string {
  return `${target.uuid}/${target.branch}`;
}
