/**
 * Bounds of the way to object storage and back: shipping, packing, restoring, and what a thread remembers of manifests
 * and catalogs (engine/); part of `limits`.
 */

const KiB = 1024;
const MiB = 1024 * KiB;

export const shippingLimits = {
  // Timelines and restore (engine/history/timelines, engine/segments/restore, engine/compaction/compaction)
  /** So many objects of one size are concatenated into one: a timeline of n objects is written log16(n) times over. */
  packRefsMin: 16,
  /**
   * So many of whatever size are concatenated too: sizes may alternate so that no sixteen of one size ever come
   * together.
   */
  packRefsMax: 64,
  /** Sizes that count as one. What has reached the last is half a full pack or more, and is never written again. */
  packTierBytes: [256 * KiB, 4 * MiB, 32 * MiB],
  packBytesMax: 64 * MiB,
  /** Deltas below this never ask for a new base image, however small the database. */
  rebaseBytesMin: 4 * MiB,
  /** Deltas that hold so many times what the database does ask for a new base image however little room they take. */
  rebaseTimesMax: 4,
  /**
   * Page images in one object of a base image: 64 MiB before compression. More where there would be more than
   * `imageRefsMax` objects.
   */
  imageObjectPages: 16_384,
  /** A new base image of up to this size is checked too, on the thread that makes segments: about 20 ms. */
  checkedImageBytesMax: 8 * MiB,
  /** Objects of one restore that are fetched ahead, and their bytes together unless a single one has more. */
  restoreFetchesMax: 8,
  restoreBytesMax: 128 * MiB,

  // Shipping (engine/shipping/shipper, engine/history/manifest-writer)
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
  /**
   * Segments of more log than this, with a single large group, are made and put one of a thread at a time: each is held
   * in memory.
   */
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
  /** Catalogs and claimed manifests that a thread remembers after their databases were closed. */
  catalogsHeldMax: 10_000,
  manifestsHeldMax: 10_000,
  /**
   * Branches whose handle was given up, with how far they were answered: of those beyond, the highest such point stands
   * for all.
   */
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
} as const;
