/**
 * The floor of an embedder on a database's own memories: how near its vectors put memories that have nothing to do with
 * each other, and taking in a floor that follows from it.
 *
 * Always true: what is looked at is bounded, follows from the seed, and is visible; the floor belongs to the embedder
 * whose vectors the database holds, lies beside its name, and goes with the database wherever that goes. Must not know:
 * who asks, what a recall does with the floor.
 */
import { seeded } from "../base/seeded.ts";
import type { View, Tx } from "./core/transaction.ts";
import { decodeStoredVector } from "./index/vector-index.ts";
import { cosine } from "./index/vector-kernel.ts";
import { findMaker, isForeign, memorySpace, setFloor } from "./memory/memory-vectors.ts";
import { admitter, buildConditions } from "./memory/recall-conditions.ts";
import type { VectorSpace } from "./vectors/vectors.ts";

/** Memories that are looked at, and pairs of them: some 50 ms with vectors of 1,536 numbers. */
export const calibrationMemoriesMax = 1_000;
export const calibrationPairsMax = 10_000;
/** With fewer pairs that have nothing to do with each other no share of them means anything. */
export const calibrationPairsMin = 200;
/** Floors are told and stored in steps of a thousandth. */
const floorSteps = 1_000;
/** Pairs that are compared between two looks at the time. */
const pairsAtOnce = 64;

/** The cosine similarities of some pairs. */
interface Similarities {
  readonly pairs: number;
  /** The one in the middle, and the highest; absent without pairs. */
  readonly median?: number;
  readonly highest?: number;
  /** The shares at or above the floor that holds, and the one that was found. */
  readonly shareBefore?: number;
  readonly share?: number;
}

/** What was measured, or why nothing was. */
export type Calibration =
  | { readonly refused: "no_vectors" }
  /** The vectors are those of another embedder, or the callers' own where it has no name. */
  | { readonly refused: "foreign"; readonly embeddedBy: string | undefined }
  | { readonly refused: "too_few"; readonly pairs: number }
  /** More than the share that may pass have the same direction. */
  | { readonly refused: "no_difference" }
  | {
      readonly refused?: never;
      readonly memories: number;
      readonly floorBefore: number;
      readonly floor: number;
      readonly unrelated: Similarities;
      readonly related: Similarities;
    };

/** A memory of the sample. */
interface Sampled {
  readonly row: number;
  readonly topicKey: string | null;
  readonly sessions: ReadonlySet<string>;
  readonly vector: Float32Array;
}

/** Measures the space of the memories; nothing is changed. */
export function measureFloor(
  view: View,
  input: { readonly embeddedBy: string; readonly unrelatedShare: number; readonly seed: number },
): Calibration {
  const { embeddedBy, unrelatedShare, seed } = input;
  const space = memorySpace(view);
  if (!space) return { refused: "no_vectors" };
  const maker = findMaker(view, space);
  if (maker?.name !== embeddedBy) return { refused: "foreign", embeddedBy: maker?.name };
  const random = seeded(seed);
  const sample = readSample(view, space, sampleRows(view, space, random));
  const unrelated = unrelatedPairs(sample, random).map(([left, right], at) => {
    if (at % pairsAtOnce === 0) view.connection.look();
    return similarity(left, right);
  });
  unrelated.sort((left, right) => right - left);
  if (unrelated.length < calibrationPairsMin) return { refused: "too_few", pairs: unrelated.length };
  const floor = floorAbove(unrelated, unrelatedShare);
  if (floor >= 1) return { refused: "no_difference" };
  const related = relatedSimilarities(view, space, sample).sort((left, right) => right - left);
  const { floor: floorBefore } = maker;
  const tell = (similarities: readonly number[]): Similarities => summarize(similarities, floorBefore, floor);
  return { memories: sample.length, floorBefore, floor, unrelated: tell(unrelated), related: tell(related) };
}

/** Takes the floor in for this embedder's vectors; says whether the space was its own. */
export function takeFloor(
  tx: Tx,
  { embeddedBy, floor }: { readonly embeddedBy: string; readonly floor: number },
): { taken: boolean } {
  const space = memorySpace(tx);
  if (!space || isForeign(tx, space, embeddedBy)) return { taken: false };
  setFloor(tx, space, floor);
  return { taken: true };
}

/** Rows of memories with vectors: all of few, of many some that are spread over all. */
function sampleRows(view: View, { space }: VectorSpace, random: () => number): readonly number[] {
  const owners = (sql: string, ...params: readonly number[]): readonly number[] =>
    view.connection
      .prepared(`SELECT owner FROM __service_vector WHERE space = ? ${sql}`)
      .pluck()
      .all(space, ...params) as number[];
  const first = owners("ORDER BY owner LIMIT ?", calibrationMemoriesMax + 1);
  if (first.length <= calibrationMemoriesMax) return first;
  const [lowest, highest] = [first[0]!, owners("ORDER BY owner DESC LIMIT 1")[0]!];
  const picked = new Set<number>();
  for (let at = 0; at < calibrationMemoriesMax; at++) {
    const from = lowest + Math.floor(random() * (highest - lowest + 1));
    picked.add(owners("AND owner >= ? ORDER BY owner LIMIT 1", from)[0]!);
  }
  return [...picked].sort((left, right) => left - right);
}

