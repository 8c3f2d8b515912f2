/** What a recall finds: by which channels, past which filters, in which order, and what crowds nothing out. */
import fc from "fast-check";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { ServiceError } from "../../../src/base/faults/errors.ts";
import { limits } from "../../../src/base/limits.ts";
import { ingest, type MemoryInput } from "../../../src/model/memory/memory-ingest.ts";
import { checkRecall, recall, type RecallInput } from "../../../src/model/recall.ts";
import { appendTurn } from "../../../src/model/transcript/transcript.ts";
import { ModelDatabase } from "../../support/model-database.ts";
import { contentBytesMax } from "../../../src/model/core/content.ts";

let database: ModelDatabase;

beforeEach(() => {
  database = new ModelDatabase();
});

afterEach(() => database.close());

const vector = (...values: number[]): Float32Array => Float32Array.from(values);

function say(...drafts: (Partial<MemoryInput> & { summary: string })[]): string[] {
  const memories = drafts.map((draft) => ({ type: "event", content: "null", ...draft }));
  return database.write((tx) => ingest(tx, { memories })).results.map(({ id }) => id);
}

function ask(input: RecallInput) {
  checkRecall(input);
  return recall(database.view(), input).memories;
}

const summaries = (input: RecallInput): string[] => ask(input).map(({ summary }) => summary);

describe("channels", () => {
  test("memory-04, memory-06: each channel finds alone and says which it was", () => {
    say(
      { summary: "prefers dark mode", type: "fact", topicKey: "ui" },
      { summary: "likes hiking", embedding: vector(1, 0) },
      { summary: "likes sailing", embedding: vector(0.9, 0.4) },
      { summary: "far away", embedding: vector(-1, 0) },
    );
    expect(ask({ query: "dark" }).map(({ summary, channels }) => [summary, channels])).toEqual([
      ["prefers dark mode", ["keyword"]],
    ]);
    expect(ask({ topicKey: "ui" }).map(({ summary, channels }) => [summary, channels])).toEqual([
      ["prefers dark mode", ["topic"]],
    ]);
    expect(ask({ embedding: vector(1, 0) }).map(({ summary, channels }) => [summary, channels])).toEqual([
      ["likes hiking", ["vector"]],
      ["likes sailing", ["vector"]],
    ]);
  });

  test("memory-05: an exact topic outranks a memory that is first by words and by vector", () => {
    say(
      { summary: "the exact topic", type: "fact", topicKey: "ui" },
      { summary: "zebra zebra", embedding: vector(1, 0) },
    );
    const found = ask({ query: "zebra", embedding: vector(1, 0), topicKey: "ui" });
    expect(found.map(({ summary, channels }) => [summary, channels])).toEqual([
      ["the exact topic", ["topic"]],
      ["zebra zebra", ["keyword", "vector"]],
    ]);
    expect(found.map(({ score }) => score)).toEqual([4, 1.5]);
  });

  test("what two channels find comes before what one finds", () => {
    say(
      { summary: "heron", embedding: vector(1, 0) },
      { summary: "heron heron heron" },
      { summary: "other", embedding: vector(1, 0.01) },
    );
    expect(summaries({ query: "heron", embedding: vector(1, 0) })[0]).toBe("heron");
  });

  test("memory-12: a query vector of another dimension is passed over", () => {
    say({ summary: "walrus", embedding: vector(1, 0) });
    expect(ask({ query: "walrus", embedding: vector(1, 0, 0) }).map(({ channels }) => channels)).toEqual([["keyword"]]);
    expect(ask({ embedding: vector(1, 0, 0) })).toEqual([]);
  });

  test("the floor of the vector channel can be moved", () => {
    say(
      { summary: "near", embedding: vector(1, 0) },
      { summary: "sideways", embedding: vector(0.1, 1) },
      { summary: "opposite", embedding: vector(-1, 0) },
    );
    const above = (least: number): string[] => summaries({ embedding: vector(1, 0), minScore: { vector: least } });
    expect(summaries({ embedding: vector(1, 0) })).toEqual(["near"]);
    expect([above(0.05), above(-1), above(1)]).toEqual([
      ["near", "sideways"],
      ["near", "sideways", "opposite"],
      ["near"],
    ]);
  });

  test("memory-07: nonsense finds nothing, and answers are never filled up", () => {
    say({ summary: "prefers dark mode" }, { summary: "lives in Lisbon" });
    expect(ask({ query: "xyzzy plugh" })).toEqual([]);
    expect(summaries({ query: "Lisbon", k: 8 })).toEqual(["lives in Lisbon"]);
    expect(ask({ query: "???", topicKey: "none" })).toEqual([]);
  });
});

