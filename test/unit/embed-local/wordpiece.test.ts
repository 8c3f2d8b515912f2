/** The tokenizer against what the published one made of the same texts (test/support/python/minilm_reference.py). */
import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { WordPiece } from "../../../packages/embed-local/wordpiece.js";
import { packageRoot } from "../../../src/base/package-root.ts";
import { minilmReference } from "../../support/local-model.ts";

const vocabulary = readFileSync(new URL("packages/embed-local/vocab.txt", packageRoot), "utf8");
const published = new WordPiece(vocabulary, 256);

test.each(minilmReference.map(({ text, ids }) => [text.slice(0, 60), text, ids] as const))(
  "%j has the pieces of the reference",
  (_shown, text, ids) => {
    expect(published.encode(text)).toEqual(ids);
  },
);

test("special tokens in a text are text: it cannot end itself or hide what follows", () => {
  const ids = published.encode("[SEP] after [PAD] [MASK]");
  const [cls, sep] = published.encode("");
  expect([ids[0], ids.at(-1)]).toEqual([cls, sep]);
  expect(ids.slice(1, -1).filter((id) => id < 999)).toEqual([]);
});

test("halves of pairs are left out, and a text is never more than the model takes", () => {
  const wordPiece = new WordPiece(vocabulary, 8);
  expect(wordPiece.encode("\ud800bees\udc00")).toEqual(wordPiece.encode("bees"));
  for (const text of ["a b c d e f g h i j", "antidisestablishmentarianism ".repeat(9), "日".repeat(99)])
    expect(wordPiece.encode(text)).toHaveLength(8);
});

test("a vocabulary without the special tokens is refused", () => {
  expect(() => new WordPiece("a\nb\n", 8).encode("a")).toThrow("[CLS]");
});
