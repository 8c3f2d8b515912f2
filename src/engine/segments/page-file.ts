/**
 * A database file onto which the pages of a state are laid, whatever holds them.
 *
 * Always true: groups come from the newest to the oldest, so that each page is written once and a page that a smaller
 * database had cut off never comes back; ids between two groups are known to name nothing, or the file is refused. Must
 * not know: objects and how they are fetched, under which name the file appears.
 */
import { ftruncateSync } from "node:fs";
import { writeWhole } from "../../base/disk.ts";
import { StoreError } from "../../base/faults/errors.ts";
import { pageBytes } from "../../format/history/pages.ts";
import { orderFrames } from "../../format/history/frame-order.ts";
import { decodeFrame, framePages, type GroupIndex, type SegmentIndex } from "../../format/history/segment.ts";
import type { Plan } from "../history/timelines.ts";
import type { PageSource, SegmentBytes } from "./pool-objects.ts";

/** What laying pages takes, wherever they come from. */
export type Laying = Omit<PageSource, "store" | "maker">;

/** What was fetched is not what the state is made of. */
export function corrupt(what: string): StoreError {
  return new StoreError("corrupt", what);
}

/** A file onto which a state is laid, newest group first. */
export class PageFile {
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
      const order = orderFrames(index.version, index.groups);
      for (const frame of index.frames.keys()) {
        const pages = order.subarray(frame * framePages, (frame + 1) * framePages).map((number) => wanted[number]!);
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
    // Below the timeline's beginning a rewind or a fork has left gaps of its own.
    const first = Math.max(txid + 1, this.#plan.fromTxid);
    if (!isLost(this.#plan, first, above - 1))
      throw corrupt(`transaction ids ${first} to ${above - 1} are missing between the objects`);
  }

  /** Gives the file its size, and zeroes what a smaller database had cut off and nothing has written since. */
  finish(): void {
    this.#touched = true;
    ftruncateSync(this.#descriptor, this.#pages * pageBytes);
    const zeroes = new Uint8Array(framePages * pageBytes);
    for (let page = this.#sizeMin + 1; page <= this.#pages;) {
      let end = page;
      while (end <= this.#pages && end - page < framePages && !this.#isGiven(end)) end++;
      if (end > page) this.#writeAt(zeroes.subarray(0, (end - page) * pageBytes), page);
      page = Math.max(end, page + 1);
    }
  }

  /**
   * Which page each image of the segment is, 0 for those that a newer group has replaced or a smaller size has cut off.
   */
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
    for (let from = 0; from < pages.length;) {
      let to = from + 1;
      if (pages[from] !== 0) {
        while (to < pages.length && pages[to] === pages[from]! + to - from) to++;
        this.#writeAt(frame.subarray(from * pageBytes, to * pageBytes), pages[from]!);
      }
      from = to;
    }
  }

  /** Writes whole pages; the first one has this number. */
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
