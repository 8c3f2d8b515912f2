/** What differs between two states, over both wires: by names, ids and counts, page by page, of one branch or two. */
import fc from "fast-check";
import { expect, test } from "vitest";
import { useService, ok } from "../support/service.ts";
import { type Wire, wireNames } from "../support/wires.ts";

const service = useService();
const onBoth = test.each(wireNames);

interface Told {
  readonly kind: string;
  readonly change: string;
  readonly within?: string;
  readonly name: string;
  readonly moved_to?: string;
  readonly before?: number;
  readonly after?: number;
}

/** Every difference, by pages of so many. */
async function diff(wire: Wire, request: object, limit = 1_000): Promise<Told[]> {
  const all: Told[] = [];
  let cursor: string | undefined;
  do {
    const { body } = await ok(
      wire.call("BranchService.DiffStates", { ...request, limit, ...(cursor !== undefined && { cursor }) }),
    );
    expect(body.differences.length).toBeLessThanOrEqual(limit);
    all.push(...body.differences);
    cursor = body.next_cursor ?? undefined;
  } while (cursor !== undefined);
  return all;
}

async function write(wire: Wire, db: string, method: string, request: object): Promise<number> {
  return (await ok(wire.call(method, { db, ...request }))).txid!;
}

onBoth("over %s: every kind is told by what became of it", async (name) => {
  const wire = service().wire(name);
  const { ns, profile } = service().profile();
  const db = `${ns}--${profile}`;
  const ingest = async (...memories: object[]): Promise<string[]> =>
    (await ok(wire.call("MemoryService.Ingest", { ns, profile, memories }))).body.results.map(
      ({ id }: { id: string }) => id,
    );
  const put = (key: string, value: string): Promise<number> =>
    write(wire, db, "DataService.PutValue", { ns: "n", key, value: Buffer.from(value) });
  const [old, gone, pinned] = await ingest(
    { type: "fact", topic_key: "t", summary: "one", content: {} },
    { type: "event", summary: "two", content: {} },
    { type: "event", summary: "three", content: {} },
  );
  for (const key of ["same", "changed", "removed"]) await put(key, "1");
  for (const id of ["same", "changed", "removed"]) {
    await write(wire, db, "DataService.PutDoc", { coll: "c", id, doc: { a: 1 } });
    await write(wire, db, "DataService.UpsertVector", { coll: "v", id, embedding: [1, 0] });
    await write(wire, db, "FileService.PutFile", { path: `${id}.md`, text: `${id}\n` });
    await write(wire, db, "DataService.AppendTurn", { session: id, role: "user", content: "x" });
  }
  await write(wire, db, "FileService.PutFile", { path: "moved.md", text: "this moves\n" });
  const sql = (q: string): Promise<number> => write(wire, db, "DataService.ExecuteSql", { stmts: [{ q }] });
  for (const table of ["same", "grown", "dropped", '"odd"" name"']) await sql(`CREATE TABLE ${table} (a)`);
  const from = await sql("INSERT INTO same VALUES (1)");

  const [next] = await ingest({ type: "fact", topic_key: "t", summary: "four", content: {} });
  await ok(wire.call("MemoryService.ForgetMemory", { ns, profile, id: gone }));
  await ok(wire.call("MemoryService.UpdateMemory", { ns, profile, id: pinned, pinned: true }));
  await put("changed", "2");
  await put("added", "1");
  await write(wire, db, "DataService.DeleteValue", { ns: "n", key: "removed" });
  await write(wire, db, "DataService.PutDoc", { coll: "c", id: "changed", doc: { a: 2 } });
  await write(wire, db, "DataService.PutDoc", { coll: "d", id: "added", doc: {} });
  await write(wire, db, "DataService.DeleteDoc", { coll: "c", id: "removed" });
  await write(wire, db, "DataService.UpsertVector", { coll: "v", id: "changed", embedding: [0, 1] });
  await write(wire, db, "DataService.DeleteVector", { coll: "v", id: "removed" });
  await write(wire, db, "FileService.PutFile", { path: "changed.md", text: "other\n" });
  await write(wire, db, "FileService.DeleteFiles", { path: "removed.md" });
  await write(wire, db, "FileService.MoveFiles", { path: "moved.md", to: "there/moved.md" });
  await write(wire, db, "DataService.AppendTurn", { session: "changed", role: "user", content: "y" });
  await write(wire, db, "DataService.DeleteTurns", { session: "removed", all: true });
  await sql("INSERT INTO grown VALUES (1), (2)");
  await sql('INSERT INTO "odd"" name" VALUES (1)');
  const to = await sql("DROP TABLE dropped");
  const told = await diff(wire, { db, from: String(from) });
  const memories = [
    { kind: "memory", change: "superseded", name: old },
    { kind: "memory", change: "forgotten", name: gone },
    { kind: "memory", change: "changed", name: pinned },
    { kind: "memory", change: "added", name: next },
  ];
  const expected = [
    ...memories.toSorted((left, right) => (left.name! < right.name! ? -1 : 1)),
    { kind: "file", change: "put", name: "changed.md" },
    { kind: "file", change: "moved", name: "moved.md", moved_to: "there/moved.md" },
    { kind: "file", change: "deleted", name: "removed.md" },
    { kind: "file", change: "put", name: "there/moved.md" },
    { kind: "key", change: "added", within: "n", name: "added" },
    { kind: "key", change: "changed", within: "n", name: "changed" },
    { kind: "key", change: "removed", within: "n", name: "removed" },
    { kind: "turns", change: "changed", name: "changed", before: 1, after: 2 },
    { kind: "turns", change: "removed", name: "removed", before: 1, after: 0 },
    { kind: "vector", change: "changed", within: "v", name: "changed" },
    { kind: "vector", change: "removed", within: "v", name: "removed" },
    { kind: "document", change: "changed", within: "c", name: "changed" },
    { kind: "document", change: "removed", within: "c", name: "removed" },
    { kind: "document", change: "added", within: "d", name: "added" },
    { kind: "table", change: "removed", name: "dropped", before: 0, after: 0 },
    { kind: "table", change: "changed", name: "grown", before: 0, after: 2 },
    { kind: "table", change: "changed", name: 'odd" name', before: 0, after: 1 },
  ];
  expect(told.map(withNumbers)).toEqual(expected);
  expect((await diff(wire, { db, from: String(from), to: String(to) }, 1)).map(withNumbers)).toEqual(expected);
  expect(await diff(wire, { db, from: String(to) })).toEqual([]);
});

