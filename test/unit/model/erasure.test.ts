/** Hard deletion of a target: everything of it goes, nothing else changes. */
import { ulid } from "ulid";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { limits } from "../../../src/base/limits.ts";
import { traceBytes } from "../../../src/format/erasure/traces.ts";
import { erase as eraseTarget, heldMemories, deleteErasureNotes, type Erased } from "../../../src/model/erasure.ts";
import { erasedMemoryId } from "../../../src/model/standing/states.ts";
import { ingest, type MemoryInput } from "../../../src/model/memory/memory-ingest.ts";
import { deleteMemory, getMemory } from "../../../src/model/memory/stored-memories.ts";
import { recall } from "../../../src/model/recall.ts";
import { listSessions } from "../../../src/model/transcript/sessions.ts";
import { appendTurn, lastTurns, searchTurns } from "../../../src/model/transcript/transcript.ts";
import { upsertVector } from "../../../src/model/vectors/vector-collections.ts";
import { searchVectors } from "../../../src/model/vectors/vector-search.ts";
import type { ErasureTarget } from "../../../src/format/erasure/erasure-receipt.ts";
import { ModelDatabase } from "../../support/model-database.ts";
import { erasureTraceWindowsMax } from "../../../src/model/erasure-traces.ts";

let database: ModelDatabase;
const key = Buffer.alloc(32, 7);

beforeEach(() => {
  database = new ModelDatabase();
});

afterEach(() => database.close());

function add(draft: Partial<MemoryInput>): string {
  const memory: MemoryInput = { type: "fact", summary: "a plain summary", content: "{}", ...draft };
  return database.write((tx) => ingest({ ...tx, newId: () => ulid(database.nowMs) }, { memories: [memory] }))
    .results[0]!.id;
}

function erase(target: ErasureTarget, couponId = "ers_1", traceKey: Uint8Array = key): Erased {
  return database.write((tx) => eraseTarget(tx, { couponId, target, traceKey }));
}

const eraseMemory = (memoryId: string, couponId?: string): Erased => erase({ kind: "memory", memoryId }, couponId);
const eraseSession = (sessionId: string, turns = false): Erased => erase({ kind: "session", sessionId, turns });
const say = (sessionId: string, content: string, embedding?: Float32Array) =>
  database.write((tx) =>
    appendTurn(tx, { sessionId, role: "user", content: JSON.stringify(content), ...(embedding && { embedding }) }),
  );
const get = (id: string) => getMemory(database.view(), { id });
const recalled = (query: string): string[] =>
  recall(database.view(), { query, includeSuperseded: true }).memories.map(({ id }) => id);
const buildVector = (seed: number): Float32Array =>
  Float32Array.from({ length: 200 }, (_, at) => Math.sin(seed * 997 + at * at));

/** Every row of every table, the shadow tables of the keyword index included; the journal is not content. */
function dump(): Record<string, unknown[]> {
  const tables = database.connection.all<{ name: string }>(
    "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%' AND name <> " +
      "'__service_erasure' ORDER BY name",
  );
  return Object.fromEntries(
    tables.map(({ name }) => [name, database.connection.all(`SELECT * FROM ${name} ORDER BY 1, 2`)]),
  );
}

/** The rows that hold none of these numbers and texts. */
function without(
  rows: Record<string, unknown[]>,
  of: (table: string, row: Record<string, unknown>) => boolean,
): Record<string, unknown[]> {
  return Object.fromEntries(
    Object.entries(rows)
      .filter(([table]) => !/_(data|idx|docsize|config)$/.test(table))
      .map(([table, all]) => [table, all.filter((row) => !of(table, row as Record<string, unknown>))]),
  );
}

function expectSoundIndex(): void {
  database.connection.exec(
    "INSERT INTO __service_memory_text (__service_memory_text, rank) VALUES ('integrity-check', 1)",
  );
  expect(database.connection.raw.pragma("integrity_check", { simple: true })).toBe("ok");
}

