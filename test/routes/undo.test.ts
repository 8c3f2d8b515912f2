/** The undo of a transaction, over all wires: every kind of thing comes back as it was, or nothing changes at all. */
import { expect, test } from "vitest";
import { useService, ok } from "../support/service.ts";
import { describeStores, type Stores } from "../support/store-dump.ts";
import { type Reply, type Wire, wireNames } from "../support/wires.ts";

const service = useService();
const onAll = test.each(wireNames);

interface Place {
  readonly wire: Wire;
  readonly ns: string;
  readonly profile: string;
  readonly db: string;
}

function open(name: (typeof wireNames)[number]): Place {
  const { ns, profile } = service().profile();
  return { wire: service().wire(name), ns, profile, db: `${ns}--${profile}` };
}

const write = async ({ wire, db }: Place, method: string, request: object): Promise<number> =>
  (await ok(wire.call(method, { db, ...request }))).txid!;

async function ingest({ wire, ns, profile }: Place, ...memories: object[]): Promise<{ ids: string[]; txid: number }> {
  const { body, txid } = await ok(wire.call("MemoryService.Ingest", { ns, profile, memories }));
  return { ids: body.results.map(({ id }: { id: string }) => id), txid: txid! };
}

const undo = ({ wire, db }: Place, txid: number, more: object = {}): ReturnType<Wire["call"]> =>
  wire.call("ChangeService.Undo", { db, txid, ...more });

async function refused(reply: Promise<Reply>, code: string): Promise<Reply> {
  const settled = await reply;
  expect(settled.code, settled.message).toBe(code);
  return settled;
}

const dump = (place: Place): Promise<Stores> => describeStores(place);

/** Something of every kind, so that every kind can be changed, and comes back among others. */
async function fill(place: Place): Promise<Record<"fact" | "event" | "task" | "proposal", string>> {
  const { ids } = await ingest(
    place,
    { type: "fact", topic_key: "drink", summary: "drinks tea", content: {}, source: "alice", session_id: "s" },
    { type: "event", summary: "went to Tokyo", content: { a: 1 }, metadata: { city: "Tokyo" }, subject: "user-7" },
    { type: "task", summary: "buy milk", content: {}, session_id: "s", ttl: 3_600 },
    { type: "fact", topic_key: "home", summary: "lives in Bern", content: {}, status: "proposed" },
  );
  for (const at of [1, 2, 3]) {
    const turns = [{ role: "user", content: `number ${at}`, turn_id: `t${at}`, metadata: { at } }];
    await write(place, "DataService.AppendTurns", { session: "s", turns });
    await write(place, "DataService.PutValue", {
      ns: "n",
      key: `k${at}`,
      value: Buffer.from(`${at}`),
      subject: "user-7",
    });
    await write(place, "DataService.PutDoc", {
      coll: "c",
      id: `d${at}`,
      doc: { a: at, list: [1, at] },
      subject: "user-7",
    });
    await write(place, "DataService.UpsertVector", { coll: "v", id: `v${at}`, embedding: [at, 2], metadata: { at } });
    await write(place, "FileService.PutFile", { path: `f/${at}.md`, text: `text ${at}\n` });
  }
  await write(place, "DataService.CreateDocIndex", { coll: "c", path: "list" });
  const [fact, event, task, proposal] = ids as [string, string, string, string];
  return { fact, event, task, proposal };
}

onAll("over %s: an undo with a key is carried out once", async (name) => {
  const place = open(name);
  const { wire, ns, profile, db } = place;
  await ok(
    wire.call("MemoryService.Ingest", { ns, profile, memories: [{ type: "event", summary: "x", content: {} }] }),
  );
  const txid = await write(place, "DataService.PutValue", { ns: "n", key: "k", value: Buffer.from("1") });
  const once = (): Promise<Reply> => ok(wire.call("ChangeService.Undo", { db, txid }, { "idempotency-key": "u" }));
  const first = await once();
  expect(await once()).toEqual({ ...first, isRepeat: true });
  await refused(undo(place, txid), "conflict");
});

