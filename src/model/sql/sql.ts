/**
 * User SQL: one batch of statements on one connection, under the guard.
 *
 * Always true:
 * - every statement is judged by its text, then prepared and run with the authorizer on
 * - whether it writes is what SQLite says of the prepared statement, so that INSERT … RETURNING and a WITH that writes
 *   count as writes
 * - rows are taken one at a time, so that no result is ever larger in memory than it may be
 *
 * Transactions are the caller's; only the savepoints of a batch that is not atomic are made here.
 * Must not know: threads, tokens, who asks.
 */
import { assert } from "../../base/faults/assert.ts";
import { invalid, ServiceError, type ErrorCode } from "../../base/faults/errors.ts";
import { limits } from "../../base/limits.ts";
import type { Connection } from "../../sqlite/connection/connection.ts";
import { getSqliteCode, type SqlGuard } from "../../sqlite/sql-authorizer.ts";
import { isFatal } from "../../sqlite/group.ts";
import { analyseUserSql } from "../../sqlite/sql-text-check.ts";
import { findChangedTable } from "../../sqlite/sql-changed-table.ts";
import { listParameters, parseTokens } from "../../sqlite/sql-tokens.ts";
import { copiesTooMuch } from "../../sqlite/sql-weight.ts";
import { note, type NoteTaker } from "../core/change-notes.ts";
import type { IdempotencyKey } from "../core/idempotency.ts";
import { bindParams, encodeJsonValue, parseParams } from "./sql-values.ts";

export const sqlRowsMax = 10_000;
export const sqlResultBytesMax = 16 * 1024 * 1024;
/** SQLite's message in an answer, in characters: it may quote the statement. */
const sqlMessageCharsMax = 300;

interface SqlStatement {
  readonly text: string;
  /** JSON text of an array or object, its numbers exact. */
  readonly paramsJson: string | undefined;
}

export interface SqlBatch {
  readonly statements: readonly SqlStatement[];
  /** All or nothing; otherwise each statement is alone and reports its own error. */
  readonly atomic: boolean;
  /** Whether the credential's scope covers writes. */
  readonly mayWrite: boolean;
  /**
   * How many values all rows together may have, as the caller could not be told of more; undefined for no such bound.
   */
  readonly valuesMax?: number | undefined;
  /** Of a batch that may write and that its caller may repeat. */
  readonly idempotency?: IdempotencyKey | undefined;
}

export interface SqlStatementResult {
  readonly columns: string[];
  /** JSON array of row arrays, exact. */
  readonly rowsJson: string;
  readonly rowsAffected: number;
  /** Of this batch, 0 before its first insert; a string beyond 2^53. */
  readonly lastInsertRowid: number | string;
  /** Only when the batch is not atomic. */
  readonly error?: { readonly code: ErrorCode; readonly message: string };
}

/** `writes`: a statement of the batch writes, so that its owner must run it. Nothing has happened. */
export type SqlOutcome =
  { readonly kind: "done"; readonly results: SqlStatementResult[] } | { readonly kind: "writes" };

/** What the statements of a batch share. */
interface Run {
  readonly connection: Connection;
  readonly guard: SqlGuard;
  readonly ticket: number;
  readonly batch: SqlBatch;
  bytesLeft: number;
  valuesLeft: number;
  lastInsertRowid: number | string;
}

/** What the guard counts for each value of a row beside its text or blob. */
const valueWordBytes = 8;

/**
 * Thrown on a read-only connection by a statement that would write: the way out of the guarded part, never an answer.
 */
class WriteFound extends Error {}

function newRun(connection: Connection, guard: SqlGuard, ticket: number, batch: SqlBatch): Run {
  const { length } = batch.statements;
  if (length === 0 || length > limits.sqlStatementsMax)
    throw invalid(`stmts must hold 1 to ${limits.sqlStatementsMax} statements`);
  return {
    connection,
    guard,
    ticket,
    batch,
    bytesLeft: sqlResultBytesMax,
    valuesLeft: batch.valuesMax ?? Infinity,
    lastInsertRowid: 0,
  };
}

function tooLarge(): ServiceError {
  return invalid(`the batch's results are larger than ${sqlResultBytesMax} bytes`);
}

/**
 * The rows of the statement that was fitted as JSON text, taken one at a time and within the batch's bound; a row is
 * measured before it is converted.
 */
