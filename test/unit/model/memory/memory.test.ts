/** Memories as they are written: duplicates, supersession, vectors, and what is refused. */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { ServiceError } from "../../../../src/base/faults/errors.ts";
import { limits } from "../../../../src/base/limits.ts";
import {
  checkMemories,
  ingest,
  type IngestResult,
  summaryBytesMax,
  keywordsBytesMax,
} from "../../../../src/model/memory/memory-ingest.ts";
import { contentBytesMax } from "../../../../src/model/core/content.ts";
import { type Draft, draft, useMemoryDatabase } from "../../../support/memory-database.ts";

const { database, ingestAll, ingestOne, changes, get, recalled, rows, worded } = useMemoryDatabase();

describe("ingest", () => {
  test("memory-01: a new memory is created and comes back as it was given", () => {
    const result = ingestOne({
      topicKey: "ui",
      content: '{"b": 9007199254740993, "a": [1.50]}',
      keywords: "theme",
      sessionId: "s-1",
      source: "planner",
    });
    expect(result).toEqual({ id: expect.stringMatching(/^mem_/), status: "created", superseded: [] });
    expect(get(result.id)).toEqual({
      id: result.id,
      type: "fact",
      topicKey: "ui",
      summary: "user prefers dark mode",
      content: '{"b":9007199254740993,"a":[1.50]}',
      keywords: "theme",
      sessionId: "s-1",
      source: "planner",
      createdAt: database().nowMs,
      supersededBy: null,
      supersedes: [],
    });
  });

  test("memory-23: what was not given is null", () => {
    const { id } = ingestOne({ type: "event" });
    expect(get(id)).toMatchObject({
      topicKey: null,
      keywords: null,
      sessionId: null,
      source: null,
      supersededBy: null,
    });
    expect(get(id)).not.toHaveProperty("expiresAt");
    expect(get("mem_unknown")).toBeUndefined();
  });

  test("memory-02: the same payload again is a duplicate and changes nothing at all", () => {
    const first = ingestOne({ topicKey: "ui", sessionId: "s-1", source: "a" });
    database().nowMs += 1000;
    expect(changes({ topicKey: "ui", sessionId: "s-1", source: "a" })).toBe(false);
    expect(ingestOne({ topicKey: "ui", sessionId: "s-1", source: "a" })).toEqual({
      id: first.id,
      status: "duplicate",
      superseded: [],
    });
    expect(rows("__service_memory")).toBe(1);
  });

  test("memory-03: a new fact on the topic supersedes the one before, and both say so", () => {
    const old = ingestOne({ topicKey: "ui" });
    const next = ingestOne({ topicKey: "ui", summary: "user prefers light mode" });
    expect(next).toMatchObject({ status: "created", superseded: [old.id] });
    expect(get(old.id)).toMatchObject({ supersededBy: next.id, supersedes: [] });
    expect(get(next.id)).toMatchObject({ supersededBy: null, supersedes: [old.id] });
  });

  test("memory-03: topics of another type or key, and memories without one, are left alone", () => {
    const ids = ingestAll([
      { topicKey: "ui" },
      { topicKey: "UI" },
      { type: "instruction", topicKey: "ui" },
      { summary: "no topic" },
      { summary: "nor here" },
    ]);
    expect(ids.flatMap(({ superseded }) => superseded)).toEqual([]);
  });

  test("memory-09: dark, light, dark ends dark with an honest chain", () => {
    const dark = { topicKey: "ui", summary: "dark" };
    const [first, light, second, again] = [dark, { topicKey: "ui", summary: "light" }, dark, dark].map(ingestOne) as [
      IngestResult,
      IngestResult,
      IngestResult,
      IngestResult,
    ];
    expect(second).toMatchObject({ status: "created", superseded: [light.id] });
    expect(second.id).not.toBe(first.id);
    expect(again).toMatchObject({ id: second.id, status: "duplicate" });
    expect(recalled({ topicKey: "ui" })).toEqual([second.id]);
    expect(recalled({ topicKey: "ui", includeSuperseded: true })).toEqual([second.id, light.id, first.id]);
    expect(get(light.id)).toMatchObject({ supersededBy: second.id, supersedes: [first.id] });
  });

  test("memory-26: two facts on one topic in one batch: the second supersedes the first", () => {
    const [first, second, third] = ingestAll([
      { topicKey: "ui", summary: "one" },
      { topicKey: "ui", summary: "two" },
      { topicKey: "ui", summary: "two" },
    ]);
    expect(second).toMatchObject({ status: "created", superseded: [first!.id] });
    expect(third).toMatchObject({ id: second!.id, status: "duplicate" });
  });

  test("memory-28: key order makes no difference; type, topic, summary and content do", () => {
    const first = ingestOne({ content: '{"a":1,"b":2}' });
    expect(ingestOne({ content: '{"b":2.0,"a":1}' })).toMatchObject({ id: first.id, status: "duplicate" });
    const others: Draft[] = [
      { content: '{"a":1,"b":3}' },
      { type: "event", content: '{"a":1,"b":2}' },
      { summary: "x", content: '{"a":1,"b":2}' },
      { topicKey: "t", content: '{"a":1,"b":2}' },
    ];
    expect(ingestAll(others).map(({ status }) => status)).toEqual(["created", "created", "created", "created"]);
    const tasks = ingestAll([
      { type: "task", summary: "one" },
      { type: "task", summary: "two" },
      { type: "task", summary: "two", sessionId: "s-1" },
      { type: "task", summary: "two", sessionId: "s-1" },
    ]);
    expect(tasks.map(({ status }) => status)).toEqual(["created", "created", "created", "duplicate"]);
  });

  test("memory-24: a duplicate never changes source, but is remembered; supersession crosses sources", () => {
    const first = ingestOne({ topicKey: "ui", source: "a", sessionId: "s-1" });
    expect(changes({ topicKey: "ui", source: "b", sessionId: "s-2" })).toBe(true);
    expect(get(first.id)).toMatchObject({ source: "a", sessionId: "s-1" });
    expect(rows("__service_memory_provenance")).toBe(2);
    expect(recalled({ query: "dark", source: "b" })).toEqual([first.id]);
    expect(ingestOne({ topicKey: "ui", summary: "light", source: "c" }).superseded).toEqual([first.id]);
  });

  test("a batch of the same command that fails leaves nothing behind", () => {
    const outcomes = database().group(
      (tx) => {
        ingest(tx, { memories: [draft({ summary: "lost", sessionId: "s-1", embedding: Float32Array.of(1, 0) })] });
        throw new Error("on purpose");
      },
      (tx) => ingest(tx, { memories: [draft({ summary: "kept" })] }),
    );
    expect(outcomes.map(({ kind }) => kind)).toEqual(["failed", "done"]);
    expect([rows("__service_memory"), worded(), rows("__service_vector"), rows("__service_session")]).toEqual([
      1, 1, 0, 0,
    ]);
  });
});

