/**
 * Database files on the local disk: where they lie, how one comes into being, how they go.
 *
 * Always true: a file appears under its name whole and synced or not at all.
 */
import { closeSync, existsSync, mkdirSync, openSync, readdirSync, readFileSync, renameSync, rmSync, statSync, writeSync } from "node:fs";
import { dirname, join } from "node:path";
import { limits } from "../base/limits.ts";
import type { World } from "../base/world.ts";
import { createSchema } from "../model/schema.ts";
import { Connection } from "../sqlite/connection.ts";
import type { Disk } from "../sqlite/wal.ts";

/** A folder for one database, holding one file per branch. */
export function databaseDirectory(databasesDirectory: string, uuid: string): string {
  return join(databasesDirectory, uuid);
}

export function branchPath(databasesDirectory: string, uuid: string, branchId: string): string {
  return join(databaseDirectory(databasesDirectory, uuid), `${branchId}.db`);
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

/** Writes a new database file, durably, under its final name. */
export async function createFile(path: string, empty: Uint8Array, disk: Disk, world: World): Promise<void> {
  const directory = dirname(path);
  mkdirSync(directory, { recursive: true });
  const temporary = `${path}.${world.ulid()}.tmp`;
  const descriptor = openSync(temporary, "wx", 0o600);
  try {
    writeSync(descriptor, empty);
    await disk.fdatasync(descriptor, temporary);
  } finally {
    closeSync(descriptor);
  }
  renameSync(temporary, path);
  await disk.syncDirectory(directory);
  await disk.syncDirectory(dirname(directory));
}

/** Removes a deleted database's files. */
export async function removeDatabase(databasesDirectory: string, uuid: string, disk: Disk): Promise<void> {
  rmSync(databaseDirectory(databasesDirectory, uuid), { recursive: true, force: true });
  if (existsSync(databasesDirectory)) await disk.syncDirectory(databasesDirectory);
}

/** Every branch with a log on this disk that holds something: what may have to be shipped after a restart. */
export function branchesWithLogs(databasesDirectory: string): { readonly uuid: string; readonly branchId: string }[] {
  const found: { uuid: string; branchId: string }[] = [];
  for (const uuid of readdirSync(databasesDirectory)) {
    for (const name of readdirSync(join(databasesDirectory, uuid))) {
      if (name.endsWith(".db-wal") && statSync(join(databasesDirectory, uuid, name)).size > 0) found.push({ uuid, branchId: name.slice(0, -".db-wal".length) });
    }
  }
  return found;
}
