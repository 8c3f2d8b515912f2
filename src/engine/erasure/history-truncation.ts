/**
 * What of a branch's past goes with erased data, and how the rest is written anew so that nothing of it is left.
 *
 * The rule it rests on: data enters a branch by the write that made it, or at the beginning of a timeline, when a
 * rewind or a fork brings an old state back. Within a timeline it can only go. So a state without the data has none
 * behind it in its timeline, once the timeline is past the point where the data can have been written (`cutTxid`).
 *
 * Always true: a kept timeline restores every state from its new beginning to its end exactly as before, and none of
 * its objects holds a group of any other state, unless that object is clean anyway. Must not know: coupons, what is
 * erased.
 */
import { assert } from "../../base/faults/assert.ts";
import { StoreError } from "../../base/faults/errors.ts";
import { limits } from "../../base/limits.ts";
import type { World } from "../../base/world.ts";
import type { CatalogBranch } from "../../format/history/catalog.ts";
import type { Ancestor, ErasurePoint } from "../../format/erasure/erasure-coupon.ts";
import type { Manifest, TailSegment } from "../../format/history/manifest.ts";
import type { History } from "../../format/history/history.ts";
import type { Compression } from "../../format/core/compression.ts";
import type { SegmentRef } from "../../format/history/refs.ts";
import type { ManifestWriter } from "../history/manifest-writer.ts";
import { changeHistory } from "../history/branch-history.ts";
import { groupsWithin, findRestorePlan, findTimelinePlan, txidAfter, type Plan } from "../history/timelines.ts";
import { fetchObject, putObject, type PageSource } from "../segments/pool-objects.ts";
import { withUploads, type Uploads } from "../history/uploads.ts";

/** A branch's past at one instant. */
export interface Past {
  readonly manifest: Manifest;
  readonly history: History;
}

/** A timeline that restores states, the manifest's own or one of the past. */
export interface RestoringTimeline {
  readonly fromTxid: number;
  readonly toTxid: number;
  readonly refs: readonly SegmentRef[];
  /** What the manifest itself holds of its timeline. */
  readonly tail: readonly TailSegment[];
}

/** The timelines of the past in the order of the history, then the manifest's own. */
export function restoringTimelines({ manifest, history }: Past): readonly RestoringTimeline[] {
  const past = history.timelines.map((timeline): RestoringTimeline => ({ ...timeline, tail: [] }));
  return [...past, { fromTxid: manifest.fromTxid, toTxid: manifest.txid, refs: manifest.refs, tail: manifest.tail }];
}

/**
 * The transaction id of the branch after which the erased data cannot have been written there any more; 0 where it
 * never can have been. It is the erasure itself where it happened, and the fork where the branch that it happened on
 * came from this one: what was written here later never got there.
 */
export function cutTxid(branches: readonly CatalogBranch[], points: readonly ErasurePoint[], branchId: string): number {
  return points.reduce((most, point) => Math.max(most, computeBound(branches, point, branchId)), 0);
}

function computeBound(branches: readonly CatalogBranch[], point: ErasurePoint, branchId: string): number {
  let at = point.branchId;
  // Forks take their parent's ids on, so a bound of a descendant is one of its ancestors too, if not the best one.
  let bound = point.txid;
  const noted = [...(point.ancestors ?? [])];
  for (;;) {
    if (at === branchId) return bound;
    const ancestor = noted.shift();
    if (ancestor) {
      ({ branchId: at, forkTxid: bound } = ancestor);
      continue;
    }
    const branch = branches.find(({ id }) => id === at);
    // One that was deleted before the erasure no longer says where it came from: any branch may be its ancestor.
    if (!branch) return bound;
    if (!branch.parent) return 0;
    bound = branch.parent.forkTxid;
    at = branch.parent.id;
  }
}

/** The branches that this one came from, as far as those that exist tell, nearest first. */
export function listAncestors(branches: readonly CatalogBranch[], branchId: string): readonly Ancestor[] {
  const found: Ancestor[] = [];
  const findParent = (id: string): CatalogBranch["parent"] => branches.find((branch) => branch.id === id)?.parent;
  for (let parent = findParent(branchId); parent; parent = findParent(parent.id))
    found.push({ branchId: parent.id, forkTxid: parent.forkTxid });
  return found;
}

