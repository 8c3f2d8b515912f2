/** The words of a question, the memories that they find, and the order of these. */
import fc from "fast-check";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { limits } from "../../../../src/base/limits.ts";
import { ingest, type MemoryInput } from "../../../../src/model/memory/memory-ingest.ts";
import { deleteMemory } from "../../../../src/model/memory/stored-memories.ts";
import { recall } from "../../../../src/model/recall.ts";
import { foldText, indexedText, queryTerms, recallTermsMax } from "../../../../src/model/text/words.ts";
import { memoryWords } from "../../../../src/model/memory/keyword.ts";
import { searchedWords } from "../../../../src/model/ranking/pending-index.ts";
import { ModelDatabase } from "../../../support/model-database.ts";

let database: ModelDatabase;

beforeEach(() => {
  database = new ModelDatabase();
});

afterEach(() => database.close());

const say = (summary: string, more: Partial<MemoryInput> = {}): string =>
  database.write((tx) => ingest(tx, { memories: [{ type: "event", summary, content: "null", ...more }] })).results[0]!
    .id;
const find = (query: string, k = 8): string[] =>
  recall(database.view(), { query, k }).memories.map(({ summary }) => summary);
const words = (query: string): string[] => queryTerms(query).map(({ word }) => word);

test("a search of much looks at the time between its pieces, and ends where that throws", () => {
  const memories = Array.from({ length: 6_000 }, (_, at): MemoryInput => {
    return { type: "event", summary: `the harbour report of day ${at}`, content: "null" };
  });
  for (let from = 0; from < memories.length; from += 500)
    database.write((tx) => ingest(tx, { memories: memories.slice(from, from + 500) }));
  let looks = 0;
  const search = (look: () => void) =>
    database.connection.lookingAt(look, () => recall(database.view(), { query: "harbour report", k: 1_000 }));
  expect(search(() => looks++).memories).toHaveLength(1_000);
  // Of 1,250 rows that are read 16 at a time, and of the windows in which 6,000 are summed.
  expect(looks).toBeGreaterThan(80);
  const late = looks - 10;
  let count = 0;
  const stop = (): void => {
    if (++count === late) throw new Error("the time is up");
  };
  expect(() => search(stop)).toThrow("the time is up");
});

describe("words of a question", () => {
  test("stop words go, unless nothing else remains", () => {
    expect(words("What is the user's favourite colour?")).toEqual(["user", "favourite", "colour"]);
    expect(words("what is it")).toEqual(["what", "is", "it"]);
    expect(words("Red red RED")).toEqual(["red"]);
    expect(words("?! …")).toEqual([]);
  });

  test("compatibility forms are one, marks stay with their letters", () => {
    expect(words("ﬁne Ｆｕｌｌ １２")).toEqual(["fine", "full", "12"]);
    expect(words("हिन्दी")).toEqual(["हिन्दी"]);
    expect(foldText("مُحَمَّد")).toBe("محمد");
  });

  test("unspaced scripts become pairs, beside other scripts too", () => {
    expect(words("東京都2020年のAPI")).toEqual(["東京", "京都", "2020", "年の", "api"]);
    expect(queryTerms("猫")).toEqual([{ word: "猫", match: '"猫"*', isPair: false }]);
    expect(words("ภาษาไทย").length).toBeGreaterThan(2);
  });

  test("at most the limit of terms", () => {
    expect(words(Array.from({ length: 200 }, (_, at) => `w${at}`).join(" "))).toHaveLength(recallTermsMax);
  });

  test("the indexed text is cut at a whole character", () => {
    const cut = indexedText("éж𐐀".repeat(20_000));
    expect(Buffer.byteLength(cut)).toBeLessThanOrEqual(limits.indexedTextBytesMax);
    expect(Buffer.byteLength(cut)).toBeGreaterThan(limits.indexedTextBytesMax - 4);
    expect(cut.isWellFormed()).toBe(true);
    expect(indexedText("short")).toBe("short");
    expect(Buffer.byteLength(indexedText("ﷺ".repeat(30_000)))).toBeLessThanOrEqual(limits.indexedTextBytesMax);
  });
});