describe("words and an embedder's vectors", () => {
  const embeddedBy = { name: "model", floor: 0.5 };
  /** A unit vector at this cosine from the one that is asked for. */
  const at = (cosine: number): Float32Array => vector(cosine, Math.sqrt(1 - cosine ** 2));
  const asked = { embedding: vector(1, 0), embeddedBy: embeddedBy.name };

  test("where nothing is near, words find only what has no vector or is called by its name", () => {
    const far = { embedding: at(0.1), embeddedBy };
    say(
      { summary: "a parrot escaped", ...far },
      { summary: "a parrot was bought" },
      { summary: "the bird is well", type: "fact", keywords: "parrot", ...far },
    );
    const found = (more: Partial<RecallInput>): string[] => summaries({ query: "parrot", ...more }).sort();
    expect(found(asked)).toEqual(["a parrot was bought", "the bird is well"]);
    expect(found({})).toHaveLength(3);
    expect(found({ ...asked, minScore: { keyword: 0.1 } })).toHaveLength(3);
    say({ summary: "a kiwi", embedding: at(0.45), embeddedBy });
    expect(found(asked)).toContain("a parrot escaped");
  });

  test("what lies a little below the floor comes only when words find something too", () => {
    say({ summary: "the kettle is blue", embedding: at(0.45), embeddedBy }, { summary: "a parrot escaped" });
    expect(summaries({ ...asked, query: "submarine" })).toEqual([]);
    expect(summaries({ ...asked, query: "parrot" }).sort()).toEqual(["a parrot escaped", "the kettle is blue"]);
  });

  test("vectors of callers' own speak against nothing", () => {
    say({ summary: "a parrot escaped", embedding: at(0.1) });
    expect(summaries({ query: "parrot", embedding: vector(1, 0) })).toEqual(["a parrot escaped"]);
  });
});

describe("filters", () => {
  const crowd = (more: Partial<MemoryInput>) =>
    Array.from({ length: 60 }, (_, at) => ({
      summary: `deploy the service deploy ${at}`,
      embedding: vector(1, at / 1000),
      ...more,
    }));

  test("memory-10: 60 events that match better never hide the one task; the same for a session and a source", () => {
    say(...crowd({ source: "crowd", sessionId: "crowd" }));
    const [task] = say({
      type: "task",
      summary: "some day deploy it all and then write a long report about how it went",
      source: "quiet",
      sessionId: "quiet",
      embedding: vector(0.5, 1),
    });
    for (const filter of [
      { types: ["task"] },
      { source: "quiet" },
      { sessionId: "quiet" },
      { types: ["task"], source: "quiet", sessionId: "quiet" },
    ]) {
      for (const asked of [
        { query: "deploy" },
        { embedding: vector(1, 0) },
        { query: "deploy", embedding: vector(1, 0) },
      ]) {
        expect(ask({ ...asked, ...filter, k: 1 }).map(({ id }) => id)).toEqual([task]);
      }
    }
  });

  test("memory-10: superseded and expired memories crowd out nothing either", () => {
    for (let at = 0; at < 60; at++)
      say({ type: "fact", topicKey: "t", summary: `deploy deploy ${at}`, embedding: vector(1, 0) });
    say(...crowd({ type: "task", ttlSecs: 1 }));
    say({ summary: "an old note says deploy once among many other words", embedding: vector(1, 1) });
    database.nowMs += 1000;
    expect(summaries({ query: "deploy", embedding: vector(1, 0) })).toEqual([
      "deploy deploy 59",
      "an old note says deploy once among many other words",
    ]);
    expect(ask({ query: "deploy", k: 1000, includeSuperseded: true })).toHaveLength(61);
  });

  test("memory-10: nor do hundreds of them that all match better", () => {
    const shown = say(
      ...Array.from({ length: 60 }, (_, at) => ({ summary: `kiwi and a rather long rest of the sentence ${at}` })),
    );
    const newest = shown.toReversed().slice(0, 8);
    say(
      ...Array.from({ length: 450 }, (_, at) => ({
        type: "task",
        summary: "kiwi kiwi",
        content: String(at),
        ttlSecs: 60,
      })),
    );
    expect(ask({ query: "kiwi" }).every(({ type }) => type === "task")).toBe(true);
    database.nowMs += 60_000;
    expect(ask({ query: "kiwi" }).map(({ id }) => id)).toEqual(newest);
  });

  test("memory-07, memory-11: types restrict, an explicit empty list matches nothing", () => {
    say(
      { summary: "kiwi", type: "fact", topicKey: "t" },
      { summary: "kiwi", type: "event" },
      { summary: "kiwi", type: "instruction" },
    );
    expect(
      ask({ query: "kiwi", types: ["instruction", "fact", "fact"] })
        .map(({ type }) => type)
        .sort(),
    ).toEqual(["fact", "instruction"]);
    expect(ask({ query: "kiwi", topicKey: "t", types: [] })).toEqual([]);
  });

  test("memory-23: source and session ask who said it, and both of one saying", () => {
    say({ summary: "kiwi", source: "a", sessionId: "s-1" });
    say({ summary: "kiwi", source: "b", sessionId: "s-2" });
    const found = (filter: Partial<RecallInput>): number => ask({ query: "kiwi", ...filter }).length;
    expect([
      found({ source: "a" }),
      found({ source: "b" }),
      found({ sessionId: "s-2" }),
      found({ source: "a", sessionId: "s-1" }),
    ]).toEqual([1, 1, 1, 1]);
    expect([found({ source: "c" }), found({ source: "a", sessionId: "s-2" })]).toEqual([0, 0]);
    expect(ask({ query: "kiwi", source: "b" })[0]).toMatchObject({ source: "a", sessionId: "s-1" });
  });

  test("memory-13: superseded memories are hidden, and shown on request after the active one", () => {
    const [old] = say({ type: "fact", topicKey: "ui", summary: "prefers dark mode" });
    const [now] = say({ type: "fact", topicKey: "ui", summary: "prefers light mode" });
    expect(ask({ query: "prefers mode" }).map(({ id }) => id)).toEqual([now]);
    const all = ask({ query: "prefers dark mode", topicKey: "ui", includeSuperseded: true });
    expect(all.map(({ id, supersededBy }) => [id, supersededBy])).toEqual([
      [now, null],
      [old, now],
    ]);
  });
});

