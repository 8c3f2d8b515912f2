/**
 * One true image per page: what SQLite keeps, without what it has forgotten.
 *
 * A b-tree page (SQLite's own format, big-endian):
 *
 * | offset | bytes | content                                                                 |
 * |--------|-------|-------------------------------------------------------------------------|
 * | 0      | 1     | type: 2 and 5 are inner pages, 10 and 13 leaves (index, table)          |
 * | 1      | 2     | first freeblock, 0 for none; each begins with the next one and its size |
 * | 3      | 2     | number of cells                                                         |
 * | 5      | 2     | where the cells begin                                                   |
 * | 8, 12  | 2 n   | pointers to the cells; the gap follows, up to the cells                 |
 *
 * Why: deleted rows stay readable in gaps and freeblocks under churn even with secure_delete on, and page images
 * outlive their database in history; zeroes also compress best. Why it is safe: SQLite never reads either place. The
 * first byte tells the kind of a page because without vacuum modes the others begin with a page number, whose high
 * byte is 0 or 1 in a database below 2^25 pages; a freed page that still looks like a b-tree is no one's.
 */
import { assert } from "../../base/faults/assert.ts";

/** Size of every page of every database. */
export const pageBytes = 4096;

/** What every database file begins with (sqlite.org/fileformat2.html, 1.3); its bytes are those of Latin-1. */
export const databaseMagic = "SQLite format 3\0";

/** The page at 1 GiB that SQLite locks byte ranges of and never uses. */
export const lockPage = 262_145;

/** Where the b-tree of page 1 begins: after the database's header. */
const databaseHeaderBytes = 100;
const freeblockHeaderBytes = 4;

/** Size of the header by type of page; other types are no b-tree. */
const headerBytes: Readonly<Record<number, number>> = { 2: 12, 5: 12, 10: 8, 13: 8 };

function u16(page: Uint8Array, at: number): number {
  return (page[at]! << 8) | page[at + 1]!;
}

/**
 * Whether the chain of freeblocks only goes up, from the cells' beginning to the page's end, so that walking it ends.
 */
function isSoundChain(page: Uint8Array, first: number, cells: number): boolean {
  let end = cells;
  for (let at = first; at !== 0; at = u16(page, at)) {
    if (at < end || at + freeblockHeaderBytes > pageBytes) return false;
    end = at + u16(page, at + 2);
    if (end < at + freeblockHeaderBytes || end > pageBytes) return false;
  }
  return true;
}

/**
 * Zeroes in place what no live cell owns: the gap of a b-tree page and the bodies of its freeblocks. Other pages, and
 * what only looks like one, stay as they are.
 */
export function makeCanonical(page: Uint8Array, pageNumber: number): void {
  assert(page.length === pageBytes, "a page image is one whole page");
  const start = pageNumber === 1 ? databaseHeaderBytes : 0;
  const size = headerBytes[page[start]!];
  if (size === undefined) return;
  const freeblock = u16(page, start + 1);
  const gap = start + size + 2 * u16(page, start + 3);
  const cells = u16(page, start + 5);
  if (gap > cells || cells > pageBytes || !isSoundChain(page, freeblock, cells)) return;
  page.fill(0, gap, cells);
  for (let at = freeblock; at !== 0; at = u16(page, at))
    page.fill(0, at + freeblockHeaderBytes, at + u16(page, at + 2));
}
