/**
 * The turns of a recall: found by their vectors, by their words, or by both and fused.
 *
 * Always true: nothing is searched that was not asked for, and a turn is given once.
 */
import type { View } from "../core/transaction.ts";
import { foundTurns, nearestRows, type TurnRecord } from "./transcript.ts";
import { vectorWorths, wordWorths } from "../ranking/fusion.ts";
import { searchTurnText } from "./turn-text.ts";

export interface TurnRecall {
  /** Asks the vectors. */
  readonly includeTurns?: boolean;
  /** Asks the words. */
  readonly searchTurns?: boolean;
  readonly query?: string;
  readonly embedding?: Float32Array;
  readonly embeddedBy?: string;
  readonly sessionId?: string;
  readonly minScore?: { readonly keyword?: number };
}

/** At most `k` turns: nearest first where only vectors were asked, otherwise the most relevant first. */
export function recallTurns(view: View, input: TurnRecall, k: number): TurnRecord[] {
  const { sessionId, embeddedBy } = input;
  const near =
    input.includeTurns && input.embedding
      ? nearestRows(view, { sessionId, vector: input.embedding, embeddedBy, k })
      : [];
  if (!input.searchTurns || input.query === undefined) return foundTurns(view, near);
  const said = searchTurnText(view, { query: input.query, sessionId, want: k, coverageMin: input.minScore?.keyword });
  const vectors = near.map(({ row, distance }) => ({ row, score: 1 - distance }));
  const scores = wordWorths(said.hits);
  for (const [row, worth] of vectorWorths(vectors, 0)) scores.set(row, (scores.get(row) ?? 0) + worth);
  const distances = new Map(near.map(({ row, distance }) => [row, distance]));
  const best = [...scores].sort(([row, score], [otherRow, other]) => other - score || otherRow - row).slice(0, k);
  return foundTurns(
    view,
    best.map(([row]) => ({ row, ...(distances.has(row) ? { distance: distances.get(row)! } : {}) })),
  );
}
