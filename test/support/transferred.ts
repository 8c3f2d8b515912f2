/**
 * Whole databases as the lines of an export, and lines into a database, for tests of the models: by the parts that a
 * caller chooses.
 */
import { emptyChain } from "../../src/model/transfer/hash-chain.ts";
import {
  exportRecords,
  importRecords,
  type Imported,
  type ImportInput,
  type ExportPlace,
} from "../../src/model/transfer/transfer.ts";
import type { ModelDatabase } from "./model-database.ts";

/** Every line of the database's export, and the hash of them. */
export function exportedLines(
  database: ModelDatabase,
  bytesMax = 1_000,
): { readonly lines: readonly string[]; readonly hash: string } {
  const lines: string[] = [];
  let hash = emptyChain;
  for (let from: ExportPlace | undefined; ;) {
    const input = { asOfMs: database.nowMs, bytesMax, hash, ...(from && { from }) };
    const part = exportRecords(database.view(), input);
    lines.push(...part.text.split("\n").slice(0, -1));
    hash = part.hash;
    if (!part.next) return { lines, hash };
    from = part.next;
  }
}

/** Imports the lines, so many in a transaction; gives what each transaction gave. */
export function importLines(
  database: ModelDatabase,
  lines: readonly string[],
  { mode = "skip", erased = { memoryIds: [], targets: [] } }: Partial<Pick<ImportInput, "mode" | "erased">> = {},
  atOnce = 7,
): readonly Imported[] {
  const all: Imported[] = [];
  for (let at = 0; at < lines.length; at += atOnce) {
    const records = lines.slice(at, at + atOnce).map((text, index) => ({ line: at + index + 1, text }));
    all.push(database.write((tx) => importRecords(tx, { records, mode, erased })));
  }
  return all;
}

/** How many records came to each outcome, all kinds together. */
export function outcomesOf(all: readonly Imported[]): Readonly<Record<string, number>> {
  const sums: Record<string, number> = {};
  for (const { counts } of all)
    for (const ofKind of Object.values(counts))
      for (const [outcome, count] of Object.entries(ofKind)) sums[outcome] = (sums[outcome] ?? 0) + count;
  return sums;
}
