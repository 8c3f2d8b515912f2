/** The sets of tests: every file is in exactly one, and no list names what is not there. */
import { globSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { changeTests, longTests, quickTests, slowUnitTests } from "../support/test-sets.ts";

const root = join(import.meta.dirname, "../..");

function listFolders(patterns: readonly string[]): readonly string[] {
  return [...new Set(globSync(patterns, { cwd: root }))];
}

/** The files of a set, as vitest.config.ts has them. */
function without(patterns: readonly string[], excluded: readonly string[]): readonly string[] {
  const others = new Set(listFolders(excluded));
  return listFolders(patterns).filter((file) => !others.has(file));
}

test("every test file is in exactly one set", () => {
  const sets = [
    without(quickTests, [...slowUnitTests, ...longTests]),
    without(changeTests, longTests),
    listFolders(longTests),
  ];
  const every = listFolders(["test/**/*.test.ts"]);
  expect(every.length).toBeGreaterThan(200);
  expect(sets.flat().toSorted()).toEqual(every.toSorted());
});

test.each([...longTests, ...slowUnitTests])("%s names files, and each once", (pattern) => {
  const files = listFolders([pattern]);
  expect(files.length).toBeGreaterThan(0);
  const names = /\{(.*)\}/.exec(pattern)?.[1]?.split(",") ?? [];
  if (names.length > 0) expect(files.length).toBe(names.length);
  const others = [...longTests, ...slowUnitTests].filter((other) => other !== pattern);
  expect(without([pattern], others)).toEqual(files);
});
