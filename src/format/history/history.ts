/**
 * The past of a branch: timelines that the manifest no longer names, and checkpoints with a name.
 *
 * Sealed (format/core/seal, magic PLHI). The body (varints unless said otherwise):
 *
 * | field       | content                                                                                       |
 * |-------------|-----------------------------------------------------------------------------------------------|
 * | uuid        | 16 bytes: the database                                                                        |
 * | branchId    | text                                                                                          |
 * | timelines   | their number, and for each: fromTxid, txids it goes on, endedAtMs, refs (format/history/refs) |
 * | checkpoints | their number, and for each: text name, txid, createdAtMs                                      |
 *
 * Always true: the object never changes; a new past is a new object, named with its SHA-256 by the manifest that needs
 * it. Why apart from the manifest: it grows with age, and a manifest is rewritten by every change.
 */
import { limits } from "../../base/limits.ts";
import type { ByteReader, ByteWriter } from "../core/binary.ts";
import { readBranchId, writeBranchId } from "../keys/object-keys.ts";
import { readRange, readRefs, writeRange, writeRefs, type Timeline, type NamedCheckpoint } from "./refs.ts";
import { decodeSealed, encodeSealed, type SealedFormat } from "../core/seal.ts";
import { formats } from "../core/versions.ts";

export const historyBytesMax = 16 * 1024 * 1024;
export const checkpointNameBytesMax = 256;

export interface History {
  readonly uuid: string;
  readonly branchId: string;
  /** In the order in which they were closed. */
  readonly timelines: readonly Timeline[];
  readonly checkpoints: readonly NamedCheckpoint[];
}

const format: SealedFormat = { versions: formats.history, magic: "PLHI", bytesMax: historyBytesMax };

/** The history as bytes. Its writer has kept every bound. */
export function encodeHistory(history: History): Uint8Array {
  return encodeSealed(format, (writer) => {
    writer.uuid(history.uuid);
    writeBranchId(writer, history.branchId);
    writer.list(history.timelines, limits.historyTimelinesMax, (timeline) => writeTimeline(writer, timeline));
    writer.list(history.checkpoints, limits.checkpointsMax, ({ name, txid, createdAtMs }) => {
      writer.text(name, checkpointNameBytesMax);
      writer.varint(txid);
      writer.varint(createdAtMs);
    });
  });
}

/** The history in the bytes. Throws StoreError("corrupt") for anything else. */
export function decodeHistory(bytes: Uint8Array): History {
  return decodeSealed(format, bytes, (reader) => ({
    uuid: reader.uuid(),
    branchId: readBranchId(reader),
    timelines: reader.list(limits.historyTimelinesMax, () => readTimeline(reader)),
    checkpoints: reader.list(limits.checkpointsMax, () => ({
      name: reader.text(checkpointNameBytesMax),
      txid: reader.varint(),
      createdAtMs: reader.varint(),
    })),
  }));
}

function writeTimeline(writer: ByteWriter, { fromTxid, toTxid, endedAtMs, refs }: Timeline): void {
  writeRange(writer, { firstTxid: fromTxid, lastTxid: toTxid });
  writer.varint(endedAtMs);
  writeRefs(writer, refs);
}

function readTimeline(reader: ByteReader): Timeline {
  const { firstTxid, lastTxid } = readRange(reader);
  return { fromTxid: firstTxid, toTxid: lastTxid, endedAtMs: reader.varint(), refs: readRefs(reader) };
}
