/**
 * The names that erasures of databases have erased, read from their coupons and kept for the next who asks.
 *
 * Always true: who asks is told of every coupon that object storage lists then, in whatever order nodes have put them,
 * so keys are listed each time; a coupon is read once, as its names stay what they are once its rows are gone; no more
 * names are kept than `erasedNamesMax`, and who would need more is refused. Must not know: what the names are for.
 */
import { invalid } from "../../base/faults/errors.ts";
import type { ErasureCoupons } from "../../control/databases/erasure-coupons.ts";
import type { ErasedNames } from "../../model/transfer/erased.ts";
import { ErasedBook, type NamePart } from "./erased-book.ts";

/** Names of all databases together that a node keeps, and of one that it holds: some hundred bytes each. */
const erasedNamesMax = 500_000;

/** What of a database's names some records may be of. */
export interface KnownErasures {
  /** Whether nothing was erased, and nothing need be looked for. */
  readonly isEmpty: boolean;
  find(each: Iterable<ReadonlySet<NamePart>>): ErasedNames;
}

/** A database's coupons that were read, and what they name. */
interface Shelf {
  readonly ids: Set<string>;
  readonly book: ErasedBook;
}

export class ErasedBooks {
  readonly #coupons: ErasureCoupons;
  readonly #namesMax: number;
  /** By database, the one that was asked for last at the end. */
  readonly #shelves = new Map<string, Shelf>();

  constructor(coupons: ErasureCoupons, namesMax = erasedNamesMax) {
    this.#coupons = coupons;
    this.#namesMax = namesMax;
  }

  /** What has been erased of the database, up to now. Throws StoreError, and invalid_request beyond the bound. */
  async of(uuid: string): Promise<KnownErasures> {
    const shelf = this.#shelves.get(uuid) ?? { ids: new Set(), book: new ErasedBook() };
    // Of an erasure that has only begun nobody knows yet which memories it takes, nor whether it is carried out.
    const begun = new ErasedBook();
    for await (const coupon of this.#coupons.each(uuid, ({ id }) => !shelf.ids.has(id))) {
      if (coupon.status === "begun") begun.add(coupon);
      else {
        shelf.book.add(coupon);
        shelf.ids.add(coupon.id);
      }
      if (sizeOf(shelf) + begun.size <= this.#namesMax) continue;
      this.#shelves.delete(uuid);
      throw invalid(
        `the erasures of this database name more than ${this.#namesMax} records and memories, which an import is not ` +
          "held against: import into another database",
      );
    }
    this.#keep(uuid, shelf);
    const { book } = shelf;
    return {
      isEmpty: book.size === 0 && begun.size === 0,
      find(each) {
        const all = [...each];
        const [kept, coming] = [book.find(all), begun.find(all)];
        return {
          memoryIds: [...kept.memoryIds, ...coming.memoryIds],
          targets: [...kept.targets, ...coming.targets],
        };
      },
    };
  }

  /** Those that were not asked for the longest give way. */
  #keep(uuid: string, shelf: Shelf): void {
    this.#shelves.delete(uuid);
    if (shelf.ids.size === 0) return;
    this.#shelves.set(uuid, shelf);
    let total = 0;
    for (const one of this.#shelves.values()) total += sizeOf(one);
    for (const [other, one] of this.#shelves) {
      if (total <= this.#namesMax) return;
      this.#shelves.delete(other);
      total -= sizeOf(one);
    }
  }
}

function sizeOf({ ids, book }: Shelf): number {
  return ids.size + book.size;
}
