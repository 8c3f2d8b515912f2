/**
 * The turns of a recall: found by their vectors, by their words, or by both and fused.
 *
 * Always true: nothing is searched that was not asked for, and a turn is given once.
 */
import type { View } from "../core/transaction.ts";
import { vectorWorths, wordWorths } from "../ranking/fusion.ts";
import { recipe } from "../ranking/recipe.ts";
import { foundTurns, nearestRows, type TurnRecord } from "./transcript.ts";
import { turnFilter, type TurnFilters } from "./turn-filters.ts";
import { searchTurnText } from "./turn-text.ts";

/** With a preferred session so many turns for each that is given are ranked, and at least so many. */
const preferredPerTurn = 4;
const preferredMin = 50;

export interface TurnRecall extends TurnFilters {
  /** Asks the vectors. */
  readonly includeTurns?: boolean;
  /** Asks the words. */
  readonly searchTurns?: boolean;
  readonly query?: string;
  readonly embedding?: Float32Array;
  readonly embeddedBy?: string;
  readonly preferSessionId?: string;
  readonly minScore?: { readonly keyword?: number };
}

/**
 * At most `k` turns: nearest first where only vectors were asked and no session is preferred, otherwise the most
 * relevant first.
 */
export function recallTurns(view: View, input: TurnRecall, k: number): TurnRecord[] {
  const { embeddedBy, query, preferSessionId } = input;
  const want = preferSessionId === undefined ? k : Math.max(preferredMin, preferredPerTurn * k);
  const isSearched = input.searchTurns === true && query !== undefined;
  const near =
    input.includeTurns && input.embedding
      ? nearestRows(view, {
          filters: input,
          vector: input.embedding,
          embeddedBy,
          k: isSearched ? Math.max(want, recipe.farRank) : want,
        })
      : [];
  if (!isSearched && preferSessionId === undefined) return foundTurns(view, near);
  const words = isSearched
    ? searchTurnText(view, { query, filters: input, want, coverageMin: input.minScore?.keyword })
    : undefined;
  const vectors = near.map(({ row, distance }) => ({ row, score: 1 - distance }));
  const scores = wordWorths(words?.hits ?? []);
  const said = new Set(scores.keys());
  for (const [row, worth] of vectorWorths(vectors, 0, words?.context, (row) => said.has(row)))
    scores.set(row, (scores.get(row) ?? 0) + worth);
  if (preferSessionId !== undefined)
    for (const row of turnFilter(view, { sessionId: preferSessionId })!([...scores.keys()]))
      scores.set(row, scores.get(row)! * recipe.preferredSession);
  const distances = new Map(near.map(({ row, distance }) => [row, distance]));
  const best = [...scores].sort(([row, score], [otherRow, other]) => other - score || otherRow - row).slice(0, k);
  return foundTurns(
    view,
    best.map(([row]) => ({ row, ...(distances.has(row) ? { distance: distances.get(row)! } : {}) })),
  );
}
