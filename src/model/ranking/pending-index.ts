/**
 * An index of words together with rows that are not in it yet: they are read as they are.
 *
 * Always true: the pending rows are above all that are indexed, and what is answered is what the index would answer
 * with them in it. Must not know: why they wait.
 */
import type { Connection } from "../../sqlite/connection/connection.ts";
import { fts5Index } from "./fts5-index.ts";
import { eachWord, indexForm } from "../text/tokens.ts";
import { pendingRows, type RowTexts, type WordTable } from "../text/word-batches.ts";
import type { Term } from "../text/words.ts";
import type { ColumnLengths, WordIndex } from "./word-index.ts";

/** A pending row with its words, each in lower case. */
interface ReadRow extends RowTexts {
  readonly lengths: ColumnLengths;
  readonly words: readonly string[];
}

function readRow({ row, texts }: RowTexts): ReadRow {
  const words: string[] = [];
  const lengths = texts.map((text) => {
    const before = words.length;
    eachWord(text, (start, end) => words.push(text.slice(start, end).toLowerCase()));
    return words.length - before;
  });
  return { row, texts, lengths, words };
}

const sum = (lengths: ColumnLengths): number => lengths.reduce((total, words) => total + words, 0);

/** Whether a word is the one of the term, as the index would hold both. */
function matcher({ match }: Term): (word: string) => boolean {
  const end = match.lastIndexOf('"');
  const form = indexForm(match.slice(1, end));
  if (match.endsWith("*")) return (word) => indexForm(word).startsWith(form);
  // Stemming leaves the first two letters as they are, and takes longer than looking at one.
  const first = form.charCodeAt(0);
  return (word) => {
    const code = word.charCodeAt(0);
    return (code === first || code >= 128) && indexForm(word) === form;
  };
}

/** The index with the pending rows, which ascend. */
function withPending(index: WordIndex, pending: readonly RowTexts[]): WordIndex {
  if (pending.length === 0) return index;
  const rows = pending.map(readRow);
  const read = new Map(rows.map((one) => [one.row, one]));
  return {
    size() {
      const indexed = index.size();
      const words = rows.reduce((total, { lengths }) => total + sum(lengths), indexed.words);
      return { rows: indexed.rows + rows.length, words };
    },
    firstRows: (most) => [...index.firstRows(most), ...read.keys()].slice(0, most),
    rowsOf(term) {
      const isIt = matcher(term);
      return [...index.rowsOf(term), ...rows.filter(({ words }) => words.some(isIt)).map(({ row }) => row)];
    },
    lengths(asked) {
      const indexed = index.lengths(asked.filter((row) => !read.has(row)));
      const own = asked.flatMap((row) => (read.has(row) ? [[row, read.get(row)!.lengths] as const] : []));
      return new Map([...indexed, ...own]);
    },
    texts(asked, bytesMax) {
      const own = asked.flatMap((row) => (read.has(row) ? [[row, read.get(row)!.texts] as const] : []));
      const bytes = own.reduce((total, [, texts]) => total + texts.reduce((all, text) => all + text.length, 0), 0);
      const indexed = index.texts(
        asked.filter((row) => !read.has(row)),
        bytesMax - bytes,
      );
      return new Map([...indexed, ...own]);
    },
  };
}

/** An index of nothing: where the table was not made yet. */
const emptyIndex: WordIndex = {
  size: () => ({ rows: 0, words: 0 }),
  firstRows: () => [],
  rowsOf: () => [],
  lengths: () => new Map(),
  texts: () => new Map(),
};

/** The words of a table, those of rows that wait included. */
export function searchedWords(connection: Connection, table: WordTable): WordIndex {
  const { name, columns } = table;
  const index = connection.hasTable(name) ? fts5Index(connection, name, columns.length) : emptyIndex;
  return withPending(index, pendingRows(connection, table));
}
