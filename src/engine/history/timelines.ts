/**
 * What a branch's manifest and history say about its past: which objects restore a transaction id, and how a timeline
 * goes on after a fork, a rewind, a pack or a new base image.
 *
 * Functions of plain data: no store, no files, no clock. Always true of what they give: a timeline holds exactly the
 * states from its `fromTxid` to its end that were not lost; below `fromTxid` its objects may have gaps, because a
 * rewind or a fork left them behind. A transaction id names one state for ever, so it does not matter which timeline
 * restores it.
 */
import { assert } from "../../base/faults/assert.ts";
import { limits } from "../../base/limits.ts";
import type { Manifest, TailSegment, WriterEpoch, TxidRange } from "../../format/history/manifest.ts";
import type { History } from "../../format/history/history.ts";
import { pageBytes } from "../../format/history/pages.ts";
import type { Compression } from "../../format/core/compression.ts";
import type { Timeline, SegmentRef } from "../../format/history/refs.ts";
import { decodeSegments, encodeSegment, readSegmentIndexes, type GroupIndex } from "../../format/history/segment.ts";

/** What restores one state: the images, then every group of the deltas and the tail up to `txid`. */
export interface Plan {
  readonly txid: number;
  /** Least transaction id of the timeline: from here on, no group may be missing that was not lost. */
  readonly fromTxid: number;
  /** Ids that no group has, because what they named never reached object storage. */
  readonly lost: readonly TxidRange[];
  /** The newest image not above `txid`, in as many objects as it has. Every timeline begins with one. */
  readonly images: readonly SegmentRef[];
  /** In order. The last one may hold groups above `txid`. */
  readonly deltas: readonly SegmentRef[];
  /** In order, after the deltas. The last one may hold groups above `txid`. */
  readonly tail: readonly TailSegment[];
}

/** A timeline of the manifest or of the history. */
export interface TimelineView {
  readonly fromTxid: number;
  readonly toTxid: number;
  /** When its last state ceased to be current; never, for the manifest's. */
  readonly endedAtMs: number;
  readonly refs: readonly SegmentRef[];
  readonly tail: readonly TailSegment[];
}

/** The manifest's own timeline first, then those of the past, newest first. */
export function listTimelines(manifest: Manifest, history: History | undefined): readonly TimelineView[] {
  const current: TimelineView = {
    fromTxid: manifest.fromTxid,
    toTxid: manifest.txid,
    endedAtMs: Number.POSITIVE_INFINITY,
    refs: manifest.refs,
    tail: manifest.tail,
  };
  const past = (history?.timelines ?? []).map((timeline): TimelineView => ({ ...timeline, tail: [] }));
  return [current, ...past.reverse()];
}

export function within(range: TxidRange, txid: number): boolean {
  return range.firstTxid <= txid && txid <= range.lastTxid;
}

/**
 * Whether the id names a state of the branch at all. Claims older than the manifest remembers are judged by the
 * timelines alone.
 */
function isState(manifest: Manifest, txid: number): boolean {
  if (txid > manifest.txid || txid < manifest.floorTxid || manifest.lost.some((range) => within(range, txid)))
    return false;
  const oldest = manifest.writerEpochs[0];
  return (
    oldest === undefined ||
    txid < oldest.firstTxid ||
    manifest.writerEpochs.some((writerEpoch) => within(writerEpoch, txid))
  );
}

/**
 * Whether what was written under the id is gone. A lost id that lies within a claim's own ids has only lost its state:
 * what it wrote is in those after it, which were shipped as one. Nothing is known of claims that have left the table.
 */
export function isTxidLost({ lost, writerEpochs }: Pick<Manifest, "lost" | "writerEpochs">, txid: number): boolean {
  return lost.some((range) => within(range, txid)) && !writerEpochs.some((writerEpoch) => within(writerEpoch, txid));
}

/**
 * The lost ranges with others. Ranges that touch become one: claims that follow each other without a commit lose the
 * same ids. Beyond the bound the two oldest become one that covers both: what lies between can no longer be restored by
 * itself.
 */
export function withLost(lost: readonly TxidRange[], added: readonly TxidRange[]): readonly TxidRange[] {
  const all: TxidRange[] = [];
  for (const range of [...lost, ...added].sort((a, b) => a.firstTxid - b.firstTxid)) {
    const last = all.at(-1);
    if (last && range.firstTxid <= last.lastTxid + 1)
      all[all.length - 1] = { firstTxid: last.firstTxid, lastTxid: Math.max(last.lastTxid, range.lastTxid) };
    else all.push(range);
  }
  while (all.length > limits.manifestLostMax)
    all.splice(0, 2, { firstTxid: all[0]!.firstTxid, lastTxid: all[1]!.lastTxid });
  return all;
}