/** The timeline's first state that is not below `txid`, or undefined when it has none. */
export function firstStateFrom(
  manifest: Manifest,
  { fromTxid, toTxid }: RestoringTimeline,
  txid: number,
): number | undefined {
  const first = Math.max(fromTxid, txidAfter(manifest, txid - 1));
  return first <= toTxid ? first : undefined;
}

/**
 * Where each timeline of a branch is to begin from now on, in the order of `restoringTimelines`; undefined for one that
 * is removed. The manifest's stays.
 */
export type Beginnings = readonly (number | undefined)[];

/** Ids of the objects that hold nothing but states which the timelines keep. */
export function cleanObjects(past: Past, beginnings: Beginnings): string[] {
  return restoringTimelines(past).flatMap(({ refs }, index) => {
    const fromTxid = beginnings[index];
    return fromTxid === undefined ? [] : refs.filter((ref) => isOfTimeline(ref, fromTxid)).map(({ id }) => id);
  });
}

function isOfTimeline({ kind, cut, firstTxid }: SegmentRef, fromTxid: number): boolean {
  return !cut && (kind === "image" ? firstTxid >= fromTxid : firstTxid > fromTxid);
}

/** Whether the branch's timelines are as they should be, so that nothing is to be written. */
export function isCut(past: Past, beginnings: Beginnings, clean: ReadonlySet<string>): boolean {
  return restoringTimelines(past).every(
    (timeline, index) => beginnings[index] === timeline.fromTxid && isClean(timeline, timeline.fromTxid, clean),
  );
}

/** Whether the timeline may begin there with the very objects that it has. */
function isClean({ refs, tail }: RestoringTimeline, fromTxid: number, clean: ReadonlySet<string>): boolean {
  // The beginning is restored from objects: the tail's part of it is removed.
  return refs.every(({ id }) => clean.has(id)) && tail.every(({ firstTxid }) => firstTxid > fromTxid);
}

export interface CuttingParts {
  readonly source: PageSource;
  readonly world: World;
  /** Puts images of the plan's state, which it restores, under such ids. */
  readonly putImages: (plan: Plan, newId: () => string) => Promise<readonly SegmentRef[]>;
  /** Restores the plan's state, and throws when that cannot be done. */
  readonly check: (plan: Plan) => Promise<void>;
  readonly bytesPut: (bytes: number) => void;
}

/**
 * Makes the timelines of the branch begin where they should, by one change of its manifest. False when history changed
 * meanwhile: then nothing has changed but for objects that nothing refers to. The caller keeps packing and new base
 * images from the branch; writers go on.
 */
export async function cutBranch(
  parts: CuttingParts,
  manifest: ManifestWriter,
  past: Past,
  beginnings: Beginnings,
  clean: ReadonlySet<string>,
): Promise<boolean> {
  return withUploads(manifest, async (uploads) => {
    const written: (RestoringTimeline | undefined)[] = [];
    for (const [index, timeline] of restoringTimelines(past).entries()) {
      const fromTxid = beginnings[index];
      written.push(
        fromTxid === undefined
          ? undefined
          : await writtenAnew(parts, past, timeline, fromTxid, clean, () => uploads.newId()),
      );
    }
    // The images of a database above 32 GiB may be more than there were: what a manifest or a history has no room for
    // is not written.
    if (written.some((timeline) => (timeline?.refs.length ?? 0) > limits.timelineRefsMax))
      throw new StoreError(
        "unavailable",
        "a timeline has no room for what is written anew before it is packed, or leaves the window",
      );
    parts.world.crashPoint("image-put");
    for (const [index, timeline] of restoringTimelines(past).entries())
      if (written[index] && written[index].refs !== timeline.refs) await requireWhole(parts, past, written[index]);
    return await publish(parts, uploads, past, written);
  });
}

async function writtenAnew(
  parts: CuttingParts,
  past: Past,
  timeline: RestoringTimeline,
  fromTxid: number,
  clean: ReadonlySet<string>,
  newId: () => string,
): Promise<RestoringTimeline> {
  if (isClean(timeline, fromTxid, clean)) return { ...timeline, fromTxid };
  const images = await ensureImages(parts, past, timeline, fromTxid, newId);
  const deltas: SegmentRef[] = [];
  for (const ref of timeline.refs) {
    if (ref.kind !== "delta" || ref.lastTxid <= fromTxid) continue;
    deltas.push(isOfTimeline(ref, fromTxid) || clean.has(ref.id) ? ref : await rewritten(parts, ref, fromTxid, newId));
  }
  return {
    ...timeline,
    fromTxid,
    refs: [...images, ...deltas],
    tail: await tailAbove(timeline.tail, fromTxid, parts.source.press),
  };
}

