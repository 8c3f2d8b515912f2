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
import type { WordAnswer, WordHit } from "./ranking/rank.ts";
import type { View } from "./core/transaction.ts";
import { isBlank, type RecallInput } from "./recall-request.ts";
import { hasVector, nearest, type VectorSpace } from "./vectors/vectors.ts";

/** The cosine below which a vector is not near, whatever else is farther: low, as models differ. */
const vectorFloor = 0.2;
/** So much below an embedder's floor a vector still is near when words say so too. */
const wordsMargin = 0.1;
/**
 * What the share of the question that the words cover adds to the nearest cosine: below the embedder's floor both
 * together speak against each of them. With all-MiniLM-L6-v2 (floor .5) fewer own questions find nothing, and fewer
 * foreign ones something, than with any bound of the cosine alone: .011 and .073 instead of .015 and .107 at .4 on
 * LoCoMo, .046 and .139 instead of .065 and .167 on BEAM.
 */
const coverageWorth = 0.2;
/** An exact topic outweighs both other channels together, a superseded memory of it too. */
const topicWorth = { active: 4, superseded: 3 } as const;

export interface ChannelHit {
  readonly row: number;
  readonly score: number;
  /** What the channel adds to the fused score. */
  readonly worth: number;
}

/** Why a vector was not looked for. */
export type Skipped = Exclude<Embedded, "stored">;

/** What the channels found for a request. */
export interface Looked {
  readonly topic: readonly ChannelHit[];
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
  const coverage = (words?.hits ?? []).reduce((most, hit) => Math.max(most, hit.coverage), 0);
  const near = lookNear(view, input, conditions, want, { coverage, scale: words?.scale ?? 1 });
  const said = withoutVetoed(view, input, words, near);
  return { topic: lookUpTopic(view, input, conditions, want), words, said, near };
}

/** Every memory of exactly this topic: active ones first and equal among themselves, then the superseded. */
function lookUpTopic(view: View, input: RecallInput, conditions: Conditions, want: number): readonly ChannelHit[] {
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
  readonly floor: number;
  readonly approximate: boolean;
  readonly skipped?: Skipped;
  readonly space?: VectorSpace;
  /** Where even the nearest is so far that an embedder's vectors speak against the words: what it would have needed. */
  readonly vetoBelow?: number;
}

/**
 * A vector of another dimension or another model than the stored ones can be near to none of them: then the channel is
 * silent. `coverage` is the largest of what words found, which lets in what is a little farther; 0 for nothing. A
 * question of many words is near to no single text: `scale` is the part of the floor that is asked of it.
 */
function lookNear(
  view: View,
  input: RecallInput,
  conditions: Conditions,
  want: number,
  { coverage, scale }: { readonly coverage: number; readonly scale: number },
): NearAnswer {
  const { embedding, embeddedBy } = input;
  const none = { hits: [], far: [], floor: vectorFloor, approximate: false } as const;
  const space = embedding || embeddedBy !== undefined ? memorySpace(view) : undefined;
  if (!space) return none;
  if (embeddedBy !== undefined && isForeign(view, space, embeddedBy)) return { ...none, skipped: "skipped_model" };
  if (!embedding) return none;
  if (space.dimension !== embedding.length) return { ...none, skipped: "skipped_dimension" };
  const { hits, exact } = nearest(view, space, embedding, want, admitter(view, conditions));
  const maker = findMaker(view, space);
  const compared = hits.map(({ owner, similarity }) => ({ row: owner, score: similarity }));
  const usual = maker?.floor ?? vectorFloor;
  const needed = scale * (usual - coverageWorth * coverage);
  const isFar = maker !== undefined && compared.length > 0 && compared[0]!.score < needed;
  const isAgreed = maker !== undefined && coverage > 0 && !isFar;
  const floor = input.minScore?.vector ?? (isAgreed ? usual - wordsMargin : usual);
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
