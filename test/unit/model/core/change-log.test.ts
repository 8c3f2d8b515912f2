/** Changes of transactions, kept in the branch: an unbroken chain, within bounds, and nothing of the erased. */
import { readFileSync } from "node:fs";
import fc from "fast-check";
import { afterEach, expect, test } from "vitest";
import { pageBytes } from "../../../../src/format/history/pages.ts";
import {
  listChanges,
  newestChangesBytesMax,
  sealTransaction,
  type Seal,
} from "../../../../src/model/core/change-log.ts";
import { changeNotesMax, note } from "../../../../src/model/core/change-notes.ts";
import { runWrite, type WriteKind } from "../../../../src/model/commands.ts";
import { decodeStatePage, readState, stateRootPage } from "../../../../src/model/schema.ts";
import type { Tx } from "../../../../src/model/core/transaction.ts";
import { runGroup } from "../../../../src/sqlite/group.ts";
import { ModelDatabase } from "../../../support/model-database.ts";

const dayMs = 86_400_000;
let database: ModelDatabase;

afterEach(() => database.close());

function open(format?: number): void {
  database = new ModelDatabase(undefined, format);
  database.txid = 0;
}

const idOf = (txid: number, n: number): string => `${String(txid).padStart(13, "0")}${String(n).padStart(13, "0")}`;
const memory = (txid: number, n: number): string => `mem_${idOf(txid, n)}`;

/** What a command of a test throws. */
class Undone extends Error {}

type Act = (tx: Tx) => void;

/** Runs the acts as one transaction; `skip` leaves out transaction ids, as a writer does that follows a lost one. */
function commit(acts: readonly Act[], { skip = 0, isRewind = false, changesKeptMs = dayMs } = {}): number {
  const txid = readState(database.connection).txid + 1 + skip;
  const seal: Seal = { txid, committedAtMs: database.nowMs, writerEpochId: undefined, changesKeptMs };
  let ids = 0;
  const outcome = runGroup(
    database.connection,
    acts.map((act) => (deferred) => {
      act({ ...database.view(), ...txParts(deferred), txid, newId: () => idOf(txid, ids++) });
    }),
    (notes) => sealTransaction(database.connection, seal, notes, isRewind),
  );
  for (const one of outcome.outcomes) if (one.kind === "failed" && !(one.error instanceof Undone)) throw one.error;
  return txid;
}

function txParts(deferred: { notes: string[]; atGroupEnd: (() => void)[]; afterCommit: (() => void)[] }) {
  return {
    notes: deferred.notes,
    atGroupEnd: (act: () => void) => deferred.atGroupEnd.push(act),
    afterCommit: (act: () => void) => deferred.afterCommit.push(act),
  };
}

const run =
  (command: WriteKind, input: unknown): Act =>
  (tx) =>
    runWrite(command, tx, input);
const put = (key: string, value = key): Act => run("kv.put", { ns: "n", key, value: Buffer.from(value) });

const read = (after?: number, limit?: number) =>
  listChanges(database.view(), { ...(after !== undefined && { after }), ...(limit !== undefined && { limit }) });

function readAll(after: number, limit: number) {
  const entries = [];
  for (let position = after; ;) {
    const page = read(position, limit);
    entries.push(...page.entries);
    if (!page.more) return entries;
    position = page.position;
  }
}

/** The image of the page that holds the state row. */
function statePage(): Uint8Array {
  database.connection.raw.pragma("wal_checkpoint(TRUNCATE)");
  const root = stateRootPage(database.connection);
  return new Uint8Array(readFileSync(database.connection.path)).subarray((root - 1) * pageBytes, root * pageBytes);
}

const rowsKept = (): number =>
  database.connection.hasTable("__service_change")
    ? database.connection.get<{ n: number }>("SELECT count(*) AS n FROM __service_change")!.n
    : 0;

