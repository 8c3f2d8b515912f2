/**
 * One open SQLite connection with its bounded cache of prepared statements.
 *
 * Owns: the handle and its settings. Always true: every setting that durability, erasure or safety needs was read back
 * after it was set. Must not know: what the tables mean.
 */
import Database from "better-sqlite3";
import { assert } from "../../base/faults/assert.ts";
import { limits } from "../../base/limits.ts";
import { LruMap } from "../../base/collections/lru-map.ts";

const cachedStatementCharsMax = 16 * 1024;
/**
 * A command's log is looked at every so many statements while it runs: a statement of ours writes about a document, 1
 * MiB at most.
 */
const logLookStatements = 16;
/**
 * A transaction that finds no room is told that the database is full, and not the disk, when this many pages or fewer
 * are left.
 */
const databasePagesSpare = 2 ** 16;
/** The time is looked at every so many statements. */
const sliceLookStatements = 8;

/** What a statement accepts: numbers bind as REAL, so integers that SQL itself computes with must be bigint. */
export type SqlValue = null | number | bigint | string | Uint8Array;

/** One of a statement's parameters, or those that have names, at most one such object. */
export type SqlParameter = SqlValue | Readonly<Record<string, SqlValue>>;

export interface RunResult {
  readonly changes: number;
  readonly lastInsertRowid: number;
}

/** The earliest SQLite without the WAL-reset corruption (sqlite.org/wal.html#walresetbug). */
const sqliteVersionMin = [3, 51, 3] as const;

/** Throws when the linked SQLite has a bug that could corrupt a database. */
function requireSoundSqlite(version: string): void {
  const parts = version.split(".").map(Number);
  for (const [index, least] of sqliteVersionMin.entries()) {
    const have = parts[index] ?? 0;
    if (have > least) return;
    if (have < least)
      throw new Error(`SQLite ${version} can corrupt a WAL database; ${sqliteVersionMin.join(".")} or later is needed`);
  }
}

export interface ConnectionOptions {
  readonly readonly: boolean;
  /** KiB of page cache for this handle. */
  readonly pageCacheKiB: number;
  /**
   * How long it waits for a lock that another connection holds; a checkpoint never does (sqlite/wal/wal). Not at all by
   * default.
   */
  readonly busyMs?: number;
}

export class Connection {
  readonly raw: Database.Database;
  readonly path: string;
  readonly #busyMs: number;
  #look: (() => void) | undefined;
  #runs = 0;
  #lookAtTime: (() => void) | undefined;
  #prepared = 0;
  #rollback: Database.Statement | undefined;
  readonly #statements = new LruMap<string, Database.Statement>(limits.cachedStatementsMax);

