/** What an answer of a recall says beside what it found: near misses, why it is empty, which memory holds now. */
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { ingest, type MemoryInput } from "../../../src/model/memory/memory-ingest.ts";
import { deleteMemory } from "../../../src/model/memory/stored-memories.ts";
import { checkRecall, recall, type RecallInput } from "../../../src/model/recall.ts";
import { nearMissesMax } from "../../../src/model/recall-misses.ts";
import { ModelDatabase } from "../../support/model-database.ts";

let database: ModelDatabase;

beforeEach(() => {
  database = new ModelDatabase();
});

afterEach(() => database.close());

const vector = (...values: number[]): Float32Array => Float32Array.from(values);
const embeddedBy = { name: "model", floor: 0.5 };
/** A unit vector at this cosine from (1, 0). */
const at = (cosine: number): Float32Array => vector(cosine, Math.sqrt(1 - cosine ** 2));
const near = { embedding: vector(1, 0), embeddedBy: embeddedBy.name };

function say(...drafts: (Partial<MemoryInput> & { summary: string })[]): string[] {
  const memories = drafts.map((draft) => ({ type: "event", content: "null", ...draft }));
  return database.write((tx) => ingest(tx, { memories })).results.map(({ id }) => id);
}

function ask(input: RecallInput): ReturnType<typeof recall> {
  checkRecall(input);
  return recall(database.view(), input);
}

const reason = (input: RecallInput): string | undefined => ask(input).emptyReason;
const misses = (input: RecallInput) => ask({ ...input, explain: true }).nearMisses!;
const why = (input: RecallInput, id: string): readonly string[] =>
  misses(input)
    .filter((one) => one.id === id)
    .flatMap(({ reasons }) => reasons.map((bar) => bar.reason));

const long = "which of the colleagues repaired the espresso machine in the basement kitchen last Wednesday evening";
const crowd = (count = 600) =>
  Array.from({ length: count }, (_, index) => ({ summary: `note ${index} of the weekly report about team ${index}` }));

describe("why an answer is empty", () => {
  test("nothing is stored, or nothing that is visible", () => {
    expect(reason({ query: "kiwi" })).toBe("nothing_stored");
    say({ type: "task", summary: "buy kiwi", ttlSecs: 60 });
    expect(reason({ query: "kiwi" })).toBeUndefined();
    database.nowMs += 60_000;
    expect(reason({ query: "kiwi" })).toBe("nothing_stored");
  });

  test("nothing matches, on any channel", () => {
    say({ summary: "a parrot escaped", type: "fact", topicKey: "pets" });
    expect(reason({ query: "submarine" })).toBe("no_match");
    expect(reason({ query: "???" })).toBe("no_match");
    expect(reason({ topicKey: "ui" })).toBe("no_match");
    expect(reason({ embedding: vector(1, 0) })).toBe("no_match");
    expect(reason({ query: "parrot" })).toBeUndefined();
  });

  test.each<[string, Partial<RecallInput>]>([
    ["types", { types: ["task"] }],
    ["no types", { types: [] }],
    ["session_id", { sessionId: "other" }],
    ["source", { source: "other" }],
    ["since", { createdFromMs: 1_700_000_000_001 }],
    ["until", { createdToMs: 1_700_000_000_000 }],
    ["filter", { filter: '{"a":1}' }],
    ["k_per_type", { kPerType: { task: 3 } }],
    ["k_per_type and types", { kPerType: { task: 3 }, types: ["fact"] }],
  ])("what matches was filtered out: by %s", (_, filter) => {
    say({ summary: "a parrot escaped", type: "fact", topicKey: "pets", embedding: vector(1, 0), sessionId: "s" });
    for (const asked of [{ query: "parrot" }, { topicKey: "pets" }, { embedding: vector(1, 0) }]) {
      expect(reason(asked)).toBeUndefined();
      expect(reason({ ...asked, ...filter })).toBe("filtered_out");
    }
    expect(reason({ query: "submarine", ...filter })).toBe("no_match");
  });

  test("superseded memories count as filtered out, expired ones as not there at all, swept or not", () => {
    say({ summary: "prefers dark mode", type: "fact", topicKey: "ui" });
    say({ summary: "prefers light colours", type: "fact", topicKey: "ui" });
    expect(reason({ query: "dark" })).toBe("filtered_out");
    expect(reason({ query: "dark", includeSuperseded: true })).toBeUndefined();
    say({ type: "task", summary: "buy kiwi", ttlSecs: 60 });
    expect(reason({ query: "kiwi", types: ["fact"] })).toBe("filtered_out");
    database.nowMs += 60_000;
    expect(reason({ query: "kiwi", types: ["fact"] })).toBe("no_match");
    expect(reason({ query: "kiwi" })).toBe("no_match");
  });

  test("something passed the filters and stayed below the gate, the floor, or min_score", () => {
    say(...crowd(), { summary: "the espresso tastes fine", embedding: at(0.1) });
    expect(reason({ query: long })).toBe("below_gate");
    expect(reason({ embedding: vector(1, 0) })).toBe("below_gate");
    expect(reason({ query: "espresso Wednesday", minScore: { keyword: 0.9 } })).toBe("below_gate");
    expect(reason({ query: "espresso Wednesday" })).toBeUndefined();
  });

  test("words were enough and the vectors speak against them", () => {
    say({ summary: "a parrot escaped", embedding: at(0.1), embeddedBy });
    expect(reason({ query: "parrot", ...near })).toBe("vetoed");
    expect(reason({ query: "submarine", ...near })).toBe("below_gate");
  });

  test("only a vector was asked for, and it cannot be compared", () => {
    say({ summary: "a parrot escaped", embedding: vector(1, 0) });
    expect(ask({ embedding: vector(1, 0, 0) })).toMatchObject({
      embedding: "skipped_dimension",
      emptyReason: "vector_skipped",
    });
    expect(ask({ embedding: vector(1, 0), embeddedBy: "model" })).toMatchObject({
      embedding: "skipped_model",
      emptyReason: "vector_skipped",
    });
    expect(ask({ query: "submarine", embeddedBy: "model" })).toMatchObject({
      embedding: "skipped_model",
      emptyReason: "no_match",
    });
  });
});