function readRows(run: Run, columns: number): string {
  const rows: string[] = [];
  for (;;) {
    const row = run.guard.nextRow(columns, run.bytesLeft + columns * valueWordBytes);
    if (row === undefined) return `[${rows.join(",")}]`;
    if (row === "too-large") throw tooLarge();
    if (rows.length === sqlRowsMax) throw invalid(`the result has more than ${sqlRowsMax} rows; add a LIMIT`);
    const text = `[${row.map(encodeJsonValue).join(",")}]`;
    run.bytesLeft -= Buffer.byteLength(text) + 1;
    if (run.bytesLeft < 0) throw tooLarge();
    // The row itself is a value too.
    run.valuesLeft -= columns + 1;
    if (run.valuesLeft < 0)
      throw invalid(
        `the batch's results hold more than ${run.batch.valuesMax} values, which this wire cannot carry in one: ` +
          "ask for less at once, or over REST",
      );
    rows.push(text);
  }
}

/** What the connection counted last; its text is used nowhere else, so that the mode set here stays with it. */
function counted(connection: Connection): { readonly changes: number; readonly rowid: number | string } {
  const statement = connection.prepared("SELECT changes(), last_insert_rowid()").raw(true).safeIntegers(true);
  const [changes, rowid] = statement.get() as [bigint, bigint];
  return { changes: Number(changes), rowid: Number.isSafeInteger(Number(rowid)) ? Number(rowid) : String(rowid) };
}

/** Prepares and runs one statement. `onWrite` is asked when SQLite says that it may write, before it runs. */
function runStatement(run: Run, { text, paramsJson }: SqlStatement, onWrite: () => void): SqlStatementResult {
  const { connection, guard, ticket } = run;
  const { tokens, wholeDatabase, changesRows, defines } = analyseUserSql(text);
  const params = bindParams(listParameters(tokens), parseParams(paramsJson));
  const { writes, columns, rowsJson, changes } = guard.guarded(
    ticket,
    () => {
      const statement = connection.raw.prepare(text);
      if (!statement.readonly) onWrite();
      guard.fit();
      const writes = !statement.readonly;
      if (!statement.reader) return { writes, columns: [], rowsJson: "[]", changes: statement.run(...params).changes };
      statement.bind(...params);
      const rowsJson = readRows(run, statement.columns().length);
      return { writes, columns: statement.columns().map(({ name }) => name), rowsJson, changes: undefined };
    },
    { wholeDatabase, defines, plain: copiesTooMuch(connection, tokens) },
  );
  // SQLite counts what a definition or a virtual table's creation does inside; that is not wanted.
  if (!writes || !changesRows) return { columns, rowsJson, rowsAffected: 0, lastInsertRowid: run.lastInsertRowid };
  const after = counted(connection);
  run.lastInsertRowid = after.rowid;
  return { columns, rowsJson, rowsAffected: changes ?? after.changes, lastInsertRowid: after.rowid };
}

/** Codes that say storage failed when our own SQL meets them, and that user SQL can bring about by itself. */
const userCodes = new Map([
  // A user's own full-text table that disagrees with its content table.
  ["SQLITE_CORRUPT_VTAB", "a virtual table disagrees with its content; rebuild it"],
  ["SQLITE_NOMEM", "the statement is too large for the memory one statement may use"],
  [
    "SQLITE_TOOBIG",
    `a value is longer than the statement may hold (at most ${limits.sqlValueBytesMax} bytes, less in a ` +
      "large statement)",
  ],
]);

/** The error as the client sees it; one that is not the statement's own is passed on as it is. */
function refusalFor({ connection, guard }: Run, error: unknown, index: number): unknown {
  const code = getSqliteCode(error);
  const position = `statement ${index}`;
  if (error instanceof ServiceError) {
    if (error.code !== "invalid_request") return error;
    return new ServiceError(error.code, `${position}: ${error.message}`, error.detail);
  }
  const known = code === undefined ? undefined : userCodes.get(code);
  if (known !== undefined) return invalid(`${position}: ${known}`);
  // A table that counts its rows up has come to the largest number.
  if (code === "SQLITE_FULL" && guard.tellsDiskFull && !connection.isNearlyFull)
    return invalid(`${position}: a table has no row number left for another row`);
  if (isFatal(error)) return error;
  // RangeError and TypeError are better-sqlite3's own refusals of a text or a parameter.
  if (code === undefined && !(error instanceof RangeError || error instanceof TypeError)) return error;
  return invalid(`${position}: ${(error as Error).message.slice(0, sqlMessageCharsMax)}`);
}

