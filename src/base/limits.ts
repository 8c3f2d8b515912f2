/**
 * The bounds that several files share, each with its unit and its reason; a bound that one file uses is there, with a
 * name of its own. A list, queue, loop or string without a bound is a defect. Bounds that an operator may move are
 * variables (server/config/settings), which say their defaults. docs/bounds.md says of every list that grows what
 * happens at its bounds.
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
  roleBytesMax: 64,

  // JSON
  jsonDepthMax: 64,
  /**
   * Messages within messages in the binary form: a level of JSON is up to three of google.protobuf.Value's, and what
   * holds it a few.
   */
  messageDepthMax: 256,

  // What callers store
  ingestItemsMax: 1000,
  /** How much of a content's text goes into the keyword index; longer texts are found by their beginning. */
  indexedTextBytesMax: 64 * KiB,
  ttlSecsMax: 10 * 365 * 86_400,
  recallQueryBytesMax: 16 * KiB,
  /** Rows that a sweep looks at in one turn. */
  sweepLooksMax: 2_000,
  /** Memories that one erasure removes, all in one transaction. */
  erasureMemoriesMax: 10_000,
  turnsDefault: 20,
  turnSearchDefault: 5,
  sessionsDefault: 100,
  kvListDefault: 100,
  /** Keys that one call gets, puts or deletes. */
  kvBatchMax: 1_000,
  docsInsertMax: 1000,
  pathCharsMax: 256,
  vectorDimensionMax: 4096,
  vectorSearchDefault: 10,
  /** Vectors that one call stores or deletes. */
  vectorBatchMax: 1_000,
  /** Up to this many vectors a scan is exact; above, hnswlib narrows and the scan re-scores. */
  exactVectorsMax: 20_000,
  collectionsMax: 1000,

  // User SQL, and the processes that run it
  /** Page cache and sorter memory of one statement, before it spills to the private scratch directory. */
  sqlCacheKiB: 8 * 1024,
  sqlStatementsMax: 256,
  sqlTextBytesMax: 1 * MiB,
  /** One value in user SQL: above the largest document, low enough that a row of several fits in memory. */
  sqlValueBytesMax: 4 * MiB,
  /** Temporary files of one statement together: sorts and gathered rows beyond the cache. */
  sqlSpillBytesMax: 512 * MiB,
  /** Mutating user SQL holds the database's writer, so its own budget is short. */
  sqlWriteBudgetMs: 5_000,

  // Control plane
  databasesListMax: 100_000,

  // Wires
  controlBodyBytesMax: 1 * MiB,
  /** A connection that has not said which protocol it speaks is closed after this. */
  preambleTimeoutMs: 5_000,
  /** By then a request's headers must have come; an HTTP/2 connection must have begun a request. */
  headersTimeoutMs: 15_000,
  /** By then a request's body must have come: the largest body over a slow line. */
  requestReceiveMs: 120_000,
  /** A connection without a request is closed after this; longer than common load balancers keep theirs. */
  idleConnectionMs: 75_000,
  /** Open connections of one port, where the system gives that many descriptors. */
  connectionsMax: 16_384,
  /** Connections from one address, as a share of them all: one stranger cannot take every place. */
  connectionsShareMax: 0.75,
  http2WindowBytes: 1 * MiB,
  http2SessionMemoryMiB: 64,
  /** Bodies of up to this size are decoded at once: 3 ms of whatever they hold. */
  decodedAtOnceBytes: 48 * KiB,
  /**
   * Larger ones are decoded in pieces of about this many bytes and this much work, unless a single element has more.
   */
  pieceBytes: 256 * KiB,
  pieceWork: 200_000,
  /** One element, such as a memory, a document or a statement. In work: 300,000 arrays or 100,000 fields, 30 ms. */
  elementBytesMax: 8 * MiB,
  elementWorkMax: 1_600_000,
  /** A body as a whole: beyond it, it is sent in parts. A second or two of work, in pieces. */
  bodyWorkMax: 32_000_000,
  /** Elements of one list of a request; what a method takes is less. */
  listElementsMax: 10_000,
  /** Values of any JSON in one such answer: 10,000 rows of 19 columns, 200 ms to encode. */
  encodedValuesMax: 200_000,
  requestTimeoutSecsDefault: 30,
  retryAfterSecsMin: 1,
  drainMs: 10_000,

  // Variables of a node
  /** A body is parsed as one string, and the longest string of the runtime is just under 512 MiB. */
  dataBodyBytesMax: 256 * MiB,
  /** A day: every shorter budget also fits a timer, which ends at 2^31 ms. */
  settingTimerSecsMax: 86_400,
  settingTextCharsMax: 4_096,
  /** The least duration a policy may set, and so the least ceiling above it. */
  policySecsMin: 60,

  // Policies, audit, copies of databases
  /** Databases whose retention a thread remembers; a forgotten one comes again with the database's next call. */
  retentionsHeldMax: 100_000,
  /** Made in one go, about 3 ms. */
  auditObjectEventsMax: 500,
  /** Time between the first and the last event of an object: a reader of a window looks back by as much. */
  auditObjectSpanMs: 60_000,
  auditRequestsAtOnceMax: 16,
  auditPageMax: 1_000,
  auditSweepMs: 3_600_000,
  /** Copies of one database, on however many nodes, that are read; an erasure of one with more does not complete. */
  copiesMax: 10_000,
  copyReadsAtOnceMax: 16,
  /**
   * Databases without a file that a thread remembers to have registered, and deleted ones that a node remembers to have
   * taken care of.
   */
  copiesRememberedMax: 10_000,

  // Tokens
  /** A token of ours takes about 350 characters. */
  tokenBytesMax: 4 * KiB,
  tokenSecsMax: 30 * 86_400,
  /** How far the clocks of nodes may differ without a token being taken for expired or not yet good. */
  tokenLeewayMs: 5_000,

  // Erasures
  /** How often erasures whose time has come are looked for. */
  erasureTickMs: 1_000,
  /** When an erasure is tried again that could not be completed. */
  erasureLookAgainMs: 60_000,
  /** Erasures in one answer, newest first. */
  erasuresListMax: 1_000,
  /** How long a node that stops waits for each of its jobs to come to a step that the next run can go on from. */
  jobStopMs: 2_000,
  /** The ids of ten thousand memories twice, the traces of as many, and some evidence take about 2 MiB. */
  erasureCouponBytesMax: 4 * MiB,
  /** Coupons that are read or written at once. */
  erasureReadsAtOnceMax: 16,

  // The write path of a node
  /**
   * Answers of one database that wait for an fsync; further reads are shed. As many again may wait for object storage;
   * further durable writes are shed.
   */
  parkedAnswersMax: 2048,
  cachedStatementsMax: 128,
  /** SQLite's own page cache of an open database. */
  pageCacheKiB: 2 * 1024,
  /** The log is read in pieces of this size; each thread has one buffer for it. */
  walChunkBytes: 1 * MiB,
  /**
   * Log that one transaction may write: it becomes one object, held in memory while it is put, and is read again after
   * a crash. The largest body by default, 1000 memories of 32 KiB of random words, takes 101 MiB (measured).
   */
  transactionLogBytesMax: 128 * MiB,
  /** Writers wait at most this long for the log to be shipped to its end, so that the WAL can be checkpointed. */
  foldHoldMsMax: 1_000,
  /** A checkpoint that a reader held up is tried again after this, or when the log has grown by as much again. */
  checkpointRetryMs: 1_000,
  /** Deleted databases that an engine remembers, so that a late call cannot bring their files back. */
  droppedRememberedMax: 100_000,
  /** Housekeeping holds an engine thread for at most about this long at a time, and lets it go for as long. */
  housekeepingBudgetMs: 20,

  // Formats at rest: no encoder writes more, and no decoder believes more
  /** The first byte tells SQLite's page types, which holds only below 2^25 pages. */
  databasePagesMax: 2 ** 25 - 1,
  segmentGroupsMax: 65_536,
  /** References of one timeline: more must be packed first. 1024 of them take 128 KiB at most. */
  timelineRefsMax: 1024,
  manifestWriterEpochsMax: 16,
  manifestLostMax: 256,
  /** Small durable groups that wait in the manifest to be shipped as a segment. */
  tailBytesMax: 48 * KiB,
  tailSegmentsMax: 64,
  historyTimelinesMax: 4096,
  checkpointsMax: 1000,
  branchesMax: 1000,
  /** Objects of one database that wait for their grace to end; further ones are condemned when these are gone. */
  condemnedMax: 10_000,

  // The way to object storage and back
  /** Sizes that count as one. What has reached the last is half a full pack or more, and is never written again. */
  packTierBytes: [256 * KiB, 4 * MiB, 32 * MiB],
  /** Objects of one restore that are fetched ahead, and their bytes together unless a single one has more. */
  restoreFetchesMax: 8,
  /** Transaction ids that a claim reserves ahead: an outage of the store as long as is allowed must not use them up. */
  txidReserve: 100_000,
  /** Standard writes are shipped at the latest after this. */
  shipIntervalMs: 1_000,
  /** And this, while another node follows the database. */
  shipIntervalFollowedMs: 200,
  /** Log that goes into one segment, unless a single group has more. */
  segmentLogBytes: 8 * MiB,
  shipRetryMsMax: 5_000,
  /** Branches of one thread that talk to the store at once. */
  shipsAtOnceMax: 32,
  /** Tries to resolve one put in doubt before its caller is told to come back. */
  doubtRetriesMax: 3,
  /** Databases that a thread knows other nodes to follow; those beyond are shipped as if they had no follower. */
  followedMax: 10_000,
  /** Another node that follows a database says so again within this. */
  followMs: 30_000,
  /** How long a node that stops, or hands a database over, tries to ship what is left; the rest stays in the log. */
  lastShipMs: 8_000,
  /**
   * With this many deltas, a timeline is packed across any obstacle: a busy branch that is well has about a hundred.
   */
  timelineDeltasSoft: 384,
  /** With this many references, any two objects are packed; a new base image is due as well. */
  timelineRefsPressing: 768,
  /** Keys in one page of a listing; S3 gives no more. */
  storeListMax: 1_000,

  // Outside models
  embedRequestMs: 5_000,

  // Time
  /**
   * A time must be told steadily for this long before anything is removed for good by it, unless two clocks tell it.
   */
  clockSteadyMs: 3_600_000,
  /** A node that was down for no longer than this trusts its clock at once, and reports nothing less to an operator. */
  clockToldMs: 3_600_000,

  // Leases and the coordination store
  /** Disk and engine must prove by then that they get on, or the lease is not renewed. */
  leaseProgressMs: 2_000,
  /** Text of an error of the coordination store, in characters. */
  coordMessageCharsMax: 200,

  // Nodes of a cluster
  /** Databases whose holder a node remembers; that of any other is looked up. */
  routesMax: 100_000,
  storeReachAnswerMs: 3_000,
  /** How often a node looks whether it reaches object storage when no call of a database has come for this long. */
  storeReachIdleMs: 60_000,
  /** A shard in which nothing is found is looked at no more rarely than this. */
  shardLookMsMax: 600_000,
  /** Calls under way to one node; further ones are shed. */
  peerCallsMax: 4_096,
  /** What these calls are given, together: a body of the largest cap may take twice its size in memory. */
  peerBytesMax: 512 * MiB,
  /**
   * Values in one payload: what is largest is bounded by its bytes first. Many small ones take some twenty times their
   * bytes in memory.
   */
  peerValuesMax: 4 * MiB,
  /** Values within values of a payload; no command has more than eight. */
  peerValueDepthMax: 32,
  /** Names of fields that are known again when they come: our own are some hundred. */
  peerFieldNamesKnownMax: 1_024,
  /** No message between nodes is larger: a piece, the others' share, and what surrounds them. */
  peerMessageBytesMax: 4 * MiB,
  /** A node that has said nothing for this long while something is expected of it is abandoned. */
  peerSilenceMs: 3_000,
  /** A link that was not used for so long is closed. */
  peerIdleMs: 60_000,
  /** Databases that one node follows at another; changes of those beyond are found by looking. */
  peerFollowsMax: 10_000,
  /** The longest time between two looks at a manifest; also how old a `cached` read may be (KV cached-read max age). */
  followLookMsMax: 30_000,
  /** How often, and after which pause, a manifest is asked for that turns out older than the one before. */
  pastManifestLooksMax: 5,
  pastManifestPauseMs: 50,

  // Tools for the worst day
  /** Objects that one finding names; the others it counts. */
  findingKeysMax: 5,
  /** A database that loses objects to the collector while it is copied is begun again at most this often. */
  backupRoundsMax: 16,
  /** Databases that one backup of some of them may name. */
  backupScopeMax: 100,
  /** An object that is younger than this may be of a writer that still runs. */
  quietMs: 60_000,
  /**
   * How far a branch skips ahead when it is unknown which transaction ids were given: one that commits twenty thousand
   * times a second needs two years for as many.
   */
  txidsSkipped: 2 ** 40,
  /**
   * How far a manifest's epoch and a catalog's number skip ahead when it is unknown what the lost one had: a node that
   * has seen that one refuses what is older (engine/local/seen-manifests).
   */
  epochsSkipped: 2 ** 20,
  /** Shorter texts are found wherever one looks. */
  residueSecretBytesMin: 4,
} as const;
