/** Writes that are repeated with an `Idempotency-Key`, over both wires: carried out once, answered alike. */
import { expect, test } from "vitest";
import { endpoints } from "../../src/service/call/methods.ts";
import { useService, ok } from "../support/service.ts";
import { type Reply, type Wire, wireNames } from "../support/wires.ts";

const service = useService();
const onBoth = test.each(wireNames);

let keys = 0;
const newKey = (): string => `key-${++keys}`;

/** One call of each method that takes a key, in an order in which each finds what it needs. */
const calls: readonly (readonly [method: string, request: object])[] = [
  ["DataService.ExecuteSql", { stmts: [{ q: "CREATE TABLE t (n INTEGER PRIMARY KEY, x TEXT)" }] }],
  ["DataService.ExecuteSql", { stmts: [{ q: "INSERT INTO t (x) VALUES ('a') RETURNING n, x" }] }],
  ["DataService.AppendTurn", { session: "s", role: "user", content: "hello" }],
  [
    "DataService.AppendTurns",
    {
      session: "s",
      turns: [
        { role: "user", content: "one" },
        { role: "tool", content: "2" },
      ],
    },
  ],
  ["DataService.ReplaceTurns", { session: "s", expected: [], turns: [{ role: "user", content: "three" }] }],
  ["DataService.DeleteTurns", { session: "s", last: 1 }],
  ["DataService.PutValue", { ns: "n", key: "k", value: Buffer.from("v") }],
  ["DataService.DeleteValue", { ns: "n", key: "k" }],
  ["DataService.InsertDocs", { coll: "c", docs: [{ n: 1 }, { n: 2 }] }],
  ["DataService.UpdateDocs", { coll: "c", filter: {}, update: { $inc: { n: 1 } }, multi: true }],
  ["DataService.PutDoc", { coll: "c", id: "d", doc: { n: 9 }, if_absent: true }],
  ["DataService.DeleteDoc", { coll: "c", id: "d", if_match: "*" }],
  ["DataService.CreateDocIndex", { coll: "c", path: "n" }],
  ["DataService.DropDocIndex", { coll: "c", path: "n" }],
  ["DataService.PutValues", { ns: "n", items: [{ key: "m", text: "v" }] }],
  ["DataService.DeleteValues", { ns: "n", items: [{ key: "m" }] }],
  ["DataService.DeleteDocs", { coll: "c", filter: { n: 2 } }],
  ["DataService.UpsertVector", { coll: "v", id: "a", embedding: [1, 2] }],
  ["DataService.UpsertVectors", { coll: "v", vectors: [{ id: "b", embedding: [1, 2] }] }],
  ["DataService.DeleteVector", { coll: "v", id: "a" }],
  ["DataService.DeleteVectors", { coll: "v", ids: ["b"] }],
  ["FileService.PutFile", { path: "a.md", text: "one\n" }],
  ["FileService.EditFile", { path: "a.md", edits: [{ after_line: 1, text: "two\n" }] }],
  ["FileService.MoveFiles", { path: "a.md", to: "b.md" }],
  ["FileService.DeleteFiles", { path: "b.md" }],
];

async function database(wire: Wire): Promise<{ readonly db: string }> {
  const db = `idem-${wire.name}-${++keys}`;
  await ok(wire.call("ControlService.CreateDatabase", { name: db }));
  return { db };
}

function keyed(wire: Wire, method: string, request: object, key: string): Promise<Reply> {
  return wire.call(method, request, { "idempotency-key": key });
}

onBoth("over %s: every write is carried out once, and its repetition has the same answer", async (name) => {
  const wire = service().wire(name);
  const at = await database(wire);
  for (const [method, request] of calls) {
    const key = newKey();
    const first = await ok(keyed(wire, method, { ...at, ...request }, key));
    expect(first.isRepeat, method).toBeUndefined();
    const again = await ok(keyed(wire, method, { ...at, ...request }, key));
    expect(again.isRepeat, method).toBe(true);
    expect({ body: again.body, txid: again.txid }, method).toEqual({ body: first.body, txid: first.txid });
  }
  const { ns, profile } = service().profile();
  const remembered = await ok(
    wire.call("MemoryService.Ingest", { ns, profile, memories: [{ type: "fact", summary: "s", content: {} }] }),
  );
  const id: string = remembered.body.results[0].id;
  const ofProfile: typeof calls = [
    ["MemoryService.UpdateMemory", { id, pinned: true }],
    ["MemoryService.ReviewMemory", { ids: ["mem_unknown"], verdict: "approve" }],
    ["MemoryService.ForgetMemory", { id }],
    ["MemoryService.ForgetMemories", { types: ["event"] }],
    ["MemoryService.EndSession", { sid: "s" }],
  ];
  for (const [method, request] of ofProfile) {
    const key = newKey();
    const first = await ok(keyed(wire, method, { ns, profile, ...request }, key));
    const again = await ok(keyed(wire, method, { ns, profile, ...request }, key));
    expect(again, method).toEqual({ ...first, isRepeat: true });
  }
  // Of those that take a key, these have tests of their own: below, where there is a model, and in test/routes/undo.
  const elsewhere = ["MemoryService.Ingest", "MemoryService.Extract", "ChangeService.Undo"];
  const tried = [...calls, ...ofProfile].map(([method]) => method);
  expect(new Set([...tried, ...elsewhere])).toEqual(
    new Set(endpoints.filter(({ rule }) => rule.idempotencyKey).map((endpoint) => endpoint.name)),
  );
});

