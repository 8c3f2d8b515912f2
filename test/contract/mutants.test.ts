/** The planted faults of `npm run mutants` fit the tree of today, so that the next run plants all of them. */
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { mutants } from "../mutants/mutants.ts";

const root = join(import.meta.dirname, "../..");

test.each(mutants)("$name stands in its file once, and its suites are there", ({ file, find, suites }) => {
  const text = readFileSync(join(root, "src", file), "utf8");
  expect(text.split(find.map((line) => `${line}\n`).join("")).length - 1).toBe(1);
  for (const suite of suites) {
    if (!("file" in suite)) continue;
    expect(existsSync(join(root, suite.file)), suite.file).toBe(true);
    if (suite.named !== undefined) expect(readFileSync(join(root, suite.file), "utf8")).toContain(suite.named);
  }
});
