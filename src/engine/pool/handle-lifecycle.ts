/**
 * How a handle is opened, closed, evicted, and rebuilt after a failure.
 *
 * Always true:
 * - a failed handle is abandoned, and its log proven before another caller gets the branch
 * - a handle that gives way to another is covered by object storage
 * - there are never more handles than there may be
 *
 * Must not know: who asks for a branch, and when it is to be closed.
 */
import { getErrorCode, ServiceError, StoreError } from "../../base/faults/errors.ts";
import { sleep, type World } from "../../base/world.ts";
import { Fenced, type ManifestWriter } from "../history/manifest-writer.ts";
import type { Database } from "../database/database.ts";
import type { DatabaseEvents } from "../database/database-options.ts";
import type { DatabaseOpener } from "./database-opener.ts";
import type { HandleSlots } from "./handle-slots.ts";
import type { EngineOptions, Target } from "../api/protocol.ts";
import { isPatching } from "../segments/restore.ts";

/** What handles are opened with, and who hears of it. */
export interface HandleLifecycleOptions {
  readonly engine: Pick<EngineOptions, "hotHandlesMax">;
  readonly world: World;
  /** Makes open databases. */
  readonly opener: DatabaseOpener;
  readonly events: Omit<DatabaseEvents, "poisoned" | "notice" | "rested"> & {
    /** Something an operator should know; never content. */
    notice(level: "info" | "warn", message: string, uuid: string): void;
    /** The branch was opened. */
    opened(database: Database): void;
    /** The handle is about to be closed in order: a last look at it is possible. */
    closing(database: Database): void;
  };
}

/** A caller waits this long for a handle that others use. */
const patienceMs = 10_000;
/** Before a log that could not be proven is tried again; twice as long each time. */
const proofPauseMsMin = 2;
/** Between two tries to prove the log of a failed disk. */
const proofPauseMsMax = 10_000;

/** Opens and closes the handles of one engine thread. */
export class HandleLifecycle {
  readonly #options: HandleLifecycleOptions;
  readonly #slots: HandleSlots;
  /** Manifests of handles that were closed with something that object storage does not cover. */
  readonly #uncovered = new WeakSet<ManifestWriter>();
  #opened = 0;
  #evicted = 0;
  #isEnding = false;

  constructor(slots: HandleSlots, options: HandleLifecycleOptions) {
    this.#slots = slots;
    this.#options = options;
  }

  /** How many handles were opened. */
  get opened(): number {
    return this.#opened;
  }

  /** How many of them had to give way to others. */
  get evicted(): number {
    return this.#evicted;
  }

  /** Whether the manifest's handle was closed with all that was committed on it in object storage. */
  isCovered(manifest: ManifestWriter): boolean {
    return !this.#uncovered.has(manifest);
  }

  /** From now on a log that cannot be proven is left to the next opening. */
  endTries(): void {
    this.#isEnding = true;
  }

  /** Opens the branch under its key, which the caller occupies, once there is room. */
  async open(key: string, target: Target, manifest: "newest" | undefined): Promise<void> {
    await this.#reserveRoom();
    await this.#openReserved(key, target, manifest);
  }

  /** Opens the branch in the place that was taken for it. */
  async #openReserved(key: string, target: Target, manifest: ManifestWriter | "newest" | undefined): Promise<void> {
    const { opener, events } = this.#options;
    // A recovered log is synced from the first instant on, and that may fail before any caller has the handle.
    const failures: { readonly error: unknown }[] = [];
    let database: Database | undefined;
    try {
      const bound = {
        ...events,
        rested: () => {
          // Only while a caller waits, as every commit comes by here.
          if (this.#slots.freed.isAwaited && database?.idle && database.isDrained) this.#slots.freed.raise();
        },
        notice: (message: string) => events.notice("warn", message, target.uuid),
        poisoned: (error: unknown) =>
          void (database ? this.#rebuild(key, target, database, error) : failures.push({ error })),
      };
      database = await opener.open(target, bound, manifest);
      this.#opened++;
      this.#slots.release(key, database);
      const [failure] = failures;
      if (failure) this.#rebuild(key, target, database, failure.error);
      else events.opened(database);
    } finally {
      this.#slots.unreserve();
    }
  }

  /**
   * Opens the branch anew in the place of the closed handle; at the old state when the new one is not available. Gives
   * the obstacle.
   */
  async reopen(key: string, target: Target, old: Database): Promise<StoreError | undefined> {
    // Its place among the open ones stays its own.
    this.#slots.reserve();
    try {
      await this.#openReserved(key, target, "newest");
      return undefined;
    } catch (error) {
      if (!(error instanceof StoreError) || isPatching(old.path)) throw error;
      this.#slots.reserve();
      await this.#openReserved(key, target, old.opened.manifest);
      return error;
    }
  }

  /** Closes the handle, and remembers how far the branch was served. */
  closeHandle(database: Database): void {
    this.#options.opener.noteSeen(database);
    this.#options.events.closing(database);
    try {
      database.close();
    } catch (error) {
      // The handle is gone even so, and the next opening of the file finds what it holds.
      this.#options.events.notice(
        "warn",
        `a file did not close in order (${getErrorCode(error)})`,
        database.opened.uuid,
      );
    }
  }

