/**
 * The committed groups of the write-ahead log, each read once, in order, verified.
 *
 * Owns: a descriptor of its own on `<database>-wal` and the place up to which the log has been read. No lock of
 * SQLite's is held on the log, so opening and closing it takes none away.
 *
 * Always true: what is handed out is what SQLite itself would recover. The log ends at the first frame whose salts or
 * running checksum are wrong, and a frame counts only when a commit frame follows: until then SQLite may write it again
 * in place. The length of the file says nothing, as frames of an older log or of a transaction that was rolled back may
 * lie behind the end (sqlite/wal/wal-frames). The place moves only when a call succeeds, and only to the end of a
 * commit. A header is held to only once a commit was read behind it: before that SQLite may write another one. SQLite
 * pads no commit here, because the fsync of commits is ours (sqlite/wal/wal).
 *
 * Any thread may read: committed frames never change until the WAL is checkpointed and written over, which only its
 * owner does, and only when it is not needed any more (engine/shipping/shipper). What the owner appends meanwhile lies
 * behind the commits that are asked for, or does not verify yet. No lock of SQLite's is on the log, so that a
 * descriptor more or less is free.
 *
 * Must not know: what the pages hold, who ships them, when a WAL checkpoint is due.
 */
import { closeSync, fstatSync, openSync, readSync } from "node:fs";
import { assert } from "../../base/faults/assert.ts";
import { lockPage, pageBytes } from "../../format/history/pages.ts";
import {
  frameBytes,
  FrameWalk,
  headerBytes,
  pagesReadMax,
  readLogStart,
  readPages,
  type LogPlace,
} from "./wal-frames.ts";

/** A page as a commit wrote it, slack and all. */
interface LoggedPage {
  readonly page: number;
  readonly bytes: Uint8Array;
}

/** Where in the log a commit's pages are. */
export interface LoggedCommit {
  /** Database size in pages after the commit. */
  readonly pages: number;
  /** The pages it wrote, ascending. */
  readonly pageNumbers: Uint32Array;
  /** For each of them where its last image begins, from the start of the log. */
  readonly offsets: Float64Array;
  /** Bytes of log that it took. */
  readonly logBytes: number;
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

/** The log is not the one that was read so far: another writer wrote, cut or restarted it. */
export class WalChanged extends Error {
  override readonly name = "WalChanged";
}

/** What the log may be at the next read: the one of the last read, one begun anew, or either. */
type Expected = "same" | "fresh" | "either";

/** A reader's place, as plain data: another one, in whatever thread, can go on from there. */
export interface LogPosition {
  /** The end of the last commit that was read; undefined before the first one. */
  readonly place: LogPlace | undefined;
  readonly expected: Expected;
}

/** A commit, and the place behind it. */
interface Step {
  readonly commit: LoggedCommit;
  readonly end: LogPlace;
}

/** Reads the log of one database from its place on. */
export class WalReader {
  readonly #path: string;
  #closed = false;
  #descriptor: number | undefined;
  #place: LogPlace | undefined;
  #expected: Expected = "same";

  constructor(databasePath: string, from?: LogPosition) {
    this.#path = `${databasePath}-wal`;
    if (from) this.moveTo(from);
  }

