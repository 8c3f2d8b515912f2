/** Long memories are judged by their best passage, not by all the words that they hold somewhere. */
import { afterEach, beforeEach, expect, test } from "vitest";
import { limits } from "../../../../src/base/limits.ts";
import { ingest } from "../../../../src/model/memory/memory-ingest.ts";
import { recall, type RecallInput } from "../../../../src/model/recall.ts";
import { ModelDatabase } from "../../../support/model-database.ts";

let database: ModelDatabase;

beforeEach(() => {
  database = new ModelDatabase();
});

afterEach(() => database.close());

function say(summary: string, content: string): void {
  database.write((tx) => ingest(tx, { memories: [{ type: "event", summary, content: JSON.stringify(content) }] }));
}
const found = (input: RecallInput) => recall(database.view(), { explain: true, ...input }).memories;
const filler = (words: number): string => "and then they talked about something else ".repeat(words / 7);

test("where words meet comes before where they are scattered, whichever was said last", () => {
  for (const [first, second] of [
    ["met", "scattered"],
    ["scattered", "met"],
  ] as const) {
    for (const kind of [first, second]) {
      const text =
        kind === "met"
          ? `${filler(210)} the grey parrot escaped through the window ${filler(210)}`
          : `grey ${filler(140)} parrot ${filler(140)} escaped ${filler(140)} window`;
      say(`${kind} after ${first}`, text);
    }
    expect(
      found({ query: "grey parrot escaped window" })
        .filter(({ summary }) => summary.endsWith(first))
        .map(({ summary }) => summary)[0],
    ).toBe(`met after ${first}`);
  }
});

test("the coverage is that of one passage, to which summary and topic belong; forms of a word count", () => {
  say("about parrots", `${filler(70)} it was escaping ${filler(140)} by the window`);
  const [memory] = found({ query: "parrot escapes", minScore: { keyword: 1 } });
  expect(memory!.explain).toMatchObject({ matchedTerms: ["parrot", "escapes"], coverage: 1 });
  expect(found({ query: "parrot escapes window", minScore: { keyword: 1 } })).toEqual([]);
  expect(found({ query: "parrot escapes window", minScore: { keyword: 0.5 } })).toHaveLength(1);
});

test("scattered words do not open the gate", () => {
  for (let at = 0; at < 30; at++) say(`note ${at}`, `the weekly report of team ${at} was sent`);
  const rare = ["zebra", "quince", "harbour", "violin", "glacier", "saffron"];
  say("a long evening", rare.map((word) => `${word} ${filler(140)}`).join(" "));
  expect(found({ query: `${rare.join(" ")} unknownone unknowntwo` })).toEqual([]);
  expect(found({ query: "zebra unknownone" })).toHaveLength(1);
});

test("marks that a text brings itself change nothing, and unspaced scripts have passages too", () => {
  say("odd", `\u0001nothing\u0002 ${filler(140)} heron \u0001`);
  expect(found({ query: "heron" }).map(({ summary }) => summary)).toEqual(["odd"]);
  say(
    "猫",
    `${"これはとても長い文章です。".repeat(40)}東京の公園で灰色の猫を見た。${"これはとても長い文章です。".repeat(40)}`,
  );
  expect(found({ query: "公園で灰色の猫" })[0]!.explain!.coverage).toBe(1);
});

test("what is too much text to be looked into is not lost", () => {
  const long = `heron ${filler(9_000)}`.slice(0, limits.indexedTextBytesMax - 1_000);
  for (let at = 0; at < 20; at++) say(`long ${at}`, long);
  expect(found({ query: "heron", k: 100 })).toHaveLength(20);
});