/** The writer epochs, of which the one of this id has come as far as `txid`. */
export function reaching(writerEpochs: readonly WriterEpoch[], id: Uint8Array, txid: number): readonly WriterEpoch[] {
  return writerEpochs.map((writerEpoch) =>
    Buffer.compare(writerEpoch.id, id) === 0
      ? { ...writerEpoch, lastTxid: Math.max(writerEpoch.lastTxid, txid) }
      : writerEpoch,
  );
}

/**
 * The writer epochs, each of which has come as far as a state of `txid` shows that it has: to where the next one
 * begins, or to the first id that was given up before. For a state that holds what several claims of one node wrote and
 * did not ship.
 */
export function reachingTo(
  { writerEpochs, lost }: Pick<Manifest, "writerEpochs" | "lost">,
  txid: number,
): readonly WriterEpoch[] {
  return writerEpochs.map((writerEpoch, at) => {
    const end = Math.min(txid, (writerEpochs[at + 1]?.firstTxid ?? Infinity) - 1);
    let { lastTxid } = writerEpoch;
    while (lastTxid < end && !lost.some((range) => within(range, lastTxid + 1))) lastTxid++;
    return { ...writerEpoch, lastTxid };
  });
}

/** The id of the group that follows the one of `txid`: what claims have given up is passed over. */
export function txidAfter({ lost }: Pick<Manifest, "lost">, txid: number): number {
  let next = txid + 1;
  for (;;) {
    const gap = lost.find((range) => within(range, next));
    if (!gap) return next;
    next = gap.lastTxid + 1;
  }
}

/** How many groups there are above `afterTxid` and up to `toTxid`. */
export function groupsBetween(manifest: Manifest, afterTxid: number, toTxid: number): number {
  let groups = 0;
  for (let at = txidAfter(manifest, afterTxid); at <= toTxid; at = txidAfter(manifest, at)) groups++;
  return groups;
}

/** How many ids there are from `firstTxid` up to `toTxid` before the next that claims have given up. */
export function groupsInARow({ lost }: Manifest, firstTxid: number, toTxid: number): number {
  const gaps = lost.filter((range) => range.firstTxid > firstTxid).map((range) => range.firstTxid - 1);
  return Math.min(toTxid, ...gaps) - firstTxid + 1;
}

/** How the timeline restores the state, or undefined when it does not hold it. */
export function findTimelinePlan(
  timeline: Omit<TimelineView, "endedAtMs">,
  lost: readonly TxidRange[],
  txid: number,
): Plan | undefined {
  if (txid < timeline.fromTxid || txid > timeline.toTxid) return undefined;
  const reached = timeline.refs.filter((ref) => ref.firstTxid <= txid);
  const imageTxid = reached.reduce(
    (most, { kind, lastTxid }) => (kind === "image" ? Math.max(most, lastTxid) : most),
    -1,
  );
  const images = reached.filter(({ kind, lastTxid }) => kind === "image" && lastTxid === imageTxid);
  // A pack may begin below an image that was made later; what lies at or below the image is skipped when it is read.
  const deltas = reached.filter(({ kind, lastTxid }) => kind === "delta" && lastTxid > imageTxid);
  const tail = timeline.tail.filter(({ firstTxid }) => firstTxid <= txid);
  if (images.length === 0) return undefined;
  const last = tail.at(-1) ?? deltas.at(-1) ?? images[0]!;
  if (last.lastTxid < txid) return undefined;
  return { txid, fromTxid: timeline.fromTxid, lost, images, deltas, tail };
}

/**
 * How to restore the state, or undefined when no timeline holds it. Without the history only the manifest's timeline is
 * looked at.
 */
export function findRestorePlan(manifest: Manifest, history: History | undefined, txid: number): Plan | undefined {
  if (!isState(manifest, txid)) return undefined;
  for (const timeline of listTimelines(manifest, history)) {
    const plan = findTimelinePlan(timeline, manifest.lost, txid);
    if (plan) return plan;
  }
  return undefined;
}

/** When the group after `txid` was committed, of a segment that holds it. */
function committedAfter(tail: TailSegment, txid: number): number {
  const next = readSegmentIndexes(tail.bytes)
    .flatMap(({ groups }) => groups)
    .find((group) => group.txid > txid);
  assert(next !== undefined, "a tail segment ends with a group");
  return next.committedAtMs;
}