test("each kind of write is told by its names, and by nothing else", () => {
  open();
  const secret = "never-told";
  const acts: Act[] = [
    run("memory.ingest", {
      memories: [
        { type: "fact", summary: secret, content: JSON.stringify(secret), topicKey: secret, sessionId: "s" },
        { type: "fact", summary: `${secret}2`, content: "{}", topicKey: secret, keywords: secret },
      ],
    }),
    run("turn.append", { sessionId: "s", role: secret, content: JSON.stringify(secret) }),
    run("turn.delete", { sessionId: "s", seq: 1 }),
    run("kv.put", { ns: "n", key: "k", value: Buffer.from(secret) }),
    run("kv.put", { ns: "n", key: "k", value: Buffer.from(secret) }),
    run("kv.delete", { ns: "n", key: "k" }),
    run("docs.insert", { collection: "c", docs: [JSON.stringify({ _id: "d", a: secret })] }),
    run("docs.update", { collection: "c", filter: "{}", update: JSON.stringify({ $set: { a: 1 } }), multi: true }),
    run("docs.remove", { collection: "c", id: "d" }),
    run("vector.upsert", { collection: "v", id: "x", embedding: Float32Array.of(1, 2) }),
    run("vector.delete", { collection: "v", id: "x" }),
    run("file.put", { path: "a/b", text: secret }),
    run("file.move", { path: "a/b", to: "c", overwrite: false }),
    run("file.delete", { path: "c", recursive: false, purge: false }),
    run("memory.forget", { id: memory(1, 0) }),
    run("session.end", { sessionId: "s", turns: true }),
  ];
  commit(acts);
  const [entry] = read(0).entries;
  expect(entry!.changes).toEqual([
    ["memory", "created", memory(1, 0)],
    ["memory", "created", memory(1, 1)],
    ["memory", "superseded", memory(1, 0)],
    ["turn", "created", "s", 1],
    ["turn", "deleted", "s", 1],
    ["kv", "put", "n", "k"],
    ["kv", "deleted", "n", "k"],
    ["doc", "created", "c", "d"],
    ["doc", "updated", "c", "d"],
    ["doc", "deleted", "c", "d"],
    ["vector", "put", "v", "x"],
    ["vector", "deleted", "v", "x"],
    ["file", "written", "a/b"],
    ["file", "moved_away", "a/b"],
    ["file", "moved_here", "c"],
    ["file", "deleted", "c"],
    ["memory", "forgotten", memory(1, 0)],
    ["session", "ended", "s"],
  ]);
  expect(JSON.stringify(read(0))).not.toContain(secret);
});

test("a command that fails or changes nothing is not told of, nor is what a sweep found nothing to do with", () => {
  open();
  commit([put("a")]);
  commit([
    put("b"),
    put("a"),
    (tx) => {
      note(tx, "kv", "put", "n", "undone");
      throw new Undone();
    },
    put("c"),
  ]);
  expect(read(1).entries.map(({ changes }) => changes.map(([, , , key]) => key))).toEqual([["b", "c"]]);
});

test("whatever is written, every transaction has one entry, and pages of any size give them all", () => {
  fc.assert(
    fc.property(
      fc.array(
        fc.record({ keys: fc.array(fc.string({ maxLength: 300 }), { minLength: 1, maxLength: 12 }), skip: fc.nat(3) }),
        {
          maxLength: 40,
        },
      ),
      fc.integer({ min: 1, max: 50 }),
      fc.nat(40),
      (writes, limit, from) => {
        open();
        const expected: { txid: number; after: number; keys: string[] }[] = [];
        for (const [at, { keys, skip }] of writes.entries()) {
          const after = readState(database.connection).txid;
          const named = keys.map((key, n) => `${at}-${n}-${key.toWellFormed().replaceAll("\0", "")}`);
          const txid = commit(
            named.map((key) => (tx: Tx) => {
              tx.connection.run("INSERT INTO __service_kv (ns, key, value) VALUES ('n', ?, x'')", key);
              note(tx, "kv", "put", "n", key);
            }),
            { skip },
          );
          expected.push({ txid, after, keys: named });
        }
        const start = expected[from]?.after ?? 0;
        const told = readAll(start, limit).map(({ txid, afterTxid, changes }) => ({
          txid,
          after: afterTxid,
          keys: changes.map((change) => change[3]),
        }));
        expect(told).toEqual(expected.filter(({ txid }) => txid > start));
        expect(decodeStatePage(statePage())).toEqual(readState(database.connection));
        database.close();
      },
    ),
    { numRuns: 60 },
  );
  open();
});

test("the newest stand in the state row, within their bound, and most commits touch no other page", () => {
  open();
  const most = 200;
  for (let n = 0; n < most; n++) commit([put(`key-${n}`, "v")]);
  const { bytes } = database.connection.get<{ bytes: number }>(
    "SELECT coalesce(length(changes), 0) AS bytes FROM __service_state",
  )!;
  expect(bytes).toBeLessThanOrEqual(newestChangesBytesMax);
  expect(rowsKept()).toBeGreaterThan(3);
  expect(rowsKept()).toBeLessThan(most / 10);
});

test("a reader that was where the branch never was, or whose next entry is gone, is told so", () => {
  open();
  commit([put("a")]);
  commit([put("b")], { skip: 3 });
  expect(read(1).entries).toHaveLength(1);
  for (const lost of [2, 4])
    expect(() => read(lost)).toThrow(
      expect.objectContaining({ code: "conflict", message: expect.stringContaining("was lost") }),
    );
});

