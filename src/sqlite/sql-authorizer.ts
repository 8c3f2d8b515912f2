/**
 * The guard around user SQL on one connection: SQLite's authorizer and limits, and interrupts that hit the right one.
 *
 * Owns: the native library's two faces (native/sqlguard.c). Always true: outside `guarded` a connection behaves as if
 * no guard were there; the switches are functions of another, private connection, so user SQL cannot reach them.
 * Must not know: transactions, results, the wire.
 */
import Database from "better-sqlite3";
import { assert } from "../base/faults/assert.ts";
import { invalid, ServiceError } from "../base/faults/errors.ts";
import { limits } from "../base/limits.ts";
import type { Connection } from "./connection/connection.ts";
import { control, hasNative, loadLibrary, passedOverLibraries } from "./native.ts";

export { checkUserSql, looksReadOnly } from "./sql-text-check.ts";

/** Why a statement was stopped, as guard_leave answers. */
const hits = { none: 0, asked: 1, memory: 2, log: 3, spill: 4, disk: 5 } as const;

/** The refusal of a transaction that was stopped, or is not committed, because it wrote too much. */
export function tooMuchWritten(): ServiceError {
  return invalid(
    `the transaction writes more than ${limits.transactionLogBytesMax} bytes of changed pages, the most ` +
      "that one may; nothing was written, do it in parts",
  );
}

/**
 * The disk had no room for what a statement wrote, as opposed to a database, or a table, that is as large as it may be.
 */
export class DiskFull extends Error {
  readonly code = "SQLITE_FULL";
}

function stoppedBy(hit: unknown, isOwn: boolean): Error | undefined {
  switch (hit) {
    case hits.asked:
      if (isOwn) return new ServiceError("request_timeout", "the call did not finish in its time and was stopped");
      return new ServiceError(
        "request_timeout",
        "the statement did not finish in its time and was stopped: a batch that may write " +
          `has ${limits.sqlWriteBudgetMs / 1_000} s, one that only reads the request's own time`,
      );
    case hits.memory:
      return invalid("the statement needs more memory than one statement may use, and was stopped");
    case hits.log:
      return tooMuchWritten();
    case hits.spill:
      return invalid(
        `the statement sorts or gathers more than ${limits.sqlSpillBytesMax} bytes of temporary data, the most ` +
          "that one may; narrow it down, or add an index",
      );
    case hits.disk:
      return new DiskFull("the disk is full");
    default:
      return undefined;
  }
}

/** Whether this process counts the bytes of its files, so that a disk that is full is told from a table that is. */
let countsFiles = false;

/**
 * From now on this process runs user SQL and nothing else: it ends when its parent does, temporary files and memory are
 * bounded, and interrupts come as tickets of eight bytes through the descriptor, whose end is the parent's. Before any
 * connection that runs user SQL is opened.
 */
export function serveUserSql(descriptor: number): void {
  control().call("guard_serve(?)", descriptor);
  countsFiles = true;
}

/** The error's SQLite result code, such as SQLITE_CONSTRAINT_UNIQUE; undefined when it is not SQLite's. */
export function getSqliteCode(error: unknown): string | undefined {
  return error instanceof Database.SqliteError ? error.code : undefined;
}

export interface GuardOptions {
  /** The statement is a check of the whole database: SQLite itself may read reserved tables. */
  readonly wholeDatabase?: boolean;
  /** Plan without copying subqueries into the query around them (sqlite/sql-weight says when). */
  readonly plain?: boolean;
  /** The statement drops or alters: SQLite itself keeps its own tables in step. */
  readonly defines?: boolean;
  /** It is a command of the node's own: everything is allowed, and it can be stopped. */
  readonly isOwn?: boolean;
}

export class SqlGuard {
  readonly #connection: Connection;
  #attached = true;
  /** Names this connection in the whole process, for interrupts from other threads. */
  readonly handle: number;

  private constructor(connection: Connection, handle: number) {
    this.#connection = connection;
    this.handle = handle;
  }

  /**
   * Loads the native guard into the connection, switched off. Once for a connection, while no statement of it runs
   * (statements prepared before are prepared again by SQLite). Throws unconfigured when the native part is absent.
   */
  static attach(connection: Connection): SqlGuard {
    const found = SqlGuard.available();
    if (!found.ok)
      throw new ServiceError("unconfigured", `SQL needs the native guard, which this node lacks: ${found.missing}`);
    const native = control();
    loadLibrary(connection.raw, "sqlite3_sqlguard_init");
    return new SqlGuard(connection, native.call("guard_attached()") as number);
  }

