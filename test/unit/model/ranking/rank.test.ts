/** What the ranking by words weighs, over a real index: length, pairs, neighbours, names, typing errors. */
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { ingest, type MemoryInput } from "../../../../src/model/memory/memory-ingest.ts";
import { isOneEdit } from "../../../../src/model/ranking/typos.ts";
import { recall, type RecallInput } from "../../../../src/model/recall.ts";
import { ModelDatabase } from "../../../support/model-database.ts";

let database: ModelDatabase;

beforeEach(() => {
  database = new ModelDatabase();
});

afterEach(() => database.close());

const say = (...drafts: (Partial<MemoryInput> & { summary: string })[]): void => {
  const memories = drafts.map((draft) => ({ type: "event", content: "null", ...draft }));
  database.write((tx) => ingest(tx, { memories }));
};
const fact = (summary: string, keywords: string): Partial<MemoryInput> & { summary: string } => ({
  type: "fact",
  summary,
  keywords,
});
const found = (query: string, more: Partial<RecallInput> = {}): string[] =>
  recall(database.view(), { query, ...more }).memories.map(({ summary }) => summary);
const crowd = Array.from({ length: 600 }, (_, at) => ({ summary: `note ${at} of the weekly report about team ${at}` }));

describe("the order", () => {
  test("a short question comes before the long answer that repeats its words", () => {
    const filler = "and further on there was much else to be said about it ".repeat(40);
    say(
      ...crowd,
      { summary: "how do I prune the old apple tree" },
      { summary: "long", content: JSON.stringify(`to prune an old apple tree prune the apple tree ${filler}`) },
    );
    expect(found("prune apple tree")[0]).toBe("how do I prune the old apple tree");
  });

  test("words that stand together come before the same words apart", () => {
    say(
      ...crowd,
      { summary: "the green table stands by the window of the house" },
      { summary: "the green window stands by the side of the old and rather long table" },
    );
    expect(found("green table")[0]).toBe("the green table stands by the window of the house");
  });

  test("an event comes with those beside it in its session, a fact does not", () => {
    say(
      ...crowd,
      { summary: "what is your favourite instrument", sessionId: "s" },
      { summary: "the cello of course", sessionId: "s" },
      { summary: "nothing near", sessionId: "t" },
    );
    expect(found("favourite instrument")).toEqual(["what is your favourite instrument", "the cello of course"]);
    expect(found("favourite instrument", { types: ["fact"] })).toEqual([]);
  });

  test("who is asked about comes first", () => {
    say(
      ...crowd,
      { summary: "I adopted a parrot", source: "Mia" },
      { summary: "I adopted a parrot too", source: "Leo" },
    );
    expect(found("did Leo adopt a parrot")[0]).toBe("I adopted a parrot too");
    expect(found("did Mia adopt a parrot")[0]).toBe("I adopted a parrot");
  });
});

describe("in a small store", () => {
  beforeEach(() => {
    say(
      fact("Services run in the Frankfurt cluster", "kubernetes, kube, pods"),
      fact("Logs are kept for thirty days", "loki, logging"),
      fact("The team meets every Tuesday", "standup, meeting"),
    );
  });

  test("an alias among filler is evidence by itself, and two of them are", () => {
    expect(found("ok so I was thinking maybe we move that thing to kube next week")).toEqual([
      "Services run in the Frankfurt cluster",
    ]);
    expect(found("maybe the pods are why so little of it can be found in loki since yesterday").sort()).toEqual([
      "Logs are kept for thirty days",
      "Services run in the Frankfurt cluster",
    ]);
  });

  test("one letter mistyped finds what is meant, and only when nothing else does", () => {
    expect(found("is kubernetse down")).toEqual(["Services run in the Frankfurt cluster"]);
    expect(recall(database.view(), { query: "kubermetes", explain: true }).memories[0]!.explain!.matchedTerms).toEqual([
      "kubermetes",
    ]);
    expect(found("kubermetes", { minScore: { keyword: 0 } })).toEqual([]);
    expect(found("loki or kubermetes")).toEqual(["Logs are kept for thirty days"]);
    expect(found("pobs")).toEqual([]);
  });

  test("common words find nothing", () => {
    for (const query of ["can you keep it short please", "what are we going to do next", "thanks a lot"])
      expect(found(query), query).toEqual([]);
  });
});

test("one edit is a letter more, less, other or swapped", () => {
  for (const [left, right] of [
    ["cable", "cables"],
    ["cable", "able"],
    ["cable", "table"],
    ["cable", "cbale"],
  ] as const)
    expect([isOneEdit(left, right), isOneEdit(right, left)]).toEqual([true, true]);
  for (const [left, right] of [
    ["cable", "cable"],
    ["cable", "tables"],
    ["cable", "bacle"],
    ["cable", "cabless"],
  ] as const)
    expect(isOneEdit(left, right)).toBe(false);
});