/**
 * The latest that the timeline's state can have ceased to be current: the times of single groups are known to the tail,
 * and to objects only.
 */
function currentUntilMs(timeline: TimelineView, txid: number): number {
  const delta = timeline.refs.find(({ kind, lastTxid }) => kind === "delta" && lastTxid > txid);
  if (delta) return delta.lastAtMs;
  const tail = timeline.tail.find(({ lastTxid }) => lastTxid > txid);
  return tail ? committedAfter(tail, txid) : timeline.endedAtMs;
}

/**
 * Whether the state may be rewound to, forked or read: a timeline holds it, and it was current at `cutoffMs` or later
 * or has a name. Errs towards yes, by at most the time that one object spans.
 */
export function isRestorable(
  manifest: Manifest,
  history: History | undefined,
  txid: number,
  cutoffMs: number,
): boolean {
  if (!isState(manifest, txid)) return false;
  const named = history?.checkpoints.some((checkpoint) => checkpoint.txid === txid) ?? false;
  return listTimelines(manifest, history).some(
    (timeline) =>
      findTimelinePlan(timeline, manifest.lost, txid) !== undefined &&
      (named || currentUntilMs(timeline, txid) >= cutoffMs),
  );
}

/** The reference without what lies above `txid`. */
function cutRef(ref: SegmentRef, txid: number): SegmentRef {
  return ref.lastTxid <= txid ? ref : { ...ref, lastTxid: txid, cut: true };
}

/** What a new branch has of its own. */
export interface ForkedBranch {
  readonly branchId: string;
  /** 16 random bytes. */
  readonly nonce: Uint8Array;
  readonly node: string;
  /**
   * Commit time of the state that it begins with, and the size of the database then (engine/segments/restore:
   * readStatePoint).
   */
  readonly committedAtMs: number;
  readonly pages: number;
}

/**
 * The first manifest of a branch that begins with the parent's state at `txid`; undefined when no timeline holds that.
 * It has no past of its own: the floor is the fork point.
 */
export async function forkedManifest(
  parent: Manifest,
  history: History | undefined,
  txid: number,
  child: ForkedBranch,
  press: Compression,
): Promise<Manifest | undefined> {
  const plan = findRestorePlan(parent, history, txid);
  if (!plan) return undefined;
  return {
    uuid: parent.uuid,
    ...child,
    epoch: 0,
    seq: 1,
    prevHash: new Uint8Array(32),
    writerEpochs: parent.writerEpochs
      .filter(({ firstTxid }) => firstTxid <= txid)
      .map((writerEpoch) => ({ ...writerEpoch, lastTxid: Math.min(writerEpoch.lastTxid, txid) })),
    lost: parent.lost.filter(({ lastTxid }) => lastTxid < txid),
    txid,
    reservedTo: txid,
    fromTxid: txid,
    floorTxid: txid,
    refs: [...plan.images, ...plan.deltas.map((ref) => cutRef(ref, txid))],
    tail: await Promise.all(plan.tail.map((segment) => cutTailSegment(segment, txid, press))),
    history: undefined,
    garbageBelowUlid: "",
  };
}

/**
 * A tail segment holds exactly its range, unlike an object: its bytes are to be concatenated with those of later
 * groups.
 */
async function cutTailSegment(tail: TailSegment, txid: number, press: Compression): Promise<TailSegment> {
  return tail.lastTxid <= txid ? tail : groupsWithin(tail.bytes, { firstTxid: tail.firstTxid, lastTxid: txid }, press);
}

/** The groups of some segments that lie within the range, at least one of them, as segments that hold nothing else. */
export async function groupsWithin(segments: Uint8Array, range: TxidRange, press: Compression): Promise<TailSegment> {
  const kept: Uint8Array[] = [];
  const all: GroupIndex[] = [];
  for (const { offset, bytes, groups } of readSegmentIndexes(segments)) {
    const wanted = groups.filter(({ txid }) => within(range, txid));
    if (wanted.length === 0) continue;
    all.push(...wanted);
    const own = segments.subarray(offset, offset + bytes);
    kept.push(wanted.length === groups.length ? own : await withoutOthers(own, range, press));
  }
  assert(all.length > 0, "some groups lie within the range");
  const rawBytes = all.reduce((sum, { pageNumbers }) => sum + pageNumbers.length, 0) * pageBytes;
  return {
    firstTxid: all[0]!.txid,
    lastTxid: all.at(-1)!.txid,
    lastAtMs: all.at(-1)!.committedAtMs,
    rawBytes,
    bytes: new Uint8Array(Buffer.concat(kept)),
  };
}

