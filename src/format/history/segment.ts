/**
 * Page data at rest: the pages that consecutive commits changed, or all pages of one state.
 *
 * A segment is an index, sealed (format/core/seal, magic PLSG), and right behind it its frames. An object of the pool
 * is one or more whole segments, one after the other. The index (varints unless said otherwise):
 *
 * | field      | content                                                                                     |
 * |------------|---------------------------------------------------------------------------------------------|
 * | kind       | one byte: 0 image, 1 delta                                                                  |
 * | uuid       | 16 bytes: the database                                                                      |
 * | branchId   | text: the branch that wrote it                                                              |
 * | epoch      | the branch's epoch then                                                                     |
 * | firstTxid  | of the first group; each further group's is one more                                        |
 * | groups     | their number, and for each:                                                                 |
 * |  at        |  commit time, Unix ms                                                                       |
 * |  pages     |  size of the database after it                                                              |
 * |  images    |  their number, and for each its page number as what it is above the one before (0 at first) |
 * | frames     | for each 256 images or rest of them, all groups in a row:                                   |
 * |  length    |  four bytes                                                                                 |
 * |  checksum  |  four bytes: CRC-32 of the compressed bytes                                                 |
 *
 * A frame is the images' bytes under Zstandard. Place n of the segment, from 0, is image `n % framePages` of frame
 * `floor(n / framePages)`; which image stands there follows from the version and the index (`orderFrames`).
 *
 * Always true: page numbers rise within a group, lie within its size and are never the lock page; an image segment has
 * one group. Why checksums per frame: the index proves itself and each frame without a pass over the whole, so a
 * restore can go frame by frame; every other look at an object begins with its SHA-256 from a reference.
 */
import { crc32 } from "node:zlib";
import { assert } from "../../base/faults/assert.ts";
import { StoreError } from "../../base/faults/errors.ts";
import { limits } from "../../base/limits.ts";
import type { ByteReader, ByteWriter } from "../core/binary.ts";
import { readBranchId, writeBranchId } from "../keys/object-keys.ts";
import { lockPage, pageBytes } from "./pages.ts";
import { pressedBytesMax, type Compression } from "../core/compression.ts";
import { orderFrames } from "./frame-order.ts";
import { readKind, writeKind, type SegmentKind } from "./refs.ts";
import { decodeSealedAt, encodeSealed, type SealedFormat } from "../core/seal.ts";
import { formats } from "../core/versions.ts";

/** Page images in one segment, 4 GiB before compression: far above what one transaction may log. */
export const segmentPagesMax = 2 ** 20;
const segmentIndexBytesMax = 8 * 1024 * 1024;

/** A page as a commit left it. */
export interface PageImage {
  /** Page number, from 1. */
  readonly page: number;
  /** `pageBytes` of it, canonical. */
  readonly bytes: Uint8Array;
}

/** What one commit changed, or all there was after it. */
export interface PageGroup {
  readonly txid: number;
  readonly committedAtMs: number;
  /** Size of the database after the commit, in pages. */
  readonly pages: number;
  /** By page number, ascending. */
  readonly images: readonly PageImage[];
}

export interface Segment {
  /** How its images are put in order; by default as in the first version, which every build reads. */
  readonly version?: number;
  readonly kind: SegmentKind;
  readonly uuid: string;
  readonly branchId: string;
  readonly epoch: number;
  /** Consecutive transaction ids; one group if the kind is `image`. */
  readonly groups: readonly PageGroup[];
}

/** A group without its bytes. */
export interface GroupIndex {
  readonly txid: number;
  readonly committedAtMs: number;
  readonly pages: number;
  /** Which pages it has images of, ascending. */
  readonly pageNumbers: Uint32Array;
}

/** A compressed stretch of images. */
interface FrameIndex {
  /** Where it begins, from the start of the object. */
  readonly offset: number;
  readonly bytes: number;
  /** How many images it holds. */
  readonly rawPages: number;
  readonly crc32: number;
}

/** All that a segment says before its frames. */
export interface SegmentIndex {
  readonly version: number;
  readonly kind: SegmentKind;
  readonly uuid: string;
  readonly branchId: string;
  readonly epoch: number;
  readonly groups: readonly GroupIndex[];
  readonly frames: readonly FrameIndex[];
  /** Where the segment begins in its object. */
  readonly offset: number;
  /** Length of the segment. */
  readonly bytes: number;
}

/** Images in a frame: 1 MiB before compression, so that one frame never costs much memory. */
export const framePages = 256;

const firstVersion = 1;
const format: SealedFormat = { versions: formats.segment, magic: "PLSG", bytesMax: segmentIndexBytesMax };

