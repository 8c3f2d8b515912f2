/**
 * The rows that a question looks into: those that hold the most of its weight.
 *
 * Always true: sums run in the order of the question, so that the same state gives the same bits everywhere.
 */
import type { Posting, WeighedQuestion } from "./question.ts";

/**
 * Rows are summed in windows of this many: ten times as fast as a map of all of them, and no larger when rows are
 * sparse.
 */
const windowRows = 4096;
/** Rows that a filter is asked about at once: one of hundreds of conditions must not hold others up for long. */
const rowsAskedMax = 256;
/** When a filter has been asked about so many rows, it is asked only about those that may be hits by themselves. */
const rowsAskedFreely = 1_000;
/** Steps in which shares are counted before any row is kept. */
const levels = 256;

/** A row and the share of the question's weight that it holds anywhere. */
export interface Holder {
  readonly row: number;
  readonly share: number;
}

function eachRow(postings: readonly Posting[], total: number, visit: (row: number, share: number) => void): void {
  const sums = new Float64Array(windowRows);
  const ahead = postings.map(() => 0);
  for (;;) {
    const first = postings.reduce((least, { rows }, at) => Math.min(least, rows[ahead[at]!] ?? Infinity), Infinity);
    if (first === Infinity) return;
    sums.fill(0);
    postings.forEach(({ rows, weight }, at) => {
      let next = ahead[at]!;
      for (; next < rows.length && rows[next]! < first + windowRows; next++) sums[rows[next]! - first]! += weight;
      ahead[at] = next;
    });
    for (let at = 0; at < windowRows; at++) if (sums[at]! > 0) visit(first + at, sums[at]! / total);
  }
}

const levelOf = (share: number): number => Math.min(levels - 1, Math.floor(share * levels));

/**
 * At most `most` rows that pass, the largest shares first, of equals the later row. Rows are shown to `admitted` in
 * steps, so that a filter that few pass costs no more than it must, and none that passes and `hopes` is ever crowded
 * out.
 */
export function pickHolders(
  { postings, totalWeight: total }: WeighedQuestion,
  most: number,
  admitted: (rows: readonly number[]) => ReadonlySet<number>,
  hopes: (row: number, share: number) => boolean,
): Holder[] {
  const counts = new Uint32Array(levels);
  eachRow(postings, total, (_, share) => counts[levelOf(share)]!++);
  const picked: Holder[] = [];
  let above = levels;
  let asked = 0;
  for (let step = most; picked.length < most && above > 0; step *= 2) {
    let level = above;
    for (let seen = 0; level > 0 && seen < step;) seen += counts[--level]!;
    const some: Holder[] = [];
    const [least, ceiling] = [level, above];
    eachRow(postings, total, (row, share) => {
      const at = levelOf(share);
      if (at >= least && at < ceiling) some.push({ row, share });
    });
    above = level;
    some.sort((left, right) => right.share - left.share || right.row - left.row);
    const width = Math.min(step, rowsAskedMax);
    for (let from = 0; from < some.length && picked.length < most; from += width) {
      const isFree = asked < rowsAskedFreely;
      const part = some.slice(from, from + width).filter(({ row, share }) => isFree || hopes(row, share));
      if (part.length === 0) continue;
      asked += part.length;
      const passed = admitted(part.map(({ row }) => row));
      picked.push(...part.filter(({ row }) => passed.has(row)));
    }
  }
  return picked.slice(0, most);
}
