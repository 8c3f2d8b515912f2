/** What a node has set aside. */
import { join } from "node:path";
import Sqlite from "better-sqlite3";
import { listQuarantine } from "../../src/engine/local/quarantine.ts";
import type { TimedEngine } from "./timed-engine.ts";

/** Keys in a file that was set aside, its log included. */
export function keysIn(path: string): readonly string[] {
  const database = new Sqlite(path);
  try {
    return database.prepare("SELECT key FROM __service_kv ORDER BY key").pluck().all() as string[];
  } finally {
    database.close();
  }
}

export const listAside = ({ directory }: TimedEngine) =>
  listQuarantine(directory).map((entry) => ({ ...entry, keys: keysIn(join(entry.directory, `${entry.name}.db`)) }));
