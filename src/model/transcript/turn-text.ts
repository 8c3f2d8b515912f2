/**
 * The words of the transcript: one FTS5 table over what was said, and how it is asked.
 *
 * Owns its table, which is made when the first turn is appended: earlier files stay as they are and are still read, but
 * words do not find their older turns. Always true: a row's number is its turn's; rows are written and removed at the
 * end of the commit group, in the order of the commands, and deleted words leave the index's pages (`secure-delete`).
 * Must not know: vectors, memories.
 */
import { limits } from "../../base/limits.ts";
import { textLeaves } from "../core/content.ts";
import { fts5Index } from "../ranking/fts5-index.ts";
import { rankByWords, type Neighbour, type Searched, type WordAnswer, type WordSearch } from "../ranking/rank.ts";
import type { Json } from "../core/docs-json.ts";
import type { Connection } from "../../sqlite/connection/connection.ts";
import type { Tx, View } from "../core/transaction.ts";
import { indexedText, originText, tokenizer } from "../text/words.ts";

const table = "__service_turn_text";
/** What was said, and by whom and when. */
const columns = ["body", "origin"] as const;

const turnTextSchema = `
CREATE VIRTUAL TABLE ${table} USING fts5 (said, origin, tokenize = "${tokenizer}");
INSERT INTO ${table} (${table}, rank) VALUES ('secure-delete', 1);
`;

function hasTurnText(connection: Connection): boolean {
  return connection.hasTable(table);
}

/**
 * SQL that finds words of turns that are gone; undefined while no turn was ever indexed. Throws when index and texts
 * differ.
 */
export function strayTurnText(connection: Connection): string | undefined {
  if (!hasTurnText(connection)) return undefined;
  connection.exec(`INSERT INTO ${table} (${table}) VALUES ('integrity-check')`);
  return `SELECT 1 FROM ${table}_content WHERE id NOT IN (SELECT row FROM __service_turn) LIMIT 1`;
}

/** Makes the turn of this row findable by its words, by who spoke and when. */
export function indexTurn(
  tx: Tx,
  row: number,
  turn: { readonly role: string; readonly content: Json; readonly createdAt: number },
): void {
  const said = indexedText(textLeaves(turn.content, limits.indexedTextBytesMax).join("\n"));
  const origin = indexedText(originText(turn.role, turn.createdAt));
  tx.atGroupEnd(() => {
    if (!hasTurnText(tx.connection)) tx.connection.exec(turnTextSchema);
    tx.connection.run(`INSERT INTO ${table} (rowid, said, origin) VALUES (?, ?, ?)`, row, said, origin);
  });
}

/** Removes the words of the turns of these rows. */
export function unindexTurns(tx: Tx, rows: readonly number[]): void {
  tx.atGroupEnd(() => {
    if (!hasTurnText(tx.connection)) return;
    for (const row of rows) tx.connection.run(`DELETE FROM ${table} WHERE rowid = ?`, row);
  });
}

export interface TurnTextSearch extends WordSearch {
  /** Turns of this session only. */
  readonly sessionId: string | undefined;
}

function searchedTurns(view: View, sessionId: string | undefined): Searched {
  const { connection } = view;
  return {
    index: fts5Index(connection, table, columns.length),
    columns,
    isTalk: true,
    admitted(rows) {
      if (sessionId === undefined) return new Set(rows);
      const found = connection.all<{ row: number }>(
        `SELECT t.row FROM json_each(?) AS asked CROSS JOIN __service_turn AS t ON t.row = asked.value
         WHERE t.session_id = ?`,
        JSON.stringify(rows),
        sessionId,
      );
      return new Set(found.map(({ row }) => row));
    },
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
export function searchTurnText(view: View, { sessionId, ...search }: TurnTextSearch): WordAnswer | undefined {
  if (!hasTurnText(view.connection)) return undefined;
  return rankByWords(searchedTurns(view, sessionId), search);
}
