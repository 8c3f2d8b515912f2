/**
 * Collections and their indexes: which tables they are, what an index holds, and which rows a filter needs to look at.
 *
 * A collection is a number in a registry and a table named by it, because SQLite's table names ignore case. An index is
 * a table of (kind, value, document), one row for each value that its path reaches in a document, elements of arrays
 * included, so that arrays are found by element. Always true: an index holds exactly what its path reaches in each
 * document of its collection, as model/docs/docs-reach says; the candidates of a filter include every document that
 * matches.
 */
import type { Filter } from "./docs-filter.ts";
import { jsonText, storedJson, type Json } from "../core/docs-json.ts";
import { idField, isIndexable, parsePath, type DocPath } from "./docs-path.ts";
import { equalsSql, classifyOperand, kindOfType, kindSql, kinds, regexSql, type Bindings } from "./docs-conditions.ts";
import { reachedText, reachedType } from "./docs-reach.ts";
import type { Tx, View } from "../core/transaction.ts";

/** Branches of one `$or` that indexes may serve together; SQLite ends a compound SELECT at 500. */
const filterUnionMax = 100;

/** The registry; the tables that it names are made when they are first needed. */
export const docsSchema = `
CREATE TABLE __service_doc_collections (
  collection INTEGER PRIMARY KEY,
  name TEXT NOT NULL UNIQUE
) STRICT;
CREATE TABLE __service_doc_indexes (
  doc_index INTEGER PRIMARY KEY,
  collection INTEGER NOT NULL,
  path TEXT NOT NULL,
  multikey INTEGER NOT NULL DEFAULT 0,
  UNIQUE (collection, path)
) STRICT;
`;

export interface DocIndex {
  readonly table: string;
  readonly number: number;
  readonly path: DocPath;
  /** Whether a document may have several entries. While none has, both ends of a range may be asked of one entry. */
  multikey: boolean;
}

export interface Collection {
  readonly name: string;
  readonly number: number;
  /** Its documents: n (row number, in the order of insertion), id, doc (JSON text). */
  readonly table: string;
  readonly indexes: readonly DocIndex[];
}

/** The table of a collection. */
export const tableOfCollection = (collection: number): string => `__service_doc_${collection}`;
const buildIndexTableName = (index: number): string => `__service_docidx_${index}`;

/** The collection of this name, or undefined when nothing was ever put into it. */
export function findCollection(view: View, name: string): Collection | undefined {
  const row = view.connection.get<{ collection: number }>(
    "SELECT collection FROM __service_doc_collections WHERE name = ?",
    name,
  );
  if (row === undefined) return undefined;
  const indexes = view.connection
    .all<{ doc_index: number; path: string; multikey: number }>(
      "SELECT doc_index, path, multikey FROM __service_doc_indexes WHERE collection = ? ORDER BY doc_index",
      row.collection,
    )
    .map((index) => ({
      table: buildIndexTableName(index.doc_index),
      number: index.doc_index,
      path: parsePath("index path", index.path),
      multikey: index.multikey === 1,
    }));
  return { name, number: row.collection, table: tableOfCollection(row.collection), indexes };
}

/** The names of all collections. */
export function collectionNames(view: View): readonly string[] {
  return view.connection
    .all<{ name: string }>("SELECT name FROM __service_doc_collections ORDER BY collection")
    .map(({ name }) => name);
}

/** The name of the collection of this number. */
export function collectionName(view: View, collection: number): string {
  return view.connection.get<{ name: string }>(
    "SELECT name FROM __service_doc_collections WHERE collection = ?",
    collection,
  )!.name;
}

/** How many collections there are. */
export function collectionCount(view: View): number {
  return view.connection.get<{ n: number }>("SELECT count(*) AS n FROM __service_doc_collections")!.n;
}

/** Makes a collection that does not exist yet. */
export function createCollection(tx: Tx, name: string): Collection {
  const number = tx.connection.run("INSERT INTO __service_doc_collections (name) VALUES (?)", name).lastInsertRowid;
  const table = tableOfCollection(number);
  tx.connection.exec(
    `CREATE TABLE ${table} (n INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, doc TEXT NOT NULL) STRICT`,
  );
  return { name, number, table, indexes: [] };
}