/** A segment before it has frames. */
export type SegmentHeader = Omit<Segment, "groups"> & { readonly groups: readonly GroupIndex[] };

/** The whole segment as bytes. Holds one frame at a time before compression. */
export async function encodeSegment(segment: Segment, press: Compression): Promise<Uint8Array> {
  const images = segment.groups.flatMap((group) => group.images);
  const groups = segment.groups.map(({ images: own, ...group }) => ({
    ...group,
    pageNumbers: Uint32Array.from(own, ({ page }) => page),
  }));
  return encodeFrames({ ...segment, groups }, (numbers) => joined(Array.from(numbers, (at) => images[at]!)), press);
}

/**
 * The same for a caller that has the images elsewhere: `rawFrame` gives, one after the other, the bytes of the images
 * of these numbers, which lie within one stretch (format/history/frame-order); what it gave may be used anew at its
 * next call. Stretches come in turn. Holds one frame and the compressed bytes, once or in half of the images' room.
 */
export async function encodeFrames(
  header: SegmentHeader,
  rawFrame: (numbers: Uint32Array) => Uint8Array,
  press: Compression,
): Promise<Uint8Array> {
  checkHeader(header);
  const { version = firstVersion } = header;
  const order = orderFrames(version, header.groups);
  const frames = Array.from({ length: Math.ceil(order.length / framePages) }, (_, number) => ({
    rawPages: Math.min(framePages, order.length - number * framePages),
    bytes: 0,
    crc32: 0,
  }));
  const encodeIndex = (): Uint8Array => encodeSealed(format, (writer) => writeIndex(writer, header, frames), version);
  const compressFrame = async (number: number): Promise<Uint8Array> => {
    const frame = frames[number]!;
    const raw = rawFrame(order.subarray(number * framePages, number * framePages + frame.rawPages));
    assert(raw.length === frame.rawPages * pageBytes, "a frame is whole page images");
    const pressed = await press.compress(raw);
    frame.bytes = pressed.length;
    frame.crc32 = crc32(pressed);
    return pressed;
  };
  if (frames.length <= 1) {
    const pressed = frames.length === 1 ? [await compressFrame(0)] : [];
    return new Uint8Array(Buffer.concat([encodeIndex(), ...pressed]));
  }
  // As long as it will be: the lengths and checksums of frames have a fixed width.
  let end = encodeIndex().length;
  // Memory that is never written is never taken.
  const segment = new Uint8Array(
    end + frames.reduce((sum, { rawPages }) => sum + pressedBytesMax(rawPages * pageBytes), 0),
  );
  for (const number of frames.keys()) {
    const pressed = await compressFrame(number);
    segment.set(pressed, end);
    end += pressed.length;
  }
  segment.set(encodeIndex());
  // What was pressed well is copied, and its room freed: the collector counts all of it, and runs the more often.
  return 2 * end < segment.length ? segment.slice(0, end) : segment.subarray(0, end);
}

function checkHeader({ kind, groups }: SegmentHeader): void {
  assert(groups.length >= 1 && (kind === "delta" || groups.length === 1), "an image is of one state");
  let images = 0;
  for (const [index, { txid, pages, pageNumbers }] of groups.entries()) {
    assert(txid === groups[0]!.txid + index, "the groups of a segment follow each other");
    assert(pages <= limits.databasePagesMax, "a database has fewer than 2^25 pages");
    let last = 0;
    for (const page of pageNumbers) {
      assert(page > last && page <= pages && page !== lockPage, "page numbers rise, within the database");
      last = page;
    }
    images += pageNumbers.length;
  }
  assert(images <= segmentPagesMax, "a segment has a bounded number of images");
}

function joined(images: readonly PageImage[]): Uint8Array {
  const raw = new Uint8Array(images.length * pageBytes);
  for (const [index, { bytes }] of images.entries()) {
    assert(bytes.length === pageBytes, "a page image is one whole page");
    raw.set(bytes, index * pageBytes);
  }
  return raw;
}

function writeIndex(
  writer: ByteWriter,
  segment: SegmentHeader,
  frames: readonly { readonly bytes: number; readonly crc32: number }[],
): void {
  writeKind(writer, segment.kind);
  writer.uuid(segment.uuid);
  writeBranchId(writer, segment.branchId);
  writer.varint(segment.epoch);
  writer.varint(segment.groups[0]!.txid);
  writer.list(segment.groups, limits.segmentGroupsMax, (group) => {
    writer.varint(group.committedAtMs);
    writer.varint(group.pages);
    let last = 0;
    writer.list(group.pageNumbers, segmentPagesMax, (page) => {
      writer.varint(page - last);
      last = page;
    });
  });
  for (const frame of frames) {
    writer.u32(frame.bytes);
    writer.u32(frame.crc32);
  }
}

