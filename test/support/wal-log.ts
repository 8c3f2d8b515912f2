/** Write-ahead logs for tests: made by SQLite and left where they are, made by hand, and applied by hand. */
import { existsSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, onTestFinished } from "vitest";
import { createSchema, readState, writeState } from "../../src/model/schema.ts";
import { Connection, type SqlValue } from "../../src/sqlite/connection/connection.ts";
import { runAlone } from "../../src/sqlite/group.ts";
import { realDisk } from "../../src/base/disk.ts";
import { WalFile } from "../../src/sqlite/wal/wal.ts";
import { WalReader, type WalCommit } from "../../src/sqlite/wal/wal-reader.ts";
import { temporaryDirectory } from "./temporary.ts";

const pageBytes = 4096;
export const MiB = 1024 * 1024;
export const frameBytes = pageBytes + 24;

export function openConnection(path: string, pageCacheKiB = 1024): Connection {
  return new Connection(path, { readonly: false, pageCacheKiB });
}

/** A new database file with the reserved tables and a table `t (k, v)`; nothing of it is in a log. */
export function newDatabase(): { readonly path: string; readonly base: Buffer } {
  const path = join(temporaryDirectory(), "main.db");
  const connection = openConnection(path);
  createSchema(connection);
  connection.exec("CREATE TABLE t (k INTEGER PRIMARY KEY, v BLOB)");
  connection.close();
  return { path, base: readFileSync(path) };
}

/** Commits the act's writes as the next transaction id. */
export function commit(connection: Connection, act: () => void): void {
  const { txid } = readState(connection);
  runAlone(connection, act, () =>
    writeState(connection, { txid: txid + 1, committedAtMs: txid * 1_000, writerEpochId: undefined }),
  );
}

export function put(connection: Connection, key: number, value: SqlValue): void {
  connection.run("INSERT OR REPLACE INTO t (k, v) VALUES (?, ?)", key, value);
}

/** Commits one row. */
export function commitRow(connection: Connection, key: number, bytes = 10): void {
  commit(connection, () => put(connection, key, Buffer.alloc(bytes, key)));
}

/** Closes the connection and leaves its log in place, as a killed process would. */
export function closeKeeping(connection: Connection): void {
  new WalFile(connection.path, realDisk).closeKeeping(connection);
}

export function logPath(path: string): string {
  return `${path}-wal`;
}

export function logLength(path: string): number {
  return existsSync(logPath(path)) ? statSync(logPath(path)).size : 0;
}

/** Begins a transaction of `pages` pages, each written three times, part of it undone; leaves it open. */
export function spill(connection: Connection, pages: number): void {
  connection.run("BEGIN IMMEDIATE");
  for (let round = 1; round <= 3; round++) {
    for (let key = 0; key < pages; key++) put(connection, 1_000 + key, Buffer.alloc(3_900, key + round));
    if (round !== 2) continue;
    connection.run("SAVEPOINT undone");
    for (let key = 0; key < pages; key += 2) put(connection, 1_000 + key, Buffer.alloc(3_900, 255));
    connection.run("ROLLBACK TO undone");
  }
}

/** The database file that the commits make of the one before. */
export function applied(base: Uint8Array, commits: readonly WalCommit[]): Buffer {
  let file = Buffer.from(base);
  for (const { pages, images } of commits) {
    file = Buffer.concat([file], pages * pageBytes);
    for (const { page, bytes } of images) file.set(bytes, (page - 1) * pageBytes);
  }
  return file;
}

/** What SQLite itself makes of a database file and a log: the file after it folded the log in. */
export function recovered(
  base: Uint8Array,
  log: Uint8Array,
): { readonly file: Buffer; readonly txid: number; readonly integrity: unknown } {
  const path = join(temporaryDirectory(), "main.db");
  writeFileSync(path, base);
  writeFileSync(logPath(path), log);
  const connection = openConnection(path);
  const { txid } = readState(connection);
  const integrity = connection.raw.pragma("integrity_check", { simple: true });
  connection.close();
  return { file: readFileSync(path), txid, integrity };
}

/** A reader that is closed when the test ends. */
export function openReader(path: string): WalReader {
  const reader = new WalReader(path);
  onTestFinished(() => reader.close());
  return reader;
}

/** Everything up to the end of the log, a few commits at a time. */
export function readAll(reader: WalReader): WalCommit[] {
  const commits: WalCommit[] = [];
  for (let more = reader.read(3, MiB); more.length > 0; more = reader.read(3, MiB)) commits.push(...more);
  return commits;
}

/** Reads with a reader of its own. */
export function readFresh(path: string): WalCommit[] {
  const reader = new WalReader(path);
  try {
    return readAll(reader);
  } finally {
    reader.close();
  }
}

/** A closed database with a log of so many small commits. */
export function smallLog(commits: number): {
  readonly path: string;
  readonly base: Buffer;
  readonly log: Buffer;
  readonly ends: readonly number[];
} {
  const { path, base } = newDatabase();
  const connection = openConnection(path);
  for (let key = 1; key <= commits; key++) commitRow(connection, key);
  closeKeeping(connection);
  const log = readFileSync(logPath(path));
  let end = 32;
  const ends = readFresh(path).map(({ logBytes }) => (end += logBytes));
  expect([ends.length, ends.at(-1)]).toEqual([commits, log.length]);
  return { path, base, log, ends };
}

/** A frame to be written: a commit frame when it has a size. */
export interface Frame {
  readonly page: number;
  readonly pages: number;
  readonly bytes: Uint8Array;
}

/** The frames of a log that is known to be whole. */
export function parseFrames(log: Buffer): Frame[] {
  return Array.from({ length: (log.length - 32) / frameBytes }, (_, index) => {
    const at = 32 + index * frameBytes;
    return {
      page: log.readUInt32BE(at),
      pages: log.readUInt32BE(at + 4),
      bytes: log.subarray(at + 24, at + frameBytes),
    };
  });
}

/** A log with these frames, its checksums over words of either order. */
export function encodeLog(frames: readonly Frame[], order: "little" | "big" = "little"): Buffer {
  let [first, second] = [0, 0];
  const add = (bytes: Buffer): void => {
    for (let at = 0; at < bytes.length; at += 8) {
      first = (first + (order === "big" ? bytes.readUInt32BE(at) : bytes.readUInt32LE(at)) + second) >>> 0;
      second = (second + (order === "big" ? bytes.readUInt32BE(at + 4) : bytes.readUInt32LE(at + 4)) + first) >>> 0;
    }
  };
  const words = (...values: readonly number[]): Buffer => {
    const bytes = Buffer.alloc(values.length * 4);
    for (const [index, value] of values.entries()) bytes.writeUInt32BE(value, index * 4);
    return bytes;
  };
  const salts = [0x01020304, 0xf1f2f3f4] as const;
  const header = words(order === "big" ? 0x377f0683 : 0x377f0682, 3_007_000, pageBytes, 0, ...salts);
  add(header);
  const parts = [header, words(first, second)];
  for (const { page, pages, bytes } of frames) {
    add(words(page, pages));
    add(Buffer.from(bytes));
    parts.push(words(page, pages, ...salts, first, second), Buffer.from(bytes));
  }
  return Buffer.concat(parts);
}
