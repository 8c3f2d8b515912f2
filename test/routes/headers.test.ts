/** The service's own headers: on every route that touches a database, over both wires, on success and on refusal. */
import { expect, test } from "vitest";
import { MethodOptions_IdempotencyLevel as Idempotency } from "@bufbuild/protobuf/wkt";
import { endpoints, Scope } from "../../src/service/call/methods.ts";
import { type Request, sampleRequests, unserved } from "../support/requests.ts";
import { callWithHost, ok, useService } from "../support/service.ts";
import { type Reply, type Wire, wireNames } from "../support/wires.ts";

const service = useService();
const onBoth = test.each(wireNames);

/**
 * A request of every method that touches the data of a database and that this build serves, on a fresh database and a
 * profile with one memory.
 */
async function targets(wire: Wire): Promise<ReadonlyMap<string, Request>> {
  const at = service().profile();
  await ok(
    wire.call("MemoryService.Ingest", {
      ...at,
      memories: [{ type: "event", summary: "the profile is there", content: null }],
    }),
  );
  const touching = endpoints
    .filter(({ name, rule }) => rule.txid && !name.startsWith("BranchService.") && !unserved.has(name))
    .map(({ name }) => name);
  const samples = sampleRequests(await service().database(), at);
  return new Map(touching.map((name) => [name, samples.get(name)!]));
}

function isWrite(method: string): boolean {
  const { rule, method: desc } = endpoints.find(({ name }) => name === method)!;
  return rule.scope >= Scope.WRITE && desc.idempotency !== Idempotency.NO_SIDE_EFFECTS;
}

onBoth(
  "over %s every answer that touched a database carries Service-Txid, a refusal of what was not there too",
  async (name) => {
    const wire = service().wire(name);
    for (const [method, request] of await targets(wire)) {
      const reply = await wire.call(method, request);
      expect(["ok", "not_found"], `${method}: ${reply.message}`).toContain(reply.code);
      expect(reply.txid, method).toBeGreaterThanOrEqual(0);
    }
  },
);

onBoth("over %s a refusal after the database was resolved carries Service-Txid", async (name) => {
  const wire = service().wire(name);
  const db = await service().database();
  await ok(wire.call("DataService.InsertDocs", { db, coll: "c", docs: [{ _id: "x", name: "text" }] }));
  await ok(wire.call("DataService.UpsertVector", { db, coll: "c", id: "v", embedding: [1, 2] }));
  const refusals: readonly (readonly [string, object])[] = [
    ["DataService.GetValue", { ns: "n", key: "absent" }],
    ["DataService.ExecuteSql", { stmts: [{ q: "SELECT * FROM nowhere" }] }],
    ["DataService.ExecuteSql", { stmts: [{ q: "INSERT INTO nowhere VALUES (1)" }] }],
    ["DataService.InsertDocs", { coll: "c", docs: [{ _id: "x" }] }],
    ["DataService.UpdateDocs", { coll: "c", filter: {}, update: { $inc: { name: 1 } } }],
    ["DataService.UpsertVector", { coll: "c", id: "v", embedding: [1] }],
    ["DataService.SearchVectors", { coll: "c", vector: [1] }],
  ];
  for (const [method, request] of refusals)
    expect(await wire.call(method, { db, ...request }), method).toMatchObject({
      code: expect.not.stringMatching("ok"),
      txid: 2,
    });
});

onBoth("over %s a refusal of a database that was never written carries Service-Txid 0", async (name) => {
  const wire = service().wire(name);
  const db = await service().database();
  for (const q of ["SELECT * FROM nowhere", "INSERT INTO nowhere VALUES (1)"]) {
    expect(await wire.call("DataService.ExecuteSql", { db, stmts: [{ q }] }), q).toMatchObject({
      code: "invalid_request",
      txid: 0,
    });
  }
  expect(await wire.call("DataService.InsertDocs", { db, coll: "c", docs: [{ $a: 1 }] })).toMatchObject({
    code: "invalid_request",
    txid: 0,
  });
});