test("what is older than the window goes, and those who come for it are told where to go on", () => {
  open();
  for (let n = 0; n < 200; n++) commit([put(`old-${n}`)]);
  const before = rowsKept();
  database.nowMs += dayMs + 1;
  for (let n = 0; n < 200; n++) commit([put(`new-${n}`)]);
  expect(rowsKept()).toBeLessThan(before + 20);
  expect(readAll(200, 50)).toHaveLength(200);
  let problem: { code: string; message: string } | undefined;
  try {
    read(0);
  } catch (error) {
    problem = error as { code: string; message: string };
  }
  expect(problem).toMatchObject({ code: "conflict", message: expect.stringContaining("not kept any more") });
  const next = Number(/go on after transaction (\d+)/.exec(problem!.message)![1]);
  expect(readAll(next, 100).length).toBeGreaterThanOrEqual(200);
});

test("a rewind is an entry of its own, for readers before and after the state that it went back to", () => {
  open();
  for (const key of ["a", "b", "c"]) commit([put(key)]);
  // What a rewind does: the file of an earlier state is sealed anew.
  const past = new ModelDatabase();
  const later = database;
  database = past;
  commit([put("a")]);
  commit([put("z")], { skip: 3, isRewind: true });
  for (const after of [1, 2, 3, 4])
    expect(read(after).entries).toMatchObject([{ txid: 5, afterTxid: 1, isRewind: true }]);
  expect(read(0).entries.map(({ txid }) => txid)).toEqual([1, 5]);
  later.close();
});

test("more changes than are listed are said to be more", () => {
  open();
  commit(Array.from({ length: changeNotesMax + 5 }, (_, n) => put(`k${n}`)));
  commit(Array.from({ length: changeNotesMax }, (_, n) => put(`l${n}`)));
  commit(Array.from({ length: 900 }, (_, n) => put(`${n}`.padEnd(400, "x"))));
  const [first, second, third] = read(0).entries;
  expect([first!.changes.length, first!.isPartial]).toEqual([changeNotesMax, true]);
  expect([second!.changes.length, second!.isPartial]).toEqual([changeNotesMax, false]);
  expect(third!.isPartial).toBe(true);
  expect(third!.changes.length).toBeGreaterThan(50);
});

test.each([1, 2])("a file of format %s keeps none, and says so", (format) => {
  open(format);
  commit([put("a")]);
  expect(readState(database.connection).txid).toBe(1);
  for (const after of [undefined, 0])
    expect(() => read(after)).toThrow(expect.objectContaining({ code: "unconfigured" }));
});

const traceKey = Buffer.alloc(32, 7);

test.each([
  [
    "memory",
    run("memory.ingest", { memories: [{ type: "event", summary: "gone", content: "{}" }] }),
    { kind: "memory", memoryId: memory(2, 0) },
    memory(2, 0),
  ],
  [
    "session",
    run("turn.append", { sessionId: "gone", role: "u", content: "1" }),
    { kind: "session", sessionId: "gone", turns: true },
    "gone",
  ],
  [
    "turn",
    run("turn.append", { sessionId: "gone", role: "u", content: "1" }),
    { kind: "turn", sessionId: "gone", seq: 1 },
    "gone",
  ],
  ["path", run("file.put", { path: "gone/x", text: "t" }), { kind: "path", path: "gone" }, "gone"],
  ["key", put("gone"), { kind: "key", ns: "n", key: "gone" }, "gone"],
  [
    "document",
    run("docs.insert", { collection: "c", docs: ['{"_id":"gone"}'] }),
    { kind: "document", collection: "c", id: "gone" },
    "gone",
  ],
  [
    "vector",
    run("vector.upsert", { collection: "c", id: "gone", embedding: Float32Array.of(1) }),
    { kind: "vector", collection: "c", id: "gone" },
    "gone",
  ],
] as const)(
  "an erased %s is named nowhere in the past, which stays whole, nor by its erasure",
  (_, write, target, name) => {
    open();
    commit([put("before")]);
    commit([write]);
    for (let n = 0; n < 60; n++) commit([put(`between-${n}`)]);
    // In one transaction with what names it.
    commit([put("beside"), run("memory.erase", { couponId: "ers_1", target, traceKey })]);
    const entries = readAll(0, 10);
    expect(entries).toHaveLength(63);
    expect(JSON.stringify(entries)).not.toContain(name);
    const { kept } = database.connection.get<{ kept: string }>(
      "SELECT group_concat(entries) || coalesce((SELECT CAST(changes AS TEXT) FROM __service_state), '') AS kept " +
        "FROM __service_change",
    )!;
    expect(kept).not.toContain(name);
    expect(entries.at(-1)!.changes).toEqual([
      ["kv", "put", "n", "beside"],
      ["erasure", "erased", "ers_1"],
    ]);
  },
);