/** Makes an index over a path that has none yet, and fills it. */
export function createIndex(tx: Tx, collection: Collection, path: DocPath): void {
  const number = tx.connection.run(
    "INSERT INTO __service_doc_indexes (collection, path) VALUES (?, ?)",
    collection.number,
    path.text,
  ).lastInsertRowid;
  const index: DocIndex = { table: buildIndexTableName(number), number, path, multikey: false };
  tx.connection.exec(
    `CREATE TABLE ${index.table} (kind INTEGER NOT NULL, value ANY NOT NULL, doc INTEGER NOT NULL, PRIMARY ` +
      "KEY (kind, value, doc)) STRICT, WITHOUT ROWID",
  );
  const rows = tx.connection.prepared(`SELECT n FROM ${collection.table} ORDER BY n`).pluck().all() as number[];
  for (const row of rows) addEntries(tx, [index], row, storedJson(docAt(tx, collection, row)));
}

/** Drops an index. */
export function dropIndex(tx: Tx, index: DocIndex): void {
  tx.connection.exec(`DROP TABLE ${index.table}`);
  tx.connection.run("DELETE FROM __service_doc_indexes WHERE doc_index = ?", index.number);
}

/** The text of a document that is there. */
export function docAt(view: View, collection: Collection, row: number): string {
  return view.connection.get<{ doc: string }>(`SELECT doc FROM ${collection.table} WHERE n = ?`, row)!.doc;
}

/**
 * What one document has in an index: composites and null by kind alone. Read from the text that `reachedText` gives.
 */
const entrySql = `SELECT ${kindSql(reachedType("v"))} AS kind,
    CASE WHEN v.type IN ('integer', 'real', 'text', 'true', 'false') THEN v.value ELSE 0 END AS value, $row AS doc
  FROM json_each($reached) AS v`;

/** Enters the document into the indexes. One that cannot hold its path, of an older build, is left empty. */
export function addEntries(tx: Tx, indexes: readonly DocIndex[], row: number, doc: Json): void {
  for (const index of indexes) {
    if (!isIndexable(index.path)) continue;
    const insert = tx.connection.prepared(`INSERT OR IGNORE INTO ${index.table} (kind, value, doc) ${entrySql}`);
    const { changes } = insert.run({ row: BigInt(row), reached: reachedText(doc, index.path) });
    if (changes < 2 || index.multikey) continue;
    index.multikey = true;
    tx.connection.run("UPDATE __service_doc_indexes SET multikey = 1 WHERE doc_index = ?", index.number);
  }
}

/** Takes the document out of the indexes; `doc` is what it was entered with. */
export function removeEntries(tx: Tx, indexes: readonly DocIndex[], row: number, doc: Json): void {
  for (const index of indexes) {
    if (!isIndexable(index.path)) {
      tx.connection.run(`DELETE FROM ${index.table} WHERE doc = ?`, row);
      continue;
    }
    const remove = tx.connection.prepared(`DELETE FROM ${index.table} WHERE (kind, value, doc) IN (${entrySql})`);
    remove.run({ row: BigInt(row), reached: reachedText(doc, index.path) });
  }
}

/**
 * A SELECT of row numbers that include every match of a filter, and how little it is likely to give: smaller is better.
 */
export interface Candidates {
  readonly sql: string;
  readonly rank: number;
}

const ranks = { id: 0, equal: 1, listed: 2, between: 3, beyond: 4, kind: 5 } as const;

/** The best way to the filter's matches through indexes, or undefined when only a scan is sure to see them all. */
export function findCandidates(filter: Filter, collection: Collection, bindings: Bindings): Candidates | undefined {
  switch (filter.kind) {
    case "and":
      return pickBest([
        ...filter.filters.map((inner) => findCandidates(inner, collection, bindings)),
        ...ranges(filter.filters, collection, bindings),
      ]);
    case "or":
      return uniteCandidates(filter.filters, collection, bindings);
    case "not":
      return undefined;
    case "in":
      if (filter.path.text === idField) return idCandidates(filter.operands, collection, bindings);
      return entries(collection, filter.path, (index) => listedCandidates(index, filter.operands, bindings));
    case "compare":
      return entries(collection, filter.path, (index) => rangeCandidates(index, [filter], bindings));
    case "exists":
      return kindCandidates(collection, filter.path, `> ${kinds.missing}`);
    case "type":
      return kindCandidates(collection, filter.path, `IN (${filter.types.map((type) => kindOfType[type]).join(", ")})`);
    case "size":
    case "element":
      return kindCandidates(collection, filter.path, `= ${kinds.array}`);
    case "regex":
      return kindCandidates(collection, filter.path, `= ${kinds.string} AND ${regexSql("value", filter, bindings)}`);
  }
}

