/**
 * The rows that hold a word, read from the pages of an FTS5 index themselves: a row of a query costs ten times what it
 * takes to read a number, and a common word is in most rows.
 *
 * The form is that of sqlite.org/fts5.html, "FTS5 Data Structures", and of the comments in SQLite's fts5_index.c: an
 * index is a list of segments, a segment a list of leaf pages by number, a leaf page the end of a list that began
 * before it, then words with their lists. Of a list only row numbers are read, and places are passed over.
 *
 * Always true: an answer is what a query for the word gives. What is in any form that is not known here has no answer,
 * and is asked by a query.
 */
import type { Connection } from "../../sqlite/connection/connection.ts";

/** Forms of an index: with what is removed marked, and with it taken out of the pages. */
const versionsKnown = [4, 5];
/** The row of `_data` that lists the segments. */
const structureRow = 10n;
/** Before every word of the index itself, which may be followed by indexes of prefixes. */
const mainIndex = "0";
/** Bits of the number of a leaf page's row, below those of its segment. */
const segmentShift = 37n;
/** Where the list of segments says more than is known here. */
const structureOfTombstones = 0xff000001;
/** Pages that are read by one statement at most: those of a list that ends before are read in vain. */
const pagesAtOnce = 16;

interface Segment {
  readonly id: number;
  readonly firstPage: number;
  readonly lastPage: number;
}

/** Something is not in the form that is known here. */
class OtherForm extends Error {}

/** Reads numbers one after the other. */
class Reader {
  at: number;
  readonly #bytes: Uint8Array;
  readonly #end: number;

  constructor(bytes: Uint8Array, at: number, end: number) {
    this.#bytes = bytes;
    this.at = at;
    this.#end = end;
  }

  get isAtEnd(): boolean {
    return this.at >= this.#end;
  }

  /** A number of up to 53 bits, seven a byte, the highest first. */
  number(): number {
    let value = 0;
    for (let read = 0; read < 8; read++) {
      if (this.at >= this.#end) break;
      const byte = this.#bytes[this.at++]!;
      value = value * 128 + (byte & 0x7f);
      if (byte < 0x80) return value;
    }
    throw new OtherForm();
  }
}

/** The segments, the newest first. */
function readSegments(connection: Connection, table: string): Segment[] {
  const version = connection.prepared(`SELECT v FROM ${table}_config WHERE k = 'version'`).pluck().get();
  const block = connection.prepared(`SELECT block FROM ${table}_data WHERE id = ?`).pluck().get(structureRow);
  if (!versionsKnown.includes(version as number) || !(block instanceof Uint8Array)) throw new OtherForm();
  const isOther =
    block.length >= 8 && new DataView(block.buffer, block.byteOffset).getUint32(4) === structureOfTombstones;
  if (isOther) throw new OtherForm();
  const reader = new Reader(block, 4, block.length);
  const levels = reader.number();
  reader.number();
  reader.number();
  const segments: Segment[] = [];
  for (let level = 0; level < levels; level++) {
    reader.number();
    const own = Array.from({ length: reader.number() }, (): Segment => {
      return { id: reader.number(), firstPage: reader.number(), lastPage: reader.number() };
    });
    // Levels are told from the newest on, the segments of each from the oldest on.
    segments.push(...own.reverse());
  }
  return segments;
}

/** A leaf page: two numbers of two bytes, the content to `size`, and where words begin in it. */
class Leaf {
  readonly bytes: Uint8Array;
  /** Where the first row number is of a list that began on a page before; 0 for none. */
  readonly firstRow: number;
  readonly size: number;

  constructor(bytes: Uint8Array) {
    this.bytes = bytes;
    this.firstRow = bytes[0]! * 256 + bytes[1]!;
    this.size = bytes[2]! * 256 + bytes[3]!;
    if (bytes.length < 4 || this.size > bytes.length || this.firstRow > this.size) throw new OtherForm();
  }

  /** Where words begin, ascending. */
  words(): number[] {
    const reader = new Reader(this.bytes, this.size, this.bytes.length);
    const starts: number[] = [];
    for (let at = 0; !reader.isAtEnd;) starts.push((at += reader.number()));
    return starts;
  }

