/**
 * Database files on the local disk: where they lie, how one is made, how they are removed.
 *
 * Always true: a file appears under its name whole and synced or not at all.
 */
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync, statSync } from "node:fs";
import { dirname, join } from "node:path";
import { limits } from "../../base/limits.ts";
import type { World } from "../../base/world.ts";
import { makeCanonical, pageBytes } from "../../format/history/pages.ts";
import { createSchema } from "../../model/schema.ts";
import { Connection } from "../../sqlite/connection/connection.ts";
import { proveLog } from "../../sqlite/wal/wal.ts";
import { markFile, placeFile, type Disk } from "../../base/disk.ts";

/** Lies beside a file that was restored and not written since (engine/opening/restored-file). */
export const restoredMark = ".restored";
/** A whole file that is to take the place of the branch's. */
const nextMark = ".next";
/**
 * Lies beside a file whose log must be proven before it is used: an fsync of it has failed. It need not be synced: it
 * warns of pages that the kernel has and the disk has not, which a loss of power removes together with it.
 */
const unprovenMark = ".unproven";

/** A folder for one database, holding one file per branch. */
function databaseDirectory(databasesDirectory: string, uuid: string): string {
  return join(databasesDirectory, uuid);
}

export function branchPath(databasesDirectory: string, uuid: string, branchId: string): string {
  return join(databaseDirectory(databasesDirectory, uuid), `${branchId}.db`);
}

/** A path for a temporary file. The directory is made anew when it has been removed. */
export function scratchFile(scratchDirectory: string, name: string): string {
  mkdirSync(scratchDirectory, { recursive: true, mode: 0o700 });
  return join(scratchDirectory, name);
}

/**
 * The bytes of an empty database of a format, by default the newest, made once per thread: copying them costs far less
 * than running the DDL each time.
 */
export function emptyDatabase(scratchDirectory: string, world: World, format?: number): Uint8Array {
  const path = join(scratchDirectory, `empty-${world.ulid()}.db`);
  const connection = new Connection(path, { readonly: false, pageCacheKiB: limits.pageCacheKiB });
  createSchema(connection, format);
  connection.close();
  const bytes = readFileSync(path);
  rmSync(path);
  // What SQLite left behind as it made the tables would be slack of pages that no log names.
  for (let at = 0; at < bytes.length; at += pageBytes)
    makeCanonical(bytes.subarray(at, at + pageBytes), at / pageBytes + 1);
  return bytes;
}

/** Every database that has a folder here. */
export function databaseUuids(databasesDirectory: string): string[] {
  return existsSync(databasesDirectory) ? readdirSync(databasesDirectory) : [];
}

/** A branch's unfinished file, `<branch>.db.<ulid>.tmp`, and what SQLite or a restore may put beside it. */
const unfinished = /\.db\.[0-9A-Z]{26}\.tmp(?:-wal|-shm|-journal|\.restoring)?$/;

/**
 * Removes unfinished files of the database that a crash has left. Call while none is being made. A power loss may bring
 * them back; then the next start removes them.
 */
export function removeLeftovers(databasesDirectory: string, uuid: string): void {
  const directory = databaseDirectory(databasesDirectory, uuid);
  if (!existsSync(directory)) return;
  for (const name of readdirSync(directory)) if (unfinished.test(name)) rmSync(join(directory, name), { force: true });
}

/** Writes a new database file, durably, under its final name. */
export async function createFile(path: string, empty: Uint8Array, disk: Disk, world: World): Promise<void> {
  const directory = dirname(path);
  mkdirSync(directory, { recursive: true });
  const temporary = `${path}.${world.ulid()}.tmp`;
  // A log that is left of a file that was removed would be taken for the new file's.
  removeFile(path);
  await placeFile(disk, path, empty, temporary);
  await disk.syncDirectory(dirname(directory));
}

/** What lies beside a branch's file: its log, SQLite's index of that, and marks of ours. */
const besides = ["-wal", "-shm", restoredMark, unprovenMark, ".patching", nextMark];

/**
 * Removes a branch's file and everything beside it; the file first, so that a crash leaves nothing that would be
 * opened. Making a file in its place first removes the rest.
 */
export function removeFile(path: string): void {
  for (const suffix of ["", ...besides]) rmSync(`${path}${suffix}`, { force: true });
}

/**
 * Puts the file at `temporary`, which is whole, synced and has no log, in the place of a branch's closed file, durably.
 * A crash between any two steps leaves the old file with its log, or the new one, which `finishReplacement` puts in its
 * place.
 */
export async function replaceFile(temporary: string, path: string, disk: Disk): Promise<void> {
  renameSync(temporary, `${path}${nextMark}`);
  await disk.syncDirectory(dirname(path));
  finishReplacement(path);
  await disk.syncDirectory(dirname(path));
}

