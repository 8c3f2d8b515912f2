/** User SQL as a batch: results and refusals of each statement, what counts as a write, parameters, and bounds. */
import { describe, expect, test } from "vitest";
import { limits } from "../../../../src/base/limits.ts";
import { refused } from "../../../support/refused.ts";
import { SqlDatabase } from "../../../support/sql-database.ts";
import { sqlRowsMax, sqlResultBytesMax } from "../../../../src/model/sql/sql.ts";

describe("a batch", () => {
  test("core-04: DDL, an insert with parameters and a select give one result each, rows as arrays", () => {
    const database = new SqlDatabase();
    const results = database.write([
      "CREATE TABLE t (id INTEGER PRIMARY KEY, name TEXT)",
      ["INSERT INTO t (name) VALUES (?), (?)", ["a", "b"]],
      "SELECT id, name FROM t ORDER BY id",
    ]);
    expect(results).toEqual([
      { columns: [], rowsJson: "[]", rowsAffected: 0, lastInsertRowid: 0 },
      { columns: [], rowsJson: "[]", rowsAffected: 2, lastInsertRowid: 2 },
      { columns: ["id", "name"], rowsJson: '[[1,"a"],[2,"b"]]', rowsAffected: 0, lastInsertRowid: 2 },
    ]);
  });

  test("core-06: one failing statement is 400 naming it, and leaves nothing behind", () => {
    const database = new SqlDatabase();
    database.write(["CREATE TABLE t (a UNIQUE)"]);
    const error = refused(() => database.write(["INSERT INTO t VALUES (1)", "INSERT INTO t VALUES (1)"]));
    expect(error).toMatchObject({ code: "invalid_request", message: "statement 1: UNIQUE constraint failed: t.a" });
    expect(database.rows("SELECT count(*) FROM t")).toEqual([[0]]);
  });

  test("that is not atomic reports each error and keeps the rest", () => {
    const database = new SqlDatabase();
    const results = database.write(
      [
        "CREATE TABLE t (a UNIQUE)",
        "INSERT INTO t VALUES (1), (2)",
        "INSERT INTO t VALUES (3), (1)",
        "SELEC",
        ["SELECT ?", []],
        "INSERT INTO t VALUES (4)",
        "SELECT a FROM t",
      ],
      { atomic: false },
    );
    expect(results.map(({ error }) => error?.code)).toEqual([
      undefined,
      undefined,
      "invalid_request",
      "invalid_request",
      "invalid_request",
      undefined,
      undefined,
    ]);
    expect(results[2]!.error!.message).toBe("statement 2: UNIQUE constraint failed: t.a");
    expect(results[6]!.rowsJson).toBe("[[1],[2],[4]]");
  });

  test("a trigger's own RAISE ends its statement only", () => {
    const database = new SqlDatabase();
    database.write([
      "CREATE TABLE t (a)",
      "CREATE TRIGGER g BEFORE INSERT ON t WHEN new.a < 0 BEGIN SELECT RAISE(ABORT, 'no negatives'); END",
    ]);
    const results = database.write(["INSERT INTO t VALUES (1)", "INSERT INTO t VALUES (-1)"], { atomic: false });
    expect(results[1]!.error!.message).toBe("statement 1: no negatives");
    expect(database.rows("SELECT a FROM t")).toEqual([[1]]);
  });

  test("a broken deferred foreign key is the batch's refusal, not a fault of the commit", () => {
    const database = new SqlDatabase();
    database.write([
      "CREATE TABLE p (id INTEGER PRIMARY KEY)",
      "CREATE TABLE c (p REFERENCES p DEFERRABLE INITIALLY DEFERRED)",
    ]);
    expect(refused(() => database.write(["INSERT INTO c VALUES (7)"])).message).toContain("foreign key");
    expect(database.write(["INSERT INTO c VALUES (7)", "INSERT INTO p VALUES (7)"])).toHaveLength(2);
  });

  test("a user's full-text table that disagrees with its content is their own affair, not a fault of storage", () => {
    const database = new SqlDatabase();
    database.write([
      "CREATE TABLE t (a)",
      "CREATE VIRTUAL TABLE f USING fts5(a, content='t')",
      "INSERT INTO f (rowid, a) VALUES (1, 'ghost')",
    ]);
    expect(refused(() => database.write(["INSERT INTO f (f, rank) VALUES ('integrity-check', 1)"]))).toMatchObject({
      code: "invalid_request",
    });
  });

  test("bounds: statements, none at all", () => {
    const database = new SqlDatabase();
    expect(refused(() => database.write([])).message).toContain("stmts");
    expect(
      refused(() => database.write(Array.from({ length: limits.sqlStatementsMax + 1 }, () => "SELECT 1"))).message,
    ).toContain(String(limits.sqlStatementsMax));
  });
});

