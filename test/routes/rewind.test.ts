/** Rewinds and checkpoints over both wires, of a branch by itself and with memories and documents on it. */
import { expect, test } from "vitest";
import { BranchedDatabase, everywhere, fill, marks } from "../support/branched-database.ts";
import { ok, startLosable, useService } from "../support/service.ts";
import { wireNames } from "../support/wires.ts";

const service = useService();
const onBoth = test.each(wireNames);

async function database(name: (typeof wireNames)[number]): Promise<BranchedDatabase> {
  return new BranchedDatabase(service().wire(name), await service().database());
}

onBoth(
  "branching-03 over %s: a rewind brings back the exact state under a larger txid, writes go on, and it " +
    "can be rewound itself",
  async (name) => {
    const db = await database(name);
    await fill(db, "a");
    const marked = await ok(db.checkpoint("c"));
    expect(marked).toMatchObject({ body: { checkpoint: "c", txid: 5 }, txid: 5 });
    await fill(db, "b");
    const rewound = await ok(db.rewind("c"));
    expect(rewound.body).toEqual({ rewound_to: 5, txid: 11 });
    expect(rewound.durableTxid).toBe(11);
    expect(await marks(db)).toEqual(everywhere("a"));
    await fill(db, "c");
    expect(await marks(db)).toEqual(everywhere("a", "c"));
    const undone = await ok(db.rewind("10"));
    expect(undone.body).toEqual({ rewound_to: 10, txid: 17 });
    expect(await marks(db)).toEqual(everywhere("a", "b"));
    expect(await db.integrity()).toBe("ok");
  },
);

test("branching-03: rewinds, checkpoints and what follows them survive the loss of the disk", async () => {
  const node = await startLosable();
  const before = new BranchedDatabase(node.now.wire("rest"), await node.now.database());
  await before.add(1);
  await ok(before.checkpoint("one"));
  await before.add(2);
  await ok(before.rewind("one"));
  await before.add(3);
  await ok(before.call("DataService.Sync"));
  await node.loseDisk();
  const after = new BranchedDatabase(node.now.wire("rest"), before.name);
  expect(await after.rows()).toEqual([1, 3]);
  await ok(after.rewind("2"));
  expect(await after.rows()).toEqual([1, 2]);
  await ok(after.rewind("one"));
  expect(await after.rows()).toEqual([1]);
  expect(await after.integrity()).toBe("ok");
});

onBoth("over %s a checkpoint's name is called a name, and cannot be taken for a transaction id", async (name) => {
  const db = await database(name);
  await db.add(1);
  for (const [bad, words] of [
    ["3", "digits"],
    ["a b", "^name must be"],
    [".x", "^name must be"],
  ] as const) {
    expect(await db.checkpoint(bad)).toMatchObject({
      code: "invalid_request",
      message: expect.stringMatching(words) as unknown,
    });
  }
});

onBoth(
  "branching-03 over %s: a checkpoint is listed, is not given twice for two states, and can be deleted",
  async (name) => {
    const db = await database(name);
    const first = await db.add(1);
    await ok(db.checkpoint("z"));
    expect((await ok(db.checkpoint("z"))).body).toEqual({ checkpoint: "z", txid: first });
    const second = await db.add(2);
    expect(await db.checkpoint("z")).toMatchObject({ code: "already_exists", message: expect.stringContaining("z") });
    await ok(db.checkpoint("a"));
    const listed = await ok(db.call("BranchService.ListCheckpoints", { branch: "main" }));
    expect(listed.body.checkpoints).toEqual([
      { checkpoint: "z", txid: first, created_at: expect.any(Number) },
      { checkpoint: "a", txid: second, created_at: expect.any(Number) },
    ]);
    await ok(db.call("BranchService.DeleteCheckpoint", { branch: "main", name: "z" }));
    expect((await db.call("BranchService.DeleteCheckpoint", { branch: "main", name: "z" })).code).toBe("not_found");
    expect((await db.rewind("z")).code).toBe("not_found");
    await ok(db.checkpoint("z"));
    expect((await ok(db.rewind("z"))).body.rewound_to).toBe(second);
  },
);

onBoth("branching-03 over %s: checkpoints and rewinds of one branch leave the others alone", async (name) => {
  const db = await database(name);
  const first = await db.add(1);
  await ok(db.fork("side"));
  await db.add(2);
  await db.at("side").add(3);
  await ok(db.checkpoint("mine", "side"));
  expect((await db.rewind("mine")).code).toBe("not_found");
  await ok(db.rewind(String(first), "side"));
  expect([await db.rows(), await db.at("side").rows()]).toEqual([[1, 2], [1]]);
  await ok(db.rewind("mine", "side"));
  expect(await db.at("side").rows()).toEqual([1, 3]);
});

