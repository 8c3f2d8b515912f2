/**
 * The bounds of user SQL and of the processes that run it; a part of base/limits/limits, through which they are read.
 */

const KiB = 1024;
const MiB = 1024 * KiB;

export const sqlLimits = {
  // A statement and its results
  sqlStatementsMax: 256,
  sqlTextBytesMax: 1 * MiB,
  sqlParamsMax: 32_766,
  sqlRowsMax: 10_000,
  sqlResultBytesMax: 16 * MiB,
  /** One value in user SQL: above the largest document, low enough that a row of several fits in memory. */
  sqlValueBytesMax: 4 * MiB,
  /** Never less than this for one value, however large the statement. */
  sqlValueBytesFloor: 128 * KiB,
  /**
   * All registers of one statement together, each holding the longest value it may: larger statements get shorter
   * values.
   */
  sqlStatementBytesMax: 512 * MiB,
  /**
   * Growth of the process while one statement runs, after which it is stopped: accumulating aggregates know no bound.
   */
  sqlGrowthBytesMax: 512 * MiB,
  /**
   * Memory that a process which runs user SQL may take beyond what it has at its start: what SQLite has, and results as
   * JavaScript values.
   */
  sqlProcessBytesMax: 1024 * MiB,
  /** Heap of JavaScript values of such a process, in MiB: a result's rows and their JSON. */
  sqlHeapMiB: 256,
  /** Temporary files of one statement together: sorts and gathered rows beyond the cache. */
  sqlSpillBytesMax: 512 * MiB,
  /** Product of the argument lengths of functions whose cost it is (replace, instr, trim): about a second. */
  sqlWorkProductMax: 2 ** 31,
  /** Names looked up while one statement is prepared: views of views grow exponentially. */
  sqlNamesMax: 200_000,
  /** Names a planner may end up with when subqueries are copied into the query around them, as a power of two. */
  sqlCopiedNamesBits: 20,
  /**
   * Tokens that a statement's result columns make when each use of an alias or number copies its column: 0.2 s, 100 MB.
   */
  sqlAliasTokensMax: 2 ** 21,
  /** Text of views and triggers that is weighed; with more of it, subqueries are not copied at all. */
  sqlWeighedBytesMax: 1 * MiB,
  sqlColumnsMax: 1000,
  sqlExpressionDepthMax: 500,
  sqlCompoundMax: 250,
  sqlProgramOpsMax: 1_000_000,
  sqlFunctionArgsMax: 100,
  /** LIKE and GLOB cost the product of pattern and text. */
  sqlLikePatternBytesMax: 500,
  sqlTriggerDepthMax: 100,
  /** SQLite's message in an answer, in characters: it may quote the statement. */
  sqlMessageCharsMax: 300,
  /** Mutating user SQL holds the database's writer, so its own budget is short. */
  sqlWriteBudgetMs: 5_000,
  /** Page cache and sorter memory of one statement, before it spills to the private scratch directory. */
  sqlCacheKiB: 8 * 1024,

  // Processes
  /** User SQL reads that wait for a process, per node. */
  sqlReadQueueMax: 1024,
  /**
   * How long a process that runs user SQL waits for a lock of its database: another process that reads may put its
   * index in order.
   */
  sqlBusyMs: 1_000,
  /** The same for an engine thread, which everybody else waits for. */
  engineBusyMs: 250,
  /** So often the state is looked at after a batch, while another process makes the log's index anew, */
  sqlStateLooksMax: 50,
  /** and so long in between. */
  sqlStatePauseMs: 50,
  /** Batches that write which wait for a process, per node; a database has one at most. */
  sqlWriteQueueMax: 1024,
  /** Processes that run batches which write, at most, beside those for reads. */
  sqlWritersMax: 2,
  /** A process that has not ended its batch so long after it was interrupted is killed. */
  sqlKillGraceMs: 200,
  /** A process of the pool that is not ready by then is given up. */
  sqlStartMsMax: 30_000,
  /** Pause before a process that ended by force is replaced: none for the first, then from here doubled with each, */
  sqlRestartMsMin: 50,
  /** up to here, */
  sqlRestartMsMax: 1_000,
  /** and none again for one that has lived for so long. */
  sqlCalmMs: 10_000,
  /** One message between the node and such a process: the largest results, two bytes to a character. */
  sqlMessageBytesMax: 64 * MiB,
  /**
   * For so long a starting node waits for processes that a killed one has left: they end with it, but not in the same
   * instant.
   */
  sqlOrphanMsMax: 10_000,
  /** A read that has run for so long leaves one process to those that have not. */
  sqlSliceMs: 100,
  /** So the use that a tenant has made of the processes fades: by half in this time. */
  sqlUsageHalfMs: 5_000,
  /** A tenant who has used more than this of late leaves the last place for writes to others. */
  sqlUsageMuchMs: 1_000,
  /** Tenants whose use is remembered; of more, that of those who used them last. */
  sqlUsageTenantsMax: 10_000,
  /** By so much the system prefers the threads that answer everybody to these processes. */
  sqlNiceness: 5,

  // Shares of an engine thread
  /** So long a command of our own may compute while another tenant waits; then it is undone and run by a process. */
  sliceMicros: 10_000,
  /** So often, in statements, the time is looked at between them. */
  sliceLookStatements: 8,
  /** So long a write that was stopped is remembered, and larger ones of its kind are not begun on the thread. */
  longWriteRememberedMs: 5_000,
  /**
   * A write that takes so long in a process would not have fitted into a slice of the thread: to hand one over costs 1
   * to 3 ms.
   */
  longWriteMs: 20,
  /** What a tenant with calls gets of the thread in each round. */
  turnQuantumMs: 2,
  /** The least that a call is charged. */
  turnCallMs: 0.02,
  /** A tenant who has had more than his share waits this much of others' time at most. */
  turnDebtMsMax: 200,
  /** After so long a thread hears what has come meanwhile. */
  turnHearMs: 4,
  /** Tenants that a thread keeps in its rounds without a call of theirs. */
  turnTenantsIdleMax: 10_000,
} as const;
