/**
 * The keyword channel: one FTS5 table over what a memory says, and how it is asked.
 *
 * Always true: a memory's indexed text has the memory's row number; it is written, at once or with others that wait,
 * and removed at the end of the commit group (model/text/word-batches). Must not know: fusion, vectors.
 */
import { limits } from "../../base/limits.ts";
import type { Connection } from "../../sqlite/connection/connection.ts";
import { readContent, textLeaves } from "../core/content.ts";
import { searchedWords } from "../ranking/pending-index.ts";
import { rankByWords, type Neighbour, type Searched, type WordAnswer, type WordSearch } from "../ranking/rank.ts";
import { admitter, type Conditions } from "./recall-conditions.ts";
import type { Tx, View } from "../core/transaction.ts";
import { addWords, removeWords, renewWords, type RowTexts, type WordTable } from "../text/word-batches.ts";
import { stateOf } from "../standing/states.ts";
import { indexedText, originText } from "../text/words.ts";

/** What a memory says, column by column, as far as words can find it. */
const roles = ["topic", "summary", "body", "origin"] as const;

interface StoredText {
  readonly row: number;
  readonly topicKey: string | null;
  readonly keywords: string | null;
  readonly summary: string;
  readonly content: string;
  readonly source: string | null;
  readonly createdAt: number;
  readonly supersededBy: string | null;
}

/** A proposal says nothing yet: its words are neither found nor counted. */
const nothingSaid = roles.map(() => "");

function foldTexts({ supersededBy, ...stored }: StoredText): RowTexts {
  return stateOf(supersededBy) === "proposed" ? { row: stored.row, texts: nothingSaid } : foldSaid(stored);
}

function foldSaid({
  row,
  topicKey,
  keywords,
  summary,
  content,
  source,
  createdAt,
}: Omit<StoredText, "supersededBy">): RowTexts {
  const body = textLeaves(readContent("content", content).value, limits.indexedTextBytesMax).join("\n");
  const texts = [`${topicKey ?? ""} ${keywords ?? ""}`, summary, body, originText(source ?? undefined, createdAt)];
  return { row, texts: texts.map(indexedText) };
}

export const memoryWords: WordTable = {
  name: "__service_memory_text",
  columns: roles,
  readRows: (connection, above, upTo) =>
    connection
      .all<StoredText>(
        `SELECT row, topic_key AS topicKey, keywords, summary, content, source, created_at AS createdAt,
           superseded_by AS supersededBy FROM __service_memory WHERE row > ? AND row <= ? ORDER BY row`,
        above,
        upTo,
      )
      .map(foldTexts),
};

/**
 * SQL that finds indexed text of memories that are gone. Throws when index and texts differ, either way: a word without
 * its text would be a leftover.
 */
export function strayMemoryText(connection: Connection): string {
  const { name } = memoryWords;
  connection.exec(`INSERT INTO ${name} (${name}) VALUES ('integrity-check')`);
  return `SELECT 1 FROM ${name}_content WHERE id NOT IN (SELECT row FROM __service_memory) LIMIT 1`;
}

/** Makes the memory of this row, new and the highest, findable by its words; `chars` is about how much it says. */
export function indexMemory(tx: Tx, row: number, chars: number): void {
  addWords(tx, memoryWords, row, chars);
}

/** Makes the memory of this row findable by the words that it has now, and no longer by those that it had. */
export function reindexMemory(tx: Tx, row: number): void {
  renewWords(tx, memoryWords, row);
}

/** Removes the words of the memory of this row. */
export function unindexMemory(tx: Tx, row: number): void {
  removeWords(tx, memoryWords, row);
}

export interface KeywordSearch extends WordSearch {
  readonly conditions: Conditions;
}

/** Memories as the ranking by words sees them, within the conditions. */
function searchedMemories(view: View, conditions: Conditions): Searched {
  return {
    index: searchedWords(view.connection, memoryWords),
    columns: roles,
    isTalk: false,
    look: () => view.connection.look(),
    admitted: admitter(view, conditions),
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
