/** Hostile, legitimate and generated SQL against the guard; what it must protect is looked at from outside it. */
import { readFileSync } from "node:fs";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { ServiceError } from "../../src/base/faults/errors.ts";
import { checkUserSql } from "../../src/sqlite/sql-authorizer.ts";
import { newTicket, secret, SqlDatabase } from "../support/sql-database.ts";

function corpus(name: string): string {
  return readFileSync(new URL(`corpus/${name}`, import.meta.url), "utf8");
}

const hostile = corpus("hostile.sql")
  .split("\n")
  .filter((line) => line !== "" && !line.startsWith("-- "));

/** What a user has of their own, so that statements can get far. */
const ownSchema = [
  "CREATE TABLE t (a, b)",
  "INSERT INTO t VALUES (1, 'one')",
  "CREATE VIEW v AS SELECT a FROM t",
  "CREATE VIRTUAL TABLE f USING fts5(a, b)",
  "CREATE TABLE counted (id INTEGER PRIMARY KEY AUTOINCREMENT)",
];

/** "done" with the answer, or the refusal's code; anything else is a bug and thrown. */
function tried(act: () => unknown): { readonly code: string; readonly answer: string } {
  try {
    return { code: "done", answer: JSON.stringify(act()) };
  } catch (error) {
    if (error instanceof ServiceError) return { code: error.code, answer: error.message };
    throw error;
  }
}

