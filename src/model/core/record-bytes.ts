/**
 * Records as SQLite writes them (sqlite.org/fileformat2.html, 2.1), by which a copy of one can be looked for on pages.
 *
 * Must not know: which tables there are.
 */

/** A value of a record: its bytes as far as they are wanted. */
export interface Stored {
  readonly serialType: number;
  readonly bytes: Uint8Array;
}

export const nothing: Stored = { serialType: 0, bytes: new Uint8Array() };
const integerBytes = [1, 2, 3, 4, 6, 8] as const;

export function integer(value: number): Stored {
  if (value === 0 || value === 1) return { serialType: 8 + value, bytes: new Uint8Array() };
  const at = integerBytes.findIndex((length) => value < 2 ** (8 * length - 1) && value >= -(2 ** (8 * length - 1)));
  const bytes = Buffer.alloc(8);
  bytes.writeBigInt64BE(BigInt(value));
  return { serialType: at + 1, bytes: bytes.subarray(8 - integerBytes[at]!) };
}

export function text(start: Uint8Array, length = start.length): Stored {
  return { serialType: 2 * length + 13, bytes: start };
}

export function blob(bytes: Uint8Array): Stored {
  return { serialType: 2 * bytes.length + 12, bytes };
}

function varint(value: number): Uint8Array {
  const bytes = [value & 127];
  for (let rest = Math.floor(value / 128); rest > 0; rest = Math.floor(rest / 128)) bytes.unshift((rest & 127) | 128);
  return Uint8Array.from(bytes);
}

/** A text or a blob whose bytes are not wanted. */
export function unread(base: 12 | 13, bytes: number | null): Stored {
  return bytes === null ? nothing : { serialType: 2 * bytes + base, bytes: new Uint8Array() };
}

/**
 * The beginning of a record of these values. A header of ours is shorter than 127 bytes, so that its length takes one.
 */
export function encodeRecord(...values: readonly Stored[]): Buffer {
  const types = Buffer.concat(values.map(({ serialType }) => varint(serialType)));
  return Buffer.concat([varint(types.length + 1), types, ...values.map(({ bytes }) => bytes)]);
}
