/**
 * The next segment of a branch, made from its log: read, verified, canonical, compressed, hashed.
 *
 * Plain data in, plain data out, so that any thread can do it (engine/segments/threaded-maker).
 *
 * Always true: however large a transaction is, this holds its compressed bytes once, a stretch of 4 MiB, a frame of it,
 * and a few words for each page; the log was the same one from the first byte that was read to the last. Must not know:
 * manifests, object storage, when a segment is due.
 *
 * Why the log may be read beside its writer: what is asked for is committed and synced, and such frames do not change
 * until the WAL checkpoint, which waits until object storage covers all that is committed (engine/database/database:
 * settled). The groups asked for are not covered yet, so there is no WAL checkpoint from the order to the answer. The
 * file of a handle that fails meanwhile may even be removed: the descriptor outlives that, and the answer is dropped.
 */
import { toHex } from "../../base/bytes.ts";
import { StoreError } from "../../base/faults/errors.ts";
import { limits } from "../../base/limits.ts";
import type { TailSegment } from "../../format/history/manifest.ts";
import { makeCanonical, pageBytes } from "../../format/history/pages.ts";
import type { Compression } from "../../format/core/compression.ts";
import type { SegmentRef } from "../../format/history/refs.ts";
import { stretchImages } from "../../format/history/frame-order.ts";
import { encodeFrames, framePages, type GroupIndex } from "../../format/history/segment.ts";
import { decodeStatePage, type DatabaseState } from "../../model/core/database-state.ts";
import { WalReader, type LoggedCommit, type LogPosition } from "../../sqlite/wal/wal-reader.ts";
import type { ImageOrder, MadeImage } from "./image-maker.ts";
import type { Plan } from "../history/timelines.ts";

/** Groups that another segment has already, and their images in a row, a frame at most. */
export interface SegmentStart {
  readonly groups: readonly GroupIndex[];
  /** There may be room behind them, which the next segment alone may fill. */
  readonly images: Uint8Array;
}

/** What a segment is to be made of. */
export interface SegmentOrder {
  readonly databasePath: string;
  readonly from: LogPosition;
  /** How much log there is from there on, about; it may be much more. */
  readonly logBytes: number;
  /** The id that the first group must have; the others follow without a gap. */
  readonly firstTxid: number;
  readonly groupsMax: number;
  /** No group is begun after this much log. */
  readonly logBytesMax: number;
  /** Nothing is made when that turns out to be more than this, as the last group may be of any size. */
  readonly logBytesMost: number;
  /** The page that holds the state row. */
  readonly statePage: number;
  readonly uuid: string;
  readonly branchId: string;
  readonly epoch: number;
  /** The version of the segment; by default the first. */
  readonly version?: number | undefined;
  /** What comes right before, to be taken in if all is one frame then. */
  readonly before: SegmentStart | undefined;
  /** For a manifest's tail: it is not hashed, and what it was made of is wanted, for the next one to take in. */
  readonly isTail: boolean;
}

/** A segment, and what its makers must know of it. */
export interface MadeSegment {
  readonly segment: TailSegment;
  /** Size of the database after it. */
  readonly pages: number;
  /** The last group of each claim that has groups here. */
  readonly writerEpochs: readonly { readonly id: Uint8Array; readonly lastTxid: number }[];
  /** Of the groups that were read now. */
  readonly logBytes: number;
  /** Where the next one begins. */
  readonly end: LogPosition;
  /** SHA-256 of its bytes, unless it is for a tail. */
  readonly sha256: Uint8Array | undefined;
  /** All that it is made of, if it is for a tail and one frame. */
  readonly start: SegmentStart | undefined;
}

/** Which state is to be a file, and where. */
export interface RestoreOrder {
  readonly uuid: string;
  readonly plan: Plan;
  readonly path: string;
}

/** An object of the pool that has the bytes its reference says. */
export interface FetchedObject {
  readonly ref: SegmentRef;
  readonly bytes: Uint8Array;
}

