/**
 * The document store: JSON documents in collections that are made on first use.
 *
 * Always true: a stored document is an object with a string `_id` that no other of its collection has, in JSON text
 * without spaces whose numbers are as the client wrote them; a command that changes nothing writes nothing. Dots and
 * nested `$` in field names are stored, but no path reaches a name with a dot. Must not know: HTTP, filters' inner
 * form.
 */
import { assert } from "../../base/faults/assert.ts";
import { invalid, ServiceError } from "../../base/faults/errors.ts";
import { utf8Length } from "../../base/bytes.ts";
import { limits } from "../../base/limits.ts";
import { checkCollectionName, checkText } from "../../format/core/names.ts";
import type { SqlValue } from "../../sqlite/connection/connection.ts";
import { parseFilter, type Filter } from "./docs-filter.ts";
import {
  addEntries,
  findCandidates,
  collectionCount,
  createCollection,
  createIndex,
  docAt,
  findCollection,
  removeEntries,
  type Collection,
} from "./docs-index.ts";
import { getField, isObject, jsonText, parseJson, setField, storedJson, type JsonObject } from "../core/docs-json.ts";
import { idField, isIndexable, parsePath } from "./docs-path.ts";
import { Bindings, filterSql, orderSql, prepareQueries } from "./docs-query.ts";
import { applyUpdate, parseUpdate, type Update } from "./docs-update.ts";
import { note } from "../core/change-notes.ts";
import type { Tx, View } from "../core/transaction.ts";

export { docsSchema } from "./docs-index.ts";

export const docsDefault = 100;
const docsMax = 1000;
const docSkipMax = 1_000_000;
export const docBytesMax = 1024 * 1024;
const sortKeysMax = 16;
export const docIndexesMax = 32;
export const docIdBytesMax = 512;
/** One find's documents together; a page beyond it is refused, so that one answer never fills the heap. */
export const docsResultBytesMax = 32 * 1024 * 1024;
/** Documents that one `multi` update or delete may touch: it holds the database's writer while it runs. */
const docsMultiMax = 200_000;

/** One key of a sort: ascending 1, descending -1. */
export interface SortKey {
  readonly path: string;
  readonly direction: number;
}

function openCollection(tx: Tx, name: string): Collection {
  const found = findCollection(tx, name);
  if (found) return found;
  if (collectionCount(tx) >= limits.collectionsMax)
    throw invalid(`the database already has ${limits.collectionsMax} collections, the most allowed`);
  return createCollection(tx, name);
}

/**
 * Adds the documents, all or none, and gives their ids in order. A document without `_id` gets a ULID. Throws
 * ServiceError `already_exists` when an `_id` is taken.
 */
export function insertDocs(
  tx: Tx,
  input: { readonly collection: string; readonly docs: readonly string[] },
): { readonly ids: readonly string[] } {
  checkCollectionName("collection", input.collection);
  if (input.docs.length < 1 || input.docs.length > limits.docsInsertMax)
    throw invalid(`docs must hold 1 to ${limits.docsInsertMax} documents`);
  const docs = input.docs.map((text, index) => newDoc(tx, `docs[${index}]`, text));
  const collection = openCollection(tx, input.collection);
  for (const [index, { id, text, value }] of docs.entries()) {
    const { changes, lastInsertRowid } = tx.connection.run(
      `INSERT INTO ${collection.table} (id, doc) VALUES (?, ?) ON CONFLICT (id) DO NOTHING`,
      id,
      text,
    );
    if (changes === 0)
      throw new ServiceError(
        "already_exists",
        `docs[${index}].${idField} is already the ${idField} of a document in this collection`,
      );
    addEntries(tx, collection.indexes, lastInsertRowid, value);
    note(tx, "doc", "created", input.collection, id);
  }
  return { ids: docs.map((doc) => doc.id) };
}

interface NewDoc {
  readonly id: string;
  readonly text: string;
  readonly value: JsonObject;
}

