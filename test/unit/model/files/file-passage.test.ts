/** The passage of a file is where the words meet, word for word as it stands there. */
import { expect, test } from "vitest";
import { filePassageCharsMax, findPassage } from "../../../../src/model/files/file-passage.ts";

test("the lines in which most of the words stand are given, with their numbers", () => {
  const text = `a parrot\n${"filler\n".repeat(40)}the grey\nparrot flew\nhome\n${"filler\n".repeat(9)}grey\n`;
  expect(findPassage(text, ["grey", "parrot", "flew"])).toEqual({
    firstLine: 42,
    lastLine: 43,
    text: "the grey\nparrot flew\n",
  });
});

test("words are found as the index finds them", () => {
  expect(findPassage("nothing\nShe was Running\n", ["runs"])).toMatchObject({ firstLine: 2, lastLine: 2 });
  expect(findPassage("x\n東京都に行った\n", ["京都"])).toMatchObject({ firstLine: 2 });
  expect(findPassage("x\n", ["absent"])).toBeUndefined();
});

test("of a long line there is a piece that holds the words", () => {
  const passage = findPassage(`${"filler ".repeat(500)}parrot ${"filler ".repeat(500)}`, ["parrot"])!;
  expect(passage).toMatchObject({ firstLine: 1, lastLine: 1 });
  expect(passage.text).toContain("parrot");
  expect(passage.text.length).toBeLessThanOrEqual(filePassageCharsMax);
});
