/** Reads of earlier states over both wires: every read gives at a state what it gave when that was the newest. */
import { expect, test } from "vitest";
import { endpoints } from "../../src/service/call/methods.ts";
import { useService, ok } from "../support/service.ts";
import { type Wire, wireNames } from "../support/wires.ts";

const service = useService();
const onBoth = test.each(wireNames);

interface Place {
  readonly db: string;
  readonly ns: string;
  readonly profile: string;
}

/** Rows of every kind; `n` makes each round's its own. */
async function fill(wire: Wire, { db, ns, profile }: Place, n: number): Promise<void> {
  const writes: readonly (readonly [method: string, request: object])[] = [
    ["DataService.PutValue", { ns: "n", key: "k", value: Buffer.from(`v${n}`) }],
    ["DataService.PutValue", { ns: "n", key: `k${n}`, value: Buffer.from("v") }],
    ["DataService.PutDoc", { coll: "c", id: "d", doc: { n } }],
    ["DataService.UpsertVector", { coll: "v", id: "a", embedding: [1, n], metadata: { n } }],
    ["DataService.UpsertVector", { coll: "v", id: `a${n}`, embedding: [n, 1] }],
    ["DataService.AppendTurn", { session: "s", role: "user", content: `turn ${n}`, embedding: [1, n] }],
    ["FileService.PutFile", { path: "a.md", text: `apple ${n}\n` }],
    ["DataService.ExecuteSql", { stmts: [{ q: "CREATE TABLE IF NOT EXISTS t (n)" }] }],
    ["DataService.ExecuteSql", { stmts: [{ q: `INSERT INTO t VALUES (${n})` }] }],
  ];
  for (const [method, request] of writes) await ok(wire.call(method, { db, ...request }));
  const memories = [
    { type: "fact", topic_key: "fruit", summary: `the apple of round ${n}`, content: { n }, session_id: "s" },
    { type: "event", summary: `round ${n} was played`, content: {}, session_id: `s${n}` },
  ];
  await ok(wire.call("MemoryService.Ingest", { ns, profile, memories }));
}

/** A call of every read method of a database. */
function reads({ ns, profile }: Place, id: string): readonly (readonly [method: string, request: object])[] {
  const of = { ns, profile };
  return [
    ["DataService.ListTurns", { session: "s" }],
    ["DataService.ListTurns", { session: "s", order: "desc", limit: 1 }],
    ["DataService.SearchTurns", { session: "s", vector: [1, 1] }],
    ["DataService.ExecuteSql", { stmts: [{ q: "SELECT n FROM t ORDER BY n" }] }],
    ["DataService.ListKeys", { ns: "n" }],
    ["DataService.ListKeys", { ns: "n", include: "values" }],
    ["DataService.GetValue", { ns: "n", key: "k" }],
    ["DataService.GetValues", { ns: "n", keys: ["k", "k1", "k2"] }],
    ["DataService.GetDoc", { coll: "c", id: "d" }],
    ["DataService.FindDocs", { coll: "c", filter: {} }],
    ["DataService.ListVectors", { coll: "v" }],
    ["DataService.GetVector", { coll: "v", id: "a" }],
    ["DataService.SearchVectors", { coll: "v", vector: [1, 1] }],
    ["FileService.GetFile", { path: "a.md" }],
    ["FileService.ListFiles", {}],
    ["FileService.ListFileVersions", { path: "a.md" }],
    ["FileService.SearchFiles", { query: "apple" }],
    ["MemoryService.ListMemories", of],
    ["MemoryService.GetMemory", { ...of, id }],
    ["MemoryService.Recall", { ...of, query: "apple" }],
    ["MemoryService.Recall", { ...of, topic_key: "fruit" }],
    ["MemoryService.GetContext", { ...of, query: "apple" }],
    ["MemoryService.ListSessions", { ...of, include_turns: true }],
  ];
}