onBoth(
  "over %s Service-Min-Txid: met, it is served; never given, it is refused with the current txid",
  async (name) => {
    const wire = service().wire(name);
    for (const [method, request] of await targets(wire)) {
      const current = (await wire.call(method, request)).txid!;
      const served = await wire.call(method, request, { "Service-Min-Txid": String(current) });
      expect(["ok", "not_found"], method).toContain(served.code);
      const refused = await wire.call(method, request, { "Service-Min-Txid": "1000000" });
      expect(refused, method).toMatchObject({
        code: "invalid_request",
        message: expect.stringContaining(String(served.txid)),
        txid: served.txid,
      });
    }
    for (const bad of ["-1", "x", "1.5", "", "1e3", "99999999999999999999", "0x10"]) {
      const refused = await wire.call(
        "MemoryService.Recall",
        { ...service().profile(), query: "x" },
        { "Service-Min-Txid": bad },
      );
      expect(refused, bad).toMatchObject({
        code: "invalid_request",
        message: expect.stringContaining("Service-Min-Txid"),
      });
    }
  },
);

onBoth("over %s Service-Consistency is primary or cached, on every route", async (name) => {
  const wire = service().wire(name);
  for (const [method, request] of await targets(wire)) {
    for (const value of ["primary", "cached"])
      expect(["ok", "not_found"], method).toContain(
        (await wire.call(method, request, { "Service-Consistency": value })).code,
      );
    expect(await wire.call(method, request, { "Service-Consistency": "eventual" }), method).toMatchObject({
      code: "invalid_request",
      message: expect.stringContaining("Service-Consistency"),
    });
  }
  const key = { db: await service().database(), ns: "n", key: "k" };
  expect(await wire.call("DataService.GetValue", { ...key, consistency: "eventual" })).toMatchObject({
    code: "invalid_request",
    message: expect.stringContaining("consistency"),
  });
  expect((await wire.call("DataService.GetValue", { ...key, consistency: "cached" })).code).toBe("not_found");
  expect(
    (await wire.call("DataService.GetValue", { ...key, consistency: "cached" }, { "Service-Consistency": "cached" }))
      .code,
  ).toBe("not_found");
  expect(
    await wire.call("DataService.GetValue", { ...key, consistency: "cached" }, { "Service-Consistency": "primary" }),
  ).toMatchObject({ code: "invalid_request", message: expect.stringContaining("twice") });
});

onBoth(
  "over %s Service-Durability is standard or durable; a durable write is answered when object storage covers it",
  async (name) => {
    const wire = service().wire(name);
    let writes = 0;
    for (const [method, request] of await targets(wire)) {
      expect(await wire.call(method, request, { "Service-Durability": "eventual" }), method).toMatchObject({
        code: "invalid_request",
        message: expect.stringContaining("Service-Durability"),
      });
      expect(["ok", "not_found"], method).toContain(
        (await wire.call(method, request, { "Service-Durability": "standard" })).code,
      );
      const reply = await wire.call(method, request, { "Service-Durability": "durable" });
      expect(["ok", "not_found"], `${method}: ${reply.message}`).toContain(reply.code);
      if (!isWrite(method)) continue;
      writes++;
      if (reply.code === "ok") expect(reply.durableTxid, method).toBeGreaterThanOrEqual(reply.txid!);
    }
    expect(writes).toBe(33);
  },
);

onBoth(
  "over %s Service-Branch names the branch on every route, and must agree with every other place that does",
  async (name) => {
    const wire = service().wire(name);
    for (const [method, request] of await targets(wire)) {
      expect(["ok", "not_found"], method).toContain(
        (await wire.call(method, request, { "Service-Branch": "main" })).code,
      );
      expect(await wire.call(method, request, { "Service-Branch": "side" }), method).toMatchObject({
        code: "branch_not_found",
        message: expect.stringContaining("side"),
      });
      expect(await wire.call(method, request, { "Service-Branch": "../x" }), method).toMatchObject({
        code: "invalid_request",
        message: expect.stringContaining("branch"),
      });
      const inMessage = withBranch(request, "side");
      expect(await wire.call(method, inMessage), method).toMatchObject({ code: "branch_not_found" });
      expect(await wire.call(method, inMessage, { "Service-Branch": "main" }), method).toMatchObject({
        code: "invalid_request",
        message: expect.stringContaining("branch"),
      });
      expect(
        (await wire.call(method, withBranch(request, "main"), { "Service-Branch": "main" })).code,
        method,
      ).not.toBe("invalid_request");
    }
  },
);

function withBranch(request: Request, branch: string): object {
  return "db" in request ? { ...request, db: `${String(request["db"])}@${branch}` } : { ...request, branch };
}

test("a profile that is named with a branch other than main is never created", async () => {
  const at = service().profile();
  const refused: Reply = await service()
    .wire("rest")
    .call("MemoryService.Ingest", {
      ...at,
      branch: "side",
      memories: [{ type: "event", summary: "x", content: null }],
    });
  expect(refused.code).toBe("database_not_found");
  const { json } = await service().call("GET", "/v1/databases");
  expect(json.databases.map((database: { name: string }) => database.name)).not.toContain(`${at.ns}--${at.profile}`);
});

