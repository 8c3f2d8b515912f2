/** What a statement of a user may say: its tokens, its text, and what the authorizer lets it touch. */
import { describe, expect, test } from "vitest";
import { limits } from "../../../src/base/limits.ts";
import { checkUserSql, interrupt, looksReadOnly, SqlGuard } from "../../../src/sqlite/sql-authorizer.ts";
import { listParameters, parseTokens } from "../../../src/sqlite/sql-tokens.ts";
import { newTicket, SqlDatabase } from "../../support/sql-database.ts";
import { refused } from "../../support/refused.ts";

describe("tokens", () => {
  test("are cut where SQLite cuts them", () => {
    const kinds = (sql: string) => parseTokens(sql).map(({ kind, text }) => `${kind}:${text}`);
    expect(
      kinds("select \"a\"\"b\", [c d], `e`, 'f''g', x'0A', .5e-3, 0xfF, 1_0, ?1, :n, @m, $k->>'x' -- end"),
    ).toEqual([
      "word:SELECT",
      'name:a"b',
      "operator:,",
      "name:c d",
      "operator:,",
      "name:e",
      "operator:,",
      "string:f'g",
      "operator:,",
      "blob:x'0A'",
      "operator:,",
      "number:.5e-3",
      "operator:,",
      "number:0xfF",
      "operator:,",
      "number:1_0",
      "operator:,",
      "variable:?1",
      "operator:,",
      "variable::n",
      "operator:,",
      "variable:@m",
      "operator:,",
      "variable:$k",
      "operator:->>",
      "string:x",
    ]);
    expect(kinds("a/**/b--x\nc/*/ still */d/*")).toEqual([
      "word:A",
      "word:B",
      "word:C",
      "word:D",
      "operator:/",
      "operator:*",
    ]);
  });

  test("a byte order mark is space before a token and a letter inside one, as in SQLite", () => {
    expect(parseTokens("\ufeff__service_kv").map(({ text }) => text)).toEqual(["__SERVICE_KV"]);
    expect(parseTokens("a\ufeff").map(({ text }) => text)).toEqual(["A\ufeff"]);
  });

  test.each(["'open", '"open', "`open", "[open", "x'0'", "x'gg'", "1a", "\\", "{", "a ! b", "#", ":", "\u0001"])(
    "what is illegal to SQLite is refused: %s",
    (sql) => {
      expect(refused(() => parseTokens(sql)).code).toBe("invalid_request");
    },
  );

  test("parameters are numbered as SQLite numbers them", () => {
    expect(listParameters(parseTokens("? ?3 :a ? :a @a ?1"))).toEqual(["?1", undefined, "?3", ":a", undefined, "@a"]);
    expect(refused(() => listParameters(parseTokens("?999999999"))).message).toContain("parameter");
  });
});

describe("the text of a statement", () => {
  test("hardening-07: a reserved name inside a string is a value, under any quoting it is a name", () => {
    expect(() => checkUserSql("SELECT '__service_kv', ' __service_'")).not.toThrow();
    expect(() => checkUserSql("INSERT INTO t VALUES ('__service_kv')")).not.toThrow();
    for (const name of [
      "__service_kv",
      '"__service_kv"',
      "[__service_kv]",
      "`__SERVICE_kv`",
      "'__service_kv'",
      "main.__service_kv",
      "main.'__service_kv'",
    ]) {
      expect(refused(() => checkUserSql(`SELECT * FROM ${name}`)).message, name).toContain("__service_");
    }
  });

  test("hardening-07: transaction control is refused, also after a semicolon or a comment", () => {
    // Words that look like it are not.
    for (const word of ["BEGIN", "COMMIT", "END", "ROLLBACK", "SAVEPOINT x", "RELEASE x"]) {
      for (const text of [word, `/* x */ ${word}`, `-- x\n${word.toLowerCase()}`, `SELECT 1; ${word}`, `;${word}`]) {
        expect(refused(() => checkUserSql(text)).code, text).toBe("invalid_request");
      }
    }
    for (const text of [
      "SELECT CASE WHEN 1 THEN 2 END",
      "SELECT commits FROM t",
      "SELECT 'Wendy'",
      'SELECT "end" FROM t',
      "SELECT 1 -- COMMIT",
    ])
      expect(() => checkUserSql(text)).not.toThrow();
  });

  test("hardening-07: trigger bodies are allowed, though not with reserved names", () => {
    expect(() =>
      checkUserSql("CREATE TRIGGER a AFTER INSERT ON t BEGIN SELECT CASE WHEN 1 THEN 2 END; UPDATE t SET a = 1; END;"),
    ).not.toThrow();
    expect(
      refused(() => checkUserSql("CREATE TRIGGER a AFTER INSERT ON t BEGIN DELETE FROM __service_kv; END")).code,
    ).toBe("invalid_request");
  });

  test("hardening-04 hardening-07: pragmas are read from a list, never set", () => {
    for (const text of [
      "PRAGMA table_info(t)",
      "PRAGMA integrity_check",
      "pragma main.user_version",
      "PRAGMA integrity_check(10)",
    ])
      expect(() => checkUserSql(text)).not.toThrow();
    for (const text of [
      "PRAGMA journal_mode",
      "PRAGMA synchronous = 0",
      "PRAGMA writable_schema",
      "PRAGMA user_version = 1",
      "PRAGMA table_info = t",
      "PRAGMA temp.table_info(t)",
    ]) {
      expect(refused(() => checkUserSql(text)).message, text).toContain("pragma");
    }
  });

  test("bounds: no statement, several, NUL, too long, lone surrogates", () => {
    for (const text of [
      "",
      "  ",
      "-- nothing",
      ";;",
      "SELECT 1; SELECT 2",
      "SELECT '\0'",
      "SELECT '\ud800'",
      `SELECT '${"x".repeat(limits.sqlTextBytesMax)}'`,
    ]) {
      expect(refused(() => checkUserSql(text)).code).toBe("invalid_request");
    }
    expect(() => checkUserSql("SELECT 1 ; ; ")).not.toThrow();
  });

  test("hardening-08: what looks read-only goes to a reader first", () => {
    for (const text of [
      "SELECT 1",
      " /* x */ with a as (select 1) select * from a",
      "VALUES (1)",
      "EXPLAIN DELETE FROM t",
      "PRAGMA user_version",
    ])
      expect(looksReadOnly(text)).toBe(true);
    for (const text of [
      "INSERT INTO t VALUES (1)",
      "DELETE FROM t",
      "CREATE TABLE t (a)",
      "REPLACE INTO t VALUES (1)",
      "",
    ])
      expect(looksReadOnly(text)).toBe(false);
  });
});