describe("vectors", () => {
  test("memory-12: a vector of another dimension is left out and said so; the memory is found by words", () => {
    expect(ingestOne({ summary: "first", embedding: Float32Array.of(1, 0, 0) })).toMatchObject({ embedding: "stored" });
    const odd = ingestOne({ summary: "second", embedding: Float32Array.of(1, 0) });
    expect(odd).toMatchObject({ status: "created", embedding: "skipped_dimension" });
    expect(recalled({ query: "second" })).toEqual([odd.id]);
    expect(ingestOne({ summary: "third" })).not.toHaveProperty("embedding");
  });

  test("a duplicate fills in a missing vector and keeps one that is there", () => {
    const first = ingestOne({ summary: "bare" });
    expect(ingestOne({ summary: "bare", embedding: Float32Array.of(0, 1) })).toEqual({
      id: first.id,
      status: "duplicate",
      superseded: [],
      embedding: "stored",
    });
    expect(recalled({ embedding: Float32Array.of(0, 1) })).toEqual([first.id]);
    expect(changes({ summary: "bare", embedding: Float32Array.of(1, 0) })).toBe(false);
    expect(recalled({ embedding: Float32Array.of(1, 0) })).toEqual([]);
  });
});

describe("validation", () => {
  const refusal = (...drafts: Draft[]): string => {
    try {
      checkMemories(drafts.map(draft));
    } catch (error) {
      if (error instanceof ServiceError && error.code === "invalid_request") return error.message;
      throw error;
    }
    return "accepted";
  };

  test.each<[string, Draft]>([
    ["memory-22", { type: "opinion" }],
    ["memory-22", { type: "event", topicKey: "t" }],
    ["memory-22", { type: "task", topicKey: "t" }],
    ["memory-30", { summary: " \n " }],
    ["memory-30", { summary: "" }],
    ["memory-30", { embedding: new Float32Array(0) }],
    ["memory-30", { embedding: Float32Array.of(1, Number.NaN) }],
    ["memory-30", { embedding: Float32Array.of(Infinity) }],
    ["memory-30", { embedding: new Float32Array(limits.vectorDimensionMax + 1).fill(1) }],
    ["memory-30", { ttlSecs: 60 }],
    ["memory-30", { type: "task", ttlSecs: -1 }],
    ["memory-30", { type: "task", ttlSecs: 1.5 }],
    ["memory-30", { type: "task", ttlSecs: limits.ttlSecsMax + 1 }],
    ["size", { summary: "x".repeat(summaryBytesMax + 1) }],
    ["size", { content: JSON.stringify("é".repeat(contentBytesMax / 2)) }],
    ["size", { keywords: "x".repeat(keywordsBytesMax + 1) }],
    ["size", { topicKey: "x".repeat(limits.topicKeyBytesMax + 1) }],
    ["size", { topicKey: "" }],
    ["size", { sessionId: "é".repeat(65) }],
    ["size", { source: "" }],
    ["text", { summary: "half \ud800 a pair" }],
    ["text", { content: "{" }],
    ["text", { content: "[".repeat(65) + "]".repeat(65) }],
  ])("%s: refused with the item and the field named: %o", (_, bad) => {
    expect(refusal({}, bad)).toMatch(
      /^memories\[1\]\.(type|summary|content|topic_key|keywords|embedding|session_id|source|ttl) /,
    );
  });

  test("what is at the bounds is accepted", () => {
    expect(
      refusal(
        { type: "task", ttlSecs: 0 },
        { type: "task", ttlSecs: limits.ttlSecsMax },
        { type: "instruction", topicKey: "t", keywords: "", sessionId: "s".repeat(128), summary: "nul \0 and\nlines" },
        { content: "[".repeat(64) + "]".repeat(64), embedding: new Float32Array(limits.vectorDimensionMax).fill(1) },
      ),
    ).toBe("accepted");
  });

  test("memory-27, hardening-05: the batch is refused as a whole; 1000 items are accepted and 1001 are not", () => {
    const many = (count: number) => Array.from({ length: count }, () => ({}));
    expect(refusal(...many(1000))).toBe("accepted");
    expect(refusal(...many(1001))).toContain("1000");
  });
});