function kindCandidates(collection: Collection, path: DocPath, condition: string): Candidates | undefined {
  return entries(collection, path, (index) => ({
    sql: `SELECT doc FROM ${index.table} WHERE kind ${condition}`,
    rank: ranks.kind,
  }));
}

function entries<Found>(collection: Collection, path: DocPath, act: (index: DocIndex) => Found): Found | undefined {
  const index = collection.indexes.find((one) => one.path.text === path.text && isIndexable(path));
  return index && act(index);
}

function pickBest(found: readonly (Candidates | undefined)[]): Candidates | undefined {
  let best: Candidates | undefined;
  for (const one of found) if (one && (!best || one.rank < best.rank)) best = one;
  return best;
}

function uniteCandidates(
  filters: readonly Filter[],
  collection: Collection,
  bindings: Bindings,
): Candidates | undefined {
  if (filters.length > filterUnionMax) return undefined;
  const found = filters.map((inner) => findCandidates(inner, collection, bindings));
  if (found.length === 0 || !found.every((one) => one !== undefined)) return undefined;
  return {
    sql: found.map((one) => `SELECT * FROM (${one.sql})`).join(" UNION "),
    rank: Math.max(...found.map((one) => one.rank)),
  };
}

function idCandidates(operands: readonly Json[], collection: Collection, bindings: Bindings): Candidates {
  const ids = operands.filter((operand) => typeof operand === "string");
  const condition = ids.length === 0 ? "0" : equalsSql("id", ids, bindings);
  return { sql: `SELECT n FROM ${collection.table} WHERE ${condition}`, rank: ranks.id };
}

/** Equality: scalars by value, objects and arrays by kind alone, null as null or missing. One SELECT for each kind. */
function listedCandidates(index: DocIndex, operands: readonly Json[], bindings: Bindings): Candidates {
  const byKind = Map.groupBy(operands, classifyOperand);
  const selects = Array.from(byKind, ([kind, listed]) => {
    if (kind === kinds.null) return `kind <= ${kinds.null}`;
    if (kind === kinds.object || kind === kinds.array) return `kind = ${kind}`;
    return `kind = ${kind} AND ${equalsSql("value", listed, bindings)}`;
  });
  const byKindAlone = [kinds.null, kinds.object, kinds.array].some((kind) => byKind.has(kind));
  return {
    sql:
      selects.length === 0
        ? "SELECT 0 WHERE 0"
        : selects.map((condition) => `SELECT doc FROM ${index.table} WHERE ${condition}`).join(" UNION "),
    rank: byKindAlone ? ranks.kind : operands.length === 1 ? ranks.equal : ranks.listed,
  };
}

type Compare = Filter & { readonly kind: "compare" };

function rangeCandidates(index: DocIndex, compares: readonly Compare[], bindings: Bindings): Candidates {
  const kind = classifyOperand(compares[0]!.operand);
  // Objects and arrays stand in an index by their kind alone.
  if (kind === kinds.object || kind === kinds.array)
    return { sql: `SELECT doc FROM ${index.table} WHERE kind = ${kind}`, rank: ranks.kind };
  const conditions = compares.map(
    ({ comparison, operand }) => `value ${comparison} (${bindings.bind(jsonText(operand))} ->> '$')`,
  );
  return {
    sql: `SELECT doc FROM ${index.table} WHERE kind = ${kind} AND ${conditions.join(" AND ")}`,
    rank: compares.length > 1 ? ranks.between : ranks.beyond,
  };
}

/**
 * The ranges that are closed on both sides. Where a document may have several entries, two of them may fulfil one side
 * each (MongoDB's meaning), so no single entry need lie between.
 */
function ranges(
  filters: readonly Filter[],
  collection: Collection,
  bindings: Bindings,
): readonly (Candidates | undefined)[] {
  const compares = filters.filter((filter) => filter.kind === "compare");
  return compares.filter(isLower).map((lower) => {
    const upper = compares.find(
      (one) =>
        !isLower(one) &&
        one.path.text === lower.path.text &&
        classifyOperand(one.operand) === classifyOperand(lower.operand),
    );
    return (
      upper &&
      entries(collection, lower.path, (index) =>
        index.multikey ? undefined : rangeCandidates(index, [lower, upper], bindings),
      )
    );
  });
}

const isLower = (compare: Compare): boolean => compare.comparison.startsWith(">");
