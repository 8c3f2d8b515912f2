/**
 * Words that enter their index in batches, for databases of format 2.
 *
 * What FTS5 writes for one small row is some six pages: a segment of its index, sums, lengths, its text. For a batch it
 * is little more. So the newest rows wait: until then a search reads their texts as they are (`pendingRows`). Databases
 * of format 1 enter each row with its group, as earlier builds that serve them too know nothing of waiting rows.
 *
 * Always true: rows wait in the order of their numbers, so that those above the last one that was entered are those
 * that wait; fewer than `batchRows` wait after a commit, none of them of more than `pendingCharsMax`; what is removed
 * leaves the index's pages (`secure-delete`). Must not know: what the rows are, how they are ranked.
 */
import type { Connection } from "../../sqlite/connection/connection.ts";
import { isBatched } from "../core/database-state.ts";
import type { Tx } from "../core/transaction.ts";
import { tokenizer } from "./words.ts";

/** Rows that are entered together. A search reads half of them on average: .1 ms where they are short. */
export const batchRows = 32;

/** A row of more characters does not wait, and none before it: a search would read it each time. */
export const pendingCharsMax = 1_024;

/** A row with its folded texts, one for each column. */
export interface RowTexts {
  readonly row: number;
  readonly texts: readonly string[];
}

/** An FTS5 table over rows whose texts are elsewhere. */
export interface WordTable {
  readonly name: string;
  readonly columns: readonly string[];
  /** The rows above the one up to and including the other, ascending. */
  readRows(connection: Connection, above: number, upTo: number): readonly RowTexts[];
}

/**
 * DDL of the table, run when the first rows are entered into a database that lacks it. Deleted words leave the index's
 * pages, for which it must keep its own text. SQLite stores the statement as it is written, so its line breaks are part
 * of a database's format: the golden files hold them.
 */
export function wordSchema({ name, columns }: Pick<WordTable, "name" | "columns">): string {
  return `
CREATE VIRTUAL TABLE ${name} USING fts5 (
  ${columns.join(", ")},
  tokenize = "${tokenizer}"
);
INSERT INTO ${name} (${name}, rank) VALUES ('secure-delete', 1);
`;
}

/** The highest row that was entered and is there; 0 when there is none. */
function lastEntered(connection: Connection, { name }: WordTable): number {
  if (!connection.hasTable(name)) return 0;
  return connection.get<{ last: number | null }>(`SELECT max(id) AS last FROM ${name}_docsize`)!.last ?? 0;
}

/** Makes the row, new and the highest, findable by its words; `chars` is about how much text it has. */
export function addWords(tx: Tx, table: WordTable, row: number, chars: number): void {
  const { connection } = tx;
  tx.atGroupEnd(() => {
    if (!isBatched(connection)) return enter(connection, table, table.readRows(connection, row - 1, row));
    const last = lastEntered(connection, table);
    // A row of the group that came before it may have taken it along.
    if (row > last && (chars > pendingCharsMax || row - last >= batchRows))
      enter(connection, table, table.readRows(connection, last, Number.MAX_SAFE_INTEGER));
  });
}

/** Enters what a row says by now, if it was entered with what it said before. */
export function renewWords(tx: Tx, table: WordTable, row: number): void {
  const { connection } = tx;
  tx.atGroupEnd(() => {
    if (remove(connection, table, row)) enter(connection, table, table.readRows(connection, row - 1, row));
  });
}

/** Makes a row that was there before findable again: at its place among those that were entered, else as a new one. */
export function restoreWords(tx: Tx, table: WordTable, row: number, chars: number): void {
  const { connection } = tx;
  addWords(tx, table, row, chars);
  tx.atGroupEnd(() => {
    if (!isBatched(connection) || row > lastEntered(connection, table) || isEntered(connection, table, row)) return;
    enter(connection, table, table.readRows(connection, row - 1, row));
  });
}

/** Removes the words of the row. */
export function removeWords(tx: Tx, table: WordTable, row: number): void {
  tx.atGroupEnd(() => void remove(tx.connection, table, row));
}

/** The rows that wait, ascending. */
export function pendingRows(connection: Connection, table: WordTable): readonly RowTexts[] {
  if (!isBatched(connection)) return [];
  return table.readRows(connection, lastEntered(connection, table), Number.MAX_SAFE_INTEGER);
}

function enter(connection: Connection, table: WordTable, rows: readonly RowTexts[]): void {
  if (!connection.hasTable(table.name)) connection.exec(wordSchema(table));
  const { name, columns } = table;
  const sql = `INSERT INTO ${name} (rowid, ${columns.join(", ")}) VALUES (?${", ?".repeat(columns.length)})`;
  for (const { row, texts } of rows) connection.run(sql, row, ...texts);
}

function isEntered(connection: Connection, { name }: WordTable, row: number): boolean {
  return connection.hasTable(name) && connection.get(`SELECT 1 FROM ${name}_docsize WHERE id = ?`, row) !== undefined;
}

/** Whether there was something to remove. */
function remove(connection: Connection, table: WordTable, row: number): boolean {
  if (!isEntered(connection, table, row)) return false;
  connection.run(`DELETE FROM ${table.name} WHERE rowid = ?`, row);
  return true;
}