test("memory-09: said in any order, each topic has one active memory, the last; no two are alike", () => {
  const said = fc.record({
    topicKey: fc.constantFrom("a", "b"),
    type: fc.constantFrom("fact", "instruction"),
    summary: fc.constantFrom("x", "y", "z"),
  });
  fc.assert(
    fc.property(fc.array(said, { maxLength: 30 }), (drafts) => {
      database().connection.exec(
        "DELETE FROM __service_memory; DELETE FROM __service_memory_provenance; DELETE FROM __service_memory_text",
      );
      ingestAll(drafts);
      const last = new Map(drafts.map(({ type, topicKey, summary }) => [`${type} ${topicKey}`, summary]));
      const active = database().connection.all<{ topic: string; summary: string }>(
        "SELECT type || ' ' || topic_key AS topic, summary FROM __service_memory WHERE superseded_by IS NULL",
      );
      expect(new Map(active.map(({ topic, summary }) => [topic, summary]))).toEqual(last);
      expect(active).toHaveLength(last.size);
      const dangling =
        "SELECT count(*) AS n FROM __service_memory AS old WHERE superseded_by IS NOT NULL AND NOT EXISTS " +
        "(SELECT 1 FROM __service_memory AS new WHERE new.id = old.superseded_by AND new.row > old.row)";
      expect(database().connection.get(dangling)).toEqual({ n: 0 });
    }),
    { numRuns: 60 },
  );
});
