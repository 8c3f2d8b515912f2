/**
 * How long a branch's timeline may become: which of its objects are concatenated next, when a new base image is due,
 * when it takes no more.
 *
 * Functions of plain data: no store, no files, no clock. Any run of deltas that is not known to be rotten and fits a
 * pack can be packed, whichever node wrote them and whatever was cut off them. So a timeline that cannot be shortened
 * holds half a full pack in every object, or what is rotten, and only a new base image shortens it further.
 */
import { limits } from "../../base/limits.ts";
import type { Manifest } from "../../format/history/manifest.ts";
import { parsePoolId } from "../../format/keys/object-keys.ts";
import { pageBytes } from "../../format/history/pages.ts";
import type { SegmentRef } from "../../format/history/refs.ts";

/** With this many, those that the log will become included, writes are refused. */
export const timelineRefsHard = 960;
/**
 * This many objects of one size are concatenated into one: a timeline of n objects is written log32(n) times over.
 * With 16 an hour of two puts a second was put 5.7 times over instead of 4.0, one of two ingests 3.2 instead of 2.7
 * (`npm run bench -- storage puts`); with more a restore fetches more objects.
 */
export const packRefsMin = 32;
/**
 * This many of any size are concatenated too: sizes may alternate so that never enough of one size come together.
 */
const packRefsMax = 128;
export const packBytesMax = 64 * 1024 * 1024;
/** Deltas below this never ask for a new base image, however small the database. */
const rebaseBytesMin = 4 * 1024 * 1024;
/** Deltas that hold this many times what the database does ask for a new base image, however little room they take. */
const rebaseTimesMax = 8;
/** Deltas that hold less than that ask for one when they take this many times the room of the images. */
const rebaseRoomTimes = 2;

/** References of the manifest, from `from` up to and without `to`. */
export interface PackRange {
  readonly from: number;
  readonly to: number;
}

/** When a timeline counts as long. */
export interface TimelineBounds {
  /** With this many deltas, a timeline is packed across any obstacle. */
  readonly timelineDeltasSoft: number;
  /** With this many references, any two are packed. */
  readonly timelineRefsPressing: number;
}

/** What keeps some of the references from being packed. */
export interface PackOptions {
  readonly isRotten?: (id: string) => boolean;
  /**
   * A base image of this state is being made: no pack holds groups of both sides, or it would be in the old timeline
   * and in the new.
   */
  readonly baseTxid?: number;
  readonly bounds?: TimelineBounds;
}

/**
 * Which of the manifest's references to concatenate next: the newest ones, when enough of one size have come together,
 * else, of a long timeline, the most frequent kind.
 */
export function packDue(manifest: Manifest, options: PackOptions = {}): PackRange | undefined {
  return dueBySize(manifest, options) ?? dueByLength(manifest, options);
}

/** Whether the timeline is so long that it is to be looked at until it is shorter. */
export function isLong(
  { refs }: Manifest,
  { timelineDeltasSoft, timelineRefsPressing }: TimelineBounds = limits,
): boolean {
  return refs.length >= timelineRefsPressing || countDeltas(refs) >= timelineDeltasSoft;
}

/** Whether writes must wait until the timeline is shorter: it and the unshipped bytes of the log will leave no room. */
export function isFull({ refs }: Manifest, unshippedLogBytes: number): boolean {
  // A log may be long because the store does not answer: that alone does not concern the timeline.
  return (
    refs.length >= limits.timelineRefsPressing &&
    refs.length + Math.ceil(unshippedLogBytes / limits.segmentLogBytes) >= timelineRefsHard
  );
}

function countDeltas(refs: readonly SegmentRef[]): number {
  return refs.reduce((count, { kind }) => (kind === "delta" ? count + 1 : count), 0);
}

/** Which size an object counts as; the number of sizes if it is full. */
function computeTier(ref: SegmentRef): number {
  const tier = limits.packTierBytes.findIndex((bytes) => ref.bytes < bytes);
  return tier < 0 ? limits.packTierBytes.length : tier;
}

/**
 * Only deltas of this branch that nothing was cut from: a cut one must be written anew without that, and what another
 * branch wrote is there already.
 */
