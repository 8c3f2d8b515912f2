/**
 * The writes of one open database from their arrival to their commit: which are let in, what makes a round, what waits.
 *
 * Always true:
 * - what waits is bounded, and a write beyond that is refused at once
 * - a round begins only while the database is held and its branch claimed, within the reserved transaction ids, and
 *   while the disk keeps up
 *
 * Must not know: reads, who the callers are, how a log is synced or shipped.
 */
import { Batcher } from "../../base/collections/batcher.ts";
import { ServiceError } from "../../base/faults/errors.ts";
import { limits } from "../../base/limits.ts";
import type { ReplyGate } from "./reply-gate.ts";
import { CommitRound } from "./commit-round.ts";
import type { DatabaseOptions, WriteItem } from "./database-options.ts";
import { DrainRate } from "../shipping/drain-rate.ts";
import type { HandleState } from "./handle-state.ts";
import type { WalCheckpointer } from "./wal-checkpointer.ts";
import { notShipping } from "./refusals.ts";
import { WriteReplies } from "./write-replies.ts";
import type { Transactions } from "./transactions.ts";

const groupCommandsMax = 64;
const groupBytesMax = 1024 * 1024;
/** Bytes of input that may wait in one database's queue. */
const writeQueueBytesMax = 128 * 1024 * 1024;
/** While an fsync is under way, a group waits for it unless this many commands are ready: more writes per fsync. */
const groupCommandsEager = 32;

interface WriteQueueParts extends Pick<DatabaseOptions, "world" | "writeQueueDepth" | "slices" | "turn"> {
  readonly state: HandleState;
  readonly log: WalCheckpointer;
  readonly answers: ReplyGate;
  readonly transactions: Transactions;
  /** Whether an fsync of the log is under way. */
  readonly isSyncing: () => boolean;
  /** Makes this node the branch's writer, and wakes the queue. */
  readonly claim: () => Promise<void>;
  /** Takes note of the commit of these items. */
  readonly note: (items: readonly WriteItem[]) => void;
  /** Checkpoints the WAL if that is due. */
  readonly checkpointWalIfDue: () => void;
  /** Told when no write waits any more and none is under way. */
  readonly rested: () => void;
}

/** The writes of one open database. */
export class WriteQueue {
  readonly #parts: WriteQueueParts;
  readonly #state: HandleState;
  readonly #queue: Batcher<WriteItem>;
  readonly #committing: CommitRound;
  readonly #replies: WriteReplies;
  readonly #drain: DrainRate;

  constructor(parts: WriteQueueParts) {
    this.#parts = parts;
    this.#state = parts.state;
    this.#drain = new DrainRate(parts.world);
    const replies = (this.#replies = new WriteReplies(parts));
    this.#committing = new CommitRound({
      ...parts,
      live: (items) => replies.live(items),
      done: (items, transaction) => replies.done(items, transaction),
      failed: (error, items) => replies.failed(error, items),
      ranElsewhere: (item, end) => replies.ranElsewhere(item, end),
    });
    this.#queue = this.#open();
  }

  /** How many writes wait for their turn. */
  get waiting(): number {
    return this.#queue.waiting;
  }

  /** Whether none waits and none is under way. */
  get idle(): boolean {
    return this.#queue.idle;
  }

  /**
   * Whether a transaction is under way in a process of its own. Then nothing else is written, checkpointed or closed.
   */
  get runsElsewhere(): boolean {
    return this.#committing.runsElsewhere;
  }

  /** Queues a write; refused with `overloaded` when the queue is full. Settles after the fsync that covers it. */
  offer(item: WriteItem): void {
    const { log, answers, checkpointWalIfDue } = this.#parts;
    const { writer, safeTxid } = this.#state;
    if (this.#state.poisoned) return this.#replies.refuse([item]);
    if (item.durable && !writer.shipperOrNone) return item.completion.failed(notShipping(), safeTxid);
    if (log.full) checkpointWalIfDue();
    const lag = log.full && this.#state.isDrained ? "a long read holds back the log" : writer.lag;
    if (lag !== undefined) return item.completion.failed(this.overloaded(lag), safeTxid);
    if ((item.durable || !writer.isSole) && answers.unshipped >= limits.parkedAnswersMax)
      return item.completion.failed(this.overloaded("too many answers wait for object storage"), safeTxid);
    if (!this.#queue.offer(item))
      item.completion.failed(this.overloaded("the database's write queue is full"), safeTxid);
  }

  /** Goes on, if it may. */
  wake(): void {
    this.#queue.wake();
  }

  /** What was committed is on disk: the rate at which writes leave. */
  synced(): void {
    this.#drain.end();
  }

  /** Turns away every write that has not begun: another node may have the database. */
  turnAway(): void {
    this.#replies.turnAway(this.#queue.drain());
  }

  /** Refuses every write that has not begun: the handle has failed. */
  refuse(): void {
    this.#replies.refuse(this.#queue.drain());
  }

  /** Why a call is refused that would wait too long, and when to come again. */
  overloaded(why: string): ServiceError {
    const retryAfterSecs = this.#drain.secsFor(this.#queue.waiting);
    return new ServiceError("overloaded", `${why}; nothing was written, try again`, { retryAfterSecs });
  }

  #open(): Batcher<WriteItem> {
    const { world, answers, isSyncing, writeQueueDepth, turn = (act: () => void) => act() } = this.#parts;
    return new Batcher<WriteItem>({
      capacity: writeQueueDepth,
      itemsMax: groupCommandsMax,
      bytesMax: groupBytesMax,
      waitingBytesMax: writeQueueBytesMax,
      measureItem: (item) => item.bytes,
      takesPlace: (item) => item.work.kind === "sql" || item.work.command !== "sweep",
      act: (items) => this.#commitRound(items),
      // A hung disk must not let committed but unanswered writes pile up: then the queue fills and sheds.
      ready: (waiting) =>
        this.#mayCommit() && (!isSyncing() || (waiting >= groupCommandsEager && answers.waiting < writeQueueDepth)),
      soon: (act) => world.soon(() => turn(act)),
      rested: this.#parts.rested,
      onBug: (error, items) => {
        for (const item of items) item.completion.failed(error, this.#state.safeTxid);
      },
    });
  }

  /** One round of the loop. */
  #commitRound(items: readonly WriteItem[]): void | Promise<void> {
    this.#drain.begin(items.length);
    const over = (): void => {
      if (!this.#state.poisoned) this.#parts.checkpointWalIfDue();
    };
    const committing = this.#committing.run(items);
    if (committing) return committing.then(over);
    over();
  }

  /** Claims the branch before its first commit, and keeps within what the claim has reserved. */
  #mayCommit(): boolean {
    const { writer, opened } = this.#state;
    // Another node's claim may have been met by a job on the branch, before anything was shipped from here.
    if (opened.manifest.fence) this.#state.failHandle(opened.manifest.fence);
    if (this.#state.poisoned) return true;
    if (!writer.isHeld) {
      this.turnAway();
      return false;
    }
    if (writer.claimed) return !this.#parts.log.holding && writer.reserved;
    if (!writer.claiming) {
      this.#parts.claim().catch((error: unknown) => {
        for (const item of this.#queue.drain()) item.completion.failed(error, this.#state.safeTxid);
      });
    }
    return false;
  }
}
