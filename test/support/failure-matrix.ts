/**
 * The last column of docs/failure-matrix.md, made from the tests: which files have a title with the number of a row.
 *
 * `node test/support/failure-matrix.ts` writes it; test/contract/failure-matrix.test.ts holds it up.
 */
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";

const testFolder = join(import.meta.dirname, "..");
export const matrixPath = join(testFolder, "../docs/failure-matrix.md");

/** A row's beginning, and what stands in its last column. */
const rowPattern = /^(\| (F\d\d) \|.*?\|.*?\|)(.*)\|$/;
/** Numbers in titles, alone or from one to another: `F02`, `F29-F31`. */
const numberPattern = /\bF(\d\d)(?:-F(\d\d))?/g;

/** The files that prove each row. */
function proofs(): ReadonlyMap<string, readonly string[]> {
  const found = new Map<string, Set<string>>();
  for (const path of readdirSync(testFolder, { recursive: true, encoding: "utf8" }).toSorted()) {
    if (!path.endsWith(".test.ts") && path !== "support/store-suite.ts") continue;
    if (path === "contract/failure-matrix.test.ts") continue;
    for (const [, first, last] of readFileSync(join(testFolder, path), "utf8").matchAll(numberPattern)) {
      for (let row = Number(first); row <= Number(last ?? first); row++) {
        const name = `F${String(row).padStart(2, "0")}`;
        found.set(name, (found.get(name) ?? new Set()).add(path.replace(/\.test\.ts$|\.ts$/, "")));
      }
    }
  }
  return new Map([...found].map(([name, files]) => [name, [...files]]));
}

/** The document with its last column as the tests have it. */
export function written(document: string): string {
  const byRow = proofs();
  return document
    .split("\n")
    .map((line) =>
      line.replace(
        rowPattern,
        (_, start: string, name: string) =>
          `${start} ${(byRow.get(name) ?? []).map((file) => `\`${file}\``).join(", ") || "–"} |`,
      ),
    )
    .join("\n");
}

/** The rows of the document, and whether each has a proof. */
export function parseRows(document: string): readonly { readonly name: string; readonly isProved: boolean }[] {
  return document.split("\n").flatMap((line) => {
    const [, , name, last] = rowPattern.exec(line) ?? [];
    return name === undefined ? [] : [{ name, isProved: last!.includes("`") }];
  });
}

if (import.meta.main) writeFileSync(matrixPath, written(readFileSync(matrixPath, "utf8")));
