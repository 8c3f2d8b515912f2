/**
 * Single documents by their `_id`: got, put whole, deleted, each on a condition where the caller has one.
 *
 * Always true: the hash of a document is that of its JSON text as it is stored. Must not know: filters, HTTP.
 */
import { invalid } from "../../base/faults/errors.ts";
import { checkCollectionName, checkText } from "../../format/core/names.ts";
import { checkExpected, hashOf, type Expected } from "../core/expected.ts";
import { getField, isObject, parseJson } from "../core/docs-json.ts";
import { putSubject, subjectOf } from "../core/subjects.ts";
import type { Tx, View } from "../core/transaction.ts";
import { docIdBytesMax, findDoc, insertDocs, removeDoc, replaceDoc } from "./docs.ts";
import { findCollection } from "./docs-index.ts";
import { idField } from "./docs-path.ts";

/** A document by its names. */
interface DocName {
  readonly collection: string;
  readonly id: string;
}

const place = { one: "document", where: "with this _id" };

function checkDocName({ collection, id }: DocName): void {
  checkCollectionName("collection", collection);
  checkText("id", id, docIdBytesMax);
}

/** A document as it is stored, its hash, and whom it is about where that was said. */
interface FoundDoc {
  readonly doc: string;
  readonly hash: string;
  readonly subject?: string;
}

/** The document of this id; undefined when there is none. */
export function getDoc(view: View, name: DocName): FoundDoc | undefined {
  checkDocName(name);
  const found = findDoc(view, name.collection, name.id);
  if (!found) return undefined;
  const place = findCollection(view, name.collection)!.number;
  const subject = subjectOf(view, { kind: "document", place, owner: found.row });
  return { doc: found.doc, hash: hashOf(found.doc), ...(subject !== undefined && { subject }) };
}

/** Puts the document in the place of the one that has its `_id`, or adds it. The `_id` in it, if any, is the same. */
export function putDoc(
  tx: Tx,
  input: Expected & DocName & { readonly doc: string; readonly subject?: string },
): { readonly created: boolean; readonly hash: string } {
  checkDocName(input);
  const { collection, id } = input;
  const before = findDoc(tx, collection, id);
  checkExpected(before && (() => hashOf(before.doc)), input, place);
  const doc = withId(input.doc, id);
  if (before) replaceDoc(tx, collection, before, doc);
  else insertDocs(tx, { collection, docs: [doc] });
  const put = findDoc(tx, collection, id)!;
  const owner = { kind: "document", place: findCollection(tx, collection)!.number, owner: put.row } as const;
  putSubject(tx, owner, input.subject);
  return { created: !before, hash: hashOf(put.doc) };
}

/** Removes the document; without one nothing changes. */
export function deleteDoc(tx: Tx, input: Expected & DocName): { readonly deleted: boolean } {
  checkDocName(input);
  const before = findDoc(tx, input.collection, input.id);
  checkExpected(before && (() => hashOf(before.doc)), input, place);
  removeDoc(tx, input.collection, input.id);
  return { deleted: before !== undefined };
}

/** The JSON text with the `_id`, which comes first where it was left out. */
function withId(input: string, id: string): string {
  const { value, text } = parseJson("doc", input);
  if (!isObject(value)) throw invalid("doc must be an object");
  const given = getField(value, idField);
  if (given === id) return text;
  if (given !== undefined) throw invalid(`doc.${idField} must be the id that the document is put under, or left out`);
  return `{${JSON.stringify(idField)}:${JSON.stringify(id)}${text === "{}" ? "" : ","}${text.slice(1)}`;
}
