/** Words are cut and stemmed as FTS5 does it: compared with its own vocabulary. */
import Database from "better-sqlite3";
import { expect, test } from "vitest";
import { stemWord } from "../../../../src/model/text/porter.ts";
import { eachWord, indexForm, WordFinder } from "../../../../src/model/text/tokens.ts";
import { foldText, tokenizer } from "../../../../src/model/text/words.ts";

/** The words that FTS5 holds of each text. */
function indexed(texts: readonly string[]): string[][] {
  const database = new Database(":memory:");
  database.exec(`CREATE VIRTUAL TABLE t USING fts5 (x, tokenize = "${tokenizer}")`);
  database.exec("CREATE VIRTUAL TABLE v USING fts5vocab (t, instance)");
  const insert = database.prepare("INSERT INTO t (rowid, x) VALUES (?, ?)");
  database.transaction(() => texts.forEach((text, at) => insert.run(at, text)))();
  const words: string[][] = texts.map(() => []);
  for (const { term, doc } of database.prepare("SELECT term, doc FROM v ORDER BY doc, offset").all() as any[])
    words[doc]!.push(term);
  database.close();
  return words;
}

const suffixes = `
  ational tional enci anci izer logi bli alli entli ousli eli ization ation ator alism iveness fulness ousness
  aliti iviti biliti ical ness icate iciti ful ative alize al ance ence er ic able ible ant ement ment ent ion
  ou ism ate iti ous ive ize s es ies sses ed eed ing y e ll tion sion`
  .trim()
  .split(/\s+/);
const roots =
  "a b tr rel cond val cont happ fall hiss fizz fail fil ag plast mot y sky by oed quick ab abl relat hope hop".split(
    " ",
  );

test("stems are FTS5's, whatever endings meet", () => {
  const words = roots.flatMap((root) =>
    suffixes.flatMap((ending) => [root + ending, ...suffixes.map((other) => root + ending + other)]),
  );
  const stems = indexed(words);
  expect(words.filter((word, at) => stemWord(word) !== stems[at]![0])).toEqual([]);
  for (const long of ["é".repeat(32) + "ing", "x".repeat(61) + "ing", "x".repeat(62) + "ing", "дом" + "ness"])
    expect([indexForm(foldText(long))]).toEqual(indexed([foldText(long)])[0]);
});

/** FTS5's older tables cut these, or know them as something else. */
const exceptionsMax = 20;

test("letters of all scripts are the words that FTS5 makes of them", () => {
  const letters = Array.from({ length: 0x2f80 }, (_, at) => String.fromCodePoint(at + 0x80)).filter((letter) =>
    /[\p{L}\p{M}\p{N}\p{Co}]/u.test(letter),
  );
  const texts = letters.map((letter) => foldText(`ab${letter}cd`));
  const held = indexed(texts);
  const own = texts.map((text) => {
    const words: string[] = [];
    eachWord(text, (start, end) => words.push(indexForm(text.slice(start, end))));
    return words;
  });
  expect(letters.length).toBeGreaterThan(7_000);
  expect(letters.filter((_, at) => own[at]!.join(" ") !== held[at]!.join(" ")).length).toBeLessThan(exceptionsMax);
});

test("a finder gives the places of the words it knows, in whatever form they stand", () => {
  const finder = new WordFinder(["run", "cafe"], (form) => ({ run: 0, cafe: 1 })[form]);
  expect(finder.places("Running, to the RUNS of a cafe")).toEqual({
    places: [
      { key: 0, offset: 0, ordinal: 0 },
      { key: 0, offset: 16, ordinal: 3 },
      { key: 1, offset: 26, ordinal: 6 },
    ],
    words: 7,
  });
  expect(finder.places(foldText("Le Café")).places).toEqual([{ key: 1, offset: 3, ordinal: 1 }]);
  expect(finder.places("")).toEqual({ places: [], words: 0 });
});
