/** Proposals: seen by nobody who does not ask, and taken in by a review as if they came then. */
import { describe, expect, test } from "vitest";
import { composeContext } from "../../../src/model/context-block.ts";
import { strayMemoryText } from "../../../src/model/memory/keyword.ts";
import { ageMemories } from "../../../src/model/memory/memory-aging.ts";
import { listMemories } from "../../../src/model/memory/memory-list.ts";
import { deleteMemory, sweepMemories, updateMemory } from "../../../src/model/memory/stored-memories.ts";
import { checkReview, review, reviewIdsMax, type Reviewed } from "../../../src/model/review.ts";
import { useMemoryDatabase } from "../../support/memory-database.ts";

const memory = useMemoryDatabase();
const { ingestOne, ingestAll, get, recalled } = memory;

const decide = (verdict: string, ...ids: readonly string[]): readonly Reviewed[] =>
  memory.database().write((tx) => review(tx, { ids, verdict })).results;
const listed = (...states: readonly string[]): readonly string[] =>
  listMemories(memory.database().view(), { states }).memories.map(({ id }) => id);
const embedding = Float32Array.of(0.6, 0.8);

describe("a proposal", () => {
  test("is not recalled, shown, listed or superseding, and says that it waits to who asks for it", () => {
    const { id: held } = ingestOne({ summary: "Alice likes tea", topicKey: "drink", embedding });
    const proposal = { summary: "Alice likes zobo", topicKey: "drink", keywords: "hibiscus", embedding, pinned: true };
    const result = ingestOne({ ...proposal, proposed: true });
    expect(result).toMatchObject({ status: "proposed", superseded: [] });
    const { id } = result;
    for (const includeSuperseded of [false, true]) {
      const asked = { includeSuperseded, includeCompleted: true };
      expect(recalled({ query: "zobo hibiscus Alice", topicKey: "drink", embedding, ...asked })).toEqual([held]);
    }
    expect(recalled({ query: "hibiscus" })).toEqual([]);
    expect(composeContext(memory.database().view(), { query: "zobo" }).body).not.toContain("zobo");
    expect(listMemories(memory.database().view(), { includeSuperseded: true }).memories).toHaveLength(1);
    expect([listed("proposed"), listed("active"), listed("active", "proposed")]).toEqual([[id], [held], [id, held]]);
    expect(get(id)).toMatchObject({ status: "proposed", supersededBy: null, supersedes: [], pinned: true });
    expect(get(held)).not.toHaveProperty("status");
  });

  test("hides no memory from being the same, and is the same as one that waits already", () => {
    const one = { summary: "Alice likes tea", sessionId: "s-1", source: "web" };
    const { id } = ingestOne({ ...one, proposed: true });
    expect(ingestOne({ ...one, source: "mail", proposed: true, pinned: true })).toMatchObject({
      id,
      status: "proposed",
    });
    expect(get(id), "nothing that was seen changes").not.toHaveProperty("pinned");
    expect(memory.rows("__service_memory_provenance")).toBe(2);
    const taken = ingestOne(one);
    expect(taken).toMatchObject({ status: "created" });
    expect(ingestOne(one)).toMatchObject({ id: taken.id, status: "duplicate" });
    const before = get(taken.id);
    expect(memory.changes({ ...one, source: "other", pinned: true, embedding, proposed: true })).toBe(false);
    expect(get(taken.id), "a proposal of what is held adds nothing to it").toEqual(before);
  });

  test("does not change, and can be taken back", () => {
    const { id } = ingestOne({ summary: "Alice likes tea", proposed: true });
    for (const change of [{ pinned: true }, { keywords: "x" }, { metadata: "{}" }])
      expect(() => memory.database().write((tx) => updateMemory(tx, { id, ...change }))).toThrow("proposal");
    expect(memory.database().write((tx) => deleteMemory(tx, { id }))).toEqual({ forgotten: true });
    expect(decide("approve", id)).toEqual([{ id, status: "unknown", superseded: [] }]);
  });

  test("that is a task expires as one", () => {
    const database = memory.database();
    const { id } = ingestOne({ type: "task", summary: "call", ttlSecs: 60, proposed: true });
    database.nowMs += 60_000;
    expect(listed("proposed")).toEqual([]);
    expect(decide("approve", id)).toMatchObject([{ status: "unknown" }]);
    expect(ingestOne({ type: "task", summary: "call", ttlSecs: 60, proposed: true }).id, "a new one").not.toBe(id);
    expect(database.write((tx) => sweepMemories(tx, { rowsMax: 10 }))).toEqual({ removed: 0 });
  });

  test("does not age as what was superseded does, nor count as it", () => {
    const database = memory.database();
    const { id } = ingestOne({ summary: "proposed", topicKey: "t", proposed: true });
    ingestAll(["one", "two"].map((summary) => ({ summary, topicKey: "t" })));
    database.nowMs += 1_000_000;
    const retention = { supersededMaxAgeMs: 1_000, supersededMaxCount: 1 };
    expect(listMemories({ ...database.view(), retention }, { states: ["proposed"] }).memories).toHaveLength(1);
    database.write((tx) => ageMemories(tx, retention, {}, 10));
    expect(listed("active", "superseded", "proposed")).toHaveLength(2);
    expect(get(id)).toMatchObject({ status: "proposed" });
  });
});

