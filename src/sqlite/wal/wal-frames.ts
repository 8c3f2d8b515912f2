/**
 * The write-ahead log as bytes: its header, its frames, and a walk over those that are valid.
 *
 * The log (sqlite.org/fileformat2.html, 4.1; all numbers big-endian):
 *
 * | header | bytes | content                               | frame | bytes | content                             |
 * |--------|-------|---------------------------------------|-------|-------|-------------------------------------|
 * | 0      | 4     | magic; its last bit: words big-endian | 0     | 4     | page number                         |
 * | 4      | 4     | version                               | 4     | 4     | database pages after a commit, or 0 |
 * | 8      | 4     | page size                             | 8     | 8     | both salts of the header            |
 * | 12     | 12    | sequence number and two salts         | 16    | 8     | running checksum                    |
 * | 24     | 8     | checksum of the 24 bytes before       | 24    | 4096  | the page                            |
 *
 * Always true: the walk ends at the first frame that is not whole, or whose salts or running checksum are wrong. Any
 * thread may walk: frames are read, and nothing is written. Must not know: which frames are committed, and whose turn
 * it is to write.
 */
import { readSync } from "node:fs";
import { assert } from "../../base/faults/assert.ts";
import { limits } from "../../base/limits.ts";
import { pageBytes } from "../../format/history/pages.ts";

/** Bytes of the header of a log. */
export const headerBytes = 32;
const frameHeaderBytes = 24;
/** Bytes of a frame, its header and its page. */
export const frameBytes = frameHeaderBytes + pageBytes;
const magicLittle = 0x377f0682;
const magicBig = 0x377f0683;
const walVersion = 3_007_000;
const wordBytes = 4;
const firstLoadFrames = 16;
const hostIsBigEndian = new Uint8Array(Uint16Array.of(1).buffer)[0] === 0;

/** A place at the end of a commit, or at the start of a log. */
export interface LogPlace {
  /** The log's whole header: its sequence number and salts tell one log from the next. */
  readonly header: Uint8Array;
  readonly offset: number;
  /** The running checksum up to here. */
  readonly sums: readonly [number, number];
}

/**
 * Where frames are read to, in whole frames. One for all readers of a thread: no call leaves anything in it, and no two
 * calls run at once. Headers and pages are whole words, so that words and frames stay aligned.
 */
const chunk = Buffer.from(new ArrayBuffer(Math.floor(limits.walChunkBytes / frameBytes) * frameBytes));
const chunkWords = new Int32Array(chunk.buffer);

/** Adjacent frames that `readPages` reads at once. */
export const pagesReadMax = chunk.length / frameBytes;

/**
 * Reads the pages of `count` adjacent frames, the first page beginning at `offset`, one after the other into `into`;
 * false when the log ends before. One read for all of them, at most `pagesReadMax`.
 */
export function readPages(descriptor: number, offset: number, count: number, into: Uint8Array): boolean {
  const bytes = count * frameBytes - frameHeaderBytes;
  if (readSync(descriptor, chunk, 0, bytes, offset) !== bytes) return false;
  for (let at = 0; at < count; at++)
    into.set(chunk.subarray(at * frameBytes, at * frameBytes + pageBytes), at * pageBytes);
  return true;
}

type AddWords = (words: Int32Array, from: number, to: number, sums: Int32Array) => void;

/**
 * Carries the checksum on over words in the host's order. Written for the optimiser as it is: unrolling gained nothing.
 */
const addWords: AddWords = (words, from, to, sums) => {
  let first = sums[0]!;
  let second = sums[1]!;
  for (let at = from; at < to; at += 2) {
    first = (first + words[at]! + second) | 0;
    second = (second + words[at + 1]! + first) | 0;
  }
  sums[0] = first;
  sums[1] = second;
};

function swapped(word: number): number {
  return (word << 24) | ((word & 0xff00) << 8) | ((word >>> 8) & 0xff00) | (word >>> 24);
}

/** The same over words in the other order: a log that a machine of the other kind began. */
const addSwappedWords: AddWords = (words, from, to, sums) => {
  let first = sums[0]!;
  let second = sums[1]!;
  for (let at = from; at < to; at += 2) {
    first = (first + swapped(words[at]!) + second) | 0;
    second = (second + swapped(words[at + 1]!) + first) | 0;
  }
  sums[0] = first;
  sums[1] = second;
};

