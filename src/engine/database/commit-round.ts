/**
 * How a round of waiting writes becomes transactions: our own commands in one group, each batch of user SQL alone in a
 * process, and so each command that takes longer than its time slice while another tenant waits.
 *
 * Always true: they are committed in the order in which they came; a group that failed as a whole has changed nothing,
 * and each of its commands is then run alone. Must not know: fsync, object storage, who is answered.
 */
import { isFatal } from "../../sqlite/group.ts";
import { isSliceOver } from "../../sqlite/slices.ts";
import type { World } from "../../base/world.ts";
import type { DatabaseOptions, WriteItem } from "./database-options.ts";
import { LongWrites } from "./long-writes.ts";
import type { Transaction, Transactions } from "./transactions.ts";

/** The outcome of a transaction that a process was to run. */
export type ElsewhereEnd = { readonly transaction: Transaction } | { readonly error: unknown };

export interface CommitRoundOptions extends Pick<DatabaseOptions, "slices" | "turn"> {
  readonly transactions: Transactions;
  readonly world: World;
  /** Those of the items that may begin now; the others are answered. */
  readonly live: (items: readonly WriteItem[]) => readonly WriteItem[];
  /** Takes note of a transaction and answers its items. */
  readonly done: (items: readonly WriteItem[], transaction: Transaction) => void;
  /** Nothing of these items has happened. */
  readonly failed: (error: unknown, items: readonly WriteItem[]) => void;
  /** A process has run the item, or was to. */
  readonly ranElsewhere: (item: WriteItem, end: ElsewhereEnd) => void;
}

export class CommitRound {
  readonly #options: CommitRoundOptions;
  readonly #long: LongWrites;
  #runsElsewhere = false;

  constructor(options: CommitRoundOptions) {
    this.#options = options;
    this.#long = new LongWrites(options.world);
  }

  /**
   * Whether a transaction is under way in a process of its own. Then nothing else is written, checkpointed or closed.
   */
  get runsElsewhere(): boolean {
    return this.#runsElsewhere;
  }

  /** Commits the items. Without a process it is over when this returns. */
  run(items: readonly WriteItem[]): void | Promise<void> {
    return items.some((item) => this.#isForProcess(item)) ? this.#mixed(items) : this.#here(items);
  }

  async #mixed(items: readonly WriteItem[]): Promise<void> {
    let here: WriteItem[] = [];
    for (const item of items) {
      if (!this.#isForProcess(item)) {
        here.push(item);
        continue;
      }
      await this.#here(here);
      here = [];
      await this.#elsewhere(item);
    }
    await this.#here(here);
  }

  #isForProcess(item: WriteItem): boolean {
    return item.work.kind === "sql" || (this.#long.expects(item) && this.#options.slices?.isShared === true);
  }

  #here(items: readonly WriteItem[]): void | Promise<void> {
    const { live, transactions, done, failed } = this.#options;
    const begun = live(items);
    if (begun.length === 0) return;
    let transaction: Transaction;
    try {
      transaction = transactions.run(begun);
    } catch (error) {
      // Nothing has happened. Whatever failed the group as a whole, it is one command's doing: the others go on without
      // it.
      if (begun.length > 1 && !isFatal(error)) return this.#each(begun);
      return isSliceOver(error) ? this.#stopped(begun[0]!) : failed(error, begun);
    }
    done(begun, transaction);
  }

  /** Commits them one by one, and yields the turn before each. */
  async #each(items: readonly WriteItem[]): Promise<void> {
    const { turn = (act) => act() } = this.#options;
    for (const item of items) {
      await new Promise<void>((resolve) => turn(resolve));
      await this.#here([item]);
    }
  }

  /** The item was undone at the end of its time slice. */
  #stopped(item: WriteItem): Promise<void> {
    this.#long.note(item);
    return this.#elsewhere(item);
  }

  async #elsewhere(item: WriteItem): Promise<void> {
    const { live, transactions, ranElsewhere } = this.#options;
    if (live([item]).length === 0) return;
    this.#runsElsewhere = true;
    const startedMs = this.#options.world.monotonicMs();
    const end = await transactions.runElsewhere(item).then(
      (transaction) => ({ transaction }),
      (error: unknown) => ({ error }),
    );
    this.#runsElsewhere = false;
    this.#long.ranFor(item, this.#options.world.monotonicMs() - startedMs);
    ranElsewhere(item, end);
  }
}
