/**
 * Bounds, refusals and the SQL guard over the wires: the acceptance list's Hardening, and the status codes of the
 * interface.
 */
import { expect, test } from "vitest";
import { errorCodes, type ErrorCode } from "../../src/base/faults/errors.ts";
import { openapiDocument } from "../../src/server/rest/openapi.ts";
import { allEndpoints } from "../../src/service/call/methods.ts";
import { sampleRequests, unserved } from "../support/requests.ts";
import { ok, startService, useService } from "../support/service.ts";
import { checkEnvelope, type Reply, type Wire, wireNames } from "../support/wires.ts";

const service = useService();
const onBoth = test.each(wireNames);
const MiB = 1024 * 1024;

function sql(wire: Wire, db: string, ...statements: readonly string[]): Promise<Reply> {
  return wire.call("DataService.ExecuteSql", { db, stmts: statements.map((q) => ({ q })) });
}

test("hardening-01: a body of 2 MiB on a control route is payload_too_large, and the node goes on", async () => {
  const { status, json } = await service().call("POST", "/v1/databases", JSON.stringify({ name: "x".repeat(2 * MiB) }));
  expect([status, json.code]).toEqual([413, "payload_too_large"]);
  checkEnvelope(json, status);
  expect((await service().call("GET", "/health")).status).toBe(200);
});

test("hardening-01: data routes take more than a control route, up to SERVICE_MAX_BODY_BYTES", async () => {
  const small = await startService({ SERVICE_MAX_BODY_BYTES: String(3 * MiB) });
  try {
    const path = `/v1/db/${await small.database()}/kv/n/k`;
    expect((await small.call("PUT", path, new Uint8Array(2 * MiB))).status).toBe(200);
    const { status, json } = await small.call("PUT", path, new Uint8Array(3 * MiB + 1));
    expect([status, json.code]).toEqual([413, "payload_too_large"]);
    expect((await small.call("GET", path)).text).toHaveLength(2 * MiB);
  } finally {
    await small.close();
  }
});

onBoth(
  "hardening-02 over %s: of 40 rapid control calls the first passes and later ones are shed with Retry-After",
  async (name) => {
    const slow = await startService({ SERVICE_CONTROL_RATE: "10" });
    try {
      const wire = slow.wire(name);
      const replies: Reply[] = [];
      for (let call = 0; call < 40; call++) replies.push(await wire.call("ControlService.ListDatabases", {}));
      expect(replies[0]!.code).toBe("ok");
      const shed = replies.filter(({ code }) => code === "overloaded");
      expect(shed.length).toBeGreaterThanOrEqual(1);
      expect(replies.length - shed.length).toBeGreaterThanOrEqual(20);
      for (const { retryAfterSecs } of shed) expect(retryAfterSecs).toBeGreaterThanOrEqual(1);
      // Only control calls count.
      expect((await wire.call("MemoryService.Recall", { ns: "a", profile: "b", query: "x" })).code).toBe("ok");
    } finally {
      await slow.close();
    }
  },
);

onBoth(
  "hardening-03 over %s: a reserved table and ATTACH are refused before the database is looked up",
  async (name) => {
    const wire = service().wire(name);
    for (const q of ["SELECT * FROM __service_kv", "ATTACH 'x' AS y", "BEGIN", "VACUUM"]) {
      expect(await sql(wire, "no-such-database", q), q).toMatchObject({ code: "invalid_request", txid: undefined });
    }
    expect((await sql(wire, "no-such-database", "SELECT 1")).code).toBe("database_not_found");
  },
);

onBoth("hardening-04 over %s: PRAGMA integrity_check answers ok", async (name) => {
  const wire = service().wire(name);
  const db = await service().database();
  await ok(sql(wire, db, "CREATE TABLE t (a)", "INSERT INTO t VALUES (1)"));
  const { body } = await ok(sql(wire, db, "PRAGMA integrity_check", "PRAGMA table_info(t)"));
  expect(body.results[0].rows).toEqual([["ok"]]);
  expect(body.results[1].rows[0].slice(0, 2)).toEqual([0, "a"]);
});

