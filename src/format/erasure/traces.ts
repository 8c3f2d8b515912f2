/**
 * Traces: what erased data is looked for by, without saying what it was.
 *
 * A trace represents a window of 32 bytes that the data had on its pages:
 *
 * | offset | bytes | content                                                                |
 * |--------|-------|------------------------------------------------------------------------|
 * | 0      | 4     | rolling hash of the window, little-endian: the same for all keys       |
 * | 4      | 16    | first bytes of HMAC-SHA256 of the window, under the key of the erasure |
 *
 * Always true: every place that has a window is found, and nothing else (but for a collision of 128 bits); the rolling
 * hash alone is only ever a reason to look closer. Once the key is destroyed, 32 bits of each window are all that is
 * left in a trace: too few to reconstruct a window, though a guess can be tested against them.
 */
import { createHmac } from "node:crypto";
import { StoreError } from "../../base/faults/errors.ts";
import type { Traces } from "./erasure-coupon.ts";

/** What a trace represents. */
export const windowBytes = 32;
const rollingBytes = 4;
const digestBytes = 16;
/** One trace. */
export const traceBytes = rollingBytes + digestBytes;

/**
 * Odd and without a pattern in its bits, so that every byte of a window reaches the hash's upper bits but for the last
 * few.
 */
const base = 0x9e37_79b1 | 0;

/** What a byte adds to the hash at the moment it leaves the window, negated. */
const leaving = ((): Int32Array => {
  let power = 1;
  for (let step = 0; step < windowBytes; step++) power = Math.imul(power, base);
  return Int32Array.from({ length: 256 }, (_, byte) => -Math.imul(byte, power));
})();

function rollingHash(bytes: Uint8Array, from: number): number {
  let hash = 0;
  for (let at = from; at < from + windowBytes; at++) hash = (Math.imul(hash, base) + bytes[at]!) | 0;
  return hash;
}

function digest(key: Uint8Array, window: Uint8Array): Buffer {
  return createHmac("sha256", key).update(window).digest().subarray(0, digestBytes);
}

/** The trace of a window of `windowBytes` bytes. */
export function computeTrace(key: Uint8Array, window: Uint8Array): Uint8Array {
  const trace = Buffer.alloc(traceBytes);
  trace.writeInt32LE(rollingHash(window, 0));
  digest(key, window).copy(trace, rollingBytes);
  return trace;
}

/** A window that is looked for: whose it is, and what proves it. */
interface Wanted {
  readonly set: number;
  readonly digest: Buffer;
}

/** The prefilter has this many bits for each window, so that only one place in this many is looked at closer. */
const bitsPerWindow = 64;
const filterBitsMin = 2 ** 16;
const filterBitsMax = 2 ** 24;

/** Looks for several erasures' windows in one pass over bytes. */
export class TraceSearch {
  readonly #keys: readonly Uint8Array[];
  readonly #wanted = new Map<number, Wanted[]>();
  /** A bit for each value of the hash's upper bits that some window has. */
  readonly #filter: Int32Array;
  /** How far a hash is shifted to be a place in the filter. */
  readonly #shift: number;

  /** Throws StoreError("corrupt") when a set is not made of whole traces. */
  constructor(sets: readonly Traces[]) {
    this.#keys = sets.map(({ key }) => key);
    let windows = 0;
    for (const [set, traces] of sets.entries()) {
      if (traces.windows.length % traceBytes !== 0)
        throw new StoreError("corrupt", "the traces of an erasure are cut off");
      const bytes = Buffer.from(traces.windows.buffer, traces.windows.byteOffset, traces.windows.length);
      for (let at = 0; at < bytes.length; at += traceBytes, windows++) {
        const hash = bytes.readInt32LE(at);
        const wanted = { set, digest: bytes.subarray(at + rollingBytes, at + traceBytes) };
        const same = this.#wanted.get(hash);
        if (same) same.push(wanted);
        else this.#wanted.set(hash, [wanted]);
      }
    }
    let bits = filterBitsMin;
    while (bits < filterBitsMax && bits < windows * bitsPerWindow) bits *= 2;
    this.#filter = new Int32Array(bits / 32);
    this.#shift = 32 - Math.log2(bits);
    for (const hash of this.#wanted.keys())
      this.#filter[(hash >>> this.#shift) >>> 5]! |= 1 << ((hash >>> this.#shift) & 31);
  }

  /** How many windows are looked for. */
  get size(): number {
    return this.#wanted.values().reduce((sum, { length }) => sum + length, 0);
  }

  /** Reports every window in the bytes: the set it belongs to and where it begins. */
  search(bytes: Uint8Array, found: (set: number, offset: number) => void): void {
    if (bytes.length < windowBytes || this.#wanted.size === 0) return;
    let hash = rollingHash(bytes, 0);
    if (this.#wanted.has(hash)) this.#confirm(bytes, 0, hash, found);
    for (let end = windowBytes; end < bytes.length;) {
      ({ end, hash } = this.#next(bytes, end, hash));
      if (end > bytes.length) return;
      this.#confirm(bytes, end - windowBytes, hash, found);
    }
  }

  /**
   * Rolls on until a window's hash is a wanted one; `end` is where that window ends, past the bytes when there is none.
   */
  #next(bytes: Uint8Array, from: number, before: number): { readonly end: number; readonly hash: number } {
    const filter = this.#filter;
    const shift = this.#shift;
    const length = bytes.length;
    let hash = before;
    for (let at = from; at < length; at++) {
      hash = (Math.imul(hash, base) + bytes[at]! + leaving[bytes[at - windowBytes]!]!) | 0;
      const place = hash >>> shift;
      if ((filter[place >>> 5]! & (1 << (place & 31))) !== 0 && this.#wanted.has(hash)) return { end: at + 1, hash };
    }
    return { end: length + 1, hash };
  }

  #confirm(bytes: Uint8Array, offset: number, hash: number, found: (set: number, offset: number) => void): void {
    const window = bytes.subarray(offset, offset + windowBytes);
    for (const { set, digest: expected } of this.#wanted.get(hash) ?? []) {
      if (expected.equals(digest(this.#keys[set]!, window))) found(set, offset);
    }
  }
}
