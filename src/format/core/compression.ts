/**
 * Compression as a door, so that a simulation can keep it on its own thread and in its own order.
 *
 * Always true: what one press has made, every other one reads; a frame that does not hold exactly the bytes it should
 * is corrupt, and never grows beyond them in memory. Level 1, as it keeps up with a writer and pages shrink well at any
 * level.
 */
import { webcrypto } from "node:crypto";
import {
  constants,
  zstdCompress,
  zstdCompressSync,
  zstdDecompress,
  zstdDecompressSync,
  type ZstdOptions,
} from "node:zlib";
import { StoreError } from "../../base/faults/errors.ts";
import { computeSha256 } from "./seal.ts";

/** Zstandard, whatever runs it. */
export interface Compression {
  compress(raw: Uint8Array): Promise<Uint8Array>;
  /** The raw bytes, exactly `rawBytes` of them; StoreError("corrupt") when they are not. */
  decompress(pressed: Uint8Array, rawBytes: number): Promise<Uint8Array>;
  /** SHA-256, 32 bytes. */
  digest(bytes: Uint8Array): Promise<Uint8Array>;
}

/** Up to this size hashing costs less than handing it over. */
const handedOverBytesMin = 64 * 1024;

const level = { [constants.ZSTD_c_compressionLevel]: 1 };

/**
 * The runtime goes to its pool anew for each piece of output, of 16 KiB by default. A frame of rows is pressed into one
 * of these.
 */
const pieceBytes = 128 * 1024;

function packing(raw: Uint8Array): ZstdOptions {
  return { params: level, chunkSize: Math.min(pieceBytes, pressedBytesMax(raw.length)) };
}

function unpacking(rawBytes: number): ZstdOptions {
  return { maxOutputLength: Math.max(1, rawBytes), chunkSize: Math.max(outputBytesMin, rawBytes) };
}

/** No less is taken. */
const outputBytesMin = 64;

/** The most that this many bytes are pressed into (ZSTD_COMPRESSBOUND, simplified upwards). */
export function pressedBytesMax(rawBytes: number): number {
  return rawBytes + (rawBytes >>> 8) + 128;
}

function checked(raw: Uint8Array, rawBytes: number): Uint8Array {
  if (raw.length !== rawBytes)
    throw new StoreError("corrupt", `a compressed frame holds ${raw.length} bytes instead of ${rawBytes}`);
  return raw;
}

function broken(error: unknown): StoreError {
  return new StoreError("corrupt", "a compressed frame cannot be read", { cause: error });
}

/** In the pool of threads, off the caller's own. */
export const threadedPress: Compression = {
  compress: (raw) =>
    new Promise((resolve, reject) => {
      zstdCompress(raw, packing(raw), (error, pressed) => (error ? reject(error) : resolve(pressed)));
    }),
  decompress: (pressed, rawBytes) =>
    new Promise<Uint8Array>((resolve, reject) => {
      zstdDecompress(pressed, unpacking(rawBytes), (error, raw) => (error ? reject(broken(error)) : resolve(raw)));
    }).then((raw) => checked(raw, rawBytes)),
  digest: async (bytes) => {
    if (bytes.length < handedOverBytesMin) return computeSha256(bytes);
    return new Uint8Array(await webcrypto.subtle.digest("SHA-256", bytes as Uint8Array<ArrayBuffer>));
  },
};

/** On the caller's thread: the same bytes at once. */
export const inlinePress: Compression = {
  compress: async (raw) => zstdCompressSync(raw, packing(raw)),
  decompress: async (pressed, rawBytes) => {
    let raw: Uint8Array;
    try {
      raw = zstdDecompressSync(pressed, unpacking(rawBytes));
    } catch (error) {
      throw broken(error);
    }
    return checked(raw, rawBytes);
  },
  digest: async (bytes) => computeSha256(bytes),
};
