/**
 * The public collections of vectors: stored under ids of the clients', with their lengths and metadata.
 *
 * Always true: a vector has an item, and an item a vector; its direction is a row of the collection's space, and what is to
 * be known beside, its length where that is not 1 and its metadata, a row of a table that is made when the first comes, so
 * that files from before stay as they are. The three go together. Must not know: how directions are searched.
 */
import { assert } from "../base/assert.ts";
import { bytesOf, utf8Of } from "../base/bytes.ts";
import { invalid } from "../base/errors.ts";
import { limits } from "../base/limits.ts";
import { checkCollectionName, checkText } from "../format/names.ts";
import type { SqlParameter } from "../sqlite/connection.ts";
import { parseFilter } from "./docs-filter.ts";
import { Bindings, filterSql, prepareQueries } from "./docs-query.ts";
import { readMetadata } from "./memory-metadata.ts";
import type { Tx, View } from "./transaction.ts";
import { vectorOfStored } from "./vector-index.ts";
import { checkEmbedding, deleteVector, findSpace, nearest, openSpace, putVector, type OwnerFilter, type VectorSpace } from "./vectors.ts";

const table = "__service_vector_detail";
const schema = `
CREATE TABLE IF NOT EXISTS ${table} (owner INTEGER PRIMARY KEY, space INTEGER NOT NULL, length REAL NOT NULL, metadata TEXT) STRICT;
CREATE INDEX IF NOT EXISTS __service_vector_detail_length ON ${table} (space, length);
`;

/** How near two vectors are, less being nearer throughout. */
const vectorMetrics = ["cosine", "dot", "euclid"] as const;
type VectorMetric = (typeof vectorMetrics)[number];

/** A vector as it comes in. `metadata` is the JSON text of an object. */
export interface VectorInput {
  readonly id: string;
  readonly embedding: Float32Array;
  readonly metadata?: string;
}

/** A vector as a list shows it. */
export interface VectorItem {
  readonly id: string;
  /** JSON text of an object; absent when it was stored with none. */
  readonly metadata?: string;
}

function checkDimension(field: string, embedding: Float32Array, collection: string, space: VectorSpace): void {
  if (embedding.length === space.dimension) return;
  throw invalid(`${field} has ${embedding.length} numbers, but collection ${collection} has dimension ${space.dimension}, fixed by its first vector`);
}

function openCollection(tx: Tx, collection: string, dimension: number): VectorSpace {
  const found = findSpace(tx, "collection", collection);
  if (found) return found;
  const { n } = tx.connection.get<{ n: number }>("SELECT count(*) AS n FROM __service_vector_space WHERE kind = 'collection'")!;
  if (n >= limits.collectionsMax) throw invalid(`collection would be one too many: a database has at most ${limits.collectionsMax} vector collections`);
  return openSpace(tx, "collection", collection, dimension);
}

/** The vectors of a collection, or undefined while it has none. */
function findCollection(view: View, collection: string): VectorSpace | undefined {
  checkCollectionName("collection", collection);
  return findSpace(view, "collection", collection);
}

/** Stores vectors under clients' ids, each in place of any before it. Refuses all of them for a dimension that is not the collection's. */
export function upsertVectors(tx: Tx, input: { readonly collection: string; readonly vectors: readonly VectorInput[]; readonly field?: string }): Record<string, never> {
  const { collection, vectors, field = "vectors" } = input;
  checkCollectionName("collection", collection);
  if (vectors.length === 0 || vectors.length > limits.vectorBatchMax) throw invalid(`${field} must hold 1 to ${limits.vectorBatchMax} vectors`);
  vectors.forEach((vector, at) => upsertOne(tx, collection, vector, `${field}[${at}].`));
  return {};
}

/** As upsertVectors, for one vector whose fields are the request's own. */
export function upsertVector(tx: Tx, { collection, ...vector }: VectorInput & { readonly collection: string }): Record<string, never> {
  checkCollectionName("collection", collection);
  upsertOne(tx, collection, vector, "");
  return {};
}

function upsertOne(tx: Tx, collection: string, { id, embedding, metadata: given }: VectorInput, place: string): void {
  checkText(`${place}id`, id, limits.vectorIdBytesMax);
  checkEmbedding(`${place}embedding`, embedding);
  const metadata = given === undefined ? undefined : readMetadata(`${place}metadata`, given);
  const space = openCollection(tx, collection, embedding.length);
  checkDimension(`${place}embedding`, embedding, collection, space);
  const found = ownerOf(tx, space, id);
  const owner = found ?? tx.connection.run("INSERT INTO __service_vector_item (space, id) VALUES (?, ?)", space.space, id).lastInsertRowid;
  putVector(tx, space, owner, embedding);
  putDetail(tx, space, owner, lengthOf(embedding), metadata);
}

