/**
 * What is read of a collection: documents that match, how many, and by what.
 *
 * Always true: an index only narrows what is looked at, so the answer is the same without it; nothing is read without a
 * bound. Must not know: HTTP, how a filter becomes SQL.
 */
import { invalid } from "../../base/faults/errors.ts";
import { utf8Length } from "../../base/bytes.ts";
import { checkCollectionName } from "../../format/core/names.ts";
import type { SqlValue } from "../../sqlite/connection/connection.ts";
import { canonicalText, jsonText, storedJson, type Json } from "../core/docs-json.ts";
import type { View } from "../core/transaction.ts";
import { orderedText } from "./docs-conditions.ts";
import { parseFilter, type Filter } from "./docs-filter.ts";
import { docAt, findCandidates, findCollection, type Collection } from "./docs-index.ts";
import { idField, parsePath } from "./docs-path.ts";
import { parseProjection, type Projection } from "./docs-project.ts";
import { Bindings, filterSql, orderSql, prepareQueries } from "./docs-query.ts";
import { reachedValues } from "./docs-reach.ts";

export const docsDefault = 100;
const docsMax = 1000;
export const docSkipMax = 1_000_000;
export const sortKeysMax = 16;
/** One find's documents together; a page beyond it is refused, so that one answer never fills the heap. */
export const docsResultBytesMax = 32 * 1024 * 1024;
/** Where a count stops at the latest, and where it does unless asked. */
export const docCountMax = 1_000_000;
export const docGroupsDefault = 100;
const docGroupsMax = 1000;
/** Different values that one grouping holds in memory, and their text together. */
const docValuesMax = 100_000;
const docValuesBytesMax = 16 * 1024 * 1024;

/** One key of a sort: ascending 1, descending -1. */
export interface SortKey {
  readonly path: string;
  readonly direction: number;
}

/** A statement with its named parameters. */
interface Query {
  readonly sql: string;
  readonly values: Record<string, SqlValue>;
}

/** A SELECT of `columns` over the documents `d` that match. `sort` falls back to the order of insertion. */
export function selectDocs(
  collection: Collection,
  columns: string,
  filter: Filter,
  sort: readonly SortKey[],
  count: number,
  skip: number,
): Query {
  const bindings = new Bindings();
  const candidates = findCandidates(filter, collection, bindings);
  const conditions = [filterSql(filter, "d.doc", bindings)];
  // Whatever an index gives is a superset, so the filter itself always has the last word.
  if (candidates) conditions.unshift(`d.n IN (${candidates.sql})`);
  const order = sort.flatMap(({ path, direction }) => {
    // The column is the same value, and its index gives the order without a sort.
    if (path === idField) return [`d.id ${direction < 0 ? "DESC" : "ASC"}`];
    return orderSql("d.doc", parsePath("sort", path), direction < 0, bindings);
  });
  return {
    sql:
      `SELECT ${columns} FROM ${collection.table} AS d WHERE ${conditions.join(" AND ")} ORDER ` +
      `BY ${[...order, "d.n"].join(", ")} LIMIT $count OFFSET $skip`,
    values: { ...bindings.values, count: BigInt(count), skip: BigInt(skip) },
  };
}

/**
 * The documents that match, in the order of `sort`, then of insertion, with the fields that `projection` asks for.
 * `limit` above the most allowed is cut to it.
 */
export function findDocs(
  view: View,
  input: {
    readonly collection: string;
    readonly filter?: string;
    readonly sort?: readonly SortKey[];
    readonly limit?: number;
    readonly skip?: number;
    readonly projection?: string;
  },
): { readonly docs: readonly string[] } {
  checkCollectionName("collection", input.collection);
  const filter = parseFilter("filter", input.filter ?? "{}");
  const sort = checkSort(input.sort ?? []);
  const project = input.projection === undefined ? undefined : parseProjection("projection", input.projection);
  const limit = input.limit ?? docsDefault;
  const skip = input.skip ?? 0;
  if (!Number.isInteger(limit) || limit < 1)
    throw invalid(`limit must be a whole number from 1; at most ${docsMax} documents are given`);
  if (!Number.isInteger(skip) || skip < 0 || skip > docSkipMax)
    throw invalid(`skip must be an integer from 0 to ${docSkipMax}`);
  const collection = findCollection(view, input.collection);
  if (!collection) return { docs: [] };
  const query = selectDocs(collection, sort.length > 0 ? "d.n" : "d.doc", filter, sort, Math.min(limit, docsMax), skip);
  return { docs: collect(view, collection, query, sort.length > 0, project) };
}