function newDoc(tx: Tx, name: string, input: string): NewDoc {
  const { value, text } = parseJson(name, input);
  if (!isObject(value)) throw invalid(`${name} must be an object`);
  if (Object.keys(value).some((field) => field.startsWith("$")))
    throw invalid(`${name} has a field whose name starts with $; such names belong to operators`);
  const given = getField(value, idField);
  if (given === undefined) {
    const id = tx.newId();
    const withId = `{${JSON.stringify(idField)}:${JSON.stringify(id)}${text === "{}" ? "" : ","}${text.slice(1)}`;
    setField(value, idField, id);
    return { id, text: checkSize(name, withId), value };
  }
  if (typeof given !== "string") throw invalid(`${name}.${idField} must be a string`);
  return { id: checkText(`${name}.${idField}`, given, docIdBytesMax), text: checkSize(name, text), value };
}

function checkSize(name: string, text: string): string {
  if (utf8Length(text) > docBytesMax) throw invalid(`${name} must be at most ${docBytesMax} bytes of JSON`);
  return text;
}

/** A statement with its named parameters. */
interface Query {
  readonly sql: string;
  readonly values: Record<string, SqlValue>;
}

/** A SELECT of `columns` over the documents `d` that match. `sort` falls back to the order of insertion. */
function selectDocs(
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

/** The documents that match, in the order of `sort`, then of insertion. `limit` above the most allowed is cut to it. */
export function findDocs(
  view: View,
  input: {
    readonly collection: string;
    readonly filter?: string;
    readonly sort?: readonly SortKey[];
    readonly limit?: number;
    readonly skip?: number;
  },
): { readonly docs: readonly string[] } {
  checkCollectionName("collection", input.collection);
  const filter = parseFilter("filter", input.filter ?? "{}");
  const sort = checkSort(input.sort ?? []);
  const limit = input.limit ?? docsDefault;
  const skip = input.skip ?? 0;
  if (!Number.isInteger(limit) || limit < 1)
    throw invalid(`limit must be a whole number from 1; at most ${docsMax} documents are given`);
  if (!Number.isInteger(skip) || skip < 0 || skip > docSkipMax)
    throw invalid(`skip must be an integer from 0 to ${docSkipMax}`);
  const collection = findCollection(view, input.collection);
  if (!collection) return { docs: [] };
  const query = selectDocs(collection, sort.length > 0 ? "d.n" : "d.doc", filter, sort, Math.min(limit, docsMax), skip);
  return { docs: collect(view, collection, query, sort.length > 0) };
}

/** Runs the query. A sorted one gives row numbers, so that the sorter holds keys and not whole documents. */
function collect(view: View, collection: Collection, query: Query, sorted: boolean): readonly string[] {
  const docs: string[] = [];
  let bytes = 0;
  for (const found of prepareRows(view, query).iterate(query.values) as Iterable<string | number>) {
    const doc = sorted ? docAt(view, collection, found as number) : (found as string);
    bytes += utf8Length(doc);
    if (bytes > docsResultBytesMax)
      throw invalid(
        `the documents found are larger than ${docsResultBytesMax} bytes together; ask for fewer with limit`,
      );
    docs.push(doc);
  }
  return docs;
}

function prepareRows(view: View, query: Query) {
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

/** The row numbers of what matches: the first one, or (`multi`) all. */
function matchingRows(tx: Tx, collection: Collection, filter: Filter, multi: boolean): readonly number[] {
  const query = selectDocs(collection, "d.n", filter, [], multi ? docsMultiMax + 1 : 1, 0);
  const rows = prepareRows(tx, query).all(query.values) as number[];
  if (rows.length > docsMultiMax)
    throw invalid(
      `filter matches more than ${docsMultiMax} documents, the most that one command may change; narrow it`,
    );
  return rows;
}

/**
 * Changes the first document that matches, or (`multi`) all. `modified` counts those that are now written differently.
 */
export function updateDocs(
  tx: Tx,
  input: { readonly collection: string; readonly filter: string; readonly update: string; readonly multi: boolean },
): { readonly matched: number; readonly modified: number } {
  checkCollectionName("collection", input.collection);
  const filter = parseFilter("filter", input.filter);
  const update = parseUpdate("update", input.update);
  const collection = findCollection(tx, input.collection);
  if (!collection) return { matched: 0, modified: 0 };
  const rows = matchingRows(tx, collection, filter, input.multi);
  return { matched: rows.length, modified: rows.filter((row) => updateDoc(tx, collection, row, update)).length };
}

function updateDoc(tx: Tx, collection: Collection, row: number, update: Update): boolean {
  const before = docAt(tx, collection, row);
  const { value: doc, text } = parseJson("the stored document", before);
  assert(isObject(doc), "a stored document is an object");
  applyUpdate(update, doc);
  const after = jsonText(doc);
  // Against what was read and not what was stored: reading moves fields whose names are numbers to the front.
  if (after === text) return false;
  checkSize("the updated document", after);
  const touched = collection.indexes.filter((index) => update.fields.has(index.path.components[0]!));
  writeOver(tx, { ...collection, indexes: touched }, { row, doc: before }, { text: after, value: doc });
  return true;
}

/** Puts a document in the place of another, and its entries into the collection's indexes. */
function writeOver(
  tx: Tx,
  { name, table, indexes }: Pick<Collection, "name" | "table" | "indexes">,
  before: StoredDoc,
  after: Pick<NewDoc, "text" | "value">,
): void {
  removeEntries(tx, indexes, before.row, storedJson(before.doc));
  tx.connection.run(`UPDATE ${table} SET doc = ? WHERE n = ?`, after.text, before.row);
  note(tx, "doc", "updated", name, idAt(tx, table, before.row));
  addEntries(tx, indexes, before.row, after.value);
}

/** Puts the document, JSON text with the `_id` of the one that is there, in its place; the same one changes nothing. */
export function replaceDoc(tx: Tx, name: string, before: StoredDoc, input: string): void {
  const after = newDoc(tx, "doc", input);
  if (after.text !== before.doc) writeOver(tx, findCollection(tx, name)!, before, after);
}

/** Removes the first document that matches, or (`multi`) all. */
export function deleteDocs(
  tx: Tx,
  input: { readonly collection: string; readonly filter: string; readonly multi: boolean },
): { readonly deleted: number } {
  checkCollectionName("collection", input.collection);
  const filter = parseFilter("filter", input.filter);
  const collection = findCollection(tx, input.collection);
  if (!collection) return { deleted: 0 };
  const rows = matchingRows(tx, collection, filter, input.multi);
  for (const row of rows) removeRow(tx, collection, row);
  return { deleted: rows.length };
}

function removeRow(tx: Tx, collection: Collection, row: number): void {
  if (collection.indexes.length > 0) removeEntries(tx, collection.indexes, row, storedJson(docAt(tx, collection, row)));
  note(tx, "doc", "deleted", collection.name, idAt(tx, collection.table, row));
  tx.connection.run(`DELETE FROM ${collection.table} WHERE n = ?`, row);
}

function idAt({ connection }: View, table: string, row: number): string {
  return connection.get<{ id: string }>(`SELECT id FROM ${table} WHERE n = ?`, row)!.id;
}

/** A document as it is stored, with its row. */
interface StoredDoc {
  readonly row: number;
  readonly doc: string;
}

/** The document of this id. */
export function findDoc(view: View, name: string, id: string): StoredDoc | undefined {
  const collection = findCollection(view, name);
  return collection && view.connection.get(`SELECT n AS row, doc FROM ${collection.table} WHERE id = ?`, id);
}

/** Removes the document of this id, if there is one. */
export function removeDoc(tx: Tx, name: string, id: string): void {
  const found = findDoc(tx, name, id);
  if (found) removeRow(tx, findCollection(tx, name)!, found.row);
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
