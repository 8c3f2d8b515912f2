/**
 * New objects out of what a branch already has: packs of its deltas, and images of a state.
 *
 * Always true: inputs are proven before anything is put, so that rot is never written again as sound; what is put has
 * an id of its own, and nothing refers to it until a manifest does. A crash or a failure leaves garbage at most. Must
 * not know: manifests, when a pack or an image is due.
 */
import { statSync } from "node:fs";
import { assert } from "../../base/faults/assert.ts";
import { StoreError } from "../../base/faults/errors.ts";
import type { TailSegment } from "../../format/history/manifest.ts";
import { parsePoolId } from "../../format/keys/object-keys.ts";
import { lockPage, pageBytes } from "../../format/history/pages.ts";
import type { SegmentRef } from "../../format/history/refs.ts";
import { scratchFile } from "../local/database-files.ts";
import { groupsWithin, type Plan } from "../history/timelines.ts";
import { inlineMaker } from "../segments/inline-maker.ts";
import { fetchObjects, joined, putObject, type PageSource } from "../segments/pool-objects.ts";
import { materialiseBy } from "../segments/restore.ts";
import type { SegmentMaker } from "../segments/segment-maker.ts";

/** Objects of one base image: those of databases above 32 GiB grow instead, up to 256 MiB before compression. */
export const imageRefsMax = 512;
/**
 * Page images in one object of a base image: 64 MiB before compression. More where there would be more than
 * `imageRefsMax` objects.
 */
export const imageObjectPages = 16_384;
/** A new base image of up to this size is checked too, on the thread that makes segments: about 20 ms. */
const checkedImageBytesMax = 8 * 1024 * 1024;

/**
 * Puts one object that is the given deltas one after the other, without what was cut off them.
 * engine/compaction/timeline-length: packDue chooses them. Holds all of them twice, and the pages of the segment that
 * was cut within.
 */
export async function pack(source: PageSource, refs: readonly SegmentRef[], id: string): Promise<SegmentRef> {
  assert(refs.length > 0 && refs.every(({ kind }) => kind === "delta"), "deltas are packed");
  const parts: TailSegment[] = [];
  for await (const { ref, bytes } of fetchObjects(source, refs))
    parts.push(ref.cut ? await groupsWithin(bytes, ref, source.press) : { ...ref, bytes });
  return putObject(source, { ...joined(parts), kind: "delta", id });
}

/** A state, as its images say of it. */
export interface ImagePoint {
  readonly txid: number;
  readonly committedAtMs: number;
}

/** The images of one state, and its size. */
export interface UploadedImages {
  readonly refs: readonly SegmentRef[];
  readonly pages: number;
}

/**
 * Puts the images of a database file that has no log and does not change meanwhile, `imageObjectPages` in each object,
 * or as many as make `imageRefsMax` objects: a timeline must name them all, and have room for what follows. `makeId`
 * gives the objects' ids. Holds the compressed bytes of one object.
 */
export async function uploadImages(
  source: PageSource,
  path: string,
  point: ImagePoint,
  branchId: string,
  makeId: () => string,
): Promise<UploadedImages> {
  const maker = pickMaker(source);
  const pages = statSync(path).size / pageBytes;
  assert(Number.isInteger(pages) && pages > 0, "a database is whole pages");
  const refs: SegmentRef[] = [];
  const step = imageStep(pages);
  for (let from = 1; from <= pages; from += step) {
    const to = Math.min(from + step - 1, pages);
    // Behind the lock page there may be nothing.
    if (from === lockPage && to === lockPage) continue;
    const id = makeId();
    const epoch = parsePoolId(id)?.epoch;
    assert(epoch !== undefined, "an id says which epoch it is of");
    const made = await maker.image({ ...point, path, from, to, pages, uuid: source.uuid, branchId, epoch });
    refs.push(
      await putObject(source, {
        kind: "image",
        id,
        firstTxid: point.txid,
        lastTxid: point.txid,
        lastAtMs: point.committedAtMs,
        ...made,
      }),
    );
  }
  return { refs, pages };
}

/** Pages in each object of a base image of `pages` pages. */
export function imageStep(pages: number): number {
  return Math.max(imageObjectPages, Math.ceil(pages / imageRefsMax));
}

/**
 * Puts new images of the plan's state, which is restored from objects and checked, never taken from a live file.
 * Nothing stays in the scratch directory.
 */
export async function writeImages(
  source: PageSource,
  plan: Plan,
  scratchDirectory: string,
  branchId: string,
  makeId: () => string,
): Promise<UploadedImages> {
  const path = scratchFile(scratchDirectory, `image-${makeId()}.db`);
  const maker = pickMaker(source);
  try {
    const { pages } = await materialiseBy(maker, source, plan, path);
    const state = await maker.state(path, pages * pageBytes <= checkedImageBytesMax);
    if (state.txid !== plan.txid)
      throw new StoreError("corrupt", `the restored state ${plan.txid} says of itself that it is ${state.txid}`);
    return await uploadImages(source, path, { txid: state.txid, committedAtMs: state.committedAtMs }, branchId, makeId);
  } finally {
    // On the thread that made it: to free what a large file has on the disk takes tens of milliseconds.
    await maker.remove(path);
  }
}

/** What makes the segments of a database that come from there. */
function pickMaker({ maker, press, disk }: PageSource): SegmentMaker {
  return maker ?? inlineMaker(press, disk);
}
