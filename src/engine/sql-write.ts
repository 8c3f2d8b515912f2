/**
 * One batch of user SQL that may write: alone in a transaction, sealed with the transaction id that its database gives it.
 *
 * Always true: the transaction is committed with its seal, or nothing of it stays. Whoever reads the state afterwards knows
 * which, whatever became of the one who ran it. Must not know: queues, answers, fsync.
 */
import type { ErrorCode } from "../base/errors.ts";
import { realDisk } from "../base/disk.ts";
import { writeState, type DatabaseState } from "../model/database-state.ts";
import { writeSql, type SqlBatch, type SqlStatementResult } from "../model/sql.ts";
import type { Connection } from "../sqlite/connection.ts";
import { runAlone } from "../sqlite/group.ts";
import { SqlGuard, tooMuchWritten } from "../sqlite/guard.ts";
import { WalFile } from "../sqlite/wal.ts";

/** User SQL, and the number by which it is interrupted. */
export interface TicketedSql {
  readonly batch: SqlBatch;
  readonly ticket: number;
}

/** What a writing batch is run with, as plain data. */
export interface SqlWriteCall extends TicketedSql {
  readonly path: string;
  /** What the state row says once it is committed. */
  readonly seal: DatabaseState;
  /** How long the log's file may become. */
  readonly logBytesMax: number;
}

/** What became of a batch, as far as whoever ran it can tell; whether it is committed the state row tells. */
export type SqlWriteEnd =
  | { readonly kind: "done"; readonly results: SqlStatementResult[] }
  | { readonly kind: "failed"; readonly error: unknown }
  /** Whoever ran it is gone, and with it what it would have answered; the error says why. */
  | { readonly kind: "lost"; readonly code: ErrorCode; readonly message: string };

/** Runs writing batches for a database that holds its other writes back meanwhile. */
export interface SqlWriter {
  /** Never rejects. `leftMs` is how long somebody waits for it. */
  run(call: SqlWriteCall, uuid: string, leftMs: number): Promise<SqlWriteEnd>;
}

/** Runs the batch on a connection that writes. Throws what it threw: then nothing has happened. */
export function runSqlWrite(connection: Connection, guard: SqlGuard, { batch, ticket, seal, logBytesMax, path }: SqlWriteCall): SqlStatementResult[] {
  guard.boundLog(logBytesMax);
  const { result } = runAlone(
    connection,
    () => writeSql(connection, guard, ticket, batch),
    () => {
      const log = new WalFile(path, realDisk);
      try {
        if (log.fileBytes() > logBytesMax) throw tooMuchWritten();
      } finally {
        log.close();
      }
      writeState(connection, seal);
    },
  );
  return result;
}

/** Runs batches on the connection of the database itself, in a process that has time and threads of its own making: a simulation. */
export class InlineSql implements SqlWriter {
  readonly #connection: Connection;
  #guard: SqlGuard | undefined;

  constructor(connection: Connection) {
    this.#connection = connection;
  }

  async run(call: SqlWriteCall): Promise<SqlWriteEnd> {
    try {
      const guard = (this.#guard ??= SqlGuard.attach(this.#connection));
      return { kind: "done", results: runSqlWrite(this.#connection, guard, call) };
    } catch (error) {
      return { kind: "failed", error };
    }
  }

  /** Lets go of the connection; call before it is closed. */
  close(): void {
    this.#guard?.detach();
  }
}
