/**
 * Whether a database file at rest is one that SQLite can use, without letting it run what its owner has written.
 *
 * The pages are walked by ourselves (sqlite/pages/page-walk); SQLite checks the reserved tables alone, whose schema is
 * the service's. Why that is safe: a check of one table reads that table and its indexes and evaluates its own
 * constraints; no user can put an index, a trigger or a column on a reserved table (sqlite/sql-text-check,
 * native/authorizer.c).
 */
import { StoreError } from "../base/faults/errors.ts";
import { limits } from "../base/limits.ts";
import { Connection } from "./connection/connection.ts";
import { walkPages, type TreeRoot } from "./pages/page-walk.ts";
import { reservedPrefix } from "./sql-text-check.ts";

/** Has SQLite check the reserved tables; each step is one of them. Throws StoreError("corrupt"). */
export function* checkReserved(connection: Connection): Generator<void, void> {
  const tables = connection.all<{ name: string }>(
    "SELECT name FROM sqlite_schema WHERE type = 'table' AND substr(name, 1, ?) = ? COLLATE NOCASE",
    reservedPrefix.length,
    reservedPrefix,
  );
  for (const { name } of tables) {
    const found = connection.raw.pragma(`quick_check('${name.replaceAll("'", "''")}')`, { simple: true });
    if (found !== "ok") throw new StoreError("corrupt", "SQLite finds one of the service's own tables unsound");
    yield;
  }
}

/** The trees that the schema names. */
function listRoots(connection: Connection): readonly TreeRoot[] {
  const rows = connection.all<{ type: string; page: number }>(
    "SELECT type, rootpage AS page FROM sqlite_schema WHERE rootpage > 0",
  );
  return rows.map(({ type, page }) => ({ page, isIndex: type === "index" }));
}

/**
 * Checks the file at `path`, which has no log and is only read. Each step is a turn's work. Throws
 * StoreError("corrupt"), or what SQLite throws.
 */
export function* checkFile(path: string): Generator<void, void> {
  const connection = new Connection(path, { readonly: true, pageCacheKiB: limits.pageCacheKiB });
  let roots: readonly TreeRoot[];
  try {
    roots = listRoots(connection);
    yield* checkReserved(connection);
  } finally {
    // Before the file is opened by ourselves: closing that takes away the locks that SQLite holds on it in this
    // process.
    connection.close();
  }
  yield* walkPages(path, roots);
}
