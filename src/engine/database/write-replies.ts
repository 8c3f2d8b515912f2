/**
 * The answers to the writes of one open database.
 *
 * Always true: every write is answered once, with its outcome; an answer speaks of a commit only when it is noted, and
 * leaves as a writer's does (engine/database/reply-gate), a durable one only when object storage covers it.
 * Must not know: queues, how a write is run.
 */
import { ServiceError } from "../../base/faults/errors.ts";
import type { World } from "../../base/world.ts";
import { isDiskFull, isFatal } from "../../sqlite/group.ts";
import type { ReplyGate } from "./reply-gate.ts";
import type { ElsewhereEnd } from "./commit-round.ts";
import type { WriteItem } from "./database-options.ts";
import { TurnedAway } from "../api/engine-port.ts";
import type { HandleState } from "./handle-state.ts";
import { noRoom, storageFailed } from "./refusals.ts";
import { UnknownOutcome, type Transaction, type Transactions } from "./transactions.ts";

interface WriteRepliesParts {
  readonly state: HandleState;
  readonly world: World;
  readonly answers: ReplyGate;
  readonly transactions: Transactions;
  /** Takes note of the commit of these items; what fails in it is a fault of storage. */
  readonly note: (items: readonly WriteItem[]) => void;
}

/** Answers the writes of one open database. */
export class WriteReplies {
  readonly #parts: WriteRepliesParts;
  readonly #state: HandleState;

  constructor(parts: WriteRepliesParts) {
    this.#parts = parts;
    this.#state = parts.state;
  }

  /**
   * Those of the items that may begin now; the others are answered. What a round has waited for may have taken the
   * lease away.
   */
  live(items: readonly WriteItem[]): readonly WriteItem[] {
    const nowMs = this.#parts.world.monotonicMs();
    const late = (item: WriteItem): boolean => item.deadlineMs <= nowMs;
    for (const item of items.filter(late))
      item.completion.failed(
        new ServiceError("request_timeout", "the request's time was over before its write began"),
        this.#state.safeTxid,
      );
    const live = items.filter((item) => !late(item));
    if (!this.#state.poisoned && this.#state.writer.isHeld) return live;
    if (this.#state.poisoned) this.refuse(live);
    else this.turnAway(live);
    return [];
  }

  /** Turns away writes that have not begun: another node may have the database. */
  turnAway(items: readonly WriteItem[]): void {
    for (const item of items) item.completion.failed(new TurnedAway("unheld"), this.#state.safeTxid);
  }

  /** Answers writes that have not begun and never will. */
  refuse(items: readonly WriteItem[]): void {
    const { refusal } = this.#state;
    for (const item of items) item.completion.failed(refusal, this.#state.safeTxid);
  }

  /** Notes the commit, if there was one, and answers the callers of the transaction. */
  done(items: readonly WriteItem[], transaction: Transaction): void {
    if (transaction.changed && !this.#committed(items)) return;
    this.#parts.transactions.follow(transaction);
    const txid = this.#state.committedTxid;
    for (const [index, outcome] of transaction.outcomes.entries()) {
      const { completion } = items[index]!;
      if (outcome.kind === "done") this.#answer(items[index]!, txid, outcome.result, transaction.changed);
      else this.#parts.answers.asWriter(txid, () => completion.failed(outcome.error, txid), completion);
    }
  }

  /**
   * Notes a commit. Says no when that failed: then the handle is failed, and its writers are told that the commit is in
   * doubt.
   */
  #committed(items: readonly WriteItem[]): boolean {
    this.#state.guarded(() => this.#parts.note(items));
    if (!this.#state.poisoned) return true;
    for (const item of items) item.completion.failed(this.#state.loss, this.#state.safeTxid);
    return false;
  }

  /** A process has run the item, or was to: settles it. */
  ranElsewhere(item: WriteItem, end: ElsewhereEnd): void {
    if ("error" in end && end.error instanceof UnknownOutcome) this.#state.failHandle(end.error.cause);
    if (this.#state.poisoned) item.completion.failed(this.#state.loss, this.#state.safeTxid);
    else if ("error" in end) this.failed(end.error, [item]);
    else this.done([item], end.transaction);
  }

  /** The transaction was rolled back: none of the writes happened. A disk that failed fails the handle as well. */
  failed(error: unknown, items: readonly WriteItem[]): void {
    const txid = this.#state.safeTxid;
    let answer = error;
    if (isDiskFull(error)) {
      answer = noRoom(this.#state.opened.connection.isNearlyFull);
    } else if (isFatal(error)) {
      answer = storageFailed();
      this.#state.failHandle(error);
    }
    for (const item of items) item.completion.failed(answer, txid);
  }

  #answer({ durable, completion }: WriteItem, txid: number, value: unknown, changed: boolean): void {
    const done = (): void => completion.done({ value, txid });
    const asWriter = (): void => this.#parts.answers.asWriter(txid, done, completion);
    if (!durable) return asWriter();
    // If nothing was changed, the manifest landed earlier: it does not prove that no other writer has claimed the
    // branch since.
    this.#parts.answers.afterShip(txid, changed ? done : asWriter, completion);
  }
}