onBoth(
  "hardening-05 over %s: an ingest of 1001 is refused, and a k of ten million answers at most 1000",
  async (name) => {
    const wire = service().wire(name);
    const at = service().profile();
    const memories = (count: number, from: number): object[] =>
      Array.from({ length: count }, (_, index) => ({
        type: "event",
        summary: `heron number ${from + index}`,
        content: null,
      }));
    expect(await wire.call("MemoryService.Ingest", { ...at, memories: memories(1001, 0) })).toMatchObject({
      code: "invalid_request",
      message: expect.stringContaining("memories"),
    });
    await ok(wire.call("MemoryService.Ingest", { ...at, memories: memories(1000, 0) }));
    await ok(wire.call("MemoryService.Ingest", { ...at, memories: memories(50, 1000) }));
    const { body } = await ok(wire.call("MemoryService.Recall", { ...at, query: "heron", k: 10_000_000 }));
    expect(body.memories).toHaveLength(1000);
    expect((await ok(wire.call("MemoryService.Recall", { ...at, query: "heron" }))).body.memories).toHaveLength(8);
  },
);

onBoth("hardening-06 over %s: every refusal has its code and its status", async (name) => {
  const wire = service().wire(name);
  const db = await service().database();
  const { ns, profile } = service().profile();
  const refusals: readonly (readonly [ErrorCode, Promise<Reply>])[] = [
    ["database_not_found", sql(wire, "absent", "SELECT 1")],
    ["branch_not_found", sql(wire, `${db}@side`, "SELECT 1")],
    ["already_exists", wire.call("ControlService.CreateDatabase", { name: db })],
    ["invalid_request", sql(wire, db, "SELEKT 1")],
    ["invalid_request", sql(wire, db, "SELECT * FROM nowhere")],
    ["not_found", wire.call("DataService.GetValue", { db, ns: "n", key: "absent" })],
    ["unconfigured", wire.call("MemoryService.Ask", { ns, profile, question: "who?" })],
    ["unconfigured", wire.call("MemoryService.Extract", { ns, profile, turns: [{ role: "user", content: "x" }] })],
  ];
  // The wires check envelope, status and gRPC code of each.
  for (const [code, refusal] of refusals) expect((await refusal).code).toBe(code);
});

const forbidden = [
  "ATTACH 'other.db' AS o",
  "DETACH o",
  "VACUUM",
  "VACUUM INTO 'copy.db'",
  "vacuum main",
  "PRAGMA writable_schema = 1",
  "PRAGMA writable_schema(1)",
  "PRAGMA journal_mode = DELETE",
  "PRAGMA synchronous = 0",
  "PRAGMA main.journal_mode",
  "BEGIN",
  "BEGIN IMMEDIATE",
  "COMMIT",
  "END",
  "ROLLBACK",
  "SAVEPOINT a",
  "RELEASE a",
  "SELECT 1; COMMIT",
  "/* a comment */ COMMIT",
  "-- a comment\nROLLBACK",
  "SELECT 1; /* and */ BEGIN",
  'SELECT * FROM "__service_kv"',
  "SELECT * FROM main.[__service_memory]",
  "CREATE TRIGGER g AFTER INSERT ON t BEGIN INSERT INTO __service_kv VALUES (1); END",
  "INSERT OR ROLLBACK INTO t VALUES (1, 'x')",
  "CREATE TABLE u (n INTEGER PRIMARY KEY ON CONFLICT ROLLBACK)",
  "SELECT load_extension('x')",
  "CREATE VIRTUAL TABLE f USING fts3 (a)",
  "CREATE TEMP TABLE x (n)",
];

