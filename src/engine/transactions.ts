/**
 * The transactions of one open database: our commands many in one, user SQL alone, each sealed with its transaction id.
 *
 * Owns the connection's writes, and the time that commands see, which does not fall behind the newest commit unless that
 * was made under a clock that was wrong. Always true: `run` either commits or throws, and has changed nothing when it
 * throws; no transaction writes more log than it may; what comes after a commit never throws. Must not know: fsync,
 * object storage, who is answered.
 */
import { assert } from "../base/assert.ts";
import { codeOf } from "../base/errors.ts";
import type { World } from "../base/world.ts";
import { runWrite } from "../model/commands.ts";
import { writeState } from "../model/schema.ts";
import type { Tx, View } from "../model/transaction.ts";
import { runGroup, type CommandOutcome, type Deferred } from "../sqlite/group.ts";
import type { DatabaseOptions, WriteItem } from "./database-options.ts";
import type { LogFolder } from "./log-folder.ts";
import { OwnerSql } from "./owner-sql.ts";
import type { Writership } from "./writership.ts";

/** A transaction that is over; one that changed nothing has left nothing. */
export interface Transaction {
  readonly changed: boolean;
  /** One for each item, in their order. */
  readonly outcomes: readonly CommandOutcome<unknown>[];
  readonly afterCommit: readonly (() => void)[];
}

export type TransactionsOptions = Pick<DatabaseOptions, "opened" | "world" | "vectors" | "events"> & {
  /** Gives the transaction id and the tenure of the next commit. */
  readonly writer: Pick<Writership, "nextTxid" | "tenureId">;
  /** Bounds how much of it one transaction writes. */
  readonly log: Pick<LogFolder, "roomEnd" | "requireRoom" | "rolledBack">;
};

export class Transactions {
  readonly #options: TransactionsOptions;
  readonly #world: World;
  readonly #sql: OwnerSql;
  #committedAtMs: number;

  constructor(options: TransactionsOptions) {
    const { opened, world, events } = options;
    this.#options = options;
    this.#world = world;
    this.#committedAtMs = opened.state.committedAtMs;
    this.#sql = new OwnerSql(opened.connection, world, events);
  }

  /** The newest committed state, for a read; inside `run`, what the transaction has made of it. */
  view(): View {
    const { opened, vectors } = this.#options;
    return { connection: opened.connection, nowMs: this.#nowMs(), vectors };
  }

  /** Runs commands in one transaction, or one batch of user SQL in one of its own. Throws when it failed as a whole: then nothing has happened. */
  run(items: readonly WriteItem[]): Transaction {
    const view = this.view();
    const [first] = items;
    const { log } = this.#options;
    const roomEnd = log.roomEnd();
    let changed = false;
    try {
      const transaction = first?.work.kind === "sql" ? this.#runSql(first, view, roomEnd) : this.#runCommands(items, view, roomEnd);
      changed = transaction.changed;
      if (changed) this.#committedAtMs = view.nowMs;
      return transaction;
    } finally {
      if (!changed) log.rolledBack();
    }
  }

  /** Tells the derived caches what was committed. They may be lost at any time, so a fault of theirs empties them. */
  follow({ afterCommit }: Transaction): void {
    const { vectors, events } = this.#options;
    try {
      for (const act of afterCommit) act();
    } catch (error) {
      vectors.drop();
      events.notice(`a derived cache failed and was emptied (${codeOf(error)})`);
    }
  }

  /** Lets go of the connection; call before it is closed. */
  close(): void {
    this.#options.vectors.drop();
    this.#sql.close();
  }

  #nowMs(): number {
    const nowMs = this.#world.nowMs();
    return nowMs >= this.#committedAtMs ? nowMs : this.#world.time.believable(this.#committedAtMs);
  }

  #runCommands(items: readonly WriteItem[], view: View, roomEnd: number): Transaction {
    const commands = items.map(({ work }) => (deferred: Deferred) => {
      assert(work.kind === "write", "user SQL has a transaction of its own");
      return runWrite(work.command, this.#tx(view, deferred), work.input);
    });
    // Commands that have room alone may have none together: the group fails then, and each is run by itself.
    const look = (): void => this.#options.log.requireRoom(roomEnd);
    return view.connection.watched(look, () => runGroup(view.connection, commands, () => this.#seal(view, roomEnd)));
  }

  #runSql({ work, deadlineMs }: WriteItem, view: View, roomEnd: number): Transaction {
    assert(work.kind === "sql", "only user SQL comes here");
    const { result, changed } = this.#sql.run(work, deadlineMs, roomEnd, () => this.#seal(view, roomEnd));
    return { changed, outcomes: [{ kind: "done", result, changed }], afterCommit: [] };
  }

  #seal({ connection, nowMs }: View, roomEnd: number): void {
    this.#options.log.requireRoom(roomEnd);
    const { nextTxid, tenureId } = this.#options.writer;
    writeState(connection, { txid: nextTxid, committedAtMs: nowMs, tenure: tenureId });
  }

  #tx(view: View, { atGroupEnd, afterCommit }: Deferred): Tx {
    return { ...view, newId: () => this.#world.ulid(), atGroupEnd: (act) => atGroupEnd.push(act), afterCommit: (act) => afterCommit.push(act) };
  }
}
