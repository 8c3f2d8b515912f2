/**
 * From a path to an open, proven database file, and from nothing to a new one.
 *
 * Always true: a file appears under its name whole and synced or not at all; an open file's state row was read; what
 * SQLite recovers from the log is a prefix of whole commit groups (its frames are checksummed).
 */
import { access, mkdir, open, rename, rm } from "node:fs/promises";
import { readFileSync, rmSync } from "node:fs";
import { dirname, join } from "node:path";
import { limits } from "../base/limits.ts";
import type { World } from "../base/world.ts";
import { createSchema, readState, type DatabaseState } from "../model/schema.ts";
import { Connection } from "../sqlite/connection.ts";
import { syncDirectory } from "../store/file-store.ts";

export interface Opened {
  readonly connection: Connection;
  readonly state: DatabaseState;
}

/** A folder for one database, holding one file per branch. */
function databaseDirectory(databasesDirectory: string, uuid: string): string {
  return join(databasesDirectory, uuid);
}

export function branchPath(databasesDirectory: string, uuid: string, branch: string): string {
  return join(databaseDirectory(databasesDirectory, uuid), `${branch}.db`);
}

/** The bytes of an empty database, made once per thread: copying them costs far less than running the DDL each time. */
export function emptyDatabase(scratchDirectory: string, world: World): Uint8Array {
  const path = join(scratchDirectory, `empty-${world.ulid()}.db`);
  const connection = new Connection(path, { readonly: false, pageCacheKiB: limits.pageCacheKiB });
  createSchema(connection);
  connection.close();
  const bytes = readFileSync(path);
  rmSync(path);
  return bytes;
}

async function exists(path: string): Promise<boolean> {
  try {
    await access(path);
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return false;
    throw error;
  }
}

/** Writes a new database file, durably, under its final name. */
async function createFile(path: string, empty: Uint8Array, world: World): Promise<void> {
  const directory = dirname(path);
  await mkdir(directory, { recursive: true });
  const temporary = `${path}.${world.ulid()}.tmp`;
  const handle = await open(temporary, "wx", 0o600);
  try {
    await handle.writeFile(empty);
    await handle.sync();
  } finally {
    await handle.close();
  }
  await rename(temporary, path);
  await syncDirectory(directory);
  await syncDirectory(dirname(directory));
}

/** Opens the file, creating it from `empty` when it is not there. */
export async function openDatabase(path: string, empty: Uint8Array, world: World): Promise<Opened> {
  if (!(await exists(path))) await createFile(path, empty, world);
  return reopenDatabase(path);
}

/** Opens a file that is there; SQLite replays its log. */
function reopenDatabase(path: string): Opened {
  const connection = new Connection(path, { readonly: false, pageCacheKiB: limits.pageCacheKiB });
  try {
    return { connection, state: readState(connection) };
  } catch (error) {
    connection.close();
    throw error;
  }
}

/** Removes a deleted database's files. */
export async function removeDatabase(databasesDirectory: string, uuid: string): Promise<void> {
  await rm(databaseDirectory(databasesDirectory, uuid), { recursive: true, force: true });
  if (await exists(databasesDirectory)) await syncDirectory(databasesDirectory);
}
