/** What a recall can be asked beside what is relevant: a span of time, a session to prefer, counts by type. */
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { ServiceError } from "../../../src/base/faults/errors.ts";
import { limits } from "../../../src/base/limits.ts";
import { ingest, type MemoryInput } from "../../../src/model/memory/memory-ingest.ts";
import { recipe } from "../../../src/model/ranking/recipe.ts";
import { checkRecall, recall, type RecallInput } from "../../../src/model/recall.ts";
import { appendTurn } from "../../../src/model/transcript/transcript.ts";
import { ModelDatabase } from "../../support/model-database.ts";

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

const append = (sessionId: string, content: string, embedding?: Float32Array) =>
  database.write((tx) =>
    appendTurn(tx, { sessionId, role: "user", content: JSON.stringify(content), ...(embedding && { embedding }) }),
  );

function ask(input: RecallInput): ReturnType<typeof recall> {
  checkRecall(input);
  return recall(database.view(), input);
}

const summaries = (input: RecallInput): string[] => ask(input).memories.map(({ summary }) => summary);
const turns = (input: RecallInput): string[] =>
  ask({ includeTurns: true, searchTurns: true, ...input }).turns.map(({ sessionId, seq }) => `${sessionId}/${seq}`);

describe("a span of time", () => {
  const start = 1_700_000_000_000;
  const asked: readonly RecallInput[] = [
    { query: "kiwi" },
    { topicKey: "fruit", includeSuperseded: true },
    { embedding: vector(1, 0) },
    { query: "kiwi", embedding: vector(1, 0), topicKey: "fruit", includeSuperseded: true },
  ];

  test.each(asked)("begins with since and ends before until, on every channel: %o", (input) => {
    for (const day of [0, 1, 2]) {
      database.nowMs = start + day;
      say({ type: "fact", topicKey: "fruit", summary: `kiwi ${day}`, embedding: vector(1, day / 100) });
      say({ summary: `kiwi event ${day}`, embedding: vector(1, day / 100) });
    }
    const days = (from?: number, to?: number): number[] => {
      const span = {
        ...(from !== undefined && { createdFromMs: start + from }),
        ...(to !== undefined && { createdToMs: start + to }),
      };
      const found = summaries({ ...input, includeSuperseded: true, ...span });
      return [...new Set(found.map((summary) => Number(summary.at(-1))))].sort();
    };
    expect([days(), days(1), days(undefined, 1), days(1, 2), days(3), days(undefined, 0)]).toEqual([
      [0, 1, 2],
      [1, 2],
      [0],
      [1],
      [],
      [],
    ]);
  });

  test("holds for turns by words, by vector, and for both, and crowds out nothing", () => {
    for (let day = 0; day < 80; day++) {
      database.nowMs = start + day;
      append("s", `kiwi ${day}`, vector(1, day / 100));
    }
    for (const way of [
      { query: "kiwi" },
      { embedding: vector(1, 0) },
      { query: "kiwi", embedding: vector(1, 0) },
    ] as const) {
      const found = turns({ ...way, createdFromMs: start + 70, createdToMs: start + 73, k: 5 });
      expect(found.toSorted(), JSON.stringify(way)).toEqual(["s/71", "s/72", "s/73"]);
      expect(turns({ ...way, sessionId: "t", createdFromMs: start })).toEqual([]);
    }
  });
});

describe("a preferred session", () => {
  test("moves what is of it up by the factor and no further, and lets nothing in or out", () => {
    const ids = say(
      { summary: "the kiwi is ripe", sessionId: "s-1", embedding: vector(1, 0.1) },
      { summary: "the kiwi is green", sessionId: "s-2", embedding: vector(1, 0.12) },
      { summary: "nothing of it", sessionId: "s-1", embedding: vector(-1, 0) },
    );
    const asked = { query: "kiwi", embedding: vector(1, 0) };
    const plain = ask(asked).memories;
    expect(plain.map(({ id }) => id)).toEqual([ids[0], ids[1]]);
    const preferring = ask({ ...asked, preferSessionId: "s-2" }).memories;
    expect(preferring.map(({ id }) => id)).toEqual([ids[1], ids[0]]);
    expect(preferring.map(({ score }) => score)).toEqual([
      expect.closeTo(plain[1]!.score! * recipe.preferredSession, 10),
      plain[0]!.score,
    ]);
    expect(ask({ ...asked, preferSessionId: "unknown" }).memories).toEqual(plain);
  });

  test("is any session that said it, and comes after an exact topic", () => {
    say({ summary: "kiwi", type: "fact", content: "1", sessionId: "s-1" });
    const [again] = say({ summary: "kiwi", type: "fact", content: "2", sessionId: "s-1" });
    say({ summary: "kiwi", type: "fact", content: "1", sessionId: "s-2" });
    const [topic] = say({ summary: "pear", type: "fact", topicKey: "fruit" });
    expect(ask({ query: "kiwi" }).memories[0]!.id).toBe(again);
    expect(ask({ query: "kiwi", preferSessionId: "s-2" }).memories[0]!.id).not.toBe(again);
    expect(ask({ query: "kiwi", topicKey: "fruit", preferSessionId: "s-2" }).memories[0]!.id).toBe(topic);
  });

  test("orders turns by words, by vector and by both", () => {
    append("s-1", "the kiwi is ripe", vector(1, 0));
    append("s-2", "the kiwi is ripe", vector(1, 0.1));
    append("s-3", "the kiwi is ripe", vector(1, 0.2));
    for (const way of [
      { query: "kiwi" },
      { embedding: vector(1, 0) },
      { query: "kiwi", embedding: vector(1, 0) },
    ] as const) {
      expect(turns({ ...way, preferSessionId: "s-2", k: 1 }), JSON.stringify(way)).toEqual(["s-2/1"]);
      expect(turns({ ...way, preferSessionId: "s-2" })).toHaveLength(3);
    }
    expect(turns({ embedding: vector(1, 0) })).toEqual(["s-1/1", "s-2/1", "s-3/1"]);
  });
});

