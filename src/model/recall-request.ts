/**
 * What a recall can be asked, and what no state of a database could answer.
 *
 * Must not know: how it is answered.
 */
import { invalid } from "../base/faults/errors.ts";
import { limits } from "../base/limits.ts";
import { checkText } from "../format/core/names.ts";
import { memoryTypes, type MemoryType } from "./memory/memory-record.ts";
import { checkFilters, checkTimeRange, type Filters } from "./memory/recall-conditions.ts";
import { checkEmbedding } from "./vectors/vectors.ts";

export const recallDefault = 8;
export const recallMax = 1000;

/** What to recall (spec: RecallRequest). At least one of query, embedding and topicKey. */
export interface RecallInput extends Filters {
  readonly query?: string;
  readonly embedding?: Float32Array;
  /** The embedder that made the vector; absent when it is the caller's own. */
  readonly embeddedBy?: string;
  readonly topicKey?: string;
  readonly k?: number;
  /** So many of each type and no others, instead of the best of all. */
  readonly kPerType?: TypeCounts;
  /** Counts more what is of this session, by words and vector. */
  readonly preferSessionId?: string;
  /** Whether turns are searched by the vector, and by the words of the query. */
  readonly includeTurns?: boolean;
  readonly searchTurns?: boolean;
  /** Floors instead of the service's own: coverage of the query's words, 0 to 1; cosine similarity, -1 to 1. */
  readonly minScore?: { readonly keyword?: number; readonly vector?: number };
  readonly explain?: boolean;
  /** Also memories that do not hold in the world: otherwise those that do at `validAtMs`, by default now. */
  readonly includeInvalid?: boolean;
}

type TypeCounts = { readonly [Type in MemoryType]?: number };

/** Refuses a request that no state of the database could answer. Reads nothing. */
export function checkRecall(input: RecallInput): void {
  const { query, embedding, topicKey, k, minScore, preferSessionId } = input;
  if (query !== undefined && query !== "") checkText("query", query, limits.recallQueryBytesMax);
  if (embedding !== undefined) checkEmbedding("embedding", embedding);
  if (topicKey !== undefined) checkText("topic_key", topicKey, limits.topicKeyBytesMax);
  if (isBlank(query) && embedding === undefined && topicKey === undefined)
    throw invalid("one of query, embedding and topic_key must be given");
  checkFilters(input);
  if (input.includeInvalid && input.validAtMs !== undefined)
    throw invalid("give valid_at or include_invalid, not both: one asks for a time, the other for none");
  if (k !== undefined && (!Number.isInteger(k) || k < 1))
    throw invalid(`k must be a whole number from 1; at most ${recallMax} memories are given`);
  checkTypeCounts(input.kPerType);
  checkTimeRange(input);
  if (preferSessionId !== undefined) checkText("prefer_session_id", preferSessionId, limits.sessionIdBytesMax);
  checkFloor("min_score.keyword", minScore?.keyword, 0);
  checkFloor("min_score.vector", minScore?.vector, -1);
}

function checkTypeCounts(counts: TypeCounts | undefined): void {
  if (!counts) return;
  const named = memoryTypes.filter((type) => counts[type] !== undefined);
  if (named.length === 0) throw invalid(`k_per_type must name at least one of ${memoryTypes.join(", ")}`);
  for (const type of named)
    if (!Number.isInteger(counts[type]) || counts[type]! < 1)
      throw invalid(`k_per_type.${type} must be a whole number from 1; at most ${recallMax} memories are given`);
}

export function isBlank(query: string | undefined): boolean {
  return query === undefined || query.trim() === "";
}

function checkFloor(field: string, floor: number | undefined, least: number): void {
  if (floor === undefined || (floor >= least && floor <= 1)) return;
  throw invalid(`${field} must be a number from ${least} to 1`);
}
