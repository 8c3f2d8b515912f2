/** Durable acknowledgements and what is left when a node loses its disk, over the wires and with real processes. */
import { renameSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { startNodeProcess, type NodeProcess } from "../support/node-process.ts";
import { ok, startLosable, startService } from "../support/service.ts";
import { temporaryDirectory } from "../support/temporary.ts";
import { type Reply, restWire, type Wire, wireNames } from "../support/wires.ts";

/** A real process on a directory that outlives it; killed with the test. */
async function start(
  directory: string,
  variables: Record<string, string> = {},
): Promise<{ readonly node: NodeProcess; readonly wire: Wire }> {
  const node = await startNodeProcess(directory, { SERVICE_CONTROL_RATE: "100000", ...variables });
  onTestFinished(async () => {
    if (node.child.exitCode === null && node.child.signalCode === null) await node.end("SIGKILL");
  });
  return { node, wire: restWire(`http://127.0.0.1:${node.port}`) };
}

/** Kills the process, takes the node's databases away and starts it again on the same object storage. */
async function loseNode(
  node: NodeProcess,
  directory: string,
  variables: Record<string, string> = {},
): Promise<{ readonly node: NodeProcess; readonly wire: Wire }> {
  await node.end("SIGKILL");
  rmSync(join(directory, "db"), { recursive: true });
  return start(directory, variables);
}

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

test("what was never asked to be durable is shipped by itself before long", async () => {
  const service = await startService();
  try {
    const db = await service.database();
    const wire = service.wire("rest");
    const { txid } = await ok(wire.call("DataService.PutValue", { db, ...key("a") }));
    let durableTxid: number | undefined = 0;
    while (durableTxid! < txid!) {
      await new Promise((resolve) => setTimeout(resolve, 20));
      durableTxid = (await ok(wire.call("DataService.ListKeys", { db, ns: "n" }))).durableTxid;
    }
    expect(durableTxid).toBe(txid);
  } finally {
    await service.close();
  }
});

test("core-11: with a hot cap of 1, databases that take turns lose nothing, not even with the disk", async () => {
  const node = await startLosable({ SERVICE_HOT_CAP: "1", SERVICE_ENGINE_THREADS: "1" });
  const dbs = [await node.now.database(), await node.now.database(), await node.now.database()];
  for (let round = 0; round < 5; round++)
    for (const db of dbs) await ok(node.now.wire("rest").call("DataService.PutValue", { db, ...key(`k${round}`) }));
  for (const db of dbs) await ok(node.now.wire("rest").call("DataService.Sync", { db }));
  await node.loseDisk();
  for (const db of dbs) {
    expect((await ok(node.now.wire("rest").call("DataService.ListKeys", { db, ns: "n" }))).body.keys).toEqual([
      "k0",
      "k1",
      "k2",
      "k3",
      "k4",
    ]);
  }
});

test(
  "segments-01 and segments-03: many synced writes, each with its state in object storage, restore on a fresh node",
  { timeout: 120_000 },
  async () => {
    const node = await startLosable();
    const db = await node.now.database();
    const wire = node.now.wire("rest");
    for (let n = 1; n <= 150; n++) {
      await ok(wire.call("DataService.PutValue", { db, ...key(`k${String(n).padStart(3, "0")}`) }));
      expect(await ok(wire.call("DataService.Sync", { db })), `sync ${n}`).toMatchObject({ txid: n, durableTxid: n });
    }
    await node.loseDisk();
    const after = node.now.wire("rest");
    expect((await ok(after.call("DataService.ListKeys", { db, ns: "n", limit: 1000 }))).body.keys).toHaveLength(150);
    expect(
      (await ok(after.call("DataService.ExecuteSql", { db, ...statement("PRAGMA integrity_check") }))).body.results[0]
        .rows,
    ).toEqual([["ok"]]);
  },
);

/** Object storage that takes no put until it is let go: reads go on. The file store writes through this directory. */
function holdPuts(directory: string): { release(): void } {
  const temporary = join(directory, "objects", ".tmp");
  renameSync(temporary, `${temporary}-held`);
  writeFileSync(temporary, "");
  return {
    release() {
      rmSync(temporary);
      renameSync(`${temporary}-held`, temporary);
    },
  };
}

test("F33: while object storage takes nothing, only standard writes go on; all is shipped afterwards", async () => {
  // Durable writes are refused in time.
  const directory = temporaryDirectory();
  const service = await startService({ SERVICE_REQUEST_TIMEOUT: "10" }, directory);
  onTestFinished(() => service.close());
  const wire = service.wire("rest");
  const db = await service.database();
  // What begins with the first write, the engine's thread above all, may take a busy machine longer than a request
  // has.
  await untilOk(() => wire.call("DataService.PutValue", { db, ...key("a") }));
  const shipped = await untilOk(() => wire.call("DataService.Sync", { db }));
  const held = holdPuts(directory);
  const before = await ok(wire.call("DataService.PutValue", { db, ...key("b") }));
  const refused = await Promise.all([
    wire.call("DataService.PutValue", { db, ...key("c") }, { "Service-Durability": "durable" }),
    wire.call("DataService.Sync", { db }),
  ]);
  for (const { code } of refused) expect(["unavailable", "request_timeout"]).toContain(code);
  const standard = await ok(wire.call("DataService.PutValue", { db, ...key("d") }));
  expect([before.durableTxid, standard.durableTxid]).toEqual([shipped.durableTxid, shipped.durableTxid]);
  held.release();
  const synced = await ok(untilOk(() => wire.call("DataService.Sync", { db })));
  expect(synced.durableTxid).toBeGreaterThanOrEqual(standard.txid!);
});

/** Calls until it succeeds: a store that comes back is noticed at the next attempt, not at once. */
async function untilOk(call: () => Promise<Reply>): Promise<Reply> {
  for (;;) {
    const reply = await call();
    if (reply.code === "ok") return reply;
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

test("a write acknowledged before it was shipped and lost with the disk is known to be lost: 409", async () => {
  const directory = join(temporaryDirectory(), "data");
  const first = await start(directory);
  await ok(first.wire.call("ControlService.CreateDatabase", { name: "db" }));
  await ok(first.wire.call("DataService.PutValue", { db: "db", ...key("kept") }));
  const kept = (await ok(first.wire.call("DataService.Sync", { db: "db" }))).txid!;
  const held = holdPuts(directory);
  const lost = (await ok(first.wire.call("DataService.PutValue", { db: "db", ...key("lost") }))).txid!;
  expect(lost).toBeGreaterThan(kept);
  await first.node.end("SIGKILL");
  held.release();
  rmSync(join(directory, "db"), { recursive: true });
  const { wire } = await start(directory);
  const read = (txid: number): Promise<Reply> =>
    wire.call("DataService.ListKeys", { db: "db", ns: "n" }, { "Service-Min-Txid": String(txid) });
  expect((await ok(wire.call("DataService.ListKeys", { db: "db", ns: "n" }))).body.keys).toEqual(["kept"]);
  expect((await ok(read(kept))).body.keys).toEqual(["kept"]);
  const lostForGood = { code: "conflict", message: expect.stringContaining("lost") };
  expect(await read(lost)).toMatchObject(lostForGood);
  // Also once a later write has a larger number: a larger state is not the one that was promised.
  expect((await ok(wire.call("DataService.PutValue", { db: "db", ...key("new") }))).txid).toBeGreaterThan(lost);
  expect(await read(lost)).toMatchObject(lostForGood);
  expect((await ok(wire.call("DataService.ListKeys", { db: "db", ns: "n" }))).body.keys).toEqual(["kept", "new"]);
});

test("F02: what was acknowledged, not shipped, before kill -9 is logged; the next start ships it", async () => {
  const directory = join(temporaryDirectory(), "data");
  const first = await start(directory);
  await ok(first.wire.call("ControlService.CreateDatabase", { name: "db" }));
  await ok(first.wire.call("DataService.PutValue", { db: "db", ...key("shipped") }));
  await ok(first.wire.call("DataService.Sync", { db: "db" }));
  const held = holdPuts(directory);
  await ok(first.wire.call("DataService.PutValue", { db: "db", ...key("in the log") }));
  await first.node.end("SIGKILL");
  held.release();
  const second = await start(directory);
  await ok(second.wire.call("DataService.Sync", { db: "db" }));
  const third = await loseNode(second.node, directory);
  expect((await ok(third.wire.call("DataService.ListKeys", { db: "db", ns: "n" }))).body.keys).toEqual([
    "in the log",
    "shipped",
  ]);
});
