/**
 * From objects to a database file, and from an older state of it to a newer one.
 *
 * Groups are laid from the newest to the oldest, so that each page is written once and a page that a smaller database
 * had cut off never comes back. Always true: a file appears under its name whole, proven and synced, or not at all; a
 * file that is being rolled forward has a marker beside it while it is a mixture. What is missing or rotten is a
 * StoreError, never a page that is not the state's. Must not know: SQLite connections, heads, branches.
 *
 * Memory: the objects that are fetched ahead (engine/pool-objects), one frame of 1 MiB and its compressed bytes, one
 * bit per page of the database and four bytes per image of one segment. The thread is held for as long as one SHA-256
 * of an object or one write of a frame takes.
 */
import { closeSync, existsSync, ftruncateSync, openSync, readSync, renameSync, rmSync } from "node:fs";
import { dirname } from "node:path";
import { assert } from "../base/assert.ts";
import { writeWhole } from "../base/disk.ts";
import { StoreError } from "../base/errors.ts";
import { limits } from "../base/limits.ts";
import type { Head } from "../format/head.ts";
import { lockPage, pageBytes } from "../format/pages.ts";
import type { SegmentRef } from "../format/refs.ts";
import { decodeFrame, framePages, type GroupIndex, type SegmentIndex } from "../format/segment.ts";
import type { Plan } from "./lines.ts";
import { fetchObject, fetchObjects, fetchUnread, provenObject, provenTail, type PageSource, type PoolObject, type SegmentBytes } from "./pool-objects.ts";
import type { FetchedObject, SegmentMaker } from "./segment-maker.ts";

/** What laying pages takes, wherever they come from. */
type Laying = Omit<PageSource, "store" | "maker">;

/** How a restore is watched and ended early. */
export interface RestoreOptions {
  readonly signal?: AbortSignal | undefined;
  /** Called after each object. */
  readonly progress?: ((done: { readonly bytes: number; readonly bytesTotal: number }) => void) | undefined;
}

const headerStart = "SQLite format 3\0";
/** Where the database's header says its page size. */
const pageSizeAt = 16;

function corrupt(what: string): StoreError {
  return new StoreError("corrupt", what);
}

/** A file onto which a state is laid, newest group first. */
class PageFile {
  readonly #descriptor: number;
  readonly #path: string;
  readonly #plan: Plan;
  readonly #source: Laying;
  readonly #signal: AbortSignal | undefined;
  /** A bit for each page that a newer group has given. */
  #given = new Uint8Array(0);
  /** The smallest size that the database had from here on: pages above it were cut off later. */
  #sizeMin = 0;
  #pages = 0;
  #oldestTxid: number | undefined;
  #touched = false;

  constructor(descriptor: number, path: string, plan: Plan, source: Laying, signal: AbortSignal | undefined) {
    this.#descriptor = descriptor;
    this.#path = path;
    this.#plan = plan;
    this.#source = source;
    this.#signal = signal;
  }

  /** Size of the state in pages. */
  get pages(): number {
    return this.#pages;
  }

  /** Whether the file may have been changed. */
  get touched(): boolean {
    return this.#touched;
  }

  /** Lays the groups above `aboveTxid` up to `toTxid`, older than all that were laid before. */
  async lay({ bytes, indexes }: SegmentBytes, aboveTxid: number, toTxid: number): Promise<void> {
    for (const index of indexes.toReversed()) {
      const wanted = this.#choose(index, aboveTxid, toTxid);
      for (const frame of index.frames.keys()) {
        const pages = wanted.subarray(frame * framePages, (frame + 1) * framePages);
        if (pages.every((page) => page === 0)) continue;
        this.#signal?.throwIfAborted();
        this.#write(pages, await decodeFrame(bytes, index, frame, this.#source.press));
      }
    }
  }