/**
 * Every segment of an object, whose SHA-256 the caller has verified. The images are views of their frames. Throws
 * StoreError("corrupt").
 */
export async function decodeSegments(object: Uint8Array, press: Compression): Promise<Segment[]> {
  const segments: Segment[] = [];
  for (const index of readSegmentIndexes(object)) {
    const frames: Uint8Array[] = [];
    for (const number of index.frames.keys()) frames.push(await decodeFrame(object, index, number, press));
    const order = orderFrames(index.version, index.groups);
    const places = new Uint32Array(order.length);
    for (const [place, number] of order.entries()) places[number] = place;
    let next = 0;
    const takeImage = (page: number): PageImage => {
      const place = places[next++]!;
      const start = (place % framePages) * pageBytes;
      return { page, bytes: frames[Math.floor(place / framePages)]!.subarray(start, start + pageBytes) };
    };
    const { version, kind, uuid, branchId, epoch } = index;
    const groups = index.groups.map(({ pageNumbers, ...group }) => ({
      ...group,
      images: Array.from(pageNumbers, takeImage),
    }));
    segments.push({ ...(version > firstVersion && { version }), kind, uuid, branchId, epoch, groups });
  }
  return segments;
}

/** What an object's segments say before their frames; decompresses nothing. Throws StoreError("corrupt"). */
export function readSegmentIndexes(object: Uint8Array): SegmentIndex[] {
  const indexes: SegmentIndex[] = [];
  let at = 0;
  do {
    const { content, end } = decodeSealedAt(format, object, at, readIndex);
    let offset = end;
    const frames = content.frames.map((frame) => {
      const placed = { offset, ...frame };
      offset += frame.bytes;
      return placed;
    });
    if (offset > object.length) throw new StoreError("corrupt", "a segment cannot be read: it ends too early");
    indexes.push({ ...content, frames, offset: at, bytes: offset - at });
    at = offset;
  } while (at < object.length);
  return indexes;
}

function readIndex(
  reader: ByteReader,
  version: number,
): Omit<SegmentIndex, "frames" | "offset" | "bytes"> & { readonly frames: readonly Omit<FrameIndex, "offset">[] } {
  const kind = readKind(reader);
  const uuid = reader.uuid();
  const branchId = readBranchId(reader);
  const epoch = reader.varint();
  let txid = reader.varint();
  const groups = reader.list(limits.segmentGroupsMax, () => readGroup(reader, txid++));
  reader.require(groups.length >= 1 && (kind === "delta" || groups.length === 1), "it has the wrong number of groups");
  reader.require(Number.isSafeInteger(txid), "a transaction id is larger than 2^53 - 1");
  let images = groups.reduce((sum, group) => sum + group.pageNumbers.length, 0);
  reader.require(images <= segmentPagesMax, "it has too many images");
  const frames: Omit<FrameIndex, "offset">[] = [];
  for (; images > 0; images -= framePages)
    frames.push({ rawPages: Math.min(images, framePages), bytes: reader.u32(), crc32: reader.u32() });
  return { version, kind, uuid, branchId, epoch, groups, frames };
}

function readGroup(reader: ByteReader, txid: number): GroupIndex {
  const committedAtMs = reader.varint();
  const pages = reader.varint();
  reader.require(pages <= limits.databasePagesMax, "a database is too large");
  let last = 0;
  const pageNumbers = reader.list(segmentPagesMax, () => {
    const page = last + reader.varint();
    reader.require(
      page > last && page <= pages && page !== lockPage,
      "a page number does not rise, or lies outside the database",
    );
    last = page;
    return page;
  });
  return { txid, committedAtMs, pages, pageNumbers: Uint32Array.from(pageNumbers) };
}

/** The images of one frame, one after the other. Throws StoreError("corrupt"). */
export async function decodeFrame(
  object: Uint8Array,
  index: SegmentIndex,
  frameNumber: number,
  press: Compression,
): Promise<Uint8Array> {
  const frame = index.frames[frameNumber];
  assert(frame !== undefined, "a segment has the frame that is asked for");
  const pressed = object.subarray(frame.offset, frame.offset + frame.bytes);
  if (crc32(pressed) !== frame.crc32) throw new StoreError("corrupt", "a segment's frame has a wrong checksum");
  return press.decompress(pressed, frame.rawPages * pageBytes);
}
