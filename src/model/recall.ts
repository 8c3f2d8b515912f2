/**
 * Recall: three channels, each with its own idea of what is relevant, fused into one ranking.
 *
 * Always true:
 * - a memory is returned when its topic is the one asked for, or its words cover enough of the question, or its vector
 *   is near enough, never to fill the answer up
 * - filters apply inside each channel, so that no memory can crowd out another that is allowed
 * - nothing is written
 *
 * The same request at the same txid gives the same answer wherever the vector search is exact.
 * Must not know: who embeds.
 */
import { invalid } from "../base/faults/errors.ts";
import { limits } from "../base/limits.ts";
import { checkText } from "../format/core/names.ts";
import { checkAnswerBytes } from "./core/content.ts";
import { searchKeywords } from "./memory/keyword.ts";
import { vectorWorths, wordWorths } from "./ranking/fusion.ts";
import type { WordAnswer, WordHit } from "./ranking/rank.ts";
import { loadMemories, type MemoryRecord } from "./memory/memory-record.ts";
import { isForeign, findMaker, memorySpace, type Embedded } from "./memory/memory-vectors.ts";
import { admitter, checkFilters, buildConditions, type Conditions, type Filters } from "./memory/recall-conditions.ts";
import type { View } from "./core/transaction.ts";
import type { TurnRecord } from "./transcript/transcript.ts";
import { recallTurns } from "./transcript/turn-recall.ts";
import { checkEmbedding, hasVector, nearest, type VectorSpace } from "./vectors/vectors.ts";

export const recallDefault = 8;
const recallMax = 1000;
/** Each channel of a recall offers at least this many candidates, and four times `k` when that is more. */
const recallPoolMin = 50;
/** … and at most so many more than are wanted: what is deeper in one channel is seldom lifted by another. */
const recallPoolSpare = 250;

/** What to recall (spec: RecallRequest). At least one of query, embedding and topicKey. */
export interface RecallInput extends Filters {
  readonly query?: string;
  readonly embedding?: Float32Array;
  /** The embedder that made the vector; absent when it is the caller's own. */
  readonly embeddedBy?: string;
  readonly topicKey?: string;
  readonly k?: number;
  /** Whether turns are searched by the vector, and by the words of the query. */
  readonly includeTurns?: boolean;
  readonly searchTurns?: boolean;
  /** Floors instead of the service's own: coverage of the query's words, 0 to 1; cosine similarity, -1 to 1. */
  readonly minScore?: { readonly keyword?: number; readonly vector?: number };
  readonly explain?: boolean;
}

/** Refuses a request that no state of the database could answer. Reads nothing. */
export function checkRecall(input: RecallInput): void {
  const { query, embedding, topicKey, k, minScore } = input;
  if (query !== undefined && query !== "") checkText("query", query, limits.recallQueryBytesMax);
  if (embedding !== undefined) checkEmbedding("embedding", embedding);
  if (topicKey !== undefined) checkText("topic_key", topicKey, limits.topicKeyBytesMax);
  if (isBlank(query) && embedding === undefined && topicKey === undefined)
    throw invalid("one of query, embedding and topic_key must be given");
  checkFilters(input);
  if (k !== undefined && (!Number.isInteger(k) || k < 1))
    throw invalid(`k must be a whole number from 1; at most ${recallMax} memories are given`);
  checkFloor("min_score.keyword", minScore?.keyword, 0);
  checkFloor("min_score.vector", minScore?.vector, -1);
}

function isBlank(query: string | undefined): boolean {
  return query === undefined || query.trim() === "";
}

function checkFloor(field: string, floor: number | undefined, least: number): void {
  if (floor === undefined || (floor >= least && floor <= 1)) return;
  throw invalid(`${field} must be a number from ${least} to 1`);
}

/** Raised whenever the same request at the same state may be answered in another order than before. */
export const rankingVersion = 4;

/** The cosine below which a vector is not near, whatever else is farther: low, as models differ. */
const vectorFloor = 0.2;
/**
 * So much below an embedder's floor a vector still is near when words say so too, and below that it speaks against
 * them. With all-MiniLM-L6-v2 (floor .5) questions put to the wrong conversation of LoCoMo find nothing in .96 of the
 * cases instead of .82.
 */
