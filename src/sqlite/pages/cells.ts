/**
 * One b-tree page as SQLite lays it out (sqlite.org/fileformat2.html, 1.6), judged without anything else: its header,
 * its freeblocks, its cells and the headers of the records within.
 *
 * Always true: nothing is read outside the page, and every loop ends with it; what SQLite itself would not have written
 * is StoreError("corrupt"). It never looks at a value, so that it costs the same whatever a row holds. Must not know:
 * files, which trees there are, what a table is for.
 */
import { StoreError } from "../../base/faults/errors.ts";
import { pageBytes } from "../../format/history/pages.ts";

/** Types of pages; the others are no b-tree's. */
const types = { indexInner: 2, tableInner: 5, indexLeaf: 10, tableLeaf: 13 } as const;

/** Where the b-tree of page 1 begins: after the database's header. */
const databaseHeaderBytes = 100;
const cellBytesMin = 4;
/** The shortest cell and its pointer take six bytes. */
const cellsMax = Math.floor((pageBytes - 8) / 6);
/** How much of a payload may be on the page itself, by kind of page, and how much of a longer one at least. */
const leafLocalMax = pageBytes - 35;
const indexLocalMax = Math.floor(((pageBytes - 12) * 64) / 255) - 23;
const localMin = Math.floor(((pageBytes - 12) * 32) / 255) - 23;
/** What a page of a longer payload holds of it: after the number of the next one. */
const overflowBytes = pageBytes - 4;
/** SQLite's own bound of a row. */
const payloadBytesMax = 1_000_000_000;
/** A number that begins at the page's last byte may be read for so long. */
const padding = 16;
/** Bytes of the serial types 0 to 9, whose values have no length of their own. */
const fixedBytes = [0, 1, 2, 3, 4, 6, 8, 8, 0, 0, 0, 0] as const;

export function unsound(page: number, what: string): StoreError {
  return new StoreError("corrupt", `page ${page} ${what}`);
}

/** A rowid, as two halves of its 64 bits: no number holds all of them. */
export interface Rowid {
  readonly high: number;
  readonly low: number;
}

/** Whether the one is less than the other, zero when they are the same. */
export function compareRowids(one: Rowid, other: Rowid): number {
  return one.high - other.high || one.low - other.low;
}

/** The page that is looked at. It is filled by its owner, and `open` says of what is in it how it is to be read. */
export class TreePage {
  /** Beyond the page there are zeroes. */
  readonly bytes = new Uint8Array(pageBytes + padding);
  number = 0;
  isTable = false;
  isLeaf = false;
  cells = 0;
  #start = 0;
  #content = 0;
  /** Begins and ends of what is used behind `#content`, each as one number. */
  readonly #uses = new Uint32Array(cellsMax + pageBytes / cellBytesMin);

  /**
   * The payloads that go on elsewhere, as `read` has found them: the first page of the rest, and how many there must
   * be.
   */
  readonly overflows: { readonly first: number; readonly pages: number }[] = [];
  #rowid: Rowid = { high: 0, low: 0 };

  /** The place behind the last variable-length integer, and its value. */
  #at = 0;
  #high = 0;
  #low = 0;

