/**
 * What collections there are, and their indexes: listed, made and dropped.
 *
 * Always true: an index that is made holds every document that is there; one that is dropped leaves nothing. Must not
 * know: filters, HTTP.
 */
import { invalid } from "../../base/faults/errors.ts";
import { limits } from "../../base/limits.ts";
import { checkCollectionName } from "../../format/core/names.ts";
import type { Tx, View } from "../core/transaction.ts";
import {
  collectionCount,
  createCollection,
  createIndex,
  dropIndex,
  findCollection,
  tableOfCollection,
  type Collection,
} from "./docs-index.ts";
import { idField, isIndexable, parsePath } from "./docs-path.ts";

export const docIndexesMax = 32;
export const docCollectionsDefault = 100;
/** Where the count of a collection that is listed with others stops. */
const listedCountMax = 100_001;

/** The collection of this name, made if it does not exist. */
export function openCollection(tx: Tx, name: string): Collection {
  const found = findCollection(tx, name);
  if (found) return found;
  if (collectionCount(tx) >= limits.collectionsMax)
    throw invalid(`the database already has ${limits.collectionsMax} collections, the most allowed`);
  return createCollection(tx, name);
}

/** Makes an index on the path; one that is there already, or on `_id`, stays as it is. Makes the collection too. */
export function createDocIndex(
  tx: Tx,
  input: { readonly collection: string; readonly path: string },
): { readonly indexed: string } {
  checkCollectionName("collection", input.collection);
  const path = parsePath("path", input.path);
  if (!isIndexable(path))
    throw invalid("path must have no number between two names: what such a path reaches cannot be indexed");
  const collection = openCollection(tx, input.collection);
  if (path.text === idField || collection.indexes.some((index) => index.path.text === path.text))
    return { indexed: path.text };
  if (collection.indexes.length >= docIndexesMax)
    throw invalid(`the collection already has ${docIndexesMax} indexes, the most allowed`);
  createIndex(tx, collection, path);
  return { indexed: path.text };
}

/** The indexes of a collection, in the order in which they were made. */
export function listDocIndexes(
  view: View,
  input: { readonly collection: string },
): { readonly indexes: readonly { readonly path: string; readonly multikey: boolean }[] } {
  checkCollectionName("collection", input.collection);
  const collection = findCollection(view, input.collection);
  return { indexes: (collection?.indexes ?? []).map(({ path, multikey }) => ({ path: path.text, multikey })) };
}

/** Drops the index on the path; without one nothing changes. */
export function dropDocIndex(
  tx: Tx,
  input: { readonly collection: string; readonly path: string },
): { readonly dropped: boolean } {
  checkCollectionName("collection", input.collection);
  const path = parsePath("path", input.path);
  if (path.text === idField) throw invalid(`path must not be ${idField}: that index cannot be dropped`);
  const index = findCollection(tx, input.collection)?.indexes.find((one) => one.path.text === path.text);
  if (index) dropIndex(tx, index);
  return { dropped: index !== undefined };
}

/** The collections by name, with how much is in them, from the one after `after`. */
export function listDocCollections(
  view: View,
  input: { readonly limit?: number; readonly after?: string },
): { readonly collections: readonly { readonly name: string; readonly count: number; readonly indexes: number }[] } {
  const limit = input.limit ?? docCollectionsDefault;
  if (!Number.isInteger(limit) || limit < 1 || limit > limits.collectionsMax)
    throw invalid(`limit must be a whole number from 1 to ${limits.collectionsMax}`);
  if (input.after !== undefined) checkCollectionName("after", input.after);
  const rows = view.connection.all<{ number: number; name: string; indexes: number }>(
    `SELECT collection AS number, name,
       (SELECT count(*) FROM __service_doc_indexes AS i WHERE i.collection = c.collection) AS indexes
     FROM __service_doc_collections AS c WHERE name > ? ORDER BY name LIMIT ?`,
    input.after ?? "",
    limit,
  );
  return {
    collections: rows.map(({ number, name, indexes }) => {
      view.connection.look();
      const { count } = view.connection.get<{ count: number }>(
        `SELECT count(*) AS count FROM (SELECT 1 FROM ${tableOfCollection(number)} LIMIT ${listedCountMax})`,
      )!;
      return { name, count, indexes };
    }),
  };
}