const wordsMargin = 0.1;
/** An exact topic outweighs both other channels together, a superseded memory of it too. */
const topicWorth = { active: 4, superseded: 3 } as const;

type Channel = "topic" | "keyword" | "vector";

interface ChannelHit {
  readonly row: number;
  readonly score: number;
  /** What the channel adds to the fused score. */
  readonly worth: number;
}

interface ChannelAnswer {
  readonly channel: Channel;
  /** Best first. */
  readonly hits: readonly ChannelHit[];
  readonly approximate: boolean;
}

/** A memory that some channel found. */
interface Candidate {
  readonly row: number;
  readonly score: number;
  /** In the order of the channels. */
  readonly found: readonly {
    readonly channel: Channel;
    readonly rank: number;
    readonly score: number;
    readonly approximate: boolean;
  }[];
}

/**
 * Finds memories, the most relevant first, and turns of the transcript when asked to. The input has passed
 * `checkRecall`.
 */
export function recall(
  view: View,
  input: RecallInput,
): { memories: MemoryRecord[]; turns: TurnRecord[]; embedding?: Skipped } {
  const k = Math.min(input.k ?? recallDefault, recallMax);
  const want = Math.max(recallPoolMin, Math.min(4 * k, k + recallPoolSpare));
  const conditions = buildConditions(view, input);
  const words = isBlank(input.query)
    ? undefined
    : searchKeywords(view, { query: input.query!, conditions, want, coverageMin: input.minScore?.keyword });
  const near = vectorChannel(view, input, conditions, want, (words?.hits.length ?? 0) > 0);
  const said = withoutVetoed(view, input, words, near);
  const answers = [topicChannel(view, input, conditions, want), keywordChannel(said), near];
  const chosen = choose(view, fuse(answers), k);
  const memories = loadMemories(
    view,
    chosen.map(({ row }) => row),
  ).map((record, at) => {
    const candidate = chosen[at]!;
    const found = { ...record, score: candidate.score, channels: candidate.found.map(({ channel }) => channel) };
    return input.explain ? { ...found, explain: explain(candidate, words) } : found;
  });
  return { memories, turns: recallTurns(view, input, k), ...(near.skipped && { embedding: near.skipped }) };
}

/** Why a vector was not looked for. */
type Skipped = Exclude<Embedded, "stored">;

/** Every memory of exactly this topic: active ones first and equal among themselves, then the superseded. */
function topicChannel(view: View, input: RecallInput, conditions: Conditions, want: number): ChannelAnswer {
  const channel = { channel: "topic", approximate: false } as const;
  if (input.topicKey === undefined) return { ...channel, hits: [] };
  const found = view.connection.all<{ row: number; superseded: number }>(
    `SELECT m.row, m.superseded_by IS NOT NULL AS superseded FROM __service_memory AS m
     WHERE m.topic_key = ? AND ${conditions.sql} ORDER BY superseded, m.created_at DESC, m.id DESC LIMIT ?`,
    input.topicKey,
    ...conditions.params,
    want,
  );
  const hits = found.map(({ row, superseded }) => {
    return { row, score: 1, worth: superseded ? topicWorth.superseded : topicWorth.active };
  });
  return { ...channel, hits };
}

function keywordChannel(hits: readonly WordHit[]): ChannelAnswer {
  const worths = wordWorths(hits);
  return {
    channel: "keyword",
    hits: hits.map(({ row, score }) => ({ row, score, worth: worths.get(row)! })),
    approximate: false,
  };
}

/** What was near, and by which measure. */
interface VectorAnswer extends ChannelAnswer {
  readonly skipped?: Skipped;
  readonly space?: VectorSpace;
  /** Whether even the nearest is so far that an embedder's vectors speak against the words. */
  readonly isFar?: boolean;
}

/**
 * A vector of another dimension or another model than the stored ones can be near to none of them: then the channel is
 * silent. `isSaid` is whether words found anything, which lets in what is a little farther.
 */