describe("a memory", () => {
  test("goes with its words, its vector and its provenance, and nothing else changes", () => {
    add({ summary: "stays entirely", sessionId: "s", source: "a", embedding: buildVector(1) });
    const id = add({
      summary: "zebra goes",
      sessionId: "s",
      source: "b",
      keywords: "quagga",
      embedding: buildVector(2),
    });
    database.write((tx) => upsertVector(tx, { collection: "c", id: "v", embedding: buildVector(3) }));
    say("s", "still said");
    const row = database.connection.get<{ row: number }>("SELECT row FROM __service_memory WHERE id = ?", id)!.row;
    const before = dump();
    expect(eraseMemory(id)).toMatchObject({ found: true, memoryIds: [id] });
    const isGone = (table: string, one: Record<string, unknown>): boolean =>
      (table === "__service_memory" && one["id"] === id) ||
      (table === "__service_memory_provenance" && one["memory"] === row) ||
      (table === "__service_vector" && one["space"] === 1 && one["owner"] === row) ||
      (table.startsWith("__service_memory_text") &&
        (one["id"] === row || one["rowid"] === row || one["summary"] === "zebra goes"));
    expect(without(dump(), () => false)).toEqual(without(before, isGone));
    expect([get(id), recalled("zebra"), recalled("quagga")]).toEqual([undefined, [], []]);
    expectSoundIndex();
  });

  test("that is unknown is not found, and nothing is changed or written down", () => {
    add({});
    const before = dump();
    const changed = database.group((tx) =>
      eraseTarget(tx, { couponId: "ers_1", target: { kind: "memory", memoryId: "mem_unknown" }, traceKey: key }),
    )[0]!;
    expect(changed).toMatchObject({ kind: "done", changed: false, result: { found: false, memoryIds: [] } });
    expect(dump()).toEqual(before);
    expect(database.connection.get("SELECT 1 FROM sqlite_schema WHERE name = '__service_erasure'")).toBeUndefined();
  });

  test("that has expired but was not swept yet is there to be erased", () => {
    const id = add({ type: "task", ttlSecs: 1 });
    database.nowMs += 5_000;
    expect(get(id)).toBeUndefined();
    expect(heldMemories(database.view(), { memoryIds: [id] })).toEqual({ held: [id] });
    expect(eraseMemory(id).found).toBe(true);
    expect(heldMemories(database.view(), { memoryIds: [id] })).toEqual({ held: [] });
  });

  test("leaves what it had superseded superseded, by nobody in particular", () => {
    const old = add({ topicKey: "t", summary: "first" });
    const next = add({ topicKey: "t", summary: "second" });
    eraseMemory(next);
    expect(get(old)).toMatchObject({ supersededBy: erasedMemoryId });
    expect(database.connection.all("SELECT * FROM __service_memory WHERE superseded_by = ?", next)).toEqual([]);
    expect(get(add({ topicKey: "t", summary: "third" }))).toMatchObject({ supersededBy: null, supersedes: [] });
  });
});

describe("a topic", () => {
  test("goes whole, superseded memories included; the same key of another type stays", () => {
    const ids = [
      add({ topicKey: "t", summary: "one" }),
      add({ topicKey: "t", summary: "two" }),
      add({ topicKey: "t", summary: "three" }),
    ];
    const other = add({ topicKey: "t", type: "instruction", summary: "four" });
    expect(erase({ kind: "topic", topicKey: "t", type: "fact" })).toMatchObject({ found: true, memoryIds: ids });
    expect(recalled("four")).toEqual([other]);
    expect(recalled("three")).toEqual([]);
    expect(erase({ kind: "topic", topicKey: "t", type: "fact" }, "ers_2").found).toBe(false);
    expectSoundIndex();
  });

  test("of more memories than one transaction removes is refused, and nothing is changed", () => {
    add({ topicKey: "t" });
    database.connection.exec(
      "WITH RECURSIVE n (i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n WHERE i " +
        `< ${limits.erasureMemoriesMax}) INSERT INTO __service_memory (id, type, created_at, topic_key, ` +
        "superseded_by, superseded_at, fingerprint, summary, content) " +
        "SELECT 'mem_' || printf('%026d', i), 'fact', 1, 't', 'x', 1, randomblob(32), 's', '{}' FROM n",
    );
    expect(() => erase({ kind: "topic", topicKey: "t", type: "fact" })).toThrow(/in parts/);
    expect(database.connection.get("SELECT count(*) AS n FROM __service_memory")).toEqual({
      n: limits.erasureMemoriesMax + 1,
    });
  });
});