  /**
   * Whether this installation has the native part; `missing` says what to do otherwise. `passedOver` says which
   * libraries are there and not used, and why.
   */
  static available(): { ok: true; passedOver: readonly string[] } | { ok: false; missing: string } {
    const passedOver = passedOverLibraries();
    if (hasNative()) return { ok: true, passedOver };
    const remedy = "native/build/sqlguard.so; install a C compiler and run: node native/build.mjs";
    return { ok: false, missing: [remedy, ...passedOver].join("; ") };
  }

  /**
   * Runs `act` with the authorizer and the limits on, and off again whatever happens. The ticket is what an interrupt
   * must carry to hit it; it is positive and never used for another batch. Throws request_timeout when an interrupt
   * stopped it, invalid_request when a bound of memory or log did or the authorizer refused, else what `act` threw.
   */
  guarded<T>(ticket: number, act: () => T, options: GuardOptions = {}): T {
    assert(this.#attached, "the guard is attached to its connection");
    const native = control();
    const flags = [options.wholeDatabase, options.plain, options.defines, options.isOwn].map((flag) => (flag ? 1 : 0));
    native.call("guard_enter(?, ?, ?, ?, ?, ?)", this.handle, ticket, ...flags);
    let left = false;
    const leave = (): unknown => {
      left = true;
      return native.call("guard_leave(?)", this.handle);
    };
    try {
      const result = act();
      leave();
      return result;
    } catch (error) {
      const hit = left ? hits.none : leave();
      const stopped = stoppedBy(hit, options.isOwn === true);
      if (stopped) throw stopped;
      if (getSqliteCode(error) === undefined) throw error;
      const reason = native.call("guard_reason(?)", this.handle) as string;
      throw reason === "" ? error : invalid(reason);
    }
  }

  /**
   * Inside `guarded`, after a statement was prepared and before it runs: bounds the length of its values by its size,
   * so that all its registers together stay within limits.sqlStatementBytesMax. Returns the bound in bytes.
   */
  fit(): number {
    return control().call("guard_fit(?)", this.handle) as number;
  }

  /**
   * Inside `guarded`, after `fit`: the next row of that statement, to which its parameters are bound, or undefined at
   * its end. `too-large`: SQLite holds more than `bytesMax` bytes of the row, and nothing of it was converted.
   */
  nextRow(columns: number, bytesMax: number): readonly unknown[] | "too-large" | undefined {
    const [outcome, ...values] = control().step(this.handle, columns, bytesMax);
    if (outcome === 0n) return undefined;
    return outcome === 1n ? values : "too-large";
  }

  /** Whether SQLITE_FULL means, of itself, that something other than the disk is full. */
  get tellsDiskFull(): boolean {
    return countsFiles;
  }

  /** From now on what runs guarded is stopped when the connection's log has a longer file; seen some 20 ms late. */
  boundLog(bytes: number): void {
    control().call("guard_bound_log(?, ?)", this.handle, bytes);
  }

  /** Whether the open transaction breaks a deferred foreign key now, so that its commit would fail. */
  breaksForeignKeys(): boolean {
    return control().call("guard_deferred(?)", this.handle) !== 0;
  }

  /** Takes the handle out of the reach of interrupts. Before the connection is closed; a second call does nothing. */
  detach(): void {
    if (!this.#attached) return;
    this.#attached = false;
    // The connection frees the native part when it closes.
    assert(this.#connection.raw.open, "a guard is detached before its connection is closed");
    control().call("guard_detach(?)", this.handle);
  }
}

/**
 * Gives memory that closed connections have freed back to the system, where the C library can; takes milliseconds.
 * Without the native part it does nothing.
 */
export function releaseFreedMemory(): void {
  if (SqlGuard.available().ok) control().call("guard_trim()");
}

/**
 * From any thread: stops the statement when `handle` runs exactly `ticket` now. A ticket that does not run now is
 * remembered and stopped when it begins; one that is over is never run again, so remembering it does no harm. Returns
 * whether the handle was found.
 */
export function interrupt(handle: number, ticket: number): boolean {
  if (!SqlGuard.available().ok) return false;
  return control().call("guard_interrupt(?, ?)", handle, ticket) !== 0;
}
