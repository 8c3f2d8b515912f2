/**
 * What of a branch's past goes with erased data, and how the rest is written anew so that nothing of it is left.
 *
 * The rule it rests on: data enters a branch by the write that made it, or at the beginning of a line, when a rewind or
 * a fork brings an old state back. Within a line it can only go. So a state without the data has none behind it in its
 * line, once the line is past the point where the data can have been written (`cutTxid`).
 *
 * Always true: a kept line restores every state from its new beginning to its end exactly as before, and none of its
 * objects holds a group of any other state, unless that object is clean anyway. Must not know: coupons, what is erased.
 */
import { assert } from "../../base/faults/assert.ts";
import { StoreError } from "../../base/faults/errors.ts";
import { limits } from "../../base/limits/limits.ts";
import type { World } from "../../base/world.ts";
import type { CatalogBranch } from "../../format/history/catalog.ts";
import type { Ancestor, ErasurePoint } from "../../format/erasure/erasure-coupon.ts";
import type { Manifest, TailSegment } from "../../format/history/manifest.ts";
import type { History } from "../../format/history/history.ts";
import type { Compression } from "../../format/core/compression.ts";
import type { SegmentRef } from "../../format/history/refs.ts";
import type { ManifestWriter } from "../history/manifest-writer.ts";
import { changeHistory } from "../history/histories.ts";
import { groupsWithin, planOf, planOfLine, txidAfter, type Plan } from "../history/lines.ts";
import { fetchObject, putObject, type PageSource } from "../segments/pool-objects.ts";
import { withUploads, type Uploads } from "../history/uploads.ts";

/** A branch's past at one instant. */
export interface Past {
  readonly manifest: Manifest;
  readonly history: History;
}

/** A line that restores states, the manifest's own or one of the past. */
export interface RestoringLine {
  readonly fromTxid: number;
  readonly toTxid: number;
  readonly refs: readonly SegmentRef[];
  /** What the manifest itself holds of its line. */
  readonly tail: readonly TailSegment[];
}

/** The lines of the past in the order of the history, then the manifest's own. */
export function restoringLines({ manifest, history }: Past): readonly RestoringLine[] {
  const past = history.lines.map((line): RestoringLine => ({ ...line, tail: [] }));
  return [...past, { fromTxid: manifest.fromTxid, toTxid: manifest.txid, refs: manifest.refs, tail: manifest.tail }];
}

/**
 * The transaction id of the branch after which the erased data cannot have been written there any more; 0 where it
 * never can have been. That is the erasure itself where it happened, and where the branch that it happened on came from
 * this one, the fork: what was written here later never got there.
 */
export function cutTxid(branches: readonly CatalogBranch[], points: readonly ErasurePoint[], branchId: string): number {
  return points.reduce((most, point) => Math.max(most, boundOf(branches, point, branchId)), 0);
}

function boundOf(branches: readonly CatalogBranch[], point: ErasurePoint, branchId: string): number {
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
    // One that was deleted before the erasure does not say any more where it came from: any branch may be its ancestor.
    if (!branch) return bound;
    if (!branch.parent) return 0;
    bound = branch.parent.forkTxid;
    at = branch.parent.id;
  }
}

/** The branches that this one came from, as far as those that exist tell, nearest first. */
export function ancestorsOf(branches: readonly CatalogBranch[], branchId: string): readonly Ancestor[] {
  const found: Ancestor[] = [];
  const parentOf = (id: string): CatalogBranch["parent"] => branches.find((branch) => branch.id === id)?.parent;
  for (let parent = parentOf(branchId); parent; parent = parentOf(parent.id))
    found.push({ branchId: parent.id, forkTxid: parent.forkTxid });
  return found;
}

/** The line's first state that is not below `txid`, or undefined when it has none. */
export function firstStateFrom(
  manifest: Manifest,
  { fromTxid, toTxid }: RestoringLine,
  txid: number,
): number | undefined {
  const first = Math.max(fromTxid, txidAfter(manifest, txid - 1));
  return first <= toTxid ? first : undefined;
}

/**
 * Where each line of a branch is to begin from now on, in the order of `restoringLines`; undefined for one that goes.
 * The manifest's stays.
 */
export type Beginnings = readonly (number | undefined)[];

/** Ids of the objects that hold nothing but states which the lines keep. */
export function cleanObjects(past: Past, beginnings: Beginnings): string[] {
  return restoringLines(past).flatMap(({ refs }, index) => {
    const fromTxid = beginnings[index];
    return fromTxid === undefined ? [] : refs.filter((ref) => isOfLine(ref, fromTxid)).map(({ id }) => id);
  });
}

function isOfLine({ kind, cut, firstTxid }: SegmentRef, fromTxid: number): boolean {
  return !cut && (kind === "image" ? firstTxid >= fromTxid : firstTxid > fromTxid);
}

