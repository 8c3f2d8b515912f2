/**
 * The words of files: one FTS5 table over paths and texts, and how it is asked.
 *
 * Always true: a row's number is that of the present version of its path; words are written, at once or with others
 * that wait, and removed at the end of the commit group (model/text/word-batches). Must not know: versions, passages.
 */
import { limits } from "../../base/limits.ts";
import type { Tx, View } from "../core/transaction.ts";
import { searchedWords } from "../ranking/pending-index.ts";
import { rankByWords, type Searched, type WordAnswer, type WordSearch } from "../ranking/rank.ts";
import { addWords, removeWords, type WordTable } from "../text/word-batches.ts";
import { indexedText } from "../text/words.ts";
import { rangeBelow } from "./file-path.ts";

/** The path names what the text is about, as a topic does a memory. */
const roles = ["topic", "body"] as const;

interface StoredFile {
  readonly row: number;
  readonly path: string;
  readonly text: string;
}

const fileWords: WordTable = {
  name: "__service_file_words",
  columns: ["path", "said"],
  readRows: (connection, above, upTo) =>
    connection.hasTable("__service_file")
      ? connection
          .all<StoredFile>(
            `SELECT f.row, f.path, substr(t.text, 1, ${limits.indexedTextBytesMax}) AS text
             FROM __service_file AS f CROSS JOIN __service_file_version AS v ON v.row = f.row
             CROSS JOIN __service_file_text AS t ON t.row = v.text
             WHERE f.row > ? AND f.row <= ? ORDER BY f.row`,
            above,
            upTo,
          )
          .map(({ row, path, text }) => ({ row, texts: [path, text].map(indexedText) }))
      : [],
};

/** Makes the file of this row, new and the highest, findable by its words. */
export function indexFile(tx: Tx, row: number, chars: number): void {
  addWords(tx, fileWords, row, chars);
}

/** Removes the words of the file of this row. */
export function unindexFile(tx: Tx, row: number): void {
  removeWords(tx, fileWords, row);
}

export interface FileWordSearch extends WordSearch {
  /** Files below this folder only; the empty text is the whole tree. */
  readonly folder: string;
}

/** The files that the question is about, best first, ties newer first. The table of files must be there. */
export function searchFileWords({ connection }: View, { folder, ...search }: FileWordSearch): WordAnswer {
  const { from, end } = rangeBelow(folder);
  const searched: Searched = {
    index: searchedWords(connection, fileWords),
    columns: roles,
    isTalk: false,
    look: () => connection.look(),
    admitted(rows) {
      if (end === undefined) return new Set(rows);
      const found = connection.all<{ row: number }>(
        `SELECT v.row FROM json_each(?) AS asked CROSS JOIN __service_file_version AS v ON v.row = asked.value
         WHERE v.path >= ? AND v.path < ?`,
        JSON.stringify(rows),
        from,
        end,
      );
      return new Set(found.map(({ row }) => row));
    },
    speakers: () => new Map(),
    around: () => [],
  };
  return rankByWords(searched, search);
}