onBoth("memory-17 over %s: a rewind makes a superseded fact the active one again", async (name) => {
  const wire = service().wire(name);
  const at = service().profile();
  const ingest = async (theme: string): Promise<string> => {
    const memory = { type: "fact", topic_key: "ui.theme", summary: `the theme is ${theme}`, content: { theme } };
    return (await ok(wire.call("MemoryService.Ingest", { ...at, memories: [memory] }))).body.results[0].id;
  };
  const active = async (extra: object = {}): Promise<string[]> =>
    (await ok(wire.call("MemoryService.Recall", { ...at, query: "theme", ...extra }))).body.memories.map(
      ({ id }: { id: string }) => id,
    );
  const db = new BranchedDatabase(wire, `${at.ns}--${at.profile}`);
  const old = await ingest("dark");
  await ok(db.checkpoint("before"));
  await ok(db.fork("later"));
  const young = await ingest("light");
  expect(await active()).toEqual([young]);
  await ok(db.rewind("before"));
  expect(await active()).toEqual([old]);
  expect((await ok(wire.call("MemoryService.GetMemory", { ...at, id: old }))).body.superseded_by).toBeNull();
  expect((await wire.call("MemoryService.GetMemory", { ...at, id: young })).code).toBe("not_found");
  // A branch of a profile is named by the query or the body of the memory routes.
  await ok(
    wire.call("MemoryService.Ingest", {
      ...at,
      branch: "later",
      memories: [{ type: "event", summary: "only there, of no theme", content: null }],
    }),
  );
  expect(await active({ branch: "later" })).toHaveLength(2);
  expect(await active()).toEqual([old]);
});

onBoth(
  "documents-07 over %s: after a checkpoint, changes and a fork, main is rewound and the fork keeps what came later",
  async (name) => {
    const db = await database(name);
    await fill(db, "a");
    await ok(db.checkpoint("c"));
    await ok(
      db.call("DataService.UpdateDocs", { coll: "c", filter: { _id: "a" }, update: { $set: { changed: true } } }),
    );
    await fill(db, "b");
    await ok(db.fork("side"));
    await ok(db.rewind("c"));
    const docs = async (at: BranchedDatabase): Promise<unknown> =>
      (await ok(at.call("DataService.FindDocs", { coll: "c", sort: { _id: 1 } }))).body.docs;
    expect(await docs(db)).toEqual([{ _id: "a" }]);
    expect(await marks(db)).toEqual(everywhere("a"));
    expect(await docs(db.at("side"))).toEqual([{ _id: "a", changed: true }, { _id: "b" }]);
    expect(await marks(db.at("side"))).toEqual(everywhere("a", "b"));
  },
);

test("segments-04: a checkpoint in mid-chain, a fork and a rewind, then writes, on a fresh node too", async () => {
  // The fork is at the manifest, the rewind is of main; then both are written.
  const node = await startLosable();
  let db = new BranchedDatabase(node.now.wire("grpc"), await node.now.database());
  for (const n of [1, 2, 3]) {
    await db.add(n);
    await ok(db.call("DataService.Sync"));
  }
  await ok(db.checkpoint("three"));
  for (const n of [4, 5]) {
    await db.add(n);
    await ok(db.call("DataService.Sync"));
  }
  await ok(db.fork("side"));
  await ok(db.rewind("three"));
  expect(await db.rows()).toEqual([1, 2, 3]);
  await db.at("side").add(6);
  await db.add(7);
  for (const at of [db, db.at("side")]) await ok(at.call("DataService.Sync"));
  await node.loseDisk();
  db = new BranchedDatabase(node.now.wire("grpc"), db.name);
  expect([await db.rows(), await db.at("side").rows()]).toEqual([
    [1, 2, 3, 7],
    [1, 2, 3, 4, 5, 6],
  ]);
  expect([await db.integrity(), await db.at("side").integrity()]).toEqual(["ok", "ok"]);
  await db.add(8);
  expect(await db.rows()).toEqual([1, 2, 3, 7, 8]);
});

test("every transaction since the first can be rewound to, in any order", async () => {
  const db = await database("rest");
  const txids: number[] = [];
  for (let n = 1; n <= 12; n++) txids.push(await db.add(n));
  for (const index of [3, 11, 0, 7, 10, 1]) {
    await ok(db.rewind(String(txids[index])));
    expect(await db.rows(), `txid ${txids[index]}`).toEqual(Array.from({ length: index + 1 }, (_, n) => n + 1));
  }
});
