/**
 * When the WAL of one open database is checkpointed, and when it is purged of deleted data.
 *
 * Always true: neither happens while the log holds what object storage lacks, nor while a process writes the file;
 * writers are held up for a moment at most, until object storage has caught up. Must not know: how a WAL checkpoint is
 * made (engine/database/wal-checkpointer), what is written.
 */
import type { World } from "../../base/world.ts";
import type { HandleState } from "./handle-state.ts";
import type { WalCheckpointer } from "./wal-checkpointer.ts";
import { Scrub } from "./scrub.ts";

interface LogUpkeepParts {
  readonly state: HandleState;
  readonly log: WalCheckpointer;
  readonly world: World;
  /** Whether a process writes the file now. */
  readonly runsElsewhere: () => boolean;
  /** Makes object storage cover everything soon. */
  readonly hurry: () => void;
  /** Lets writers go on, if they may. */
  readonly wake: () => void;
  /** Something an operator should know; never content. */
  readonly notice: (message: string) => void;
}

/** Looks after the log of one open database. */
export class WalCheckpointPolicy {
  readonly #parts: LogUpkeepParts;
  readonly #state: HandleState;
  readonly #log: WalCheckpointer;
  readonly #scrub: Scrub;

  constructor(parts: LogUpkeepParts) {
    const { state, log, world, runsElsewhere, hurry, wake } = parts;
    this.#parts = parts;
    this.#state = state;
    this.#log = log;
    this.#scrub = new Scrub(log, world, {
      isDrained: () => state.isDrained && !runsElsewhere(),
      ship: hurry,
      wake,
      failure: () => (state.poisoned ? state.loss : undefined),
    });
  }

  /**
   * Takes out of the file and its log whatever was deleted so far. Refused with `unavailable` when the time is over.
   */
  scrub(deadlineMs: number): Promise<void> {
    return this.#scrub.run(deadlineMs);
  }

  /** The shipper has published, or there is reason to look. */
  shippingMoved(): void {
    // Before writers go on: otherwise there might be no moment at which all is shipped.
    this.#state.guarded(() => this.#scrub.moved());
    if (this.#state.isDrained || this.#state.writer.shipper.failing) this.#log.release();
    this.checkpointWalIfDue();
  }

  /**
   * Checkpoints the WAL when it is due; while it holds what is not shipped, writers wait for the shipper a moment at
   * most.
   */
  checkpointWalIfDue(): void {
    if (this.#parts.runsElsewhere() || !this.#log.due) return;
    if (!this.#state.isDrained) {
      const { shipper } = this.#state.writer;
      if (!shipper.failing && this.#log.hold(this.#parts.wake)) shipper.hurry(this.#state.committedTxid);
      return;
    }
    this.#state.guarded(() => {
      if (this.#log.checkpointWal() === "disk-full")
        this.#parts.notice("the disk is full: the log could not be folded in");
    });
  }
}
