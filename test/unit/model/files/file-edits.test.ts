/** Edits change what they name exactly, and are refused where they do not fit. */
import { expect, test } from "vitest";
import { applyEdits, fileBytesMax, type FileEdit } from "../../../../src/model/files/file-edits.ts";

const edited = (text: string, ...edits: readonly FileEdit[]): string => applyEdits(text, edits, () => {});

test("a text is replaced where it occurs once, or everywhere when asked", () => {
  expect(edited("a b c", { oldText: "b", text: "$&x" })).toBe("a $&x c");
  expect(edited("a b a", { oldText: "a", text: "", replaceAll: true })).toBe(" b ");
  expect(edited("one", { oldText: "one", text: "two" }, { oldText: "two", text: "three" })).toBe("three");
  expect(() => edited("a b a", { oldText: "a", text: "x" })).toThrow("edits[0].old_text occurs 2 times in the file");
  expect(() => edited("aaa", { oldText: "aa", text: "x" })).toThrow("occurs 2 times");
  expect(() => edited("a", { oldText: "b", text: "x" })).toThrow("edits[0].old_text does not occur in the file");
});

test("lines are inserted, replaced and deleted", () => {
  expect(edited("1\n2\n", { afterLine: 0, text: "0" })).toBe("0\n1\n2\n");
  expect(edited("1\n2\n", { afterLine: 1, text: "a\nb\n" })).toBe("1\na\nb\n2\n");
  expect(edited("1", { afterLine: 1, text: "2" })).toBe("1\n2\n");
  expect(edited("", { afterLine: 0, text: "1" })).toBe("1\n");
  expect(edited("1\n2\n3", { firstLine: 2, lastLine: 2, text: "x" })).toBe("1\nx\n3");
  expect(edited("1\n2\n3", { firstLine: 3, lastLine: 3, text: "x" })).toBe("1\n2\nx");
  expect(edited("1\n2\n3\n", { firstLine: 1, lastLine: 2, text: "" })).toBe("3\n");
  expect(() => edited("1\n", { afterLine: 2, text: "" })).toThrow("after_line is behind the end: the file has 1 lines");
  expect(() => edited("1\n", { firstLine: 1, lastLine: 2, text: "" })).toThrow("last_line is behind the end");
});

test.each<FileEdit>([
  { text: "x" },
  { text: "x", oldText: "a", afterLine: 1 },
  { text: "x", firstLine: 1 },
  { text: "x", afterLine: 0, replaceAll: true },
])("an edit says one place: %o", (edit) => {
  expect(() => edited("a", edit)).toThrow("must have old_text, after_line, or first_line and last_line");
});

test("no edit makes more than a file holds, and no call has more edits than it may", () => {
  const text = "ab".repeat(fileBytesMax / 4);
  expect(() => edited(text, { oldText: "a", text: "aaaa", replaceAll: true })).toThrow("at most 1048576 bytes");
  expect(() => edited("é".repeat(400_000), { afterLine: 1, text: "é".repeat(200_000) })).toThrow("at most 1048576");
  expect(() => edited("a")).toThrow("edits must hold 1 to 100 edits");
  expect(() => edited("a", ...Array(101).fill({ afterLine: 0, text: "" }))).toThrow("edits must hold 1 to 100 edits");
});

test("the time is looked at before each edit, so that a long call lets others by", () => {
  let looks = 0;
  applyEdits("a", Array(100).fill({ afterLine: 0, text: "x" }), () => looks++);
  expect(looks).toBe(100);
});
