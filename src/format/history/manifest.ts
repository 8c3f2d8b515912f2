/**
 * The manifest of a branch: the one object that says what the branch consists of, and since whose claim.
 *
 * Sealed (format/core/seal, magic PLHD). The body (varints unless said otherwise):
 *
 * | field         | content                                                                   |
 * |---------------|---------------------------------------------------------------------------|
 * | uuid          | 16 bytes: the database                                                    |
 * | branchId      | text                                                                      |
 * | epoch, seq    | the writer's claim; number of this manifest, one more than the one before |
 * | nonce         | 16 bytes, random                                                          |
 * | prevHash      | 32 bytes: SHA-256 of the manifest before, zeroes for the first            |
 * | node          | text: who wrote it                                                        |
 * | writer epochs | their number, and for each: epoch, 16 bytes id, firstTxid, txids given    |
 * | lost          | their number, and for each: a range (format/history/refs)                 |
 * | txid, committedAtMs, reservedTo, pages, fromTxid, floorTxid |                             |
 * | refs          | the timeline (format/history/refs)                                        |
 * | tail          | their number, and for each: a range, lastAtMs, rawBytes, bytes            |
 * | history       | one byte: 0 none, 1 one, then: text id, bytes, 32 bytes SHA-256           |
 * | settledUlid   | text: a ULID, or empty while nothing is settled                           |
 *
 * Always true: a manifest is replaced only by compare-and-set by the writer of its branch. The nonce makes each differ
 * from all others, as a store's version may be a hash of the content; prevHash makes the manifests a chain.
 */
import { assert } from "../../base/faults/assert.ts";
import { limits } from "../../base/limits.ts";
import type { ByteReader, ByteWriter } from "../core/binary.ts";
import { isUlid } from "../core/ids.ts";
import { readBranchId, readPoolId, writeBranchId, writePoolId } from "../keys/object-keys.ts";
import { readRange, readRefs, sha256Bytes, writeRange, writeRefs, type SegmentRef, type TxidRange } from "./refs.ts";
import { decodeSealed, encodeSealed, type SealedFormat } from "../core/seal.ts";
import { formats } from "../core/versions.ts";

export type { TxidRange } from "./refs.ts";
export { computeSha256 } from "../core/seal.ts";

export const nodeIdBytesMax = 4 * 1024;
/** Every change of a branch rewrites its manifest. */
export const manifestBytesMax = 256 * 1024;

/** One writer's claim of the branch. */
export interface WriterEpoch {
  readonly epoch: number;
  /** 16 random bytes, also in the database's own state row: which writer epoch wrote a local file. */
  readonly id: Uint8Array;
  readonly firstTxid: number;
  /** `firstTxid - 1` while nothing was written. */
  readonly lastTxid: number;
}

/** Groups that are kept in the manifest itself until they are shipped as an object. */
export interface TailSegment extends TxidRange {
  /** Commit time of the last group, Unix ms. */
  readonly lastAtMs: number;
  /** Page bytes within, before compression. */
  readonly rawBytes: number;
  /** Whole segments. */
  readonly bytes: Uint8Array;
}

/** Which history object belongs to a manifest. */
export interface HistoryRef {
  readonly id: string;
  /** Length of the object. */
  readonly bytes: number;
  /** SHA-256 of the object, 32 bytes. */
  readonly sha256: Uint8Array;
}

export interface Manifest {
  readonly uuid: string;
  readonly branchId: string;
  /** Grows by one with each claim. */
  readonly epoch: number;
  /** Grows by one with each manifest of the branch. */
  readonly seq: number;
  /** 16 random bytes. */
  readonly nonce: Uint8Array;
  /** SHA-256 of the manifest before, 32 bytes; zeroes for the first. */
  readonly prevHash: Uint8Array;
  /** The node that wrote it, as people call it. */
  readonly node: string;
  /** Claims, newest last; the oldest fall off. */
  readonly writerEpochs: readonly WriterEpoch[];
  /**
   * Transaction ids of no state: reserved and never shipped, lost in a failover, or, within a writer epoch, shipped
   * together with those that follow.
   */
  readonly lost: readonly TxidRange[];
  /** Transaction id that the manifest covers. */
  readonly txid: number;
  readonly committedAtMs: number;
  /** The writer may give transaction ids up to here. */
  readonly reservedTo: number;
  /** Size of the database at `txid`, in pages. */
  readonly pages: number;
  /** Least transaction id that the timeline restores. */
  readonly fromTxid: number;
  /** Nothing below may ever be restored: the fork point, or an erasure. */
  readonly floorTxid: number;
  /** The timeline: images first, then deltas in order. */
  readonly refs: readonly SegmentRef[];
  /** What follows the timeline, in order. */
  readonly tail: readonly TailSegment[];
  readonly history: HistoryRef | undefined;
  /**
   * Objects of this branch and epoch that nothing refers to are garbage if their ULID is below this. Empty: none is.
   */
  readonly garbageBelowUlid: string;
}

const format: SealedFormat = { versions: formats.manifest, magic: "PLHD", bytesMax: manifestBytesMax };
const ulidBytesMax = 26;
const nonceBytes = 16;
const writerEpochIdBytes = 16;