function dueBySize(
  { refs, branchId }: Manifest,
  { isRotten = () => false, baseTxid = -1 }: PackOptions,
): PackRange | undefined {
  const mayPack = (ref: SegmentRef, tier: number): boolean =>
    ref.kind === "delta" &&
    !ref.cut &&
    ref.lastTxid > baseTxid &&
    computeTier(ref) <= tier &&
    parsePoolId(ref.id)?.branchId === branchId &&
    !isRotten(ref.id);
  for (const tier of limits.packTierBytes.keys()) {
    let from = refs.length;
    let ofTier = 0;
    for (; from > 0 && mayPack(refs[from - 1]!, tier); from--) if (computeTier(refs[from - 1]!) === tier) ofTier++;
    if (ofTier < packRefsMin && refs.length - from < packRefsMax) continue;
    let to = from;
    for (let bytes = 0; to < refs.length && (bytes += refs[to]!.bytes) <= packBytesMax;) to++;
    return { from, to };
  }
  return undefined;
}

/**
 * The run of most objects that fit one pack. Full ones are written again only where the timeline is about to take no
 * more.
 */
function dueByLength(
  manifest: Manifest,
  { isRotten = () => false, baseTxid = -1, bounds = limits }: PackOptions,
): PackRange | undefined {
  if (!isLong(manifest, bounds)) return undefined;
  const { refs } = manifest;
  const isPressing = refs.length >= bounds.timelineRefsPressing;
  const mayPack = (ref: SegmentRef): boolean =>
    ref.kind === "delta" && (isPressing || computeTier(ref) < limits.packTierBytes.length) && !isRotten(ref.id);
  let best: PackRange | undefined;
  let from = 0;
  let bytes = 0;
  for (const [at, ref] of refs.entries()) {
    const crosses = at > 0 && refs[at - 1]!.lastTxid <= baseTxid && ref.lastTxid > baseTxid;
    if (!mayPack(ref) || crosses) {
      from = mayPack(ref) ? at : at + 1;
      bytes = 0;
    }
    if (from > at) continue;
    bytes += ref.bytes;
    while (bytes > packBytesMax) bytes -= refs[from++]!.bytes;
    const count = at + 1 - from;
    if (count >= (isPressing ? 2 : packRefsMin) && count > (best ? best.to - best.from : 0))
      best = { from, to: at + 1 };
  }
  return best;
}

/** The references with the pack in the place of its inputs; undefined when these are no longer there as they were. */
export function packed(
  refs: readonly SegmentRef[],
  inputs: readonly SegmentRef[],
  pack: SegmentRef,
): readonly SegmentRef[] | undefined {
  const from = refs.findIndex(({ id }) => id === inputs[0]?.id);
  const found = refs.slice(from, from + inputs.length);
  const same =
    from >= 0 &&
    found.length === inputs.length &&
    found.every((ref, index) => ref.id === inputs[index]!.id && ref.lastTxid === inputs[index]!.lastTxid);
  return same ? [...refs.slice(0, from), pack, ...refs.slice(from + inputs.length)] : undefined;
}

/**
 * The state that is due for a new base image, if any: when the deltas hold as much as the database and have taken twice
 * as much room as its images do, so that images cost half of what the deltas did; when they hold several times as much,
 * so that a restore looks through no more; or when the timeline has many objects that cannot be packed. Deltas take
 * less room than images of as many pages: one segment has the same pages again and again.
 *
 * Why not sooner: an image is restored, checked and pressed, and for small memories written one by one that took 40 %
 * of what shipping takes while it was due at as much and four times; a restore then fetched up to twice the images'
 * bytes, and does up to three times now.
 */
export function rebaseDue(manifest: Manifest): number | undefined {
  const deltas = manifest.refs.filter(({ kind }) => kind === "delta");
  const images = manifest.refs.filter(({ kind }) => kind === "image");
  const rawBytes = sumRefs(deltas, "rawBytes");
  const databaseBytes = manifest.pages * pageBytes;
  const isWorthIt =
    sumRefs(deltas, "bytes") >= rebaseRoomTimes * sumRefs(images, "bytes") ||
    rawBytes >= rebaseTimesMax * databaseBytes;
  const due =
    (rawBytes >= Math.max(databaseBytes, rebaseBytesMin) && isWorthIt) ||
    manifest.refs.length > limits.timelineRefsPressing;
  const newest = deltas.findLast(({ cut }) => !cut);
  return due && newest !== undefined && newest.lastTxid >= manifest.fromTxid ? newest.lastTxid : undefined;
}

function sumRefs(refs: readonly SegmentRef[], what: "bytes" | "rawBytes"): number {
  return refs.reduce((sum, ref) => sum + ref[what], 0);
}