function toBuffer({ buffer, byteOffset, length }: Uint8Array): Buffer {
  return Buffer.from(buffer, byteOffset, length);
}

function pickAddWords(header: Uint8Array): AddWords {
  return (toBuffer(header).readUInt32BE(0) === magicBig) === hostIsBigEndian ? addWords : addSwappedWords;
}

/** The words of a whole header, in the host's order. */
function toWords(header: Uint8Array): Int32Array {
  return new Int32Array(new Uint8Array(header).buffer);
}

/** The place before the first frame; undefined when SQLite would take the log for empty too. */
export function readLogStart(header: Buffer): LogPlace | undefined {
  const magic = header.readUInt32BE(0);
  if (magic !== magicLittle && magic !== magicBig) return undefined;
  const sums = new Int32Array(2);
  pickAddWords(header)(toWords(header), 0, 24 / wordBytes, sums);
  if (header.readInt32BE(24) !== sums[0] || header.readInt32BE(28) !== sums[1]) return undefined;
  assert(
    header.readUInt32BE(4) === walVersion && header.readUInt32BE(8) === pageBytes,
    "a log of ours has our page size and the one version there is",
  );
  return { header, offset: headerBytes, sums: [sums[0], sums[1]] };
}

/** Steps from a place over valid frames, committed or not, a chunk at a time. */
export class FrameWalk {
  readonly #descriptor: number;
  readonly #header: Uint8Array;
  readonly #salts: readonly [number, number];
  readonly #addWords: AddWords;
  readonly #sums: Int32Array;
  /** Where in the file the next frame begins. */
  #offset: number;
  /** Where in the chunk it begins, and how much of the chunk is whole frames. */
  #next = 0;
  #loaded = 0;
  /** How much is read next: little at first, as behind a few small commits there may be a megabyte of old frames. */
  #loadBytes = firstLoadFrames * frameBytes;

  constructor(descriptor: number, start: LogPlace) {
    this.#descriptor = descriptor;
    this.#header = start.header;
    const header = toBuffer(start.header);
    this.#salts = [header.readUInt32BE(16), header.readUInt32BE(20)];
    this.#addWords = pickAddWords(start.header);
    this.#sums = Int32Array.from(start.sums);
    this.#offset = start.offset;
  }

  /** Goes to the next frame; false at the first that is not whole or not valid, where the walk is over. */
  next(): boolean {
    if (this.#next === this.#loaded) this.#load();
    if (this.#loaded === 0) return false;
    const at = this.#next;
    if (chunk.readUInt32BE(at + 8) !== this.#salts[0] || chunk.readUInt32BE(at + 12) !== this.#salts[1]) return false;
    const word = at / wordBytes;
    this.#addWords(chunkWords, word, word + 2, this.#sums);
    this.#addWords(chunkWords, word + frameHeaderBytes / wordBytes, word + frameBytes / wordBytes, this.#sums);
    if (chunk.readInt32BE(at + 16) !== this.#sums[0] || chunk.readInt32BE(at + 20) !== this.#sums[1]) return false;
    this.#next += frameBytes;
    this.#offset += frameBytes;
    return this.page > 0;
  }

  /** The frame's page number. */
  get page(): number {
    return chunk.readUInt32BE(this.#next - frameBytes);
  }

  /** The database's size after the commit that this frame ends; 0 when it ends none. */
  get pages(): number {
    return chunk.readUInt32BE(this.#next - frameBytes + 4);
  }

  /** The place behind the frame. */
  get place(): LogPlace {
    return { header: this.#header, offset: this.#offset, sums: [this.#sums[0]!, this.#sums[1]!] };
  }

  /** Where in the file the frame's image begins. */
  get imageOffset(): number {
    return this.#offset - pageBytes;
  }

  #load(): void {
    const bytes = readSync(this.#descriptor, chunk, 0, this.#loadBytes, this.#offset);
    this.#loadBytes = Math.min(4 * this.#loadBytes, chunk.length);
    this.#next = 0;
    this.#loaded = bytes - (bytes % frameBytes);
  }
}
