/** Lines are found where a plain cut of the text has them. */
import fc from "fast-check";
import { expect, test } from "vitest";
import { countLines, lineEnd, offsetAfter, sliceLines } from "../../../../src/model/files/file-lines.ts";

const cut = (text: string): string[] => text.match(/[^\n]*\n|[^\n]+$/g) ?? [];

test("counts, offsets and slices are those of the lines of the text", () => {
  const text = fc.string({ unit: fc.constantFrom("a", "\n", "\r", "é") });
  fc.assert(
    fc.property(text, fc.nat(12), fc.nat(12), (any, some, more) => {
      const lines = cut(any);
      expect(countLines(any)).toBe(lines.length);
      expect(offsetAfter(any, some)).toBe(lines.slice(0, some).join("").length);
      expect(sliceLines(any, some + 1, some + more)).toBe(lines.slice(some, some + more).join(""));
      expect(any.slice(0, lineEnd(any, 0))).toBe(lines[0] ?? "");
    }),
  );
  expect(sliceLines("1\n2", 2, Infinity)).toBe("2");
});