describe("scope", () => {
  const writing = [
    "INSERT INTO t VALUES (2)",
    "INSERT INTO t VALUES (2) RETURNING a",
    "DELETE FROM t",
    "WITH x AS (SELECT 1) UPDATE t SET a = 2",
    "CREATE TABLE u (a)",
    "DROP TABLE t",
  ];

  test.each(writing)("auth-07 hardening-08: %s is a write, however it looks", (text) => {
    const database = new SqlDatabase();
    database.write(["CREATE TABLE t (a)", "INSERT INTO t VALUES (1)"]);
    expect(database.read(["SELECT 1", text])).toEqual({ kind: "writes" });
    for (const atomic of [true, false]) {
      expect(refused(() => database.read(["SELECT 1", text], { mayWrite: false, atomic })).code).toBe("forbidden");
      expect(refused(() => database.write(["SELECT 1", text], { mayWrite: false, atomic })).code).toBe("forbidden");
    }
    expect(database.rows("SELECT a FROM t")).toEqual([[1]]);
  });

  test("core-05 hardening-08: what only reads is answered by a reader", () => {
    const database = new SqlDatabase();
    database.write(["CREATE TABLE t (a)", "INSERT INTO t VALUES (1)"]);
    const outcome = database.read(
      [
        "SELECT a FROM t",
        "WITH x AS (SELECT 2 AS b) SELECT b FROM x",
        "PRAGMA integrity_check",
        "EXPLAIN QUERY PLAN SELECT 1",
        "VALUES (3)",
      ],
      { mayWrite: false },
    );
    expect(outcome.kind === "done" && outcome.results.map(({ rowsJson }) => rowsJson.slice(0, 12))).toEqual([
      "[[1]]",
      "[[2]]",
      '[["ok"]]',
      '[[1,0,0,"SCA',
      "[[3]]",
    ]);
  });

  test("core-12: a reserved table is 400 even for who may only read", () => {
    const database = new SqlDatabase();
    expect(refused(() => database.read(["DELETE FROM __service_kv"], { mayWrite: false })).code).toBe(
      "invalid_request",
    );
    expect(refused(() => database.read(["SELECT * FROM pragma_table_info('__serv' || 'ice_kv')"])).code).toBe(
      "invalid_request",
    );
  });

  test("hardening-04: the whole-database check reads the service's tables too and says ok", () => {
    const database = new SqlDatabase();
    database.write(["CREATE VIRTUAL TABLE f USING fts5(a)", "INSERT INTO f VALUES ('x')"]);
    for (const check of ["PRAGMA integrity_check", "PRAGMA quick_check", "PRAGMA main.integrity_check(5)"]) {
      expect(database.read([check])).toMatchObject({ results: [{ rowsJson: '[["ok"]]' }] });
      expect(database.rows(check)).toEqual([["ok"]]);
    }
  });
});

describe("parameters", () => {
  test("integral JSON numbers are integers, all 64 bits of them; others are doubles", () => {
    const database = new SqlDatabase();
    const params = "[1, 9007199254740993, -9223372036854775808, 9223372036854775808, 1.0, 1e2]";
    expect(
      database.rows(["SELECT typeof(?1), ?1 / 2, ?2 - 1, typeof(?3), typeof(?4), typeof(?5), typeof(?6)", params]),
    ).toEqual([
      ["integer", 0, 9007199254740992, "integer", "real", "real", "real"].map((value) =>
        value === 9007199254740992 ? "9007199254740992" : value,
      ),
    ]);
  });

  test("null, booleans, text, blobs, and other JSON as text with its numbers exact", () => {
    const database = new SqlDatabase();
    const params =
      '[null, true, false, "é", {"$base64":"AP8="}, {"id": 9007199254740993, "a": [1.50]}, [], ' +
      '{"$base64":"AA==","x":1}]';
    expect(database.rows(["SELECT ?, ?, ?, ?, ?, ?, ?, ?", params])).toEqual([
      [null, 1, 0, "é", { $base64: "AP8=" }, '{"id":9007199254740993,"a":[1.50]}', "[]", '{"$base64":"AA==","x":1}'],
    ]);
    expect(refused(() => database.rows(["SELECT ?", [{ $base64: "?" }]])).message).toContain("$base64");
    expect(refused(() => database.rows(["SELECT ?", [{ $base64: 1 }]])).message).toContain("$base64");
  });

  test("an object binds by name, with or without the sign", () => {
    const database = new SqlDatabase();
    expect(database.rows(["SELECT :a, @b, $c, :a", { a: 1, "@b": 2, c: 3 }])).toEqual([[1, 2, 3, 1]]);
    expect(database.rows(["SELECT :__proto__", '{"__proto__": 5}'])).toEqual([[5]]);
    expect(refused(() => database.rows(["SELECT :a", { b: 1 }])).message).toBe(
      "statement 0: params has no value for :a",
    );
    expect(refused(() => database.rows(["SELECT :a", { a: 1, b: 1 }])).message).toContain("value for b");
    expect(refused(() => database.rows(["SELECT ?", { a: 1 }])).message).toContain("without a name");
    expect(refused(() => database.rows(["SELECT :a, @a", [1, 2]])).message).toContain("sign");
    expect(database.rows(["SELECT :a, @a", { a: 1 }])).toEqual([[1, 1]]);
  });

  test("an array binds by position, numbered and named parameters too", () => {
    const database = new SqlDatabase();
    expect(database.rows(["SELECT ?2, ?1, ?", ["a", "b", "c"]])).toEqual([["b", "a", "c"]]);
    expect(database.rows(["SELECT :x, ?, :x", [1, 2]])).toEqual([[1, 2, 1]]);
    expect(database.rows(["SELECT ?3", [1, 2, 3]])).toEqual([[3]]);
    for (const params of [[], [1, 2]])
      expect(refused(() => database.rows(["SELECT ?", params])).message).toContain(
        "statement 0: the statement has 1 parameters",
      );
    expect(refused(() => database.rows(["SELECT 1", "7"])).message).toContain("params must be");
    expect(refused(() => database.rows(["SELECT 1", "{"])).message).toContain("params must be JSON");
    expect(refused(() => database.rows("SELECT ?99999")).code).toBe("invalid_request");
  });
});