  /** Where the list of the word is, if the word is here. */
  listOf(word: Uint8Array): { readonly from: number; readonly end: number } | undefined {
    const starts = this.words();
    let kept: number[] = [];
    for (const [index, start] of starts.entries()) {
      const reader = new Reader(this.bytes, start, this.size);
      const keep = index === 0 ? 0 : reader.number();
      const added = reader.number();
      if (keep > kept.length || reader.at + added > this.size) throw new OtherForm();
      kept = [...kept.slice(0, keep), ...this.bytes.subarray(reader.at, reader.at + added)];
      if (kept.length === word.length && kept.every((byte, at) => byte === word[at]))
        return { from: reader.at + added, end: starts[index + 1] ?? this.size };
    }
    return undefined;
  }
}

/** The pages of a segment from one on. */
function* readLeaves(connection: Connection, table: string, { id, lastPage }: Segment, from: number): Generator<Leaf> {
  const statement = connection
    .prepared(`SELECT block FROM ${table}_data WHERE id >= ? AND id <= ? ORDER BY id`)
    .pluck();
  const rowOf = (page: number): bigint => (BigInt(id) << segmentShift) + BigInt(page);
  // Most lists end soon: as many are read as were before.
  for (let [page, count] = [from, 1]; page <= lastPage; page += count, count = Math.min(2 * count, pagesAtOnce)) {
    const upTo = Math.min(lastPage, page + count - 1);
    const blocks = statement.all(rowOf(page), rowOf(upTo)) as Uint8Array[];
    if (blocks.length !== upTo - page + 1) throw new OtherForm();
    for (const block of blocks) yield new Leaf(block);
  }
}

/** What a segment says of a word: rows, ascending, and those among them from which it was removed. */
interface Holders {
  readonly rows: number[];
  readonly removed: ReadonlySet<number>;
}

function readHolders(connection: Connection, table: string, segment: Segment, word: Uint8Array): Holders | undefined {
  const entry = connection
    .prepared(`SELECT pgno FROM ${table}_idx WHERE segid = ? AND term <= ? ORDER BY term DESC LIMIT 1`)
    .pluck()
    .get(BigInt(segment.id), word) as number | undefined;
  const rows: number[] = [];
  const removed = new Set<number>();
  let row = 0;
  /** Reads to the end of the list or of what is of it on this page: a loop over bytes, as it runs for each row. */
  const read = ({ bytes, size }: Leaf, from: number, end: number): void => {
    let at = from;
    for (let isFirst = true; at < end; isFirst = false) {
      let step = 0;
      let byte: number;
      do {
        if (at >= size) throw new OtherForm();
        byte = bytes[at++]!;
        step = step * 128 + (byte & 0x7f);
      } while (byte >= 0x80);
      let places = 0;
      do {
        if (at >= size) throw new OtherForm();
        byte = bytes[at++]!;
        places = places * 128 + (byte & 0x7f);
      } while (byte >= 0x80);
      row = isFirst ? step : row + step;
      rows.push(row);
      if (places < 2) removed.add(row);
      at += Math.floor(places / 2);
    }
  };
  let isBegun = false;
  // What a merge has taken from the front of a segment may still be told of.
  const page = Math.max(segment.firstPage, entry === undefined ? 0 : Math.floor(entry / 2));
  for (const leaf of readLeaves(connection, table, segment, page)) {
    if (!isBegun) {
      const list = leaf.listOf(word);
      if (!list) return undefined;
      read(leaf, list.from, list.end);
      if (list.end < leaf.size) break;
      isBegun = true;
      continue;
    }
    const [next] = leaf.words();
    if (leaf.firstRow > 0) read(leaf, leaf.firstRow, next ?? leaf.size);
    if (next !== undefined) break;
  }
  return { rows, removed };
}

/** All rows that some segment has, the newest of those that name it deciding; `found` is the newest first. */
function merge(found: readonly Holders[]): number[] {
  const oldestFirst = found.toReversed();
  const isApart = oldestFirst.every(({ rows, removed }, at) => {
    const before = oldestFirst[at - 1]?.rows.at(-1) ?? -1;
    return removed.size === 0 && rows[0]! > before;
  });
  if (isApart) return ([] as number[]).concat(...oldestFirst.map(({ rows }) => rows));
  const held = new Map<number, boolean>();
  for (const { rows, removed } of oldestFirst) for (const row of rows) held.set(row, !removed.has(row));
  const left = [...held].filter(([, is]) => is).map(([row]) => row);
  return left.sort((left, right) => left - right);
}

/** The rows that hold the word as the index has it, ascending; undefined where the index is in another form. */
export function readRowsOf(connection: Connection, table: string, word: string): readonly number[] | undefined {
  const key = new TextEncoder().encode(mainIndex + word);
  try {
    const found = readSegments(connection, table).map((segment) => readHolders(connection, table, segment, key));
    return merge(found.filter((one) => one !== undefined && one.rows.length > 0) as Holders[]);
  } catch (error) {
    if (error instanceof OtherForm) return undefined;
    throw error;
  }
}