function ownerOf(view: View, { space }: VectorSpace, id: string): number | undefined {
  return view.connection.get<{ owner: number }>("SELECT owner FROM __service_vector_item WHERE space = ? AND id = ?", space, id)?.owner;
}

/** In doubles. A length that is 1 but for the rounding of 32-bit floats is 1. */
function lengthOf(vector: Float32Array): number {
  let squared = 0;
  for (const value of vector) squared += value * value;
  const length = Math.sqrt(squared);
  return Math.abs(length - 1) < 1e-6 ? 1 : length;
}

/** Keeps what is to be known of a vector beside its direction; the same again changes nothing. */
function putDetail(tx: Tx, { space }: VectorSpace, owner: number, length: number, metadata: string | undefined): void {
  if (length === 1 && metadata === undefined) return removeDetail(tx, owner);
  tx.connection.exec(schema);
  tx.connection.run(
    `INSERT INTO ${table} (owner, space, length, metadata) VALUES (?, ?, ?, ?)
     ON CONFLICT (owner) DO UPDATE SET length = excluded.length, metadata = excluded.metadata
     WHERE length <> excluded.length OR metadata IS NOT excluded.metadata`,
    owner,
    space,
    length,
    metadata ?? null,
  );
}

function removeDetail(tx: Tx, owner: number): void {
  if (tx.connection.hasTable(table)) tx.connection.run(`DELETE FROM ${table} WHERE owner = ?`, owner);
}

function removeOwner(tx: Tx, space: VectorSpace, owner: number): void {
  deleteVector(tx, space, owner);
  removeDetail(tx, owner);
  tx.connection.run("DELETE FROM __service_vector_item WHERE owner = ?", owner);
}

/** The details beside `__service_vector_item AS i`: a join, and its columns. */
function details(view: View): { readonly join: string; readonly length: string; readonly metadata: string } {
  if (!view.connection.hasTable(table)) return { join: "", length: "1.0", metadata: "NULL" };
  return { join: `LEFT JOIN ${table} AS x ON x.owner = i.owner`, length: "coalesce(x.length, 1.0)", metadata: "x.metadata" };
}

/** The filter as a condition on `__service_vector_item AS i` with its details; a vector without metadata counts as `{}`. */
function conditionOf(view: View, filter: string): { readonly sql: string; readonly params: readonly SqlParameter[] } {
  const bindings = new Bindings();
  prepareQueries(view.connection);
  const { metadata } = details(view);
  const sql = `EXISTS (SELECT 1 FROM (SELECT coalesce(${metadata}, '{}') AS metadata) AS f WHERE ${filterSql(parseFilter("filter", filter), "f.metadata", bindings)})`;
  return { sql, params: Object.keys(bindings.values).length > 0 ? [bindings.values] : [] };
}

/** The vector of an id, or undefined. Its numbers are direction times length, to within rounding. */
export function getVector(view: View, input: { readonly collection: string; readonly id: string }): (VectorItem & { readonly embedding: Float32Array }) | undefined {
  checkText("id", input.id, limits.vectorIdBytesMax);
  const space = findCollection(view, input.collection);
  const owner = space && ownerOf(view, space, input.id);
  if (!space || owner === undefined) return undefined;
  const { join, length, metadata } = details(view);
  const row = view.connection.get<{ embedding: Uint8Array; length: number; metadata: string | null }>(
    `SELECT v.embedding, ${length} AS length, ${metadata} AS metadata
     FROM __service_vector_item AS i ${join} JOIN __service_vector AS v ON v.space = i.space AND v.owner = i.owner WHERE i.owner = ?`,
    owner,
  );
  assert(row, "every item of a collection has a vector");
  const unit = vectorOfStored({ owner, embedding: row.embedding }, space.dimension);
  return { id: input.id, embedding: unit.map((value) => value * row.length), ...(row.metadata !== null && { metadata: row.metadata }) };
}

function cursorAfter(id: string): string {
  return Buffer.from(bytesOf(id)).toString("base64url");
}

function idOfCursor(cursor: string): string {
  const bytes = Buffer.from(cursor, "base64url");
  const id = utf8Of(bytes);
  if (id === undefined || id === "" || bytes.toString("base64url") !== cursor) throw invalid("cursor must be the next_cursor of an earlier page of the collection");
  return id;
}