/**
 * What it replaces is deleted for good: its last state, which takes every group of the timeline, is restored before.
 */
async function requireWhole({ check }: CuttingParts, { manifest }: Past, timeline: RestoringTimeline): Promise<void> {
  const plan = findTimelinePlan(timeline, manifest.lost, timeline.toTxid);
  assert(plan, "a timeline that was written anew restores its end");
  await check(plan);
}

async function ensureImages(
  { putImages, bytesPut }: CuttingParts,
  past: Past,
  { refs }: RestoringTimeline,
  fromTxid: number,
  newId: () => string,
): Promise<readonly SegmentRef[]> {
  const own = refs.filter(({ kind, lastTxid }) => kind === "image" && lastTxid === fromTxid);
  if (own.length > 0) return own;
  const plan = findRestorePlan(past.manifest, past.history, fromTxid);
  if (!plan) throw new StoreError("corrupt", `a timeline that holds transaction id ${fromTxid} cannot restore it`);
  const images = await putImages(plan, newId);
  for (const { bytes } of images) bytesPut(bytes);
  return images;
}

/** The object again, with nothing but what the timeline has of it above its beginning. */
async function rewritten(
  { source, bytesPut }: CuttingParts,
  ref: SegmentRef,
  fromTxid: number,
  newId: () => string,
): Promise<SegmentRef> {
  const { bytes } = await fetchObject(source, ref);
  const kept = await groupsWithin(bytes, { firstTxid: fromTxid + 1, lastTxid: ref.lastTxid }, source.press);
  const made = await putObject(source, { ...kept, kind: "delta", id: newId() });
  bytesPut(made.bytes);
  return made;
}

async function publish(
  { source }: CuttingParts,
  uploads: Uploads,
  past: Past,
  written: readonly (RestoringTimeline | undefined)[],
): Promise<boolean> {
  const timelines = past.history.timelines.flatMap((timeline, index) =>
    written[index] ? [{ ...timeline, fromTxid: written[index].fromTxid, refs: written[index].refs }] : [],
  );
  const own = written.at(-1)!;
  const floorTxid = Math.min(own.fromTxid, ...timelines.map(({ fromTxid }) => fromTxid));
  return changeHistory(source.store, uploads, (now) => {
    if (!grown(past.manifest, now, own)) return undefined;
    return {
      history: { ...past.history, timelines },
      with: (latest) => {
        const next = grown(past.manifest, latest, own);
        return next && { ...next, floorTxid: Math.max(latest.floorTxid, floorTxid) };
      },
    };
  });
}

/**
 * The new timeline with what was shipped since the manifest was `before`. Undefined when more than that has changed, or
 * when groups that are to go have become part of another object or segment than the one they were taken from: then it
 * is begun again.
 */
function grown(
  before: Manifest,
  latest: Manifest,
  { fromTxid, refs, tail }: RestoringTimeline,
): Pick<Manifest, "fromTxid" | "refs" | "tail"> | undefined {
  const added = latest.refs.slice(before.refs.length);
  const sameRefs = before.refs.every(
    ({ id, lastTxid }, at) => latest.refs[at]?.id === id && latest.refs[at].lastTxid === lastTxid,
  );
  if (!sameRefs || latest.history?.id !== before.history?.id || added.some(({ firstTxid }) => firstTxid <= fromTxid))
    return undefined;
  const kept: TailSegment[] = [];
  for (const segment of latest.tail.filter(({ lastTxid }) => lastTxid > fromTxid)) {
    // The one segment that holds both was cut before.
    const cut = segment.firstTxid > fromTxid ? segment : before.tail.includes(segment) ? tail[0] : undefined;
    if (!cut) return undefined;
    kept.push(cut);
  }
  return { fromTxid, refs: [...refs, ...added], tail: kept };
}

async function tailAbove(
  tail: readonly TailSegment[],
  txid: number,
  press: Compression,
): Promise<readonly TailSegment[]> {
  const kept = tail.filter(({ lastTxid }) => lastTxid > txid);
  return Promise.all(
    kept.map(async (segment) =>
      segment.firstTxid > txid
        ? segment
        : groupsWithin(segment.bytes, { firstTxid: txid + 1, lastTxid: segment.lastTxid }, press),
    ),
  );
}
