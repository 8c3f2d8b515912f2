/**
 * Loads the VFS for tests (fault-vfs.c), which it compiles once for each text of it: SQLite's own file operations below
 * watched folders are written down and fail by chance or by script.
 */
import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { existsSync, readFileSync, renameSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import Database from "better-sqlite3";

/** How an operation of SQLite can fail, in the order that the VFS counts them. */
const faults = ["readFails", "writeFull", "writeShort", "writeFails", "cutFails", "syncFails"] as const;
export type VfsFault = (typeof faults)[number];

/** What the VFS has seen: where it was, by the folder's id and the file's inode, and what stood there before. */
export interface VfsEntry {
  readonly folder: number;
  readonly kind: "wrote" | "cut" | "synced" | "sync-failed" | "named" | "removed" | "folder-synced";
  readonly ino: number;
  readonly offset: number;
  /** Bytes written; of a cut, the file's size before. */
  readonly length: number;
  /** What stood there, or the file's path. */
  readonly bytes: Buffer;
}

const kinds = [undefined, "wrote", "cut", "synced", "sync-failed", "named", "removed", "folder-synced"] as const;
const numberBytes = 8;
const manifestBytes = 6 * numberBytes;

/** Gives the library's path. */
function compiled(): string {
  const source = join(import.meta.dirname, "fault-vfs.c");
  const name = createHash("sha256").update(readFileSync(source)).digest("hex").slice(0, 16);
  const library = join(tmpdir(), `palimpsest-fault-vfs-${name}.so`);
  if (existsSync(library)) return library;
  const header = join(
    dirname(createRequire(import.meta.url).resolve("better-sqlite3/package.json")),
    "deps",
    "sqlite3",
  );
  const fresh = `${library}.${process.pid}`;
  execFileSync("cc", ["-shared", "-fPIC", "-O2", "-fvisibility=hidden", "-Wall", "-I", header, "-o", fresh, source]);
  // Test processes may compile at once, and the library may be mapped already.
  renameSync(fresh, library);
  return library;
}

class FaultVfs {
  readonly #connection = new Database(":memory:");
  readonly #statements = new Map<string, Database.Statement>();

  constructor() {
    // better-sqlite3 takes an entry point; its types leave it out.
    (this.#connection as unknown as { loadExtension(path: string, entryPoint: string): void }).loadExtension(
      compiled(),
      "sqlite3_faultvfs_init",
    );
  }

  /** Watches a folder; what is removed from it is linked into `grave` first. Gives its id. */
  watch(path: string, grave: string, seed: number): number {
    return Number(this.#call("fault_watch(?, ?, ?)", `${path}/`, grave, seed));
  }

  /** Lets operations below the folder fail with this chance. */
  chance(folder: number, fault: VfsFault, chance: number): void {
    this.#call("fault_chance(?, ?, ?)", folder, faults.indexOf(fault), chance);
  }

  /** Lets the n-th operation from now fail. */
  script(folder: number, fault: VfsFault, nth: number): void {
    this.#call("fault_script(?, ?, ?)", folder, faults.indexOf(fault), nth);
  }

  /** How many operations below the folder have failed. */
  failed(folder: number): number {
    return Number(this.#call("fault_count(?)", folder));
  }

  drop(folder: number): void {
    this.#call("fault_drop(?)", folder);
  }

  /** What was seen since the last call, in order. */
  drain(): VfsEntry[] {
    const journal = this.#call("fault_drain()") as Buffer | null;
    const entries: VfsEntry[] = [];
    for (let at = 0; journal && at < journal.length;) {
      const [folder, kind, ino, offset, length, count] = Array.from({ length: 6 }, (_, index) =>
        Number(journal.readBigInt64LE(at + index * numberBytes)),
      ) as [number, number, number, number, number, number];
      at += manifestBytes;
      entries.push({ folder, kind: kinds[kind]!, ino, offset, length, bytes: journal.subarray(at, at + count) });
      at += count;
    }
    return entries;
  }

  #call(expression: string, ...args: readonly (number | string)[]): unknown {
    let statement = this.#statements.get(expression);
    if (!statement)
      this.#statements.set(expression, (statement = this.#connection.prepare(`SELECT ${expression}`).pluck()));
    return statement.get(...args);
  }
}

let loaded: FaultVfs | undefined;

/** The process's only one; from the first call on it stands under every connection that is opened. */
export function faultVfs(): FaultVfs {
  return (loaded ??= new FaultVfs());
}
