/** Regular expressions of clients: that they stop when the time is looked at, whatever pattern and text. */
import { describe, expect, test } from "vitest";
import { checkRegex, matchesRegex } from "../../../../src/model/docs/docs-regex.ts";
import { findDocs } from "../../../../src/model/docs/docs-find.ts";
import { DocsCollection, refusal } from "../../../support/docs-collection.ts";

/** Texts of two letters in no order make the most states of patterns that count. */
function twoLetters(length: number): string {
  let state = 1;
  return Array.from({ length }, () => {
    state = (Math.imul(state, 1103515245) + 12345) >>> 0;
    return state >>> 31 === 0 ? "a" : "b";
  }).join("");
}

class Stop extends Error {}

/** How many looks a match of this text takes; it is stopped after `most`. */
function countLooks(pattern: string, text: string, most: number): { readonly looks: number; readonly isOver: boolean } {
  let looks = 0;
  try {
    matchesRegex(pattern, "", text, () => {
      if (++looks === most) throw new Stop();
    });
    return { looks, isOver: false };
  } catch (error) {
    if (!(error instanceof Stop)) throw error;
    return { looks, isOver: true };
  }
}

describe("hostile patterns", () => {
  const text = twoLetters(1 << 20);

  test.each([
    "a[ab]{900}[cd]",
    "(a[ab]{30}){20}[cd]",
    "(a|b|[ab])*a[ab]{300}[cd]",
    "(a+)+[cd]",
    "(?:a.{3}|b.{5}|a.{7}|b.{11}|a.{13}|b.{17}){4}[cd]",
    "[^c]*[^d]*[^e]*[^f]*[^g]*[c-g]",
  ])("%s over a MiB is stopped within the first looks, and found anew afterwards", (pattern) => {
    checkRegex("x", pattern, "");
    expect(countLooks(pattern, text, 4)).toEqual({ looks: 4, isOver: true });
    expect(countLooks(pattern, twoLetters(600), 1_000_000).isOver).toBe(false);
  });

  test("the work grows with the text", () => {
    const [short, long] = [1 << 12, 1 << 14].map(
      (length) => countLooks("a[ab]{100}[cd]", twoLetters(length), 1e9).looks,
    );
    expect(long!).toBeLessThanOrEqual(4 * short! + 4);
  });

  test("what stops a look within a find is what the find throws, and the next find is whole", () => {
    const things = new DocsCollection();
    try {
      things.insert({ _id: "1", a: text.slice(0, 500_000) }, { _id: "2", a: "aab" });
      const filter = JSON.stringify({ a: { $regex: "^a[ab]{200}[cd]|b$" } });
      const find = () => findDocs(things.database.view(), { collection: "things", filter, sort: [] });
      let looks = 0;
      const stop = (): void => {
        if (++looks > 20) throw new Stop();
      };
      expect(() => things.database.connection.lookingAt(stop, find)).toThrow(Stop);
      expect(find().docs.map((doc) => (JSON.parse(doc) as { _id: string })._id)).toContain("2");
    } finally {
      things.close();
    }
  });

  test.each([
    ["(a{1000}){1000}", "must be a regular expression of RE2"],
    ["a{900}b{900}", "is too large"],
    [`${"(".repeat(2000)}`, "must be at most 1000 characters"],
    ["(".repeat(400) + "a" + ")".repeat(400), undefined],
  ])("%.20s", (pattern, message) => {
    const act = () => checkRegex("x", pattern, "");
    if (message === undefined) act();
    else expect(refusal(act)).toContain(message);
  });

  test("a refusal repeats nothing of the pattern", () => {
    expect(refusal(() => checkRegex("x", "(secret", ""))).not.toContain("secret");
  });
});
