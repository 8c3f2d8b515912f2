/**
 * `node --expose-gc bare-connections.ts <directory> <count>`: prints how many KiB SQLite takes by itself for each of so
 * many open databases of the service, after all of its tables were read and one was written.
 */
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import Database from "better-sqlite3";
import { realWorld } from "../../src/base/world.ts";
import { limits } from "../../src/base/limits.ts";
import { emptyDatabase } from "../../src/engine/local/database-files.ts";
import { releaseFreedMemory } from "../../src/sqlite/sql-authorizer.ts";

const [directory, count] = [process.argv[2]!, Number(process.argv[3])];
const warm = 20;
const empty = emptyDatabase(directory, realWorld());
const open: Database.Database[] = [];

function openOne(): void {
  const path = join(directory, `bare-${open.length}.db`);
  writeFileSync(path, empty);
  const database = new Database(path);
  database.pragma(`cache_size = ${-limits.pageCacheKiB}`);
  const tables = database
    .prepare("SELECT name FROM sqlite_schema WHERE type = 'table' AND sql NOT LIKE 'CREATE VIRTUAL%'")
    .pluck()
    .all() as string[];
  for (const table of tables) database.prepare(`SELECT count(*) FROM "${table}"`).get();
  database.prepare("UPDATE __service_state SET committed_at = 1").run();
  open.push(database);
}

function residentKiB(): number {
  global.gc?.();
  releaseFreedMemory();
  return Number(/VmRSS:\s+(\d+) kB/.exec(readFileSync("/proc/self/status", "utf8"))?.[1]);
}

while (open.length < warm) openOne();
const before = residentKiB();
while (open.length < warm + count) openOne();
console.log(((residentKiB() - before) / count).toFixed(0));
for (const database of open) database.close();