  /** Reads the header and the freeblocks of the page that `bytes` holds. */
  open(number: number): void {
    const { bytes } = this;
    this.number = number;
    this.#start = number === 1 ? databaseHeaderBytes : 0;
    const type = bytes[this.#start]!;
    if (type !== types.indexInner && type !== types.tableInner && type !== types.indexLeaf && type !== types.tableLeaf)
      throw unsound(number, "is no page of a tree");
    this.isTable = type === types.tableInner || type === types.tableLeaf;
    this.isLeaf = type === types.indexLeaf || type === types.tableLeaf;
    this.cells = this.#u16(this.#start + 3);
    this.#content = this.#u16(this.#start + 5);
    const gap = this.#pointer(this.cells);
    if (this.cells > cellsMax || this.#content < gap || this.#content > pageBytes)
      throw unsound(number, "has more cells than room");
  }

  /**
   * Reads every cell. Proves that the rowids rise, that the cells and the freeblocks are all there is behind the gap,
   * and that none lies on another.
   */
  read(): void {
    this.overflows.length = 0;
    let uses = this.#addFreeblocks();
    let before: Rowid | undefined;
    for (let index = 0; index < this.cells; index++) {
      const at = this.#u16(this.#pointer(index));
      if (at < this.#content || at > pageBytes - cellBytesMin)
        throw unsound(this.number, "has a cell outside of its content");
      const end = at + this.#readCell(at);
      if (end > pageBytes) throw unsound(this.number, "has a cell that goes on behind its end");
      this.#uses[uses++] = at * 2 ** 16 + end;
      if (!this.isTable) continue;
      if (before && compareRowids(this.#rowid, before) <= 0) throw unsound(this.number, "has rowids out of order");
      before = this.#rowid;
    }
    this.#checkCoverage(this.#uses.subarray(0, uses).sort());
  }

  #checkCoverage(uses: Uint32Array): void {
    let [fragments, from] = [0, this.#content];
    for (const use of uses) {
      const at = use >>> 16;
      if (at < from) throw unsound(this.number, "uses a byte twice");
      fragments += at - from;
      from = use & 0xffff;
    }
    fragments += pageBytes - from;
    if (fragments !== this.bytes[this.#start + 7])
      throw unsound(this.number, "has another number of unused bytes than it says");
  }

  /** The page that the cell of an inner page leads to; for one more than there are, the last child. */
  child(index: number): number {
    return this.#u32(index === this.cells ? this.#start + 8 : this.#u16(this.#pointer(index)));
  }

  /** The rowid of a cell of a table's page. */
  readRowid(index: number): Rowid {
    const at = this.#u16(this.#pointer(index));
    this.#readInteger(this.isLeaf ? at : at + 4);
    // On a leaf the length of the payload comes first.
    if (this.isLeaf) this.#readInteger(this.#at);
    return { high: this.#high, low: this.#low };
  }

  #pointer(index: number): number {
    return this.#start + (this.isLeaf ? 8 : 12) + 2 * index;
  }

  #u16(at: number): number {
    return (this.bytes[at]! << 8) | this.bytes[at + 1]!;
  }

  #u32(at: number): number {
    return this.#u16(at) * 2 ** 16 + this.#u16(at + 2);
  }

  #addFreeblocks(): number {
    let uses = 0;
    // One that ends less than a cell's least before the next would have been joined with it.
    for (
      let at = this.#u16(this.#start + 1), least = this.#content, end = 0;
      at !== 0;
      at = this.#u16(at), least = end + cellBytesMin
    ) {
      if (at < least || at > pageBytes - cellBytesMin) throw unsound(this.number, "has a freeblock out of order");
      end = at + this.#u16(at + 2);
      if (end < at + cellBytesMin || end > pageBytes)
        throw unsound(this.number, "has a freeblock of an impossible length");
      this.#uses[uses++] = at * 2 ** 16 + end;
    }
    return uses;
  }

  /** Reads the cell, whose rowid and overflow are noted, and gives how many bytes of the page it takes. */
  #readCell(at: number): number {
    let from = this.isLeaf ? at : at + 4;
    if (this.isTable && !this.isLeaf) {
      this.#readInteger(from);
      this.#rowid = { high: this.#high, low: this.#low };
      return this.#at - at;
    }
    this.#readInteger(from);
    if (this.#high !== 0 || this.#low > payloadBytesMax) throw unsound(this.number, "has a cell that is too long");
    const payload = this.#low;
    from = this.#at;
    if (this.isTable) {
      this.#readInteger(from);
      this.#rowid = { high: this.#high, low: this.#low };
      from = this.#at;
    }
    const local = this.#computeLocal(payload);
    if (from + local > pageBytes) throw unsound(this.number, "has a cell that goes on behind its end");
    this.#checkRecord(from, payload, local);
    if (local === payload) return Math.max(from + local - at, cellBytesMin);
    this.overflows.push({ first: this.#u32(from + local), pages: Math.ceil((payload - local) / overflowBytes) });
    return from + local + 4 - at;
  }

  /** How much of a payload is on the page. */
  #computeLocal(payload: number): number {
    const most = this.isTable ? leafLocalMax : indexLocalMax;
    if (payload <= most) return payload;
    const local = localMin + ((payload - localMin) % overflowBytes);
    return local <= most ? local : localMin;
  }

  /**
   * The record's header must describe just as many bytes as there are. One that is longer than what the page has of it
   * is taken as it is.
   */
  #checkRecord(from: number, payload: number, local: number): void {
    this.#readInteger(from);
    const headerBytes = this.#low;
    if (this.#high !== 0 || headerBytes > payload || headerBytes < this.#at - from)
      throw unsound(this.number, "has a record whose header is longer than it");
    if (headerBytes > local) return;
    const end = from + headerBytes;
    let total = headerBytes;
    while (this.#at < end) {
      const byte = this.bytes[this.#at]!;
      if (byte < 128) {
        this.#at++;
        total += byte < 12 ? fixedBytes[byte]! : (byte - 12) >>> 1;
        continue;
      }
      this.#readInteger(this.#at);
      total += Math.floor((this.#high * 2 ** 32 + this.#low - 12) / 2);
    }
    if (this.#at !== end || total !== payload)
      throw unsound(this.number, "has a record of another length than its header says");
  }

  /** SQLite's variable-length integer: up to nine bytes; the last has eight bits. */
  #readInteger(from: number): void {
    const { bytes } = this;
    let [high, low] = [0, 0];
    let at = from;
    for (let count = 1; count <= 9; count++) {
      const byte = bytes[at++]!;
      const bits = count === 9 ? 8 : 7;
      high = (high << bits) | (low >>> (32 - bits));
      low = ((low << bits) | (count === 9 ? byte : byte & 127)) >>> 0;
      if (byte < 128) break;
    }
    this.#at = at;
    this.#high = high;
    this.#low = low;
  }
}
