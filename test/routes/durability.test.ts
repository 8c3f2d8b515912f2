/** Durable acknowledgements of every write route, over the wires and with real processes that lose their disk. */
import { join } from "node:path";
import { expect, test } from "vitest";
import { ok, startService } from "../support/service.ts";
import { temporaryDirectory } from "../support/temporary.ts";
import { type Reply, type Wire, wireNames } from "../support/wires.ts";
import { start, loseNode } from "../support/losable-process.ts";

type Call = (method: string, request: object, headers?: Record<string, string>) => Promise<Reply>;

/** One write route: what must be there before, the write itself, and what proves it afterwards. */
interface WriteCase {
  readonly method: string;
  readonly before?: readonly (readonly [method: string, request: object])[];
  readonly write: object;
  readonly proof: readonly [method: string, request: object];
  readonly expected: object;
}

const statement = (...texts: readonly string[]): object => ({ stmts: texts.map((q) => ({ q })) });
const selectRows = (q: string): readonly [string, object] => ["DataService.ExecuteSql", statement(q)];
const hasRows = (...rows: readonly unknown[][]): object => ({ results: [{ rows }] });
const key = (name: string): object => ({ ns: "n", key: name, value: Buffer.from(name) });

const dataWrites: Readonly<Record<string, WriteCase>> = {
  sql: {
    method: "DataService.ExecuteSql",
    write: statement("CREATE TABLE t (n)", "INSERT INTO t VALUES (1)"),
    proof: selectRows("SELECT n FROM t"),
    expected: hasRows([1]),
  },
  "core-14, INSERT .. RETURNING": {
    method: "DataService.ExecuteSql",
    before: [["DataService.ExecuteSql", statement("CREATE TABLE t (n)")]],
    write: statement("INSERT INTO t VALUES (2) RETURNING n"),
    proof: selectRows("SELECT n FROM t"),
    expected: hasRows([2]),
  },
  "core-14, DDL alone": {
    method: "DataService.ExecuteSql",
    write: statement("CREATE TABLE only (n)"),
    proof: selectRows("SELECT name FROM sqlite_schema WHERE name = 'only'"),
    expected: hasRows(["only"]),
  },
  "sql, each statement for itself": {
    method: "DataService.ExecuteSql",
    write: {
      ...statement("CREATE TABLE t (n PRIMARY KEY)", "INSERT INTO t VALUES (1)", "INSERT INTO t VALUES (1)"),
      txn: false,
    },
    proof: selectRows("SELECT n FROM t"),
    expected: hasRows([1]),
  },
  "key put": {
    method: "DataService.PutValue",
    write: key("a"),
    proof: ["DataService.ListKeys", { ns: "n" }],
    expected: { keys: ["a"] },
  },
  "key delete": {
    method: "DataService.DeleteValue",
    before: [
      ["DataService.PutValue", key("a")],
      ["DataService.PutValue", key("b")],
    ],
    write: { ns: "n", key: "a" },
    proof: ["DataService.ListKeys", { ns: "n" }],
    expected: { keys: ["b"] },
  },
  "docs insert": {
    method: "DataService.InsertDocs",
    write: { coll: "c", docs: [{ _id: "a" }] },
    proof: ["DataService.FindDocs", { coll: "c" }],
    expected: { docs: [{ _id: "a" }] },
  },
  "docs update": {
    method: "DataService.UpdateDocs",
    before: [["DataService.InsertDocs", { coll: "c", docs: [{ _id: "a" }] }]],
    write: { coll: "c", filter: {}, update: { $set: { b: 1 } } },
    proof: ["DataService.FindDocs", { coll: "c" }],
    expected: { docs: [{ _id: "a", b: 1 }] },
  },
  "docs delete": {
    method: "DataService.DeleteDocs",
    before: [["DataService.InsertDocs", { coll: "c", docs: [{ _id: "a" }, { _id: "b" }] }]],
    write: { coll: "c", filter: { _id: "a" } },
    proof: ["DataService.FindDocs", { coll: "c" }],
    expected: { docs: [{ _id: "b" }] },
  },
  "document put": {
    method: "DataService.PutDoc",
    write: { coll: "c", id: "d", doc: { n: 1 } },
    proof: ["DataService.GetDoc", { coll: "c", id: "d" }],
    expected: { doc: { _id: "d", n: 1 } },
  },
  "document delete by id": {
    method: "DataService.DeleteDoc",
    before: [["DataService.InsertDocs", { coll: "c", docs: [{ _id: "a" }, { _id: "b" }] }]],
    write: { coll: "c", id: "a" },
    proof: ["DataService.FindDocs", { coll: "c" }],
    expected: { docs: [{ _id: "b" }] },
  },
  // An index that is there already is left as it is, and takes no transaction id.
  "docs index": {
    method: "DataService.CreateDocIndex",
    write: { coll: "c", path: "a" },
    proof: ["DataService.CreateDocIndex", { coll: "c", path: "a" }],
    expected: { txid: 1 },
  },
  "vector upsert": {
    method: "DataService.UpsertVector",
    write: { coll: "c", id: "v", embedding: [1, 2] },
    proof: ["DataService.SearchVectors", { coll: "c", vector: [1, 2] }],
    expected: { hits: [{ id: "v" }] },
  },
  "turn append": {
    method: "DataService.AppendTurn",
    write: { session: "s", role: "user", content: "hello" },
    proof: ["DataService.ListTurns", { session: "s" }],
    expected: { turns: [{ content: "hello" }] },
  },
};

const fact = (summary: string): object => ({ type: "fact", summary, content: null, session_id: "s" });

