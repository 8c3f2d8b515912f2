/** The planted faults of `npm run mutants` fit the tree of today, so that the next run plants all of them. */
import { execFileSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { mutants } from "../mutants/mutants.ts";

const root = join(import.meta.dirname, "../..");

/** Whole lines, as they stand in a file. */
function formatLines(lines: readonly string[]): string {
  return lines.map((line) => `${line}\n`).join("");
}

/** Says of each source why it is no module. */
const parser = `
import { stripTypeScriptTypes } from "node:module";
import { SourceTextModule } from "node:vm";
let given = "";
for await (const piece of process.stdin) given += piece;
for (const [name, source] of Object.entries(JSON.parse(given)))
  try {
    new SourceTextModule(stripTypeScriptTypes(source));
  } catch (error) {
    console.log(name + ": " + error.message);
  }
`;

test("a file with a planted fault is a module still", () => {
  const planted = mutants.map(({ name, file, find, replace }) => [
    name,
    readFileSync(join(root, "src", file), "utf8").replace(formatLines(find), () => formatLines(replace)),
  ]);
  const told = execFileSync(
    process.execPath,
    ["--no-warnings", "--experimental-vm-modules", "--input-type=module", "--eval", parser],
    { input: JSON.stringify(Object.fromEntries(planted)), encoding: "utf8" },
  );
  expect(told).toBe("");
});

test.each(mutants)("$name stands in its file once, and its suites are there", ({ file, find, suites }) => {
  const text = readFileSync(join(root, "src", file), "utf8");
  expect(text.split(formatLines(find)).length - 1).toBe(1);
  for (const suite of suites) {
    if (!("file" in suite)) continue;
    expect(existsSync(join(root, suite.file)), suite.file).toBe(true);
    if (suite.named !== undefined) expect(readFileSync(join(root, suite.file), "utf8")).toContain(suite.named);
  }
});
