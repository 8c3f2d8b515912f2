/**
 * The one door to the local disk for files of our own: writes, fsyncs, directory entries.
 *
 * Why a door: a disk may be full, write only a part of what it is given, fail, hang, or lose what was not synced. Tests
 * and the simulator replace it and do all of that. SQLite's own writes pass through its VFS, not through here.
 */
import { closeSync, constants, fdatasync, openSync, renameSync, rmSync, writeSync } from "node:fs";
import { open } from "node:fs/promises";
import { dirname } from "node:path";
import { StoreError } from "./faults/errors.ts";

/** What is asked of a disk. */
export interface Disk {
  /**
   * Writes some of the bytes at the position, and gives how many: a full disk may take a part of them. Throws what the
   * system throws. `writeWhole` is what callers want.
   */
  write(descriptor: number, path: string, bytes: Uint8Array, position: number): number;
  /**
   * Resolves when the file's data and length are on stable storage; undefined when they are there already. Never
   * throws.
   */
  fdatasync(descriptor: number, path: string): Promise<void> | undefined;
  /** Resolves when the directory's entries are on stable storage. */
  syncDirectory(path: string): Promise<void>;
}

/** Faults of a disk, by the codes of the system and of SQLite, in words that may reach a client and an operator. */
const faults: readonly (readonly [code: string, words: string])[] = [
  ["ENOSPC", "the disk is full"],
  ["EDQUOT", "the disk's quota is used up"],
  ["EROFS", "the disk is read-only"],
  ["EIO", "the disk is failing"],
  ["EMFILE", "this process has too many files open"],
  ["ENFILE", "this machine has too many files open"],
  ["SQLITE_FULL", "the disk is full"],
  ["SQLITE_READONLY", "the disk is read-only"],
  ["SQLITE_IOERR", "the disk is failing"],
];

/** What the error says of the disk; undefined when it is about something else. */
export function describeDiskFault(error: unknown): string | undefined {
  const code = (error as { code?: unknown } | null)?.code;
  return typeof code === "string"
    ? faults.find(([start]) => code === start || code.startsWith(`${start}_`))?.[1]
    : undefined;
}

/** Writes all the bytes at the position, or throws. */
export function writeWhole(disk: Disk, descriptor: number, path: string, bytes: Uint8Array, position: number): void {
  for (let done = 0; done < bytes.length;) {
    const written = disk.write(descriptor, path, done === 0 ? bytes : bytes.subarray(done), position + done);
    // A disk that takes nothing and says nothing would be asked for ever.
    if (written <= 0) throw new StoreError("unavailable", "the disk takes no more bytes of a file");
    done += written;
  }
}

/**
 * Puts a file in its place, readable by the node's own user only: it is there whole and durable when this
 * resolves, and what was there before, or nothing, when it rejects. One writer of a `temporary` at a time; a crash may
 * leave it.
 */
export async function placeFile(disk: Disk, path: string, bytes: Uint8Array, temporary = `${path}.new`): Promise<void> {
  // What a crash left there may have another mode, which writing into it would keep.
  rmSync(temporary, { force: true });
  try {
    const descriptor = openSync(temporary, "wx", 0o600);
    try {
      writeWhole(disk, descriptor, temporary, bytes, 0);
      await disk.fdatasync(descriptor, temporary);
    } finally {
      closeSync(descriptor);
    }
    renameSync(temporary, path);
  } catch (error) {
    // On a full disk what was begun would take the room that is missing.
    rmSync(temporary, { force: true });
    throw error;
  }
  await disk.syncDirectory(dirname(path));
}

/** Makes an empty file that says something by being there; a sync of its directory makes it durable. */
export function markFile(path: string): void {
  closeSync(openSync(path, "a", 0o600));
}

/** The machine's disk. */
export const realDisk: Disk = {
  write: (descriptor, _path, bytes, position) => writeSync(descriptor, bytes, 0, bytes.length, position),
  fdatasync: (descriptor) =>
    new Promise((resolve, reject) => {
      fdatasync(descriptor, (error) => (error ? reject(error) : resolve()));
    }),
  syncDirectory: async (path) => {
    const handle = await open(path, constants.O_RDONLY | constants.O_DIRECTORY);
    try {
      await handle.sync();
    } finally {
      await handle.close();
    }
  },
};
