/**
 * The committed groups of the write-ahead log, each read once, in order, verified.
 *
 * Owns: a descriptor of its own on `<database>-wal` and the place up to which the log has been read. No lock of SQLite's
 * is held on the log, so opening and closing it takes none away.
 *
 * The log (sqlite.org/fileformat2.html, 4.1; all numbers big-endian):
 *
 * | header | bytes | content                                  | frame | bytes | content                            |
 * |--------|-------|------------------------------------------|-------|-------|------------------------------------|
 * | 0      | 4     | magic; its last bit: words big-endian    | 0     | 4     | page number                        |
 * | 4      | 4     | version                                  | 4     | 4     | database pages after a commit, or 0 |
 * | 8      | 4     | page size                                | 8     | 8     | both salts of the header           |
 * | 12     | 12    | sequence number and two salts            | 16    | 8     | running checksum                   |
 * | 24     | 8     | checksum of the 24 bytes before          | 24    | 4096  | the page                           |
 *
 * Always true: what is handed out is what SQLite itself would recover. The log ends at the first frame whose salts or
 * running checksum are wrong, and a frame counts only when a commit frame follows: until then SQLite may write it again
 * in place. The length of the file says nothing, as frames of an older log or of a transaction that was rolled back may
 * stand behind the end. The place moves only when a call succeeds, and only to the end of a commit. A header is held to
 * only once a commit was read behind it: before that SQLite may write another one. SQLite pads no commit here, because
 * the fsync of commits is ours (sqlite/wal).
 *
 * Must not know: what the pages hold, who ships them, when a checkpoint is due.
 */
import { closeSync, fstatSync, openSync, readSync } from "node:fs";
import { assert } from "../base/assert.ts";
import { limits } from "../base/limits.ts";
import { lockPage, pageBytes } from "../format/pages.ts";

export const headerBytes = 32;
const frameHeaderBytes = 24;
export const frameBytes = frameHeaderBytes + pageBytes;
const magicLittle = 0x377f0682;
const magicBig = 0x377f0683;
const walVersion = 3_007_000;
const wordBytes = 4;
const hostIsBigEndian = new Uint8Array(Uint16Array.of(1).buffer)[0] === 0;

/** A page as a commit wrote it, slack and all. */
export interface LoggedPage {
  readonly page: number;
  readonly bytes: Uint8Array;
}

/** What one commit wrote. */
export interface WalCommit {
  /** Database size in pages after the commit. */
  readonly pages: number;
  /** Last image of each page in the commit, by page number ascending; copies that the caller owns. */
  readonly images: readonly LoggedPage[];
  /** Bytes of log that it took. */
  readonly logBytes: number;
}

/** The log is not the one that was read so far: somebody else wrote, cut or restarted it. */
export class WalChanged extends Error {
  override readonly name = "WalChanged";
}

/** A place at the end of a commit, or at the start of a log. */
interface Place {
  /** The log's whole header: its sequence number and salts tell one log from the next. */
  readonly header: Buffer;
  readonly offset: number;
  /** The running checksum up to here. */
  readonly sums: readonly [number, number];
}

/** What the log may be at the next read: the one of the last read, one begun anew, or either. */
type Expected = "same" | "fresh" | "either";

/**
 * Where frames are read to, in whole frames. One for all readers of a thread: no call leaves anything in it, and no two
 * calls run at once. Headers and pages are whole words, so that words and frames stay aligned.
 */
const chunk = Buffer.from(new ArrayBuffer(Math.floor(limits.walChunkBytes / frameBytes) * frameBytes));
const chunkWords = new Int32Array(chunk.buffer);

type AddWords = (words: Int32Array, from: number, to: number, sums: Int32Array) => void;

/** Carries the checksum on over words in the host's order. Written for the optimiser as it is: unrolling gained nothing. */
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