const allowed = [
  "SELECT '__service_kv'",
  "SELECT CASE WHEN 1 THEN 'yes' ELSE 'no' END",
  "SELECT 1 AS commits",
  "SELECT 'Wendy'",
  "CREATE TRIGGER tally AFTER INSERT ON t BEGIN UPDATE t SET a = CASE WHEN new.n > 5 THEN 'big' ELSE " +
    "'small' END WHERE n = new.n; DELETE FROM t WHERE n < 0; END",
  "INSERT INTO t VALUES (6, 'commit; rollback')",
  "SELECT n -- COMMIT\n FROM t /* ; BEGIN */",
  "CREATE VIRTUAL TABLE words USING fts5 (body)",
  "PRAGMA table_info(t)",
  "INSERT OR IGNORE INTO t VALUES (6, 'again');",
];

onBoth("hardening-07 over %s: what could escape the guard is refused, what only looks like it is not", async (name) => {
  const wire = service().wire(name);
  const db = await service().database();
  await ok(sql(wire, db, "CREATE TABLE t (n INTEGER PRIMARY KEY, a)"));
  for (const q of forbidden) expect((await sql(wire, db, q)).code, q).toBe("invalid_request");
  for (const q of allowed) await ok(sql(wire, db, q));
  expect((await ok(sql(wire, db, "SELECT n, a FROM t"))).body.results[0].rows).toEqual([[6, "big"]]);
});

onBoth("hardening-07 over %s: a statement that ends its transaction hurts no neighbour", async (name) => {
  const wire = service().wire(name);
  const db = await service().database();
  await ok(sql(wire, db, "CREATE TABLE t (n INTEGER PRIMARY KEY)", "INSERT INTO t VALUES (1)"));
  const puts = Array.from({ length: 10 }, (_, at) =>
    ok(wire.call("DataService.PutValue", { db, ns: "n", key: `k${at}`, value: Buffer.from("v") })),
  );
  const failures = Array.from({ length: 5 }, () =>
    sql(wire, db, "INSERT INTO t VALUES (2)", "INSERT OR FAIL INTO t VALUES (1)"),
  );
  await Promise.all(puts);
  for (const failure of failures) expect((await failure).code).toBe("invalid_request");
  expect((await ok(sql(wire, db, "SELECT n FROM t"))).body.results[0].rows).toEqual([[1]]);
  expect((await ok(wire.call("DataService.ListKeys", { db, ns: "n" }))).body.keys).toHaveLength(10);
});

onBoth(
  "hardening-08 over %s: what reads is told from what writes by the statement, not by its first word",
  async (name) => {
    const wire = service().wire(name);
    const db = await service().database();
    await ok(sql(wire, db, "CREATE TABLE t (n)", "INSERT INTO t VALUES (1)"));
    // What writes takes a transaction id, and as it is asked for with durability, object storage covers it; what reads
    // does neither.
    const durable = (q: string): Promise<Reply> =>
      ok(wire.call("DataService.ExecuteSql", { db, stmts: [{ q }] }, { "Service-Durability": "durable" }));
    for (const q of [
      "SELECT * FROM t",
      "WITH a AS (SELECT 1) SELECT * FROM a",
      "VALUES (1)",
      "EXPLAIN SELECT 1",
      "PRAGMA table_info(t)",
    ])
      expect((await durable(q)).txid, q).toBe(1);
    for (const [index, q] of [
      "INSERT INTO t VALUES (2)",
      "DELETE FROM t",
      "WITH a AS (SELECT 1) INSERT INTO t VALUES (3)",
      "INSERT INTO t VALUES (2) RETURNING n",
      "CREATE TABLE u (n)",
    ].entries()) {
      expect(await durable(q), q).toMatchObject({ txid: index + 2, durableTxid: index + 2 });
    }
    expect((await ok(sql(wire, db, "SELECT n FROM t ORDER BY n"))).body.results[0].rows).toEqual([[2], [3]]);
  },
);

