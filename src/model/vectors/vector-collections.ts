/**
 * The public collections of vectors: stored under ids of the clients', and given by them.
 *
 * Always true: a vector has an item, and an item a vector; its direction is a row of the collection's space, and the
 * rest a row of model/vectors/vector-details. The three go together. Must not know: how vectors are searched
 * (model/vectors/vector-search).
 */
import { assert } from "../../base/faults/assert.ts";
import { invalid } from "../../base/faults/errors.ts";
import { limits } from "../../base/limits.ts";
import { checkCollectionName, checkText } from "../../format/core/names.ts";
import { readMetadata } from "../docs/memory-metadata.ts";
import { putSubject, subjectOf } from "../core/subjects.ts";
import { note } from "../core/change-notes.ts";
import type { Tx, View } from "../core/transaction.ts";
import { details, computeLength, putDetail, removeDetail } from "./vector-details.ts";
import { declareMetric } from "./vector-metrics.ts";
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

/** A vector as it comes in. `metadata` is the JSON text of an object. */
export interface VectorInput {
  readonly id: string;
  readonly embedding: Float32Array;
  readonly metadata?: string;
  /** Whom it is about: absent, it keeps what it has; empty, it has none. */
  readonly subject?: string;
}

/** A vector as a list shows it. */
export interface VectorItem {
  readonly id: string;
  /** JSON text of an object; absent when it was stored with none, or is not asked for. */
  readonly metadata?: string;
  /** Its numbers, where they are asked for: direction times length, to within rounding. */
  readonly embedding?: Float32Array;
  /** Whom it is about; absent where that was not said. */
  readonly subject?: string;
}

/** Refuses a vector that has not the dimension of its collection. `field` says which one. */
export function checkDimension(field: string, embedding: Float32Array, collection: string, space: VectorSpace): void {
  if (embedding.length === space.dimension) return;
  throw invalid(
    `${field} has ${embedding.length} numbers, but collection ${collection} has ` +
      `dimension ${space.dimension}, fixed by its first vector`,
  );
}

/** The collection's space, made with this dimension when there is none yet; a metric that is given is declared. */
export function openCollection(tx: Tx, collection: string, dimension: number, metric: string | undefined): VectorSpace {
  const found = findSpace(tx, "collection", collection);
  if (found) {
    if (metric !== undefined) declareMetric(tx, collection, found, { metric, isNew: false });
    return found;
  }
  const { n } = tx.connection.get<{ n: number }>(
    "SELECT count(*) AS n FROM __service_vector_space WHERE kind = 'collection'",
  )!;
  if (n >= limits.collectionsMax)
    throw invalid(
      `collection would be one too many: a database has at most ${limits.collectionsMax} vector collections`,
    );
  const made = openSpace(tx, "collection", collection, dimension);
  if (metric !== undefined) declareMetric(tx, collection, made, { metric, isNew: true });
  return made;
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
  input: {
    readonly collection: string;
    readonly vectors: readonly VectorInput[];
    readonly field?: string;
    readonly metric?: string;
  },
): Record<string, never> {
  const { collection, vectors, field = "vectors", metric } = input;
  checkCollectionName("collection", collection);
  if (vectors.length === 0 || vectors.length > limits.vectorBatchMax)
    throw invalid(`${field} must hold 1 to ${limits.vectorBatchMax} vectors`);
  vectors.forEach((vector, at) => upsertOne(tx, { collection, metric }, vector, `${field}[${at}].`));
  return {};
}

/** As upsertVectors, for one vector whose fields are the request's own. */
export function upsertVector(
  tx: Tx,
  { collection, metric, ...vector }: VectorInput & { readonly collection: string; readonly metric?: string },
): Record<string, never> {
  checkCollectionName("collection", collection);
  upsertOne(tx, { collection, metric }, vector, "");
  return {};
}