  /** The place of this one. */
  get position(): LogPosition {
    return { place: this.#place, expected: this.#expected };
  }

  /** Goes to the place of another reader of the same log, or to an earlier one of its own. */
  moveTo({ place, expected }: LogPosition): void {
    this.#place = place;
    this.#expected = expected;
  }

  /** Where the next read begins: bytes from the start of the log. */
  get offset(): number {
    return this.#expected === "fresh" ? 0 : (this.#place?.offset ?? 0);
  }

  /**
   * The next whole commits, at most `commitsMax`, stopping after the one that reaches `bytesMax` of log; at least one
   * if there is one. Advances. Looks no further than it must: what a rolled-back transaction left costs nothing to a
   * caller who asks for as many commits as there are. `longer`: what is asked for has more than `walkMax` bytes of log,
   * and nothing was advanced. Holds a few words for each page, whatever the commits' size. Throws WalChanged.
   */
  survey(commitsMax: number, bytesMax: number, walkMax = Infinity): LoggedCommit[] | "longer" {
    assert(commitsMax >= 1, "a read is for at least one commit");
    const commits: LoggedCommit[] = [];
    let logBytes = 0;
    let end: LogPlace | undefined;
    for (const step of this.#steps(true, walkMax)) {
      if (step === "longer") return step;
      commits.push(step.commit);
      end = step.end;
      logBytes += step.commit.logBytes;
      if (commits.length >= commitsMax || logBytes >= bytesMax) break;
    }
    this.#advance(end);
    return commits;
  }

  /**
   * Reads the images at offsets that `survey` gave, one after the other. As committed frames do not change, they are
   * the ones that were verified then. A commit's frames lie side by side as a rule: a read for each page would take as
   * long as all else that is done with it.
   */
  readImages(offsets: Float64Array, into: Uint8Array): void {
    const descriptor = this.#open();
    for (let at = 0; at < offsets.length;) {
      let end = at + 1;
      while (end < offsets.length && end - at < pagesReadMax && offsets[end] === offsets[end - 1]! + frameBytes) end++;
      const room = into.subarray(at * pageBytes, end * pageBytes);
      if (descriptor === undefined || !readPages(descriptor, offsets[at]!, end - at, room))
        throw new WalChanged("the log is shorter than what was read of it");
      at = end;
    }
  }

  /** Throws WalChanged unless the log is still the one that was read: what is read of it afterwards was its own. */
  requireSame(): void {
    this.#start();
  }

  /** The same as `survey`, with the images. */
  read(commitsMax: number, bytesMax: number): WalCommit[] {
    const commits = this.survey(commitsMax, bytesMax);
    assert(commits !== "longer", "without a bound nothing is beyond it");
    return commits.map(({ pages, pageNumbers, offsets, logBytes }) => {
      const room = new Uint8Array(pageNumbers.length * pageBytes);
      this.readImages(offsets, room);
      const images = Array.from(pageNumbers, (page, at): LoggedPage => ({
        page,
        bytes: room.subarray(at * pageBytes, (at + 1) * pageBytes),
      }));
      return { pages, images, logBytes };
    });
  }

  /** Goes past `commits` whole commits, verifying them. Throws WalChanged, and goes nowhere, when there are fewer. */
  skip(commits: number): void {
    if (commits === 0) return;
    let left = commits;
    for (const step of this.#steps(false)) {
      if (step === "longer" || --left > 0) continue;
      return this.#advance(step.end);
    }
    throw new WalChanged(`the log ends ${left} commits too early`);
  }

  /** How many whole commits lie from here to the end of the log, verified. Advances nothing. Throws WalChanged. */
  count(): number {
    let commits = 0;
    for (const steps = this.#steps(false); !steps.next().done;) commits++;
    return commits;
  }

  /** The owner has checkpointed and cut the log: the next read expects a fresh one from its start. */
  restarted(): void {
    if (this.#place !== undefined) this.#expected = "fresh";
  }

  /**
   * The owner's checkpoint moved what it could and did not cut the log. When it had moved everything and no reader is
   * in the way, the next writer begins the log anew over its old frames; otherwise it goes on behind them. Either is
   * right until the next commit was read. Call only with everything in the log read.
   */
  mayRestart(): void {
    if (this.#place !== undefined && this.#expected === "same") this.#expected = "either";
  }

  /** Releases the file, for good. */
  close(): void {
    this.#closed = true;
    if (this.#descriptor !== undefined) closeSync(this.#descriptor);
    this.#descriptor = undefined;
  }

  #advance(end: LogPlace | undefined): void {
    if (end === undefined) return;
    this.#place = end;
    this.#expected = "same";
  }

  /**
   * Every whole commit from the place on, each with the place behind it; its pages only when they are wanted. An open
   * or rolled-back transaction's frames are read and dropped, as no commit frame follows. `longer`, and nothing after
   * it, when the walk goes over more than `walkMax` bytes.
   */
  *#steps(withPages: boolean, walkMax = Infinity): Generator<Step | "longer"> {
    const start = this.#start();
    if (start === undefined) return;
    const frames = new FrameWalk(this.#descriptor!, start);
    let offsets = new Map<number, number>();
    let from = start.offset;
    while (frames.next()) {
      const { page, pages } = frames;
      if (frames.imageOffset + pageBytes - start.offset > walkMax) return yield "longer";
      if (withPages && page !== lockPage) offsets.set(page, frames.imageOffset);
      if (pages === 0) continue;
      const end = frames.place;
      // Pages beyond the size were cut off by this very commit.
      const pageNumbers = Uint32Array.from(offsets.keys())
        .filter((number) => number <= pages)
        .sort();
      yield {
        commit: {
          pages,
          pageNumbers,
          offsets: Float64Array.from(pageNumbers, (number) => offsets.get(number)!),
          logBytes: end.offset - from,
        },
        end,
      };
      offsets = new Map();
      from = end.offset;
    }
  }

  /** Where the next commit must begin; undefined while there is no log. Throws WalChanged. */
  #start(): LogPlace | undefined {
    const descriptor = this.#open();
    if (descriptor === undefined) return undefined;
    const { size, nlink } = fstatSync(descriptor);
    if (nlink === 0) throw new WalChanged("the log was deleted or replaced");
    const header = Buffer.alloc(headerBytes);
    const whole = readSync(descriptor, header, 0, headerBytes, 0) === headerBytes;
    if (this.#place === undefined || !(whole && header.equals(this.#place.header))) {
      if (this.#place !== undefined && this.#expected === "same") throw new WalChanged("the log was cut or begun anew");
      return whole ? readLogStart(header) : undefined;
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