/** The manifest as bytes. Its writer has kept every bound. */
export function encodeManifest(manifest: Manifest): Uint8Array {
  assert(manifest.pages <= limits.databasePagesMax, "a database has fewer than 2^25 pages");
  assert(isGarbageMark(manifest.garbageBelowUlid), "the settled mark is a ULID or empty");
  assert(tailBytes(manifest.tail) <= limits.tailBytesMax, "a tail is spilled before it outgrows the manifest");
  return encodeSealed(format, (writer) => {
    writer.uuid(manifest.uuid);
    writeBranchId(writer, manifest.branchId);
    writer.varint(manifest.epoch);
    writer.varint(manifest.seq);
    writer.fixed(manifest.nonce, nonceBytes);
    writer.fixed(manifest.prevHash, sha256Bytes);
    writer.text(manifest.node, nodeIdBytesMax);
    writer.list(manifest.writerEpochs, limits.manifestWriterEpochsMax, (writerEpoch) =>
      encodeWriterEpoch(writer, writerEpoch),
    );
    writer.list(manifest.lost, limits.manifestLostMax, (range) => writeRange(writer, range));
    writer.varint(manifest.txid);
    writer.varint(manifest.committedAtMs);
    writer.varint(manifest.reservedTo);
    writer.varint(manifest.pages);
    writer.varint(manifest.fromTxid);
    writer.varint(manifest.floorTxid);
    writeRefs(writer, manifest.refs);
    writer.list(manifest.tail, limits.tailSegmentsMax, (segment) => writeTailSegment(writer, segment));
    writer.optional(manifest.history, ({ id, bytes, sha256 }) => {
      writePoolId(writer, id);
      writer.varint(bytes);
      writer.fixed(sha256, sha256Bytes);
    });
    writer.text(manifest.garbageBelowUlid, ulidBytesMax);
  });
}

/** The manifest in the bytes. Throws StoreError("corrupt") for anything else: never "an empty branch". */
export function decodeManifest(bytes: Uint8Array): Manifest {
  return decodeSealed(format, bytes, (reader) => {
    const manifest: Manifest = {
      uuid: reader.uuid(),
      branchId: readBranchId(reader),
      epoch: reader.varint(),
      seq: reader.varint(),
      nonce: reader.fixed(nonceBytes),
      prevHash: reader.fixed(sha256Bytes),
      node: reader.text(nodeIdBytesMax),
      writerEpochs: reader.list(limits.manifestWriterEpochsMax, () => decodeWriterEpoch(reader)),
      lost: reader.list(limits.manifestLostMax, () => readRange(reader)),
      txid: reader.varint(),
      committedAtMs: reader.varint(),
      reservedTo: reader.varint(),
      pages: reader.varint(),
      fromTxid: reader.varint(),
      floorTxid: reader.varint(),
      refs: readRefs(reader),
      tail: reader.list(limits.tailSegmentsMax, () => readTailSegment(reader)),
      history: reader.optional(() => ({
        id: readPoolId(reader),
        bytes: reader.varint(),
        sha256: reader.fixed(sha256Bytes),
      })),
      garbageBelowUlid: reader.text(ulidBytesMax),
    };
    reader.require(manifest.pages <= limits.databasePagesMax, "its database is too large");
    reader.require(isGarbageMark(manifest.garbageBelowUlid), "its settled mark is no ULID");
    reader.require(tailBytes(manifest.tail) <= limits.tailBytesMax, "its tail is too long");
    return manifest;
  });
}

function isGarbageMark(text: string): boolean {
  return text === "" || isUlid(text);
}

function tailBytes(tail: readonly TailSegment[]): number {
  return tail.reduce((sum, { bytes }) => sum + bytes.length, 0);
}

function encodeWriterEpoch(writer: ByteWriter, { epoch, id, firstTxid, lastTxid }: WriterEpoch): void {
  assert(lastTxid >= firstTxid - 1, "a writer epoch ends no earlier than just before its first transaction");
  writer.varint(epoch);
  writer.fixed(id, writerEpochIdBytes);
  writer.varint(firstTxid);
  writer.varint(lastTxid + 1 - firstTxid);
}

function decodeWriterEpoch(reader: ByteReader): WriterEpoch {
  const epoch = reader.varint();
  const id = reader.fixed(writerEpochIdBytes);
  const firstTxid = reader.varint();
  const lastTxid = firstTxid + reader.varint() - 1;
  reader.require(Number.isSafeInteger(lastTxid), "a transaction id is larger than 2^53 - 1");
  return { epoch, id, firstTxid, lastTxid };
}

function writeTailSegment(writer: ByteWriter, segment: TailSegment): void {
  writeRange(writer, segment);
  writer.varint(segment.lastAtMs);
  writer.varint(segment.rawBytes);
  writer.bytes(segment.bytes, limits.tailBytesMax);
}

function readTailSegment(reader: ByteReader): TailSegment {
  return {
    ...readRange(reader),
    lastAtMs: reader.varint(),
    rawBytes: reader.varint(),
    bytes: reader.bytes(limits.tailBytesMax),
  };
}