function addWordsOf(header: Buffer): AddWords {
  return (header.readUInt32BE(0) === magicBig) === hostIsBigEndian ? addWords : addSwappedWords;
}

/** The words of a whole header, in the host's order. */
function wordsOf(header: Buffer): Int32Array {
  return new Int32Array(new Uint8Array(header).buffer);
}

/** The place before the first frame; undefined when SQLite would take the log for empty too. */
function startOf(header: Buffer): Place | undefined {
  const magic = header.readUInt32BE(0);
  if (magic !== magicLittle && magic !== magicBig) return undefined;
  const sums = new Int32Array(2);
  addWordsOf(header)(wordsOf(header), 0, 24 / wordBytes, sums);
  if (header.readInt32BE(24) !== sums[0] || header.readInt32BE(28) !== sums[1]) return undefined;
  assert(header.readUInt32BE(4) === walVersion && header.readUInt32BE(8) === pageBytes, "a log of ours has our page size and the one version there is");
  return { header, offset: headerBytes, sums: [sums[0], sums[1]] };
}

/** Steps from a place over valid frames, committed or not, a chunk at a time. */
class FrameWalk {
  readonly #descriptor: number;
  readonly #header: Buffer;
  readonly #addWords: AddWords;
  readonly #sums: Int32Array;
  /** Where in the file the next frame begins. */
  #offset: number;
  /** Where in the chunk it begins, and how much of the chunk is whole frames. */
  #next = 0;
  #loaded = 0;

  constructor(descriptor: number, start: Place) {
    this.#descriptor = descriptor;
    this.#header = start.header;
    this.#addWords = addWordsOf(start.header);
    this.#sums = Int32Array.from(start.sums);
    this.#offset = start.offset;
  }

