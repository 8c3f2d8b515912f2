/**
 * The shell around every binary format at rest: which format it is, how long, and proof that no bit has changed.
 *
 * | offset | bytes | content                                                       |
 * |--------|-------|---------------------------------------------------------------|
 * | 0      | 4     | magic, ASCII: one word per format                             |
 * | 4      | 1     | version of the format                                         |
 * | 5      | 4     | length of the body, little-endian                             |
 * | 9      | n     | body                                                          |
 * | 9 + n  | 16    | first half of the SHA-256 of everything before                |
 *
 * Always true: magic and version are looked at first, so an older reader names a newer version instead of misreading
 * it. The checksum is against rot and cut uploads, not against forgery: what must not be forged is named by its whole
 * SHA-256 elsewhere.
 */
import { hash } from "node:crypto";
import { assert } from "../base/assert.ts";
import { bytesOf } from "../base/bytes.ts";
import { StoreError } from "../base/errors.ts";
import { ByteReader, ByteWriter } from "./binary.ts";

/** What tells one format from the others. */
export interface SealedFormat {
  /** With its article, for messages: `a head`. */
  readonly what: string;
  /** Four ASCII characters. */
  readonly magic: string;
  /** The version written, and the newest that is understood. */
  readonly version: number;
  /** Length of seal and body together. */
  readonly bytesMax: number;
}

const magicBytes = 4;
const prefixBytes = magicBytes + 1 + 4;
const checksumBytes = 16;

/** SHA-256, 32 bytes. */
export function hashOf(bytes: Uint8Array): Uint8Array {
  return new Uint8Array(hash("sha256", bytes, "buffer"));
}

/** A sealed body, filled by `write`. */
export function encodeSealed(format: SealedFormat, write: (writer: ByteWriter) => void): Uint8Array {
  const magic = bytesOf(format.magic);
  const bodyWriter = new ByteWriter();
  write(bodyWriter);
  const body = bodyWriter.finish();
  const head = new ByteWriter();
  head.fixed(magic, magicBytes);
  head.u8(format.version);
  head.u32(body.length);
  const sealed = new Uint8Array(prefixBytes + body.length + checksumBytes);
  assert(sealed.length <= format.bytesMax, `${format.what} has at most ${format.bytesMax} bytes`);
  sealed.set(head.finish());
  sealed.set(body, prefixBytes);
  const checked = prefixBytes + body.length;
  sealed.set(hashOf(sealed.subarray(0, checked)).subarray(0, checksumBytes), checked);
  return sealed;
}

/** Reads a sealed body that begins at `at`; gives what it holds and where the seal ends. Throws StoreError("corrupt"). */
export function decodeSealedAt<Content>(
  format: SealedFormat,
  bytes: Uint8Array,
  at: number,
  read: (reader: ByteReader) => Content,
): { readonly content: Content; readonly end: number } {
  assert(at <= bytes.length, "a seal begins within its bytes");
  const start = bytes.subarray(at);
  const prefix = new ByteReader(start, format.what);
  prefix.require(Buffer.compare(prefix.fixed(magicBytes), bytesOf(format.magic)) === 0, "it is something else");
  const version = prefix.u8();
  if (version !== format.version) {
    throw new StoreError("corrupt", `${format.what} has format version ${version}; this program reads version ${format.version}`);
  }
  const checked = prefixBytes + prefix.u32();
  prefix.require(checked + checksumBytes <= format.bytesMax, `it has more than ${format.bytesMax} bytes`);
  prefix.require(checked + checksumBytes <= start.length, "it ends too early");
  const checksum = start.subarray(checked, checked + checksumBytes);
  const sound = Buffer.compare(hashOf(start.subarray(0, checked)).subarray(0, checksumBytes), checksum) === 0;
  prefix.require(sound, "its checksum is wrong");
  const reader = new ByteReader(start.subarray(prefixBytes, checked), format.what);
  const content = read(reader);
  reader.end();
  return { content, end: at + checked + checksumBytes };
}

/** Reads bytes that are one sealed body and nothing else. Throws StoreError("corrupt"). */
export function decodeSealed<Content>(format: SealedFormat, bytes: Uint8Array, read: (reader: ByteReader) => Content): Content {
  const { content, end } = decodeSealedAt(format, bytes, 0, read);
  if (end !== bytes.length) throw new StoreError("corrupt", `${format.what} cannot be read: it goes on after its end`);
  return content;
}
