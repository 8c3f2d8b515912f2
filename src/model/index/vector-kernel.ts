/**
 * The arithmetic of similarity: unit vectors, one fast kernel that ranks, one slow formula that decides.
 *
 * Always true: the similarity a client sees is computed here in doubles and in index order, so it is the same bits on
 * every machine; the kernel's own float32 results only choose candidates, and `kernelMargin` bounds how far they can
 * be off. Must not know: rows, owners, databases.
 *
 * Why usearch: one query over 20,000 rows of 768 took 2.3 ms with its exactSearch, 3.4 to 4.5 ms with simsimd pair by
 * pair (the calls cost more than the arithmetic: at 256 dimensions 0.7 ms against 4.0 ms), and 12 ms in plain
 * JavaScript (measured, one core). It also selects the top rows itself, which a pairwise kernel leaves to us.
 */
import { assert } from "../../base/faults/assert.ts";

/** Rows of a matrix in falling order of score; `scores[i]` is the inner product of row `rows[i]` and the query. */
export interface Ranking {
  readonly rows: ArrayLike<number>;
  readonly scores: ArrayLike<number>;
}

/** Ranks the `count` (at most `rowCount`) best rows of a row-major matrix that starts at the head of its buffer. */
type Kernel = (
  matrix: Float32Array,
  dimension: number,
  rowCount: number,
  query: Float32Array,
  count: number,
) => Ranking;

/** Half a unit in the last place of a float32 in [1, 2): its relative rounding error. */
const float32Rounding = 2 ** -24;

/**
 * How far a kernel's score of two unit vectors may lie from the true value: the bound for a float32 sum of `dimension`
 * products in any order, with room for the rounding of the unit vectors themselves.
 */
export function kernelMargin(dimension: number): number {
  return (dimension + 8) * float32Rounding;
}

/** The vector scaled to length 1, in a buffer of its own. The input is finite and not zero. */
export function unitVector(vector: Float32Array): Float32Array {
  // In doubles the square of the largest float32 does not overflow, and that of the smallest does not vanish.
  let squared = 0;
  for (const value of vector) squared += value * value;
  const length = Math.sqrt(squared);
  assert(Number.isFinite(length) && length > 0, "only a finite vector of some length has a direction");
  return vector.map((value) => value / length);
}

/** The cosine of the query and one row, in doubles and in index order; exactly 1 for equal vectors. */
export function cosine(matrix: Float32Array, dimension: number, row: number, query: Float32Array): number {
  const from = row * dimension;
  let dot = 0;
  let rowSquared = 0;
  let querySquared = 0;
  for (let at = 0; at < dimension; at++) {
    const value = matrix[from + at]!;
    const other = query[at]!;
    dot += value * other;
    rowSquared += value * value;
    querySquared += other * other;
  }
  return Math.max(-1, Math.min(1, dot / Math.sqrt(rowSquared * querySquared)));
}

/** The kernel for platforms without a native one. */
export const rankInJavaScript: Kernel = (matrix, dimension, rowCount, query, count) => {
  const scores = new Float64Array(rowCount);
  for (let row = 0; row < rowCount; row++) {
    const from = row * dimension;
    // Four sums at once: the additions do not wait for each other.
    let [a, b, c, d] = [0, 0, 0, 0];
    let at = 0;
    for (; at + 3 < dimension; at += 4) {
      a += matrix[from + at]! * query[at]!;
      b += matrix[from + at + 1]! * query[at + 1]!;
      c += matrix[from + at + 2]! * query[at + 2]!;
      d += matrix[from + at + 3]! * query[at + 3]!;
    }
    for (; at < dimension; at++) a += matrix[from + at]! * query[at]!;
    scores[row] = a + b + c + d;
  }
  const rows = highest(scores, count);
  return { rows, scores: Float64Array.from(rows, (row) => scores[row]!) };
};

