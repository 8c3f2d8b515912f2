/**
 * New objects out of what a branch already has: packs of its deltas, and images of a state.
 *
 * Always true: inputs are proven before anything is put, so that rot is never written again as something sound; what is
 * put stands under an id of its own and is referred to by nobody until a head says so. A crash or a failure leaves
 * garbage at most. Must not know: heads, when a pack or an image is due.
 */
import { closeSync, fstatSync, openSync, readSync, rmSync } from "node:fs";
import { assert } from "../base/assert.ts";
import { StoreError } from "../base/errors.ts";
import { limits } from "../base/limits.ts";
import type { TailSegment } from "../format/head.ts";
import { parsePoolId } from "../format/object-keys.ts";
import { lockPage, makeCanonical, pageBytes } from "../format/pages.ts";
import type { SegmentRef } from "../format/refs.ts";
import { encodeSegment, framePages, type PageImage } from "../format/segment.ts";
import { readState, type DatabaseState } from "../model/schema.ts";
import { Connection } from "../sqlite/connection.ts";
import { scratchFile } from "./files.ts";
import { groupsWithin, type Plan } from "./lines.ts";
import { fetchObjects, joined, putObject, type PageSource } from "./pool-objects.ts";
import { materialise } from "./restore.ts";

/**
 * Puts one object that is the given deltas one after the other, without what was cut off them. They come from
 * engine/line-length: packDue. Holds all of them twice, and the pages of the segment that was cut within.
 */
export async function pack(source: PageSource, refs: readonly SegmentRef[], id: string): Promise<SegmentRef> {
  assert(refs.length > 0 && refs.every(({ kind }) => kind === "delta"), "deltas are packed");
  const parts: TailSegment[] = [];
  for await (const { ref, bytes } of fetchObjects(source, refs)) parts.push(ref.cut ? await groupsWithin(bytes, ref, source.press) : { ...ref, bytes });
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
 * or as many as make `imageRefsMax` objects: a line must name them all, and have room for what follows. `idOf` gives the objects' ids. Holds the images of one object and their compressed bytes.
 */
export async function uploadImages(source: PageSource, path: string, point: ImagePoint, branchId: string, idOf: () => string): Promise<UploadedImages> {
  const descriptor = openSync(path, "r");
  try {
    const pages = fstatSync(descriptor).size / pageBytes;
    assert(Number.isInteger(pages) && pages > 0, "a database is whole pages");
    const refs: SegmentRef[] = [];
    const step = imageStep(pages);
    for (let from = 1; from <= pages; from += step) {
      const images = readImages(descriptor, from, Math.min(from + step - 1, pages));
      // Behind the lock page there may be nothing.
      if (images.length === 0) continue;
      const id = idOf();
      const epoch = parsePoolId(id)?.epoch;
      assert(epoch !== undefined, "an id says which epoch it is of");
      const bytes = await encodeSegment({ kind: "image", uuid: source.uuid, branchId, epoch, groups: [{ txid: point.txid, committedAtMs: point.committedAtMs, pages, images }] }, source.press);
      refs.push(await putObject(source, { kind: "image", id, firstTxid: point.txid, lastTxid: point.txid, lastAtMs: point.committedAtMs, rawBytes: images.length * pageBytes, bytes }));
    }
    return { refs, pages };
  } finally {
    closeSync(descriptor);
  }
}

/** Pages in each object of a base image of so many. */
export function imageStep(pages: number): number {
  return Math.max(limits.imageObjectPages, Math.ceil(pages / limits.imageRefsMax));
}

/** The canonical images of the pages from `first` to `last`. */
function readImages(descriptor: number, first: number, last: number): PageImage[] {
  const images: PageImage[] = [];
  for (let from = first; from <= last; from += framePages) {
    const bytes = new Uint8Array((Math.min(from + framePages - 1, last) - from + 1) * pageBytes);
    for (let read = 0; read < bytes.length; ) {
      const count = readSync(descriptor, bytes, read, bytes.length - read, (from - 1) * pageBytes + read);
      if (count === 0) throw new StoreError("corrupt", "a database file ends while it is read");
      read += count;
    }
    for (let at = 0; at < bytes.length; at += pageBytes) {
      const page = from + at / pageBytes;
      const image = bytes.subarray(at, at + pageBytes);
      makeCanonical(image, page);
      if (page !== lockPage) images.push({ page, bytes: image });
    }
  }
  return images;
}

/**
 * Puts new images of the plan's state, which is restored from objects and checked, never taken from a live file.
 * Nothing stays in the scratch directory.
 */
export async function writeImages(source: PageSource, plan: Plan, scratchDirectory: string, branchId: string, idOf: () => string): Promise<UploadedImages> {
  const path = scratchFile(scratchDirectory, `image-${idOf()}.db`);
  try {
    const { pages } = await materialise(source, plan, path);
    const state = stateOfFile(path, pages * pageBytes <= limits.checkedImageBytesMax);
    if (state.txid !== plan.txid) throw new StoreError("corrupt", `the restored state ${plan.txid} says of itself that it is ${state.txid}`);
    return await uploadImages(source, path, { txid: state.txid, committedAtMs: state.committedAtMs }, branchId, idOf);
  } finally {
    // SQLite leaves an empty log beside a file that was only read.
    for (const suffix of ["", "-wal", "-shm"]) rmSync(`${path}${suffix}`, { force: true });
  }
}

/** The state row of a database file; with `check`, once SQLite has found nothing wrong with the file. */
function stateOfFile(path: string, check: boolean): DatabaseState {
  try {
    const connection = new Connection(path, { readonly: true, pageCacheKiB: limits.pageCacheKiB });
    try {
      const found = check ? connection.raw.pragma("quick_check(1)", { simple: true }) : "ok";
      if (found !== "ok") throw new StoreError("corrupt", "SQLite finds the restored state unsound");
      return readState(connection);
    } finally {
      connection.close();
    }
  } catch (error) {
    if (error instanceof StoreError) throw error;
    throw new StoreError("corrupt", "SQLite cannot read the restored state", { cause: error });
  }
}
