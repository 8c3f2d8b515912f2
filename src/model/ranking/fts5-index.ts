/**
 * The words of a table that SQLite's FTS5 keeps, as a `WordIndex`.
 *
 * Lengths and sums are read from FTS5's own shadow tables (sqlite.org/fts5.html, "FTS5 Data Structures"): they are kept
 * with every row, and reading them costs no text. Must not know: what the rows are, how they are ranked.
 */
import type { Connection } from "../../sqlite/connection/connection.ts";
import { indexForm } from "../text/tokens.ts";
import { readRowsOf } from "./fts5-doclist.ts";
import type { ColumnLengths, WordIndex } from "./word-index.ts";

/** The row of `_data` that holds the sums: rows, then words by column, as varints. */
const averagesRow = 1;

/** SQLite's varints: seven bits a byte, the highest first; a ninth byte would hold eight, which no length needs. */
function readVarints(blob: Uint8Array): number[] {
  const values: number[] = [];
  let value = 0;
  for (const byte of blob) {
    value = value * 128 + (byte & 0x7f);
    if (byte >= 0x80) continue;
    values.push(value);
    value = 0;
  }
  return values;
}

/** From so many rows on that hold a word its list is read as it lies, */
const commonRows = 1_024;
/** unless rows are longer than this many words: then most of a list is places, which a query passes over sooner. */
const shortRowWords = 60;
/** A word that FTS5 takes as it is, but for its ending. */
const plainWord = /^"([a-z0-9]+)"$/;

/** `columns` are those of the FTS5 table, in its order. */
export function fts5Index(connection: Connection, table: string, columns: number): WordIndex {
  const ask = (match: string, most: number): number[] =>
    connection
      .prepared(`SELECT rowid FROM ${table} WHERE ${table} MATCH ? LIMIT ?`)
      .pluck()
      .all(match, most) as number[];
  return {
    size() {
      const found = connection.get<{ block: Uint8Array }>(`SELECT block FROM ${table}_data WHERE id = ${averagesRow}`);
      const [rows = 0, ...words] = found ? readVarints(found.block) : [];
      return { rows, words: words.reduce((sum, count) => sum + count, 0) };
    },
    firstRows: (most) =>
      connection.prepared(`SELECT id FROM ${table}_docsize ORDER BY id LIMIT ?`).pluck().all(most) as number[],
    rowsOf({ match }) {
      // The query comes first in any case: with it FTS5 writes to its pages what a transaction has added.
      const some = ask(match, commonRows);
      if (some.length < commonRows) return some;
      const { rows, words } = this.size();
      if (words > shortRowWords * rows) return ask(match, -1);
      const word = plainWord.exec(match)?.[1];
      const read = word === undefined ? undefined : readRowsOf(connection, table, indexForm(word));
      return read ?? ask(match, -1);
    },
    lengths(rows) {
      const found = connection.all<{ row: number; sizes: Uint8Array }>(
        `SELECT d.id AS row, d.sz AS sizes FROM json_each(?) AS asked
         CROSS JOIN ${table}_docsize AS d ON d.id = asked.value ORDER BY asked.key`,
        JSON.stringify(rows),
      );
      return new Map(found.map(({ row, sizes }): [number, ColumnLengths] => [row, readVarints(sizes)]));
    },
    texts(rows, charsMax) {
      const names = Array.from({ length: columns }, (_, at) => `c.c${at}`);
      const statement = connection.prepared(`SELECT ${names.join(", ")} FROM ${table}_content AS c WHERE c.id = ?`);
      const found = new Map<number, readonly string[]>();
      let bytes = 0;
      for (const row of rows) {
        const texts = statement.raw().get(row) as string[] | undefined;
        if (!texts) continue;
        bytes += texts.reduce((sum, text) => sum + text.length, 0);
        if (bytes > charsMax) break;
        found.set(row, texts);
      }
      return found;
    },
  };
}
