/** What a line says of a memory and of a turn, from what was stored. */
import { describe, expect, test } from "vitest";
import { contentCharsShownMax, memoryLineText, turnLineText } from "../../../../src/model/context/stored-text.ts";

describe("a memory", () => {
  test.each([
    ["likes tea", "null", "likes tea"],
    ["likes tea", "{}", "likes tea"],
    ["likes tea", '""', "likes tea"],
    ["likes tea", '"green, no sugar"', "likes tea | green, no sugar"],
    ["likes tea", '{"kind": "green"}', 'likes tea | {"kind": "green"}'],
    ["likes tea", "[1,2]", "likes tea | [1,2]"],
    ["likes tea", '"tea"', "likes tea"],
    ["likes tea", '"likes tea,\\n\\nand cake"', "likes tea, and cake"],
    ["two\nlines", '"a \\"quoted\\" \\u00e9 \\\\ end"', 'two lines | a "quoted" é \\ end'],
  ])("%j with %s", (summary, content, text) => {
    expect(memoryLineText(summary, content)).toEqual({ text, isWhole: true });
  });

  test("of a long content the beginning is read, and it says so", () => {
    for (const tail of ["x", "\\n", "\\u0041", "\\", "\\ud83c\\udf75", "🍵"]) {
      const text = `"${"a".repeat(contentCharsShownMax - 4)}${tail.repeat(8)}"`;
      const read = memoryLineText("s", [...text].slice(0, contentCharsShownMax + 1).join(""));
      expect(read.isWhole, tail).toBe(false);
      expect(read.text.isWellFormed(), tail).toBe(true);
      expect(read.text.startsWith(`s | ${"a".repeat(contentCharsShownMax - 4)}`), tail).toBe(true);
    }
    const list = JSON.stringify(Array.from({ length: contentCharsShownMax }, () => 1)).slice(
      0,
      contentCharsShownMax + 1,
    );
    expect(memoryLineText("s", list)).toEqual({ text: `s | ${list.slice(0, -1)}`, isWhole: false });
  });
});

test("a turn begins with who spoke", () => {
  expect(turnLineText("user", '"hello\\nthere"')).toEqual({ text: "user: hello there", isWhole: true });
  expect(turnLineText("tool\n## x", "null")).toEqual({ text: "tool ## x: ", isWhole: true });
});