describe("ranking", () => {
  test("equals come newest first, then by the later id, however many there are", () => {
    const first = say(
      ...Array.from({ length: 70 }, (_, at) => ({ summary: "kiwi", content: String(at), embedding: vector(1, 0) })),
    );
    database.nowMs += 1000;
    const [newest] = say({ summary: "kiwi", embedding: vector(1, 0) });
    for (const asked of [{ query: "kiwi" }, { query: "kiwi", includeSuperseded: true }]) {
      expect(ask({ ...asked, k: 3 }).map(({ id }) => id)).toEqual([newest, first[69], first[68]]);
    }
  });

  test("memories whose vectors are equally near come newest first too", () => {
    const ids = say(...["one", "two", "three"].map((summary) => ({ summary, embedding: vector(1, 0) })));
    say({ summary: "nearer", embedding: vector(1, 0.1) });
    expect(ask({ embedding: vector(1, 0), k: 3 }).map(({ id }) => id)).toEqual(ids.toReversed());
    const [first, ...rest] = ask({ embedding: vector(1, 0.1) }).map(({ score }) => score!);
    expect([first, new Set(rest).size, rest[0]! < first!]).toEqual([0.5, 1, true]);
  });

  test("k is 8 when absent, and cut to 1000", () => {
    say(...Array.from({ length: 1000 }, (_, at) => ({ summary: "kiwi", content: String(at) })));
    say({ summary: "kiwi" });
    expect(ask({ query: "kiwi" })).toHaveLength(8);
    expect(ask({ query: "kiwi", k: 10_000_000 })).toHaveLength(1000);
  });

  test("the same request at the same state gives the same bytes, on another connection's cache too", () => {
    const words = ["ant", "bee", "cat", "dog", "eel", "fox"];
    fc.assert(
      fc.property(
        fc.array(fc.array(fc.constantFrom(...words), { minLength: 1, maxLength: 6 }), { minLength: 1, maxLength: 12 }),
        fc.uniqueArray(fc.constantFrom(...words), { minLength: 1 }),
        (texts, query) => {
          say(...texts.map((text, at) => ({ summary: text.join(" "), embedding: vector(text.length, at + 1, 1) })));
          const input = { query: query.join(" "), embedding: vector(1, 2, 3), k: 20, explain: true };
          const once = JSON.stringify(ask(input));
          const cold = new ModelDatabase();
          try {
            const elsewhere = { ...database.view(), vectors: cold.vectors };
            expect(JSON.stringify(recall(elsewhere, input).memories)).toBe(once);
          } finally {
            cold.close();
          }
        },
      ),
      { numRuns: 20 },
    );
  });

  test("explain gives the rank, score and words of every channel", () => {
    say({ summary: "prefers dark mode", type: "fact", topicKey: "ui", embedding: vector(1, 0) });
    expect(
      ask({ query: "is dark theme preferred?", topicKey: "ui", embedding: vector(1, 0), explain: true })[0]!.explain,
    ).toEqual({
      channels: [
        { channel: "topic", rank: 1, score: 1, approximate: false },
        { channel: "keyword", rank: 1, score: expect.any(Number), approximate: false },
        { channel: "vector", rank: 1, score: expect.closeTo(1, 6), approximate: false },
      ],
      matchedTerms: ["dark", "preferred"],
      coverage: expect.closeTo(0.558, 2),
    });
    expect(ask({ embedding: vector(1, 0), explain: true })[0]!.explain).toEqual({
      channels: [{ channel: "vector", rank: 1, score: expect.closeTo(1, 6), approximate: false }],
      matchedTerms: [],
    });
    expect(ask({ query: "dark" })[0]).not.toHaveProperty("explain");
  });

  test("contents that are too large for one answer are refused, fewer of them are given", () => {
    for (let at = 0; at < 33; at++)
      say({ summary: "kiwi", content: JSON.stringify(String(at).padEnd(contentBytesMax - 2, "_")) });
    expect(() => ask({ query: "kiwi", k: 33 })).toThrow(/^k must be lower/);
    expect(ask({ query: "kiwi", k: 32 })).toHaveLength(32);
  });
});

