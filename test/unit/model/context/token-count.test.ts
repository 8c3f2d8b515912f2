/** The rule by which a text counts against a budget: character by character, and in parts as in the whole. */
import fc from "fast-check";
import { expect, test } from "vitest";
import { countQuarters, toQuarters, toTokens } from "../../../../src/model/context/token-count.ts";

test.each([
  ["", 0],
  ["a", 1],
  [" ", 1],
  ["A7", 6],
  ["-\n", 4],
  ["é", 2],
  ["я\u07ff", 4],
  ["茶", 4],
  ["\u0800", 4],
  ["🍵", 8],
  ["the tea", 7],
])("%j counts %i quarters", (text, quarters) => {
  expect(countQuarters(text)).toBe(quarters);
});

test("quarters are rounded up to tokens, and tokens are quarters again", () => {
  expect([0, 1, 4, 5].map(toTokens)).toEqual([0, 1, 1, 2]);
  expect(toTokens(toQuarters(17))).toBe(17);
});

test("what two texts count together is what each counts, and every character counts", () => {
  fc.assert(
    fc.property(fc.string({ unit: "binary" }), fc.string({ unit: "binary" }), (one, other) => {
      expect(countQuarters(one + other)).toBe(countQuarters(one) + countQuarters(other));
      expect(countQuarters(one)).toBeGreaterThanOrEqual(one.length);
    }),
  );
});
