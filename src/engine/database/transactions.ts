/**
 * The transactions of one open database: our commands many in one, user SQL alone, each sealed with its transaction id.
 *
 * User SQL runs in a process of its own, on a connection of its own, while nothing else is written here. So does a
 * command that took longer than its time slice while another tenant waited, after it was undone here. Once it is over,
 * the state row says whether it was committed, never the process that ran it, which may have been killed.
 *
 * Owns the database's writes, and the time that commands see, which does not fall behind the newest commit unless that
 * was made under a wrong clock.
 *
 * Always true:
 * - `run` either commits or throws, and has changed nothing when it throws
 * - no transaction writes more log than it may
 * - what comes after a commit never throws
 *
 * Must not know: fsync, object storage, who is answered.
 */
import { assert } from "../../base/faults/assert.ts";
import { getErrorCode, ServiceError } from "../../base/faults/errors.ts";
import { sleep, type World } from "../../base/world.ts";
import { runRead, runWrite, type ReadKind } from "../../model/commands.ts";
import { sealTransaction, type Seal } from "../../model/core/change-log.ts";
import { readState, type DatabaseState } from "../../model/schema.ts";
import type { Tx, View } from "../../model/core/transaction.ts";
import { follow, VectorChanges } from "../../model/index/vector-changes.ts";
import { runGroup, type CommandOutcome, type Deferred } from "../../sqlite/group.ts";
import type { DatabaseOptions, WriteItem } from "./database-options.ts";
import type { WalCheckpointer } from "./wal-checkpointer.ts";
import type { Sight } from "../process-calls/command-call.ts";
import { InlineSql, type SqlWriteEnd, type SqlWriter, type WriteCall } from "../process-calls/sql-write.ts";
import type { WritePermission } from "./write-permission.ts";

/** The state is looked at this often after a batch, while another process makes the log's index anew, */
const sqlStateLooksMax = 50;
/** and with this pause in between. */
const sqlStatePauseMs = 50;

/** A transaction that is over; one that changed nothing has left nothing. */
export interface Transaction {
  readonly changed: boolean;
  /** One for each item, in their order. */
  readonly outcomes: readonly CommandOutcome<unknown>[];
  readonly afterCommit: readonly (() => void)[];
}

export type TransactionsOptions = Pick<
  DatabaseOptions,
  "opened" | "world" | "vectors" | "events" | "sql" | "retention" | "changesKeptMs" | "slices"
> & {
  /** Gives the transaction id and the writer epoch of the next commit. */
  readonly writer: Pick<WritePermission, "nextTxid" | "writerEpochId">;
  /** Bounds how much of it one transaction writes. */
  readonly log: Pick<WalCheckpointer, "roomEnd" | "requireRoom" | "rolledBack" | "cutLoose">;
};

/** Whether a transaction was committed is unknown, so that this handle must not go on. */
export class UnknownOutcome extends Error {
  constructor(cause: unknown) {
    super("the outcome of a transaction is unknown", { cause });
  }
}

function toOutcome(read: () => unknown): CommandOutcome<unknown> {
  try {
    return { kind: "done", result: read(), changed: false };
  } catch (error) {
    return { kind: "failed", error };
  }
}

export class Transactions {
  readonly #options: TransactionsOptions;
  readonly #world: World;
  readonly #sql: SqlWriter;
  readonly #inline: InlineSql | undefined;
  #committedAtMs: number;

  constructor(options: TransactionsOptions) {
    const { opened, world } = options;
    this.#options = options;
    this.#world = world;
    this.#committedAtMs = opened.state.committedAtMs;
    this.#inline = options.sql ? undefined : new InlineSql(opened.connection, () => world.ulid());
    this.#sql = options.sql ?? this.#inline!;
  }

