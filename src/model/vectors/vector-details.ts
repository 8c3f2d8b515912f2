/**
 * What is known of a collection's vector beside its direction: its length, where that is not 1, and its metadata.
 *
 * Owns the table of these details. Always true: it is made when the first detail comes, so that earlier files stay as
 * they are; a vector without a row has length 1 and no metadata. Must not know: directions, and how they are searched.
 */
import type { SqlParameter } from "../../sqlite/connection/connection.ts";
import { parseFilter } from "../docs/docs-filter.ts";
import { Bindings, filterSql, prepareQueries } from "../docs/docs-query.ts";
import type { Tx, View } from "../core/transaction.ts";
import type { VectorSpace } from "./vectors.ts";

const table = "__service_vector_detail";
const schema = `
CREATE TABLE IF NOT EXISTS ${table} \
(owner INTEGER PRIMARY KEY, space INTEGER NOT NULL, length REAL NOT NULL, metadata TEXT) STRICT;
CREATE INDEX IF NOT EXISTS __service_vector_detail_length ON ${table} (space, length);
`;

/** The length of a vector, in doubles. One that is 1 but for the rounding of 32-bit floats is 1. */
export function computeLength(vector: Float32Array): number {
  let squared = 0;
  for (const value of vector) squared += value * value;
  const length = Math.sqrt(squared);
  return Math.abs(length - 1) < 1e-6 ? 1 : length;
}

/** Keeps what is to be known of a vector beside its direction; the same again changes nothing. */
export function putDetail(
  tx: Tx,
  { space }: VectorSpace,
  owner: number,
  length: number,
  metadata: string | undefined,
): void {
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

/** Forgets what was known of a vector beside its direction. */
export function removeDetail(tx: Tx, owner: number): void {
  if (tx.connection.hasTable(table)) tx.connection.run(`DELETE FROM ${table} WHERE owner = ?`, owner);
}

/** The details beside `__service_vector_item AS i`: a join, and its columns. */
export function details(view: View): { readonly join: string; readonly length: string; readonly metadata: string } {
  if (!view.connection.hasTable(table)) return { join: "", length: "1.0", metadata: "NULL" };
  return {
    join: `LEFT JOIN ${table} AS x ON x.owner = i.owner`,
    length: "coalesce(x.length, 1.0)",
    metadata: "x.metadata",
  };
}

/**
 * The filter as a condition on `__service_vector_item AS i` with its details; a vector without metadata counts as `{}`.
 */
export function buildCondition(
  view: View,
  filter: string,
): { readonly sql: string; readonly params: readonly SqlParameter[] } {
  const bindings = new Bindings();
  prepareQueries(view.connection);
  const { metadata } = details(view);
  const sql =
    `EXISTS (SELECT 1 FROM (SELECT coalesce(${metadata}, '{}') AS metadata) AS f ` +
    `WHERE ${filterSql(parseFilter("filter", filter), "f.metadata", bindings)})`;
  return { sql, params: Object.keys(bindings.values).length > 0 ? [bindings.values] : [] };
}

/** The shortest and the longest that a vector may be. */
export interface LengthRange {
  readonly least: number;
  readonly most: number;
}

/** Between which lengths the vectors of a space lie. */
export function lengthRange(view: View, { space }: VectorSpace): LengthRange {
  if (!view.connection.hasTable(table)) return { least: 1, most: 1 };
  const at = (order: "ASC" | "DESC"): number =>
    view.connection.get<{ length: number }>(
      `SELECT length FROM ${table} WHERE space = ? ORDER BY length ${order} LIMIT 1`,
      space,
    )?.length ?? 1;
  return { least: Math.min(1, at("ASC")), most: Math.max(1, at("DESC")) };
}

/** The lengths that are kept of these vectors; any other's is 1. */
export function readLengths(view: View, owners: readonly number[]): ReadonlyMap<number, number> {
  if (!view.connection.hasTable(table)) return new Map();
  const rows = view.connection.all<{ owner: number; length: number }>(
    `SELECT x.owner, x.length FROM json_each(?) AS asked CROSS JOIN ${table} AS x ON x.owner = asked.value`,
    JSON.stringify(owners),
  );
  return new Map(rows.map(({ owner, length }) => [owner, length]));
}
