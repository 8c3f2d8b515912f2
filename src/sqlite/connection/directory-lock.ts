/**
 * One process per data directory: an exclusive SQLite transaction held open on a small file.
 *
 * Node has no flock; SQLite's lock is an OS lock and dies with the process, so a crash leaves nothing to clean up. A
 * node's own processes share the lock of a second file, and the next node begins when the last of them is gone.
 */
import { join } from "node:path";
import Database from "better-sqlite3";

/**
 * A starting node waits this long for processes that a killed one has left: they end with it, but not in the same
 * instant.
 */
const sqlOrphanMsMax = 10_000;

export interface DirectoryLock {
  release(): void;
}

const nodeFile = "node.lock.db";
const processesFile = "processes.lock.db";

/**
 * Takes the directory, or throws an Error that says another process has it. Waits for processes that a killed node has
 * left.
 */
export function lockDirectory(directory: string): DirectoryLock {
  const database = exclusively(directory, nodeFile, 0, "is in use by another process");
  try {
    exclusively(directory, processesFile, sqlOrphanMsMax, "is in use by a process that a node before has left").close();
  } catch (error) {
    database.close();
    throw error;
  }
  return { release: () => database.close() };
}

/** Says that a process of the directory's node is there, until it is released or ends. */
export function joinDirectory(directory: string): DirectoryLock {
  const database = new Database(join(directory, processesFile), { readonly: true, timeout: sqlOrphanMsMax });
  try {
    // A read transaction: all its holders share it.
    database.exec("BEGIN");
    database.prepare("SELECT count(*) FROM sqlite_schema").get();
  } catch (error) {
    database.close();
    throw error;
  }
  return { release: () => database.close() };
}

function exclusively(directory: string, name: string, timeout: number, problem: string): Database.Database {
  const database = new Database(join(directory, name), { timeout });
  try {
    database.pragma("journal_mode = DELETE");
    database.pragma("locking_mode = EXCLUSIVE");
    database.exec("BEGIN EXCLUSIVE");
    return database;
  } catch (error) {
    database.close();
    if ((error as { code?: string }).code?.startsWith("SQLITE_BUSY")) {
      throw new Error(`the data directory ${directory} ${problem}`);
    }
    throw error;
  }
}
