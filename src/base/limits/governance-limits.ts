/**
 * Bounds of policies and of what follows from them: audit streams, revocations, deleted databases, copies on nodes,
 * what is due; part of `limits`.
 */
const KiB = 1024;

export const governanceLimits = {
  // Policies (format/records/policy, control/databases/policies)
  policyBytesMax: 32 * KiB,
  /** Unknown fields of a policy that an answer warns of. */
  policyWarningsMax: 20,
  policyDepthMax: 8,
  /**
   * Policies of namespaces and profiles that a node remembers, their known fields only; the least recently used go
   * first.
   */
  policiesCachedMax: 100_000,
  /** Databases whose retention a thread remembers; one that is forgotten is said again by the database's next call. */
  retentionsHeldMax: 100_000,

  // Audit (control/audit/audit-log, control/audit/audit-streams)
  /** Events that wait to be stored, about half a KiB each; further ones are counted and left out. */
  auditEventsMax: 20_000,
  /** Of these, refusals of callers whom nobody knows: a flood of them must not crowd out what the others do. */
  auditStrangersMax: 5_000,
  /** Namespaces in whose streams gaps are counted; further ones only in the node's total. */
  auditGapsMax: 1_000,
  /** An event whose namespace has no readable policy for so long is counted as left out. */
  auditUnknownMsMax: 60_000,
  /** So many events that wait are stored at once, whatever the interval. */
  auditFlushEvents: 500,
  /** Made in one go, about 3 ms. */
  auditObjectEventsMax: 500,
  /** Time between the first and the last event of an object: a reader of a window looks back by as much. */
  auditObjectSpanMs: 60_000,
  /** Streams whose chain a node remembers; that of another is looked up in object storage. */
  auditStreamsHeldMax: 10_000,
  auditRequestsAtOnceMax: 16,
  /** So long a reader waits for this node's own events to be stored. */
  auditReadFlushMs: 1_000,
  /** How long a stopping node tries to store what is left. */
  auditDrainMs: 5_000,
  auditRetryMs: 500,
  /** Objects that one page reads at most: with a narrow filter it ends early, and the next one goes on. */
  auditObjectsReadMax: 1_000,
  auditPageDefault: 100,
  auditPageMax: 1_000,
  /** Keys that are listed to find a node's newest event in a stream; beyond them its chain begins anew. */
  auditChainKeysMax: 100_000,
  auditSweepMs: 3_600_000,
  /** Objects that one sweep removes; the rest waits for the next one. */
  auditSweepObjectsMax: 100_000,

  // Revoked tokens (control/access/revocations)
  /** Each is remembered by every node, about 200 bytes. */
  revocationsMax: 10_000,
  /** What is known is read again when it is this old, beside the call that finds it so. */
  revocationsReadMs: 5_000,
  /** What is older than this is waited for, so long at most. */
  revocationsStaleMs: 10_000,
  revocationsPatienceMs: 1_000,
  /** Of those that are over, so many go with each reading. */
  revocationsRemovedMax: 50,
  revocationsFullRetrySecs: 3_600,

  // Names of nodes (control/databases/node-names)
  /** Of a longer name so much is kept: it stands in a key. */
  nodeNameCharsMax: 128,
  /** Names are for people, and change when a node starts. */
  nodeNamesCacheMs: 10_000,
  /**
   * Data directories that a store remembers the names of, a key each; of more, the names of the first ones are known.
   */
  nodeNamesListedMax: 10_000,
  namesakesToldMax: 10,

  // Deleted databases (engine/maintenance/garbage-collector)
  /**
   * An object may come to a deleted database so many graces after the last one was removed: an hour, as the grace is by
   * default. It is looked for half way and at the end, and the erasures of the database are complete then.
   */
  lateGraces: 6,
  /** Deleted databases of which a thread remembers since when it has found nothing. */
  purgesRememberedMax: 100_000,

  // Copies of databases on the disks of nodes (control/databases/copy-records, service/jobs/replica-remover)
  /**
   * How often a node looks whether its copies are to be purged, and for deleted databases in its shards; ever more
   * rarely, up to `shardLookMsMax`, while it finds none.
   */
  replicaPurgerMs: 30_000,
  /**
   * A deleted database that is still not gone is asked for again after the first time, and then ever later, up to the
   * second.
   */
  deletedLookMsMin: 30_000,
  deletedLookMsMax: 3_600_000,
  /** Copies of one database, on however many nodes, that are read; an erasure of one with more does not complete. */
  copiesMax: 10_000,
  /** Purges of copies that one look carries out; the next one goes on. */
  copyOrdersMax: 10_000,
  copyReadsAtOnceMax: 16,
  copyRecordBytesMax: 4 * KiB,
  /**
   * Databases without a file that a thread remembers to have registered, and deleted ones that a node remembers to have
   * taken care of.
   */
  copiesRememberedMax: 10_000,
  /**
   * How long a node that starts goes on purging copies before it serves; the rest goes while it serves, and their
   * erasures wait.
   */
  replicaPurgerStartMs: 30_000,

  // What is due in databases that are not open (control/databases/expiry-index, engine/maintenance/expiry-index-writer,
  // service/sweeper)
  /** How often a node looks for what is due in its shards while there is some. */
  dueLookMs: 300_000,
  /**
   * While there is none, it looks soon after each full hour, as nothing is due before, and this often besides: an entry
   * may have come late.
   */
  dueIdleLookMs: 1_800_000,
  /** Within so long after the hour, so that not all nodes look at once. */
  dueSpreadMs: 120_000,
  /** Between two looks of which the first has passed as many entries as it may. */
  dueGoOnMs: 1_000,
  /** Entries that one look passes; the next one goes on behind them. */
  dueEntriesMax: 10_000,
  /** Databases that a node sweeps at once. */
  dueSweepsAtOnceMax: 4,
  /** Turns of a sweep of one branch, each of `sweepRowsMax` rows; what is left is due again in the next hour. */
  dueSweepTurnsMax: 1_000,
  /** Entries that wait to be put, and branches whose newest entry a thread remembers. */
  dueMarksMax: 10_000,
  duePutsAtOnceMax: 16,
  /** How long a stopping engine thread tries to put what is left. */
  dueStopMs: 2_000,
} as const;
