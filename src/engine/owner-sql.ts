/**
 * User SQL that may write, run by the owner of an open database: guarded, within its time and its room in the log, alone
 * in a transaction.
 *
 * Owns the guard of the one connection that writes, which is attached when it is first needed. Must not know: queues,
 * answers, transaction ids.
 */
import { limits } from "../base/limits.ts";
import type { World } from "../base/world.ts";
import { writeSql, type SqlBatch, type SqlStatementResult } from "../model/sql.ts";
import type { Connection } from "../sqlite/connection.ts";
import { runAlone } from "../sqlite/group.ts";
import { SqlGuard } from "../sqlite/guard.ts";

/** Told to whoever ends what takes too long. */
export interface SqlEvents {
  /** User SQL is about to hold the thread; whoever listens interrupts it when `budgetMs` is over. */
  running(handle: number, ticket: number, budgetMs: number): void;
  stopped(ticket: number): void;
}

/** User SQL, and the number by which it is interrupted. */
export interface TicketedSql {
  readonly batch: SqlBatch;
  readonly ticket: number;
}

export class OwnerSql {
  readonly #connection: Connection;
  readonly #world: World;
  readonly #events: SqlEvents;
  #guard: SqlGuard | undefined;

  constructor(connection: Connection, world: World, events: SqlEvents) {
    this.#connection = connection;
    this.#world = world;
    this.#events = events;
  }

  /**
   * Runs the batch; `seal` is called inside its transaction when it changed something. Stops it when the log's file becomes
   * longer than `logBytesMax`. Throws what it threw: then nothing has happened.
   */
  run({ batch, ticket }: TicketedSql, deadlineMs: number, logBytesMax: number, seal: () => void): { readonly result: SqlStatementResult[]; readonly changed: boolean } {
    const connection = this.#connection;
    try {
      const guard = (this.#guard ??= SqlGuard.attach(connection));
      const budgetMs = Math.min(limits.sqlWriteBudgetMs, deadlineMs - this.#world.monotonicMs());
      guard.boundLog(logBytesMax);
      this.#events.running(guard.handle, ticket, budgetMs);
      return runAlone(connection, () => writeSql(connection, guard, ticket, batch), seal);
    } finally {
      // The transaction may be committed by now, and nothing here throws: it would be taken for a rollback.
      this.#events.stopped(ticket);
      // User DDL expires prepared statements; ours are few and quickly made again.
      connection.forgetStatements();
    }
  }

  /** Lets go of the connection; call before it is closed. */
  close(): void {
    this.#guard?.detach();
  }
}
