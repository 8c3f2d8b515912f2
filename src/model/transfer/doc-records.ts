/**
 * Documents as records: the collections with the paths of their indexes, then the documents in the order of their
 * insertion.
 *
 * Always true: what an index holds follows from the documents, and is made anew.
 */
import { invalid } from "../../base/faults/errors.ts";
import { checkCollectionName } from "../../format/core/names.ts";
import { limits } from "../../base/limits.ts";
import { getField, isObject, parseJson } from "../core/docs-json.ts";
import { subjectColumn, subjectOf } from "../core/subjects.ts";
import type { Tx, View } from "../core/transaction.ts";
import { putDoc } from "../docs/doc-by-id.ts";
import { createDocIndex, docIndexesMax, openCollection } from "../docs/docs-catalog.ts";
import { docIdBytesMax, findDoc } from "../docs/docs.ts";
import { findCollection, tableOfCollection } from "../docs/docs-index.ts";
import { parsePath } from "../docs/docs-path.ts";
import { isErasedSubject, isTarget } from "./erased.ts";
import { formLine, plain, readSubject, type RecordKind } from "./record.ts";

interface CollectionRecord {
  readonly name: string;
  readonly indexes: readonly string[];
}

/** Collections by number, from one on. */
function collectionsFrom({ connection }: View, from: number): readonly { number: number; name: string }[] {
  return connection.all(
    "SELECT collection AS number, name FROM __service_doc_collections WHERE collection >= ? ORDER BY collection",
    from,
  );
}

export const collectionRecords: RecordKind<CollectionRecord> = {
  kind: "doc_collection",
  tables: {
    __service_doc_collections: { exported: ["name"], derived: { collection: "given anew" } },
    __service_doc_indexes: {
      exported: ["path"],
      derived: { doc_index: "given anew", collection: "the record's own", multikey: "follows from the documents" },
    },
  },

  *rows(view, after) {
    for (const { number, name } of collectionsFrom(view, ((after?.[0] as number | undefined) ?? 0) + 1)) {
      const indexes = findCollection(view, name)!.indexes.map(({ path }) => path.text);
      yield {
        position: [number],
        line: formLine("doc_collection", { name: plain(name), indexes: JSON.stringify(indexes) }),
      };
    }
  },

  read(fields) {
    const name = checkCollectionName("name", fields.text("name", limits.nameCharsMax));
    return { name, indexes: fields.texts("indexes", docIndexesMax).map((path) => parsePath("indexes", path).text) };
  },

  find(view, { name, indexes }) {
    const there = findCollection(view, name);
    const isWhole = there && indexes.every((path) => there.indexes.some((index) => index.path.text === path));
    return isWhole ? "same" : "absent";
  },

  write(tx, { name, indexes }) {
    openCollection(tx, name);
    for (const path of indexes) createDocIndex(tx, { collection: name, path });
  },
};

interface DocRecord {
  readonly collection: string;
  readonly id: string;
  /** JSON text. */
  readonly doc: string;
  readonly subject: string | undefined;
}

export const docRecords: RecordKind<DocRecord> = {
  kind: "doc",
  tables: { "__service_doc_#": { exported: ["doc"], derived: { n: "given anew", id: "the document's own _id" } } },

  *rows(view, after) {
    const [from = 0, behind = 0] = (after ?? []) as readonly number[];
    for (const { number, name } of collectionsFrom(view, from)) {
      const subjects = subjectColumn(view, "document", "d.n", number);
      const rows = view.connection
        .prepared(`SELECT n, doc, ${subjects} AS subject FROM ${tableOfCollection(number)} AS d WHERE n > ? ORDER BY n`)
        .iterate(number === from ? behind : 0) as Iterable<{ n: number; doc: string; subject: string | null }>;
      for (const { n, doc, subject } of rows)
        yield {
          position: [number, n],
          line: formLine("doc", { collection: plain(name), subject: plain(subject), doc }),
        };
    }
  },

  read(fields) {
    const collection = checkCollectionName("collection", fields.text("collection", limits.nameCharsMax));
    const subject = readSubject(fields);
    const { value, text } = parseJson("doc", fields.json("doc"));
    const id = isObject(value) ? getField(value, "_id") : undefined;
    if (!isObject(value) || typeof id !== "string" || id === "" || id.length > docIdBytesMax)
      throw invalid(`doc must be an object whose _id is a string of 1 to ${docIdBytesMax} bytes`);
    return { collection, id, doc: text, subject };
  },

  find(view, { collection, id, doc, subject }) {
    const there = findDoc(view, collection, id);
    if (!there) return "absent";
    const place = findCollection(view, collection)!.number;
    const isSame = there.doc === doc && subjectOf(view, { kind: "document", place, owner: there.row }) === subject;
    return isSame ? "same" : "different";
  },

  write(tx: Tx, record) {
    putDoc(tx, { ...record, subject: record.subject ?? "" });
  },

  isErased: (_view, { collection, id, subject }, erased) =>
    isErasedSubject(erased, subject) ||
    isTarget(
      erased,
      undefined,
      (target) => target.kind === "document" && target.collection === collection && target.id === id,
    ),
};