/** The writes of typed memory, each on a profile of its own; the id of the first memory stands in for `{id}`. */
const memoryWrites: Readonly<Record<string, WriteCase>> = {
  ingest: {
    method: "MemoryService.Ingest",
    write: { memories: [fact("the harbour is deep")] },
    proof: ["MemoryService.Recall", { query: "harbour" }],
    expected: { memories: [{ summary: "the harbour is deep" }] },
  },
  forget: {
    method: "MemoryService.ForgetMemory",
    before: [["MemoryService.Ingest", { memories: [fact("the harbour is shallow"), fact("the harbour is deep")] }]],
    write: { id: "{id}" },
    proof: ["MemoryService.Recall", { query: "harbour" }],
    expected: { memories: [{ summary: "the harbour is deep" }] },
  },
  "end session": {
    method: "MemoryService.EndSession",
    before: [
      [
        "MemoryService.Ingest",
        {
          memories: [
            fact("the harbour is deep"),
            { type: "task", summary: "sound the harbour", content: null, session_id: "s" },
          ],
        },
      ],
    ],
    write: { sid: "s" },
    proof: ["MemoryService.Recall", { query: "harbour" }],
    expected: { memories: [{ summary: "the harbour is deep" }] },
  },
};

interface Written {
  readonly what: string;
  readonly at: object;
  readonly proof: WriteCase["proof"];
  readonly expected: object;
}

async function writeOne(
  call: Call,
  what: string,
  at: object,
  writeCase: WriteCase,
  headers: Record<string, string>,
): Promise<Written> {
  let id = "";
  for (const [method, request] of writeCase.before ?? [])
    id = (await ok(call(method, { ...at, ...request }))).body?.results?.[0].id ?? id;
  const write = "id" in writeCase.write && writeCase.write.id === "{id}" ? { id } : writeCase.write;
  const reply = await ok(call(writeCase.method, { ...at, ...write }, headers));
  expect(reply.txid, what).toBeGreaterThan(0);
  expect(reply.durableTxid, what).toBeGreaterThanOrEqual(reply.txid!);
  return { what, at, proof: writeCase.proof, expected: writeCase.expected };
}

/** Every write route, each on a database of its own, so that none is made durable by the next one. */
async function writeAll(wire: Wire, headers: Record<string, string>): Promise<Written[]> {
  const call: Call = (method, request, given) => wire.call(method, request, given);
  const written: Written[] = [];
  for (const [index, [what, writeCase]] of Object.entries(dataWrites).entries()) {
    const db = `data-${index}`;
    await ok(call("ControlService.CreateDatabase", { name: db }));
    written.push(await writeOne(call, what, { db }, writeCase, headers));
  }
  for (const [index, [what, writeCase]] of Object.entries(memoryWrites).entries())
    written.push(await writeOne(call, what, { ns: "acme", profile: `p${index}` }, writeCase, headers));
  return written;
}

async function expectAll(wire: Wire, written: readonly Written[]): Promise<void> {
  for (const { what, at, proof, expected } of written) {
    const { body } = await ok(wire.call(proof[0], { ...at, ...proof[1] }));
    expect(body, what).toMatchObject(expected);
  }
}

const settings: readonly (readonly [
  what: string,
  variables: Record<string, string>,
  headers: Record<string, string>,
])[] = [
  ["asked for with the request", {}, { "Service-Durability": "durable" }],
  ["of a durable node", { SERVICE_DURABILITY: "durable" }, {}],
  [
    "of a durable node, which `standard` cannot lower",
    { SERVICE_DURABILITY: "durable" },
    { "Service-Durability": "standard" },
  ],
];

test.each(settings)(
  "every write route with a durable acknowledgement %s survives kill -9 and the loss of the disk",
  { timeout: 120_000 },
  async (_what, variables, headers) => {
    const directory = join(temporaryDirectory(), "data");
    const first = await start(directory, variables);
    const written = await writeAll(first.wire, headers);
    const { wire } = await loseNode(first.node, directory, variables);
    await expectAll(wire, written);
  },
);

test.each(wireNames)(
  "over %s a durable write tells that object storage covers it, and reads tell how far it does",
  async (name) => {
    const service = await startService();
    try {
      const wire = service.wire(name);
      const db = await service.database();
      expect(await ok(wire.call("DataService.ListKeys", { db, ns: "n" }))).toMatchObject({ txid: 0, durableTxid: 0 });
      const durable = { "Service-Durability": "durable" };
      expect(await ok(wire.call("DataService.PutValue", { db, ...key("a") }, durable))).toMatchObject({
        txid: 1,
        durableTxid: 1,
      });
      expect((await ok(wire.call("DataService.PutValue", { db, ...key("b") }))).durableTxid).toBeLessThanOrEqual(2);
      expect(await ok(wire.call("DataService.Sync", { db }))).toMatchObject({
        body: { txid: 2 },
        txid: 2,
        durableTxid: 2,
      });
      expect(await ok(wire.call("DataService.ListKeys", { db, ns: "n" }))).toMatchObject({ txid: 2, durableTxid: 2 });
      // A refusal tells it too, where it is known.
      expect(await wire.call("DataService.GetValue", { db, ns: "n", key: "absent" })).toMatchObject({
        code: "not_found",
        txid: 2,
        durableTxid: 2,
      });
      expect(await ok(wire.call("MemoryService.Recall", { ...service.profile(), query: "x" }))).toMatchObject({
        txid: 0,
        durableTxid: 0,
      });
      // What changes nothing waits for what was there before.
      await ok(wire.call("DataService.PutValue", { db, ...key("c") }));
      expect(await ok(wire.call("DataService.DeleteValue", { db, ns: "n", key: "absent" }, durable))).toMatchObject({
        txid: 3,
        durableTxid: 3,
      });
    } finally {
      await service.close();
    }
  },
);