  constructor(path: string, options: ConnectionOptions) {
    this.path = path;
    this.raw = new Database(path, { readonly: options.readonly, timeout: (this.#busyMs = options.busyMs ?? 0) });
    try {
      this.#configure(options);
    } catch (error) {
      this.raw.close();
      throw error;
    }
  }

  #configure(options: ConnectionOptions): void {
    requireSoundSqlite(String(this.raw.prepare("SELECT sqlite_version()").pluck().get()));
    if (!options.readonly) {
      // Page size, vacuum mode and journal mode are fixed by the first write; see engine decisions in the README.
      this.#pragma("page_size", 4096);
      this.#pragma("auto_vacuum", 0);
      this.#pragma("journal_mode", "wal");
      this.#pragma("wal_autocheckpoint", 0);
      this.#pragma("secure_delete", 1);
      this.#pragma("max_page_count", limits.databasePagesMax);
    }
    // NORMAL: the fsync of each commit is ours (sqlite/wal/wal), off this thread; SQLite still syncs around
    // checkpoints.
    this.#pragma("synchronous", 1);
    this.#pragma("trusted_schema", 0);
    this.#pragma("mmap_size", 0);
    this.#pragma("cache_size", -options.pageCacheKiB);
    this.#pragma("foreign_keys", 1);
    // FILE: a giant sort spills to the private scratch directory instead of growing the heap without bound.
    this.#pragma("temp_store", 1);
    this.#pragma("cell_size_check", 1);
  }

  #pragma(name: string, value: string | number): void {
    this.raw.pragma(`${name} = ${value}`);
    const now = this.raw.pragma(name, { simple: true });
    assert(now === undefined || now === value, `pragma ${name} is ${value}, not ${String(now)}`);
  }

  /** Whether a transaction may find the file to have as many pages as it may have. What is deleted makes room. */
  get isNearlyFull(): boolean {
    const [most, pages, free] = ["max_page_count", "page_count", "freelist_count"].map(
      (name) => this.raw.pragma(name, { simple: true }) as number,
    );
    return pages! - free! + databasePagesSpare >= most!;
  }

  /** The cached prepared statement of a text that is our own; user SQL is prepared apart (model/sql/sql). */
  prepared(sql: string): Database.Statement {
    if (this.#lookAtTime && ++this.#prepared % sliceLookStatements === 0) this.#lookAtTime();
    const found = this.#statements.get(sql);
    if (found) return found;
    const statement = this.raw.prepare(sql);
    // A longer one is one client's long list of conditions, and would take the place of what all use.
    if (sql.length <= cachedStatementCharsMax) this.#statements.set(sql, statement);
    return statement;
  }

  hasTable(name: string): boolean {
    return this.get("SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = ?", name) !== undefined;
  }

  /** Those of these tables that there are: one look for all of them. */
  tablesAmong(names: readonly string[]): ReadonlySet<string> {
    const sql = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name IN (SELECT value FROM json_each(?))";
    return new Set(this.all<{ name: string }>(sql, JSON.stringify(names)).map(({ name }) => name));
  }

  /** All rows as objects by column name. */
  all<Row>(sql: string, ...params: readonly SqlParameter[]): Row[] {
    return this.prepared(sql).all(...params) as Row[];
  }

  /** The first row, or undefined. */
  get<Row>(sql: string, ...params: readonly SqlParameter[]): Row | undefined {
    return this.prepared(sql).get(...params) as Row | undefined;
  }

  run(sql: string, ...params: readonly SqlParameter[]): RunResult {
    if (this.#look && ++this.#runs % logLookStatements === 0) this.#look();
    const result = this.prepared(sql).run(...params);
    return { changes: result.changes, lastInsertRowid: Number(result.lastInsertRowid) };
  }

  /**
   * `look` is called now and then before a statement of `run`, for as long as `act` runs; what it throws, the statement
   * throws.
   */
  watched<Value>(look: () => void, act: () => Value): Value {
    this.#look = look;
    try {
      return act();
    } finally {
      this.#look = undefined;
    }
  }

  /** As `watched`, of all statements and of `look`, and beside it. */
  lookingAt<Value>(look: () => void, act: () => Value): Value {
    this.#lookAtTime = look;
    try {
      return act();
    } finally {
      this.#lookAtTime = undefined;
    }
  }

  /** Lets the time be looked at between two statements: for whoever computes much without one. */
  look(): void {
    this.#lookAtTime?.();
  }

  /** Undoes the transaction that is open, if there is one: whatever looks are due, and stopped by none. */
  rollBack(): void {
    if (this.inTransaction) (this.#rollback ??= this.raw.prepare("ROLLBACK")).run();
  }

  /** Runs `act` with no patience for locks of other connections. */
  withoutWaiting<Value>(act: () => Value): Value {
    if (this.#busyMs === 0) return act();
    this.raw.pragma("busy_timeout = 0");
    try {
      return act();
    } finally {
      this.raw.pragma(`busy_timeout = ${this.#busyMs}`);
    }
  }

  /** Runs statements that return nothing, such as DDL. Not cached. */
  exec(sql: string): void {
    this.raw.exec(sql);
  }

  get inTransaction(): boolean {
    return this.raw.inTransaction;
  }

  /** Drops every cached statement, so that none outlives a change that expires it. */
  evictStatements(): void {
    this.#statements.clear();
  }

  /**
   * Gives back what only makes the next call faster: cached pages at once, prepared statements with the next collection
   * of garbage. Call between transactions.
   */
  giveBack(): void {
    this.evictStatements();
    this.raw.pragma("shrink_memory");
  }

  close(): void {
    this.#statements.clear();
    this.raw.close();
  }
}