describe("finding", () => {
  test("memory-04: summary, keywords, topic, text leaves of the content, source and month are found", () => {
    say("unrelated filler about gardens");
    say("the memory", {
      type: "fact",
      topicKey: "ui.theme_choice",
      keywords: "palette",
      content: '{"deep":[{"note":"otter"}],"walnut":1}',
      source: "planner",
    });
    for (const query of ["memory", "palette", "theme", "otters", "planner"])
      expect(find(query)).toEqual(["the memory"]);
    expect(find("walnut")).toEqual([]);
    expect(find("November 2023")).toHaveLength(2);
  });

  test("word forms and diacritics are one", () => {
    say("Running the cafés of Zürich");
    for (const query of ["runs", "CAFÉ", "cafe", "zurich"]) expect(find(query)).toHaveLength(1);
  });

  test.each([
    ["Japanese", "私は東京で猫を飼っています", ["東京", "猫", "東京に猫"], ["大阪"]],
    ["Chinese", "用户喜欢深色模式", ["深色", "喜欢深色", "深"], ["浅蓝"]],
    ["Korean", "서울에서 만났다", ["서울", "만났다"], ["부산"]],
    ["Thai", "ฉันชอบกินข้าวผัด", ["ข้าวผัด", "กินข้าว"], ["รถไฟ"]],
    ["Khmer", "ខ្ញុំចូលចិត្តកាហ្វេ", ["កាហ្វេ"], ["សៀវភៅ"]],
    ["Hindi", "मुझे हिन्दी पसंद है", ["हिन्दी"], ["अंग्रेज़ी"]],
    ["Arabic", "أحب القهوة السوداء", ["القَهْوَة"], ["الشاي"]],
    ["Greek", "Προτιμά τον καφέ", ["καφέ", "ΚΑΦΈ"], ["τσάι"]],
  ])("%s is found by its words and not by others", (_, summary, hits, misses) => {
    say(summary);
    say("something else in English");
    for (const query of hits) expect(find(query), query).toEqual([summary]);
    for (const query of misses) expect(find(query), query).toEqual([]);
  });

  test("topic and keywords weigh more than the summary, the summary more than the content", () => {
    for (let at = 0; at < 20; at++) say(`padding number ${at} of the shelf`);
    say("in content shelf", { content: '"zebra crossing lines"' });
    say("zebra crossing lines shelf", { content: '"in summary"' });
    say("in keywords shelf", { keywords: "zebra", content: '"crossing lines"' });
    expect(find("zebra")).toEqual(["in keywords shelf", "zebra crossing lines shelf", "in content shelf"]);
  });

  test("memory-29: operators and quotes are plain words, whatever they are", () => {
    say("deploy the service near port eighty");
    for (const query of [
      'deploy AND NOT "service',
      "deploy* OR (service",
      "topic:deploy",
      "NEAR(deploy service)",
      "^deploy + {",
      "deploy -service \0",
      "\ud800deploy",
    ]) {
      expect(find(query), query).toHaveLength(1);
    }
    fc.assert(
      fc.property(fc.string({ unit: "binary", maxLength: 60 }), (noise) => {
        expect(find(`deploy "${noise}`).length).toBeLessThanOrEqual(1);
      }),
      { numRuns: 200 },
    );
  });

  test("whatever was said is found again by its own words", () => {
    fc.assert(
      fc.property(
        fc.string({ unit: "grapheme", minLength: 1, maxLength: 40 }).filter((text) => /\p{L}/u.test(text)),
        (text) => {
          const summary = `${text} mark`;
          const id = say(summary);
          const found = recall(database.view(), { query: summary, k: 1000 }).memories.map((memory) => memory.id);
          database.write((tx) => deleteMemory(tx, { id }));
          expect(found).toContain(id);
        },
      ),
      { numRuns: 100 },
    );
  });
});