/** Positions of the `count` highest scores, highest first: a heap of that size, its root the lowest that is in. */
function highest(scores: Float64Array, count: number): Uint32Array {
  const heap = Uint32Array.from({ length: count }, (_, position) => position);
  const sink = (from: number): void => {
    const position = heap[from]!;
    let hole = from;
    for (;;) {
      let child = 2 * hole + 1;
      if (child >= count) break;
      if (child + 1 < count && scores[heap[child + 1]!]! < scores[heap[child]!]!) child++;
      if (scores[heap[child]!]! >= scores[position]!) break;
      heap[hole] = heap[child]!;
      hole = child;
    }
    heap[hole] = position;
  };
  for (let at = (count >> 1) - 1; at >= 0; at--) sink(at);
  for (let position = count; position < scores.length; position++) {
    if (scores[position]! <= scores[heap[0]!]!) continue;
    heap[0] = position;
    sink(0);
  }
  return heap.sort((left, right) => scores[right]! - scores[left]!);
}

/** usearch's exact search as a kernel. */
function buildKernel(usearch: typeof import("usearch")): Kernel {
  return (matrix, dimension, rowCount, query, count) => {
    // The native side reads from the start of each buffer, whatever the view's offset: a view from the middle of a
    // buffer would silently be answered from its beginning.
    assert(matrix.byteOffset === 0 && query.byteOffset === 0, "kernel operands start at the head of their buffers");
    const used = matrix.subarray(0, rowCount * dimension);
    const found = usearch.exactSearch(used, query, dimension, count, usearch.MetricKind.IP, 1);
    const rows = Uint32Array.from(found.keys as BigUint64Array, Number);
    const scores = Float64Array.from(found.distances as Float32Array, (distance) => 1 - distance);
    return { rows, scores };
  };
}

/**
 * Whether a kernel's results are within the margin here. Asked once at start, because the native library picks its
 * code by the CPU it meets, and a variant that rounds to fewer bits would make the candidates, so the answers, wrong.
 */
function isAccurate(kernel: Kernel): boolean {
  return [1, 3, 64, 257].every((dimension) => {
    const rowCount = 32;
    const matrix = new Float32Array(rowCount * dimension);
    for (let row = 0; row < rowCount; row++) {
      matrix.set(
        unitVector(Float32Array.from({ length: dimension }, (_, at) => 1.5 + Math.sin((row + 1) * (at + 2)))),
        row * dimension,
      );
    }
    const query = matrix.slice(dimension, 2 * dimension);
    const { rows, scores } = kernel(matrix, dimension, rowCount, query, rowCount);
    const seen = new Set(Array.from(rows));
    return (
      seen.size === rowCount &&
      Array.from(rows).every(
        (row, rank) => Math.abs(cosine(matrix, dimension, row, query) - scores[rank]!) <= kernelMargin(dimension),
      )
    );
  });
}

interface ChosenKernel {
  readonly name: "usearch" | "javascript";
  readonly rank: Kernel;
  readonly fault?: unknown;
}

async function chooseKernel(): Promise<ChosenKernel> {
  try {
    const native = buildKernel(await import("usearch"));
    if (isAccurate(native)) return { name: "usearch", rank: native };
    return {
      name: "javascript",
      rank: rankInJavaScript,
      fault: new Error("usearch is less exact on this processor than a float32 sum may be"),
    };
  } catch (fault) {
    return { name: "javascript", rank: rankInJavaScript, fault };
  }
}

const chosen = await chooseKernel();

/** Which kernel this process ranks with: for the log, said once when the node is composed. */
export const kernelName: "usearch" | "javascript" = chosen.name;

/** Why the native kernel is not in use; undefined when it is. */
export const kernelFault: unknown = chosen.fault;

/** The `count` best rows by inner product, with scores that are within `kernelMargin` of the truth for unit vectors. */
export const rankRows: Kernel = (matrix, dimension, rowCount, query, count) => {
  assert(count >= 1 && count <= rowCount, "a ranking asks for at least one row and for no more than there are");
  return chosen.rank(matrix, dimension, rowCount, query, count);
};