test("hardening-09: path segments with any character are decoded once", async () => {
  const db = await service().database();
  for (const key of ["a?b", "a&b=c", "a/b", "a#b", "a b", "100%", "%41", "+", "ü", "a\\b", "..", ".", "a;b", "日本"]) {
    const path = `/v1/db/${db}/kv/n/${encodeURIComponent(key).replaceAll(".", "%2E")}`;
    // The URL standard takes dot segments out of a path, encoded or not; no client can send them.
    if (key === "." || key === "..") continue;
    expect((await service().call("PUT", path, key, { "content-type": "text/plain" })).status, key).toBe(200);
    expect((await service().call("GET", path)).text, key).toBe(key);
  }
  const { json } = await service().call("GET", `/v1/db/${db}/kv/n?limit=1000`);
  expect(json.keys).toContain("%41");
  expect(json.keys).not.toContain("A");
  for (const bad of ["%", "%zz", "%ff", "%c3"]) {
    const { status, json: refused } = await service().call("GET", `/v1/db/${db}/kv/n/${bad}`);
    expect([status, refused.code], bad).toEqual([400, "invalid_request"]);
  }
});

test("unknown routes, wrong methods and wrong types are refused with the envelope", async () => {
  // An unknown route is not_found; a wrong method says which are allowed.
  for (const path of ["/", "/v1", "/v2/databases", "/v1/databases/x/y/z", "/v1/db/x/sql/", "/health/", "/v1/sql"]) {
    const { status, json } = await service().call("GET", path);
    expect([status, json?.code], path).toEqual([404, "not_found"]);
    checkEnvelope(json, status);
  }
  const wrong = await service().call("DELETE", "/v1/databases");
  expect([wrong.status, wrong.json.code]).toEqual([405, "invalid_request"]);
  expect(new Set(wrong.headers.get("allow")!.split(/,\s*/))).toEqual(new Set(["GET", "POST"]));
  checkEnvelope(wrong.json, 405);
  for (const type of ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"]) {
    const { status, json } = await service().call("POST", "/v1/databases", '{"name":"form"}', {
      "content-type": type,
    });
    expect([status, json.code], type).toEqual([415, "invalid_request"]);
    checkEnvelope(json, status);
  }
  expect(
    (
      await service().call("POST", "/v1/databases", '{"name":"with-charset"}', {
        "content-type": "application/json; charset=utf-8",
      })
    ).status,
  ).toBe(201);
});

test("health answers in plain text, readiness in JSON; the OpenAPI document has exactly the routes", async () => {
  const health = await service().call("GET", "/health");
  expect([health.status, health.text]).toEqual([200, "ok"]);
  expect(health.headers.get("content-type")).toMatch(/^text\/plain/);
  const ready = await service().call("GET", "/health/ready");
  expect([ready.status, ready.json.ready]).toEqual([200, true]);
  const { status, json } = await service().call("GET", "/openapi.json");
  expect(status).toBe(200);
  expect(json).toEqual(JSON.parse(JSON.stringify(openapiDocument(allEndpoints))));
});

test("every route of the OpenAPI document is served, and nothing answers beside them", async () => {
  const { paths } = (await service().call("GET", "/openapi.json")).json as {
    paths: Record<string, Record<string, unknown>>;
  };
  for (const [template, operations] of Object.entries(paths)) {
    // The key set comes with authentication.
    if (template === "/.well-known/jwks.json") continue;
    const path = template.replace(/\{[^}]+\}/g, "nowhere");
    for (const method of ["GET", "PUT", "POST", "DELETE", "PATCH"]) {
      const { status, json } = await service().call(
        method,
        path,
        method === "GET" || method === "DELETE" ? undefined : "{}",
        { "content-type": "application/json" },
      );
      const isThere = method.toLowerCase() in operations;
      expect(status === 405, `${method} ${template}`).toBe(!isThere);
      // What a route does not find is its database or policy, never the route.
      if (isThere && status === 404) expect(json.error, `${method} ${template}`).toContain("nowhere");
    }
  }
});

onBoth("over %s what a node is not configured for answers 503, says so, and changes nothing", async (name) => {
  const wire = service().wire(name);
  const db = await service().database();
  const samples = sampleRequests(db, service().profile());
  for (const method of unserved) {
    const reply = await wire.call(method, samples.get(method)!);
    expect(["unconfigured", "unavailable"], `${method}: ${reply.code} ${reply.message}`).toContain(reply.code);
    expect(errorCodes[reply.code as ErrorCode].http).toBe(503);
  }
});
