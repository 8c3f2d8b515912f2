/** Hostile texts become one line without anything unseen, and a line is cut where a reader would cut it. */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { cut, fold, reveal } from "../../../../src/model/context/shown-text.ts";

describe("a text on one line", () => {
  test("has no end of a line, whatever kind, and one space for any white", () => {
    const ends = ["\n", "\r\n", "\u000b", "\u000c", "\u0085", "\u2028", "\u2029", "\t", "\u00a0", "\u3000"];
    expect(fold(` \n${ends.map((end) => `a${end}`).join("")} b  `)).toBe(`${"a ".repeat(ends.length)}b`);
    expect(fold("# a heading\n".repeat(10_000)).split("\n")).toHaveLength(1);
  });
});

describe("what is not seen is told", () => {
  test.each([
    ["a bell and a terminal's colours", "a\u0007\u001b[31mred", String.raw`a\u0007\u001b[31mred`],
    ["a NUL and a C1 control", "\u0000\u009b", String.raw`\u0000\u009b`],
    ["directions", "\u202eabc\u202c \u2066x\u2069", String.raw`\u202eabc\u202c \u2066x\u2069`],
    ["zero widths", "ig\u200bno\u2060re\ufeff", String.raw`ig\u200bno\u2060re\ufeff`],
    ["a soft hyphen", "ig\u00adnore", String.raw`ig\u00adnore`],
    ["joiners in Latin", "ig\u200dno\u200cre", String.raw`ig\u200dno\u200cre`],
    ["tags, which spell ASCII", "\u{e0049}\u{e0067}", String.raw`\udb40\udc49\udb40\udc67`],
    ["variants, which spell bytes", "a\u{e0100}\ufe00", String.raw`a\udb40\udd00\ufe00`],
    ["fillers", "\u3164\u115f\uffa0\u034f", String.raw`\u3164\u115f\uffa0\u034f`],
  ])("%s", (_name, text, shown) => {
    expect(reveal(text)).toBe(shown);
  });

  test("what is spelt with joiners and variants stays as it is", () => {
    for (const text of [
      "👩\u200d💻",
      "❤\ufe0f\u200d🔥",
      "क्\u200dष",
      "می\u200cخواهم",
      "1\ufe0f\u20e3",
      "👍🏽",
      "naïve — “quoted” 茶",
    ])
      expect(reveal(text)).toBe(text);
  });
});

describe("what looks like a tag of a block", () => {
  test.each(["</memory-aaaaaaaaaaaaaaaaaaaaaaaa>", "< / MEMORY>", "<memory", "＜／memory-x＞", "<\t/memory"])(
    "%s",
    (tag) => {
      expect(reveal(fold(tag))).toBe(
        String.raw`\u` + tag.charCodeAt(0).toString(16).padStart(4, "0") + fold(tag).slice(1),
      );
    },
  );

  test("other tags and comparisons stay as they are", () => {
    for (const text of ["a < b", "<div>memory</div>", "</data>", "1 <2> 3"]) expect(reveal(text)).toBe(text);
  });
});

test("a revealed JSON text means what the text was", () => {
  fc.assert(
    fc.property(fc.string({ unit: "binary" }), (text) => {
      const shown = reveal(JSON.stringify(`${text}</memory-x>\u200b\u202e\u{e0041}`));
      expect(JSON.parse(shown)).toBe(`${text}</memory-x>\u200b\u202e\u{e0041}`);
      expect(shown).not.toMatch(/[\p{Cc}\p{Zl}\p{Zp}]|<\/memory/u);
    }),
  );
});

describe("a cut", () => {
  const within = (chars: number) => (shown: string) => shown.length <= chars;

  test("is behind a word, where one ends near", () => {
    expect(cut("the quick brown fox", 99, within(11))).toBe("the quick…");
    expect(cut("the quick brown fox", 99, within(10))).toBe("the quick…");
    expect(cut("the quick brown fox", 99, within(9))).toBe("the…");
  });

  test("is between characters, where no word ends near, and never within one", () => {
    expect(cut("茶".repeat(100), 999, within(51))).toBe(`${"茶".repeat(50)}…`);
    expect(cut("🍵".repeat(100), 999, within(52))).toBe(`${"🍵".repeat(25)}…`);
    expect(cut(`${"x".repeat(60)}e\u0301`, 999, within(62))).toBe(`${"x".repeat(60)}…`);
  });

  test("is no longer than it may be, gives all of what fits, and nothing where nothing does", () => {
    expect(cut("abc def", 5, () => true)).toBe("abc…");
    expect(cut("abc", 99, within(4))).toBe("abc…");
    expect(cut("abc", 99, within(1))).toBeUndefined();
    expect(cut("", 99, () => true)).toBeUndefined();
  });
});
