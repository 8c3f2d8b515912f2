/** Changes beside a memory: its metadata, its keywords, its lifetime; it stays the same one. */
import { describe, expect, test } from "vitest";
import { checkChange, updateMemory, type MemoryChange } from "../../../../src/model/memory/stored-memories.ts";
import { strayMetadata } from "../../../../src/model/docs/memory-metadata.ts";
import { listMemories } from "../../../../src/model/memory/memory-list.ts";
import { recall } from "../../../../src/model/recall.ts";
import { useMemoryDatabase } from "../../../support/memory-database.ts";

const memory = useMemoryDatabase();
const { ingestOne, ingestAll, get } = memory;

const update = (id: string, change: MemoryChange & { readonly taskTtlMaxSecs?: number }) =>
  memory.database().write((tx) => updateMemory(tx, { id, ...change }));
const changes = (id: string, change: MemoryChange): boolean => {
  const outcome = memory.database().group((tx) => updateMemory(tx, { id, ...change }))[0]!;
  return outcome.kind === "done" && outcome.changed;
};
const found = (query: string): readonly string[] =>
  recall(memory.database().view(), { query }).memories.map(({ id }) => id);
const filtered = (filter: object): readonly string[] =>
  listMemories(memory.database().view(), { filter: JSON.stringify(filter) }).memories.map(({ id }) => id);

describe("a memory is changed", () => {
  test("in its metadata, which filters ask at once; the same again writes nothing", () => {
    const { id } = ingestOne({ summary: "a heron" });
    const before = get(id);
    expect(update(id, { metadata: '{"seen": 3}' })).toEqual({ ...before, metadata: '{"seen":3}' });
    expect(changes(id, { metadata: '{"seen":3}' })).toBe(false);
    expect(filtered({ seen: 3 })).toEqual([id]);
    expect(update(id, { metadata: '{"where":"pond"}' })).toMatchObject({ metadata: '{"where":"pond"}' });
    expect([filtered({ seen: 3 }), filtered({ where: "pond" })]).toEqual([[], [id]]);
    expect(update(id, { metadata: "{}" })).toEqual(before);
    expect(changes(id, { metadata: "{}" })).toBe(false);
    const { connection } = memory.database();
    expect(connection.get(strayMetadata(connection)!)).toBeUndefined();
  });

  test.each([1, 100])("in its keywords, by which it is found from then on, among %i", (count) => {
    const ids = ingestAll(
      Array.from({ length: count }, (_, n) => ({ summary: `bird number ${n}`, keywords: "feathered" })),
    ).map(({ id }) => id);
    const id = ids[Math.floor(count / 2)]!;
    const before = get(id);
    expect(update(id, { keywords: "zugunruhe" })).toEqual({ ...before, keywords: "zugunruhe" });
    expect(changes(id, { keywords: "zugunruhe" })).toBe(false);
    expect(found("zugunruhe")).toEqual([id]);
    expect(found("feathered")).not.toContain(id);
    expect(update(id, { keywords: "" })).toEqual({ ...before, keywords: null });
    expect(found("zugunruhe")).toEqual([]);
  });

  test("in its lifetime, where it is a task: renewed, capped, ended", () => {
    const database = memory.database();
    const { id } = ingestOne({ type: "task", summary: "call the bank", ttlSecs: 60 });
    database.nowMs += 59_000;
    expect(update(id, { ttlSecs: 60 })).toMatchObject({ expiresAt: database.nowMs + 60_000 });
    database.nowMs += 59_000;
    expect(get(id)).toMatchObject({ id });
    expect(update(id, { ttlSecs: 1_000, taskTtlMaxSecs: 10 })).toMatchObject({ expiresAt: database.nowMs + 10_000 });
    expect(update(id, { ttlSecs: 0 })).toMatchObject({ id });
    expect(get(id)).toBeUndefined();
    expect(update(id, { ttlSecs: 60 }), "what has ended does not come back").toBeUndefined();
    const fact = ingestOne({ summary: "a heron" });
    expect(() => update(fact.id, { ttlSecs: 60 })).toThrow("on a task only");
  });

  test("in several things at once, or in none", () => {
    const { id } = ingestOne({ summary: "a heron" });
    expect(() => update(id, { metadata: '{"a":1}', ttlSecs: 5 })).toThrow();
    expect(get(id), "a refusal changes nothing").not.toHaveProperty("metadata");
    update(id, { metadata: '{"a":1}', keywords: "grey", pinned: true });
    expect(get(id)).toMatchObject({ metadata: '{"a":1}', keywords: "grey", pinned: true });
  });
});

test.each<[MemoryChange, string]>([
  [{}, "at least one field"],
  [{ metadata: "[]" }, "must be an object"],
  [{ metadata: '{"$set":1}' }, "starts with $"],
  [{ keywords: "x".repeat(8_193) }, "8192"],
  [{ ttlSecs: -1 }, "whole number of seconds"],
  [{ ttlSecs: 1.5 }, "whole number of seconds"],
])("%j is refused", (change, words) => {
  expect(() => checkChange(change)).toThrow(words);
});

test("a duplicate of a memory whose keywords have changed is still one", () => {
  const { id } = ingestOne({ summary: "a heron", keywords: "old" });
  update(id, { keywords: "new" });
  expect(ingestOne({ summary: "a heron", keywords: "old" })).toMatchObject({ id, status: "duplicate" });
  expect(get(id)).toMatchObject({ keywords: "new" });
});
