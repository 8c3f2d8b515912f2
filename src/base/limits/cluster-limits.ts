/**
 * Bounds of what the nodes of a cluster do for each other; part of `limits`.
 */
const KiB = 1024;
const MiB = 1024 * KiB;

export const clusterLimits = {
  // Where databases are (service/placement/placement, service/placement/places, service/placement/owned-databases,
  // service/placement/manifest-notifications, server/cluster/cluster)
  /** Databases that a node holds; beyond it, the one that was not used for longest is given up. */
  heldMax: 50_000,
  /** How long an engine has to take a database over, or to ship what there is of it. */
  takeMs: 10_000,
  /**
   * How long object storage is given to say whether a database was ever written; otherwise it is taken for one that
   * was.
   */
  unwrittenLookMs: 1_000,
  /** Databases whose holder a node remembers; that of any other is looked up. */
  routesMax: 100_000,
  /**
   * A holder that was looked up so long ago is looked up again, beside the call: one that hangs does not say that it
   * lost the database.
   */
  routeFreshMs: 5_000,
  /** How often a call that nobody takes is tried, if its time allows: about a minute with the pauses. */
  placementTriesMax: 64,
  placementPauseMsMin: 50,
  placementPauseMsMax: 1_000,
  /** A node that could not be reached, or would not take a database, is not chosen for another so soon. */
  shunMs: 2_000,
  shunnedNodesMax: 1_000,
  /** Databases that a leaving node gives up at once, and how long it goes on with that. */
  handOversAtOnceMax: 32,
  handOverMs: 8_000,
  /** How often a node looks whether it reaches object storage, and how long it waits for the answer. */
  storeReachMs: 3_000,
  storeReachAnswerMs: 3_000,
  /** So long the answer of a look holds for those who ask for the node's health. */
  storeHealthCacheMs: 2_000,
  /** How often it looks while no call of a database has come for so long, and it reached object storage last. */
  storeReachIdleMs: 60_000,
  /** A node that has not reached object storage for so long gives its databases up, if another one does reach it. */
  storeSilenceMs: 20_000,

  // Who looks after what (service/placement/shards)
  /** How often a node looks which nodes live: those that have come or gone change whose a shard is. */
  shardMembersMs: 10_000,
  /** A shard in which nothing is found is looked at no more rarely than this. */
  shardLookMsMax: 600_000,

  // Between nodes (server/cluster/peer-link, server/cluster/node-exchange)
  /** Calls under way to one node; further ones are shed. */
  peerCallsMax: 4_096,
  /** What these calls are given, together: a body of the largest cap may take twice its size in memory. */
  peerBytesMax: 512 * MiB,
  /** Answers that wait to be sent to one node; beyond them no more of its calls are taken in. */
  peerAnswersBytesMax: 16 * MiB,
  /** What is in one message between nodes, about. */
  peerMessageBytes: 1 * MiB,
  /** Larger inputs and values go in pieces of this size, so that others get their turn. */
  peerPieceBytes: 256 * KiB,
  /**
   * Values in one payload: what is largest is bounded by its bytes first. Many small ones take some twenty times their
   * bytes in memory.
   */
  peerValuesMax: 4 * MiB,
  /** Values within values of a payload; no command has more than eight. */
  peerValueDepthMax: 32,
  /** The name of a field of a payload: an identifier, or an id that is a key. */
  peerFieldNameCharsMax: 64,
  /** Names of fields that are known again when they come: our own are some hundred. */
  peerFieldNamesKnownMax: 1_024,
  /** Protocols that a greeting may name. */
  peerProtocolsMax: 16,
  /** No message between nodes is larger: a piece, the others' share, and what stands around them. */
  peerMessageBytesMax: 4 * MiB,
  /** While something is expected of a node, it is asked this often whether it lives. */
  peerPingMs: 1_000,
  /** A node that has said nothing for so long while something is expected of it is given up. */
  peerSilenceMs: 3_000,
  /** A link that nobody has used for so long is closed. */
  peerIdleMs: 60_000,
  /** After a link was lost, the node is not tried again for so long, and then for ever longer up to the second time. */
  peerRetryMsMin: 100,
  peerRetryMsMax: 2_000,
  /** Databases that one node follows at another; changes of those beyond are found by looking. */
  peerFollowsMax: 10_000,

  // Copies of databases that other nodes write (engine/replica/replica-follower, engine/pool/registry)
  /**
   * Databases whose manifests a thread looks at by itself; of those beyond, the one that was not read for longest waits
   * for its next read.
   */
  copiesFollowedMax: 10_000,
  /** A copy that nobody has read for so long is not followed any more. */
  followIdleMs: 60_000,
  /** The manifest of a copy that was read within the first is looked at this often; then less and less. */
  followEagerMs: 5_000,
  followLookMsMin: 250,
  /** Also how old a `cached` read may be (spec: KV cached-read max age). */
  followLookMsMax: 30_000,
  /** Between two looks, however many ask for one: what comes meanwhile shares the next. */
  followRestMs: 10,
  /** Requests of one thread that only look whether something has changed. */
  looksAtOnceMax: 16,
  /** How long a read waits for its copy to become new enough; then the writer is asked. */
  replicaPatienceMs: 500,
  replicaPauseMs: 25,
  /** Readers go on using an old copy for so long while others hold it; from then on they wait for the new one. */
  refreshPatienceMs: 1_000,
  /** What a copy lacks is fetched before it is closed and touched, unless there is more of it. */
  rollBytesHeldMax: 16 * MiB,
  /** Newer manifests that an opening tries, when objects of the last one were collected meanwhile. */
  manifestsTriedMax: 3,
  /** Claims of a branch that are tried against a writer that goes on moving its manifest. */
  overtakingRacesMax: 64,
  /** Branches of which a thread remembers the newest manifest that it served from. */
  seenManifestsMax: 100_000,
  /** How often, and after which pause, a manifest is asked for that turns out older than the one before. */
  pastManifestLooksMax: 5,
  pastManifestPauseMs: 50,
  /**
   * How often what was seen of a branch is noted on disk while it is written, and of how many branches of a thread in
   * one second: 0.1 ms each.
   */
  seenNotedMs: 30_000,
  seenNotedPerTickMax: 256,
  /** And how many of these a second are synced: commits wait for the same disk. */
  seenSyncedPerTickMax: 4,
  /** Claims of a branch of which is noted how far they were shipped: twice what a manifest lists. */
  seenClaimsMax: 32,
} as const;