describe("hostile statements", () => {
  test("core-12 hardening-07 F25: each is refused on both connections and moves nothing of the service", () => {
    const database = new SqlDatabase();
    database.write(ownSchema);
    const before = database.untouchables();
    const passed: string[] = [];
    for (const text of hostile) {
      const written = tried(() => database.write([text]));
      const read = tried(() => database.read([text]));
      for (const { code, answer } of [written, read]) {
        expect(answer, text).not.toContain(secret);
        expect(["invalid_request", "done"], text).toContain(code);
      }
      if (written.code === "done" || (read.code === "done" && !read.answer.includes('"writes"'))) passed.push(text);
      expect(database.untouchables(), text).toBe(before);
    }
    expect(passed).toEqual([]);
    expect(database.connection.raw.pragma("integrity_check", { simple: true })).toBe("ok");
  });

  test("hardening-03: what a text says is judged without a database", () => {
    const late = hostile.filter((text) => tried(() => checkUserSql(text)).code === "done");
    // A name in any quotes but single ones is seen by the text alone.
    expect(late.filter((text) => /__service/i.test(text.replaceAll(/'[^']*'/g, "''")))).toEqual([]);
    expect(late.length).toBeLessThan(hostile.length / 4);
  });
});

test("legitimate statements pass and give the right rows", () => {
  const statements = JSON.parse(corpus("legitimate.json")) as [string, unknown, unknown[][], number][];
  expect(statements.length).toBeGreaterThanOrEqual(100);
  const database = new SqlDatabase();
  const before = database.untouchables();
  for (const [text, params, rows, affected] of statements) {
    const [result] = database.write([params === null ? text : [text, params]]);
    expect(JSON.parse(result!.rowsJson), text).toEqual(rows);
    expect(result!.rowsAffected, text).toBe(affected);
  }
  expect(database.untouchables()).toBe(before);
});

/** Root pages of the tables and indexes that a statement opens, told by SQLite's own program listing. */
function pagesTouched(database: SqlDatabase, text: string): number[] {
  const program = database.connection.raw.prepare(`EXPLAIN ${text}`).all() as { opcode: string; p2: number }[];
  return program.filter(({ opcode }) => /^(?:OpenRead|OpenWrite|ReopenIdx|Clear)$/.test(opcode)).map(({ p2 }) => p2);
}

describe("generated statements", () => {
  const space = fc.constantFrom(" ", "\n", "/* c */", " -- c\n", "\t");
  const reserved = fc.constantFrom(
    "__service_kv",
    "__SERVICE_kv",
    "__service_session",
    "__service_state",
    "__service_memory_text",
    "__service_memory_text_data",
    "__service_x",
    "__service",
  );
  const own = fc.constantFrom("t", "v", "f", "counted", "sqlite_master", "json_each", "mine");
  const quoting = fc.constantFrom(
    (name: string) => name,
    (name: string) => `"${name}"`,
    (name: string) => `[${name}]`,
    (name: string) => `\`${name}\``,
    (name: string) => `'${name}'`,
  );
  const schema = fc.constantFrom("", "", "", "main.", "temp.", '"main".', "main . ", "other.");
  const table = fc
    .tuple(schema, quoting, fc.oneof({ weight: 3, arbitrary: reserved }, { weight: 2, arbitrary: own }))
    .map(([at, quote, name]) => at + quote(name));
  const value = fc.oneof(
    fc.constantFrom("1", "NULL", "'x'", "a", "ns", "value", "rowid", "*", "count(*)", "key", "'__serv'||'ice_kv'"),
    table,
  );
  const source: fc.Arbitrary<string> = fc.oneof(
    table,
    table.map((name) => `(${name})`),
    fc.tuple(table, table).map(([a, b]) => `${a}, ${b}`),
    fc
      .tuple(table, fc.constantFrom("JOIN", "LEFT JOIN", "CROSS JOIN", "NATURAL JOIN", "FULL JOIN"), table)
      .map((parts) => parts.join(" ")),
    table.map((name) => `(SELECT * FROM ${name})`),
    fc
      .tuple(fc.constantFrom("pragma_table_info", "pragma_index_list", "json_each", "pragma_foreign_key_list"), value)
      .map(([name, arg]) => `${name}(${arg})`),
  );
  const select = fc
    .tuple(
      fc.constantFrom("", "DISTINCT "),
      value,
      source,
      fc.constantFrom("", " LIMIT 3", " ORDER BY 1", " GROUP BY 1", " WHERE 1"),
    )
    .map(([distinct, what, from, rest]) => `SELECT ${distinct}${what} FROM ${from}${rest}`);
  const read = fc.oneof(
    select,
    fc.tuple(select, fc.constantFrom("UNION ALL", "EXCEPT"), select).map((parts) => parts.join(" ")),
    fc.tuple(table, select, source).map(([name, body, from]) => `WITH ${name} AS (${body}) SELECT * FROM ${from}`),
    select.map((text) => `SELECT (${text})`),
    fc.tuple(value, table).map(([what, name]) => `SELECT ${what} IN ${name}`),
    select.map((text) => `EXPLAIN QUERY PLAN ${text}`),
  );
  const write = fc.oneof(
    fc
      .tuple(
        fc.constantFrom("INSERT INTO", "REPLACE INTO", "INSERT OR IGNORE INTO"),
        table,
        fc.oneof(select, fc.constant("DEFAULT VALUES"), fc.constant("VALUES (1, 2)")),
      )
      .map((parts) => parts.join(" ")),
    fc
      .tuple(
        fc.constantFrom("UPDATE", "UPDATE OR REPLACE"),
        table,
        value,
        fc.oneof(
          fc.constant("1"),
          select.map((text) => `(${text})`),
        ),
      )
      .map(([verb, name, column, to]) => `${verb} ${name} SET ${column} = ${to}`),
    fc.tuple(table, fc.constantFrom("", " RETURNING *")).map(([name, rest]) => `DELETE FROM ${name}${rest}`),
  );
  const definition = fc.oneof(
    fc
      .tuple(fc.constantFrom("TABLE", "VIEW", "INDEX", "TRIGGER", "TABLE IF EXISTS"), table)
      .map((parts) => `DROP ${parts.join(" ")}`),
    fc.tuple(table, select).map(([name, body]) => `CREATE VIEW ${name} AS ${body}`),
    fc.tuple(table, select).map(([name, body]) => `CREATE TABLE ${name} AS ${body}`),
    fc.tuple(table, table).map(([name, parent]) => `CREATE TABLE ${name} (a REFERENCES ${parent})`),
    fc.tuple(table, table).map(([name, on]) => `CREATE INDEX ${name} ON ${on} (a)`),
    fc
      .tuple(
        table,
        fc.constantFrom("AFTER INSERT", "BEFORE DELETE", "INSTEAD OF UPDATE"),
        table,
        fc.oneof(select, write),
      )
      .map(([name, when, on, body]) => `CREATE TRIGGER ${name} ${when} ON ${on} BEGIN ${body}; END`),
    fc
      .tuple(table, fc.constantFrom("fts5", "rtree", "fts5vocab", "fts4"), table)
      .map(([name, module, content]) => `CREATE VIRTUAL TABLE ${name} USING ${module}(a, b, content=${content})`),
    fc.tuple(table, table).map(([from, to]) => `ALTER TABLE ${from} RENAME TO ${to}`),
    fc.tuple(table, table).map(([name, parent]) => `ALTER TABLE ${name} ADD COLUMN z REFERENCES ${parent}`),
    fc
      .tuple(fc.constantFrom("table_info", "index_list", "integrity_check", "table_list", "foreign_key_check"), table)
      .map(([name, arg]) => `PRAGMA ${name}(${arg})`),
  );
  const statement = fc.tuple(fc.oneof(read, write, definition), space).map(([text, gap]) => text.replaceAll(" ", gap));

  test("core-12: whatever passes has seen and changed nothing reserved", () => {
    const database = new SqlDatabase();
    database.write(ownSchema);
    const before = database.untouchables();
    const counts = { passed: 0, refused: 0 };
    fc.assert(
      fc.property(fc.array(statement, { minLength: 1, maxLength: 4 }), (texts) => {
        database.tryOut(texts, (results) => {
          expect(JSON.stringify(results)).not.toContain(secret);
          expect(database.untouchables()).toBe(before);
          for (const { error } of results) counts[error ? "refused" : "passed"]++;
        });
      }),
      { numRuns: 3_000, seed: 12 },
    );
    // Both must happen often, or the property says nothing.
    expect(counts.passed).toBeGreaterThan(200);
    expect(counts.refused).toBeGreaterThan(2_000);
  });

  test("the authorizer alone lets no query and no change near a reserved table", () => {
    const database = new SqlDatabase();
    database.write(ownSchema);
    const before = database.untouchables();
    const { connection, guard } = database;
    const reservedPages = new Set(
      connection
        .all<{ rootpage: number }>(
          "SELECT rootpage FROM sqlite_master WHERE tbl_name LIKE '\\_\\_service%' ESCAPE '\\' AND rootpage > 0",
        )
        .map(({ rootpage }) => rootpage),
    );
    expect(reservedPages.size).toBeGreaterThan(10);
    expect(pagesTouched(database, "SELECT value FROM __service_kv").some((page) => reservedPages.has(page))).toBe(true);
    let passed = 0;
    fc.assert(
      fc.property(fc.oneof(read, write), (text) => {
        connection.run("BEGIN IMMEDIATE");
        try {
          const rows = guard.guarded(newTicket(), () => {
            const prepared = connection.raw.prepare(text);
            return prepared.reader ? prepared.raw(true).all() : prepared.run();
          });
          passed++;
          if (text.startsWith("EXPLAIN")) return;
          expect(
            JSON.stringify(rows, (_key, value: unknown) => (value instanceof Uint8Array ? String(value) : value)),
          ).not.toContain(secret);
          expect(
            pagesTouched(database, text).filter((page) => reservedPages.has(page)),
            text,
          ).toEqual([]);
        } catch (error) {
          if (error instanceof Error && error.name === "AssertionError") throw error;
        } finally {
          if (connection.inTransaction) connection.run("ROLLBACK");
        }
        expect(database.untouchables()).toBe(before);
      }),
      { numRuns: 2_000, seed: 13 },
    );
    expect(passed).toBeGreaterThan(100);
  });
});
