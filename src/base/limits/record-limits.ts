/**
 * Bounds of what callers store as records, and of one answer about them: memories, turns, keys and documents (model/);
 * part of `limits`.
 */

const KiB = 1024;
const MiB = 1024 * KiB;

export const recordLimits = {
  // Memory
  ingestItemsMax: 1000,
  summaryBytesMax: 8 * KiB,
  keywordsBytesMax: 8 * KiB,
  contentBytesMax: 1 * MiB,
  /** A filter reads the metadata of every memory that it is asked about. */
  metadataBytesMax: 16 * KiB,
  /** How much of a content's text goes into the keyword index; longer texts are found by their beginning. */
  indexedTextBytesMax: 64 * KiB,
  ttlSecsMax: 10 * 365 * 86_400,
  /** How long a task lives when nobody says (spec: Limits). */
  taskTtlSecsDefault: 86_400,
  recallQueryBytesMax: 16 * KiB,
  /** Distinct query terms after stop words; further ones are ignored, as they no longer move a ranking. */
  recallTermsMax: 64,
  /** Texts of memories in which one recall looks how closely the words of the query stand together: about 20 ms. */
  passageBytesMax: 1 * MiB,
  /** In databases of at most so many memories a recall also ranks by words that begin like the question's. */
  widenedMemoriesMax: 5_000,
  recallDefault: 8,
  recallMax: 1000,
  /** Each channel of a recall offers at least this many candidates, and four times `k` when that is more. */
  recallPoolMin: 50,
  memoriesListDefault: 50,
  memoriesListMax: 1000,
  /**
   * Memories on one page of a list, all together, unless a single one has more: common gRPC clients take 4 MiB, and
   * JSON grows in the binary form.
   */
  memoriesListBytesMax: 2 * MiB,
  /** Memories that one page looks at to find those that meet its conditions, about 20 ms; the next page goes on. */
  memoriesLooksMax: 5_000,
  /** Contents in one answer of recall or of the transcript, all together; more must be asked for in smaller parts. */
  contentsBytesMax: 32 * MiB,
  /** Sweeps delete at most this many rows a turn, so that a sweep never holds a database's queue for long. */
  sweepRowsMax: 500,
  /** And look at no more rows a turn to find them. */
  sweepLooksMax: 2_000,

  // Erasure
  /** Memories that one erasure removes, all in one transaction. */
  erasureMemoriesMax: 10_000,
  /** Windows of erased data that are remembered until it is proven to be gone, 20 bytes each. */
  erasureTraceWindowsMax: 32_768,
  /** Vectors that stay are compared with those that are erased, up to this much of them: a few milliseconds. */
  erasureComparedBytesMax: 1 * MiB,

  // Transcript
  turnsDefault: 20,
  turnsMax: 1000,
  turnSearchDefault: 5,
  turnSearchMax: 1000,
  /** Turns whose neighbours a search by words looks at, unless more are asked for: about 5 ms. */
  turnSeedsMax: 500,
  sessionsDefault: 100,
  sessionsMax: 1000,

  // Key-value
  kvListDefault: 100,
  kvListMax: 1000,

  // Documents
  docsDefault: 100,
  docsMax: 1000,
  docSkipMax: 1_000_000,
  docsInsertMax: 1000,
  docBytesMax: 1 * MiB,
  filterDepthMax: 32,
  filterNodesMax: 2000,
  filterInMax: 1000,
  sortKeysMax: 16,
  pathCharsMax: 256,
  docIndexesMax: 32,
  docIdBytesMax: 512,
  /** One find's documents together; a page beyond it is refused, so that one answer never fills the heap. */
  docsResultBytesMax: 32 * MiB,
  /** Documents that one `multi` update or delete may touch: it holds the database's writer while it runs. */
  docsMultiMax: 200_000,
  /** How far past an array's end `$set` may write; what lies between is filled with null. */
  docArrayPadMax: 1000,
  /** Branches of one `$or` that indexes may serve together; SQLite ends a compound SELECT at 500. */
  filterUnionMax: 100,
} as const;
