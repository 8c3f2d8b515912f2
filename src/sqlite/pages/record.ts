/**
 * One row read straight from the image of a b-tree page, for a caller that has a page and no database.
 *
 * Always true: what is handed out was wholly inside the page and used up its cell; anything else is
 * StoreError("corrupt"). Must not know: what the columns mean. Only what a one-row table of numbers and short bytes
 * needs is here: no overflow pages, no text, no reals. The layout is SQLite's (sqlite.org/fileformat2.html, 1.6 and
 * 2.1).
 */
import { StoreError } from "../../base/faults/errors.ts";

export type StoredValue = null | number | Uint8Array;

export interface StoredRow {
  readonly rowid: number;
  /** In the order of the columns; the one that is an alias of the rowid is null. Bytes are a view of the page. */
  readonly values: readonly StoredValue[];
}

const tableLeaf = 13;
const leafHeaderBytes = 8;
/** Lengths of the integers of serial types 1 to 6. */
const integerBytes = [1, 2, 3, 4, 6, 8] as const;

function corrupt(what: string): StoreError {
  return new StoreError("corrupt", `the page of a one-row table ${what}`);
}

/** Walks over a stretch of the page and never past its end. */
class Cursor {
  readonly #bytes: Uint8Array;
  readonly #end: number;
  #at: number;

  constructor(bytes: Uint8Array, from: number, to: number) {
    if (from > to || to > bytes.length) throw corrupt("points outside itself");
    this.#bytes = bytes;
    this.#at = from;
    this.#end = to;
  }

  get at(): number {
    return this.#at;
  }

  get atEnd(): boolean {
    return this.#at === this.#end;
  }

  take(length: number): Uint8Array {
    if (length > this.#end - this.#at) throw corrupt("ends within a value");
    return this.#bytes.subarray(this.#at, (this.#at += length));
  }

  /** Big-endian and signed. Beyond 2^53 it is only roughly right, which every check of a range still notices. */
  integer(length: number): number {
    const bytes = this.take(length);
    return bytes.reduce((value, byte) => value * 256 + byte, bytes[0]! >= 128 ? -1 : 0);
  }

  /**
   * SQLite's variable-length integer, read as unsigned: a negative one comes out larger than any length or rowid of
   * ours.
   */
  varint(): number {
    let value = 0;
    for (let index = 0; index < 8; index++) {
      const byte = this.take(1)[0]!;
      value = value * 128 + (byte & 127);
      if (byte < 128) return value;
    }
    return value * 256 + this.take(1)[0]!;
  }
}

function readValue(serialType: number, body: Cursor): StoredValue {
  if (serialType === 0) return null;
  if (serialType === 8 || serialType === 9) return serialType - 8;
  const length = integerBytes[serialType - 1];
  if (length !== undefined) return body.integer(length);
  if (serialType >= 12 && serialType % 2 === 0) return body.take((serialType - 12) / 2);
  throw corrupt(`holds a value of type ${serialType}`);
}

/**
 * The row of a table that is one leaf page with one row. Not for page 1, whose first 100 bytes are the file's header.
 */
export function readSingleRow(page: Uint8Array): StoredRow {
  const header = new Cursor(page, 0, Math.min(page.length, leafHeaderBytes + 2));
  if (header.take(1)[0] !== tableLeaf) throw corrupt("is no leaf of a table");
  header.take(2);
  const [high, low] = header.take(2);
  if (high !== 0 || low !== 1) throw corrupt("does not hold one row");
  header.take(3);
  const [cellHigh, cellLow] = header.take(2);
  const cell = new Cursor(page, cellHigh! * 256 + cellLow!, page.length);
  const payloadBytes = cell.varint();
  const rowid = cell.varint();
  const payload = new Cursor(page, cell.at, cell.at + payloadBytes);
  const typesFrom = payload.at;
  const typesBytes = payload.varint();
  const types = new Cursor(page, payload.at, typesFrom + typesBytes);
  const body = new Cursor(page, typesFrom + typesBytes, typesFrom + payloadBytes);
  const values: StoredValue[] = [];
  while (!types.atEnd) values.push(readValue(types.varint(), body));
  if (!body.atEnd) throw corrupt("holds more than its columns");
  return { rowid, values };
}
