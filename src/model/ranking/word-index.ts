/**
 * What a ranking asks of an index of words: the one door to it, whatever keeps it.
 *
 * Always true: rows are the numbers of the things that were indexed, and every answer belongs to one committed state.
 * Nothing of how words are stored, and no SQL, passes through.
 */
import type { Term } from "../text/words.ts";

/** Words that a row has in each column. */
export type ColumnLengths = readonly number[];

export interface WordIndex {
  /** How many rows are indexed, and how many words they have together. */
  size(): { readonly rows: number; readonly words: number };
  /** The first rows, ascending. */
  firstRows(most: number): readonly number[];
  /** The rows that hold the term in any column, ascending. */
  rowsOf(term: Term): readonly number[];
  /** For each of the rows how many words it has; rows that are not indexed are left out. */
  lengths(rows: readonly number[]): ReadonlyMap<number, ColumnLengths>;
  /**
   * The folded texts of the rows, column by column, in their order until `charsMax` of them were read; the rest is left
   * out.
   */
  texts(rows: readonly number[], charsMax: number): ReadonlyMap<number, readonly string[]>;
}