/** 64-bit integers are texts in the other wire's JSON. */
function withNumbers({ before, after, ...rest }: Told): Told {
  return {
    ...rest,
    ...(before !== undefined && { before: Number(before) }),
    ...(after !== undefined && { after: Number(after) }),
  };
}

onBoth("over %s: two branches, and what is refused", async (name) => {
  const wire = service().wire(name);
  const db = `diff-${name}`;
  await ok(wire.call("ControlService.CreateDatabase", { name: db }));
  const put = (on: string, key: string): Promise<number> =>
    write(wire, on, "DataService.PutValue", { ns: "n", key, value: Buffer.from("v") });
  await put(db, "both");
  await ok(wire.call("BranchService.CreateBranch", { db, name: "b" }));
  await put(db, "main");
  await put(`${db}@b`, "fork");
  expect(await diff(wire, { db: `${db}@b`, from_branch: "main" })).toEqual([
    { kind: "key", change: "added", within: "n", name: "fork" },
    { kind: "key", change: "removed", within: "n", name: "main" },
  ]);
  const refused = async (request: object): Promise<string> =>
    (await wire.call("BranchService.DiffStates", { db, ...request })).code;
  expect(await refused({})).toBe("invalid_request");
  expect(await refused({ from: "a b" })).toBe("invalid_request");
  expect(await refused({ from: "1", cursor: "x" })).toBe("invalid_request");
  const madeUp = (...parts: unknown[]): string => Buffer.from(JSON.stringify(parts)).toString("base64url");
  expect(await refused({ cursor: madeUp(1, 2, "memory; DROP", "a") })).toBe("invalid_request");
  expect(await refused({ cursor: madeUp(1, 99, "memory") })).toBe("not_found");
  expect(await refused({ cursor: madeUp(1, 2, "document/nothing") })).toBe("ok");
  expect(await refused({ from: "99" })).toBe("not_found");
  expect(await refused({ from: "1", limit: 0 })).toBe("invalid_request");
  expect(await refused({ from_branch: "nothing" })).toBe("branch_not_found");
});

test("of random writes of several clients it is that of a model, between any two states", async () => {
  const wire = service().wire("rest");
  const db = await service().database();
  type State = Map<string, string>;
  const states = new Map<number, State>();
  let writes: { txid: number; key: string; value: string | undefined }[] = [];
  const random = (n: number): number => Math.floor(Math.random() * n);
  const client = async (who: number): Promise<void> => {
    for (let step = 0; step < 12; step++) {
      const key = `c${who}-k${random(4)}\u{1f375}`.slice(0, random(2) ? undefined : 5);
      const value = random(4) === 0 ? undefined : `v${step}`;
      const request = { db, ns: "n", key };
      const { txid } = await ok(
        value === undefined
          ? wire.call("DataService.DeleteValue", request)
          : wire.call("DataService.PutValue", { ...request, value: Buffer.from(value) }),
      );
      writes.push({ txid: txid!, key, value });
    }
  };
  await Promise.all([0, 1, 2].map(client));
  writes = writes.map((one, at) => ({ ...one, at })).toSorted((a, b) => a.txid - b.txid || a.at - b.at);
  const now: State = new Map();
  states.set(0, new Map());
  for (const { txid, key, value } of writes) {
    if (value === undefined) now.delete(key);
    else now.set(key, value);
    states.set(txid, new Map(now));
  }
  const txids = [...states.keys()];
  const pick = fc.integer({ min: 0, max: txids.length - 1 });
  await fc.assert(
    fc.asyncProperty(pick, pick, fc.integer({ min: 1, max: 9 }), async (one, other, limit) => {
      const [from, to] = [txids[one]!, txids[other]!];
      const [then, later] = [states.get(from)!, states.get(to)!];
      const expected = [...new Set([...then.keys(), ...later.keys()])]
        .filter((key) => then.get(key) !== later.get(key))
        .map((key) => `${key} ${then.has(key) ? (later.has(key) ? "changed" : "removed") : "added"}`);
      const told = await diff(wire, { db, from: String(from), to: String(to) }, limit);
      expect(told.map(({ name, change }) => `${name} ${change}`).toSorted()).toEqual(expected.toSorted());
    }),
    { numRuns: 25 },
  );
});
