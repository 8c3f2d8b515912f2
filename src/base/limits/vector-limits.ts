/**
 * Bounds of vectors, of searches among them, and of what is held of them in memory (model/vectors/vectors,
 * model/vectors/vector-collections); part of `limits`.
 */

const KiB = 1024;
const MiB = 1024 * KiB;

export const vectorLimits = {
  vectorDimensionMax: 4096,
  vectorIdBytesMax: 256,
  vectorSearchDefault: 10,
  vectorSearchMax: 1000,
  /** Vectors that one call stores or deletes. */
  vectorBatchMax: 1_000,
  vectorListDefault: 100,
  vectorListMax: 1_000,
  /** Of ids and metadata on a page, unless a single vector has more. */
  vectorListBytesMax: 2 * MiB,
  /** Vectors that one deletion by a filter looks at. */
  vectorDeleteLooksMax: 20_000,
  /** Directions that a search by dot product or Euclidean distance looks at before it settles for the best of them. */
  vectorMetricLooksMax: 50_000,
  /** Up to this many vectors a scan is exact; above, hnswlib narrows and the scan re-scores. */
  exactVectorsMax: 20_000,
  /** All in-memory matrices of one engine thread together; the least recently used go first. */
  vectorCacheBytesMax: 2048 * MiB,
  /** Vectors are read from SQL in chunks of this size: to fill a matrix, or to search what has no room in memory. */
  vectorStreamBytes: 4 * MiB,
  /** Owners put to a search's filter at once; well under the number of parameters a statement may have. */
  vectorFilterOwnersMax: 1000,
  collectionsMax: 1000,
} as const;