function upsertOne(
  tx: Tx,
  { collection, metric }: { readonly collection: string; readonly metric: string | undefined },
  { id, embedding, metadata: given, subject }: VectorInput,
  place: string,
): void {
  checkText(`${place}id`, id, vectorIdBytesMax);
  checkEmbedding(`${place}embedding`, embedding);
  const metadata = given === undefined ? undefined : readMetadata(`${place}metadata`, given);
  const space = openCollection(tx, collection, embedding.length, metric);
  checkDimension(`${place}embedding`, embedding, collection, space);
  const owner = openItem(tx, space, id);
  putVector(tx, space, owner, embedding);
  putDetail(tx, space, owner, computeLength(embedding), metadata);
  putSubject(tx, { kind: "vector", owner }, subject, `${place}subject`);
  note(tx, "vector", "put", collection, id);
}

/** The owner of an id's vector, which the caller stores. */
function openItem(tx: Tx, space: VectorSpace, id: string): number {
  const found = findOwner(tx, space, id);
  if (found !== undefined) return found;
  return tx.connection.run("INSERT INTO __service_vector_item (space, id) VALUES (?, ?)", space.space, id)
    .lastInsertRowid;
}

/** A vector as it was stored before: its direction, of the collection's dimension, and its length apart. */
interface RestoredVector {
  readonly id: string;
  readonly unit: Float32Array;
  readonly length: number;
  readonly metadata: string | undefined;
  readonly subject: string | undefined;
}

/** Stores a vector as it was, in the place of what is there. */
export function restoreVector(
  tx: Tx,
  collection: string,
  { id, unit, length, metadata, subject = "" }: RestoredVector,
): void {
  const space = openCollection(tx, collection, unit.length, undefined);
  const owner = openItem(tx, space, id);
  putUnitVector(tx, space, owner, unit);
  putDetail(tx, space, owner, length, metadata);
  putSubject(tx, { kind: "vector", owner }, subject);
  note(tx, "vector", "put", collection, id);
}

/** Whose row the vector of this id is, or undefined. */
export function findOwner(view: View, { space }: VectorSpace, id: string): number | undefined {
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

/** The vectors of a collection, and its name. */
export interface NamedSpace {
  readonly collection: string;
  readonly space: VectorSpace;
}

/** Removes a vector with its item and its details. */
export function removeOwner(tx: Tx, { space, collection }: NamedSpace, owner: number): void {
  deleteVector(tx, space, owner);
  removeDetail(tx, owner);
  const { id } = tx.connection.get<{ id: string }>(
    "DELETE FROM __service_vector_item WHERE owner = ? RETURNING id",
    owner,
  )!;
  note(tx, "vector", "deleted", collection, id);
}

/** The vector of an id with its numbers, or undefined. */
export function getVector(
  view: View,
  input: { readonly collection: string; readonly id: string },
): VectorItem | undefined {
  checkText("id", input.id, vectorIdBytesMax);
  const space = findCollection(view, input.collection);
  const owner = space && findOwner(view, space, input.id);
  return space && owner !== undefined ? readItem(view, space, owner, { includeVectors: true }) : undefined;
}

/** A vector of the space as it is shown. */
export function readItem(
  view: View,
  space: VectorSpace,
  owner: number,
  shown: { readonly includeVectors?: boolean; readonly includeMetadata?: boolean },
): VectorItem {
  const { join, length, metadata } = details(view);
  const item = view.connection.get<{ id: string; length: number; metadata: string | null }>(
    `SELECT i.id, ${length} AS length, ${metadata} AS metadata FROM __service_vector_item AS i ${join}
     WHERE i.owner = ?`,
    owner,
  );
  assert(item, "every vector of a collection belongs to an item");
  const subject = subjectOf(view, { kind: "vector", owner });
  return {
    id: item.id,
    ...(subject !== undefined && { subject }),
    ...(item.metadata !== null && shown.includeMetadata !== false && { metadata: item.metadata }),
    ...(shown.includeVectors && { embedding: readNumbers(view, space, owner, item.length) }),
  };
}

function readNumbers(view: View, { space, dimension }: VectorSpace, owner: number, length: number): Float32Array {
  const row = view.connection.get<{ embedding: Uint8Array }>(
    "SELECT embedding FROM __service_vector WHERE space = ? AND owner = ?",
    space,
    owner,
  );
  assert(row, "every item of a collection has a vector");
  return decodeStoredVector({ owner, embedding: row.embedding }, dimension).map((value) => value * length);
}
