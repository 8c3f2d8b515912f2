/**
 * What each channel of a recall finds: the topic, the words, the vectors, each with its own idea of what is relevant.
 *
 * Always true: filters apply inside each channel, so that no memory can crowd out another that is allowed. Must not
 * know: how the channels are fused.
 */
import { searchKeywords } from "./memory/keyword.ts";
import { isForeign, findMaker, memorySpace, type Embedded } from "./memory/memory-vectors.ts";
import { admitter, buildConditions, type Conditions } from "./memory/recall-conditions.ts";
import type { ScoredRows } from "./ranking/fusion.ts";
import type { AskedOfVectors, WordAnswer, WordHit } from "./ranking/rank.ts";
import { recipe } from "./ranking/recipe.ts";
import type { View } from "./core/transaction.ts";
import { isBlank, type RecallInput } from "./recall-request.ts";
import { hasVector, nearest, type VectorSpace } from "./vectors/vectors.ts";

/** The cosine below which a vector is not near, whatever else is farther: low, as models differ. */
const vectorFloor = 0.2;
/** An exact topic outweighs both other channels together, a superseded memory of it too. */
const topicWorth = { active: 4, superseded: 3 } as const;

/** A memory of the topic. */
interface TopicHit {
  readonly row: number;
  readonly score: number;
  /** What the topic adds to the fused score. */
  readonly worth: number;
}

/** Why a vector was not looked for. */
export type Skipped = Exclude<Embedded, "stored">;

/** What the channels found for a request. */
export interface Looked {
  readonly topic: readonly TopicHit[];
  readonly words: WordAnswer | undefined;
  /** What was found by words, less what the vectors speak against. */
  readonly said: readonly WordHit[];
  readonly near: NearAnswer;
}

/** Asks every channel for at most `want` candidates. */
export function look(view: View, input: RecallInput, want: number): Looked {
  const conditions = buildConditions(view, input);
  const words = isBlank(input.query)
    ? undefined
    : searchKeywords(view, { query: input.query!, conditions, want, coverageMin: input.minScore?.keyword });
  const near = lookNear(view, input, conditions, want, words?.asked ?? wordless);
  const said = withoutVetoed(view, input, words, near);
  return { topic: lookUpTopic(view, input, conditions, want), words, said, near };
}

/** Every memory of exactly this topic: active ones first and equal among themselves, then the superseded. */
function lookUpTopic(view: View, input: RecallInput, conditions: Conditions, want: number): readonly TopicHit[] {
  if (input.topicKey === undefined) return [];
  const found = view.connection.all<{ row: number; superseded: number }>(
    `SELECT m.row, m.superseded_by IS NOT NULL AS superseded FROM __service_memory AS m
     WHERE m.topic_key = ? AND ${conditions.sql} ORDER BY superseded, m.created_at DESC, m.id DESC LIMIT ?`,
    input.topicKey,
    ...conditions.params,
    want,
  );
  return found.map(({ row, superseded }) => {
    return { row, score: 1, worth: superseded ? topicWorth.superseded : topicWorth.active };
  });
}

/** What was near, and by which measure. Hits are the nearest first. */
interface NearAnswer {
  readonly hits: ScoredRows;
  /** Those that were compared and are no hits. */
  readonly far: ScoredRows;
  /** The cosine that a hit must have. */
  readonly floor: number;
  readonly approximate: boolean;
  readonly skipped?: Skipped;
  readonly space?: VectorSpace;
  /** Where even the nearest is so far that an embedder's vectors speak against the words: what it would have needed. */
  readonly vetoBelow?: number;
}

/** What is known of a question without words. */
const wordless: AskedOfVectors = { scale: 1, coverage: 0, isNameUnknown: false };

/**
 * What the nearest cosine must be for anything to be near, by an embedder's floor. Models put near each other what two
 * people do, and what one does in two places: only words tell that the one who is asked about is unknown here.
 */
function neededOf(floor: number, { scale, coverage, isNameUnknown }: AskedOfVectors): number {
  const covered = recipe.coverageWorth * Math.min(1, coverage / scale);
  return floor * scale ** recipe.scalePower - covered + (isNameUnknown ? recipe.unknownName : 0);
}

/**
 * A vector of another dimension or another model than the stored ones can be near to none of them: then the channel is
 * silent. What the words cover lets in what is a little farther.
 */
function lookNear(
  view: View,
  input: RecallInput,
  conditions: Conditions,
  want: number,
  asked: AskedOfVectors,
): NearAnswer {
  const { embedding, embeddedBy } = input;
  const none = { hits: [], far: [], floor: vectorFloor, approximate: false } as const;
  const space = embedding || embeddedBy !== undefined ? memorySpace(view) : undefined;
  if (!space) return none;
  if (embeddedBy !== undefined && isForeign(view, space, embeddedBy)) return { ...none, skipped: "skipped_model" };
  if (!embedding) return none;
  if (space.dimension !== embedding.length) return { ...none, skipped: "skipped_dimension" };
  const { hits, exact } = nearest(view, space, embedding, Math.max(want, recipe.farRank), admitter(view, conditions));
  const maker = findMaker(view, space);
  const compared = hits.map(({ owner, similarity }) => ({ row: owner, score: similarity }));
  const usual = maker?.floor ?? vectorFloor;
  const needed = neededOf(usual, asked);
  const isFar = maker !== undefined && compared.length > 0 && compared[0]!.score < needed;
  const isAgreed = maker !== undefined && asked.coverage > 0 && !isFar;
  const own = isFar ? Math.max(usual, needed) : isAgreed ? usual - recipe.wordsMargin : usual;
  const floor = input.minScore?.vector ?? own;
  return {
    hits: compared.filter(({ score }) => score >= floor),
    far: compared.filter(({ score }) => score < floor),
    floor,
    approximate: !exact,
    space,
    ...(isFar && { vetoBelow: needed }),
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
  { space, vetoBelow }: NearAnswer,
): readonly WordHit[] {
  const hits = words?.hits ?? [];
  if (vetoBelow === undefined || minScore !== undefined) return hits;
  return hits.filter(({ row, isNamed }) => isNamed || !hasVector(view, space!, row));
}
