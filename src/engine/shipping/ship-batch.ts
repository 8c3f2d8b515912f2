/**
 * Groups on their way to object storage, and what the manifest says once it covers them.
 *
 * Functions of plain data: no store, no log.
 */
import { limits } from "../../base/limits.ts";
import type { Manifest, TailSegment } from "../../format/history/manifest.ts";
import type { LogPosition } from "../../sqlite/wal/wal-reader.ts";
import type { ManifestChange } from "../history/manifest-writer.ts";
import { reaching } from "../history/timelines.ts";
import type { Uploads } from "../history/uploads.ts";
import type { NewObject } from "../segments/pool-objects.ts";
import type { MadeSegment } from "../segments/segment-maker.ts";

/** The groups of one publication, made into a segment. */
export interface ShipBatch {
  /** Every try publishes the same bytes under the same name. */
  readonly made: MadeSegment;
  /** The tail that it was made for. */
  readonly tail: readonly TailSegment[];
  /** Where it begins in the log, and the group before. */
  readonly from: LogPosition;
  readonly afterTxid: number;
  /** Under a name of its own, which is over when the branch is claimed meanwhile. */
  object: { readonly uploads: Uploads; readonly put: NewObject } | undefined;
}

/** Whether the segment has taken the other one in. */
export function holds(segment: TailSegment, other: TailSegment): boolean {
  return segment.firstTxid <= other.firstTxid;
}

/** Whether the tail is the earlier one, segment by segment. */
export function sameTail(tail: readonly TailSegment[], before: readonly TailSegment[]): boolean {
  return tail.length === before.length && tail.every((segment, index) => segment === before[index]);
}

/** Durable groups are inlined while the tail stays small; beyond that it is spilled together with them. */
export function fitsTail(tail: readonly TailSegment[], segment: TailSegment): boolean {
  const kept = tail.filter((one) => !holds(segment, one));
  const bytes = kept.reduce((sum, entry) => sum + entry.bytes.length, segment.bytes.length);
  return bytes <= limits.tailBytesMax && kept.length < limits.tailSegmentsMax;
}

/**
 * What every publication changes: how far the manifest covers, and whose groups they are. Only a writer that has
 * claimed the branch reserves more: what an earlier process has left and this one ships is no reason to count ids as
 * given that were not.
 */
export function covering(
  manifest: Manifest,
  { made: { segment, pages, writerEpochs } }: ShipBatch,
  isClaimed: boolean,
): ManifestChange {
  const spare = manifest.reservedTo - segment.lastTxid;
  return {
    txid: segment.lastTxid,
    committedAtMs: segment.lastAtMs,
    pages,
    writerEpochs: writerEpochs.reduce(
      (reached, { id, lastTxid }) => reaching(reached, id, lastTxid),
      manifest.writerEpochs,
    ),
    reservedTo:
      isClaimed && spare < limits.txidReserve / 2 ? segment.lastTxid + limits.txidReserve : manifest.reservedTo,
  };
}
