/** What models are given to read, and how what they wrote is read: fences, bounds, spellings. */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
  prepareQuestion,
  type KnownMemory,
  askContentBytesMax,
  askMemoriesBytesMax,
} from "../../../src/ai/answering.ts";
import { dataBlock, fenced } from "../../../src/ai/data-block.ts";
import { prepareExtraction, normalizeTopicKey } from "../../../src/ai/extraction.ts";
import { limits } from "../../../src/base/limits.ts";
import { parseBlock } from "../../support/assistant-server.ts";
import { summaryBytesMax } from "../../../src/model/memory/memory-ingest.ts";

function memory(fields: Partial<KnownMemory> = {}): KnownMemory {
  return {
    id: "mem_1",
    type: "fact",
    topicKey: null,
    summary: "s",
    content: "null",
    source: null,
    createdAt: 1_700_000_000_000,
    supersededBy: null,
    ...fields,
  };
}

describe("fences", () => {
  test("whatever JSON is put in one comes out of it, and nothing of it can end it", () => {
    fc.assert(
      fc.property(fc.json(), fc.constantFrom("", "</data>", "<", "&lt;", "\u2028"), (json, tail) => {
        const text = `[${json},${JSON.stringify(tail)}]`;
        const inside = fenced(text);
        expect(inside).not.toMatch(/[<>&\u2028\u2029]/);
        expect(JSON.parse(inside)).toEqual(JSON.parse(text));
        expect(parseBlock(dataBlock("data", inside), "data")).toEqual(JSON.parse(text));
      }),
      { seed: 7 },
    );
  });

  test("a question and its memories stay in theirs, whatever is said in any field", () => {
    const strings = fc.oneof(fc.string({ unit: "binary" }), fc.constantFrom("</memories>", "<question>", '"}]'));
    fc.assert(
      fc.property(strings, strings, strings, (one, two, three) => {
        const said = memory({ summary: one, topicKey: two, source: three, content: JSON.stringify({ [two]: one }) });
        const { task } = prepareQuestion(three, [said], 0);
        expect(task.data.match(/<[^>]*>/g)).toEqual(["<memories>", "</memories>", "<question>", "</question>"]);
        expect(parseBlock(task.data, "memories")).toMatchObject([
          { summary: one.toWellFormed(), topic: two.toWellFormed() },
        ]);
        expect(parseBlock(task.data, "question").asked_at).toBe("1970-01-01T00:00:00.000Z");
      }),
      { seed: 7 },
    );
  });
});

describe("a question", () => {
  test("holds as many memories as fit, in their order, and at least one", () => {
    const largest = memory({
      summary: "<".repeat(summaryBytesMax),
      topicKey: "\u0001".repeat(limits.topicKeyBytesMax),
      source: "<".repeat(limits.sourceBytesMax),
      content: JSON.stringify("\u0001<".repeat(askContentBytesMax)),
    });
    const { task, shown } = prepareQuestion(
      "q",
      Array.from({ length: 9 }, () => largest),
      0,
    );
    expect(shown.length).toBeGreaterThanOrEqual(1);
    expect(shown.length).toBeLessThan(9);
    expect(task.data.length).toBeLessThan(askMemoriesBytesMax + 1_000);
    const many = Array.from({ length: 1_000 }, (_, at) => memory({ id: `mem_${at}`, summary: "x".repeat(1_000) }));
    const most = prepareQuestion("q", many, 0);
    expect(most.shown).toEqual(many.slice(0, most.shown.length));
    expect(parseBlock(most.task.data, "memories").map(({ id }: { id: string }) => id)).toEqual(
      most.shown.map(({ id }) => id),
    );
    expect(most.shown.length).toBeGreaterThan(200);
    expect(most.shown.length).toBeLessThan(260);
  });

  test("tells a content as it is, and the beginning of a longer one", () => {
    const [short, long] = parseBlock(
      prepareQuestion(
        "q",
        [memory({ content: '{"a":[1]}' }), memory({ content: JSON.stringify("😀".repeat(10_000)) })],
        0,
      ).task.data,
      "memories",
    );
    expect(short.content).toEqual({ a: [1] });
    expect(long).not.toHaveProperty("content");
    expect(long.content_begins).toHaveLength(askContentBytesMax);
    expect(long.content_begins.isWellFormed()).toBe(true);
  });

  test("takes an answer of its form only", () => {
    const { read } = prepareQuestion("q", [memory()], 0).task;
    expect(read({ answer: "a", sources: ["mem_1", "mem_2"], more: 1 })).toEqual({ answer: "a", sources: ["mem_1"] });
    for (const wrong of [
      null,
      undefined,
      1,
      [],
      {},
      { answer: "a" },
      { answer: 1, sources: [] },
      { answer: "a", sources: "mem_1" },
      { sources: [] },
    ])
      expect(read(wrong)).toBe(undefined);
  });
});

describe("an extraction", () => {
  test("takes a list of proposals only, and tells what in it is none", () => {
    const { read } = prepareExtraction([{ role: "user", content: '"x"' }]);
    for (const wrong of [null, [], {}, { memories: {} }, { memories: "none" }]) expect(read(wrong)).toBe(undefined);
    expect(read({ memories: [null, { type: "fact", summary: " s ", turns: ["1", 1, 2] }] })).toEqual({
      proposals: [
        { type: "fact", summary: "s", topicKey: undefined, keywords: undefined, detail: undefined, turns: [0] },
      ],
      misfits: 1,
    });
  });

  test.each([
    ["user.city", "user.city"],
    ["User City", "user.city"],
    ["userCity", "user.city"],
    ["user_city", "user.city"],
    ["..user--city..", "user.city"],
    ["user/city:home", "user.city.home"],
    ["HTTP status", "http.status"],
    ["項目.期限", "項目.期限"],
    ["Straße", "straße"],
    ["ｕｓｅｒ．ｃｉｔｙ", "user.city"],
    ["phase2Goal", "phase2.goal"],
    ["", undefined],
    [" - ", undefined],
  ])("the topic %j is %j", (text, key) => {
    expect(normalizeTopicKey(text)).toBe(key);
    if (key !== undefined) expect(normalizeTopicKey(key)).toBe(key);
  });

  test("a topic's spelling is the spelling of itself", () => {
    fc.assert(
      fc.property(
        fc.string({ unit: "binary" }),
        (text) => void expect(normalizeTopicKey(normalizeTopicKey(text) ?? "")).toBe(normalizeTopicKey(text)),
      ),
      { seed: 7, numRuns: 2_000 },
    );
  });
});
