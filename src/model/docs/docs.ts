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
import { openCollection } from "./docs-catalog.ts";
import { parseFilter, type ElementFilter, type Filter } from "./docs-filter.ts";
import { prepareRows, selectDocs } from "./docs-find.ts";
import { addEntries, docAt, findCollection, removeEntries, type Collection } from "./docs-index.ts";
import {
  getField,
  isObject,
  jsonText,
  parseJson,
  setField,
  storedJson,
  type Json,
  type JsonObject,
} from "../core/docs-json.ts";
import { idField } from "./docs-path.ts";
import { Bindings, elementSql, prepareQueries } from "./docs-query.ts";
import { applyUpdate, equalParts, parseUpdate, type Update } from "./docs-update.ts";
import { putSubject } from "../core/subjects.ts";
import { note } from "../core/change-notes.ts";
import type { Tx, View } from "../core/transaction.ts";

export { docsSchema } from "./docs-index.ts";

export const docBytesMax = 1024 * 1024;
export const docIdBytesMax = 512;
/** Documents that one `multi` update or delete may touch: it holds the database's writer while it runs. */
const docsMultiMax = 200_000;

/**
 * Adds the documents, all or none, and gives their ids in order. A document without `_id` gets a ULID. Throws
 * ServiceError `already_exists` when an `_id` is taken.
 */
export function insertDocs(
  tx: Tx,
  input: { readonly collection: string; readonly docs: readonly string[]; readonly subject?: string },
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
    putSubject(tx, { kind: "document", place: collection.number, owner: lastInsertRowid }, input.subject);
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
 * Where none matches, `upsert` makes one of what the filter says that fields equal, and gives its id.
 */
export function updateDocs(
  tx: Tx,
  input: {
    readonly collection: string;
    readonly filter: string;
    readonly update: string;
    readonly multi: boolean;
    readonly upsert?: boolean;
  },
): { readonly matched: number; readonly modified: number; readonly upsertedId?: string } {
  checkCollectionName("collection", input.collection);
  const filter = parseFilter("filter", input.filter);
  const update = parseUpdate("update", input.update);
  const collection = findCollection(tx, input.collection);
  const rows = collection ? matchingRows(tx, collection, filter, input.multi) : [];
  if (rows.length === 0 && input.upsert === true)
    return { matched: 0, modified: 0, upsertedId: insertMade(tx, input.collection, filter, update) };
  return { matched: rows.length, modified: rows.filter((row) => updateDoc(tx, collection!, row, update)).length };
}

/** Inserts the document that an upsert makes. */
function insertMade(tx: Tx, collection: string, filter: Filter, update: Update): string {
  const doc = equalParts(filter);
  applyUpdate(update, doc, surroundings(tx, true));
  const { [idField]: id, ...others } = doc;
  // The _id comes first, as in documents that are given one.
  const text = jsonText(id === undefined ? doc : own([[idField, id], ...Object.entries(others)]));
  return insertDocs(tx, { collection, docs: [checkSize("the document that is made", text)] }).ids[0]!;
}

function own(entries: readonly (readonly [string, Json])[]): JsonObject {
  const object: JsonObject = {};
  for (const [field, value] of entries) setField(object, field, value);
  return object;
}

const surroundings = (tx: Tx, isInsert: boolean) => ({
  isInsert,
  matching: (elements: readonly Json[], filter: ElementFilter) => matchingElements(tx, elements, filter),
});

/** The positions of the elements that meet the condition, by the same SQL as any other. */
function matchingElements(view: View, elements: readonly Json[], filter: ElementFilter): ReadonlySet<number> {
  const { connection } = view;
  prepareQueries(connection);
  const bindings = new Bindings();
  const holds = elementSql(filter, "e0", bindings);
  const from = `json_each(${bindings.bind(jsonText([...elements]))}) AS e0`;
  const keys = connection.prepared(`SELECT e0.key FROM ${from} WHERE ${holds}`).pluck().all(bindings.values);
  return new Set(keys as number[]);
}

function updateDoc(tx: Tx, collection: Collection, row: number, update: Update): boolean {
  const before = docAt(tx, collection, row);
  const { value: doc, text } = parseJson("the stored document", before);
  assert(isObject(doc), "a stored document is an object");
  applyUpdate(update, doc, surroundings(tx, false));
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

/** Puts a document back as it was stored, under the row that it has, had, or is given; gives the row. */
export function restoreDoc(
  tx: Tx,
  collection: Collection,
  { row, id, doc }: StoredDoc & { readonly id: string },
): number {
  const { connection } = tx;
  const { table, indexes } = collection;
  const value = storedJson(doc);
  const present = connection.get<StoredDoc>(`SELECT n AS row, doc FROM ${table} WHERE id = ?`, id);
  if (present) {
    if (present.doc !== doc) writeOver(tx, collection, present, { text: doc, value: value as JsonObject });
    return present.row;
  }
  const isTaken = connection.get(`SELECT 1 FROM ${table} WHERE n = ?`, row) !== undefined;
  const { lastInsertRowid } = connection.run(
    `INSERT INTO ${table} (n, id, doc) VALUES (?, ?, ?)`,
    isTaken ? null : row,
    id,
    doc,
  );
  addEntries(tx, indexes, lastInsertRowid, value);
  note(tx, "doc", "created", collection.name, id);
  return lastInsertRowid;
}

/** Removes the document of this id, if there is one. */
export function removeDoc(tx: Tx, name: string, id: string): void {
  const found = findDoc(tx, name, id);
  if (found) removeRow(tx, findCollection(tx, name)!, found.row);
}
