/**
 * What another program has kept, as the parts of an export.
 *
 * Always true: a file is read once and as a whole, within a bound. Must not know: any program's format, nodes.
 */
import { readFileSync, statSync } from "node:fs";
import { chainHash, emptyChain } from "../../model/transfer/hash-chain.ts";
import { addCounts, headerLine, trailerLine } from "../../service/transfer/envelope.ts";
import { CommandFailure } from "../client-session/command-failure.ts";
import { ForeignRecords } from "../importers/foreign-records.ts";
import type { ImporterName } from "../importers/importer-names.ts";
import { importers } from "../importers/importers.ts";
import { type Part, partBytes, toPart } from "./import-parts.ts";

/** A file of text of another program is read at once. */
const foreignBytesMax = 512 * 1024 * 1024;

export interface Foreign {
  readonly parts: () => AsyncIterable<Part>;
  /** How much was passed over, by its reason. */
  readonly skipped: ReadonlyMap<string, number>;
}

export function readForeign(file: string, from: ImporterName): Foreign {
  const { lines, skipped } = readRecords(file, from);
  let hash = emptyChain;
  let counts = {};
  for (const line of lines) {
    hash = chainHash(hash, line);
    counts = addCounts(counts, { [/"kind":"([a-z_]+)"/.exec(line)![1]!]: 1 });
  }
  const header = headerLine({ database: from, branch: "main", txid: 0, createdAtMs: 0 });
  const all = [header.trimEnd(), ...lines, trailerLine({ counts, hash }).trimEnd()];
  async function* parts(): AsyncGenerator<Part, void, undefined> {
    for (let at = 0; at < all.length;) {
      const part: string[] = [];
      for (let bytes = 0; at < all.length && bytes < partBytes; at++) {
        part.push(all[at]!);
        bytes += all[at]!.length;
      }
      yield toPart(Buffer.from(`${part.join("\n")}\n`));
    }
  }
  return { parts, skipped };
}

function readRecords(file: string, from: ImporterName): ReturnType<ForeignRecords["finish"]> {
  const importer = importers[from];
  try {
    const { size, mtimeMs } = statSync(file);
    const records = new ForeignRecords(from, Math.floor(mtimeMs));
    if (importer.reads === "path") importer.run(file, records);
    else if (size > foreignBytesMax) throw new CommandFailure(2, `${file} has more than ${foreignBytesMax} bytes`);
    else importer.run(readFileSync(file, "utf8"), records);
    return records.finish();
  } catch (error) {
    if (error instanceof CommandFailure) throw error;
    throw new CommandFailure(1, `${file} cannot be read as that: ${(error as Error).message}`);
  }
}
