/**
 * Names of page data in object storage, and the timelines they form.
 *
 * A timeline restores every txid from `fromTxid` to its end: the images of the newest image txid not above the wanted
 * one, then every delta group up to it.
 *
 * Always true of a timeline:
 * - images come first and share one txid or come in such sets
 * - deltas follow each other without a gap
 * - `fromTxid` is not below the first image's txid
 *
 * A reference as bytes (varints unless said otherwise):
 *
 * | field     | content                                            |
 * |-----------|----------------------------------------------------|
 * | kind      | one byte: 0 image, 1 delta                         |
 * | id        | text                                               |
 * | firstTxid |                                                    |
 * | lastTxid  | as what it is above firstTxid                      |
 * | cut       | one byte: 1 if the object goes on after lastTxid   |
 * | lastAtMs  |                                                    |
 * | bytes     |                                                    |
 * | rawBytes  |                                                    |
 * | sha256    | 32 bytes                                           |
 */
import { assert } from "../../base/faults/assert.ts";
import { limits } from "../../base/limits.ts";
import type { ByteReader, ByteWriter } from "../core/binary.ts";
import { readPoolId, writePoolId } from "../keys/object-keys.ts";

/**
 * What an object holds: all pages of one state, or the pages that groups changed. The place in the list is the byte at
 * rest.
 */
const segmentKinds = ["image", "delta"] as const;

export type SegmentKind = (typeof segmentKinds)[number];

/** Length of a SHA-256. */
export const sha256Bytes = 32;

/** An object of a database's pool: one or more whole segments, one after the other. */
export interface SegmentRef {
  /** `image`: all pages of one state, or a range of them; `delta`: the pages that consecutive groups changed. */
  readonly kind: SegmentKind;
  /** `<branchId>-<epoch>-<ULID>` of its writer; the object's name in the pool. */
  readonly id: string;
  /** Transaction id of the first group. */
  readonly firstTxid: number;
  /** Transaction id of the last group that counts. */
  readonly lastTxid: number;
  /** Whether the object holds later groups, which this timeline must not see: a fork or a rewind stopped here. */
  readonly cut: boolean;
  /** Commit time of the object's last group, Unix ms. */
  readonly lastAtMs: number;
  /** Length of the object. */
  readonly bytes: number;
  /** Page bytes within, before compression. */
  readonly rawBytes: number;
  /** SHA-256 of the object, 32 bytes. */
  readonly sha256: Uint8Array;
}

/** A timeline of the past: closed by a new base image or by a rewind. */
export interface Timeline {
  readonly fromTxid: number;
  readonly toTxid: number;
  /** When it was closed, Unix ms. */
  readonly endedAtMs: number;
  readonly refs: readonly SegmentRef[];
}

/** A named state of a branch. */
export interface NamedCheckpoint {
  readonly name: string;
  readonly txid: number;
  readonly createdAtMs: number;
}

/** The least and the greatest of consecutive transaction ids. */
export interface TxidRange {
  readonly firstTxid: number;
  readonly lastTxid: number;
}

/** Writes a range as its first id and what the last is above it. */
export function writeRange(writer: ByteWriter, { firstTxid, lastTxid }: TxidRange): void {
  assert(lastTxid >= firstTxid, "a range of transaction ids is not empty");
  writer.varint(firstTxid);
  writer.varint(lastTxid - firstTxid);
}

export function readRange(reader: ByteReader): TxidRange {
  const firstTxid = reader.varint();
  const lastTxid = firstTxid + reader.varint();
  reader.require(Number.isSafeInteger(lastTxid), "a transaction id is larger than 2^53 - 1");
  return { firstTxid, lastTxid };
}

/** The one byte of a kind. */
export function writeKind(writer: ByteWriter, kind: SegmentKind): void {
  writer.u8(segmentKinds.indexOf(kind));
}

export function readKind(reader: ByteReader): SegmentKind {
  return segmentKinds[reader.u8()] ?? reader.fail("page data is neither an image nor a delta");
}

/** The references of one timeline. */
export function writeRefs(writer: ByteWriter, refs: readonly SegmentRef[]): void {
  writer.list(refs, limits.timelineRefsMax, (ref) => {
    writeKind(writer, ref.kind);
    writePoolId(writer, ref.id);
    writeRange(writer, ref);
    writer.flag(ref.cut);
    writer.varint(ref.lastAtMs);
    writer.varint(ref.bytes);
    writer.varint(ref.rawBytes);
    writer.fixed(ref.sha256, sha256Bytes);
  });
}

export function readRefs(reader: ByteReader): SegmentRef[] {
  return reader.list(limits.timelineRefsMax, () => ({
    kind: readKind(reader),
    id: readPoolId(reader),
    ...readRange(reader),
    cut: reader.flag(),
    lastAtMs: reader.varint(),
    bytes: reader.varint(),
    rawBytes: reader.varint(),
    sha256: reader.fixed(sha256Bytes),
  }));
}
