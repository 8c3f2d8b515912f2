/**
 * Bounds of the work that keeps every branch's history short, and of what happens where it cannot keep up
 * (engine/compaction/compactor, engine/compaction/timeline-length, engine/shipping/commit-ages); part of `limits`.
 * docs/bounds.md says of every list that grows which soft bound comes before which hard one.
 */
export const compactionLimits = {
  // The timeline of a manifest, of which `lineRefsMax` is what fits (engine/compaction/timeline-length)
  /**
   * So many deltas of a timeline, and it is packed across whatever stands in the way: a busy branch that is well has
   * about a hundred.
   */
  timelineDeltasSoft: 384,
  /** So many references, and any two objects are packed; a new base image is due as well. */
  timelineRefsPressing: 768,
  /** So many, with those that the log will become, and writes are refused. */
  timelineRefsHard: 960,
  /**
   * So many, and nothing is shipped until the timeline is shorter; what is left is for a rewind, an erasure and a log
   * that was lost.
   */
  timelineRefsShipped: 1016,
  /** Objects of one base image: those of databases above 32 GiB grow instead, up to 256 MiB before compression. */
  imageRefsMax: 512,

  // Jobs (engine/compaction/compactor)
  /** Branches of one thread whose objects are packed at once; each holds a pack twice. */
  packsAtOnceMax: 2,
  /**
   * Branches of one thread whose state is restored for a new base image, or whose history is cut for an erasure, at
   * once.
   */
  rebasesAtOnceMax: 2,
  /** After a failure the job is left alone for so long, and then for ever longer up to the second time. */
  compactorRetryMsMin: 1_000,
  compactorRetryMsMax: 60_000,
  /** Objects found rotten that a thread remembers; nothing is made of them for so long. */
  rottenRememberedMax: 10_000,
  rottenAgainMs: 600_000,
  /**
   * Databases of one thread that wait for a collection, and those that were deleted and wait to be purged; further
   * deletions are shed.
   */
  choresMax: 100_000,
  /**
   * A deleted database that waits for copies on nodes that are down is looked at ever more rarely, up to this: as
   * rarely as its copies are asked for.
   */
  purgeAgainMsMax: 3_600_000,

  // What is not shipped (engine/shipping/commit-ages)
  /**
   * Commits that follow each other within this share the time of the first, or within longer when there are so many
   * such stretches: a hundredth of an outage.
   */
  commitStretchMs: 50,
  commitStretchesMax: 256,
  /** How long an engine thread that stops waits for packs and base images that are being made. */
  compactorStopMs: 2_000,
} as const;