  /** Goes to the next frame; false at the first that is not whole or not valid, where the walk is over. */
  next(): boolean {
    if (this.#next === this.#loaded) this.#load();
    if (this.#loaded === 0) return false;
    const at = this.#next;
    if (chunk.readUInt32BE(at + 8) !== this.#header.readUInt32BE(16) || chunk.readUInt32BE(at + 12) !== this.#header.readUInt32BE(20)) return false;
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
  get place(): Place {
    return { header: this.#header, offset: this.#offset, sums: [this.#sums[0]!, this.#sums[1]!] };
  }

  /** The frame's image, in the bytes given or in new ones. */
  copyPage(into: Uint8Array = new Uint8Array(pageBytes)): Uint8Array {
    into.set(chunk.subarray(this.#next - pageBytes, this.#next));
    return into;
  }

  #load(): void {
    const bytes = readSync(this.#descriptor, chunk, 0, chunk.length, this.#offset);
    this.#next = 0;
    this.#loaded = bytes - (bytes % frameBytes);
  }
}

export class WalReader {
  readonly #path: string;
  #closed = false;
  #descriptor: number | undefined;
  /** The end of the last commit that was read; undefined before the first one. */
  #place: Place | undefined;
  #expected: Expected = "same";

  constructor(databasePath: string) {
    this.#path = `${databasePath}-wal`;
  }

  /** Where the next read begins: bytes from the start of the log. */
  get offset(): number {
    return this.#expected === "fresh" ? 0 : (this.#place?.offset ?? 0);
  }

  /**
   * The next whole commits, at most `commitsMax`, stopping after the one that reaches `bytesMax` of log; at least one if
   * there is one. Advances. Looks no further than it must: what a rolled-back transaction left costs nothing to a caller
   * who asks for as many commits as there are. Throws WalChanged.
   */
  read(commitsMax: number, bytesMax: number): WalCommit[] {
    assert(commitsMax >= 1, "a read is for at least one commit");
    const commits: WalCommit[] = [];
    let logBytes = 0;
    let end: Place | undefined;
    for (const step of this.#steps(true)) {
      commits.push(step.commit);
      end = step.end;
      logBytes += step.commit.logBytes;
      if (commits.length >= commitsMax || logBytes >= bytesMax) break;
    }
    this.#advance(end);
    return commits;
  }

  /** Goes past `commits` whole commits, verifying them. Throws WalChanged, and goes nowhere, when there are fewer. */
  skip(commits: number): void {
    if (commits === 0) return;
    let left = commits;
    for (const { end } of this.#steps(false)) {
      if (--left > 0) continue;
      return this.#advance(end);
    }
    throw new WalChanged(`the log ends ${left} commits too early`);
  }

  /** How many whole commits lie from here to the end of the log, verified. Advances nothing. Throws WalChanged. */
  count(): number {
    let commits = 0;
    for (const steps = this.#steps(false); !steps.next().done; ) commits++;
    return commits;
  }

  /** The owner has checkpointed and cut the log: the next read expects a fresh one from its start. */
  restarted(): void {
    if (this.#place !== undefined) this.#expected = "fresh";
  }

  /**
   * The owner's checkpoint moved what it could and did not cut the log. When it had moved everything and no reader stands
   * in the way, the next writer begins the log anew over its old frames; otherwise it goes on behind them. Either is right
   * until the next commit was read. Call only with everything in the log read.
   */
  mayRestart(): void {
    if (this.#place !== undefined && this.#expected === "same") this.#expected = "either";
  }

  /** Lets go of the file, for good. */
  close(): void {
    this.#closed = true;
    if (this.#descriptor !== undefined) closeSync(this.#descriptor);
    this.#descriptor = undefined;
  }

  #advance(end: Place | undefined): void {
    if (end === undefined) return;
    this.#place = end;
    this.#expected = "same";
  }

  /**
   * Every whole commit from the place on, each with the place behind it; images only when they are wanted. An open or
   * rolled-back transaction's frames are read and dropped, as no commit frame follows.
   */
  *#steps(withImages: boolean): Generator<{ readonly commit: WalCommit; readonly end: Place }> {
    const start = this.#start();
    if (start === undefined) return;
    const frames = new FrameWalk(this.#descriptor!, start);
    let images = new Map<number, Uint8Array>();
    let from = start.offset;
    while (frames.next()) {
      const { page, pages } = frames;
      if (withImages && page !== lockPage) images.set(page, frames.copyPage(images.get(page)));
      if (pages === 0) continue;
      const end = frames.place;
      // Pages beyond the size were cut off by this very commit.
      const kept = [...images].filter(([number]) => number <= pages).toSorted(([a], [b]) => a - b);
      yield { commit: { pages, images: kept.map(([number, bytes]) => ({ page: number, bytes })), logBytes: end.offset - from }, end };
      images = new Map();
      from = end.offset;
    }
  }

  /** Where the next commit must begin; undefined while there is no log. Throws WalChanged. */
  #start(): Place | undefined {
    const descriptor = this.#open();
    if (descriptor === undefined) return undefined;
    const { size, nlink } = fstatSync(descriptor);
    if (nlink === 0) throw new WalChanged("the log was deleted or replaced");
    const header = Buffer.alloc(headerBytes);
    const whole = readSync(descriptor, header, 0, headerBytes, 0) === headerBytes;
    if (this.#place === undefined || !(whole && header.equals(this.#place.header))) {
      if (this.#place !== undefined && this.#expected === "same") throw new WalChanged("the log was cut or begun anew");
      return whole ? startOf(header) : undefined;
    }
    if (this.#expected === "fresh") throw new WalChanged("the log was not cut");
    if (size < this.#place.offset) throw new WalChanged("the log is shorter than what was read of it");
    return this.#place;
  }

  #open(): number | undefined {
    assert(!this.#closed, "a closed reader reads no more");
    if (this.#descriptor !== undefined) return this.#descriptor;
    try {
      this.#descriptor = openSync(this.#path, "r");
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "ENOENT") throw error;
    }
    return this.#descriptor;
  }
}
