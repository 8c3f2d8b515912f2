/** Bounds of the formats at rest: no encoder writes more, and no decoder believes more (format/); part of `limits`. */

const KiB = 1024;
const MiB = 1024 * KiB;

export const formatLimits = {
  /** SQLite's page types are told by their first byte, which holds only below 2^25 pages. */
  databasePagesMax: 2 ** 25 - 1,
  /**
   * A transaction that finds no room is told that the database is full, and not the disk, when so many pages or fewer
   * are left.
   */
  databasePagesSpare: 2 ** 16,
  segmentGroupsMax: 65_536,
  /** Page images in one segment, 4 GiB before compression: far above what one transaction may log. */
  segmentPagesMax: 2 ** 20,
  segmentIndexBytesMax: 8 * MiB,
  /** References of one timeline: more must be packed first. 1024 of them take 128 KiB at most. */
  timelineRefsMax: 1024,
  /** A ULID, or `main`. */
  branchIdBytesMax: 26,
  /** An id of the pool is a branch id, an epoch and a ULID; its key adds a folder. */
  poolIdBytesMax: 80,
  poolKeyBytesMax: 96,
  nodeIdBytesMax: 4 * KiB,
  /** Every change of a branch rewrites its manifest. */
  manifestBytesMax: 256 * KiB,
  manifestWriterEpochsMax: 16,
  manifestLostMax: 256,
  /** Small durable groups that wait in the manifest to be shipped as a segment. */
  tailBytesMax: 48 * KiB,
  tailSegmentsMax: 64,
  historyBytesMax: 16 * MiB,
  historyTimelinesMax: 4096,
  /**
   * References of all its timelines together, of 160 bytes at most; a sixteenth of the bytes is left to timelines and
   * checkpoints.
   */
  historyRefsMax: 96 * KiB,
  checkpointsMax: 1000,
  checkpointNameBytesMax: 256,
  catalogBytesMax: 4 * MiB,
  branchesMax: 1000,
  /** Objects of one database that wait for their grace to end; further ones are condemned when these are gone. */
  condemnedMax: 10_000,
} as const;