function failed(run: Run, refusal: ServiceError): SqlStatementResult {
  const error = { code: refusal.code, message: refusal.message };
  return { columns: [], rowsJson: "[]", rowsAffected: 0, lastInsertRowid: run.lastInsertRowid, error };
}

/** Whether the refusal concerns the statement alone, so that a batch that is not atomic goes on after it. */
function isOwn(refusal: unknown): refusal is ServiceError {
  return refusal instanceof ServiceError && refusal.code === "invalid_request";
}

function forbidden(index: number): ServiceError {
  return new ServiceError("forbidden", `statement ${index} writes, which needs a credential with the write scope`);
}

/**
 * Runs a batch on a read-only connection, inside one read transaction that the caller began. Stops at the first
 * statement that writes. Throws invalid_request naming the statement's index (from 0), forbidden when a statement
 * writes and the credential may not, request_timeout when it was interrupted.
 */
export function readSql(connection: Connection, guard: SqlGuard, ticket: number, batch: SqlBatch): SqlOutcome {
  const run = newRun(connection, guard, ticket, batch);
  const results: SqlStatementResult[] = [];
  for (const [index, statement] of batch.statements.entries()) {
    try {
      results.push(
        runStatement(run, statement, () => {
          throw new WriteFound();
        }),
      );
    } catch (error) {
      if (error instanceof WriteFound) {
        if (!batch.mayWrite) throw forbidden(index);
        return { kind: "writes" };
      }
      const refusal = refusalFor(run, error, index);
      if (batch.atomic || !isOwn(refusal)) throw refusal;
      results.push(failed(run, refusal));
    }
  }
  return { kind: "done", results };
}

/** Runs `act` in a savepoint: when it throws and the transaction lives on, nothing of it stays. */
function inSavepoint<T>(connection: Connection, act: () => T): T {
  connection.run("SAVEPOINT user_statement");
  try {
    return act();
  } catch (error) {
    if (connection.inTransaction) connection.run("ROLLBACK TO user_statement");
    throw error;
  } finally {
    if (connection.inTransaction) connection.run("RELEASE user_statement");
  }
}

/** Notes once which table the statement names as the one that it changes. */
function noteTable(taker: NoteTaker, noted: Set<string>, connection: Connection, { text }: SqlStatement): void {
  const named = findChangedTable(parseTokens(text));
  if (named === undefined) return;
  const sql = "SELECT name FROM sqlite_schema WHERE name = ? COLLATE NOCASE";
  // One that the statement has dropped is in no schema.
  const table = connection.get<{ name: string }>(sql, named)?.name ?? named;
  if (noted.has(table)) return;
  noted.add(table);
  note(taker, "sql", "written", table);
}

/**
 * Runs a batch inside a transaction of its own that the caller began. Throws as readSql does, and passes on faults of
 * storage; the caller must then roll back. Afterwards the caller checks that the transaction is still there.
 */
export function writeSql(
  connection: Connection,
  guard: SqlGuard,
  ticket: number,
  batch: SqlBatch,
  taker: NoteTaker = { notes: [] },
): SqlStatementResult[] {
  assert(connection.inTransaction, "user SQL runs inside a transaction of its own");
  const run = newRun(connection, guard, ticket, batch);
  const noted = new Set<string>();
  const results = batch.statements.map((statement, index) => {
    let writes = false;
    const act = (): SqlStatementResult =>
      runStatement(run, statement, () => {
        if (!batch.mayWrite) throw forbidden(index);
        writes = true;
      });
    try {
      const result = batch.atomic ? act() : inSavepoint(connection, act);
      if (writes) noteTable(taker, noted, connection, statement);
      return result;
    } catch (error) {
      const refusal = refusalFor(run, error, index);
      if (batch.atomic || !isOwn(refusal) || !connection.inTransaction) throw refusal;
      return failed(run, refusal);
    }
  });
  // The commit would fail, with an error that names no statement.
  if (guard.breaksForeignKeys()) throw invalid("the batch breaks a deferred foreign key; nothing was written");
  return results;
}