describe("results", () => {
  test("integers beyond 2^53 are strings, blobs are base64, infinities are null", () => {
    const database = new SqlDatabase();
    const [result] = database.write([
      "SELECT 9007199254740991, -9007199254740992, x'', 1e999, -1e999, 0.1, 'a\"b', NULL",
    ]);
    expect(result!.rowsJson).toBe('[[9007199254740991,"-9007199254740992",{"$base64":""},null,null,0.1,"a\\"b",null]]');
  });

  test("columns of one name each keep their value", () => {
    const database = new SqlDatabase();
    expect(database.write(["SELECT 1 AS a, 2 AS a, 3"])[0]).toMatchObject({
      columns: ["a", "a", "3"],
      rowsJson: "[[1,2,3]]",
    });
  });

  test("rows affected and the last row's id are the batch's own", () => {
    const database = new SqlDatabase();
    database.write([
      "CREATE TABLE t (id INTEGER PRIMARY KEY, a)",
      "INSERT INTO t VALUES (9007199254740993, 1), (5, 1)",
    ]);
    const results = database.write([
      "SELECT last_insert_rowid()",
      "UPDATE t SET a = 2",
      "UPDATE t SET a = 3 WHERE id = 5 RETURNING a",
      "DELETE FROM t WHERE a = 99",
      "INSERT INTO t (a) VALUES (4) RETURNING id",
      "SELECT last_insert_rowid()",
    ]);
    expect(results.map(({ rowsAffected, lastInsertRowid }) => [rowsAffected, lastInsertRowid])).toEqual([
      [0, 0],
      [2, 0],
      [1, 0],
      [0, 0],
      [1, "9007199254740994"],
      [0, "9007199254740994"],
    ]);
    expect(results[0]!.rowsJson).toBe("[[0]]");
  });

  test("text that is not UTF-8 inside SQLite does no harm", () => {
    const database = new SqlDatabase();
    expect(
      database
        .rows("SELECT CAST(x'ff41' AS TEXT), CAST(x'610062' AS TEXT)")[0]!
        .every((value) => typeof value === "string"),
    ).toBe(true);
  });

  test("more rows or bytes than the limit is 400 naming it, on both paths", () => {
    const database = new SqlDatabase();
    const rows =
      `WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c LIMIT ${sqlRowsMax + 1}) SELECT ` + "n FROM c";
    const bytes =
      "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c LIMIT 5000) SELECT printf('%.*c', 4000, " +
      "'x') FROM c";
    for (const run of [(text: string) => database.write([text]), (text: string) => database.read([text])]) {
      expect(refused(() => run(rows)).message).toContain(String(sqlRowsMax));
      expect(refused(() => run(bytes)).message).toContain(String(sqlResultBytesMax));
    }
    expect(database.rows(rows.replace(String(sqlRowsMax + 1), String(sqlRowsMax)))).toHaveLength(sqlRowsMax);
  });

  test("the bytes are counted over the whole batch", () => {
    const database = new SqlDatabase();
    const each = `SELECT printf('%.*c', 3000000, 'x')`;
    expect(database.write([each, each])).toHaveLength(2);
    expect(refused(() => database.write(Array.from({ length: 6 }, () => each))).message).toContain("statement 5");
  });
});
