/**
 * Every bound of the service, with its unit and its reason. A list, queue, loop or string without a line here is a defect.
 * Bounds that an operator may move are variables (server/config) whose defaults stand here.
 */
import { clockLimits } from "./clock-limits.ts";
import { clusterLimits } from "./cluster-limits.ts";
import { coordinationLimits } from "./coordination-limits.ts";
import { governanceLimits } from "./governance-limits.ts";
import { modelLimits } from "./model-limits.ts";
import { operationsLimits } from "./operations-limits.ts";
import { upkeepLimits } from "./upkeep-limits.ts";
import { wireLimits } from "./wire-limits.ts";
import { rescueLimits } from "./rescue-limits.ts";
import { sqlLimits } from "./sql-limits.ts";

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
  /** Messages within messages in the binary form: a level of JSON is up to three of google.protobuf.Value's, and what holds it a few. */
  messageDepthMax: 256,

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
  /** Memories on one page of a list, all together, unless a single one has more: common gRPC clients take 4 MiB, and JSON grows in the binary form. */
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

  // Vectors
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

  ...sqlLimits,

  // Engine
  groupCommandsMax: 64,
  groupBytesMax: 1 * MiB,
  writeQueueDepthDefault: 256,
  /** Bytes of input that may wait in one database's queue. */
  writeQueueBytesMax: 128 * MiB,
  /** Answers of one database that wait for an fsync; further reads are shed. As many again may wait for object storage; further durable writes are shed. */
  parkedAnswersMax: 2048,
  cachedStatementsMax: 128,
  cachedStatementCharsMax: 16 * KiB,
  hotHandlesDefault: 50_000,
  /** What an open database is counted as in memory, so that handles never outgrow half of it. */
  hotHandleBytes: 512 * KiB,
  /** SQLite's own page cache of an open database. */
  pageCacheKiB: 2 * 1024,
  walCheckpointBytes: 16 * MiB,
  /** While other tenants wait for the thread, which folds 1 MiB in about 2 ms, it is this part of that (ingests of all are 10 % slower for it). */
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
   * A long read can keep the log from being checkpointed; beyond this, writes are shed until it ends. It is seen late by
   * what a few groups have written over old frames (engine/log-folder), which is less than three checkpoints' worth.
   */
  walBytesMax: 512 * MiB,
  /**
   * Log that one transaction may write: it becomes one object, held in memory while it is put, and is read again after a crash.
   * The largest body by default, 1000 memories of 32 KiB of random words, takes 101 MiB (measured).
   */
  transactionLogBytesMax: 128 * MiB,
  /** So often, in statements, a command's log is looked at while it runs: a statement of ours writes about a document, 1 MiB at most. */
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

  // Branches
  branchTtlSecsMax: 10 * 365 * 86_400,

  // Wires
  ...wireLimits,
  concurrencyDefault: 1024,
  /** Callers whose control rate is remembered. */
  rateBucketsMax: 10_000,
  requestTimeoutSecsDefault: 30,
  retryAfterSecsMin: 1,
  /** How often a health watch looks whether the answer has changed. */
  healthWatchMs: 1_000,
  drainMs: 10_000,

  // Variables of a node (server/config): defaults and outer bounds that have no other home
  controlRateDefault: 10,
  gcGraceSecsDefault: 600,
  policyCacheSecsDefault: 30,
  auditFlushMsDefault: 2_000,
  pitrSecsDefault: 86_400,
  /** How far `standard` acknowledgements may run ahead of object storage. */
  unshippedSecsDefault: 300,
  unshippedBytesDefault: 256 * MiB,
  readerThreadsDefault: 2,
  threadsMax: 256,
  /** A body is parsed as one string, and the longest string of the runtime is just under 512 MiB. */
  dataBodyBytesMax: 256 * MiB,
  /** Caps and rates beyond this are no caps. */
  settingCountMax: 1_000_000,
  settingSecsMax: 10 * 365 * 86_400,
  /** A day: every shorter budget also fits a timer, which ends at 2^31 ms. */
  settingTimerSecsMax: 86_400,
  settingTextCharsMax: 4_096,
  settingWordCharsMax: 1_024,
  /** A shorter platform key is warned of: 16 random characters of base64 are 96 bits. */
  platformKeyCharsWise: 16,
  settingBytesMax: Number.MAX_SAFE_INTEGER,
  /** The least duration a policy may set, and so the least ceiling above it. */
  policySecsMin: 60,

  // Governance (format/policy, control/policies)
  policyBytesMax: 32 * KiB,
  /** Unknown fields of a policy that an answer warns of. */
  policyWarningsMax: 20,
  policyDepthMax: 8,
  /** Policies of namespaces and profiles that a node remembers, their known fields only; the least recently used go first. */
  policiesCachedMax: 100_000,
  /** How long an erasure can be undone when no policy says. */
  erasureGraceSecsDefault: 86_400,
  /** How often it is looked for erasures whose time has come. */
  erasureTickMs: 1_000,
  /** How long an erasure that was begun is left to its caller before it is carried out for it. */
  erasureBegunMs: 60_000,
  /** When an erasure is tried again that could not be completed. */
  erasureLookAgainMs: 60_000,
  /** An erasure whose grace lasts longer is looked at in between, as the clock by which it ends may be set right. */
  erasureWaitMsMax: 3_600_000,
  /** When it is looked whether something still blocks an erasure, when nothing has told of a change. */
  erasureBlockedLookMs: 600_000,
  /** Databases whose erasures a node carries on at once: each restores and scans a whole database. */
  erasureLooksMax: 2,
  /** Erasures of one database that are carried on together; those beyond wait for the next time. */
  erasuresPerLookMax: 10_000,
  /** Erasures in one answer, newest first. */
  erasuresListMax: 1_000,
  /** A state that proves an erasure is checked too up to this size, on the thread that makes segments: about 0.2 s; its tables are looked through on the engine's. */
  checkedStateBytesMax: 64 * MiB,
  /** States that are remembered to be free of erased data; more are looked into again. */
  knownStatesMax: 10_000,
  /** How long a completed erasure waits for a reader or object storage that holds a local file back. */
  scrubWaitMs: 60_000,
  /** When it is looked once more for objects that came late, after an erasure was completed. */
  lateOrphansMs: 3_600_000,
  /** How long a node that stops waits for an erasure to come to a step that the next run can go on from. */
  erasureStopMs: 2_000,
  /** How long an engine thread that stops waits for packs and base images that are being made. */
  upkeepStopMs: 2_000,
  /** Databases whose retention a thread remembers; one that is forgotten is said again by the database's next call. */
  retentionsHeldMax: 100_000,

  // Formats at rest (format/)
  /** SQLite's page types are told by their first byte, which holds only below 2^25 pages. */
  databasePagesMax: 2 ** 25 - 1,
  /** A transaction that finds no room is told that the database is full, and not the disk, when so many pages or fewer are left. */
  databasePagesSpare: 2 ** 16,
  segmentGroupsMax: 65_536,
  /** Page images in one segment, 4 GiB before compression: far above what one transaction may log. */
  segmentPagesMax: 2 ** 20,
  segmentIndexBytesMax: 8 * MiB,
  /** References of one line: more must be packed first. 1024 of them take 128 KiB at most. */
  lineRefsMax: 1024,
  /** A ULID, or `main`. */
  branchIdBytesMax: 26,
  /** An id of the pool is a branch id, an epoch and a ULID; its key adds a folder. */
  poolIdBytesMax: 80,
  poolKeyBytesMax: 96,
  nodeIdBytesMax: 4 * KiB,
  /** Every change of a branch rewrites its head. */
  headBytesMax: 256 * KiB,
  headTenuresMax: 16,
  headLostMax: 256,
  /** Small durable groups that wait in the head to be shipped as a segment. */
  tailBytesMax: 48 * KiB,
  tailSegmentsMax: 64,
  historyBytesMax: 16 * MiB,
  historyLinesMax: 4096,
  /** References of all its lines together, of 160 bytes at most; a sixteenth of the bytes is left to lines and checkpoints. */
  historyRefsMax: 96 * KiB,
  checkpointsMax: 1000,
  checkpointNameBytesMax: 256,
  catalogBytesMax: 4 * MiB,
  branchesMax: 1000,
  /** Objects of one database that wait for their grace to end; further ones are condemned when these are gone. */
  condemnedMax: 10_000,

  // Lines and restore (engine/lines, engine/restore, engine/packing)
  /** So many objects of one size are concatenated into one: a line of n objects is written log16(n) times over. */
  packRefsMin: 16,
  /** So many of whatever size are concatenated too: sizes may alternate so that no sixteen of one size ever come together. */
  packRefsMax: 64,
  /** Sizes that count as one. What has reached the last is half a full pack or more, and is never written again. */
  packTierBytes: [256 * KiB, 4 * MiB, 32 * MiB],
  packBytesMax: 64 * MiB,
  /** Deltas below this never ask for a new base image, however small the database. */
  rebaseBytesMin: 4 * MiB,
  /** Deltas that hold so many times what the database does ask for a new base image however little room they take. */
  rebaseTimesMax: 4,
  /** Page images in one object of a base image: 64 MiB before compression. More where there would be more than `imageRefsMax` objects. */
  imageObjectPages: 16_384,
  /** A new base image of up to this size is checked too, on the thread that makes segments: about 20 ms. */
  checkedImageBytesMax: 8 * MiB,
  /** Objects of one restore that are fetched ahead, and their bytes together unless a single one has more. */
  restoreFetchesMax: 8,
  restoreBytesMax: 128 * MiB,

  // Shipping (engine/shipper, engine/branch-head)
  /** Transaction ids that a claim reserves ahead: an outage of the store as long as is allowed must not use them up. */
  txidReserve: 100_000,
  /** Standard writes are shipped at the latest after this. */
  shipIntervalMs: 1_000,
  /** And after this while another node follows the database. */
  shipIntervalFollowedMs: 200,
  /** And as soon as the log has grown by this: about 1 MiB of segments, as pages of rows compress. */
  shipLogBytes: 4 * MiB,
  /** Log that goes into one segment, unless a single group has more. */
  segmentLogBytes: 8 * MiB,
  /** Segments of more log than this, with a single large group, are made and put one of a thread at a time: each is held in memory. */
  segmentLogBytesUsual: 16 * MiB,
  /** Segments of up to so much log are made on the engine thread: handing them over takes as long. */
  segmentLogBytesHere: 128 * KiB,
  shipRetryMsMin: 100,
  shipRetryMsMax: 5_000,
  /** An fsync of so much log takes turns with the others like it of its thread. */
  largeSyncBytes: 1 * MiB,
  /** Branches of one thread that talk to the store at once. */
  shipsAtOnceMax: 32,
  /** Tries to settle one doubtful put before its caller is told to come back. */
  doubtRetriesMax: 3,
  /** Catalogs of one thread of which it is not known whether a change landed; with so many no other one is changed. */
  catalogDoubtsMax: 1_000,
  /** Between two tries to learn what became of a change of a catalog: its branches cannot be named meanwhile. */
  settleAgainMs: 1_000,
  /** Catalogs and claimed heads that a thread remembers after their databases were closed. */
  catalogsHeldMax: 10_000,
  headsHeldMax: 10_000,
  /** Branches whose handle was given up, with how far they were answered: of those beyond, the highest such point stands for all. */
  answeredRememberedMax: 10_000,
  /** Databases that a thread knows other nodes to follow; those beyond are shipped as if nobody did. */
  followedMax: 10_000,
  /** Branches that a thread remembers to have lost to another node. */
  lostRememberedMax: 10_000,
  /** Garbage is looked for this long after there may be some: several packs of a busy branch share one look. */
  collectAfterMs: 60_000,
  /** Another node that follows a database says so again within this. */
  followMs: 30_000,
  /** How long a node that stops, or hands a database over, tries to ship what is left; the rest stays in the log. */
  lastShipMs: 8_000,

  // Work that keeps history short (engine/upkeep, engine/line-length)
  ...upkeepLimits,

  // Audit and erasures at rest
  ...governanceLimits,

  // Outside models (ai/)
  ...modelLimits,

  // Metrics and traces (server/)
  ...operationsLimits,

  // Object storage
  /** One attempt of a request must have its answer by then; an answer's body has as long again. */
  storeAnswerMs: 10_000,
  /** A body that is sent or read adds time at this rate: slower lines are taken for dead. */
  storeBytesPerMsMin: 256,
  /** Attempts of one request, as long as a repeat is safe. */
  storeAttemptsMax: 8,
  /** The longest pause before the first repeat; it doubles with each. Pauses are random below it, so that a crowd disperses. */
  storeBackoffMs: 50,
  storeBackoffMsMax: 4_000,
  /** After this long a request is not repeated any more. */
  storeRepeatMs: 30_000,
  /** Connections of one thread to the object store; further requests wait for one. */
  storeConnectionsMax: 64,
  /** Keys in one page of a listing; S3 gives no more. */
  storeListMax: 1_000,
  /** Removals of old versions at once: there may be one for every head that was ever written. */
  storePurgesAtOnceMax: 16,

  // Nodes of a cluster
  ...clockLimits,
  ...coordinationLimits,
  ...clusterLimits,

  // Tools for the worst day
  ...rescueLimits,

  // Search for residue (engine/residue)
  /** Shorter texts are found wherever one looks. */
  residueSecretBytesMin: 4,
  residueSecretsMax: 10_000,
  residueHitsMax: 10_000,
  /** Files are read in pieces of this size. */
  residuePieceBytes: 4 * MiB,

  // Credentials (control/)
  /** A token of ours takes about 350 characters. */
  tokenBytesMax: 4 * KiB,
  tokenSecsDefault: 3_600,
  tokenSecsMax: 30 * 86_400,
  /** How far the clocks of nodes may differ without a token being taken for expired or not yet good. */
  tokenLeewayMs: 5_000,
  /** Signing keys of before whose tokens are still taken; of more, the newest. */
  retiredKeysMax: 16,
  /** Verified tokens that a node remembers until they expire; any other is verified again. */
  tokensRememberedMax: 10_000,
  /** A credential in logs and audit: 64 bits tell credentials apart and give none away. */
  credentialHashDigits: 16,
  /** A namespace token must be younger than a deletion by this to write to what came after it. */
  revocationSkewMs: 2_000,
  /** Other keys than the one in use are looked up at most this often: anybody may ask. */
  keySetCacheMs: 60_000,
  keySetKeysMax: 100,

  // Control plane
  databasesListMax: 100_000,
  /** Name claims a node remembers for a few seconds; the least recently used go first. */
  claimsCachedMax: 100_000,
} as const;
