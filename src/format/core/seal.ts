/**
 * The shell around every binary format at rest: which format it is, its length, and proof that no bit has changed.
 *
 * | offset | bytes | content                                                       |
 * |--------|-------|---------------------------------------------------------------|
 * | 0      | 4     | magic, ASCII: one word per format                             |
 * | 4      | 1     | version of the format                                         |
 * | 5      | 4     | length of the body, little-endian                             |
 * | 9      | n     | body                                                          |
 * | 9 + n  | 16    | first half of the SHA-256 of everything before                |
 *
 * Always true: the shell is the same for every version of every format, so an older reader tells a newer version from
 * rot, and names it instead of misreading it (format/core/versions). The checksum is against rot and cut uploads, not
 * against forgery: what must not be forged is named by its whole SHA-256 elsewhere.
 */
import { hash } from "node:crypto";
import { assert } from "../../base/faults/assert.ts";
import { encodeUtf8 } from "../../base/bytes.ts";
import { StoreError } from "../../base/faults/errors.ts";
import { ByteReader, ByteWriter } from "./binary.ts";
import { requireVersion, type FormatVersions } from "./versions.ts";

/** What tells one format from the others. */
export interface SealedFormat {
  readonly versions: FormatVersions;
  /** Four ASCII characters. */
  readonly magic: string;
  /** Length of seal and body together. */
  readonly bytesMax: number;
}

const magicBytes = 4;
const prefixBytes = magicBytes + 1 + 4;
const checksumBytes = 16;

/** SHA-256, 32 bytes. */
export function computeSha256(bytes: Uint8Array): Uint8Array {
  return new Uint8Array(hash("sha256", bytes, "buffer"));
}

/** A sealed body, filled by `write`, of that version, by default the newest that this build writes. */
export function encodeSealed(
  format: SealedFormat,
  write: (writer: ByteWriter) => void,
  version: number = Math.max(...format.versions.writes),
): Uint8Array {
  assert(format.versions.writes.includes(version), "a version is written that this build writes");
  const magic = encodeUtf8(format.magic);
  const bodyWriter = new ByteWriter();
  write(bodyWriter);
  const body = bodyWriter.finish();
  const manifest = new ByteWriter();
  manifest.fixed(magic, magicBytes);
  manifest.u8(version);
  manifest.u32(body.length);
  const sealed = new Uint8Array(prefixBytes + body.length + checksumBytes);
  assert(sealed.length <= format.bytesMax, `${format.versions.what} has at most ${format.bytesMax} bytes`);
  sealed.set(manifest.finish());
  sealed.set(body, prefixBytes);
  const checked = prefixBytes + body.length;
  sealed.set(computeSha256(sealed.subarray(0, checked)).subarray(0, checksumBytes), checked);
  return sealed;
}

/**
 * Reads a sealed body that begins at `at`; gives what it holds and where the seal ends. `read` is told its version.
 * Throws StoreError("corrupt") and NewerFormat.
 */
export function decodeSealedAt<Content>(
  format: SealedFormat,
  bytes: Uint8Array,
  at: number,
  read: (reader: ByteReader, version: number) => Content,
): { readonly content: Content; readonly end: number } {
  assert(at <= bytes.length, "a seal begins within its bytes");
  const start = bytes.subarray(at);
  const prefix = new ByteReader(start, format.versions.what);
  prefix.require(Buffer.compare(prefix.fixed(magicBytes), encodeUtf8(format.magic)) === 0, "it is something else");
  const version = prefix.u8();
  const checked = prefixBytes + prefix.u32();
  prefix.require(checked + checksumBytes <= start.length, "it ends too early");
  const sound = isSealed(start, checked);
  prefix.require(sound, "its checksum is wrong");
  // Only now: a version that rot has made is no newer build's.
  requireVersion(format.versions, version);
  prefix.require(checked + checksumBytes <= format.bytesMax, `it has more than ${format.bytesMax} bytes`);
  const reader = new ByteReader(start.subarray(prefixBytes, checked), format.versions.what);
  const content = read(reader, version);
  reader.end();
  return { content, end: at + checked + checksumBytes };
}

/** Reads bytes that are one sealed body and nothing else. Throws StoreError("corrupt") and NewerFormat. */
export function decodeSealed<Content>(
  format: SealedFormat,
  bytes: Uint8Array,
  read: (reader: ByteReader, version: number) => Content,
): Content {
  const { content, end } = decodeSealedAt(format, bytes, 0, read);
  if (end !== bytes.length)
    throw new StoreError("corrupt", `${format.versions.what} cannot be read: it goes on after its end`);
  return content;
}

/** What the shell says of itself, whatever is in it. */
interface Shell {
  readonly magic: string;
  readonly version: number;
  readonly bodyBytes: number;
  /** Where the checksum stands. */
  readonly checksumAt: number;
  /** Whether the bytes go on to the end of the checksum. */
  readonly isWhole: boolean;
  readonly isSound: boolean;
}

/** The shell that begins with the bytes, for whoever is to say what is wrong with it; nothing when they are too few. */
export function readShell(bytes: Uint8Array): Shell | undefined {
  if (bytes.length < prefixBytes) return undefined;
  const prefix = new ByteReader(bytes, "a shell");
  const magic = Buffer.from(prefix.fixed(magicBytes)).toString("latin1");
  const version = prefix.u8();
  const bodyBytes = prefix.u32();
  const checksumAt = prefixBytes + bodyBytes;
  const isWhole = checksumAt + checksumBytes <= bytes.length;
  return { magic, version, bodyBytes, checksumAt, isWhole, isSound: isWhole && isSealed(bytes, checksumAt) };
}

function isSealed(bytes: Uint8Array, checksumAt: number): boolean {
  const checksum = bytes.subarray(checksumAt, checksumAt + checksumBytes);
  return Buffer.compare(computeSha256(bytes.subarray(0, checksumAt)).subarray(0, checksumBytes), checksum) === 0;
}
