/** docs/failure-matrix.md has one row for every fault, and each names the tests that prove it. */
import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { matrixPath, parseRows, written } from "../support/failure-matrix.ts";

const document = readFileSync(matrixPath, "utf8");
/** What is not built, and why: its row says so. */
const arguedAway = ["F59"];

test("every fault has a row, in order, with a proof", () => {
  const rows = parseRows(document);
  expect(rows.map(({ name }) => name)).toEqual(
    Array.from({ length: 97 }, (_, index) => `F${String(index + 1).padStart(2, "0")}`),
  );
  expect(rows.filter(({ isProved }) => !isProved).map(({ name }) => name)).toEqual(arguedAway);
});

test("the last column is what the tests' titles say", () => {
  expect(document, "run `node test/support/failure-matrix.ts`").toBe(written(document));
});
