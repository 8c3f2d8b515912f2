/**
 * Collections of vectors page by page, and deletions of many: by ids, or of those that meet a filter.
 *
 * Always true: a call looks at a bounded number of vectors and gives or deletes a bounded number, and says where to go
 * on. Must not know: how vectors are searched.
 */
import { encodeUtf8, decodeUtf8 } from "../../base/bytes.ts";
import { invalid } from "../../base/faults/errors.ts";
import { limits } from "../../base/limits.ts";
import { checkText } from "../../format/core/names.ts";
import { parseFilter } from "../docs/docs-filter.ts";
import type { Tx, View } from "../core/transaction.ts";
import { buildCondition, details } from "./vector-details.ts";
import {
  findCollection,
  findOwner,
  readItem,
  removeOwner,
  type NamedSpace,
  vectorIdBytesMax,
  type VectorItem,
} from "./vector-collections.ts";
import type { VectorSpace } from "./vectors.ts";

const vectorListDefault = 100;
const vectorListMax = 1_000;
/** Of ids, metadata and numbers on a page, unless a single vector has more. */
const vectorListBytesMax = 2 * 1024 * 1024;
/** Vectors that one call looks at for a filter. */
const vectorLooksMax = 20_000;

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

/** A vector that was looked at; `holds` is 1 where it meets the filter. */
interface Looked {
  readonly owner: number;
  readonly id: string;
  readonly metadataBytes: number;
  readonly holds: number;
}

/** The vectors after an id, in the order of their ids, at most `looks` of them. */
function look(
  view: View,
  space: VectorSpace,
  { filter, after, looks }: { readonly filter: string | undefined; readonly after: string; readonly looks: number },
): readonly Looked[] {
  const { join, metadata } = details(view);
  const { sql, params } = filter === undefined ? { sql: "1", params: [] } : buildCondition(view, filter);
  return view.connection.all<Looked>(
    `SELECT i.owner, i.id, coalesce(octet_length(${metadata}), 0) AS metadataBytes, ${sql} AS holds
     FROM __service_vector_item AS i ${join} WHERE i.space = ? AND i.id > ? ORDER BY i.id LIMIT ?`,
    ...params,
    space.space,
    after,
    looks,
  );
}

/** Which page of a collection. */
interface Listing {
  readonly collection: string;
  readonly limit?: number;
  readonly cursor?: string;
  /** JSON text. */
  readonly filter?: string;
  readonly includeVectors?: boolean;
}

/** A page of a collection by id. `limit` above the most allowed is cut to it. */
export function listVectors(
  view: View,
  { collection, limit = vectorListDefault, cursor, filter, includeVectors = false }: Listing,
): { readonly vectors: readonly VectorItem[]; readonly nextCursor?: string } {
  if (!Number.isInteger(limit) || limit < 1)
    throw invalid(`limit must be a whole number from 1; at most ${vectorListMax} vectors are on a page`);
  const after = cursor === undefined ? "" : decodeCursor(cursor);
  if (filter !== undefined) parseFilter("filter", filter);
  const space = findCollection(view, collection);
  if (!space) return { vectors: [] };
  const page = Math.min(limit, vectorListMax);
  const looks = filter === undefined ? page + 1 : vectorLooksMax;
  const looked = look(view, space, { filter, after, looks });
  const numbersBytes = includeVectors ? space.dimension * Float32Array.BYTES_PER_ELEMENT : 0;
  const shown: Looked[] = [];
  let bytes = 0;
  let isCut = false;
  for (const one of looked) {
    if (one.holds !== 1) continue;
    bytes += one.id.length + one.metadataBytes + numbersBytes;
    isCut = shown.length === page || (bytes > vectorListBytesMax && shown.length > 0);
    if (isCut) break;
    shown.push(one);
  }
  const vectors = shown.map(({ owner }) => readItem(view, space, owner, { includeVectors }));
  const last = isCut ? shown.at(-1) : looked.length === looks ? looked.at(-1) : undefined;
  return { vectors, ...(last && { nextCursor: cursorAfter(last.id) }) };
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
  if (filter !== undefined) return removeMatching(tx, { collection, space }, filter, after);
  const owners = [...new Set(ids)].flatMap((id) => findOwner(tx, space, id) ?? []);
  for (const owner of owners) removeOwner(tx, { collection, space }, owner);
  return { deleted: owners.length };
}

/** Looks at as many vectors as a command may, and deletes those that meet the filter. */
function removeMatching(
  tx: Tx,
  named: NamedSpace,
  filter: string,
  after: string,
): { readonly deleted: number; readonly nextCursor?: string } {
  const looked = look(tx, named.space, { filter, after, looks: vectorLooksMax });
  const doomed = looked.filter(({ holds }) => holds === 1).slice(0, limits.vectorBatchMax);
  for (const { owner } of doomed) removeOwner(tx, named, owner);
  const isFull = doomed.length === limits.vectorBatchMax;
  const last = isFull ? doomed.at(-1) : looked.length === vectorLooksMax ? looked.at(-1) : undefined;
  return { deleted: doomed.length, ...(last && { nextCursor: cursorAfter(last.id) }) };
}

/** Deletes the vector of an id, if there is one. */
export function removeVector(
  tx: Tx,
  input: { readonly collection: string; readonly id: string },
): { readonly deleted: number } {
  return removeVectors(tx, { collection: input.collection, ids: [input.id] });
}
