/** The plainest possible nearest-neighbour search, written apart from the product's, for tests to compare with. */

export interface OracleHit {
  readonly owner: number;
  readonly similarity: number;
}

/** A vector scaled to length 1 and rounded to float32, as it is stored. */
function oracleUnit(vector: Float32Array): number[] {
  let squared = 0;
  for (const value of vector) squared += value * value;
  return Array.from(vector, (value) => Math.fround(value / Math.sqrt(squared)));
}

function oracleCosine(left: readonly number[], right: readonly number[]): number {
  let [dot, leftSquared, rightSquared] = [0, 0, 0];
  for (let at = 0; at < left.length; at++) {
    dot += left[at]! * right[at]!;
    leftSquared += left[at]! ** 2;
    rightSquared += right[at]! ** 2;
  }
  return Math.max(-1, Math.min(1, dot / Math.sqrt(leftSquared * rightSquared)));
}

/** Compares the query with everything, sorts everything, takes the first. */
export function oracleNearest(
  vectors: ReadonlyMap<number, Float32Array>,
  query: Float32Array,
  want: number,
  allowed: (owner: number) => boolean = () => true,
): OracleHit[] {
  const unit = oracleUnit(query);
  return [...vectors]
    .filter(([owner]) => allowed(owner))
    .map(([owner, vector]) => ({ owner, similarity: oracleCosine(oracleUnit(vector), unit) }))
    .sort((left, right) => right.similarity - left.similarity || left.owner - right.owner)
    .slice(0, want);
}

/** A repeatable stream of numbers in [-1, 1). */
function seededNumbers(seed: number): () => number {
  let state = seed | 0;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 31 - 1;
  };
}

/** `count` vectors around `clusters` centres, as embeddings of texts on a few subjects are. */
export function clusteredVectors(count: number, dimension: number, clusters: number, seed: number): Float32Array[] {
  const next = seededNumbers(seed);
  const centres = Array.from({ length: clusters }, () => Float32Array.from({ length: dimension }, next));
  return Array.from({ length: count }, (_, at) => centres[at % clusters]!.map((value) => value + 0.6 * next()));
}