  /** Proves that no group is missing between the oldest one that was laid and `txid`, the next older one. */
  reachDownTo(txid: number): void {
    const above = this.#oldestTxid;
    if (above === undefined) throw corrupt(`no object holds transaction id ${this.#plan.txid}`);
    if (txid >= above) throw corrupt(`transaction id ${txid} does not come before ${above}`);
    // Below the line's beginning a rewind or a fork has left gaps of its own.
    const first = Math.max(txid + 1, this.#plan.fromTxid);
    if (!isLost(this.#plan, first, above - 1)) throw corrupt(`transaction ids ${first} to ${above - 1} are missing between the objects`);
  }

  /** Gives the file its size, and zeroes what a smaller database had cut off and nothing has written since. */
  finish(): void {
    this.#touched = true;
    ftruncateSync(this.#descriptor, this.#pages * pageBytes);
    const zeroes = new Uint8Array(framePages * pageBytes);
    for (let page = this.#sizeMin + 1; page <= this.#pages; ) {
      let end = page;
      while (end <= this.#pages && end - page < framePages && !this.#isGiven(end)) end++;
      if (end > page) this.#writeAt(zeroes.subarray(0, (end - page) * pageBytes), page);
      page = Math.max(end, page + 1);
    }
  }

  /** Which page each image of the segment is, 0 for those that a newer group has replaced or a smaller size has cut off. */
  #choose(index: SegmentIndex, aboveTxid: number, toTxid: number): Uint32Array {
    let end = index.groups.reduce((sum, { pageNumbers }) => sum + pageNumbers.length, 0);
    const wanted = new Uint32Array(end);
    for (const group of index.groups.toReversed()) {
      end -= group.pageNumbers.length;
      if (group.txid <= aboveTxid || group.txid > toTxid) continue;
      this.#descendTo(group);
      for (const [at, page] of group.pageNumbers.entries()) {
        if (page > this.#sizeMin || this.#isGiven(page)) continue;
        this.#given[page >>> 3]! |= 1 << (page & 7);
        wanted[end + at] = page;
      }
    }
    return wanted;
  }

  #descendTo({ txid, pages }: GroupIndex): void {
    if (this.#oldestTxid === undefined) {
      if (txid !== this.#plan.txid) throw corrupt(`no object holds transaction id ${this.#plan.txid}`);
      this.#pages = pages;
      this.#sizeMin = pages;
      this.#given = new Uint8Array((pages >>> 3) + 1);
    } else if (txid !== this.#oldestTxid) {
      // An image comes in several objects of one id.
      this.reachDownTo(txid);
    }
    this.#oldestTxid = txid;
    this.#sizeMin = Math.min(this.#sizeMin, pages);
  }

  #isGiven(page: number): boolean {
    return (this.#given[page >>> 3]! & (1 << (page & 7))) !== 0;
  }

  /** Writes the wanted pages of a frame, neighbours together. */
  #write(pages: Uint32Array, frame: Uint8Array): void {
    this.#touched = true;
    for (let from = 0; from < pages.length; ) {
      let to = from + 1;
      if (pages[from] !== 0) {
        while (to < pages.length && pages[to] === pages[from]! + to - from) to++;
        this.#writeAt(frame.subarray(from * pageBytes, to * pageBytes), pages[from]!);
      }
      from = to;
    }
  }

  /** Writes whole pages, the first of which has this number. */
  #writeAt(bytes: Uint8Array, page: number): void {
    writeWhole(this.#source.disk, this.#descriptor, this.#path, bytes, (page - 1) * pageBytes);
  }
}

/** Whether all the ids are known to name nothing. */
function isLost({ lost }: Plan, firstTxid: number, lastTxid: number): boolean {
  let at = firstTxid;
  while (at <= lastTxid) {
    const range = lost.find((one) => one.firstTxid <= at && at <= one.lastTxid);
    if (!range) return false;
    at = range.lastTxid + 1;
  }
  return true;
}

/** Proves that the objects of an image, one after the other, hold every page of one state. */
class WholeImage {
  #pages: number | undefined;
  #next = 1;

  add({ ref, indexes }: PoolObject): void {
    for (const { groups } of indexes) {
      const { pages, pageNumbers } = groups[0]!;
      this.#pages ??= pages;
      if (pages !== this.#pages) throw corrupt(`object ${ref.id} is of an image of another size`);
      for (const page of pageNumbers) {
        if (page !== this.#expected()) throw corrupt(`object ${ref.id} does not hold page ${this.#expected()} of its image`);
        this.#next = page + 1;
      }
    }
  }

  end(): void {
    if (this.#pages !== undefined && this.#expected() <= this.#pages) throw corrupt(`no object holds page ${this.#expected()} of an image`);
  }

  #expected(): number {
    return this.#next === lockPage ? lockPage + 1 : this.#next;
  }
}

type Objects = Iterable<PoolObject> | AsyncIterable<PoolObject>;

/** What holds groups above `aboveTxid`, newest first, the images last. */
function refsAbove({ images, deltas }: Plan, aboveTxid: number): readonly SegmentRef[] {
  return [...deltas.toReversed(), ...images].filter(({ lastTxid }) => lastTxid > aboveTxid);
}

function bytesOf(refs: readonly SegmentRef[]): number {
  return refs.reduce((sum, ref) => sum + ref.bytes, 0);
}

/** Lays every group of the plan above `aboveTxid`, newest first, and the images if they are above it. `objects` are those that hold them. */
async function layPlan(file: PageFile, source: Laying, plan: Plan, aboveTxid: number, objects: Objects, { signal, progress }: RestoreOptions): Promise<void> {
  const refs = refsAbove(plan, aboveTxid);
  const deltasAboveTxid = refs.find(({ kind }) => kind === "image")?.lastTxid ?? aboveTxid;
  for (const segment of plan.tail.toReversed()) await file.lay(provenTail(source.uuid, segment), deltasAboveTxid, plan.txid);
  const image = new WholeImage();
  const bytesTotal = bytesOf(refs);
  let bytes = 0;
  for await (const object of objects) {
    signal?.throwIfAborted();
    const { kind, lastTxid } = object.ref;
    if (kind === "image") {
      image.add(object);
      await file.lay(object, aboveTxid, lastTxid);
    } else {
      await file.lay(object, deltasAboveTxid, Math.min(lastTxid, plan.txid));
    }
    bytes += object.bytes.length;
    progress?.({ bytes, bytesTotal });
  }
  image.end();
}

/** Refuses a file that SQLite would not take for a database of our pages. */
function requireDatabase(descriptor: number): void {
  const header = Buffer.alloc(pageSizeAt + 2);
  readSync(descriptor, header, 0, header.length, 0);
  if (header.toString("latin1", 0, pageSizeAt) !== headerStart || header.readUInt16BE(pageSizeAt) !== pageBytes) {
    throw corrupt("the first page of the restored state does not begin a database");
  }
}

/**
 * Writes the plan's state to `path`, a new file, and syncs it. Until it is whole it stands beside it as
 * `<path>.restoring`; after a failure neither is there. Throws StoreError.
 */
export async function materialise(source: PageSource, plan: Plan, path: string, options: RestoreOptions = {}): Promise<{ readonly pages: number }> {
  return restoreFrom(source, plan, path, fetchUnread(source, refsAbove(plan, -1)), options);
}

/** As materialise, by what makes segments: the thread only fetches. */
export async function materialiseBy(maker: SegmentMaker, source: PageSource, plan: Plan, path: string): Promise<{ readonly pages: number }> {
  return { pages: await maker.restore({ uuid: source.uuid, plan, path }, fetchUnread(source, refsAbove(plan, -1))) };
}

/** As materialise, from objects that somebody fetches, in the order in which `materialise` does. */
export async function restoreFrom(source: Laying, plan: Plan, path: string, fetched: AsyncIterable<FetchedObject>, options: RestoreOptions = {}): Promise<{ readonly pages: number }> {
  assert(!existsSync(path), "a restore writes a new file");
  assert(plan.images.length > 0, "every line begins with an image");
  const temporary = `${path}.restoring`;
  const descriptor = openSync(temporary, "w+", 0o600);
  try {
    let pages: number;
    try {
      const file = new PageFile(descriptor, temporary, plan, source, options.signal);
      await layPlan(file, source, plan, -1, proven(source.uuid, fetched), options);
      file.finish();
      requireDatabase(descriptor);
      await source.disk.fdatasync(descriptor, temporary);
      pages = file.pages;
    } finally {
      closeSync(descriptor);
    }
    renameSync(temporary, path);
    await source.disk.syncDirectory(dirname(path));
    return { pages };
  } catch (error) {
    rmSync(temporary, { force: true });
    rmSync(path, { force: true });
    throw error;
  }
}

async function* proven(uuid: string, fetched: AsyncIterable<FetchedObject>): AsyncGenerator<PoolObject> {
  for await (const object of fetched) yield provenObject(uuid, object);
}

function markerOf(path: string): string {
  return `${path}.patching`;
}

/** Whether the file is a mixture of two states: a roll forward began and did not end. Only a new restore mends that. */
export function isPatching(path: string): boolean {
  return existsSync(markerOf(path));
}

/**
 * Brings a closed database file without a log from the state `fromTxid`, which it is proven to have and which lies on
 * the plan's line (`fromTxid` is not below `plan.fromTxid`), to the plan's state, and syncs it. Fetches only what holds
 * newer groups. After a failure the file is as it was, or a mixture: then `isPatching` stays true. Unless there is much
 * to fetch, all of it is there before the file is touched: a store that falls silent then leaves the file whole.
 */
export async function rollForward(source: PageSource, plan: Plan, fromTxid: number, path: string, options: RestoreOptions = {}): Promise<void> {
  assert(fromTxid >= plan.fromTxid && fromTxid <= plan.txid, "a file is rolled forward along its own line");
  assert(!isPatching(path), "a mixture is not rolled forward");
  if (fromTxid === plan.txid) return;
  const refs = refsAbove(plan, fromTxid);
  const objects = bytesOf(refs) <= limits.rollBytesHeldMax ? await allOf(fetchObjects(source, refs)) : fetchObjects(source, refs);
  const marker = markerOf(path);
  const descriptor = openSync(path, "r+");
  const file = new PageFile(descriptor, path, plan, source, options.signal);
  try {
    closeSync(openSync(marker, "w", 0o600));
    await source.disk.syncDirectory(dirname(path));
    await layPlan(file, source, plan, fromTxid, objects, options);
    file.reachDownTo(fromTxid);
    file.finish();
    requireDatabase(descriptor);
    await source.disk.fdatasync(descriptor, path);
    rmSync(marker);
    await source.disk.syncDirectory(dirname(path));
  } catch (error) {
    if (!file.touched) rmSync(marker, { force: true });
    throw error;
  } finally {
    closeSync(descriptor);
  }
}

async function allOf(objects: AsyncIterable<PoolObject>): Promise<readonly PoolObject[]> {
  const all: PoolObject[] = [];
  for await (const object of objects) all.push(object);
  return all;
}

/** Commit time of the plan's state and size of its database, from the head if it is the head's, else from the object that holds it. */
export async function pointOf(source: PageSource, head: Head, plan: Plan): Promise<{ readonly committedAtMs: number; readonly pages: number }> {
  if (plan.txid === head.txid) return { committedAtMs: head.committedAtMs, pages: head.pages };
  const tail = plan.tail.at(-1);
  const newest = plan.deltas.at(-1) ?? plan.images[0];
  assert(newest, "every line begins with an image");
  const { indexes } = tail ? provenTail(source.uuid, tail) : await fetchObject(source, newest);
  const group = indexes.flatMap(({ groups }) => groups).find(({ txid }) => txid === plan.txid);
  if (!group) throw corrupt(`no object holds transaction id ${plan.txid}`);
  return { committedAtMs: group.committedAtMs, pages: group.pages };
}
