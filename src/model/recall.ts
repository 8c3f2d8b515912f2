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
import { checkAnswerBytes } from "./core/content.ts";
import { currentIds } from "./memory/current-memories.ts";
import { loadMemories, memoryTypes, type MemoryRecord } from "./memory/memory-record.ts";
import { admitter, buildConditions } from "./memory/recall-conditions.ts";
import { vectorWorths, type ScoredRows } from "./ranking/fusion.ts";
import { recipe } from "./ranking/recipe.ts";
import type { View } from "./core/transaction.ts";
import { look, type Looked, type Skipped } from "./recall-channels.ts";
import { findEmptyReason, findNearMisses, type EmptyReason, type NearMiss } from "./recall-misses.ts";
import { recallDefault, recallMax, type RecallInput } from "./recall-request.ts";
import type { TurnRecord } from "./transcript/transcript.ts";
import { recallTurns } from "./transcript/turn-recall.ts";

export { checkRecall, recallDefault, type RecallInput } from "./recall-request.ts";

/** Each channel of a recall offers at least this many candidates, and four times `k` when that is more. */
const recallPoolMin = 50;
/** … and at most so many more than are wanted: what is deeper in one channel is seldom lifted by another. */
const recallPoolSpare = 250;

/** Raised whenever the same request at the same state may be answered in another order than before. */
export const rankingVersion = 6;

type Channel = "topic" | "keyword" | "vector";

interface ChannelAnswer {
  readonly channel: Channel;
  /** Best first. */
  readonly hits: readonly { readonly row: number; readonly score: number; readonly worth?: number }[];
  readonly approximate: boolean;
}