test("on a database's own host routes have no prefix; Service-Branch or the host gives the branch", async () => {
  const db = await service().database();
  const { port } = service();
  const sql = { stmts: [{ q: "SELECT 1" }] };
  for (const host of [
    `${db}.localhost`,
    `${db}.localhost:${port}`,
    `${db.toUpperCase()}.LocalHost`,
    `${db}@main.localhost`,
  ]) {
    const { status, headers } = await callWithHost(port, host, "POST", "/v1/sql", sql);
    expect([status, headers["service-txid"]], host).toEqual([200, "0"]);
  }
  expect((await callWithHost(port, `${db}.localhost`, "PUT", "/v1/kv/n/k", "text")).status).toBe(200);
  expect((await service().call("GET", `/v1/db/${db}/kv/n/k`)).text).toBe('"text"');
  expect((await callWithHost(port, `${db}.localhost`, "POST", "/v1/docs/c/find", {})).json).toEqual({
    docs: [],
    txid: 1,
  });
  expect((await callWithHost(port, `${db}.localhost`, "GET", "/v1/memory/s/turns")).json).toEqual({
    turns: [],
    txid: 1,
  });
  expect((await callWithHost(port, `${db}.localhost`, "POST", "/v1/vectors/c/search", { vector: [1] })).json).toEqual({
    hits: [],
    txid: 1,
  });
});

test("a host that names no database, or a branch that is not there, is refused as the path form would be", async () => {
  const db = await service().database();
  const { port } = service();
  const sql = { stmts: [{ q: "SELECT 1" }] };
  const refusal = async (
    host: string,
    path: string,
    headers: Record<string, string> = {},
  ): Promise<readonly [number, string]> => {
    const { status, json } = await callWithHost(port, host, "POST", path, sql, headers);
    return [status, json.code];
  };
  expect(await refusal("absent.localhost", "/v1/sql")).toEqual([404, "database_not_found"]);
  expect(await refusal(`${db}@side.localhost`, "/v1/sql")).toEqual([404, "branch_not_found"]);
  expect(await refusal(`${db}.localhost`, "/v1/sql", { "Service-Branch": "side" })).toEqual([404, "branch_not_found"]);
  expect(await refusal(`${db}@main.localhost`, "/v1/sql", { "Service-Branch": "side" })).toEqual([
    400,
    "invalid_request",
  ]);
  // The memory routes of namespaces and the control plane are not there.
  expect(await refusal(`${db}.localhost`, "/v1/memory/acme/bob/recall")).toEqual([404, "not_found"]);
  expect(await refusal(`${db}.localhost`, "/v1/databases")).toEqual([404, "not_found"]);
  expect(await refusal("localhost", "/v1/sql")).toEqual([404, "not_found"]);
  expect(await refusal("127.0.0.1", "/v1/sql")).toEqual([404, "not_found"]);
});

onBoth(
  "over %s a condition, or an earlier state, of a call that takes none is refused by the header's name",
  async (name) => {
    const wire = service().wire(name);
    const samples = sampleRequests(await service().database(), service().profile());
    for (const endpoint of endpoints) {
      const { method, rule, httpMethod } = endpoint;
      const has = (field: string) => method.input.fields.some((one) => one.name === field);
      const isTaggedRead = rule.entityTag && httpMethod === "GET";
      const headers = [
        ...(has("if_match") ? [] : [["If-Match", "*"]]),
        ...(has("if_absent") || isTaggedRead ? [] : [["If-None-Match", "*"]]),
        ...(rule.at ? [] : [["Service-At", "1"]]),
      ];
      for (const [header, value] of headers)
        expect(
          await wire.call(endpoint.name, samples.get(endpoint.name)!, { [header!]: value! }),
          `${endpoint.name} with ${header}`,
        ).toMatchObject({ code: "invalid_request", message: expect.stringMatching(`^${header} is for `) });
    }
  },
);

test("over rest the query parameter `at` is refused by every route that takes none", async () => {
  for (const { httpMethod, segments, rule } of endpoints) {
    if (rule.at) continue;
    const path = segments.map((segment) => `/${segment.kind === "literal" ? segment.text : "x"}`).join("");
    const reply = await service().call(httpMethod, `${path}?at=1`, httpMethod === "GET" ? undefined : {});
    expect([reply.status, reply.json.error], path).toEqual([
      400,
      expect.stringContaining("at is not a query parameter"),
    ]);
  }
});