/** A page of a collection by id. `limit` above the most allowed is cut to it. */
export function listVectors(view: View, input: { readonly collection: string; readonly limit?: number; readonly cursor?: string }): { readonly vectors: readonly VectorItem[]; readonly nextCursor?: string } {
  const limit = input.limit ?? limits.vectorListDefault;
  if (!Number.isInteger(limit) || limit < 1) throw invalid(`limit must be a whole number from 1; at most ${limits.vectorListMax} vectors are on a page`);
  const after = input.cursor === undefined ? "" : idOfCursor(input.cursor);
  const space = findCollection(view, input.collection);
  if (!space) return { vectors: [] };
  const page = Math.min(limit, limits.vectorListMax);
  const { join, metadata } = details(view);
  const rows = view.connection.all<{ id: string; metadata: string | null }>(
    `SELECT i.id, ${metadata} AS metadata FROM __service_vector_item AS i ${join} WHERE i.space = ? AND i.id > ? ORDER BY i.id LIMIT ?`,
    space.space,
    after,
    page + 1,
  );
  let bytes = 0;
  const beyond = rows.findIndex((row, at) => at === page || ((bytes += (row.metadata?.length ?? 0) + row.id.length) > limits.vectorListBytesMax && at > 0));
  const shown = beyond < 0 ? rows : rows.slice(0, beyond);
  const vectors = shown.map((row) => ({ id: row.id, ...(row.metadata !== null && { metadata: row.metadata }) }));
  return beyond < 0 ? { vectors } : { vectors, nextCursor: cursorAfter(vectors.at(-1)!.id) };
}

/** What to delete: the vectors of these ids, or those that meet a filter, from the cursor on. */
export interface VectorDeletion {
  readonly collection: string;
  readonly ids?: readonly string[];
  /** JSON text. */
  readonly filter?: string;
  readonly cursor?: string;
}

/** Deletes vectors, a bounded number of them; `nextCursor` is there while more may meet the filter. */
export function removeVectors(tx: Tx, { collection, ids = [], filter, cursor }: VectorDeletion): { readonly deleted: number; readonly nextCursor?: string } {
  if (ids.length > 0 === (filter !== undefined)) throw invalid("give either ids or filter; an empty filter holds of every vector");
  if (ids.length > limits.vectorBatchMax) throw invalid(`ids has ${ids.length} items; at most ${limits.vectorBatchMax} are allowed`);
  if (cursor !== undefined && filter === undefined) throw invalid("cursor goes with filter only");
  for (const [at, id] of ids.entries()) checkText(`ids[${at}]`, id, limits.vectorIdBytesMax);
  const after = cursor === undefined ? "" : idOfCursor(cursor);
  const space = findCollection(tx, collection);
  if (filter !== undefined) parseFilter("filter", filter);
  if (!space) return { deleted: 0 };
  if (filter !== undefined) return removeMatching(tx, space, filter, after);
  const owners = [...new Set(ids)].flatMap((id) => ownerOf(tx, space, id) ?? []);
  for (const owner of owners) removeOwner(tx, space, owner);
  return { deleted: owners.length };
}

/** Looks at so many vectors as a command may, and deletes those that meet the filter. */
function removeMatching(tx: Tx, space: VectorSpace, filter: string, after: string): { readonly deleted: number; readonly nextCursor?: string } {
  const { sql, params } = conditionOf(tx, filter);
  const { join } = details(tx);
  const looked = tx.connection.all<{ owner: number; id: string; holds: number }>(
    `SELECT i.owner, i.id, ${sql} AS holds FROM __service_vector_item AS i ${join} WHERE i.space = ? AND i.id > ? ORDER BY i.id LIMIT ?`,
    ...params,
    space.space,
    after,
    limits.vectorDeleteLooksMax,
  );
  const doomed = looked.filter(({ holds }) => holds === 1).slice(0, limits.vectorBatchMax);
  for (const { owner } of doomed) removeOwner(tx, space, owner);
  const isFull = doomed.length === limits.vectorBatchMax;
  const last = isFull ? doomed.at(-1) : looked.length === limits.vectorDeleteLooksMax ? looked.at(-1) : undefined;
  return { deleted: doomed.length, ...(last && { nextCursor: cursorAfter(last.id) }) };
}

/** Deletes the vector of an id, if there is one. */
export function removeVector(tx: Tx, input: { readonly collection: string; readonly id: string }): { readonly deleted: number } {
  return removeVectors(tx, { collection: input.collection, ids: [input.id] });
}

/** A vector found, and how far it is by the metric. */
export interface VectorHit extends VectorItem {
  readonly distance: number;
}

interface VectorSearch {
  readonly collection: string;
  readonly vector: Float32Array;
  readonly k?: number;
  /** JSON text. */
  readonly filter?: string;
  readonly metric?: string;
}