function vectorChannel(
  view: View,
  input: RecallInput,
  conditions: Conditions,
  want: number,
  isSaid: boolean,
): VectorAnswer {
  const space = input.embedding && memorySpace(view);
  const none = { channel: "vector", hits: [], approximate: false } as const;
  if (!space) return none;
  if (space.dimension !== input.embedding!.length) return { ...none, skipped: "skipped_dimension" };
  if (input.embeddedBy !== undefined && isForeign(view, space, input.embeddedBy))
    return { ...none, skipped: "skipped_model" };
  const { hits, exact } = nearest(view, space, input.embedding!, want, admitter(view, conditions));
  const maker = findMaker(view, space);
  const beside = maker && maker.floor - wordsMargin;
  const floor = input.minScore?.vector ?? (isSaid ? beside : undefined) ?? maker?.floor ?? vectorFloor;
  const near = hits
    .filter(({ similarity }) => similarity >= floor)
    .map(({ owner, similarity }) => ({ row: owner, score: similarity }));
  const worths = vectorWorths(near, floor);
  return {
    channel: "vector",
    hits: near.map((hit) => ({ ...hit, worth: worths.get(hit.row)! })),
    approximate: !exact,
    space,
    isFar: beside !== undefined && hits.length > 0 && hits[0]!.similarity < beside,
  };
}

/**
 * What was found by words, less what the vectors speak against: where nothing is near, hits that have a vector and are
 * not called by their name. Vectors of callers' own are not judged, nor is anything where the request sets floors.
 */
function withoutVetoed(
  view: View,
  { minScore }: RecallInput,
  words: WordAnswer | undefined,
  { space, isFar }: VectorAnswer,
): readonly WordHit[] {
  const hits = words?.hits ?? [];
  if (!isFar || minScore !== undefined) return hits;
  return hits.filter(({ row, isNamed }) => isNamed || !hasVector(view, space!, row));
}

/** The sum of what the channels say, over their union, best first. Hits that are equal share their rank. */
function fuse(answers: readonly ChannelAnswer[]): Candidate[] {
  const found = new Map<number, { score: number; readonly channels: Candidate["found"][number][] }>();
  for (const { channel, hits, approximate } of answers) {
    let rank = 0;
    hits.forEach((hit, at) => {
      const before = hits[at - 1];
      if (!before || before.score !== hit.score || before.worth !== hit.worth) rank = at + 1;
      const seen = found.get(hit.row) ?? { score: 0, channels: [] };
      found.set(hit.row, seen);
      seen.score += hit.worth;
      seen.channels.push({ channel, rank, score: hit.score, approximate });
    });
  }
  const candidates = [...found].map(([row, { score, channels }]) => ({ row, score, found: channels }));
  return candidates.sort((left, right) => right.score - left.score);
}

/** The first `k`; among equals the newer, then the later id. Refuses what would be too large to answer. */
function choose(view: View, ranked: readonly Candidate[], k: number): readonly Candidate[] {
  const last = ranked[Math.min(k, ranked.length) - 1];
  if (!last) return [];
  const rivals = ranked.filter(({ score }) => score >= last.score);
  const known = view.connection.all<{ row: number; id: string; createdAt: number; bytes: number }>(
    `SELECT m.row, m.id, m.created_at AS createdAt, octet_length(m.content) AS bytes
     FROM json_each(?) AS wanted CROSS JOIN __service_memory AS m ON m.row = wanted.value ORDER BY wanted.key`,
    JSON.stringify(rivals.map(({ row }) => row)),
  );
  const order = known.map((about, at) => ({ ...about, candidate: rivals[at]! }));
  order.sort(
    (left, right) =>
      right.candidate.score - left.candidate.score || right.createdAt - left.createdAt || (left.id < right.id ? 1 : -1),
  );
  const chosen = order.slice(0, k);
  checkAnswerBytes("k", chosen);
  return chosen.map(({ candidate }) => candidate);
}

function explain(candidate: Candidate, words: WordAnswer | undefined): NonNullable<MemoryRecord["explain"]> {
  const coverage = words?.coverage(candidate.row);
  return {
    channels: candidate.found.map((found) => ({ ...found })),
    matchedTerms: words?.matchedTerms(candidate.row) ?? [],
    ...(coverage === undefined ? {} : { coverage }),
  };
}