describe("counts by type", () => {
  beforeEach(() => {
    say(...Array.from({ length: 80 }, (_, at) => ({ summary: `kiwi ${at}`, embedding: vector(1, at / 1000) })));
    for (const at of [1, 2, 3]) say({ type: "fact", summary: `a kiwi as a fact ${at}`, embedding: vector(1, at) });
    say({ type: "task", summary: "some day buy a kiwi on the way home from work" });
    say({ type: "instruction", summary: "never speak of kiwi" });
  });

  const types = (input: RecallInput): string[] => ask(input).memories.map(({ type }) => type);
  const counted = (input: RecallInput): object =>
    Object.fromEntries(
      Object.entries(Object.groupBy(types(input), (type) => type)).map(([type, all]) => [type, all!.length]),
    );

  test("each type is filled to its own, however many of another match better; others are not given", () => {
    expect(counted({ query: "kiwi", kPerType: { event: 2, fact: 2, task: 5 } })).toEqual({
      event: 2,
      fact: 2,
      task: 1,
    });
    expect(counted({ query: "kiwi", kPerType: { event: 60 } })).toEqual({ event: 60 });
    expect(counted({ query: "kiwi", kPerType: { event: 1 } })).toEqual({ event: 1 });
    expect(counted({ query: "kiwi", kPerType: { event: 2, task: 1 }, types: ["task", "fact"] })).toEqual({ task: 1 });
  });

  test.each<RecallInput>([{ query: "kiwi" }, { embedding: vector(1, 0) }, { query: "kiwi", embedding: vector(1, 0) }])(
    "what is given of a type is what a recall of it alone gives, the most relevant of all first: %o",
    (asked) => {
      const { memories } = ask({ ...asked, kPerType: { event: 3, fact: 2, task: 1 } });
      const alone = Object.entries({ event: 3, fact: 2, task: 1 }).flatMap(([type, k]) =>
        ask({ ...asked, types: [type], k }).memories.map(({ id }) => id),
      );
      expect(memories.map(({ id }) => id).toSorted()).toEqual(alone.toSorted());
      const scores = memories.map(({ score }) => score!);
      expect(scores).toEqual(scores.toSorted((left, right) => right - left));
      const first = ask({ ...asked, kPerType: { event: 3, fact: 2, task: 1 }, k: 2 }).memories;
      expect(first).toEqual(memories.slice(0, 2));
    },
  );

  test("a topic, an explanation and turns go with it", () => {
    say({ type: "fact", summary: "pear", topicKey: "fruit" });
    append("s", "kiwi");
    const { memories, turns: said } = ask({
      query: "kiwi",
      topicKey: "fruit",
      kPerType: { fact: 2, task: 1 },
      explain: true,
      searchTurns: true,
    });
    expect(memories.map(({ type, channels }) => [type, channels])).toEqual([
      ["fact", ["topic"]],
      ["fact", ["keyword"]],
      ["task", ["keyword"]],
    ]);
    expect(memories[2]!.explain).toMatchObject({ matchedTerms: ["kiwi"], coverage: 1 });
    expect(said).toHaveLength(1);
  });
});

describe("validation", () => {
  test.each<[string, RecallInput]>([
    ["since must be before until", { query: "x", createdFromMs: 5, createdToMs: 5 }],
    ["since must be a time", { query: "x", createdFromMs: -1 }],
    ["until must be a time", { query: "x", createdToMs: 0.5 }],
    ["prefer_session_id", { query: "x", preferSessionId: "" }],
    ["prefer_session_id", { query: "x", preferSessionId: "x".repeat(limits.sessionIdBytesMax + 1) }],
    ["k_per_type must name", { query: "x", kPerType: {} }],
    ["k_per_type.fact must be a whole number from 1", { query: "x", kPerType: { fact: 0 } }],
    ["k_per_type.task", { query: "x", kPerType: { fact: 1, task: 1.5 } }],
  ])("refused, and what is wrong is said: %s", (message, input) => {
    expect(() => checkRecall(input)).toThrow(ServiceError);
    expect(() => checkRecall(input)).toThrow(new RegExp(`^${message}`));
  });
});
