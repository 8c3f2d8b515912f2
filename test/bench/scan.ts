/** The bare SIMD scan: the same kernel as the service's, over one matrix, with nothing around it. */
import { exactSearch, MetricKind } from "usearch";

/** Positions of the nearest rows of a row-major matrix of unit vectors. */
export function nearestRows(matrix: Float32Array, query: Float32Array, want: number): ArrayLike<bigint> {
  return exactSearch(matrix, query, query.length, want, MetricKind.IP, 1).keys;
}
