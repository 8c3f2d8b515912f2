/**
 * What words and vectors say, as one score: the share of the best score of words, and half of where the cosine lies
 * between what is far and what is nearest.
 *
 * Scores and not ranks, because they say by how much one is better: ranks cost 9 points of any@8 where the vectors are
 * weak, and gain less where they are strong (LoCoMo's turns and BEAM with all-MiniLM-L6-v2; docs/recall.md). Must not
 * know: who embeds, what the rows are.
 */
import type { RowContext } from "./rank.ts";
import { recipe } from "./recipe.ts";

/** Best first. */
export type ScoredRows = readonly { readonly row: number; readonly score: number }[];

/** The worth of each row by its words, 0 to 1. */
export function wordWorths(hits: ScoredRows): Map<number, number> {
  const best = hits[0]?.score ?? 0;
  return new Map(hits.map(({ row, score }) => [row, best > 0 ? score / best : 1]));
}

/** Of those that were compared, which are nearest first: the cosine that is worth nothing. */
function farOf(compared: ScoredRows, floor: number): number {
  const last = compared[recipe.farRank - 1]?.score;
  return last ?? Math.min(floor, compared.at(-1)?.score ?? floor);
}

/**
 * The worth of each row by its nearness, 0 to `vectorWeight`; `compared` are the nearest first, whether near enough or
 * not, and `floor` is the cosine below which nothing is near. As by words, a row gets a part of what those beside it in
 * its session have, and counts by its length and who said it, where the question has words to tell that by. Rows that
 * were not compared get something only if they are `known`.
 */
export function vectorWorths(
  compared: ScoredRows,
  floor: number,
  context?: RowContext,
  known: (row: number) => boolean = () => false,
): Map<number, number> {
  const best = compared[0]?.score ?? 0;
  const far = farOf(compared, floor);
  const own = new Map<number, number>();
  for (const { row, score } of compared) {
    if (score <= far && best > far) break;
    own.set(row, best > far ? (score - far) / (best - far) : 1);
  }
  const worths = context ? inContext(own, context, (row) => known(row) || own.has(row)) : own;
  const most = worths.values().reduce((so, worth) => Math.max(so, worth), 0);
  return new Map(worths.entries().map(([row, worth]) => [row, (recipe.vectorWeight * worth) / most]));
}

function inContext(
  own: ReadonlyMap<number, number>,
  context: RowContext,
  known: (row: number) => boolean,
): Map<number, number> {
  const worths = new Map(own);
  for (const { seed, row, steps } of context.around([...own.keys()]))
    if (known(row))
      worths.set(row, (worths.get(row) ?? 0) + (steps === 1 ? recipe.nearOne : recipe.nearTwo) * own.get(seed)!);
  const weights = context.weights([...worths.keys()]);
  for (const [row, worth] of worths) worths.set(row, worth * (weights.get(row) ?? 1));
  return worths;
}
