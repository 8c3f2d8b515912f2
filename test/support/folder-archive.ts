/**
 * A folder as one file: every folder and file below it in one compressed stream, for golden data of several hundred
 * files.
 */
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { zstdCompressSync, zstdDecompressSync } from "node:zlib";

interface Entry {
  readonly path: string;
  /** Absent for a folder. */
  readonly bytes?: number;
}

/** Everything below the folder but for what is left out, by its path from there. */
export function packFolder(folder: string, isLeftOut: (path: string) => boolean = () => false): Uint8Array {
  const names = readdirSync(folder, { recursive: true, withFileTypes: true })
    .map((entry) => ({ path: join(entry.parentPath, entry.name).slice(folder.length + 1), isFile: entry.isFile() }))
    .filter(({ path }) => !isLeftOut(path))
    .toSorted((a, b) => (a.path < b.path ? -1 : 1));
  const bodies: Uint8Array[] = [];
  const entries = names.map(({ path, isFile }): Entry => {
    if (!isFile) return { path };
    const bytes = readFileSync(join(folder, path));
    bodies.push(bytes);
    return { path, bytes: bytes.length };
  });
  return zstdCompressSync(Buffer.concat([Buffer.from(`${JSON.stringify(entries)}\n`), ...bodies]));
}

/** Writes what was packed below the folder. */
export function unpackFolder(archive: Uint8Array, folder: string): void {
  const all = zstdDecompressSync(archive);
  const end = all.indexOf("\n");
  let at = end + 1;
  for (const { path, bytes } of JSON.parse(all.toString("utf8", 0, end)) as readonly Entry[]) {
    const target = join(folder, path);
    if (bytes === undefined) {
      mkdirSync(target, { recursive: true, mode: 0o700 });
      continue;
    }
    mkdirSync(dirname(target), { recursive: true, mode: 0o700 });
    writeFileSync(target, all.subarray(at, at + bytes), { mode: 0o600 });
    at += bytes;
  }
}