  /** Takes a place among the open handles: the least recently used idle one gives way; waits when all are in use. */
  async #reserveRoom(): Promise<void> {
    const { world } = this.#options;
    const untilMs = world.monotonicMs() + patienceMs;
    do {
      if (this.#slots.count < this.#options.engine.hotHandlesMax) {
        this.#slots.reserve();
        return;
      }
      const idle = this.#slots.closable().next().value;
      if (idle) {
        this.#slots.take(idle[0]);
        this.closeHandle(idle[1]);
        this.#evicted++;
      } else {
        // The oldest is asked to become closable.
        this.#slots.databases().next().value?.hurry();
        await this.#slots.freed.next(world, untilMs);
      }
    } while (world.monotonicMs() < untilMs);
    throw new ServiceError("overloaded", "every database handle of this node is in use", { retryAfterSecs: 1 });
  }

  /** Closes what is open under the key, or only the branch of that id, and calls `then`. */
  async close(key: string, then: () => Promise<void>, branchId?: string): Promise<void> {
    const { world } = this.#options;
    const untilMs = world.monotonicMs() + patienceMs;
    do {
      const busy = this.#slots.busy(key);
      const database = this.#slots.get(key);
      if (busy) {
        // An opening that failed leaves nothing to close.
        await busy.catch(() => {});
      } else if (database && branchId !== undefined && database.opened.branchId !== branchId) {
        return then();
      } else if (database && !database.idle) {
        await database.rested.next(world, untilMs);
      } else {
        this.#slots.take(key);
        if (database && !database.isDrained) this.#uncovered.add(database.opened.manifest);
        if (database) this.closeHandle(database);
        return this.#slots.occupy(key, then);
      }
    } while (world.monotonicMs() < untilMs);
    throw new ServiceError("unavailable", "the database stayed in use and could not be closed", { retryAfterSecs: 1 });
  }

  /**
   * After a storage failure: every caller is refused, reads and syncs under way are waited for, the log is proven anew.
   * Until that succeeds the key stays busy: a log that may not be on disk is never opened as if it were. A branch that
   * was lost to another writer goes the same way; what its file is worth is judged at the next opening.
   */
  #rebuild(key: string, target: Target, database: Database, error: unknown): void {
    const { events, opener } = this.#options;
    const why =
      error instanceof Fenced ? "another node has claimed the branch" : `storage failed (${getErrorCode(error)})`;
    events.notice("warn", `${why}; the database is opened again once its log is proven`, target.uuid);
    opener.forget(database, error, (message) => events.notice("warn", message, target.uuid));
    database.mayRest();
    // An exclusive act holds the key already, and abandons the handle itself.
    if (this.#slots.get(key) !== database) return;
    this.#slots.take(key);
    void this.#slots.occupy(key, () => this.closeFailed(database, target));
  }

  /** Closes a failed handle, and resolves when its log is proven: only then is it opened again. */
  async closeFailed(database: Database, target: Target): Promise<void> {
    const { world, events, opener } = this.#options;
    opener.noteSeen(database);
    while (database.inUse) await database.rested.next(world);
    try {
      database.closeFailed();
    } catch (fault) {
      events.notice("warn", `the failed handle did not close in order (${getErrorCode(fault)})`, target.uuid);
    }
    for (let pauseMs = proofPauseMsMin; ; pauseMs = Math.min(pauseMs * 2, proofPauseMsMax)) {
      try {
        return await opener.prove(database);
      } catch (fault) {
        events.notice(
          "warn",
          "the log could not be proven " +
            `(${getErrorCode(fault)}); ${this.#isEnding ? "whoever opens it next tries again" : "trying again"}`,
          target.uuid,
        );
        if (this.#isEnding) return;
        await sleep(world, pauseMs);
      }
    }
  }
}
