/**
 * The words of the transcript: one FTS5 table over what was said, and how it is asked.
 *
 * Owns its table, which is made when the first turns are entered: earlier files stay as they are and are still read,
 * but words do not find their older turns. Always true: a row's number is its turn's; words are written, at once or
 * with others that wait, and removed at the end of the commit group (model/text/word-batches). Must not know: vectors,
 * memories.
 */
import { limits } from "../../base/limits.ts";
import { readContent, textLeaves } from "../core/content.ts";
import { searchedWords } from "../ranking/pending-index.ts";
import { rankByWords, type Neighbour, type Searched, type WordAnswer, type WordSearch } from "../ranking/rank.ts";
import type { Connection } from "../../sqlite/connection/connection.ts";
import type { Tx, View } from "../core/transaction.ts";
import { addWords, removeWords, type RowTexts, type WordTable } from "../text/word-batches.ts";
import { indexedText, originText } from "../text/words.ts";
import { turnFilter, type TurnFilters } from "./turn-filters.ts";

/** What was said, and by whom and when. */
const roles = ["body", "origin"] as const;

interface StoredTurn {
  readonly row: number;
  readonly role: string;
  readonly content: string;
  readonly createdAt: number;
}

function foldTexts({ row, role, content, createdAt }: StoredTurn): RowTexts {
  const said = textLeaves(readContent("content", content).value, limits.indexedTextBytesMax).join("\n");
  return { row, texts: [said, originText(role, createdAt)].map(indexedText) };
}

export const turnWords: WordTable = {
  name: "__service_turn_text",
  columns: ["said", "origin"],
  readRows: (connection, above, upTo) =>
    connection
      .all<StoredTurn>(
        `SELECT row, role, content, created_at AS createdAt FROM __service_turn
         WHERE row > ? AND row <= ? ORDER BY row`,
        above,
        upTo,
      )
      .map(foldTexts),
};

/**
 * SQL that finds words of turns that are gone; undefined while no turn was ever indexed. Throws when index and texts
 * differ.
 */
export function strayTurnText(connection: Connection): string | undefined {
  const { name } = turnWords;
  if (!connection.hasTable(name)) return undefined;
  connection.exec(`INSERT INTO ${name} (${name}) VALUES ('integrity-check')`);
  return `SELECT 1 FROM ${name}_content WHERE id NOT IN (SELECT row FROM __service_turn) LIMIT 1`;
}

/** Makes the turn of this row, new and the highest, findable by its words, by who spoke and when. */
export function indexTurn(tx: Tx, row: number, chars: number): void {
  addWords(tx, turnWords, row, chars);
}

/** Removes the words of the turns of these rows. */
export function unindexTurns(tx: Tx, rows: readonly number[]): void {
  for (const row of rows) removeWords(tx, turnWords, row);
}

export interface TurnTextSearch extends WordSearch {
  readonly filters: TurnFilters;
}

function searchedTurns(view: View, filters: TurnFilters): Searched {
  const { connection } = view;
  const filter = turnFilter(view, filters);
  return {
    index: searchedWords(connection, turnWords),
    columns: roles,
    isTalk: true,
    look: () => connection.look(),
    admitted: (rows) => (filter ? filter(rows) : new Set(rows)),
    speakers(rows) {
      const found = connection.all<{ row: number; role: string }>(
        `SELECT t.row, t.role FROM json_each(?) AS asked CROSS JOIN __service_turn AS t ON t.row = asked.value`,
        JSON.stringify(rows),
      );
      return new Map(found.map(({ row, role }) => [row, role]));
    },
    around: (rows) =>
      connection.all<Neighbour>(
        `SELECT s.row AS seed, t.row, abs(t.seq - s.seq) AS steps FROM json_each(?) AS asked
         CROSS JOIN __service_turn AS s ON s.row = asked.value
         CROSS JOIN __service_turn AS t ON t.session_id = s.session_id
           AND t.seq BETWEEN s.seq - 2 AND s.seq + 2 AND t.seq <> s.seq
         ORDER BY asked.key, t.seq`,
        JSON.stringify(rows),
      ),
  };
}

/**
 * The turns that the question is about, best first, ties newer first; undefined while no turn was ever indexed. The
 * neighbours of a turn are looked up when asked, so that a turn is indexed once and nothing that was said before has to
 * be written again.
 */
export function searchTurnText(view: View, { filters, ...search }: TurnTextSearch): WordAnswer {
  return rankByWords(searchedTurns(view, filters), search);
}
