/** Looks for what was erased in the raw bytes of files, however SQLite may have stored it. */
import { readdirSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";

/** So much of a token is evidence: an index keeps parts of words. */
const partChars = 9;
const vectorPartBytes = 24;

/** A word of 16 letters and digits that nothing else holds. */
export function canary(random: () => number): string {
  return Array.from({ length: 16 }, () => "bcdfghjklmnpqrtvwxz2345678"[Math.floor(random() * 26)]).join("");
}

/** What must not be found any more: words, and vectors as they were given. */
export interface Secrets {
  readonly words: readonly string[];
  readonly vectors: readonly Float32Array[];
}

/** The stored form of a vector: of length 1. */
function encodeStored(vector: Float32Array): string {
  const length = Math.sqrt(vector.reduce((sum, value) => sum + value * value, 0));
  return Buffer.from(Float32Array.from(vector, (value) => value / length).buffer).toString("latin1");
}

function listParts(secrets: Secrets): { readonly words: ReadonlySet<string>; readonly vectors: ReadonlySet<string> } {
  const words = secrets.words.flatMap((word) =>
    [0, 3, word.length - partChars].map((from) => word.slice(from, from + partChars)),
  );
  // The last bits of a number depend on how the length was summed up: the upper three bytes of each do not.
  const vectors = secrets.vectors.flatMap((vector) => {
    const stored = encodeStored(vector);
    return [0, Math.floor(stored.length / 8) * 4, stored.length - vectorPartBytes].map((from) =>
      masked(stored.slice(from, from + vectorPartBytes)),
    );
  });
  return { words: new Set(words), vectors: new Set(vectors) };
}

/** The exponent and the upper bits of each number. */
function masked(part: string): string {
  let text = "";
  for (let at = 0; at < part.length; at += 4) text += part[at + 2]! + part[at + 3]!;
  return text;
}

/** How often any of the secrets stands in the bytes: words as bytes or as UTF-16, vectors as numbers. */
export function residueIn(bytes: Buffer, secrets: Secrets): number {
  const { words, vectors } = listParts(secrets);
  const plain = bytes.toString("latin1");
  // Whole characters only: Node writes beyond its own memory when it decodes an odd number of bytes that are not
  // aligned.
  const wide = [bytes, bytes.subarray(1)].map((from) => from.subarray(0, from.length & ~1).toString("utf16le"));
  let hits = 0;
  for (const text of [plain, ...wide])
    for (let at = 0; at + partChars <= text.length; at++) if (words.has(text.slice(at, at + partChars))) hits++;
  if (vectors.size === 0) return hits;
  // Most of a file is zeroes: what begins with them is passed over.
  for (let at = 0; at + vectorPartBytes <= bytes.length; at++) {
    if (bytes[at + 3]! !== 0 && vectors.has(masked(plain.slice(at, at + vectorPartBytes)))) hits++;
  }
  return hits;
}

/** The same in every file below the folder, by file; files without any are left out. */
export function residueBelow(directory: string, secrets: Secrets): Record<string, number> {
  const files = readdirSync(directory, { recursive: true, encoding: "utf8" }).filter((name) =>
    statSync(join(directory, name)).isFile(),
  );
  const found = files.map((name) => [name, residueIn(readFileSync(join(directory, name)), secrets)] as const);
  return Object.fromEntries(found.filter(([, hits]) => hits > 0));
}
