/**
 * The public collections of vectors: stored under ids of the clients', given, listed and deleted by them.
 *
 * Always true: a vector has an item, and an item a vector; its direction is a row of the collection's space, and the
 * rest a row of model/vectors/vector-details. The three go together. Must not know: how vectors are searched
 * (model/vectors/vector-search).
 */
import { assert } from "../../base/faults/assert.ts";
import { encodeUtf8, decodeUtf8 } from "../../base/bytes.ts";
import { invalid } from "../../base/faults/errors.ts";
import { limits } from "../../base/limits.ts";
import { checkCollectionName, checkText } from "../../format/core/names.ts";
import { parseFilter } from "../docs/docs-filter.ts";
import { readMetadata } from "../docs/memory-metadata.ts";
import type { Tx, View } from "../core/transaction.ts";
import { buildCondition, details, computeLength, putDetail, removeDetail } from "./vector-details.ts";
import { decodeStoredVector } from "../index/vector-index.ts";
import {
  checkEmbedding,
  deleteVector,
  findSpace,
  openSpace,
  putUnitVector,
  putVector,
  type VectorSpace,
} from "./vectors.ts";

export const vectorIdBytesMax = 256;
const vectorListDefault = 100;
const vectorListMax = 1_000;
/** Of ids and metadata on a page, unless a single vector has more. */
const vectorListBytesMax = 2 * 1024 * 1024;
/** Vectors that one deletion by a filter looks at. */
const vectorDeleteLooksMax = 20_000;

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

/** Refuses a vector that has not the dimension of its collection. `field` says which one. */
export function checkDimension(field: string, embedding: Float32Array, collection: string, space: VectorSpace): void {
  if (embedding.length === space.dimension) return;
  throw invalid(
    `${field} has ${embedding.length} numbers, but collection ${collection} has ` +
      `dimension ${space.dimension}, fixed by its first vector`,
  );
}

/** The collection's space, made with this dimension when there is none yet. */
export function openCollection(tx: Tx, collection: string, dimension: number): VectorSpace {
  const found = findSpace(tx, "collection", collection);
  if (found) return found;
  const { n } = tx.connection.get<{ n: number }>(
    "SELECT count(*) AS n FROM __service_vector_space WHERE kind = 'collection'",
  )!;
  if (n >= limits.collectionsMax)
    throw invalid(
      `collection would be one too many: a database has at most ${limits.collectionsMax} vector collections`,
    );
  return openSpace(tx, "collection", collection, dimension);
}

/** The vectors of a collection, or undefined while it has none. */
export function findCollection(view: View, collection: string): VectorSpace | undefined {
  checkCollectionName("collection", collection);
  return findSpace(view, "collection", collection);
}

/**
 * Stores vectors under clients' ids, each in place of any before it. Refuses all of them for a dimension that is not
 * the collection's.
 */
export function upsertVectors(
  tx: Tx,
  input: { readonly collection: string; readonly vectors: readonly VectorInput[]; readonly field?: string },
): Record<string, never> {
  const { collection, vectors, field = "vectors" } = input;
  checkCollectionName("collection", collection);
  if (vectors.length === 0 || vectors.length > limits.vectorBatchMax)
    throw invalid(`${field} must hold 1 to ${limits.vectorBatchMax} vectors`);
  vectors.forEach((vector, at) => upsertOne(tx, collection, vector, `${field}[${at}].`));
  return {};
}

/** As upsertVectors, for one vector whose fields are the request's own. */
export function upsertVector(
  tx: Tx,
  { collection, ...vector }: VectorInput & { readonly collection: string },
): Record<string, never> {
  checkCollectionName("collection", collection);
  upsertOne(tx, collection, vector, "");
  return {};
}

