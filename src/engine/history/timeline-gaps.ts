/**
 * Whether a timeline is whole: no transaction id is missing from its objects unless it was lost.
 *
 * A function of plain data. It says of references what engine/segments/restore proves of bytes.
 */
import type { TailSegment, TxidRange } from "../../format/history/manifest.ts";
import type { SegmentRef } from "../../format/history/refs.ts";
import { txidAfter } from "./timelines.ts";

/** What restores the states from `fromTxid` to `toTxid`. */
export interface WholeTimeline {
  readonly fromTxid: number;
  readonly toTxid: number;
  readonly refs: readonly SegmentRef[];
  readonly tail: readonly TailSegment[];
}

/** Ids that the timeline should hold and does not; the first range is the whole timeline when it has no image. */
export function findGaps(
  { fromTxid, toTxid, refs, tail }: WholeTimeline,
  lost: readonly TxidRange[],
): readonly TxidRange[] {
  const images = refs.filter(({ kind }) => kind === "image");
  if (images.length === 0) return [{ firstTxid: fromTxid, lastTxid: toTxid }];
  const gaps: TxidRange[] = [];
  // Below its beginning a timeline may have gaps that a rewind or a fork has left.
  let reached = Math.max(images[0]!.lastTxid, fromTxid - 1);
  for (const { firstTxid, lastTxid } of [...refs.filter(({ kind }) => kind === "delta"), ...tail]) {
    if (txidAfter({ lost }, reached) < firstTxid) gaps.push({ firstTxid: reached + 1, lastTxid: firstTxid - 1 });
    reached = Math.max(reached, lastTxid);
  }
  if (txidAfter({ lost }, reached) <= toTxid) gaps.push({ firstTxid: reached + 1, lastTxid: toTxid });
  return gaps;
}
