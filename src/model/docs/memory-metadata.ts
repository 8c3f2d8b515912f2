/**
 * What else is known of a memory: a JSON object that filters can ask.
 *
 * Owns its table, which is made when the first metadata comes: earlier files stay as they are and are still read.
 * Always true: a row belongs to a memory that is there, and holds a JSON object within the bounds; a memory without a
 * row answers a filter as an empty object would. Must not know: what a recall or a listing asks beside.
 */
import { invalid } from "../../base/faults/errors.ts";
import { utf8Length } from "../../base/bytes.ts";
import type { Connection, SqlParameter } from "../../sqlite/connection/connection.ts";
import { isObject, parseJson } from "../core/docs-json.ts";
import { filterCondition } from "./metadata-filter.ts";
import type { Tx, View } from "../core/transaction.ts";

/** A filter reads the metadata of every memory that it is asked about. */
export const metadataBytesMax = 16 * 1024;

export const metadataTable = "__service_memory_metadata";

/**
 * The memory's id comes before the metadata, so that no two rows begin alike and a copy of one can be looked for
 * (erasure-traces).
 */
const metadataSchema =
  `CREATE TABLE IF NOT EXISTS ${metadataTable} (memory INTEGER PRIMARY KEY, id TEXT NOT NULL, metadata TEXT NOT ` +
  "NULL) STRICT";

/** SQL that finds rows of metadata without their memory; undefined while there is no metadata at all. */
export function strayMetadata(connection: Connection): string | undefined {
  return connection.hasTable(metadataTable)
    ? `SELECT 1 FROM ${metadataTable} WHERE memory NOT IN (SELECT row FROM __service_memory) LIMIT 1`
    : undefined;
}

/** Reads metadata, and gives its text as it is stored. The rules are those of a document, but for the size. */
export function readMetadata(field: string, text: string): string {
  if (text.length > metadataBytesMax || utf8Length(text) > metadataBytesMax) {
    throw invalid(`${field} must be at most ${metadataBytesMax} bytes of JSON`);
  }
  const { value, text: stored } = parseJson(field, text);
  if (!isObject(value)) throw invalid(`${field} must be an object`);
  if (Object.keys(value).some((name) => name.startsWith("$")))
    throw invalid(`${field} has a field whose name starts with $; such names belong to operators`);
  return stored;
}

/** Gives a new memory its metadata, a text from `readMetadata`. */
export function putMetadata(tx: Tx, memory: { readonly row: number; readonly id: string }, text: string): void {
  tx.connection.exec(metadataSchema);
  tx.connection.run(
    `INSERT INTO ${metadataTable} (memory, id, metadata) VALUES (?, ?, ?)`,
    memory.row,
    memory.id,
    text,
  );
}

/** Gives the memory this metadata in the place of what it has; the same changes nothing, an empty object is none. */
export function replaceMetadata(tx: Tx, memory: { readonly row: number; readonly id: string }, text: string): void {
  if (text === "{}") return removeMetadata(tx, [memory.row]);
  tx.connection.exec(metadataSchema);
  tx.connection.run(
    `INSERT INTO ${metadataTable} (memory, id, metadata) VALUES (?, ?, ?)
     ON CONFLICT (memory) DO UPDATE SET id = excluded.id, metadata = excluded.metadata
     WHERE metadata <> excluded.metadata OR id <> excluded.id`,
    memory.row,
    memory.id,
    text,
  );
}

/** Takes the metadata of these memories away. */
export function removeMetadata(tx: Tx, rows: readonly number[]): void {
  if (!tx.connection.hasTable(metadataTable)) return;
  for (const row of rows) tx.connection.run(`DELETE FROM ${metadataTable} WHERE memory = ?`, row);
}

/** The metadata beside `__service_memory AS m`: a join, and the column that it gives. */
export function joinedMetadata(
  view: View,
  isThere = view.connection.hasTable(metadataTable),
): { readonly join: string; readonly column: string } {
  if (!isThere) return { join: "", column: "NULL" };
  return { join: `LEFT JOIN ${metadataTable} AS x ON x.memory = m.row`, column: "x.metadata" };
}

/** The first bytes of the memory's row of metadata as it lies on its page; undefined when it has none. */
export function metadataStart(view: View, row: number): Uint8Array | undefined {
  if (!view.connection.hasTable(metadataTable)) return undefined;
  return view.connection.get<{ start: Uint8Array }>(
    `SELECT CAST(id || substr(metadata, 1, 2) AS BLOB) AS start FROM ${metadataTable} WHERE memory = ?`,
    row,
  )?.start;
}

/**
 * The filter, JSON text that passed `checkFilter`, as an SQL condition on `__service_memory AS m`, and its parameters.
 */
export function metadataCondition(
  view: View,
  text: string,
): { readonly sql: string; readonly params: readonly SqlParameter[] } {
  return filterCondition(view, { table: metadataTable, ofOwner: "x.memory = m.row" }, text);
}