function upsertOne(tx: Tx, collection: string, { id, embedding, metadata: given }: VectorInput, place: string): void {
  checkText(`${place}id`, id, vectorIdBytesMax);
  checkEmbedding(`${place}embedding`, embedding);
  const metadata = given === undefined ? undefined : readMetadata(`${place}metadata`, given);
  const space = openCollection(tx, collection, embedding.length);
  checkDimension(`${place}embedding`, embedding, collection, space);
  const owner = openItem(tx, space, id);
  putVector(tx, space, owner, embedding);
  putDetail(tx, space, owner, computeLength(embedding), metadata);
}

/** The owner of an id's vector, which the caller stores. */
function openItem(tx: Tx, space: VectorSpace, id: string): number {
  const found = findOwner(tx, space, id);
  if (found !== undefined) return found;
  return tx.connection.run("INSERT INTO __service_vector_item (space, id) VALUES (?, ?)", space.space, id)
    .lastInsertRowid;
}

/** Stores a vector as it was stored before: its direction, of the collection's dimension, and its length apart. */
export function restoreVector(
  tx: Tx,
  collection: string,
  { id, unit, length, metadata }: { id: string; unit: Float32Array; length: number; metadata: string | undefined },
): void {
  const space = openCollection(tx, collection, unit.length);
  const owner = openItem(tx, space, id);
  putUnitVector(tx, space, owner, unit);
  putDetail(tx, space, owner, length, metadata);
}

function findOwner(view: View, { space }: VectorSpace, id: string): number | undefined {
  return view.connection.get<{ owner: number }>(
    "SELECT owner FROM __service_vector_item WHERE space = ? AND id = ?",
    space,
    id,
  )?.owner;
}

/** The vector of this id as it is stored, and its owner. */
export function findCollectionVector(
  view: View,
  collection: string,
  id: string,
): { readonly owner: number; readonly embedding: Uint8Array; readonly metadata: string | null } | undefined {
  const space = findCollection(view, collection);
  const { join, metadata } = details(view);
  return (
    space &&
    view.connection.get(
      `SELECT i.owner, v.embedding, ${metadata} AS metadata
       FROM __service_vector_item AS i
       CROSS JOIN __service_vector AS v ON v.space = i.space AND v.owner = i.owner ${join}
       WHERE i.space = ? AND i.id = ?`,
      space.space,
      id,
    )
  );
}

function removeOwner(tx: Tx, space: VectorSpace, owner: number): void {
  deleteVector(tx, space, owner);
  removeDetail(tx, owner);
  tx.connection.run("DELETE FROM __service_vector_item WHERE owner = ?", owner);
}

/** The vector of an id, or undefined. Its numbers are direction times length, to within rounding. */
export function getVector(
  view: View,
  input: { readonly collection: string; readonly id: string },
): (VectorItem & { readonly embedding: Float32Array }) | undefined {
  checkText("id", input.id, vectorIdBytesMax);
  const space = findCollection(view, input.collection);
  const owner = space && findOwner(view, space, input.id);
  if (!space || owner === undefined) return undefined;
  const { join, length, metadata } = details(view);
  const row = view.connection.get<{ embedding: Uint8Array; length: number; metadata: string | null }>(
    `SELECT v.embedding, ${length} AS length, ${metadata} AS metadata
     FROM __service_vector_item AS i ${join} JOIN __service_vector AS v ON v.space = i.space AND v.owner = i.owner
       WHERE i.owner = ?`,
    owner,
  );
  assert(row, "every item of a collection has a vector");
  const unit = decodeStoredVector({ owner, embedding: row.embedding }, space.dimension);
  return {
    id: input.id,
    embedding: unit.map((value) => value * row.length),
    ...(row.metadata !== null && { metadata: row.metadata }),
  };
}

function cursorAfter(id: string): string {
  return Buffer.from(encodeUtf8(id)).toString("base64url");
}

function decodeCursor(cursor: string): string {
  const bytes = Buffer.from(cursor, "base64url");
  const id = decodeUtf8(bytes);
  if (id === undefined || id === "" || bytes.toString("base64url") !== cursor)
    throw invalid("cursor must be the next_cursor of an earlier page of the collection");
  return id;
}

