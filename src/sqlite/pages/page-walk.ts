/**
 * Whether the pages of a database file fit together, told from the pages alone.
 *
 * What SQLite's own check does for this, it does by running the schema: generated columns, CHECK constraints,
 * expressions of indexes and the contents of virtual tables are foreign programs, which may take hours and decide what
 * is called sound. Nothing of that kind runs here. What is found of damage:
 *
 * - a header that says another page size, more pages than there are, or a vacuum mode;
 * - a page of a tree whose kind, cells, freeblocks or unused bytes do not fit, or whose records are not of their
 *   length;
 * - children that are no pages, of another kind or not all at the same depth; rowids out of order;
 * - chains of overflow pages, and a freelist, that are shorter or longer than they must be;
 * - a page that is used twice, or never.
 *
 * Not found, as it takes the schema or the values: the order of an index, rows without their index entries, values that
 * break a constraint. Always true: each page is read at most once, and what is held is a bit for each page and one page
 * for each level of a tree. The file is at rest: it has no log, and is not written meanwhile.
 */
import { closeSync, fstatSync, openSync, readSync } from "node:fs";
import { StoreError } from "../../base/faults/errors.ts";
import { databaseMagic, lockPage, pageBytes } from "../../format/history/pages.ts";
import { compareRowids, TreePage, unsound, type Rowid } from "./cells.ts";

/** A tree, as the schema names it. */
export interface TreeRoot {
  readonly page: number;
  /** Whether it is an index's; a table may be either kind of tree. */
  readonly isIndex: boolean;
}

/** Pages that are read in one turn: a few milliseconds. */
const turnPages = 256;
/** SQLite goes no deeper. */
const levelsMax = 20;
const headerBytes = 100;
/** Where the header says what; all numbers big-endian. */
const header = {
  pageSize: 16,
  reserved: 20,
  change: 24,
  pages: 28,
  freelist: 32,
  freePages: 36,
  vacuum: 52,
  validFor: 92,
} as const;
/** A page of the freelist names the next one, how many others it names, and those. */
const trunkNamesMax = pageBytes / 4 - 2;
const numberBytes = 4;

/**
 * Walks over the file's trees, that of the schema included, and everything else. Each step is a turn's work. Throws
 * StoreError("corrupt") at the first thing that is wrong.
 */
export function* walkPages(path: string, roots: readonly TreeRoot[]): Generator<void, void> {
  const descriptor = openSync(path, "r");
  try {
    yield* new PageWalk(descriptor).run(roots);
  } finally {
    closeSync(descriptor);
  }
}

class PageWalk {
  readonly #descriptor: number;
  readonly #pages: number;
  readonly #freelist: number;
  readonly #freePages: number;
  /** A bit for each page that was met. */
  readonly #met: Uint8Array;
  readonly #room = Buffer.alloc(pageBytes);
  /** The page of each level of the tree that is walked, and which child comes next. */
  readonly #levels: { readonly page: TreePage; next: number }[] = [];
  #sinceTurn = 0;
  /** The greatest key of the tree so far, and whether it is a row's. */
  #greatest: Rowid | undefined;
  #isOfRow = false;

