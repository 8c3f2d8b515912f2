/**
 * What a recall did not give: why it gave nothing, and what came near.
 *
 * Always true: only what the request's filters let through is named; whether something was filtered out is asked of
 * what is visible at all, so that no answer tells of what has expired or of what policy removes. Nothing is looked at
 * unless the answer is empty or is to be explained. Must not know: how the channels search.
 */
import { admitter, buildConditions } from "./memory/recall-conditions.ts";
import { embeddedSpace } from "./memory/memory-vectors.ts";
import type { WordMiss } from "./ranking/relevance.ts";
import type { View } from "./core/transaction.ts";
import type { Looked } from "./recall-channels.ts";
import type { RecallInput } from "./recall-request.ts";

/** Near misses of an answer. */
export const nearMissesMax = 5;
/**
 * So many of the latest memories that match are asked whether they are visible: some 2 ms. Only where so many and more
 * have expired and are not removed yet, what was filtered out is said to be no match.
 */
const reasonLooksMax = 1_000;

/** Why an answer has no memories. */
export type EmptyReason = "nothing_stored" | "no_match" | "filtered_out" | "below_gate" | "vetoed" | "vector_skipped";

/** What a channel asked of a memory that it left out. */
interface MissedBar {
  readonly channel: "keyword" | "vector";
  readonly reason: WordMiss["reason"] | "vetoed" | "vector_below_floor";
  readonly value: number;
  readonly needed: number;
}

/** A memory that was left out as not relevant enough. */
export interface NearMiss {
  readonly id: string;
  readonly reasons: readonly MissedBar[];
  readonly matchedTerms: readonly string[];
}

/** Of an answer without memories: how far what was looked for came, on the channel where it came farthest. */
export function findEmptyReason(view: View, input: RecallInput, looked: readonly Looked[]): EmptyReason {
  if (looked.some(({ words, said }) => (words?.hits.length ?? 0) > said.length)) return "vetoed";
  if (looked.some(({ words, near }) => words?.isMet === true || near.far.length > 0)) return "below_gate";
  const visible = admitter(view, buildConditions(view, { includeSuperseded: true }));
  const anyVisible = (rows: readonly number[]): boolean => visible(rows).size > 0;
  const latest = (sql: string, ...params: readonly (string | number)[]): readonly number[] =>
    view.connection
      .prepared(`${sql} DESC LIMIT ${reasonLooksMax}`)
      .pluck()
      .all(...params) as number[];
  if (!anyVisible(latest("SELECT row FROM __service_memory ORDER BY row"))) return "nothing_stored";
  const { query = "", topicKey, embedding } = input;
  const [{ words, near }] = looked as [Looked];
  const space = embedding && near.skipped === undefined ? embeddedSpace(view, "memory") : undefined;
  const isMatched =
    anyVisible(words?.holding(reasonLooksMax) ?? []) ||
    (topicKey !== undefined &&
      anyVisible(latest("SELECT row FROM __service_memory WHERE topic_key = ? ORDER BY row", topicKey))) ||
    (space !== undefined &&
      anyVisible(latest("SELECT owner FROM __service_vector WHERE space = ? ORDER BY owner", space.space)));
  if (isMatched) return "filtered_out";
  return near.skipped !== undefined && topicKey === undefined && query.trim() === "" ? "vector_skipped" : "no_match";
}

/** The best that were left out; `found` are the rows that were relevant, whether they had a place or not. */
export function findNearMisses(view: View, looked: readonly Looked[], found: ReadonlySet<number>): readonly NearMiss[] {
  const missed = new Map<number, MissedBar[]>();
  const note = (row: number, bar: MissedBar): void => {
    if (!found.has(row)) missed.set(row, [...(missed.get(row) ?? []), bar]);
  };
  for (const { words, said, near } of looked) {
    const kept = new Set(said.map(({ row }) => row));
    for (const { row } of words?.hits ?? [])
      if (!kept.has(row))
        note(row, { channel: "keyword", reason: "vetoed", value: near.far[0]!.score, needed: near.vetoBelow! });
  }
  const misses = looked.flatMap(({ words }) => words?.misses(nearMissesMax + found.size) ?? []);
  misses.sort((left, right) => right.score - left.score);
  for (const { row, score: _, ...bar } of misses) note(row, { channel: "keyword", ...bar });
  const far = looked.flatMap(({ near }) => near.far.map((one) => ({ ...one, needed: near.floor })));
  far.sort((left, right) => right.score - left.score);
  for (const { row, score: value, needed } of far)
    note(row, { channel: "vector", reason: "vector_below_floor", value, needed });
  return told(view, looked, [...missed].slice(0, nearMissesMax));
}

function told(
  view: View,
  looked: readonly Looked[],
  missed: readonly (readonly [number, readonly MissedBar[]])[],
): readonly NearMiss[] {
  const ids = view.connection
    .prepared(
      `SELECT m.id FROM json_each(?) AS asked CROSS JOIN __service_memory AS m ON m.row = asked.value
       ORDER BY asked.key`,
    )
    .pluck()
    .all(JSON.stringify(missed.map(([row]) => row))) as string[];
  return missed.map(([row, reasons], at) => ({
    id: ids[at]!,
    reasons,
    matchedTerms: looked[0]!.words?.matchedTerms(row) ?? [],
  }));
}
