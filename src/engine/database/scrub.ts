/**
 * Purges one open database's files of deleted data: the log, the slack of pages, and pages that are cached.
 *
 * Always true when a run has ended well: nothing that was deleted before it began is in the file or its log, on disk,
 * or can come back there. Writers are held up for a moment at most, and only while object storage catches up with the
 * log; a reader that needs the log is waited for. Must not know: what was deleted, the queue.
 */
import { ServiceError } from "../../base/faults/errors.ts";
import { limits } from "../../base/limits.ts";
import { sleep, type World } from "../../base/world.ts";
import type { WalCheckpointer } from "./wal-checkpointer.ts";

/** An erasure that waits for a reader looks again after this, and then more and more rarely, up to the time above. */
const scrubRetryMsMin = 5;
/** It stops this long before its caller does, so that the caller hears why. */
const scrubAnswerMs = 100;

/** The open database whose files these are. */
export interface Scrubbed {
  /** Whether object storage covers everything that was committed. */
  readonly isDrained: () => boolean;
  /** Makes it so soon. */
  readonly ship: () => void;
  /** Lets writers go on, if they may. */
  readonly wake: () => void;
  /** Why the file is of no use any more; undefined while it is usable. */
  readonly failure: () => ServiceError | undefined;
}

export class Scrub {
  readonly #log: WalCheckpointer;
  readonly #world: World;
  readonly #database: Scrubbed;
  /** Whether a run waits for its purge. One purge serves every waiter: all that they deleted is committed. */
  #wanted = false;
  #pauseMs: number = scrubRetryMsMin;
  #nextTryMs = -Infinity;
  #nextHoldMs = -Infinity;

  constructor(log: WalCheckpointer, world: World, database: Scrubbed) {
    this.#log = log;
    this.#world = world;
    this.#database = database;
  }

  /** Refused with `unavailable` shortly before the deadline. Throws what storage threw. */
  async run(deadlineMs: number): Promise<void> {
    const { failure, wake } = this.#database;
    const isInTime = (): boolean => failure() === undefined && this.#world.monotonicMs() < deadlineMs - scrubAnswerMs;
    await this.#log.learn(isInTime);
    this.#wanted = true;
    this.#pauseMs = scrubRetryMsMin;
    this.#nextTryMs = -Infinity;
    this.#nextHoldMs = -Infinity;
    try {
      for (this.#seek(); this.#wanted; this.#seek()) {
        const failed = failure();
        if (failed) throw failed;
        if (!isInTime())
          throw new ServiceError(
            "unavailable",
            "a long read, or object storage, keeps the erased data on this node's disk; ask again",
            { retryAfterSecs: 1 },
          );
        await sleep(this.#world, scrubRetryMsMin);
      }
    } finally {
      this.#log.release();
      wake();
    }
    await this.#log.sync();
  }

  /** Object storage has come to cover more: this may be the moment. */
  moved(): void {
    if (!this.#wanted || !this.#database.isDrained() || this.#world.monotonicMs() < this.#nextTryMs) return;
    this.#wanted = !this.#log.checkpointAndEvict();
    this.#nextTryMs = this.#world.monotonicMs() + this.#pauseMs;
    this.#pauseMs = Math.min(2 * this.#pauseMs, limits.checkpointRetryMs);
  }

  /** Tries now, or holds writers up until object storage has caught up with them. */
  #seek(): void {
    const { isDrained, ship, wake } = this.#database;
    this.moved();
    const nowMs = this.#world.monotonicMs();
    if (!this.#wanted || isDrained() || nowMs < this.#nextTryMs) return;
    ship();
    // A store that hangs must not stop writers again and again.
    if (nowMs < this.#nextHoldMs) return;
    this.#nextHoldMs = nowMs + 10 * limits.foldHoldMsMax;
    this.#log.holdNow(wake);
  }
}