describe("a session", () => {
  test("takes memories that only it spoke of; others lose its provenance and name another source", () => {
    const own = add({ summary: "own alone", sessionId: "s", source: "narwhal" });
    const task = add({ type: "task", summary: "its task", sessionId: "s" });
    const shared = add({ summary: "said twice", sessionId: "s", source: "narwhal" });
    add({ summary: "said twice", sessionId: "t", source: "walrus" });
    const borrowed = add({ summary: "first elsewhere", sessionId: "t", source: "walrus" });
    add({ summary: "first elsewhere", sessionId: "s", source: "narwhal" });
    const nameless = add({ summary: "said by nobody too", sessionId: "s", source: "narwhal" });
    add({ summary: "said by nobody too" });
    say("s", "kept turn");
    expect(eraseSession("s").memoryIds).toEqual([own, task]);
    expect([get(own), get(task)]).toEqual([undefined, undefined]);
    expect(get(shared)).toMatchObject({ sessionId: "t", source: "walrus" });
    expect(get(borrowed)).toMatchObject({ sessionId: "t", source: "walrus" });
    expect(get(nameless)).toMatchObject({ sessionId: null, source: null });
    expect(recalled("narwhal")).toEqual([]);
    expect(recalled("walrus").sort()).toEqual([shared, borrowed].sort());
    expect(database.connection.all("SELECT * FROM __service_memory_provenance WHERE session_id = 's'")).toEqual([]);
    expect(listSessions(database.view(), {}).sessions.map(({ id }) => id)).toEqual(["t"]);
    expect(lastTurns(database.view(), { sessionId: "s" }).turns).toHaveLength(1);
    expectSoundIndex();
  });

  test("with turns takes its transcript and the number that it had come to", () => {
    for (const session of ["s", "t"])
      for (let turn = 1; turn <= 3; turn++) say(session, `turn ${turn} of ${session}`, buildVector(turn));
    expect(eraseSession("s", true)).toMatchObject({ found: true, memoryIds: [] });
    expect(lastTurns(database.view(), { sessionId: "s" }).turns).toEqual([]);
    expect(database.connection.all("SELECT * FROM __service_turn_floor")).toEqual([]);
    expect(
      searchTurns(database.view(), { vector: buildVector(1), k: 10 }).turns.map(({ sessionId }) => sessionId),
    ).toEqual(["t", "t", "t"]);
    expect(say("s", "anew").seq).toBe(1);
  });

  test("that nobody knows is accepted", () => {
    add({ sessionId: "t" });
    const before = dump();
    expect(eraseSession("s", true)).toMatchObject({ found: true, memoryIds: [], traces: { windowsTotal: 0 } });
    expect(dump()).toEqual(before);
  });
});