/** The vectors nearest to a vector, nearest first. An unknown collection has none. `k` above the limit is cut to it. */
export function searchVectors(view: View, { collection, vector, k = limits.vectorSearchDefault, filter, metric = "cosine" }: VectorSearch): { readonly hits: readonly VectorHit[] } {
  checkCollectionName("collection", collection);
  checkEmbedding("vector", vector);
  if (!Number.isInteger(k) || k < 1) throw invalid(`k must be a whole number from 1; at most ${limits.vectorSearchMax} hits are given`);
  const known = vectorMetrics.find((name) => name === metric);
  if (known === undefined) throw invalid(`metric must be ${vectorMetrics.join(", ")}`);
  if (filter !== undefined) parseFilter("filter", filter);
  const space = findCollection(view, collection);
  if (!space) return { hits: [] };
  checkDimension("vector", vector, collection, space);
  const allowed = filter === undefined ? undefined : filterOf(view, filter);
  const found = ranked(view, space, { vector, want: Math.min(k, limits.vectorSearchMax), metric: known, allowed });
  return { hits: found.map(({ owner, distance }) => ({ ...itemOf(view, owner), distance })) };
}

function filterOf(view: View, filter: string): OwnerFilter {
  const { sql, params } = conditionOf(view, filter);
  const { join } = details(view);
  const query = `SELECT i.owner FROM json_each(?) AS asked CROSS JOIN __service_vector_item AS i ON i.owner = asked.value ${join} WHERE ${sql}`;
  return (owners) => new Set(view.connection.all<{ owner: number }>(query, JSON.stringify(owners), ...params).map(({ owner }) => owner));
}

function itemOf(view: View, owner: number): VectorItem {
  const { join, metadata } = details(view);
  const item = view.connection.get<{ id: string; metadata: string | null }>(`SELECT i.id, ${metadata} AS metadata FROM __service_vector_item AS i ${join} WHERE i.owner = ?`, owner);
  assert(item, "every vector of a collection belongs to an item");
  return { id: item.id, ...(item.metadata !== null && { metadata: item.metadata }) };
}

interface Ranking {
  readonly vector: Float32Array;
  readonly want: number;
  readonly metric: VectorMetric;
  readonly allowed: OwnerFilter | undefined;
}

interface Ranked {
  readonly owner: number;
  readonly distance: number;
}

/**
 * The nearest by the metric. Directions are searched, as for cosine; more of them are asked for until no direction beyond
 * the last one could hold a vector that is nearer than the ones that are wanted, whatever its length.
 */
function ranked(view: View, space: VectorSpace, { vector, want, metric, allowed }: Ranking): readonly Ranked[] {
  if (metric === "cosine") return nearest(view, space, vector, want, allowed).hits.map(({ owner, similarity }) => ({ owner, distance: 1 - similarity }));
  const length = lengthOf(vector);
  const range = lengthRange(view, space);
  for (let ask = 4 * want + 64; ; ask *= 8) {
    const most = Math.min(ask, limits.vectorMetricLooksMax);
    const { hits } = nearest(view, space, vector, most, allowed);
    const lengths = lengthsOf(view, hits.map(({ owner }) => owner));
    const found = hits.map(({ owner, similarity }) => ({ owner, distance: distanceBy(metric, similarity, length, lengths.get(owner) ?? 1) }));
    found.sort((a, b) => a.distance - b.distance || a.owner - b.owner);
    const isAll = hits.length < most || most === limits.vectorMetricLooksMax;
    const last = found[want - 1];
    if (isAll || (last && last.distance <= leastDistance(metric, hits.at(-1)!.similarity, length, range))) return found.slice(0, want);
  }
}

function distanceBy(metric: "dot" | "euclid", similarity: number, length: number, other: number): number {
  if (metric === "dot") return -(similarity * length * other);
  return Math.sqrt(Math.max(0, length * length + other * other - 2 * length * other * similarity));
}

/** The least distance of a vector of some length in the range whose similarity is at most this. */
function leastDistance(metric: "dot" | "euclid", similarity: number, length: number, { least, most }: LengthRange): number {
  if (metric === "dot") return distanceBy(metric, similarity, length, similarity > 0 ? most : least);
  return distanceBy(metric, similarity, length, Math.min(most, Math.max(least, length * similarity)));
}

interface LengthRange {
  readonly least: number;
  readonly most: number;
}

/** Between which lengths the vectors of a space lie. */
function lengthRange(view: View, { space }: VectorSpace): LengthRange {
  if (!view.connection.hasTable(table)) return { least: 1, most: 1 };
  const at = (order: "ASC" | "DESC"): number => view.connection.get<{ length: number }>(`SELECT length FROM ${table} WHERE space = ? ORDER BY length ${order} LIMIT 1`, space)?.length ?? 1;
  return { least: Math.min(1, at("ASC")), most: Math.max(1, at("DESC")) };
}

function lengthsOf(view: View, owners: readonly number[]): ReadonlyMap<number, number> {
  if (!view.connection.hasTable(table)) return new Map();
  const rows = view.connection.all<{ owner: number; length: number }>(`SELECT x.owner, x.length FROM json_each(?) AS asked CROSS JOIN ${table} AS x ON x.owner = asked.value`, JSON.stringify(owners));
  return new Map(rows.map(({ owner, length }) => [owner, length]));
}