  /** The newest committed state, for a read; inside `run`, what the transaction has made of it. */
  view(): View {
    const { opened, vectors, retention } = this.#options;
    return { connection: opened.connection, nowMs: this.#nowMs(), vectors, retention: retention() };
  }

  /** A read while user SQL may commit at any moment: with the transaction id of the very state that it saw. */
  readSeeing(command: ReadKind, input: unknown): { readonly seenTxid: number; readonly read: CommandOutcome<unknown> } {
    const { connection } = this.#options.opened;
    connection.run("BEGIN");
    try {
      const { txid: seenTxid } = readState(connection);
      // The cache of vectors lacks what the process has committed and not yet told: then the rows are searched.
      const isAhead = seenTxid >= this.#options.writer.nextTxid;
      return { seenTxid, read: this.readNow(command, input, isAhead ? new VectorChanges() : undefined) };
    } finally {
      connection.rollBack();
    }
  }

  /**
   * A read when nothing else can commit: of the newest commit that is noted. One that takes too long fails with what
   * isSliceOver knows.
   */
  readNow(command: ReadKind, input: unknown, vectors = this.#options.vectors): CommandOutcome<unknown> {
    const run = (): unknown => runRead(command, { ...this.view(), vectors }, input);
    // Only processes could run it instead.
    const { slices, sql, opened } = this.#options;
    return toOutcome(slices && sql ? () => slices.run(opened.connection, run) : run);
  }

  /** What a command would see now. */
  sight(): Sight {
    const { nowMs, retention } = this.view();
    return { nowMs, retention };
  }

  /**
   * Runs commands in one transaction. Throws when it failed as a whole, or took longer than a time slice (isSliceOver):
   * then nothing has happened.
   */
  run(items: readonly WriteItem[]): Transaction {
    const view = this.view();
    const { log } = this.#options;
    const roomEnd = log.roomEnd();
    let changed = false;
    try {
      const transaction = this.#runCommands(items, view, roomEnd);
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
      vectors.evictAll();
      events.notice(`a derived cache failed and was emptied (${getErrorCode(error)})`);
    }
  }

  /** Releases the connection; call before it is closed. */
  close(): void {
    this.#options.vectors.evictAll();
    this.#inline?.close();
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
    const run = (): Transaction =>
      view.connection.watched(look, () =>
        runGroup(view.connection, commands, (notes) => this.#seal(view, roomEnd, notes)),
      );
    const { slices } = this.#options;
    const hasTime = items.every(({ work }) => work.kind === "write" && work.ticket === undefined);
    return slices && !hasTime ? slices.run(view.connection, run) : run();
  }

  /**
   * Has one batch of user SQL, or one command, run in a transaction of its own; nothing else may be written meanwhile.
   * Rejects when nothing of it has happened, and with UnknownOutcome when that is unknown.
   */
  async runElsewhere({ work, deadlineMs }: WriteItem): Promise<Transaction> {
    const {
      opened: { connection, uuid },
      log,
    } = this.#options;
    assert(work.ticket !== undefined, "what runs elsewhere has a ticket");
    const { nowMs, retention } = this.sight();
    const seal = this.#nextSeal(nowMs);
    const place = { path: connection.path, ticket: work.ticket, seal, logBytesMax: log.roomEnd() };
    const call: WriteCall =
      work.kind === "sql"
        ? { ...place, batch: work.batch }
        : { ...place, command: work.command, input: work.input, nowMs, retention, lastId: this.#world.ulid() };
    const end = await this.#sql.run(call, uuid, deadlineMs - this.#world.monotonicMs());
    // Its definitions expire prepared statements; ours are few and quickly made again.
    connection.evictStatements();
    const changed = await this.#wasCommitted(seal, end.kind === "lost");
    if (changed) this.#committedAtMs = seal.committedAtMs;
    return this.#toOutcome(end, changed, seal.txid);
  }

  /**
   * Whether the transaction with that seal is committed; if not, nothing of it is left. `isCut`: the process that ran
   * it is gone.
   */
  async #wasCommitted(seal: DatabaseState, isCut: boolean): Promise<boolean> {
    try {
      const { txid } = await this.#stateNow();
      assert(txid <= seal.txid, "nobody else commits while a batch of user SQL runs");
      if (txid === seal.txid) return true;
      if (isCut) await this.#options.log.cutLoose();
      this.#options.log.rolledBack();
      return false;
    } catch (error) {
      throw new UnknownOutcome(error);
    }
  }

  #toOutcome(end: SqlWriteEnd, changed: boolean, txid: number): Transaction {
    const outcome = (one: CommandOutcome<unknown>): Transaction => ({ changed, outcomes: [one], afterCommit: [] });
    if (end.kind === "done") return outcome({ kind: "done", result: end.results, changed });
    if (end.kind === "ran")
      return {
        ...outcome({ kind: "done", result: end.value, changed }),
        afterCommit: changed ? [() => follow(this.#options.vectors, end.vectors)] : [],
      };
    // What it has changed of vectors is not known.
    if (changed) this.#options.vectors.evictAll();
    if (end.kind === "failed") {
      if (!changed) throw end.error;
      return outcome({ kind: "failed", error: end.error });
    }
    if (!changed) throw new ServiceError(end.code, `${end.message}; nothing was written`);
    return outcome({
      kind: "failed",
      error: new ServiceError(
        "request_timeout",
        `the batch was written, as transaction ${txid}, but its results were lost: its process ended before it ` +
          "could answer",
      ),
    });
  }

  /**
   * How far the database is. A killed process may have left the log's index to be made anew, which another one may be
   * doing.
   */
  async #stateNow(): Promise<DatabaseState> {
    for (let look = 1; ; look++) {
      try {
        return readState(this.#options.opened.connection);
      } catch (error) {
        if (!getErrorCode(error).startsWith("SQLITE_BUSY") || look >= sqlStateLooksMax) throw error;
        await sleep(this.#world, sqlStatePauseMs);
      }
    }
  }

  #seal({ connection, nowMs }: View, roomEnd: number, notes: readonly string[]): void {
    this.#options.log.requireRoom(roomEnd);
    sealTransaction(connection, this.#nextSeal(nowMs), notes);
  }

  #nextSeal(nowMs: number): Seal {
    const { writer, changesKeptMs } = this.#options;
    const { nextTxid, writerEpochId } = writer;
    return { txid: nextTxid, committedAtMs: nowMs, writerEpochId, changesKeptMs: changesKeptMs() };
  }

  #tx(view: View, { atGroupEnd, afterCommit, notes }: Deferred): Tx {
    return {
      ...view,
      notes,
      txid: this.#options.writer.nextTxid,
      newId: () => this.#world.ulid(),
      atGroupEnd: (act) => atGroupEnd.push(act),
      afterCommit: (act) => afterCommit.push(act),
    };
  }
}
