/**
 * Bounds of erasures: the undo, the looks that carry them on, the proof, and what is kept of them at rest
 * (service/erasure/eraser, engine/erasure/erasure-runner, format/erasure/erasure-coupon,
 * control/databases/erasure-coupons); part of `limits`.
 */

const KiB = 1024;
const MiB = 1024 * KiB;

export const erasureLimits = {
  // From the request to the receipt (service/erasure/eraser, engine/erasure/erasure-runner)
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
  /**
   * A state that proves an erasure is checked too up to this size, on the thread that makes segments: about 0.2 s; its
   * tables are looked through on the engine's.
   */
  checkedStateBytesMax: 64 * MiB,
  /** States that are remembered to be free of erased data; more are looked into again. */
  knownStatesMax: 10_000,
  /** How long a completed erasure waits for a reader or object storage that holds a local file back. */
  scrubWaitMs: 60_000,
  /** When it is looked once more for objects that came late, after an erasure was completed. */
  lateOrphansMs: 3_600_000,
  /** How long a node that stops waits for an erasure to come to a step that the next run can go on from. */
  erasureStopMs: 2_000,

  // Erasures at rest (format/erasure/erasure-coupon, format/erasure/erasure-receipt, control/databases/erasure-coupons)
  /** The ids of ten thousand memories twice, the traces of as many, and some evidence take about 2 MiB. */
  erasureCouponBytesMax: 4 * MiB,
  /** Checkpoints, and branches, that a blocked coupon names; further ones are named when these are gone. */
  erasureBlockersMax: 1_000,
  /** Of the failure that a coupon tells. */
  erasureReasonCharsMax: 500,
  /** Entries of one list of a receipt's evidence: a few states of every branch. */
  erasureEvidenceEntriesMax: 10_000,
  /** Coupons in one part of a list, all together, unless a single one has more. */
  erasuresListBytesMax: 32 * MiB,
  /** Coupons that are read or written at once. */
  erasureReadsAtOnceMax: 16,
  /** A marker without a coupon is nobody's after this: its coupon is put within half of it, or not at all. */
  erasureMarkerMs: 600_000,
  /**
   * How often a node looks for unfinished erasures in its shards; ever more rarely, up to `shardLookMsMax`, while it
   * finds none.
   */
  erasureTakeUpMs: 60_000,
  /**
   * So long the node that was asked for an erasure looks after it, and from then on the owner of its shard, which has
   * found it by then. This is how much later an erasure completes when that node dies.
   */
  erasureFirstMs: 720_000,
  /** A key set that a receipt is checked against. */
  keySetBytesMax: 256 * KiB,
  /** How long the address of a key set has for its answer. */
  keySetFetchMs: 10_000,
} as const;
