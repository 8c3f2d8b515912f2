/**
 * What words and vectors say, as one score: the share of the best score of words, and half of where the cosine lies
 * between what is far and what is nearest.
 *
 * Scores and not ranks, because they say by how much one is better: ranks cost 9 points of any@8 where the vectors are
 * weak, and gain less where they are strong (LoCoMo's turns and BEAM with all-MiniLM-L6-v2; docs/recall.md). Must not
 * know: who embeds, what the rows are.
 */

/** What the nearest vector is worth beside the best by words. */
const vectorWeight = 0.5;
/** So many vectors on, one is far: the cosine there is worth nothing. */
const farRank = 100;

/** Best first. */
export type ScoredRows = readonly { readonly row: number; readonly score: number }[];

/** The worth of each row by its words, 0 to 1. */
export function wordWorths(hits: ScoredRows): Map<number, number> {
  const best = hits[0]?.score ?? 0;
  return new Map(hits.map(({ row, score }) => [row, best > 0 ? score / best : 1]));
}

/** The worth of each row by its cosine similarity; `floor` is the similarity below which nothing is near. */
export function vectorWorths(hits: ScoredRows, floor: number): Map<number, number> {
  const best = hits[0]?.score ?? 0;
  const far = Math.min(best, Math.max(floor, hits[farRank - 1]?.score ?? floor));
  return new Map(
    hits.map(({ row, score }) => [row, vectorWeight * (best > far ? Math.max(0, (score - far) / (best - far)) : 1)]),
  );
}
