/**
 * One process per data directory: an exclusive SQLite transaction held open on a small file.
 *
 * Node has no flock; SQLite's lock is an OS lock and dies with the process, so a crash leaves nothing to clean up.
 */
import { join } from "node:path";
import Database from "better-sqlite3";

export interface DirectoryLock {
  release(): void;
}

/** Takes the directory, or throws an Error that says another process has it. */
export function lockDirectory(directory: string): DirectoryLock {
  const database = new Database(join(directory, "node.lock.db"), { timeout: 0 });
  try {
    database.pragma("journal_mode = DELETE");
    database.pragma("locking_mode = EXCLUSIVE");
    database.exec("BEGIN EXCLUSIVE");
  } catch (error) {
    database.close();
    if ((error as { code?: string }).code?.startsWith("SQLITE_BUSY")) {
      throw new Error(`the data directory ${directory} is in use by another process`);
    }
    throw error;
  }
  return { release: () => database.close() };
}
