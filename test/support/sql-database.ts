/** A real database with the service's own tables and secrets in them, for tests of user SQL. */
import { join } from "node:path";
import { onTestFinished } from "vitest";
import { limits } from "../../src/base/limits.ts";
import { createSchema } from "../../src/model/schema.ts";
import { readSql, writeSql, type SqlBatch, type SqlOutcome, type SqlStatementResult } from "../../src/model/sql/sql.ts";
import { Connection } from "../../src/sqlite/connection/connection.ts";
import { SqlGuard } from "../../src/sqlite/sql-authorizer.ts";
import { runAlone } from "../../src/sqlite/group.ts";
import { temporaryDirectory } from "./temporary.ts";

/** Stands in reserved rows only: a result that holds it has seen what it may not. */
export const secret = "s3cret-of-the-service";

/** Settings that user SQL must never move (the engine's durability and erasure rest on them). */
const watchedPragmas = [
  "journal_mode",
  "synchronous",
  "secure_delete",
  "wal_autocheckpoint",
  "auto_vacuum",
  "page_size",
  "trusted_schema",
  "writable_schema",
  "foreign_keys",
  "recursive_triggers",
  "query_only",
  "cache_size",
  "temp_store",
  "mmap_size",
  "locking_mode",
  "max_page_count",
  "user_version",
  "application_id",
  "case_sensitive_like",
  "ignore_check_constraints",
  "legacy_alter_table",
  "cell_size_check",
  "hard_heap_limit",
  "soft_heap_limit",
  "cache_spill",
];

export type Given = string | readonly [text: string, params: unknown];

function buildBatch(given: readonly Given[], options: { atomic?: boolean; mayWrite?: boolean } = {}): SqlBatch {
  const statements = given.map((one) =>
    typeof one === "string"
      ? { text: one, paramsJson: undefined }
      : { text: one[0], paramsJson: typeof one[1] === "string" ? one[1] : JSON.stringify(one[1]) },
  );
  return { statements, atomic: options.atomic ?? true, mayWrite: options.mayWrite ?? true };
}

let lastTicket = 0;

/** A number never used before in this process, as the engine hands them out. */
export function newTicket(): number {
  return ++lastTicket;
}

export class SqlDatabase {
  readonly path = join(temporaryDirectory(), "main.db");
  readonly connection = new Connection(this.path, { readonly: false, pageCacheKiB: limits.pageCacheKiB });
  readonly guard: SqlGuard;

  constructor() {
    createSchema(this.connection);
    this.connection.run("INSERT INTO __service_kv (ns, key, value) VALUES ('n', ?, CAST(? AS BLOB))", secret, secret);
    this.connection.run("INSERT INTO __service_session (id, created_at, last_active_at) VALUES (?, 1, 1)", secret);
    this.guard = SqlGuard.attach(this.connection);
    onTestFinished(() => this.close());
  }

  close(): void {
    if (!this.connection.raw.open) return;
    this.guard.detach();
    this.connection.close();
  }

  /** Runs the batch as the owner does: alone in a transaction. */
  write(
    given: readonly Given[],
    options: { atomic?: boolean; mayWrite?: boolean; ticket?: number } = {},
  ): SqlStatementResult[] {
    return runAlone(
      this.connection,
      () => writeSql(this.connection, this.guard, options.ticket ?? newTicket(), buildBatch(given, options)),
      () => {},
    ).result;
  }

  /** Runs the statements one by one, lets `look` see the outcome inside the transaction, and undoes it all. */
  tryOut(given: readonly Given[], look: (results: readonly SqlStatementResult[]) => void): void {
    this.connection.run("BEGIN IMMEDIATE");
    try {
      look(writeSql(this.connection, this.guard, newTicket(), buildBatch(given, { atomic: false })));
    } finally {
      if (this.connection.inTransaction) this.connection.run("ROLLBACK");
    }
  }

  /** The rows of the last statement. */
  rows(...given: readonly Given[]): unknown[][] {
    return JSON.parse(this.write(given).at(-1)!.rowsJson) as unknown[][];
  }

  /** Runs the batch as a reader thread does: on a read-only connection of its own. */
  read(given: readonly Given[], options: { atomic?: boolean; mayWrite?: boolean } = {}): SqlOutcome {
    const connection = new Connection(this.path, { readonly: true, pageCacheKiB: limits.sqlCacheKiB });
    const guard = SqlGuard.attach(connection);
    try {
      connection.run("BEGIN");
      return readSql(connection, guard, newTicket(), buildBatch(given, options));
    } finally {
      guard.detach();
      connection.close();
    }
  }

  /** Everything that user SQL must leave as it is: reserved tables' definitions and rows, and the settings. */
  untouchables(): string {
    const tables = this.connection.all<{ name: string; sql: string }>(
      "SELECT name, sql FROM sqlite_master WHERE tbl_name LIKE '\\_\\_service%' ESCAPE '\\' ORDER BY name",
    );
    const rows = tables
      .filter(({ sql }) => sql?.startsWith("CREATE TABLE"))
      .map(({ name }) => [name, this.connection.raw.prepare(`SELECT * FROM "${name}"`).all()]);
    const temporary = this.connection.raw.prepare("SELECT count(*) FROM sqlite_temp_master").pluck().get();
    const databases = this.connection.raw.pragma("database_list") as unknown[];
    return JSON.stringify([
      tables,
      rows,
      temporary,
      databases,
      watchedPragmas.map((name) => [name, this.connection.raw.pragma(name, { simple: true })]),
    ]);
  }
}