/** One segment without the groups outside of the range. */
async function withoutOthers(bytes: Uint8Array, range: TxidRange, press: Compression): Promise<Uint8Array> {
  const [segment] = await decodeSegments(bytes, press);
  return encodeSegment({ ...segment!, groups: segment!.groups.filter(({ txid }) => within(range, txid)) }, press);
}

/** The manifest's timeline up to `toTxid` as one of the past. The tail up to there must have become objects before. */
export function closedTimeline(manifest: Manifest, toTxid: number, endedAtMs: number): Timeline {
  assert(toTxid >= manifest.fromTxid && toTxid <= manifest.txid, "a timeline is closed at one of its states");
  assert(
    manifest.tail.every(({ firstTxid }) => firstTxid > toTxid),
    "a timeline of the past has no tail",
  );
  const refs = manifest.refs.filter(({ firstTxid }) => firstTxid <= toTxid).map((ref) => cutRef(ref, toTxid));
  return { fromTxid: manifest.fromTxid, toTxid, endedAtMs, refs };
}

/** How a manifest's timeline goes on, and the timeline that ends with it. */
export interface Succession {
  readonly refs: readonly SegmentRef[];
  readonly fromTxid: number;
  /** Goes to the end of the history's timelines. */
  readonly closed: Timeline;
}

/**
 * The timeline over a new base image. Undefined when the image is no longer of the manifest's timeline, which was
 * rewound while it was made: throw it away. Objects that were packed meanwhile are fine.
 */
export function rebased(manifest: Manifest, images: readonly SegmentRef[], endedAtMs: number): Succession | undefined {
  const txid = images[0]?.lastTxid;
  assert(
    txid !== undefined && images.every((image) => image.kind === "image" && image.lastTxid === txid),
    "a base image is of one state",
  );
  if (findRestorePlan(manifest, undefined, txid) === undefined) return undefined;
  const deltas = manifest.refs.filter((ref) => ref.kind === "delta" && ref.lastTxid > txid);
  return { refs: [...images, ...deltas], fromTxid: txid, closed: closedTimeline(manifest, txid, endedAtMs) };
}

/**
 * The timeline of a manifest that is rewound to the plan's state: that state's objects, and a delta of one group that
 * makes it a new one. A plan of any timeline of the branch will do, so a rewind can be rewound. The tail must have
 * become objects before.
 */
export function rewound(manifest: Manifest, plan: Plan, delta: SegmentRef, endedAtMs: number): Succession {
  assert(manifest.tail.length === 0 && plan.tail.length === 0, "a tail becomes objects before a rewind");
  assert(delta.kind === "delta" && delta.firstTxid > manifest.txid, "a rewind is a commit like any other");
  const refs = [...plan.images, ...plan.deltas.map((ref) => cutRef(ref, plan.txid)), delta];
  return { refs, fromTxid: delta.firstTxid, closed: closedTimeline(manifest, manifest.txid, endedAtMs) };
}

/**
 * The history without timelines that neither the window, which begins at `cutoffMs`, nor a checkpoint needs.
 * `believable` sets right when a timeline ended that was closed under a clock that was ahead: it would never leave the
 * window.
 */
export function trimmed(
  history: History,
  cutoffMs: number,
  believable: (atMs: number) => number = (atMs) => atMs,
): History {
  const timelines = history.timelines.flatMap((ended): Timeline[] => {
    const endedAtMs = believable(ended.endedAtMs);
    const timeline = endedAtMs === ended.endedAtMs ? ended : { ...ended, endedAtMs };
    if (timeline.endedAtMs >= cutoffMs) return [timeline];
    const named = history.checkpoints
      .map(({ txid }) => txid)
      .filter((txid) => txid >= timeline.fromTxid && txid <= timeline.toTxid);
    if (named.length === 0) return [];
    const toTxid = Math.max(...named);
    return [
      {
        ...timeline,
        toTxid,
        refs: timeline.refs.filter(({ firstTxid }) => firstTxid <= toTxid).map((ref) => cutRef(ref, toTxid)),
      },
    ];
  });
  return { ...history, timelines };
}

/**
 * Keys below the database's folder of every immutable object that the manifest or the history refers to: `seg/<id>`,
 * `hist/<id>`.
 */
export function referenced(manifest: Manifest, history: History | undefined): Set<string> {
  const refs = [manifest.refs, ...(history?.timelines ?? []).map((timeline) => timeline.refs)].flat();
  const keys = new Set(refs.map(({ id }) => `seg/${id}`));
  if (manifest.history) keys.add(`hist/${manifest.history.id}`);
  return keys;
}