describe("the gate", () => {
  test("memory-07: a question about something else finds nothing, one about something here does", () => {
    for (let at = 0; at < 30; at++) say(`note ${at}: the weekly report of team ${at % 3} was sent`);
    say("Mia adopted a grey parrot called Pico");
    expect(find("what colour is Mia's parrot")).toEqual(["Mia adopted a grey parrot called Pico"]);
    expect(find("flibbertigibbet quantum zymurgy")).toEqual([]);
    expect(find("which team won the football championship in Uruguay")).toEqual([]);
  });

  test("in a database of one memory a question with one unknown word is still answered", () => {
    say("User prefers dark mode");
    expect(find("dark theme")).toHaveLength(1);
    expect(find("capital city of France")).toEqual([]);
  });

  test("a floor on the request takes its place", () => {
    say("alpha beta gamma delta");
    say("alpha only");
    const least = (keyword: number): number =>
      recall(database.view(), { query: "alpha beta gamma delta", minScore: { keyword } }).memories.length;
    expect([least(0), least(0.5), least(1)]).toEqual([2, 1, 1]);
  });

  test("words that are hidden by a filter do not open it", () => {
    say("kiwi mango papaya lychee", { source: "a" });
    say("kiwi mango papaya lychee harvest of the year", { type: "fact", topicKey: "t", source: "b" });
    say("lychee", { source: "c", content: '"entirely different text about boats and harbours"' });
    expect(recall(database.view(), { query: "kiwi lychee guava", source: "c" }).memories).toEqual([]);
    expect(recall(database.view(), { query: "kiwi lychee guava" }).memories.length).toBeGreaterThan(1);
  });
});

describe("a filter that few rows pass", () => {
  test("crowds out neither what holds little of the question and is called by its name, nor what holds enough", () => {
    const question = "so I was thinking about moving that old harbour crane thing to kube next week maybe";
    const memories = Array.from({ length: 2_500 }, (_, at) => ({
      type: "event",
      summary: `thinking about moving the old harbour crane ${at}`,
      content: "{}",
    }));
    const own = { type: "fact", content: "{}", metadata: '{"own":true}' };
    database.write((tx) =>
      ingest(tx, {
        memories: [
          { ...own, summary: "Deployments run on the cluster in Oslo", keywords: "kube" },
          { ...own, summary: "the harbour crane was sold" },
          ...memories,
        ],
      }),
    );
    const input = { query: question, filter: '{"own":true}' };
    expect(recall(database.view(), input).memories.map(({ summary }) => summary)).toEqual(
      expect.arrayContaining(["Deployments run on the cluster in Oslo"]),
    );
    expect(recall(database.view(), { ...input, query: "who sold the harbour crane" }).memories[0]?.summary).toBe(
      "the harbour crane was sold",
    );
  });
});

describe("the index", () => {
  test("is written in the order of the commands of a group, also when a row number comes back", () => {
    const outcomes = database.group<unknown>(
      (tx) => ingest(tx, { memories: [{ type: "event", summary: "first sparrow", content: "null" }] }).results[0]!.id,
      (tx) => deleteMemory(tx, { id: tx.connection.get<{ id: string }>("SELECT id FROM __service_memory")!.id }),
      (tx) => ingest(tx, { memories: [{ type: "event", summary: "second falcon", content: "null" }] }).results[0]!.id,
      () => {
        throw new Error("fails alone");
      },
    );
    expect(outcomes.map(({ kind }) => kind)).toEqual(["done", "done", "done", "failed"]);
    expect(find("sparrow")).toEqual([]);
    expect(find("falcon")).toEqual(["second falcon"]);
    expect(searchedWords(database.connection, memoryWords).firstRows(9)).toHaveLength(1);
  });

  test("keeps no word of what was forgotten in its pages", () => {
    const ids = Array.from({ length: 200 }, (_, at) => say(`common words here and the token secretword${at}x`));
    for (const id of ids.slice(0, 100)) database.write((tx) => deleteMemory(tx, { id }));
    database.connection.exec("INSERT INTO __service_memory_text (__service_memory_text) VALUES ('integrity-check')");
    const terms = database.connection
      .all<{ block: Uint8Array }>("SELECT block FROM __service_memory_text_data")
      .map(({ block }) => Buffer.from(block).toString("latin1"))
      .join();
    expect(terms).toContain("secretword");
    expect(find("secretword150x")).toHaveLength(1);
    for (let at = 0; at < 100; at++) expect(find(`secretword${at}x`)).toEqual([]);
    database.connection.exec("CREATE VIRTUAL TABLE temp.vocabulary USING fts5vocab (main, __service_memory_text, row)");
    const kept = database.connection
      .all<{ term: string }>("SELECT term FROM temp.vocabulary WHERE term LIKE 'secretword%'")
      .map(({ term }) => term);
    // The last eight wait to be entered.
    expect(kept.sort()).toEqual(Array.from({ length: 92 }, (_, at) => `secretword${at + 100}x`).sort());
  });
});