test("one write of each kind is undone, and its undo too", async () => {
  const place = open("rest");
  const { wire, ns, profile } = place;
  const { fact, event, task, proposal } = await fill(place);
  const call = (method: string, request: object) => async (): Promise<number> =>
    (await ok(wire.call(method, { ns, profile, ...request }))).txid!;
  const at = (method: string, request: object) => (): Promise<number> => write(place, method, request);
  const writes: readonly [what: string, act: () => Promise<number>][] = [
    [
      "a new memory",
      call("MemoryService.Ingest", { memories: [{ type: "event", summary: "x", content: {}, session_id: "new" }] }),
    ],
    [
      "what supersedes",
      call("MemoryService.Ingest", {
        memories: [{ type: "fact", topic_key: "drink", summary: "coffee", content: {} }],
      }),
    ],
    [
      "a duplicate said elsewhere",
      call("MemoryService.Ingest", {
        memories: [
          {
            type: "event",
            summary: "went to Tokyo",
            content: { a: 1 },
            subject: "user-7",
            source: "bob",
            pinned: true,
          },
        ],
      }),
    ],
    ["a forget", call("MemoryService.ForgetMemory", { id: event })],
    ["a forget of what was superseded", call("MemoryService.ForgetMemory", { id: fact })],
    [
      "an update",
      call("MemoryService.UpdateMemory", {
        id: event,
        metadata: { city: "Kyoto" },
        keywords: "kansai",
        pinned: true,
      }),
    ],
    ["a completion", call("MemoryService.UpdateMemory", { id: task, completed: true })],
    ["an approval", call("MemoryService.ReviewMemory", { ids: [proposal], verdict: "approve" })],
    ["a rejection", call("MemoryService.ReviewMemory", { ids: [proposal], verdict: "reject" })],
    ["an end of a session", call("MemoryService.EndSession", { sid: "s", turns: true })],
    ["a turn of a new session", at("DataService.AppendTurn", { session: "t", role: "user", content: "hi" })],
    ["deleted turns", at("DataService.DeleteTurns", { session: "s", last: 2 })],
    ["a value put over", at("DataService.PutValue", { ns: "n", key: "k1", value: Buffer.from("other") })],
    ["a new value", at("DataService.PutValue", { ns: "n", key: "new", value: Buffer.from("other") })],
    ["a deleted value", at("DataService.DeleteValue", { ns: "n", key: "k2" })],
    [
      "documents updated",
      at("DataService.UpdateDocs", { coll: "c", filter: {}, update: { $set: { a: 9, list: [9] } }, multi: true }),
    ],
    ["documents deleted", at("DataService.DeleteDocs", { coll: "c", filter: { a: { $gt: 1 } }, multi: true })],
    ["a new document", at("DataService.InsertDocs", { coll: "c", docs: [{ _id: "new" }] })],
    ["a vector put over", at("DataService.UpsertVector", { coll: "v", id: "v1", embedding: [7, 7] })],
    ["a deleted vector", at("DataService.DeleteVector", { coll: "v", id: "v2" })],
    ["a new vector", at("DataService.UpsertVector", { coll: "v", id: "new", embedding: [7, 7] })],
    ["a file put over", at("FileService.PutFile", { path: "f/1.md", text: "other\n" })],
    ["a new file", at("FileService.PutFile", { path: "g.md", text: "other\n" })],
    ["moved files", at("FileService.MoveFiles", { path: "f", to: "moved" })],
    ["a deleted file", at("FileService.DeleteFiles", { path: "f/2.md" })],
  ];
  const before = await dump(place);
  for (const [what, act] of writes) {
    const txid = await act();
    const after = await dump(place);
    expect(after, what).not.toEqual(before);
    const looked = await ok(undo(place, txid, { dry_run: true }));
    expect(looked.txid, `${what}: a dry run writes nothing`).toBe(txid);
    const undone = await ok(undo(place, txid));
    expect(undone.body).toMatchObject({ undone: txid, changes: looked.body.changes, txid: txid + 1 });
    expect(await dump(place), what).toEqual(before);
    const redone = await ok(undo(place, undone.body.txid));
    expect(await dump(place), `${what}: undone and redone`).toEqual(after);
    await ok(undo(place, redone.body.txid));
  }
  expect(await dump(place)).toEqual(before);
});

onAll("over %s: what was changed since is named, and nothing changes", async (name) => {
  const place = open(name);
  const { wire, ns, profile } = place;
  const { fact } = await fill(place);
  const txid = await write(place, "DataService.PutValues", {
    ns: "n",
    items: ["k1", "k2"].map((key) => ({ key, text: "both" })),
  });
  await write(place, "DataService.PutValue", { ns: "n", key: "k2", value: Buffer.from("later") });
  const before = await dump(place);
  const value = await refused(undo(place, txid), "conflict");
  expect(value.message).toContain(`transaction ${txid} cannot be undone: changed since: kv n/k2`);
  expect(value.message).not.toContain("k1");
  await refused(undo(place, txid, { dry_run: true }), "conflict");
  expect(await dump(place)).toEqual(before);

  const forgotten = (await ok(wire.call("MemoryService.ForgetMemory", { ns, profile, id: fact }))).txid!;
  const { ids } = await ingest(place, { type: "fact", topic_key: "drink", summary: "coffee", content: {} });
  const now = await dump(place);
  expect((await refused(undo(place, forgotten), "conflict")).message).toContain(`${ids[0]} is in its place now`);
  expect(await dump(place)).toEqual(now);
});

onAll("over %s: what cannot be undone says so", async (name) => {
  const place = open(name);
  const { wire, ns, profile, db } = place;
  const { event } = await fill(place);
  const why = async (txid: number, code = "conflict"): Promise<string> =>
    (await refused(undo(place, txid), code)).message;
  expect(await why(1_000_000, "not_found")).toBeTruthy();
  expect(await why(0, "invalid_request")).toContain("txid");
  const sql = await write(place, "DataService.ExecuteSql", { stmts: [{ q: "CREATE TABLE t (a)" }] });
  expect(await why(sql)).toContain("SQL");
  const purge = await write(place, "FileService.DeleteFiles", { path: "f/3.md", purge: true });
  expect(await why(purge)).toContain("purged");
  const put = await write(place, "DataService.PutValue", { ns: "n", key: "k1", value: Buffer.from("left") });
  const { txid } = await ok(wire.call("BranchService.RewindBranch", { db, branch: "main", to: String(put - 1) }));
  expect(await why(txid!)).toContain("rewind");
  expect(await why(put)).toContain("none of the branch's history");

  const forgotten = (await ok(wire.call("MemoryService.ForgetMemory", { ns, profile, id: event }))).txid!;
  const made = await write(place, "DataService.PutValue", { ns: "n", key: "made", value: Buffer.from("1") });
  const erased = await ok(wire.call("MemoryService.CreateErasure", { ns, profile, kv_ns: "n", key: "k3" }));
  expect(erased.body.status).toBe("pending");
  const { txid: erasure } = erased.body.erased_txid ? { txid: erased.body.erased_txid.main } : erased;
  expect(await why(Number(erasure))).toContain("erasure");
  expect(await why(forgotten)).toContain("erased");
  // What brings nothing back may go.
  await ok(undo(place, made));
});
