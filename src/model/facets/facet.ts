/**
 * What a facet is, and how much work it may take to count one.
 *
 * Always true: a call looks at a bounded number of rows, whatever a database holds; a number that is not the whole is
 * said to be approximate. Must not know: which kinds there are.
 */
import { encodeUtf8, decodeUtf8 } from "../../base/bytes.ts";
import { invalid } from "../../base/faults/errors.ts";
import type { SqlParameter } from "../../sqlite/connection/connection.ts";
import type { View } from "../core/transaction.ts";

/** One thing that a database has: a topic, a collection, a namespace of keys. */
export interface Facet {
  readonly name: string;
  /** Of a topic, the type of its memories. */
  readonly type?: string;
  /** How many there are; absent where they are not counted. */
  readonly count?: number;
  /** There are at least so many, or so many among the newest that were looked at. */
  readonly isApproximate?: boolean;
  /** Of a metadata path, the JSON types of what was seen there. */
  readonly types?: readonly string[];
  /** Of a collection of documents, the paths of its indexes. */
  readonly indexes?: readonly string[];
  /** Of a collection of vectors. */
  readonly dimension?: number;
  readonly metric?: string;
}

/** A page of the facets of one kind. */
export interface FacetPage {
  readonly facets: readonly Facet[];
  /** The place of the last one, where more may follow. */
  readonly last?: Place;
  /** Facets may be missing: only the newest rows were looked at. */
  readonly isApproximate?: boolean;
}

/** Where in a listing a facet stands: by what it is sorted. */
export type Place = readonly string[];

/** What a page is asked for. */
export interface FacetQuery {
  readonly after: Place | undefined;
  readonly limit: number;
  readonly looks: Looks;
}

/** Lists the facets of one kind, sorted. */
export type Lister = (view: View, query: FacetQuery) => FacetPage;

/** A facet is counted up to so many. */
const countMax = 10_000;

/** The rows that a call may still look at. */
export class Looks {
  #left: number;

  constructor(rows: number) {
    this.#left = rows;
  }

  get isOver(): boolean {
    return this.#left <= 0;
  }

  /** Notes that a row was looked at. */
  take(): void {
    this.#left--;
  }

  /** Counts the rows of `FROM …`, as far as there are looks left. */
  count(view: View, from: string, ...params: readonly SqlParameter[]): Pick<Facet, "count" | "isApproximate"> {
    const most = Math.max(1, Math.min(countMax, this.#left));
    const { n } = view.connection.get<{ n: number }>(
      `SELECT count(*) AS n FROM (SELECT 1 ${from} LIMIT ?)`,
      ...params,
      most + 1,
    )!;
    this.#left -= n;
    return n > most ? { count: most, isApproximate: true } : { count: n };
  }
}

/** A page of what was sorted already: one facet after the other, until there are enough or there are no looks left. */
export function pageOf<Item>(
  items: readonly Item[],
  { limit, looks }: FacetQuery,
  toFacet: (item: Item) => Facet,
  toPlace: (item: Item) => Place,
): FacetPage {
  const facets: Facet[] = [];
  for (const item of items.slice(0, limit)) {
    if (facets.length > 0 && looks.isOver) break;
    facets.push(toFacet(item));
  }
  return { facets, ...(facets.length < items.length && { last: toPlace(items[facets.length - 1]!) }) };
}

/** Opaque to clients; of the kind that it is made for alone. */
export function encodeCursor(kind: string, place: Place): string {
  return Buffer.from(encodeUtf8(JSON.stringify([kind, ...place]))).toString("base64url");
}

export function decodeCursor(kind: string, cursor: string): Place {
  const bytes = Buffer.from(cursor, "base64url");
  const parts = bytes.toString("base64url") === cursor ? parseTexts(decodeUtf8(bytes)) : undefined;
  if (!parts || parts[0] !== kind || parts.length < 2)
    throw invalid("cursor must be the next_cursor of an earlier page of this kind");
  return parts.slice(1);
}

function parseTexts(text: string | undefined): readonly string[] | undefined {
  if (text === undefined || !text.startsWith('["')) return undefined;
  try {
    const parts: unknown = JSON.parse(text);
    return Array.isArray(parts) && parts.every((part) => typeof part === "string") ? parts : undefined;
  } catch (error) {
    if (error instanceof SyntaxError) return undefined;
    throw error;
  }
}
