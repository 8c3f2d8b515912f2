/** The index of fingerprints that takes its entries in batches, and that its format answers as the first one does. */
import { afterEach, describe, expect, test } from "vitest";
import { erase } from "../../../../src/model/erasure.ts";
import { strayFingerprint } from "../../../../src/model/memory/fingerprint-index.ts";
import { ingest, type MemoryInput } from "../../../../src/model/memory/memory-ingest.ts";
import { listMemories } from "../../../../src/model/memory/memory-list.ts";
import { deleteMemory, sweepMemories } from "../../../../src/model/memory/stored-memories.ts";
import type { Tx } from "../../../../src/model/core/transaction.ts";
import { ModelDatabase } from "../../../support/model-database.ts";
import { seeded } from "../../../support/random.ts";

let databases: ModelDatabase[] = [];

function open(format?: number): ModelDatabase {
  const database = new ModelDatabase(undefined, format);
  databases.push(database);
  return database;
}

afterEach(() => {
  for (const database of databases) database.close();
  databases = [];
});

interface Entry {
  readonly level: number;
  readonly memory: number;
}

/** The entries, once it is sure that every memory which must have one has it. */
function provenEntries({ connection }: ModelDatabase): readonly Entry[] {
  const entries = connection.all<Entry>("SELECT level, memory FROM __service_memory_fingerprint ORDER BY memory");
  const entered = new Set(entries.map(({ memory }) => memory));
  const rows = connection.all<{ row: number }>("SELECT row FROM __service_memory ORDER BY row");
  const last = Math.floor((rows.at(-1)?.row ?? 0) / 32) * 32;
  expect(rows.filter(({ row }) => row <= last && !entered.has(row))).toEqual([]);
  expect(connection.get(strayFingerprint)).toBeUndefined();
  return entries;
}

const fact = (summary: string): MemoryInput => ({ type: "fact", summary, content: "{}" });

describe("levels", () => {
  test("newest rows have no entry, others one, and each is known again", () => {
    const database = open();
    const all = Array.from({ length: 3_000 }, (_, at) => fact(`fact number ${at}`));
    for (let at = 0; at < all.length; at += 100)
      database.write((tx) => ingest(tx, { memories: all.slice(at, at + 100) }));
    const entries = provenEntries(database);
    expect(entries.map(({ memory }) => memory)).toEqual(Array.from({ length: 2_976 }, (_, at) => at + 1));
    // Batches move on: the first level keeps about those of half a round.
    expect(entries.filter(({ level }) => level === 1).length).toBeLessThan(1_024);
    expect(new Set(entries.map(({ level }) => level))).toEqual(new Set([1, 2, 3]));
    const again = database.write((tx) => ingest(tx, { memories: all.slice(0, 1_000) })).results;
    expect(new Set(again.map(({ status }) => status))).toEqual(new Set(["duplicate"]));
    expect(provenEntries(database)).toEqual(entries);
  });

  test("a number that is given again, on either side of a batch's end, is found and forgotten as any other", () => {
    const database = open();
    const ids = database.write((tx) =>
      ingest(tx, { memories: Array.from({ length: 70 }, (_, at) => fact(`a${at}`)) }),
    ).results;
    for (const { id } of ids.slice(60)) database.write((tx) => deleteMemory(tx, { id }));
    expect(provenEntries(database).at(-1)!.memory).toBe(60);
    for (let at = 0; at < 40; at++) database.write((tx) => ingest(tx, { memories: [fact(`b${at}`)] }));
    for (const one of ["a0", "a59", "b0", "b3", "b4", "b39"])
      expect(database.write((tx) => ingest(tx, { memories: [fact(one)] })).results[0]!.status, one).toBe("duplicate");
    for (const one of ["a60", "a69"])
      expect(database.write((tx) => ingest(tx, { memories: [fact(one)] })).results[0]!.status, one).toBe("created");
    provenEntries(database);
  });
});

/** What a client can do to memories as a whole, the same in each format. */
function randomCommand(random: () => number, ids: readonly string[]): (tx: Tx) => unknown {
  const pick = (most: number): number => Math.floor(random() * most);
  const optional = (name: string, values: readonly string[]): Partial<MemoryInput> =>
    random() < 0.5 ? {} : { [name]: values[pick(values.length)] };
  const draft = (): MemoryInput => ({
    ...(random() < 0.2 ? { type: "task", ttlSecs: pick(50) } : { type: "fact" }),
    summary: `said ${pick(120)}`,
    content: "{}",
    ...optional("sessionId", ["s-1", "s-2"]),
    ...optional("source", ["user", "tool"]),
  });
  const kind = random();
  if (kind < 0.85) {
    const memories = Array.from({ length: 1 + pick(kind < 0.1 ? 60 : 3) }, draft).map((memory) =>
      memory.type === "fact" && random() < 0.3 ? { ...memory, topicKey: `t-${pick(5)}` } : memory,
    );
    return (tx) => ingest(tx, { memories });
  }
  const id = ids.at(-1 - pick(5)) ?? "mem_none";
  if (kind < 0.92) return (tx) => deleteMemory(tx, { id });
  if (kind < 0.96) return (tx) => sweepMemories(tx, { rowsMax: 20 });
  const couponId = `coupon-${random()}`;
  const target = { kind: "session", sessionId: `s-${1 + pick(2)}`, turns: true } as const;
  return (tx) => erase(tx, { couponId, target, traceKey: new Uint8Array(32) }).memoryIds;
}

test.each([1, 2, 3])("the formats answer alike, whatever was said, forgotten, expired and erased (%s)", (seed) => {
  const [first, second] = [open(1), open(2)];
  const random = seeded(seed);
  for (let turn = 0; turn < 150; turn++) {
    const ids = listMemories(first.view(), { order: "asc", limit: 1_000 }).memories.map(({ id }) => id);
    const commands = Array.from({ length: 1 + Math.floor(random() * 3) }, () => randomCommand(random, ids));
    expect(second.group(...commands)).toEqual(first.group(...commands));
    for (const filter of [{}, { sessionId: "s-1" }, { sessionId: "s-2", source: "user" }, { source: "tool" }])
      expect(listMemories(second.view(), filter)).toEqual(listMemories(first.view(), filter));
    for (const database of [first, second]) database.nowMs += 1_000;
    provenEntries(second);
  }
});