  constructor(descriptor: number) {
    this.#descriptor = descriptor;
    const { size } = fstatSync(descriptor);
    const room = this.#read(1, headerBytes);
    if (room.toString("latin1", 0, databaseMagic.length) !== databaseMagic)
      throw new StoreError("corrupt", "the file is no database");
    const isOurs =
      room.readUInt16BE(header.pageSize) === pageBytes &&
      room[header.reserved] === 0 &&
      room.readUInt32BE(header.vacuum) === 0;
    if (!isOurs) throw new StoreError("corrupt", "the file has pages of another kind");
    const isCounted = room.readUInt32BE(header.change) === room.readUInt32BE(header.validFor);
    const counted = room.readUInt32BE(header.pages);
    const there = Math.floor(size / pageBytes);
    this.#pages = isCounted && counted > 0 ? counted : there;
    if (this.#pages > there) throw new StoreError("corrupt", `the file has ${there} pages instead of ${this.#pages}`);
    this.#freelist = room.readUInt32BE(header.freelist);
    this.#freePages = room.readUInt32BE(header.freePages);
    this.#met = new Uint8Array(Math.ceil((this.#pages + 1) / 8));
  }

  *run(roots: readonly TreeRoot[]): Generator<void, void> {
    yield* this.#freeList();
    yield* this.#tree({ page: 1, isIndex: false });
    for (const root of roots) yield* this.#tree(root);
    for (let page = 1; page <= this.#pages; page++) {
      if (this.#isMet(page) === (page === lockPage))
        throw unsound(page, page === lockPage ? "is used, and never may be" : "is never used");
    }
  }

  /** The first bytes of a page. */
  #read(page: number, length: number, into = this.#room as Uint8Array): Buffer {
    const count = readSync(this.#descriptor, into, 0, length, (page - 1) * pageBytes);
    if (count < length) throw new StoreError("corrupt", "a database file ends within a page");
    return this.#room;
  }

  #isMet(page: number): boolean {
    return (this.#met[page >>> 3]! & (1 << (page & 7))) !== 0;
  }

  /** Notes that `from` refers to the page. */
  #meet(page: number, from: number): void {
    if (page < 1 || page > this.#pages) throw unsound(from, `refers to a page ${page}, which there is not`);
    if (this.#isMet(page)) throw unsound(page, "is used twice");
    this.#met[page >>> 3]! |= 1 << (page & 7);
  }

  /** Whether so much was read that others should have a turn. */
  #isTurn(): boolean {
    this.#sinceTurn = (this.#sinceTurn + 1) % turnPages;
    return this.#sinceTurn === 0;
  }

  *#freeList(): Generator<void, void> {
    let count = 0;
    for (let page = this.#freelist, from = 1; page !== 0;) {
      this.#meet(page, from);
      const room = this.#read(page, pageBytes);
      const names = room.readUInt32BE(numberBytes);
      if (names > trunkNamesMax) throw unsound(page, "names more free pages than it has room for");
      for (let at = 0; at < names; at++) this.#meet(room.readUInt32BE((2 + at) * numberBytes), page);
      count += 1 + names;
      from = page;
      page = room.readUInt32BE(0);
      if (this.#isTurn()) yield;
    }
    if (count !== this.#freePages)
      throw new StoreError("corrupt", `the freelist has ${count} pages instead of ${this.#freePages}`);
  }

  *#tree(root: TreeRoot): Generator<void, void> {
    const levels = this.#levels;
    let [depth, leafDepth] = [0, 0];
    this.#greatest = undefined;
    const { isTable } = yield* this.#enter(root.page, 1, 0);
    if (isTable && root.isIndex) throw unsound(root.page, "is the root of the other kind of tree");
    while (depth >= 0) {
      const level = levels[depth]!;
      const { page } = level;
      if (page.isLeaf && leafDepth !== 0 && depth !== leafDepth)
        throw unsound(page.number, "is not as deep in its tree as others");
      if (page.isLeaf) leafDepth = depth;
      if (page.isLeaf || level.next > page.cells) {
        depth--;
        continue;
      }
      // The key of a cell is at least the greatest of the child before it.
      if (page.isTable && level.next > 0) this.#follow(page, level.next - 1);
      if (++depth >= levelsMax) throw unsound(page.number, "is too deep in its tree");
      const child = yield* this.#enter(page.child(level.next++), page.number, depth);
      if (child.isTable !== isTable) throw unsound(child.number, "is of the other kind of tree");
    }
  }

  /** Reads a page of a tree as the next one of that level, and all that its cells refer to but its children. */
  *#enter(number: number, from: number, depth: number): Generator<void, TreePage> {
    this.#meet(number, from);
    const level = (this.#levels[depth] ??= { page: new TreePage(), next: 0 });
    const { page } = level;
    level.next = 0;
    this.#read(number, pageBytes, page.bytes);
    page.open(number);
    page.read();
    if (page.isTable && page.isLeaf && page.cells > 0) {
      this.#requireAfter(page, page.readRowid(0));
      this.#greatest = page.readRowid(page.cells - 1);
      this.#isOfRow = true;
    }
    if (this.#isTurn()) yield;
    for (const { first, pages } of page.overflows) yield* this.#overflow(first, pages, number);
    return page;
  }

  /** The inner page's cell lies between two children: its rowid is the last one that the child before it may have. */
  #follow(page: TreePage, cell: number): void {
    const key = page.readRowid(cell);
    this.#requireAfter(page, key);
    this.#greatest = key;
    this.#isOfRow = false;
  }

  #requireAfter(page: TreePage, key: Rowid): void {
    if (this.#greatest === undefined) return;
    const order = compareRowids(key, this.#greatest);
    const maySame = this.#isOfRow && !page.isLeaf;
    if (order < 0 || (order === 0 && !maySame)) throw unsound(page.number, "has rowids out of order");
  }

  *#overflow(first: number, pages: number, from: number): Generator<void, void> {
    let page = first;
    for (let left = pages; left > 0; left--) {
      this.#meet(page, from);
      page = this.#read(page, numberBytes).readUInt32BE(0);
      if (this.#isTurn()) yield;
    }
    if (page !== 0) throw unsound(from, "has a payload that goes on for too long");
  }
}