/** What the channels found, and what each row is worth that any of them found. */
interface Merged {
  readonly answers: readonly ChannelAnswer[];
  worth(row: number): number;
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

/** What was found, and what was not. */
export interface RecallAnswer {
  readonly memories: MemoryRecord[];
  readonly turns: TurnRecord[];
  /** Why no vector was looked for. */
  readonly embedding?: Skipped;
  /** There where `memories` is empty. */
  readonly emptyReason?: EmptyReason;
  /** With `explain` only. */
  readonly nearMisses?: readonly NearMiss[];
}

/** A recall that is made for itself: of one type where each has its own count. */
interface Portion {
  readonly input: RecallInput;
  readonly k: number;
}

/**
 * Finds memories, the most relevant first, and turns of the transcript when asked to. The input has passed
 * `checkRecall`.
 */
export function recall(view: View, input: RecallInput): RecallAnswer {
  const portions = listPortions(input);
  const k = Math.min(input.k ?? portions.reduce((sum, one) => sum + one.k, 0), recallMax);
  const looked = portions.map((one) => look(view, one.input, countWanted(one.k)));
  const prior = sessionPrior(view, input, looked);
  const ranked = fuse(mergeChannels(looked, prior));
  const chosen = choose(view, within(view, portions, looked, prior, ranked), k);
  const rows = chosen.map(({ row }) => row);
  const currents = input.includeSuperseded ? currentIds(view, rows) : undefined;
  const memories = loadMemories(view, rows).map((record, at) => {
    const candidate = chosen[at]!;
    const currentId = currents?.get(candidate.row);
    return {
      ...record,
      ...(currentId !== undefined && { currentId }),
      score: candidate.score,
      channels: candidate.found.map(({ channel }) => channel),
      ...(input.explain && { explain: explain(candidate, looked) }),
    };
  });
  const embedding = looked[0]!.near.skipped;
  return {
    memories,
    turns: recallTurns(view, input, Math.min(input.k ?? recallDefault, recallMax)),
    ...(embedding && { embedding }),
    ...(memories.length === 0 && { emptyReason: findEmptyReason(view, input, looked) }),
    ...(input.explain && { nearMisses: findNearMisses(view, looked, new Set(ranked.map(({ row }) => row))) }),
  };
}

/** How many candidates each channel is asked for. */
function countWanted(k: number): number {
  return Math.max(recallPoolMin, Math.min(4 * k, k + recallPoolSpare));
}

function listPortions(input: RecallInput): readonly Portion[] {
  const { k = recallDefault, kPerType, types } = input;
  if (!kPerType) return [{ input, k: Math.min(k, recallMax) }];
  const asked = memoryTypes.filter((type) => kPerType[type] !== undefined && (types?.includes(type) ?? true));
  if (asked.length === 0) return [{ input: { ...input, types: [] }, k }];
  return asked.map((type) => ({ input: { ...input, types: [type] }, k: Math.min(kPerType[type]!, recallMax) }));
}

/** Each portion's hits in one list, the best first; those of a single portion are so already. */
function inOrder<Hit extends { readonly row: number; readonly score: number }>(
  lists: readonly (readonly Hit[])[],
): readonly Hit[] {
  if (lists.length === 1) return lists[0]!;
  return lists.flat().sort((left, right) => right.score - left.score || right.row - left.row);
}

function mergeChannels(looked: readonly Looked[], prior: Prior): Merged {
  const topic = looked.flatMap((one) => one.topic).sort((left, right) => right.worth - left.worth);
  const said = inOrder(looked.map((one) => one.said));
  const byTopic = new Map(topic.map(({ row, worth }) => [row, worth]));
  const byWords = wordWorth(looked, said);
  const byVector = nearWorth(looked, byWords);
  return {
    answers: [
      { channel: "topic", hits: topic, approximate: false },
      { channel: "keyword", hits: said, approximate: false },
      {
        channel: "vector",
        hits: inOrder(looked.map(({ near }) => near.hits)),
        approximate: looked.some(({ near }) => near.approximate),
      },
    ],
    worth: (row) => (byTopic.get(row) ?? 0) + (byWords(row) + (byVector.get(row) ?? 0)) * prior(row),
  };
}

/** The candidates of which each portion's own ranking gives as many as are wanted of it. */
function within(
  view: View,
  portions: readonly Portion[],
  looked: readonly Looked[],
  prior: Prior,
  ranked: readonly Candidate[],
): readonly Candidate[] {
  if (portions.length === 1) return ranked;
  const rows = new Set(
    portions.flatMap(({ k }, at) => choose(view, fuse(mergeChannels([looked[at]!], prior)), k).map(({ row }) => row)),
  );
  return ranked.filter(({ row }) => rows.has(row));
}

/** What a row's words and vector count by where it is from. */
type Prior = (row: number) => number;

/** More for what the preferred session has said, as first or as a duplicate. */
function sessionPrior(view: View, { preferSessionId }: RecallInput, looked: readonly Looked[]): Prior {
  if (preferSessionId === undefined) return () => 1;
  const rows = looked.flatMap(({ said, near }) => [...said, ...near.hits].map(({ row }) => row));
  const ofSession = buildConditions(view, { sessionId: preferSessionId, includeSuperseded: true });
  const preferred = admitter(view, ofSession)(rows);
  return (row) => (preferred.has(row) ? recipe.preferredSession : 1);
}

/**
 * The share of the best score by words. What the words alone were too little for has its share too, for when its vector
 * lets it in.
 */
function wordWorth(looked: readonly Looked[], said: ScoredRows): (row: number) => number {
  const scoreOf = (row: number): number =>
    looked.reduce((most, { words }) => Math.max(most, words?.scoreOf(row) ?? 0), 0);
  const best = said[0]?.score ?? looked.reduce((most, { words }) => Math.max(most, words?.best ?? 0), 0);
  return (row) => (best > 0 ? Math.min(1, scoreOf(row) / best) : said.length > 0 ? 1 : 0);
}

/** Nothing where no vector is near. */
function nearWorth(looked: readonly Looked[], byWords: (row: number) => number): ReadonlyMap<number, number> {
  if (looked.every(({ near }) => near.hits.length === 0)) return new Map();
  const compared = inOrder(looked.map(({ near }) => [...near.hits, ...near.far]));
  const floor = Math.min(...looked.map(({ near }) => near.floor));
  return vectorWorths(compared, floor, looked[0]!.words?.context, (row) => byWords(row) > 0);
}

/** What the channels found, best first. Hits that are equal share their rank. */
function fuse({ answers, worth }: Merged): Candidate[] {
  const found = new Map<number, Candidate["found"][number][]>();
  for (const { channel, hits, approximate } of answers) {
    let rank = 0;
    hits.forEach((hit, at) => {
      const before = hits[at - 1];
      if (!before || before.score !== hit.score || before.worth !== hit.worth) rank = at + 1;
      const channels = found.get(hit.row) ?? [];
      found.set(hit.row, channels);
      channels.push({ channel, rank, score: hit.score, approximate });
    });
  }
  const candidates = [...found].map(([row, channels]) => ({ row, score: worth(row), found: channels }));
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

function explain(candidate: Candidate, looked: readonly Looked[]): NonNullable<MemoryRecord["explain"]> {
  const { row } = candidate;
  const answers = looked.flatMap(({ words }) => words ?? []);
  const words = answers.find((one) => one.coverage(row) !== undefined) ?? answers[0];
  const coverage = words?.coverage(row);
  return {
    channels: candidate.found.map((found) => ({ ...found })),
    matchedTerms: words?.matchedTerms(row) ?? [],
    ...(coverage === undefined ? {} : { coverage }),
  };
}