describe("a review", () => {
  test("approves: it comes in then, under its id, with all that it had", () => {
    const database = memory.database();
    const more = {
      metadata: '{"a":1}',
      keywords: "hibiscus",
      embedding,
      pinned: true,
      sessionId: "s-1",
      source: "web",
    };
    const { id } = ingestOne({ summary: "Alice likes zobo", topicKey: "drink", proposed: true, ...more });
    ingestOne({ summary: "Alice likes zobo", topicKey: "drink", source: "mail", proposed: true });
    database.nowMs += 1_000;
    const { id: later } = ingestOne({ summary: "Alice likes tea", topicKey: "drink" });
    const proposal = get(id);
    database.nowMs += 1_000;
    expect(decide("approve", id)).toEqual([{ id, status: "approved", superseded: [later] }]);
    const { status: _, ...held } = proposal!;
    expect(get(id)).toEqual({ ...held, createdAt: database.nowMs, supersedes: [later] });
    expect(recalled({ query: "hibiscus" })).toEqual([id]);
    expect(recalled({ embedding })).toEqual([id]);
    expect(recalled({ query: "zobo", source: "mail" })).toEqual([id]);
    expect(listed("active", "superseded"), "in the order of their times").toEqual([id, later]);
    expect(decide("approve", id), "again").toEqual([{ id, status: "unknown", superseded: [] }]);
    const { connection } = database;
    expect(connection.get(strayMemoryText(connection))).toBeUndefined();
  });

  test("approves what is held by now as a duplicate, which takes in who said it", () => {
    const { id } = ingestOne({ summary: "Alice likes tea", source: "web", proposed: true });
    const { id: held } = ingestOne({ summary: "Alice likes tea", source: "mail" });
    expect(decide("approve", id)).toEqual([{ id, status: "duplicate", duplicateOf: held, superseded: [] }]);
    expect(get(id)).toBeUndefined();
    expect(recalled({ query: "tea", source: "web" })).toEqual([held]);
  });

  test("approves in the order of its ids, and rejects", () => {
    const [one, two, three] = ingestAll(
      ["one", "two", "three"].map((summary) => ({ summary, topicKey: "t", proposed: true })),
    ).map(({ id }) => id) as [string, string, string];
    expect(decide("approve", two, one)).toEqual([
      { id: two, status: "approved", superseded: [] },
      { id: one, status: "approved", superseded: [two] },
    ]);
    expect(decide("reject", three, one)).toMatchObject([{ status: "rejected" }, { id: one, status: "unknown" }]);
    expect([get(three), get(one)?.supersedes]).toEqual([undefined, [two]]);
  });

  test.each([
    [{ ids: [], verdict: "approve" }, "1 to 100 ids"],
    [{ ids: Array.from({ length: reviewIdsMax + 1 }, String), verdict: "reject" }, "1 to 100 ids"],
    [{ ids: ["a", "a"], verdict: "reject" }, "each id once"],
    [{ ids: ["a"], verdict: "Approve" }, "one of approve, reject"],
  ])("of %j is refused", (input, words) => {
    expect(() => checkReview(input)).toThrow(words);
  });
});

describe("a task that is done", () => {
  const complete = (id: string, completed: boolean) =>
    memory.database().write((tx) => updateMemory(tx, { id, completed }));

  test("is not open, and is there for who asks until it expires", () => {
    const database = memory.database();
    const { id } = ingestOne({ type: "task", summary: "call the bank", ttlSecs: 60 });
    database.nowMs += 1_000;
    expect(complete(id, true)).toMatchObject({ status: "completed", completedAt: database.nowMs, supersededBy: null });
    const at = database.nowMs;
    database.nowMs += 1_000;
    expect(complete(id, true), "again").toMatchObject({ completedAt: at });
    expect([recalled({ query: "bank" }), listed("active"), listed("completed")]).toEqual([[], [], [id]]);
    expect(recalled({ query: "bank", includeSuperseded: true })).toEqual([]);
    expect(recalled({ query: "bank", includeCompleted: true })).toEqual([id]);
    expect(composeContext(database.view(), { query: "bank" }).body).not.toContain("bank");
    const again = ingestOne({ type: "task", summary: "call the bank", ttlSecs: 60 });
    expect(again.status).toBe("created");
    expect(() => complete(id, false)).toThrow(again.id);
    complete(again.id, true);
    expect(complete(id, false)).not.toHaveProperty("status");
    expect(recalled({ query: "bank" })).toEqual([id]);
    database.nowMs += 60_000;
    expect([get(id), get(again.id)]).toEqual([undefined, undefined]);
    expect(database.write((tx) => sweepMemories(tx, { rowsMax: 10 }))).toEqual({ removed: 2 });
  });

  test("is a task", () => {
    const { id } = ingestOne({ summary: "a fact" });
    expect(() => complete(id, true)).toThrow("on a task only");
  });
});