describe("near misses", () => {
  test("are given with explain only, in their ids and figures, and the reason of each bar", () => {
    const [, id] = say(...crowd(), { summary: "the espresso tastes fine" }).slice(-2);
    expect(ask({ query: long }).nearMisses).toBeUndefined();
    const [first] = misses({ query: long });
    expect(first).toEqual({
      id,
      reasons: [{ channel: "keyword", reason: "below_gate", value: expect.any(Number), needed: expect.any(Number) }],
      matchedTerms: ["espresso"],
    });
    const { value, needed } = first!.reasons[0]!;
    expect([value > 0, value < needed]).toEqual([true, true]);
    // Where another one is about the question, the floor is what it stays under.
    say({ summary: long });
    expect(why({ query: long }, id!)).toEqual(["below_floor"]);
    expect(ask({ query: long, explain: true }).emptyReason).toBeUndefined();
  });

  test("say when words tell too little, by themselves or beside the best", () => {
    const [common, parrot] = say({ summary: "the people like good work" }, { summary: "Leo adopted a parrot" });
    expect(why({ query: "what good work did the people do" }, common!)).toEqual(["too_common"]);
    expect(why({ query: "who adopted parrot Leo at work with good people" }, common!)).toEqual(["drop_off"]);
    expect(why({ query: "who adopted parrot Leo at work with good people" }, parrot!)).toEqual([]);
  });

  test("say when vectors are below the floor, when they veto, and both of what missed both ways", () => {
    const [far, odd] = say(
      { summary: "a parrot escaped", embedding: at(0.2), embeddedBy },
      { summary: "the kettle is blue", embedding: at(0.1), embeddedBy },
    );
    expect(misses(near)).toEqual([
      {
        id: far,
        reasons: [
          { channel: "vector", reason: "vector_below_floor", value: expect.closeTo(0.2, 5), needed: embeddedBy.floor },
        ],
        matchedTerms: [],
      },
      expect.objectContaining({ id: odd }),
    ]);
    expect(misses({ query: "parrot", ...near })[0]).toEqual({
      id: far,
      reasons: [
        { channel: "keyword", reason: "vetoed", value: expect.closeTo(0.2, 5), needed: expect.closeTo(0.3, 5) },
        {
          channel: "vector",
          reason: "vector_below_floor",
          value: expect.closeTo(0.2, 5),
          needed: embeddedBy.floor,
        },
      ],
      matchedTerms: ["parrot"],
    });
    expect(why({ query: "parrot escaped", ...near, minScore: { keyword: 1, vector: 0.9 } }, odd!)).toEqual([
      "vector_below_floor",
    ]);
  });

  test("hold no hit, nothing that is filtered out, and no more than the bound", () => {
    say(...crowd(20).map((one) => ({ ...one, embedding: at(0.1) })), { summary: "near", embedding: at(0.9) });
    expect(misses({ embedding: vector(1, 0) })).toHaveLength(nearMissesMax);
    expect(misses({ embedding: vector(1, 0), k: 1, minScore: { vector: 0 } })).toEqual([]);
    expect(misses({ embedding: vector(1, 0), types: ["fact"] })).toEqual([]);
    expect(misses({ query: "submarine" })).toEqual([]);
  });
});

describe("what was superseded", () => {
  test("says which memory holds now, at the end of the chain", () => {
    const ids = ["dark", "light", "blue"].map(
      (colour) => say({ type: "fact", topicKey: "ui", summary: `prefers ${colour} mode` })[0]!,
    );
    const [dark, light, blue] = ids;
    say({ type: "instruction", topicKey: "ui", summary: "always use a mode" });
    const told = (input: RecallInput) =>
      new Map(ask(input).memories.map(({ id, supersededBy, currentId }) => [id, [supersededBy, currentId]]));
    for (const asked of [{ topicKey: "ui" }, { query: "prefers mode" }]) {
      const seen = told({ ...asked, includeSuperseded: true });
      expect([dark, light, blue].map((id) => seen.get(id!))).toEqual([
        [light, blue],
        [blue, blue],
        [null, undefined],
      ]);
    }
    expect([...told({ topicKey: "ui" }).values()]).toEqual([
      [null, undefined],
      [null, undefined],
    ]);
    database.write((tx) => deleteMemory(tx, { id: blue! }));
    expect(told({ topicKey: "ui", includeSuperseded: true }).get(light!)).toEqual([blue, undefined]);
  });
});
