/** Pins: set with a memory or later, kept through all that keeps the memory, gone with it. */
import { ulid } from "ulid";
import { describe, expect, test } from "vitest";
import { erase } from "../../../../src/model/erasure.ts";
import { ingest } from "../../../../src/model/memory/memory-ingest.ts";
import { listMemories } from "../../../../src/model/memory/memory-list.ts";
import { pinnedMemories, strayPins } from "../../../../src/model/memory/memory-pins.ts";
import {
  checkChange,
  deleteMemory,
  sweepMemories,
  updateMemory,
} from "../../../../src/model/memory/stored-memories.ts";
import { recall } from "../../../../src/model/recall.ts";
import { draft, useMemoryDatabase } from "../../../support/memory-database.ts";

const memory = useMemoryDatabase();
const { ingestOne, ingestAll, get, changes } = memory;

const types = ["fact", "event", "instruction", "task"];
const pinned = (): readonly string[] =>
  pinnedMemories(memory.database().view(), types, 100, memory.database().nowMs).map(({ id }) => id);
const update = (id: string, isPinned?: boolean) =>
  memory.database().write((tx) => updateMemory(tx, { id, ...(isPinned !== undefined && { pinned: isPinned }) }));
const updates = (id: string, isPinned: boolean): boolean => {
  const outcome = memory.database().group((tx) => updateMemory(tx, { id, pinned: isPinned }))[0]!;
  return outcome.kind === "done" && outcome.changed;
};
const pins = (): number => memory.rows("__service_memory_pin");
const stray = () => memory.database().connection.get(strayPins(memory.database().connection)!);

describe("a memory is pinned", () => {
  test("as it is ingested, and every record of it says so", () => {
    const [one, other] = ingestAll([
      { summary: "a heron", pinned: true },
      { summary: "a swan", pinned: false },
    ]);
    expect(get(one!.id)).toMatchObject({ pinned: true });
    expect(get(other!.id)).not.toHaveProperty("pinned");
    const view = memory.database().view();
    expect(listMemories(view, {}).memories.map(({ pinned: is }) => is)).toEqual([undefined, true]);
    expect(recall(view, { query: "heron" }).memories).toMatchObject([{ id: one!.id, pinned: true }]);
    expect(pinned()).toEqual([one!.id]);
  });

  test("later, and unpinned, without becoming another; a change to what holds writes nothing", () => {
    const { id } = ingestOne({ summary: "a heron", metadata: '{"a":1}' });
    const before = get(id);
    expect(update(id, true)).toEqual({ ...before, pinned: true });
    expect(updates(id, true)).toBe(false);
    expect(update(id)).toEqual({ ...before, pinned: true });
    expect(update(id, false)).toEqual(before);
    expect(updates(id, false)).toBe(false);
    expect(update("mem_unknown", true)).toBeUndefined();
  });

  test("by a duplicate, and not unpinned by one", () => {
    const { id } = ingestOne({ summary: "a heron" });
    expect(changes({ summary: "a heron" })).toBe(false);
    expect(ingestOne({ summary: "a heron", pinned: true })).toMatchObject({ id, status: "duplicate" });
    expect(ingestOne({ summary: "a heron", pinned: false })).toMatchObject({ id });
    expect(changes({ summary: "a heron", pinned: true })).toBe(false);
    expect(pinned()).toEqual([id]);
  });
});

test("what supersedes a pinned memory is not pinned unless it asks, and the superseded one is not offered", () => {
  const topic = { type: "instruction", topicKey: "style" };
  const old = ingestOne({ ...topic, summary: "be brief", pinned: true }).id;
  const next = ingestOne({ ...topic, summary: "be thorough" }).id;
  expect(get(next)).not.toHaveProperty("pinned");
  expect(get(old)).toMatchObject({ pinned: true, supersededBy: next });
  expect(pinned()).toEqual([]);
  const last = ingestOne({ ...topic, summary: "be kind", pinned: true }).id;
  expect(pinned()).toEqual([last]);
});

describe("a pin goes with its memory", () => {
  test("that is forgotten, erased or has expired", () => {
    const database = memory.database();
    const one = ingestOne({ summary: "forgotten", pinned: true }).id;
    const three = ingestOne({ summary: "expired", type: "task", ttlSecs: 1, pinned: true }).id;
    // What an erasure looks for begins with an id of full length.
    const memories = [draft({ summary: "erased", pinned: true })];
    const [erased] = database.write((tx) => ingest({ ...tx, newId: () => ulid(tx.nowMs) }, { memories })).results;
    const two = erased!.id;
    expect(pins()).toBe(3);
    database.write((tx) => deleteMemory(tx, { id: one }));
    database.write((tx) =>
      erase(tx, {
        couponId: "ers_1",
        target: { kind: "memory", memoryId: two },
        traceKey: new Uint8Array(32),
      }),
    );
    database.nowMs += 1_000;
    expect(pinned()).toEqual([]);
    expect(update(three, true)).toBeUndefined();
    database.write((tx) => sweepMemories(tx, { rowsMax: 10 }));
    expect(pins()).toBe(0);
  });

  test("and one that was left behind by a build without pins is no other memory's", () => {
    const { id } = ingestOne({ summary: "the newest", pinned: true });
    const database = memory.database();
    expect(stray()).toBeUndefined();
    // As such a build removes it: the number is given again.
    const { row } = database.connection.get<{ row: number }>("SELECT row FROM __service_memory WHERE id = ?", id)!;
    database.connection.exec("DELETE FROM __service_memory_provenance; DELETE FROM __service_memory;");
    expect(stray()).toBeDefined();
    database.nowMs += 1;
    const next = ingestOne({ summary: "another" });
    expect(database.connection.get("SELECT row FROM __service_memory WHERE id = ?", next.id)).toEqual({ row });
    expect(get(next.id)).not.toHaveProperty("pinned");
    expect(pinned()).toEqual([]);
    expect(stray()).toBeDefined();
    expect(update(next.id, true)).toMatchObject({ pinned: true });
    expect(stray()).toBeUndefined();
  });
});

test("a change of nothing is refused by name", () => {
  expect(() => checkChange({})).toThrow("give at least one field to change: pinned");
  expect(() => checkChange({ pinned: false })).not.toThrow();
});

test("a file without pins has no table of them, and is read as one that has none", () => {
  ingestOne({ summary: "a heron" });
  const { connection } = memory.database();
  expect([connection.hasTable("__service_memory_pin"), strayPins(connection), pinned()]).toEqual([
    false,
    undefined,
    [],
  ]);
});