/** Makes segments, and the files that some are made of, on whatever thread. */
export interface SegmentMaker {
  /** From a log. Undefined when it would be larger than asked for. Throws StoreError, or WalChanged. */
  make(order: SegmentOrder): Promise<MadeSegment | undefined>;
  /** From a database file at rest. */
  image(order: ImageOrder): Promise<MadeImage>;
  /**
   * What a database file at rest says of itself; with `check`, once nothing was found wrong with it (sqlite/soundness).
   */
  state(path: string, check: boolean): Promise<DatabaseState>;
  /**
   * Makes the file of a state from the objects that hold it, in their order (engine/segments/restore). Gives its size
   * in pages. Throws StoreError, and what the objects throw.
   */
  restore(order: RestoreOrder, objects: AsyncIterable<FetchedObject>): Promise<number>;
  /** Removes a database file that was made here, with what SQLite leaves beside one. */
  remove(path: string): Promise<void>;
}

/** As SegmentMaker. */
export async function makeSegment(order: SegmentOrder, press: Compression): Promise<MadeSegment | undefined> {
  const log = new WalReader(order.databasePath, order.from);
  try {
    const commits = log.survey(
      Math.min(order.groupsMax, limits.segmentGroupsMax),
      order.logBytesMax,
      order.logBytesMost,
    );
    if (commits === "longer") return undefined;
    if (commits.length === 0) throw new StoreError("corrupt", "the log does not hold what was committed");
    return await buildSegment(order, log, commits, press);
  } finally {
    log.close();
  }
}

async function buildSegment(
  order: SegmentOrder,
  log: WalReader,
  commits: readonly LoggedCommit[],
  press: Compression,
): Promise<MadeSegment> {
  const { uuid, branchId, epoch, version, isTail } = order;
  const states = commits.map((commit, at) => readCommitState(order, log, commit, order.firstTxid + at));
  const own = commits.map(({ pages, pageNumbers }, at): GroupIndex => ({
    txid: states[at]!.txid,
    committedAtMs: states[at]!.committedAtMs,
    pages,
    pageNumbers,
  }));
  const before = order.before && fits(order.before, own) ? order.before : undefined;
  const groups = [...(before?.groups ?? []), ...own];
  const given = before?.images ?? new Uint8Array(0);
  const images = new Images(log, commits, given);
  const kept =
    isTail && images.count <= framePages ? images.read(0, roomAfter(given, images.count * pageBytes)) : undefined;
  const stretches = kept ? new Stretches(() => kept, kept.length) : images.inStretches();
  const bytes = await encodeFrames(
    { ...(version !== undefined && { version }), kind: "delta", uuid, branchId, epoch, groups },
    (numbers) => stretches.pick(numbers),
    press,
  );
  log.requireSame();
  const last = groups.at(-1)!;
  return {
    segment: {
      firstTxid: groups[0]!.txid,
      lastTxid: last.txid,
      lastAtMs: last.committedAtMs,
      rawBytes: images.count * pageBytes,
      bytes,
    },
    pages: last.pages,
    writerEpochs: writerEpochsIn(states),
    logBytes: commits.reduce((sum, { logBytes }) => sum + logBytes, 0),
    end: log.position,
    sha256: isTail ? undefined : await press.digest(bytes),
    start: kept && { groups, images: kept },
  };
}

/**
 * Room for this many bytes that begins with the given ones: where they are if there is room behind them, or else with
 * as much again.
 */
function roomAfter({ buffer, byteOffset, length }: Uint8Array, bytes: number): Uint8Array {
  if (length > 0 && byteOffset + bytes <= buffer.byteLength) return new Uint8Array(buffer, byteOffset, bytes);
  return new Uint8Array(Math.min(2 * bytes, framePages * pageBytes)).subarray(0, bytes);
}

/** Gathers images out of the stretch that they lie in, of which one at a time is held. */
class Stretches {
  readonly #read: (first: number) => Uint8Array;
  readonly #frame: Uint8Array;
  #first: number | undefined;
  #images: Uint8Array = new Uint8Array(0);