onBoth("over %s: every read gives at a state what it gave then", async (name) => {
  const wire = service().wire(name);
  const { ns, profile } = service().profile();
  const place = { db: `${ns}--${profile}`, ns, profile };
  await ok(
    wire.call("MemoryService.Ingest", { ns, profile, memories: [{ type: "event", summary: "x", content: {} }] }),
  );
  await fill(wire, place, 1);
  const listed = await ok(wire.call("MemoryService.ListMemories", { ns, profile, types: "fact" }));
  const calls = reads(place, listed.body.memories[0].id);
  const withAt = endpoints.filter(({ rule }) => rule.at).map((endpoint) => endpoint.name);
  // A model answers what it asks; what is recalled for it is what Recall gives. Exports are compared with imports.
  const others = ["MemoryService.Ask", "TransferService.Export"];
  expect(new Set([...calls.map(([method]) => method), ...others])).toEqual(new Set(withAt));
  const db = { db: place.db };
  const ask = (method: string, request: object, headers = {}): ReturnType<Wire["call"]> =>
    wire.call(method, method.startsWith("Memory") ? request : { ...db, ...request }, headers);
  const then = [];
  for (const [method, request] of calls) then.push(await ok(ask(method, request)));
  const at = String(then[0]!.txid);
  await ok(wire.call("BranchService.CreateCheckpoint", { ...db, branch: "main", name: "then" }));
  await fill(wire, place, 2);
  for (const [index, [method, request]] of calls.entries()) {
    const now = await ok(ask(method, request));
    const { durableTxid: _then, ...expected } = then[index]!;
    expect(now.txid, method).toBeGreaterThan(expected.txid!);
    for (const one of [at, "then"]) {
      const { durableTxid: _, ...past } = await ok(ask(method, request, { "service-at": one }));
      expect(withoutNow(past), `${method} at ${one}`).toEqual(withoutNow(expected));
    }
  }
});

/** What time it is depends on when it is asked; in a state it is the time of its commit. */
function withoutNow(reply: object): unknown {
  return JSON.parse(JSON.stringify(reply).replace(/"now":\d+/, '"now":0'));
}

onBoth("over %s: what is no state, and calls that are no reads", async (name) => {
  const wire = service().wire(name);
  const db = `past-${name}`;
  await ok(wire.call("ControlService.CreateDatabase", { name: db }));
  await ok(wire.call("DataService.PutValue", { db, ns: "n", key: "k", value: Buffer.from("v") }));
  const read = (at: string, headers = {}): ReturnType<Wire["call"]> =>
    wire.call("DataService.ListKeys", { db, ns: "n" }, { "service-at": at, ...headers });
  for (const at of [
    "",
    "a b",
    "2026-13-01T00:00:00Z",
    "2026-01-01T00:00",
    "a:b",
    "x".repeat(65),
    "1".repeat(65),
    "@main",
  ])
    expect((await read(at)).code, at).toBe("invalid_request");
  for (const at of ["7", "nothing", "9007199254740991"]) expect((await read(at)).code, at).toBe("not_found");
  expect((await read("1", { "service-min-txid": "1" })).body.keys).toEqual(["k"]);
  expect((await read("1", { "service-consistency": "primary" })).body.keys).toEqual(["k"]);
  const at = { "service-at": "1" };
  const writes: readonly (readonly [method: string, request: object])[] = [
    ["DataService.PutValue", { db, ns: "n", key: "k", value: Buffer.from("w") }],
    ["DataService.ExecuteSql", { db, stmts: [{ q: "CREATE TABLE t (n)" }] }],
    ["MemoryService.Ingest", { ns: "no", profile: "no", memories: [{ type: "event", summary: "s", content: {} }] }],
    ["DataService.Sync", { db }],
    ["BranchService.CreateBranch", { db, name: "b" }],
    ["BranchService.ListBranches", { db }],
    ["ControlService.CreateDatabase", { name: `${db}-2` }],
  ];
  for (const [method, request] of writes) {
    const { code, message } = await wire.call(method, request, at);
    expect({ code, message }, method).toMatchObject({
      code: "invalid_request",
      message: expect.stringContaining("Service-At is for reads"),
    });
  }
  // An unknown profile has no past; without a state it is an empty one.
  const unknown = { ns: "no", profile: "no", query: "x" };
  expect((await wire.call("MemoryService.Recall", unknown)).code).toBe("ok");
  expect((await wire.call("MemoryService.Recall", unknown, at)).code).toBe("database_not_found");
});

test("the query parameter is the header", async () => {
  const db = await service().database();
  for (const value of ["one", "two"])
    expect((await service().call("PUT", `/v1/db/${db}/kv/n/k`, value)).status).toBe(200);
  const get = (query: string, headers = {}): ReturnType<ReturnType<typeof service>["call"]> =>
    service().call("GET", `/v1/db/${db}/kv/n/k?${query}`, undefined, headers);
  expect((await get("at=1")).text).toBe("one");
  expect((await get("%61t=1")).text).toBe("one");
  expect((await get("at=1", { "service-at": "1" })).text).toBe("one");
  expect((await get("at=1", { "service-at": "2" })).status).toBe(400);
  expect((await get("at=1&at=2")).status).toBe(400);
  expect((await get(`at=${encodeURIComponent(new Date().toISOString())}`)).text).toBe("two");
  expect((await get("at=")).status).toBe(400);
  expect((await service().call("PUT", `/v1/db/${db}/kv/n/k?at=1`, "three")).status).toBe(400);
});