describe("the authorizer", () => {
  test("is off outside guarded and on inside, and off again after a throw", () => {
    const { connection, guard } = new SqlDatabase();
    const look = () => connection.raw.prepare("SELECT count(*) FROM __service_kv").pluck().get();
    expect(look()).toBe(1);
    expect(refused(() => guard.guarded(newTicket(), look)).message).toContain("__service_kv");
    expect(look()).toBe(1);
    expect(() =>
      guard.guarded(newTicket(), () => {
        throw new TypeError("mine");
      }),
    ).toThrow(TypeError);
    expect(look()).toBe(1);
  });

  test("a schema that changes inside guarded does not lock its own switch", () => {
    const { connection, guard } = new SqlDatabase();
    for (let round = 0; round < 3; round++) {
      guard.guarded(newTicket(), () =>
        connection.raw.exec(`CREATE TABLE t${round} (a); ALTER TABLE t${round} ADD COLUMN b; DROP TABLE t${round}`),
      );
      expect(connection.all("SELECT 1 FROM __service_kv")).toHaveLength(1);
    }
  });

  test("a statement prepared before, for the service, still runs after", () => {
    const { connection, guard } = new SqlDatabase();
    const own = connection.prepared("SELECT value FROM __service_kv");
    guard.guarded(newTicket(), () => connection.raw.exec("CREATE TABLE t (a)"));
    expect(own.all()).toHaveLength(1);
  });

  test("has allow-lists of functions and modules", () => {
    const { connection, guard } = new SqlDatabase();
    const attempt = (sql: string) => refused(() => guard.guarded(newTicket(), () => connection.raw.exec(sql))).message;
    expect(attempt("SELECT fts3_tokenizer('simple')")).toContain("fts3_tokenizer");
    expect(attempt("SELECT load_extension('x')")).toContain("load_extension");
    expect(attempt("CREATE VIRTUAL TABLE x USING fts4(a)")).toContain("fts4");
    expect(attempt("CREATE TEMP TABLE x (a)")).toContain("outside the database");
    expect(attempt("ATTACH ':memory:' AS x")).toContain("ATTACH");
    expect(attempt("SELECT * FROM pragma_table_info('__serv' || 'ice_kv')")).toContain("reserved");
  });

  test("limits hold inside only", () => {
    const { connection, guard } = new SqlDatabase();
    const long = () =>
      connection.raw
        .prepare(`SELECT length(zeroblob(${limits.sqlValueBytesMax + 1}))`)
        .pluck()
        .get();
    expect(() => guard.guarded(newTicket(), long)).toThrow(/too big/);
    expect(long()).toBe(limits.sqlValueBytesMax + 1);
  });

  test("bounded functions give what SQLite's own give", () => {
    const { connection, guard } = new SqlDatabase();
    const row = () =>
      connection.raw
        .prepare(
          "SELECT instr('añb', 'b'), instr(x'0102', x'02'), instr(NULL, 'a'), replace('aXbX', 'X', 'yy'), " +
            "replace('a', '', 'b'), trim('..a..', '.'), ltrim('..a', '.'), rtrim('a..', '.'), hex(unhex('41 " +
            "42', ' ')), json_array(json_patch('{\"a\":1}', '{\"a\":null,\"b\":2}')), json(jsonb_patch('{}', " +
            "'{\"c\":3}'))",
        )
        .raw(true)
        .get();
    const expected = [3, 2, null, "ayybyy", "a", "a", "a", "a", "4142", '[{"b":2}]', '{"c":3}'];
    expect(row()).toEqual(expected);
    expect(guard.guarded(newTicket(), row)).toEqual(expected);
    expect(() =>
      guard.guarded(newTicket(), () => connection.raw.prepare("SELECT json_patch('{', '{}')").get()),
    ).toThrow(/malformed JSON/);
  });

  test("one connection takes one guard; a detached one is out of reach", () => {
    const { connection, guard } = new SqlDatabase();
    expect(() => SqlGuard.attach(connection)).toThrow(/not authorized/);
    expect(interrupt(guard.handle, newTicket())).toBe(true);
    guard.detach();
    guard.detach();
    expect(interrupt(guard.handle, newTicket())).toBe(false);
  });

  test("closing a connection that nobody detached leaves no handle behind", () => {
    const { connection, guard } = new SqlDatabase();
    connection.close();
    expect(interrupt(guard.handle, newTicket())).toBe(false);
  });
});
