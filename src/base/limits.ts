/**
 * Every bound of the service, with its unit and its reason. A list, queue, loop or string without a line here is a defect.
 * Bounds that an operator may move are variables (server/config) whose defaults stand here.
 */

const KiB = 1024;
const MiB = 1024 * KiB;

export const limits = {
  // Names (interface: Names)
  nameCharsMax: 64,
  kvKeyBytesMax: 512,
  sessionIdBytesMax: 128,
  sourceBytesMax: 256,
  topicKeyBytesMax: 512,
  memoryIdCharsMax: 64,
  roleBytesMax: 64,

  // JSON
  jsonDepthMax: 64,

  // Memory
  ingestItemsMax: 1000,
  summaryBytesMax: 8 * KiB,
  keywordsBytesMax: 8 * KiB,
  contentBytesMax: 1 * MiB,
  /** How much of a content's text goes into the keyword index; longer texts are found by their beginning. */
  indexedTextBytesMax: 64 * KiB,
  ttlSecsMax: 10 * 365 * 86_400,
  recallQueryBytesMax: 16 * KiB,
  /** Distinct query terms after stop words; further ones are ignored, as they no longer move a ranking. */
  recallTermsMax: 64,
  recallDefault: 8,
  recallMax: 1000,
  /** Sweeps delete at most this many rows a turn, so that a sweep never holds a database's queue for long. */
  sweepRowsMax: 500,

  // Transcript
  turnsDefault: 20,
  turnsMax: 1000,
  turnSearchDefault: 5,
  turnSearchMax: 1000,
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

  // Vectors
  vectorDimensionMax: 4096,
  vectorIdBytesMax: 256,
  vectorSearchDefault: 10,
  vectorSearchMax: 1000,
  /** Up to this many vectors a scan is exact; above, hnswlib narrows and the scan re-scores. */
  exactVectorsMax: 20_000,
  /** All in-memory matrices of one engine thread together; the least recently used go first. */
  vectorCacheBytesMax: 2048 * MiB,
  /** Vectors are read from SQL in chunks of this size: to fill a matrix, or to search what has no room in memory. */
  vectorStreamBytes: 4 * MiB,
  /** Owners put to a search's filter at once; well under the number of parameters a statement may have. */
  vectorFilterOwnersMax: 1000,
  collectionsMax: 1000,

  // SQL
  sqlStatementsMax: 256,
  sqlTextBytesMax: 1 * MiB,
  sqlParamsMax: 32_766,
  sqlRowsMax: 10_000,
  sqlResultBytesMax: 16 * MiB,
  /** Mutating user SQL holds the database's writer, so its own budget is short. */
  sqlWriteBudgetMs: 5_000,
  /** Page cache and sorter memory of one statement, before it spills to the private scratch directory. */
  sqlCacheKiB: 8 * 1024,

  // Engine
  groupCommandsMax: 64,
  groupBytesMax: 1 * MiB,
  writeQueueDepthDefault: 256,
  /** Answers of one database that wait for an fsync; further reads are shed. */
  parkedAnswersMax: 2048,
  /** User SQL reads that wait for a reader thread, per node. */
  sqlReadQueueMax: 1024,
  cachedStatementsMax: 128,
  hotHandlesDefault: 50_000,
  /** What an open database is counted as in memory, so that handles never outgrow half of it. */
  hotHandleBytes: 512 * KiB,
  /** SQLite's own page cache of an open database. */
  pageCacheKiB: 2 * 1024,
  walCheckpointBytes: 4 * MiB,
  /** A long read can keep the log from being checkpointed; beyond this, writes are shed until it ends. */
  walBytesMax: 512 * MiB,
  /** While an fsync is under way, a group waits for it unless this many commands are ready: more writes per fsync. */
  groupCommandsEager: 32,
  idleCloseMs: 30_000,
  sweepIntervalMs: 60_000,

  // Wires
  controlBodyBytesMax: 1 * MiB,
  dataBodyBytesDefault: 32 * MiB,
  concurrencyDefault: 1024,
  /** Callers whose control rate is remembered. */
  rateBucketsMax: 10_000,
  requestTimeoutSecsDefault: 30,
  /** A connection that has not said which protocol it speaks is closed after this. */
  preambleTimeoutMs: 5_000,
  headerBytesMax: 32 * KiB,
  drainMs: 10_000,

  // Control plane
  databasesListMax: 100_000,
  /** Name claims a node remembers for a few seconds; the least recently used go first. */
  claimsCachedMax: 100_000,
  objectBytesMax: 64 * MiB,
} as const;