onBoth("over %s: a memory is stored once, whichever of 20 calls at once comes first", async (name) => {
  const wire = service().wire(name);
  const { ns, profile } = service().profile();
  const memories = [{ type: "fact", topic_key: "theme", summary: "dark", content: { a: 1 } }];
  const key = newKey();
  const replies = await Promise.all(
    Array.from({ length: 20 }, () => keyed(wire, "MemoryService.Ingest", { ns, profile, memories }, key)),
  );
  expect(new Set(replies.map(({ code, body }) => JSON.stringify([code, body]))).size).toBe(1);
  expect(replies.filter(({ isRepeat }) => !isRepeat)).toHaveLength(1);
  // By nature the same memory again is a duplicate, and answered as such; by key it is the same call.
  expect(replies[0]!.body.results[0].status).toBe("created");
  const { body } = await ok(wire.call("MemoryService.Ingest", { ns, profile, memories }));
  expect(body.results[0].status).toBe("duplicate");
});

onBoth("over %s: a refused write is not known, and the same key can be given again", async (name) => {
  const wire = service().wire(name);
  const at = await database(wire);
  const key = newKey();
  const insert = { ...at, stmts: [{ q: "INSERT INTO later VALUES (1)" }] };
  expect((await keyed(wire, "DataService.ExecuteSql", insert, key)).code).toBe("invalid_request");
  await ok(wire.call("DataService.ExecuteSql", { ...at, stmts: [{ q: "CREATE TABLE later (n)" }] }));
  for (let round = 0; round < 3; round++) await ok(keyed(wire, "DataService.ExecuteSql", insert, key));
  const { body } = await ok(wire.call("DataService.ExecuteSql", { ...at, stmts: [{ q: "SELECT n FROM later" }] }));
  expect(body.results[0].rows).toEqual([[1]]);
});

onBoth("over %s: a key with another request is a conflict, and changes nothing", async (name) => {
  const wire = service().wire(name);
  const at = await database(wire);
  const key = newKey();
  await ok(keyed(wire, "DataService.PutValue", { ...at, ns: "n", key: "k", value: Buffer.from("one") }, key));
  for (const [method, request] of [
    ["DataService.PutValue", { ns: "n", key: "k", value: Buffer.from("two") }],
    ["DataService.DeleteValue", { ns: "n", key: "k" }],
    ["DataService.InsertDocs", { coll: "c", docs: [{}] }],
    ["DataService.ExecuteSql", { stmts: [{ q: "CREATE TABLE t (n)" }] }],
  ] as const) {
    const { code, message } = await keyed(wire, method, { ...at, ...request }, key);
    expect({ code, message }, method).toMatchObject({
      code: "conflict",
      message: expect.stringContaining("another request"),
    });
  }
  expect((await ok(wire.call("DataService.ListKeys", { ...at, ns: "n" }))).body.keys).toEqual(["k"]);
});

test("a condition in a header is a part of the request", async () => {
  const { db } = await database(service().wire("rest"));
  const put = (condition: Record<string, string>): Promise<{ status: number }> =>
    service().call("PUT", `/v1/db/${db}/kv/n/k`, "v", { "idempotency-key": "k", ...condition });
  for (let round = 0; round < 2; round++) expect((await put({ "if-none-match": "*" })).status).toBe(200);
  expect((await put({ "if-match": "*" })).status).toBe(409);
});

test("integers that are the same as doubles make another request", async () => {
  const wire = service().wire("rest");
  const at = await database(wire);
  const insert = (n: string): Promise<{ status: number; text: string }> =>
    service().call("POST", `/v1/db/${at.db}/docs/c/insert`, `{"docs":[{"n":${n}}]}`, {
      "idempotency-key": "big",
      "content-type": "application/json",
    });
  expect((await insert("9007199254740993")).status).toBe(200);
  expect((await insert("9007199254740992")).status).toBe(409);
});

onBoth("over %s: what is no key, and calls that take none", async (name) => {
  const wire = service().wire(name);
  const at = await database(wire);
  const put = { ...at, ns: "n", key: "k", value: Buffer.from("v") };
  for (const key of ["x".repeat(256), '"', "\u00e9"].filter((one) => name === "rest" || /^[ -~]+$/.test(one))) {
    const { code, message } = await keyed(wire, "DataService.PutValue", put, key);
    if (key === '"') expect(code).toBe("ok");
    else expect({ code, message }).toMatchObject({ code: "invalid_request", message: expect.stringContaining("255") });
  }
  // In quotes, as the header's draft standard has it, or without them: the same key.
  await ok(keyed(wire, "DataService.PutValue", put, "quoted"));
  expect((await ok(keyed(wire, "DataService.PutValue", put, '"quoted"'))).isRepeat).toBe(true);
  await ok(keyed(wire, "DataService.ListKeys", { ...at, ns: "n" }, "reads ignore it"));
  const { code, message } = await keyed(wire, "BranchService.CreateBranch", { ...at, name: "b" }, "k");
  expect({ code, message }).toMatchObject({ code: "invalid_request", message: expect.stringContaining("takes no") });
});

onBoth("over %s: a key belongs to its branch; a rewind to before the write forgets it", async (name) => {
  const wire = service().wire(name);
  const at = await database(wire);
  const append = { ...at, session: "s", role: "user", content: "once" };
  await ok(wire.call("DataService.PutValue", { ...at, ns: "n", key: "k", value: Buffer.from("v") }));
  await ok(wire.call("BranchService.CreateCheckpoint", { ...at, branch: "main", name: "before" }));
  const first = await ok(keyed(wire, "DataService.AppendTurn", append, "k"));
  await ok(wire.call("BranchService.RewindBranch", { ...at, branch: "main", to: "before" }));
  const again = await ok(keyed(wire, "DataService.AppendTurn", append, "k"));
  expect(again.isRepeat).toBeUndefined();
  expect(again.txid).toBeGreaterThan(first.txid!);
});