describe("the journal", () => {
  test("gives the same coupon the same answer, though the target is there again, and changes nothing", () => {
    const id = add({ topicKey: "t", embedding: buildVector(1) });
    const target = { kind: "topic", topicKey: "t", type: "fact" } as const;
    const first = erase(target);
    expect(first.memoryIds).toEqual([id]);
    add({ topicKey: "t" });
    const before = dump();
    expect(database.group((tx) => eraseTarget(tx, { couponId: "ers_1", target, traceKey: key }))[0]).toEqual({
      kind: "done",
      changed: false,
      result: first,
    });
    expect(dump()).toEqual(before);
    expect(erase(target, "ers_2").memoryIds).toHaveLength(1);
  });

  test("refuses another key, and forgets the coupon when it is settled", () => {
    const id = add({});
    eraseMemory(id);
    expect(() => erase({ kind: "memory", memoryId: id }, "ers_1", Buffer.alloc(32, 8))).toThrow(/another key/);
    const settle = () => database.group((tx) => deleteErasureNotes(tx, { couponId: "ers_1" }))[0]!;
    expect([settle(), settle()]).toMatchObject([{ changed: true }, { changed: false }]);
    expect(eraseMemory(id).found).toBe(false);
  });

  test("is not missed where nothing was ever erased", () => {
    expect(database.group((tx) => deleteErasureNotes(tx, { couponId: "ers_1" }))[0]).toMatchObject({
      kind: "done",
      changed: false,
    });
  });

  test("holds nothing that was said", () => {
    eraseMemory(add({ summary: "xylophone", topicKey: "yttrium", sessionId: "zirconium", source: "wolfram" }));
    const text = JSON.stringify(database.connection.all("SELECT * FROM __service_erasure"));
    for (const word of ["xylophone", "yttrium", "zirconium", "wolfram"]) expect(text).not.toContain(word);
  });
});

test("caches of vectors are dropped, so that no matrix keeps an erased one", () => {
  const id = add({ summary: "with vector", embedding: buildVector(1) });
  add({ summary: "with another", embedding: buildVector(2) });
  recall(database.view(), { embedding: buildVector(1) });
  expect(database.vectors.bytes).toBeGreaterThan(0);
  eraseMemory(id);
  expect(database.vectors.bytes).toBe(0);
  expect(recall(database.view(), { embedding: buildVector(1) }).memories.map(({ id: found }) => found)).not.toContain(
    id,
  );
  expect(searchVectors(database.view(), { collection: "none", vector: buildVector(1) }).hits).toEqual([]);
});

test("samples of values that ANALYZE took are gone", () => {
  for (let n = 0; n < 50; n++) add({ topicKey: `topic${n}`, summary: `summary ${n}` });
  database.connection.exec("ANALYZE");
  eraseMemory(add({ summary: "last" }));
  for (const table of ["sqlite_stat1", "sqlite_stat4"])
    expect(database.connection.all(`SELECT * FROM ${table}`)).toEqual([]);
});

test("a forgotten memory is not found any more", () => {
  const id = add({});
  database.write((tx) => deleteMemory(tx, { id }));
  expect(eraseMemory(id).found).toBe(false);
});

test("windows within a vector that a vector which stays has too are left out; those of the row itself are not", () => {
  const id = add({ topicKey: "one", embedding: buildVector(1) });
  add({ topicKey: "other", embedding: buildVector(1) });
  const { traces } = eraseMemory(id);
  expect([traces.windowsTotal, traces.windows.length / traceBytes]).toEqual([6, 3]);
});

test("of too many windows a bounded number is kept, taken evenly, and all are counted", () => {
  const turns = erasureTraceWindowsMax + 1_000;
  database.connection.exec(
    `WITH RECURSIVE n (i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n WHERE i < ${turns}) INSERT INTO ` +
      "__service_turn (session_id, seq, created_at, role, content) " +
      "SELECT 'a session with a long name', i, 1700000000000 + i, 'user', '\"said\"' FROM n",
  );
  const { traces } = eraseSession("a session with a long name", true);
  expect([traces.windowsTotal, traces.windows.length / traceBytes]).toEqual([turns, erasureTraceWindowsMax]);
});

test("traces are counted, and come to whole ones", () => {
  const { traces } = eraseMemory(add({ embedding: buildVector(1) }));
  // The row, its entry in the index, the vector's beginning; within the 800 bytes of the vector: at 0, at 512, at the
  // end.
  expect(traces).toMatchObject({ key, windowsTotal: 6 });
  expect(traces.windows.length).toBe(6 * traceBytes);
});