/** A page of a collection by id. `limit` above the most allowed is cut to it. */
export function listVectors(
  view: View,
  input: { readonly collection: string; readonly limit?: number; readonly cursor?: string },
): { readonly vectors: readonly VectorItem[]; readonly nextCursor?: string } {
  const limit = input.limit ?? vectorListDefault;
  if (!Number.isInteger(limit) || limit < 1)
    throw invalid(`limit must be a whole number from 1; at most ${vectorListMax} vectors are on a page`);
  const after = input.cursor === undefined ? "" : decodeCursor(input.cursor);
  const space = findCollection(view, input.collection);
  if (!space) return { vectors: [] };
  const page = Math.min(limit, vectorListMax);
  const { join, metadata } = details(view);
  const rows = view.connection.all<{ id: string; metadata: string | null }>(
    `SELECT i.id, ${metadata} AS metadata FROM __service_vector_item AS i ${join} WHERE i.space = ? AND ` +
      "i.id > ? ORDER BY i.id LIMIT ?",
    space.space,
    after,
    page + 1,
  );
  let bytes = 0;
  const beyond = rows.findIndex(
    (row, at) => at === page || ((bytes += (row.metadata?.length ?? 0) + row.id.length) > vectorListBytesMax && at > 0),
  );
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
export function removeVectors(
  tx: Tx,
  { collection, ids = [], filter, cursor }: VectorDeletion,
): { readonly deleted: number; readonly nextCursor?: string } {
  if (ids.length > 0 === (filter !== undefined))
    throw invalid("give either ids or filter; an empty filter holds of every vector");
  if (ids.length > limits.vectorBatchMax)
    throw invalid(`ids has ${ids.length} items; at most ${limits.vectorBatchMax} are allowed`);
  if (cursor !== undefined && filter === undefined) throw invalid("cursor goes with filter only");
  for (const [at, id] of ids.entries()) checkText(`ids[${at}]`, id, vectorIdBytesMax);
  const after = cursor === undefined ? "" : decodeCursor(cursor);
  const space = findCollection(tx, collection);
  if (filter !== undefined) parseFilter("filter", filter);
  if (!space) return { deleted: 0 };
  if (filter !== undefined) return removeMatching(tx, space, filter, after);
  const owners = [...new Set(ids)].flatMap((id) => findOwner(tx, space, id) ?? []);
  for (const owner of owners) removeOwner(tx, space, owner);
  return { deleted: owners.length };
}

/** Looks at as many vectors as a command may, and deletes those that meet the filter. */
function removeMatching(
  tx: Tx,
  space: VectorSpace,
  filter: string,
  after: string,
): { readonly deleted: number; readonly nextCursor?: string } {
  const { sql, params } = buildCondition(tx, filter);
  const { join } = details(tx);
  const looked = tx.connection.all<{ owner: number; id: string; holds: number }>(
    `SELECT i.owner, i.id, ${sql} AS holds FROM __service_vector_item AS i ${join} WHERE i.space = ? AND ` +
      "i.id > ? ORDER BY i.id LIMIT ?",
    ...params,
    space.space,
    after,
    vectorDeleteLooksMax,
  );
  const doomed = looked.filter(({ holds }) => holds === 1).slice(0, limits.vectorBatchMax);
  for (const { owner } of doomed) removeOwner(tx, space, owner);
  const isFull = doomed.length === limits.vectorBatchMax;
  const last = isFull ? doomed.at(-1) : looked.length === vectorDeleteLooksMax ? looked.at(-1) : undefined;
  return { deleted: doomed.length, ...(last && { nextCursor: cursorAfter(last.id) }) };
}

/** Deletes the vector of an id, if there is one. */
export function removeVector(
  tx: Tx,
  input: { readonly collection: string; readonly id: string },
): { readonly deleted: number } {
  return removeVectors(tx, { collection: input.collection, ids: [input.id] });
}