/** Those of the rows that are visible, superseded ones too: they are of the topic of what superseded them. */
function readSample(view: View, space: VectorSpace, rows: readonly number[]): readonly Sampled[] {
  const visible = admitter(view, buildConditions(view, { includeSuperseded: true }))(rows);
  const asked = JSON.stringify(rows.filter((row) => visible.has(row)));
  const sessions = new Map<number, Set<string>>();
  for (const { row, sessionId } of view.connection.all<{ row: number; sessionId: string }>(
    `SELECT p.memory AS row, p.session_id AS sessionId FROM json_each(?) AS asked
     CROSS JOIN __service_memory_provenance AS p ON p.memory = asked.value WHERE p.session_id <> ''`,
    asked,
  ))
    sessions.set(row, (sessions.get(row) ?? new Set()).add(sessionId));
  return view.connection
    .all<{ row: number; topicKey: string | null; embedding: Uint8Array }>(
      `SELECT m.row, m.topic_key AS topicKey, v.embedding FROM json_each(?) AS asked
       CROSS JOIN __service_memory AS m ON m.row = asked.value
       CROSS JOIN __service_vector AS v ON v.space = ? AND v.owner = m.row ORDER BY asked.key`,
      asked,
      space.space,
    )
    .map(({ row, topicKey, embedding }) => {
      const vector = decodeStoredVector({ owner: row, embedding }, space.dimension);
      return { row, topicKey, sessions: sessions.get(row) ?? new Set(), vector };
    });
}

/** Whether nothing that is known of two memories says that they have to do with each other. */
function isUnrelated(left: Sampled, right: Sampled): boolean {
  if (left.topicKey !== null && left.topicKey === right.topicKey) return false;
  return !left.sessions.values().some((session) => right.sessions.has(session));
}

/** Of few memories all pairs, of many some at random; each once or seldom twice. */
function unrelatedPairs(sample: readonly Sampled[], random: () => number): (readonly [Sampled, Sampled])[] {
  const all = (sample.length * (sample.length - 1)) / 2;
  if (all <= calibrationPairsMax)
    return sample.flatMap((left, at) =>
      sample.slice(at + 1).flatMap((right) => (isUnrelated(left, right) ? [[left, right] as const] : [])),
    );
  const pairs: (readonly [Sampled, Sampled])[] = [];
  // Some attempts meet related ones; where most do, the pairs that were found have to do.
  for (let attempt = 0; attempt < 2 * calibrationPairsMax && pairs.length < calibrationPairsMax; attempt++) {
    const left = sample[Math.floor(random() * sample.length)]!;
    const right = sample[Math.floor(random() * sample.length)]!;
    if (left !== right && isUnrelated(left, right)) pairs.push([left, right]);
  }
  return pairs;
}

const similarity = (left: Sampled, right: Sampled): number => cosine(left.vector, left.vector.length, 0, right.vector);

/** How near each memory is to the next one of its topic and to the next one that its session said. */
function relatedSimilarities(view: View, space: VectorSpace, sample: readonly Sampled[]): number[] {
  const partners = view.connection.all<{ key: number; row: number }>(
    `WITH asked AS (
       SELECT a.key, m.row, m.topic_key, m.session_id FROM json_each(?) AS a
       CROSS JOIN __service_memory AS m ON m.row = a.value)
     SELECT key, (SELECT min(n.row) FROM __service_memory AS n
       WHERE n.topic_key IS NOT NULL AND n.topic_key = asked.topic_key AND n.row > asked.row) AS row FROM asked
     UNION
     SELECT key, (SELECT min(n.memory) FROM __service_memory_provenance AS n
       WHERE n.session_id <> '' AND n.session_id = asked.session_id AND n.memory > asked.row) FROM asked
     ORDER BY key, row`,
    JSON.stringify(sample.map(({ row }) => row)),
  );
  const found = new Map(
    readSample(view, space, [...new Set(partners.flatMap(({ row }) => row ?? []))]).map((one) => [one.row, one]),
  );
  return partners.flatMap(({ key, row }) => {
    const partner = found.get(row);
    return partner ? [similarity(sample[key]!, partner)] : [];
  });
}

/** The lowest floor that at most this share of the similarities, which fall, is at or above. */
function floorAbove(similarities: readonly number[], share: number): number {
  const highestOut = similarities[Math.floor(share * similarities.length)]!;
  return (Math.floor(highestOut * floorSteps) + 1) / floorSteps;
}

/** Of similarities that fall. */
function summarize(similarities: readonly number[], floorBefore: number, floor: number): Similarities {
  const pairs = similarities.length;
  if (pairs === 0) return { pairs };
  const shareFrom = (least: number): number => similarities.filter((value) => value >= least).length / pairs;
  return {
    pairs,
    median: similarities[Math.floor(pairs / 2)]!,
    highest: similarities[0]!,
    shareBefore: shareFrom(floorBefore),
    share: shareFrom(floor),
  };
}