  /** `read` gives the images from a stretch's first number on; what it gave may be used anew at its next call. */
  constructor(read: (first: number) => Uint8Array, bytes: number) {
    this.#read = read;
    this.#frame = new Uint8Array(Math.min(bytes, framePages * pageBytes));
  }

  /** The images of these numbers, one after the other, until the next call. */
  pick(numbers: Uint32Array): Uint8Array {
    const first = Math.floor(numbers[0]! / stretchImages) * stretchImages;
    if (first !== this.#first) this.#images = this.#read((this.#first = first));
    for (const [at, number] of numbers.entries()) {
      const from = (number - first) * pageBytes;
      this.#frame.set(this.#images.subarray(from, from + pageBytes), at * pageBytes);
    }
    return this.#frame.subarray(0, numbers.length * pageBytes);
  }
}

/** The images of a segment by their numbers: those that were given, then those of the log. */
class Images {
  readonly #log: WalReader;
  readonly #given: Uint8Array;
  readonly #pages: readonly number[];
  readonly #offsets: Float64Array;

  constructor(log: WalReader, commits: readonly LoggedCommit[], given: Uint8Array) {
    this.#log = log;
    this.#given = given;
    this.#pages = commits.flatMap(({ pageNumbers }) => [...pageNumbers]);
    this.#offsets = Float64Array.from(commits.flatMap(({ offsets }) => [...offsets]));
  }

  get count(): number {
    return this.#given.length / pageBytes + this.#pages.length;
  }

  /** All of them, read a stretch at a time. */
  inStretches(): Stretches {
    const bytes = Math.min(this.count, stretchImages) * pageBytes;
    const room = new Uint8Array(bytes);
    const read = (first: number): Uint8Array =>
      this.read(first, room.subarray(0, Math.min(bytes, (this.count - first) * pageBytes)));
    return new Stretches(read, bytes);
  }

  /** Fills `into` with canonical images, from number `first` on. */
  read(first: number, into: Uint8Array): Uint8Array {
    const given = this.#given.subarray(first * pageBytes, first * pageBytes + into.length);
    if (into.buffer !== given.buffer) into.set(given);
    const from = Math.max(0, first - this.#given.length / pageBytes);
    const own = into.subarray(given.length);
    this.#log.readImages(this.#offsets.subarray(from, from + own.length / pageBytes), own);
    for (let at = 0; at < own.length; at += pageBytes)
      makeCanonical(own.subarray(at, at + pageBytes), this.#pages[from + at / pageBytes]!);
    return into;
  }
}

/** The state that the commit says it has made. */
function readCommitState(
  { statePage }: SegmentOrder,
  log: WalReader,
  { pageNumbers, offsets }: LoggedCommit,
  txid: number,
): DatabaseState {
  const at = pageNumbers.indexOf(statePage);
  if (at < 0) throw new StoreError("corrupt", "a group in the log lacks its state row");
  const image = new Uint8Array(pageBytes);
  log.readImages(offsets.subarray(at, at + 1), image);
  const state = decodeStatePage(image);
  if (state.txid !== txid || state.writerEpochId === undefined)
    throw new StoreError("corrupt", "a group in the log has an unexpected transaction id");
  return state;
}

function writerEpochsIn(states: readonly DatabaseState[]): MadeSegment["writerEpochs"] {
  const writerEpochs = new Map<string, { readonly id: Uint8Array; readonly lastTxid: number }>();
  for (const { writerEpochId, txid } of states)
    writerEpochs.set(toHex(writerEpochId!), { id: writerEpochId!, lastTxid: txid });
  return [...writerEpochs.values()];
}

/** Whether the groups can be pressed together with what comes before: all in one frame. */
function fits(before: SegmentStart, own: readonly GroupIndex[]): boolean {
  const images = before.images.length / pageBytes + own.reduce((sum, { pageNumbers }) => sum + pageNumbers.length, 0);
  return images <= framePages && before.groups.length + own.length <= limits.segmentGroupsMax;
}
