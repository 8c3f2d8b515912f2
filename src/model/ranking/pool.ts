/**
 * The rows that a question looks into: those that hold the most of its weight.
 *
 * Always true: sums run in the order of the question, so that the same state gives the same bits everywhere.
 */
import type { WeighedQuestion } from "./question.ts";

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

/** What decides which rows are kept. */
export interface Selection {
  /** How many rows are wanted at most. */
  readonly most: number;
  /** Those of the rows that the request lets through. */
  admitted(rows: readonly number[]): ReadonlySet<number>;
  /** Whether the row may be a hit by itself. */
  hopes(row: number, share: number): boolean;
  /** Called between pieces of work that take less than a millisecond. */
  look(): void;
}

function eachRow(
  { postings, totalWeight }: WeighedQuestion,
  look: () => void,
  visit: (row: number, share: number) => void,
): void {
  const sums = new Float64Array(windowRows);
  const ahead = postings.map(() => 0);
  for (;;) {
    look();
    let first = Infinity;
    postings.forEach(({ rows }, at) => (first = Math.min(first, rows[ahead[at]!] ?? Infinity)));
    if (first === Infinity) return;
    sums.fill(0);
    postings.forEach(({ rows, weight }, at) => {
      let next = ahead[at]!;
      for (; next < rows.length && rows[next]! < first + windowRows; next++) sums[rows[next]! - first]! += weight;
      ahead[at] = next;
    });
    for (let at = 0; at < windowRows; at++) if (sums[at]! > 0) visit(first + at, sums[at]! / totalWeight);
  }
}

const levelOf = (share: number): number => Math.min(levels - 1, Math.floor(share * levels));

/**
 * The rows whose shares are within the levels, the largest shares first, of equals the later row. By groups of equals,
 * of which there are few: rows that hold the same words have the same sum to the last bit. Sorting 40,000 rows took 30
 * ms.
 */
function holdersWithin(question: WeighedQuestion, look: () => void, least: number, ceiling: number): Holder[] {
  const groups = new Map<number, number[]>();
  eachRow(question, look, (row, share) => {
    const level = levelOf(share);
    if (level < least || level >= ceiling) return;
    const group = groups.get(share);
    if (group) group.push(row);
    else groups.set(share, [row]);
  });
  const ordered = [...groups].sort(([left], [right]) => right - left);
  return ordered.flatMap(([share, rows]) => rows.reverse().map((row): Holder => ({ row, share })));
}

/**
 * At most `most` rows that pass, the largest shares first, of equals the later row. Rows are shown to `admitted` in
 * steps, so that a filter that few pass costs no more than it must, and none that passes and `hopes` is ever crowded
 * out.
 */
export function pickHolders(question: WeighedQuestion, { most, admitted, hopes, look }: Selection): Holder[] {
  const counts = new Uint32Array(levels);
  eachRow(question, look, (_, share) => counts[levelOf(share)]!++);
  const picked: Holder[] = [];
  let above = levels;
  let asked = 0;
  for (let step = most; picked.length < most && above > 0; step *= 2) {
    let level = above;
    for (let seen = 0; level > 0 && seen < step;) seen += counts[--level]!;
    const some = holdersWithin(question, look, level, above);
    above = level;
    const width = Math.min(step, rowsAskedMax);
    for (let from = 0; from < some.length && picked.length < most; from += width) {
      look();
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