/** Runs the query. A sorted one gives row numbers, so that the sorter holds keys and not whole documents. */
function collect(
  view: View,
  collection: Collection,
  query: Query,
  sorted: boolean,
  project: Projection | undefined,
): readonly string[] {
  const docs: string[] = [];
  let bytes = 0;
  for (const found of prepareRows(view, query).iterate(query.values) as Iterable<string | number>) {
    const stored = sorted ? docAt(view, collection, found as number) : (found as string);
    const doc = project ? project(stored) : stored;
    view.connection.look();
    bytes += utf8Length(doc);
    if (bytes > docsResultBytesMax)
      throw invalid(
        `the documents found are larger than ${docsResultBytesMax} bytes together; ask for fewer with limit`,
      );
    docs.push(doc);
  }
  return docs;
}

export function prepareRows(view: View, query: Query) {
  const { connection } = view;
  prepareQueries(connection);
  return connection.prepared(query.sql).pluck();
}

function checkSort(sort: readonly SortKey[]): readonly SortKey[] {
  if (sort.length > sortKeysMax) throw invalid(`sort must have at most ${sortKeysMax} keys`);
  for (const { path, direction } of sort) {
    parsePath("a field name in sort", path);
    if (direction !== 1 && direction !== -1) throw invalid(`sort.${path} must be 1 (ascending) or -1 (descending)`);
  }
  return sort;
}

/** How many documents match, at most `limit`, and whether there are more. */
export function countDocs(
  view: View,
  input: { readonly collection: string; readonly filter?: string; readonly limit?: number },
): { readonly count: number; readonly more: boolean } {
  checkCollectionName("collection", input.collection);
  const filter = parseFilter("filter", input.filter ?? "{}");
  const limit = input.limit ?? docCountMax;
  if (!Number.isInteger(limit) || limit < 1 || limit > docCountMax)
    throw invalid(`limit must be a whole number from 1 to ${docCountMax}`);
  const collection = findCollection(view, input.collection);
  if (!collection) return { count: 0, more: false };
  const { sql, values } = selectDocs(collection, "1", filter, [], limit + 1, 0);
  const count = prepareRows(view, { sql: `SELECT count(*) FROM (${sql})`, values }).get(values) as number;
  return { count: Math.min(count, limit), more: count > limit };
}

/** A value as JSON text, and how many documents have it. */
interface DocGroup {
  readonly value: string;
  readonly count: number;
}

/**
 * The values that documents have at a path, elements of arrays each by itself, with how many have them: of
 * what is no array as many as match `{path: value}` beside the filter. Null is also a missing field.
 */
export function groupDocs(
  view: View,
  input: { readonly collection: string; readonly path: string; readonly filter?: string; readonly limit?: number },
): { readonly groups: readonly DocGroup[]; readonly distinct: number } {
  checkCollectionName("collection", input.collection);
  const filter = parseFilter("filter", input.filter ?? "{}");
  const path = parsePath("path", input.path);
  const limit = input.limit ?? docGroupsDefault;
  if (!Number.isInteger(limit) || limit < 1)
    throw invalid(`limit must be a whole number from 1; at most ${docGroupsMax} values are given`);
  const collection = findCollection(view, input.collection);
  if (!collection) return { groups: [], distinct: 0 };
  const query = selectDocs(collection, "d.doc", filter, [], -1, 0);
  const values = new CountedValues(input.path);
  for (const doc of prepareRows(view, query).iterate(query.values) as Iterable<string>) {
    view.connection.look();
    values.addAll(reachedValues(storedJson(doc), path));
  }
  return { groups: values.commonest(Math.min(limit, docGroupsMax)), distinct: values.count };
}

/** Values by what makes them equal, each with its count. */
class CountedValues {
  readonly #path: string;
  readonly #values = new Map<string, { readonly value: Json; count: number }>();
  #bytes = 0;

  constructor(path: string) {
    this.#path = path;
  }

  get count(): number {
    return this.#values.size;
  }

  /** Those of one document, each of which counts once. */
  addAll(values: Iterable<Json>): void {
    const distinct = new Map<string, Json>();
    for (const value of values) distinct.set(canonicalText(value), value);
    for (const [key, value] of distinct) {
      const known = this.#values.get(key);
      if (known) known.count++;
      else this.#add(key, value);
    }
  }

  #add(key: string, value: Json): void {
    this.#values.set(key, { value, count: 1 });
    this.#bytes += key.length;
    if (this.#values.size > docValuesMax || this.#bytes > docValuesBytesMax)
      throw invalid(
        `path ${this.#path} has more than ${docValuesMax} different values, or than ${docValuesBytesMax} bytes of ` +
          "them; narrow it with filter",
      );
  }

  commonest(most: number): readonly DocGroup[] {
    return Array.from(this.#values.values(), ({ value, count }) => ({ value, count, order: orderedText(value) }))
      .sort((left, right) => right.count - left.count || (left.order < right.order ? -1 : 1))
      .slice(0, most)
      .map(({ value, count }) => ({ value: jsonText(value), count }));
  }
}
