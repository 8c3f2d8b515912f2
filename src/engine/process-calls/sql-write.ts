/**
 * What runs alone in a transaction, sealed with the transaction id that its database gives it: a batch of user SQL that
 * may write, or a command of our own that takes long.
 *
 * Always true: the transaction is committed with its seal, or nothing of it stays. The state row tells which
 * afterwards, whatever became of the process that ran it. Must not know: queues, answers, fsync.
 */
import type { ErrorCode, ServiceErrorDetail } from "../../base/faults/errors.ts";
import { realDisk } from "../../base/disk.ts";
import { sealTransaction } from "../../model/core/change-log.ts";
import { runRepeatable, type RepeatableAnswer } from "../../model/core/idempotency.ts";
import { writeSql, type SqlBatch, type SqlStatementResult } from "../../model/sql/sql.ts";
import type { Connection } from "../../sqlite/connection/connection.ts";
import { runAlone } from "../../sqlite/group.ts";
import { SqlGuard, tooMuchWritten } from "../../sqlite/sql-authorizer.ts";
import { WalFile } from "../../sqlite/wal/wal.ts";
import { runCommandWrite, type CommandWriteCall, type CommandRan, type TransactionCall } from "./command-call.ts";

/** What a batch has given; of one that may be repeated, with what says whether it was. */
type SqlResults = SqlStatementResult[] | RepeatableAnswer;

/** An error that is not a refusal; its code tells whether storage failed. */
export interface SqlFault {
  readonly message: string;
  readonly stack: string;
  readonly code: string;
}

export type SqlWriteReply =
  | { readonly kind: "done"; readonly results: SqlResults }
  | CommandRan
  | {
      readonly kind: "refused";
      readonly code: ErrorCode;
      readonly message: string;
      readonly detail?: ServiceErrorDetail;
    }
  | { readonly kind: "fault"; readonly fault: SqlFault }
  /** The process is gone, and with it its answer. */
  | { readonly kind: "lost"; readonly code: ErrorCode; readonly message: string };

/** User SQL, and the number by which it is interrupted. */
export interface TicketedSql {
  readonly batch: SqlBatch;
  readonly ticket: number;
}

/** A batch of user SQL that may write. */
type SqlWriteCall = TransactionCall & TicketedSql;

export type WriteCall = SqlWriteCall | CommandWriteCall;

/** What became of it, as far as the process that ran it can tell; the state row tells whether it is committed. */
export type SqlWriteEnd =
  | { readonly kind: "done"; readonly results: SqlResults }
  | CommandRan
  | { readonly kind: "failed"; readonly error: unknown }
  /** The process that ran it is gone, and with it the answer; the error says why. */
  | { readonly kind: "lost"; readonly code: ErrorCode; readonly message: string };

/** Runs such transactions for a database that holds its other writes back meanwhile. */
export interface SqlWriter {
  /** Never rejects. `leftMs` is how long the caller waits for it. */
  run(call: WriteCall, uuid: string, leftMs: number): Promise<SqlWriteEnd>;
}

/** Runs the batch on a connection that writes. Throws what it threw: then nothing has happened. */
function runSqlWrite(connection: Connection, guard: SqlGuard, call: SqlWriteCall): SqlResults {
  const { batch, seal, ticket } = call;
  return runSealed<SqlResults>(connection, guard, call, (notes) => {
    const write = (): SqlStatementResult[] => writeSql(connection, guard, ticket, batch, { notes });
    if (!batch.idempotency) return write();
    return runRepeatable({ connection, nowMs: seal.committedAtMs, txid: seal.txid }, batch.idempotency, write);
  });
}

/**
 * Runs the call on a connection that writes. `newId` gives ids of this process. Throws what it threw: then nothing has
 * happened.
 */
export function runWriteCall(
  connection: Connection,
  guard: SqlGuard,
  call: WriteCall,
  newId: () => string,
): Extract<SqlWriteEnd, { kind: "done" | "ran" }> {
  if ("batch" in call) return { kind: "done", results: runSqlWrite(connection, guard, call) };
  return {
    kind: "ran",
    ...runCommandWrite(connection, guard, call, newId, (act) => runSealed(connection, guard, call, act)),
  };
}

function runSealed<Result>(
  connection: Connection,
  guard: SqlGuard,
  { path, seal, logBytesMax }: TransactionCall,
  act: (notes: string[]) => Result,
): Result {
  guard.boundLog(logBytesMax);
  const notes: string[] = [];
  const { result } = runAlone(
    connection,
    () => act(notes),
    () => {
      const log = new WalFile(path, realDisk);
      try {
        if (log.fileBytes() > logBytesMax) throw tooMuchWritten();
      } finally {
        log.close();
      }
      sealTransaction(connection, seal, notes);
    },
  );
  return result;
}

/**
 * Runs them on the connection of the database itself, in a process that has time and threads of its own making: a
 * simulation.
 */
export class InlineSql implements SqlWriter {
  readonly #connection: Connection;
  readonly #newId: () => string;
  #guard: SqlGuard | undefined;

  constructor(connection: Connection, newId: () => string) {
    this.#connection = connection;
    this.#newId = newId;
  }

  async run(call: WriteCall): Promise<SqlWriteEnd> {
    try {
      const guard = (this.#guard ??= SqlGuard.attach(this.#connection));
      return runWriteCall(this.#connection, guard, call, this.#newId);
    } catch (error) {
      return { kind: "failed", error };
    }
  }

  /** Releases the connection; call before it is closed. */
  close(): void {
    this.#guard?.detach();
  }
}