/** Ends what `replaceFile` has begun, if it has. Call before the file is looked at. */
export function finishReplacement(path: string): void {
  const next = `${path}${nextMark}`;
  if (!existsSync(next)) return;
  // The old file's log must never lie beside the new file.
  for (const suffix of ["", "-wal", "-shm", unprovenMark, ".patching"]) rmSync(`${path}${suffix}`, { force: true });
  renameSync(next, path);
}

/** From now on no process uses the branch's log before it is proven. */
export function markUnproven(path: string): void {
  markFile(`${path}${unprovenMark}`);
}

/** Proves the log of a branch's closed file (sqlite/wal/wal). */
export async function proveBranch(path: string, disk: Disk): Promise<void> {
  await proveLog(path, disk);
  rmSync(`${path}${unprovenMark}`, { force: true });
}

/** Proves the log if that is owed. Call before anything opens the file. */
export async function proveIfOwed(path: string, disk: Disk): Promise<void> {
  if (existsSync(`${path}${unprovenMark}`)) await proveBranch(path, disk);
}

/** Removes a deleted database's files. */
export async function removeDatabase(databasesDirectory: string, uuid: string, disk: Disk): Promise<void> {
  rmSync(databaseDirectory(databasesDirectory, uuid), { recursive: true, force: true });
  if (existsSync(databasesDirectory)) await disk.syncDirectory(databasesDirectory);
}

/**
 * Every branch of the databases with a log on this disk that holds something: what may have to be shipped after a
 * restart.
 */
export function branchesWithLogs(
  databasesDirectory: string,
  uuids: readonly string[] = databaseUuids(databasesDirectory),
): { readonly uuid: string; readonly branchId: string }[] {
  const found: { uuid: string; branchId: string }[] = [];
  for (const uuid of uuids) {
    for (const name of namesIn(join(databasesDirectory, uuid))) {
      if (name.endsWith(".db-wal") && statSync(join(databasesDirectory, uuid, name)).size > 0)
        found.push({ uuid, branchId: name.slice(0, -".db-wal".length) });
    }
  }
  return found;
}

/** The names of a branch's file and of what lies beside it. */
const branchFile = /^(.+)\.db(?:-wal|-shm|\.restored|\.unproven|\.patching|\.next)?$/;

/** The outcome of a removal of unused copies. */
export interface UnusedFiles {
  readonly removed: number;
  /** Of these, files that had been set aside, with their labels. */
  readonly setAside: number;
  /** Branches whose closed file has a log: it may hold what object storage does not. */
  readonly unshipped: number;
  /** Folders from which something went. */
  readonly directories: readonly string[];
}

/**
 * Removes every copy of the database's data from this disk but for its `open` files: closed branches, which are
 * restored on their next use, whatever was left unfinished, and what was set aside. Call while no branch opens or
 * closes.
 */
export function removeUnused(
  databasesDirectory: string,
  uuid: string,
  open: ReadonlySet<string>,
  branchIds: ReadonlySet<string>,
): UnusedFiles {
  const directory = databaseDirectory(databasesDirectory, uuid);
  const aside = databaseDirectory(quarantineDirectory(databasesDirectory), uuid);
  const unshipped = new Set<string>();
  const unused = namesIn(directory).filter((name) => {
    const branchId = branchFile.exec(name)?.[1];
    if (branchId === undefined) return true;
    const path = branchPath(databasesDirectory, uuid, branchId);
    if (open.has(path)) return false;
    if (branchIds.has(branchId) && existsSync(`${path}-wal`) && statSync(`${path}-wal`).size > 0)
      unshipped.add(branchId);
    return !unshipped.has(branchId);
  });
  for (const name of unused) rmSync(join(directory, name), { recursive: true, force: true });
  const setAside = namesIn(aside).length;
  rmSync(aside, { recursive: true, force: true });
  const directories = [...(unused.length > 0 ? [directory] : []), ...(setAside > 0 ? [dirname(aside)] : [])];
  return { removed: unused.length + setAside, setAside, unshipped: unshipped.size, directories };
}

/** Every database that this disk has anything of, set aside or not. */
export function listDatabasesOnDisk(databasesDirectory: string): string[] {
  const uuids = new Set([...databaseUuids(databasesDirectory), ...namesIn(quarantineDirectory(databasesDirectory))]);
  return [...uuids].filter((uuid) => countFiles(databasesDirectory, uuid) > 0);
}

/** How many files this disk has of the database, set aside or not. */
export function countFiles(databasesDirectory: string, uuid: string): number {
  return (
    namesIn(databaseDirectory(databasesDirectory, uuid)).length +
    namesIn(databaseDirectory(quarantineDirectory(databasesDirectory), uuid)).length
  );
}

function namesIn(directory: string): string[] {
  return existsSync(directory) ? readdirSync(directory) : [];
}

/** Where files lie that belong to no history, for an operator to look at. */
export function quarantineDirectory(databasesDirectory: string): string {
  return join(dirname(databasesDirectory), "quarantine");
}
