/** Databases, SQL and key-value over both wires: the acceptance list's Core. */
import { existsSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { ok, startService, useService } from "../support/service.ts";
import { type Reply, type Wire, type WireName, wireNames } from "../support/wires.ts";

const service = useService();
const onBoth = test.each(wireNames);

function setup(name: WireName): Wire {
  return service().wire(name);
}

interface Statement {
  readonly q: string;
  readonly params?: unknown;
}

function sql(wire: Wire, db: string, ...stmts: readonly (string | Statement)[]): Promise<Reply> {
  return wire.call("DataService.ExecuteSql", {
    db,
    stmts: stmts.map((statement) => (typeof statement === "string" ? { q: statement } : statement)),
  });
}

function put(wire: Wire, db: string, key: string, value: Uint8Array | string, extra: object = {}): Promise<Reply> {
  return wire.call("DataService.PutValue", { db, ns: "n", key, value: Buffer.from(value as string), ...extra });
}

function get(wire: Wire, db: string, key: string): Promise<Reply> {
  return wire.call("DataService.GetValue", { db, ns: "n", key });
}

onBoth(
  "core-01 over %s: a created database has a name, a uuid and a time, and no file before its first use",
  async (name) => {
    const alone = await startService({ SERVICE_SPARE_DATABASES: "0" });
    onTestFinished(() => alone.close());
    const wire = alone.wire(name);
    const { body } = await ok(wire.call("ControlService.CreateDatabase", { name: `born-${name}` }));
    expect(body).toEqual({
      name: `born-${name}`,
      uuid: expect.stringMatching(/^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/),
      created_at: expect.any(Number),
    });
    expect(Math.abs(Date.now() - body.created_at)).toBeLessThan(60_000);
    const files = join(alone.directory, "db", body.uuid);
    expect(existsSync(files)).toBe(false);
    await ok(put(wire, `born-${name}`, "k", "v"));
    expect(readdirSync(files)).toContain("main.db");
  },
);

onBoth("core-02 over %s: the same name again is already_exists, and the list shows every database", async (name) => {
  const wire = setup(name);
  for (const db of ["listed-a", "listed-b"])
    await ok(wire.call("ControlService.CreateDatabase", { name: `${db}-${name}` }));
  const again = await wire.call("ControlService.CreateDatabase", { name: `listed-a-${name}` });
  expect(again).toMatchObject({ code: "already_exists", message: expect.stringContaining(`listed-a-${name}`) });
  const { ns, profile } = service().profile();
  await ok(
    wire.call("MemoryService.Ingest", { ns, profile, memories: [{ type: "event", summary: "born", content: null }] }),
  );
  const { body } = await ok(wire.call("ControlService.ListDatabases", {}));
  const names = body.databases.map((database: { name: string }) => database.name);
  expect(names).toEqual(expect.arrayContaining([`listed-a-${name}`, `listed-b-${name}`, `${ns}--${profile}`]));
  expect(names).toEqual([...names].sort());
});

onBoth("core-03 over %s: a database name with @, / or -- is refused", async (name) => {
  for (const bad of ["a@b", "a/b", "a--b", "", "Acme", "-a", "a b", "x".repeat(65)]) {
    const refused = await setup(name).call("ControlService.CreateDatabase", { name: bad });
    expect(refused, bad).toMatchObject({ code: "invalid_request", message: expect.stringContaining("name") });
  }
});

onBoth(
  "core-04 over %s: a batch of DDL, bound inserts and a select answers per statement, with txid 1",
  async (name) => {
    const wire = setup(name);
    const { body, txid } = await ok(
      sql(
        wire,
        await service().database(),
        "CREATE TABLE t (id INTEGER PRIMARY KEY, name TEXT, score REAL, data BLOB)",
        {
          q: "INSERT INTO t (name, score, data) VALUES (?, ?, ?), (?, ?, ?)",
          params: ["ann", 1.5, { $base64: "AAH/" }, "bob", null, null],
        },
        { q: "SELECT id, name, score, data FROM t WHERE name = :name OR id = 2 ORDER BY id", params: { name: "ann" } },
      ),
    );
    expect(txid).toBe(1);
    expect(body).toEqual({
      results: [
        { columns: [], rows: [], rows_affected: 0, last_insert_rowid: 0 },
        { columns: [], rows: [], rows_affected: 2, last_insert_rowid: 2 },
        {
          columns: ["id", "name", "score", "data"],
          rows: [
            [1, "ann", 1.5, { $base64: "AAH/" }],
            [2, "bob", null, null],
          ],
          rows_affected: 0,
          last_insert_rowid: 2,
        },
      ],
      txid: 1,
    });
  },
);

onBoth("core-05 over %s: the second write bumps the txid by one, a pure SELECT does not", async (name) => {
  const wire = setup(name);
  const db = await service().database();
  expect((await ok(sql(wire, db, "CREATE TABLE t (n)"))).txid).toBe(1);
  expect((await ok(sql(wire, db, "INSERT INTO t VALUES (1)"))).txid).toBe(2);
  expect((await ok(sql(wire, db, "SELECT * FROM t"))).txid).toBe(2);
  expect((await ok(sql(wire, db, "WITH a AS (SELECT n FROM t) SELECT * FROM a"))).txid).toBe(2);
  expect((await ok(sql(wire, db, "DELETE FROM t WHERE n = 99"))).txid).toBe(2);
  expect((await ok(sql(wire, db, "UPDATE t SET n = 2"))).txid).toBe(3);
});

onBoth("core-06 over %s: a batch with one failing statement is refused and leaves nothing behind", async (name) => {
  const wire = setup(name);
  const db = await service().database();
  await ok(sql(wire, db, "CREATE TABLE t (n INTEGER PRIMARY KEY)"));
  const refused = await sql(wire, db, "INSERT INTO t VALUES (1)", "CREATE TABLE other (n)", "INSERT INTO t VALUES (1)");
  expect(refused).toMatchObject({ code: "invalid_request", message: expect.stringContaining("statement 2"), txid: 1 });
  const after = await ok(
    sql(wire, db, "SELECT count(*) FROM t", "SELECT name FROM sqlite_schema WHERE name = 'other'"),
  );
  expect(after.body.results.map(({ rows }: { rows: unknown }) => rows)).toEqual([[[0]], []]);
  expect(after.txid).toBe(1);
});

onBoth("core-06 over %s: with txn false each statement stands alone and reports its own error", async (name) => {
  const wire = setup(name);
  const db = await service().database();
  const stmts = [
    "CREATE TABLE t (n INTEGER PRIMARY KEY)",
    "INSERT INTO t VALUES (1)",
    "INSERT INTO t VALUES (1)",
    "INSERT INTO t VALUES (2)",
  ].map((q) => ({ q }));
  const { body, txid } = await ok(wire.call("DataService.ExecuteSql", { db, stmts, txn: false }));
  expect(txid).toBe(1);
  expect(body.results.map((result: { error?: { code: string } }) => result.error?.code)).toEqual([
    undefined,
    undefined,
    "invalid_request",
    undefined,
  ]);
  expect((await ok(sql(wire, db, "SELECT n FROM t ORDER BY n"))).body.results[0].rows).toEqual([[1], [2]]);
});

onBoth("core-07 over %s: a value comes back byte for byte, and both answers carry the txid", async (name) => {
  const wire = setup(name);
  const db = await service().database();
  const value = Buffer.from([0, 1, 2, 255, 254, 13, 10, 0]);
  expect((await ok(put(wire, db, "bytes", value))).txid).toBe(1);
  const read = await ok(get(wire, db, "bytes"));
  expect(Buffer.compare(read.body, value)).toBe(0);
  expect(read.txid).toBe(1);
});

onBoth("core-08 over %s: a listing with a prefix has the matching keys only, sorted", async (name) => {
  const wire = setup(name);
  const db = await service().database();
  for (const key of ["b/2", "a/10", "a/2", "ä", "a", "b/1"]) await ok(put(wire, db, key, key));
  const list = async (request: object): Promise<any> =>
    (await ok(wire.call("DataService.ListKeys", { db, ns: "n", ...request }))).body;
  expect((await list({ prefix: "a/" })).keys).toEqual(["a/10", "a/2"]);
  expect(await list({})).toMatchObject({ keys: ["a", "a/10", "a/2", "b/1", "b/2", "ä"], next_cursor: null });
  const first = await list({ limit: 4 });
  expect(first.keys).toHaveLength(4);
  expect((await list({ limit: 4, cursor: first.next_cursor })).keys).toEqual(["b/2", "ä"]);
  expect((await ok(wire.call("DataService.ListKeys", { db, ns: "other" }))).body.keys).toEqual([]);
});

onBoth("core-09 over %s: a value put with ttl 0 is not found right away", async (name) => {
  const wire = setup(name);
  const db = await service().database();
  await ok(put(wire, db, "gone", "x", { ttl: 0 }));
  await ok(put(wire, db, "there", "x", { ttl: 60 }));
  expect(await get(wire, db, "gone")).toMatchObject({ code: "not_found", txid: 2 });
  expect((await ok(get(wire, db, "there"))).body.toString()).toBe("x");
  expect((await ok(wire.call("DataService.ListKeys", { db, ns: "n" }))).body.keys).toEqual(["there"]);
});

onBoth("core-10 over %s: a deleted key is not found; deleting it again succeeds and changes nothing", async (name) => {
  const wire = setup(name);
  const db = await service().database();
  await ok(put(wire, db, "k", "v"));
  expect((await ok(wire.call("DataService.DeleteValue", { db, ns: "n", key: "k" }))).txid).toBe(2);
  expect((await get(wire, db, "k")).code).toBe("not_found");
  expect((await ok(wire.call("DataService.DeleteValue", { db, ns: "n", key: "k" }))).txid).toBe(2);
});

onBoth("core-11 over %s: with one hot handle, alternating use of two databases loses nothing", async (name) => {
  const small = await startService({ SERVICE_HOT_CAP: "1", SERVICE_ENGINE_THREADS: "1" });
  try {
    const wire = small.wire(name);
    const databases = [await small.database(), await small.database()];
    for (const db of databases) await ok(sql(wire, db, "CREATE TABLE t (n INTEGER)"));
    for (let round = 0; round < 10; round++) {
      for (const db of databases) {
        expect((await ok(sql(wire, db, { q: "INSERT INTO t VALUES (?)", params: [round] }))).txid).toBe(2 * round + 2);
        await ok(put(wire, db, `k${round}`, `${db}-${round}`));
      }
    }
    // Both at once: whoever has to wait for the handle waits, and is answered.
    await Promise.all(
      databases.flatMap((db) =>
        Array.from({ length: 10 }, async (_, round) =>
          expect((await ok(get(wire, db, `k${round}`))).body.toString()).toBe(`${db}-${round}`),
        ),
      ),
    );
    for (const db of databases)
      expect((await ok(sql(wire, db, "SELECT sum(n) FROM t"))).body.results[0].rows).toEqual([[45]]);
  } finally {
    await small.close();
  }
});

const reservedStatements = [
  "SELECT * FROM __service_kv",
  'SELECT * FROM "__service_kv"',
  "SELECT * FROM [__service_kv]",
  "SELECT * FROM `__service_kv`",
  "SELECT * FROM main.__service_kv",
  "SELECT * FROM __SERVICE_KV",
  "SELECT * FROM '__service_kv'",
  "SELECT (SELECT value FROM __service_kv LIMIT 1)",
  "WITH a AS (SELECT * FROM __service_memory) SELECT * FROM a",
  "CREATE VIEW v AS SELECT * FROM __service_kv",
  "CREATE TRIGGER g AFTER INSERT ON t BEGIN DELETE FROM __service_kv; END",
  "CREATE TRIGGER g AFTER INSERT ON __service_kv BEGIN SELECT 1; END",
  "CREATE TABLE __service_mine (n)",
  "ALTER TABLE t RENAME TO __service_mine",
  "DROP TABLE __service_kv",
  "INSERT INTO __service_kv VALUES (1, 'n', 'k', NULL, x'00')",
  "CREATE VIRTUAL TABLE f USING fts5 (a, content='__service_memory')",
  "SELECT * FROM pragma_table_info('__service_kv')",
  "SELECT * FROM pragma_table_info('__serv' || 'ice_kv')",
  "PRAGMA table_info(__service_kv)",
  "CREATE TABLE child (n REFERENCES __service_kv (row))",
];

onBoth("core-12 over %s: SQL that names a reserved table is refused under every quoting and detour", async (name) => {
  const wire = setup(name);
  const db = await service().database();
  await ok(sql(wire, db, "CREATE TABLE t (n)"));
  await ok(put(wire, db, "k", "secret-value"));
  for (const q of reservedStatements) {
    const refused = await sql(wire, db, q);
    // A table function is not told its argument before it runs: it may answer, with nothing.
    if (refused.code === "ok") expect(refused.body.results[0].rows, q).toEqual([]);
    else expect(refused.code, `${q}: ${refused.message}`).toBe("invalid_request");
  }
  expect((await ok(get(wire, db, "k"))).body.toString()).toBe("secret-value");
  expect((await ok(sql(wire, db, "SELECT '__service_kv' AS harmless"))).body.results[0].rows).toEqual([
    ["__service_kv"],
  ]);
});

onBoth("core-13 over %s: an unknown database is database_not_found", async (name) => {
  const wire = setup(name);
  for (const [method, request] of [
    ["DataService.ExecuteSql", { stmts: [{ q: "SELECT 1" }] }],
    ["DataService.GetValue", { ns: "n", key: "k" }],
    ["DataService.PutValue", { ns: "n", key: "k", value: Buffer.from("v") }],
    ["DataService.FindDocs", { coll: "c" }],
    ["DataService.SearchVectors", { coll: "c", vector: [1] }],
    ["DataService.ListTurns", { session: "s" }],
  ] as const) {
    const refused = await wire.call(method, { db: "nowhere", ...request });
    expect(refused, method).toMatchObject({
      code: "database_not_found",
      message: expect.stringContaining("nowhere"),
      txid: undefined,
    });
  }
  expect(await wire.call("ControlService.DeleteDatabase", { db: "nowhere" })).toMatchObject({
    code: "database_not_found",
  });
});

onBoth("core-14 over %s: INSERT .. RETURNING and a batch of DDL alone bump the txid", async (name) => {
  const wire = setup(name);
  const db = await service().database();
  expect((await ok(sql(wire, db, "CREATE TABLE t (n INTEGER PRIMARY KEY, a TEXT)"))).txid).toBe(1);
  const inserted = await ok(sql(wire, db, "INSERT INTO t (a) VALUES ('x'), ('y') RETURNING n, a"));
  expect(inserted.txid).toBe(2);
  expect(inserted.body.results[0]).toMatchObject({
    columns: ["n", "a"],
    rows: [
      [1, "x"],
      [2, "y"],
    ],
    rows_affected: 2,
    last_insert_rowid: 2,
  });
  expect((await ok(sql(wire, db, "CREATE INDEX i ON t (a)"))).txid).toBe(3);
});

onBoth("core-15 over %s: JSON text and arbitrary bytes stay what they were", async (name) => {
  const wire = setup(name);
  const db = await service().database();
  const values = ['{"a": 1 ,"b":[1.0, 12345678901234567890]}', '"quoted"', "null", "", "\uFEFFmark", "a\r\nb\u0000c"];
  for (const [index, value] of values.entries()) await ok(put(wire, db, `v${index}`, value));
  for (const [index, value] of values.entries())
    expect((await ok(get(wire, db, `v${index}`))).body.toString("utf8"), value).toBe(value);
});

onBoth("over %s a deleted database is gone with its data, and its name can be taken again", async (name) => {
  const wire = setup(name);
  const db = await service().database();
  const before = (await ok(wire.call("ControlService.ListDatabases", {}))).body.databases.find(
    (database: { name: string }) => database.name === db,
  );
  await ok(put(wire, db, "k", "v"));
  await ok(wire.call("ControlService.DeleteDatabase", { db }));
  expect((await get(wire, db, "k")).code).toBe("database_not_found");
  expect((await wire.call("ControlService.DeleteDatabase", { db })).code).toBe("database_not_found");
  expect(existsSync(join(service().directory, "db", before.uuid))).toBe(false);
  const again = await ok(wire.call("ControlService.CreateDatabase", { name: db }));
  expect(again.body.uuid).not.toBe(before.uuid);
  expect(await get(wire, db, "k")).toMatchObject({ code: "not_found", txid: 0 });
  expect((await wire.call("ControlService.DeleteDatabase", { db: `${db}@main` })).code).toBe("invalid_request");
});

test("over REST a 64-bit integer survives SQL, and comes back as a string when a double cannot hold it", async () => {
  const db = await service().database();
  const body =
    '{"stmts":[{"q":"SELECT ?, ?, ?, typeof(?), ?","params":[9007199254740993, -9223372036854775808, ' +
    '9007199254740991, 9223372036854775807, {"id": 9007199254740993}]}]}';
  const { status, json } = await service().call("POST", `/v1/db/${db}/sql`, body);
  expect(status).toBe(200);
  expect(json.results[0].rows).toEqual([
    ["9007199254740993", "-9223372036854775808", 9007199254740991, "integer", '{"id":9007199254740993}'],
  ]);
});

test("over gRPC a number is a double: integers within 2^53 bind as integers", async () => {
  const wire = service().wire("grpc");
  const { body } = await ok(
    sql(wire, await service().database(), {
      q: "SELECT ? / 2, typeof(?), typeof(?)",
      params: [3, 9007199254740991, 0.5],
    }),
  );
  expect(body.results[0].rows).toEqual([[1, "integer", "real"]]);
});
