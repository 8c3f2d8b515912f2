/**
 * The past of a branch: lines that the manifest no longer names, and checkpoints with a name.
 *
 * Sealed (format/core/seal, magic PLHI). The body (varints unless said otherwise):
 *
 * | field       | content                                                                                       |
 * |-------------|-----------------------------------------------------------------------------------------------|
 * | uuid        | 16 bytes: the database                                                                        |
 * | branchId    | text                                                                                          |
 * | lines       | their number, and for each: fromTxid, txids it goes on, endedAtMs, refs (format/history/refs) |
 * | checkpoints | their number, and for each: text name, txid, createdAtMs                                      |
 *
 * Always true: the object never changes; a new past is a new object, named with its SHA-256 by the manifest that needs
 * it. Why apart from the manifest: it grows with age, and a manifest is rewritten by every change.
 */
import { limits } from "../../base/limits/limits.ts";
import type { ByteReader, ByteWriter } from "../core/binary.ts";
import { readBranchId, writeBranchId } from "../keys/object-keys.ts";
import { readRange, readRefs, writeRange, writeRefs, type Line, type NamedCheckpoint } from "./refs.ts";
import { decodeSealed, encodeSealed, type SealedFormat } from "../core/seal.ts";
import { formats } from "../core/versions.ts";

export interface History {
  readonly uuid: string;
  readonly branchId: string;
  /** In the order in which they were closed. */
  readonly lines: readonly Line[];
  readonly checkpoints: readonly NamedCheckpoint[];
}

const format: SealedFormat = { versions: formats.history, magic: "PLHI", bytesMax: limits.historyBytesMax };

/** The history as bytes. Its writer has kept every bound. */
export function encodeHistory(history: History): Uint8Array {
  return encodeSealed(format, (writer) => {
    writer.uuid(history.uuid);
    writeBranchId(writer, history.branchId);
    writer.list(history.lines, limits.historyLinesMax, (line) => writeLine(writer, line));
    writer.list(history.checkpoints, limits.checkpointsMax, ({ name, txid, createdAtMs }) => {
      writer.text(name, limits.checkpointNameBytesMax);
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
    lines: reader.list(limits.historyLinesMax, () => readLine(reader)),
    checkpoints: reader.list(limits.checkpointsMax, () => ({
      name: reader.text(limits.checkpointNameBytesMax),
      txid: reader.varint(),
      createdAtMs: reader.varint(),
    })),
  }));
}

function writeLine(writer: ByteWriter, { fromTxid, toTxid, endedAtMs, refs }: Line): void {
  writeRange(writer, { firstTxid: fromTxid, lastTxid: toTxid });
  writer.varint(endedAtMs);
  writeRefs(writer, refs);
}

function readLine(reader: ByteReader): Line {
  const { firstTxid, lastTxid } = readRange(reader);
  return { fromTxid: firstTxid, toTxid: lastTxid, endedAtMs: reader.varint(), refs: readRefs(reader) };
}
