/**
 * The keyword channel: one FTS5 table over what a memory says, and how it is asked.
 *
 * Always true: a memory's indexed text has the memory's row number and is written and removed at the end of the commit
 * group, in the order of the commands; deleted words leave the index's pages (`secure-delete`), for which the table
 * must keep its own text (a contentless one ignores that option). Must not know: fusion, vectors.
 */
import { limits } from "../../base/limits.ts";
import { textLeaves } from "../core/content.ts";
import type { Json } from "../core/docs-json.ts";
import { fts5Index } from "../ranking/fts5-index.ts";
import { rankByWords, type Neighbour, type Searched, type WordAnswer, type WordSearch } from "../ranking/rank.ts";
import { admitted, type Conditions } from "./recall-conditions.ts";
import type { Tx, View } from "../core/transaction.ts";
import { indexedText, originText, tokenizer } from "../text/words.ts";

const table = "__service_memory_text";
const columns = ["topic", "summary", "body", "origin"] as const;

/** The table. */
export const keywordSchema = `
CREATE VIRTUAL TABLE ${table} USING fts5 (
  ${columns.join(", ")},
  tokenize = "${tokenizer}"
);
INSERT INTO ${table} (${table}, rank) VALUES ('secure-delete', 1);
`;

/** What a memory says, as far as words can find it. */
export interface MemoryText {
  readonly topicKey: string | undefined;
  readonly keywords: string | undefined;
  readonly summary: string;
  readonly content: Json;
  readonly source: string | undefined;
  readonly createdAt: number;
}

/** Makes the memory of this row findable by its words. The row must not be indexed already. */
export function indexMemory(tx: Tx, row: number, text: MemoryText): void {
  const columns = [
    `${text.topicKey ?? ""} ${text.keywords ?? ""}`,
    text.summary,
    textLeaves(text.content, limits.indexedTextBytesMax).join("\n"),
    originText(text.source, text.createdAt),
  ].map(indexedText);
  tx.atGroupEnd(() => {
    tx.connection.run(
      "INSERT INTO __service_memory_text (rowid, topic, summary, body, origin) VALUES (?, ?, ?, ?, ?)",
      row,
      ...columns,
    );
  });
}

/** Removes the words of the memory of this row. */
export function unindexMemory(tx: Tx, row: number): void {
  tx.atGroupEnd(() => {
    tx.connection.run("DELETE FROM __service_memory_text WHERE rowid = ?", row);
  });
}

export interface KeywordSearch extends WordSearch {
  readonly conditions: Conditions;
}

/** Memories as the ranking by words sees them, within the conditions. */
function searchedMemories(view: View, conditions: Conditions): Searched {
  return {
    index: fts5Index(view.connection, table, columns.length),
    columns,
    isTalk: false,
    admitted: (rows) => admitted(view, conditions, rows),
    speakers(rows) {
      const found = view.connection.all<{ row: number; source: string }>(
        `SELECT m.row, m.source FROM json_each(?) AS asked CROSS JOIN __service_memory AS m ON m.row = asked.value
         WHERE m.source IS NOT NULL`,
        JSON.stringify(rows),
      );
      return new Map(found.map(({ row, source }) => [row, source]));
    },
    around: (rows) => neighbours(view, rows),
  };
}

/**
 * Events follow on one another within a session; facts and instructions that came from the same one need not.
 */
function neighbours(view: View, rows: readonly number[]): Neighbour[] {
  const beside = (most: "max" | "min", sign: "<" | ">", of: string): string =>
    `(SELECT ${most}(p.memory) FROM __service_memory_provenance AS p
      WHERE p.session_id = s.session_id AND p.session_id <> '' AND p.memory ${sign} s.${of})`;
  const found = view.connection.all<{ row: number } & Record<"before" | "after" | "before2" | "after2", number | null>>(
    `WITH seeds AS MATERIALIZED (
       SELECT asked.key, m.row, m.session_id FROM json_each(?) AS asked
       CROSS JOIN __service_memory AS m ON m.row = asked.value WHERE m.session_id IS NOT NULL AND m.type = 'event'),
     beside AS MATERIALIZED (
       SELECT s.*, ${beside("max", "<", "row")} AS before, ${beside("min", ">", "row")} AS after FROM seeds AS s)
     SELECT s.row, s.before, s.after, ${beside("max", "<", "before")} AS before2,
       ${beside("min", ">", "after")} AS after2 FROM beside AS s ORDER BY s.key`,
    JSON.stringify(rows),
  );
  return found.flatMap(({ row: seed, before, after, before2, after2 }) =>
    (
      [
        [before, 1],
        [after, 1],
        [before2, 2],
        [after2, 2],
      ] as const
    ).flatMap(([row, steps]): Neighbour[] => (row === null ? [] : [{ seed, row, steps }])),
  );
}

/**
 * Finds memories by the words of a question. Rows are filtered inside, so that no other memory can crowd out an allowed
 * one.
 */
export function searchKeywords(view: View, { conditions, ...search }: KeywordSearch): WordAnswer {
  return rankByWords(searchedMemories(view, conditions), search);
}
