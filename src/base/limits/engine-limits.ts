/**
 * Bounds of the write path of one node: queues and groups, open handles, the write-ahead log, housekeeping (engine/,
 * sqlite/); part of `limits`.
 */

const KiB = 1024;
const MiB = 1024 * KiB;

export const engineLimits = {
  groupCommandsMax: 64,
  groupBytesMax: 1 * MiB,
  writeQueueDepthDefault: 256,
  /** Bytes of input that may wait in one database's queue. */
  writeQueueBytesMax: 128 * MiB,
  /**
   * Answers of one database that wait for an fsync; further reads are shed. As many again may wait for object storage;
   * further durable writes are shed.
   */
  parkedAnswersMax: 2048,
  cachedStatementsMax: 128,
  cachedStatementCharsMax: 16 * KiB,
  hotHandlesDefault: 50_000,
  /** What an open database is counted as in memory, so that handles never outgrow half of it. */
  hotHandleBytes: 512 * KiB,
  /** SQLite's own page cache of an open database. */
  pageCacheKiB: 2 * 1024,
  walCheckpointBytes: 16 * MiB,
  /**
   * While other tenants wait for the thread, which folds 1 MiB in about 2 ms, it is this part of that (ingests of all
   * are 10 % slower for it).
   */
  sharedFoldPart: 0.25,
  /** A log's file that is folded in stays, to be written over, while it is no longer than so many times that. */
  logSpareSteps: 3,
  /** A log that is folded in is written over so often before it is cut. */
  foldsUncutMax: 16,
  /** What a group of one small write takes of the log, about. */
  smallGroupLogBytes: 32 * KiB,
  /** The log is read in pieces of this size; each thread has one buffer for it. */
  walChunkBytes: 1 * MiB,
  /** Pages of a database file that are looked through for slack in one go: a few milliseconds. */
  slackChunkBytes: 1 * MiB,
  /**
   * A long read can keep the log from being checkpointed; beyond this, writes are shed until it ends. It is seen late
   * by what a few groups have written over old frames (engine/database/wal-checkpointer), which is less than three
   * checkpoints' worth.
   */
  walBytesMax: 512 * MiB,
  /**
   * Log that one transaction may write: it becomes one object, held in memory while it is put, and is read again after
   * a crash. The largest body by default, 1000 memories of 32 KiB of random words, takes 101 MiB (measured).
   */
  transactionLogBytesMax: 128 * MiB,
  /**
   * So often, in statements, a command's log is looked at while it runs: a statement of ours writes about a document, 1
   * MiB at most.
   */
  logLookStatements: 16,
  /** A lone write is synced on its engine thread while fsyncs are faster than this; slower ones go to the pool. */
  loneSyncMs: 1,
  /** Writers wait at most this long for the log to be shipped to its end, so that it can be folded in. */
  foldHoldMsMax: 1_000,
  /** A checkpoint that a reader held up is tried again after this, or when the log has grown by as much again. */
  checkpointRetryMs: 1_000,
  /** An erasure that waits for a reader looks again after this, and then ever more rarely, up to the time above. */
  scrubRetryMsMin: 5,
  /** And gives up so long before its caller does, so that the caller hears why. */
  scrubAnswerMs: 100,
  /** Deleted databases that an engine remembers, so that a late call cannot bring their files back. */
  droppedRememberedMax: 100_000,
  /** Housekeeping holds an engine thread for at most about this long at a time, and lets it go for as long. */
  housekeepingBudgetMs: 20,
  /** Idle databases closed on a thread before freed memory is given back to the system. */
  closedPerTrim: 64,
  /** Sweeps that begin in one second on one thread. */
  sweepsPerTickMax: 64,
  /** While an fsync is under way, a group waits for it unless this many commands are ready: more writes per fsync. */
  groupCommandsEager: 32,
  idleCloseMs: 30_000,
  sweepIntervalMs: 60_000,
} as const;