/** Whether the branch's lines are as they should be, so that nothing is to be written. */
export function isCut(past: Past, beginnings: Beginnings, clean: ReadonlySet<string>): boolean {
  return restoringLines(past).every(
    (line, index) => beginnings[index] === line.fromTxid && isClean(line, line.fromTxid, clean),
  );
}

/** Whether the line may begin there with the very objects that it has. */
function isClean({ refs, tail }: RestoringLine, fromTxid: number, clean: ReadonlySet<string>): boolean {
  // The beginning is restored from objects: what the tail has of it goes.
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
 * Makes the lines of the branch begin where they should, by one change of its manifest. False when the past changed
 * meanwhile: nothing has happened then, but for objects that nobody refers to. The caller keeps packing and new base
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
    const written: (RestoringLine | undefined)[] = [];
    for (const [index, line] of restoringLines(past).entries()) {
      const fromTxid = beginnings[index];
      written.push(
        fromTxid === undefined
          ? undefined
          : await writtenAnew(parts, past, line, fromTxid, clean, () => uploads.newId()),
      );
    }
    // The images of a database above 32 GiB may be more than there were: what a manifest or a history has no room for
    // is not written.
    if (written.some((line) => (line?.refs.length ?? 0) > limits.lineRefsMax))
      throw new StoreError(
        "unavailable",
        "a line has no room for what is written anew before it is packed, or leaves the window",
      );
    parts.world.crashPoint("image-put");
    for (const [index, line] of restoringLines(past).entries())
      if (written[index] && written[index].refs !== line.refs) await requireWhole(parts, past, written[index]);
    return await publish(parts, uploads, past, written);
  });
}

async function writtenAnew(
  parts: CuttingParts,
  past: Past,
  line: RestoringLine,
  fromTxid: number,
  clean: ReadonlySet<string>,
  newId: () => string,
): Promise<RestoringLine> {
  if (isClean(line, fromTxid, clean)) return { ...line, fromTxid };
  const images = await imagesOf(parts, past, line, fromTxid, newId);
  const deltas: SegmentRef[] = [];
  for (const ref of line.refs) {
    if (ref.kind !== "delta" || ref.lastTxid <= fromTxid) continue;
    deltas.push(isOfLine(ref, fromTxid) || clean.has(ref.id) ? ref : await rewritten(parts, ref, fromTxid, newId));
  }
  return {
    ...line,
    fromTxid,
    refs: [...images, ...deltas],
    tail: await tailAbove(line.tail, fromTxid, parts.source.press),
  };
}

/**
 * What it takes the place of is deleted for good: its last state, which takes every group of the line, is restored
 * before.
 */
async function requireWhole({ check }: CuttingParts, { manifest }: Past, line: RestoringLine): Promise<void> {
  const plan = planOfLine(line, manifest.lost, line.toTxid);
  assert(plan, "a line that was written anew restores its end");
  await check(plan);
}

async function imagesOf(
  { putImages, bytesPut }: CuttingParts,
  past: Past,
  { refs }: RestoringLine,
  fromTxid: number,
  newId: () => string,
): Promise<readonly SegmentRef[]> {
  const own = refs.filter(({ kind, lastTxid }) => kind === "image" && lastTxid === fromTxid);
  if (own.length > 0) return own;
  const plan = planOf(past.manifest, past.history, fromTxid);
  if (!plan) throw new StoreError("corrupt", `a line that holds transaction id ${fromTxid} cannot restore it`);
  const images = await putImages(plan, newId);
  for (const { bytes } of images) bytesPut(bytes);
  return images;
}

/** The object again, with nothing but what the line has of it above its beginning. */
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
  written: readonly (RestoringLine | undefined)[],
): Promise<boolean> {
  const lines = past.history.lines.flatMap((line, index) =>
    written[index] ? [{ ...line, fromTxid: written[index].fromTxid, refs: written[index].refs }] : [],
  );
  const own = written.at(-1)!;
  const floorTxid = Math.min(own.fromTxid, ...lines.map(({ fromTxid }) => fromTxid));
  return changeHistory(source.store, uploads, (now) => {
    if (!grown(past.manifest, now, own)) return undefined;
    return {
      history: { ...past.history, lines },
      with: (latest) => {
        const next = grown(past.manifest, latest, own);
        return next && { ...next, floorTxid: Math.max(latest.floorTxid, floorTxid) };
      },
    };
  });
}

/**
 * The new line with what was shipped since the manifest stood as `before`. Undefined when more than that has changed,
 * or when groups that are to go have become part of another object or segment than the one they were taken from: then
 * it is begun again.
 */
function grown(
  before: Manifest,
  latest: Manifest,
  { fromTxid, refs, tail }: RestoringLine,
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