describe("turns", () => {
  test("memory-15: only when asked for and with a vector, in a list of their own, narrowed by session", () => {
    const turn = (sessionId: string, content: string, embedding: Float32Array) =>
      database.write((tx) => appendTurn(tx, { sessionId, role: "user", content, embedding }));
    turn("s-1", '"verbatim"', vector(1, 0));
    turn("s-2", '"elsewhere"', vector(0.9, 0.1));
    const turns = (input: RecallInput) =>
      recall(database.view(), input).turns.map(({ sessionId, content }) => [sessionId, content]);
    expect(turns({ embedding: vector(1, 0), includeTurns: true })).toEqual([
      ["s-1", '"verbatim"'],
      ["s-2", '"elsewhere"'],
    ]);
    expect(turns({ embedding: vector(1, 0), includeTurns: true, sessionId: "s-2" })).toEqual([["s-2", '"elsewhere"']]);
    expect(turns({ embedding: vector(1, 0), includeTurns: true, k: 1 })).toEqual([["s-1", '"verbatim"']]);
    expect(turns({ embedding: vector(1, 0), includeTurns: true, types: [] })).toHaveLength(2);
    expect(turns({ embedding: vector(1, 0) })).toEqual([]);
    expect(turns({ query: "verbatim", includeTurns: true })).toEqual([]);
    expect(turns({ embedding: vector(1, 0, 0), includeTurns: true })).toEqual([]);
    expect(recall(database.view(), { embedding: vector(1, 0), includeTurns: true }).turns[0]!.distance).toBeCloseTo(
      0,
      6,
    );
  });
});

describe("validation", () => {
  test.each<[string, RecallInput]>([
    ["one of", {}],
    ["one of", { query: "  ", types: ["fact"], includeTurns: true }],
    ["query", { query: "x".repeat(limits.recallQueryBytesMax + 1) }],
    ["query", { query: "\ud800" }],
    ["embedding", { embedding: new Float32Array(0) }],
    ["embedding", { embedding: vector(Number.NaN) }],
    ["topic_key", { topicKey: "" }],
    ["types", { query: "x", types: ["opinion"] }],
    ["session_id", { query: "x", sessionId: "" }],
    ["source", { query: "x", source: "" }],
    ["k ", { query: "x", k: 0 }],
    ["k ", { query: "x", k: 2.5 }],
    ["min_score.keyword", { query: "x", minScore: { keyword: -0.1 } }],
    ["min_score.vector", { query: "x", minScore: { vector: Number.NaN } }],
  ])("memory-22: refused, and %s named: %o", (field, input) => {
    expect(() => checkRecall(input)).toThrow(ServiceError);
    expect(() => checkRecall(input)).toThrow(new RegExp(`^${field}`));
  });
});
