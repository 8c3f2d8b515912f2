/**
 * A filter over metadata that lies beside its owners, in a table of its own where not every owner has a row.
 *
 * Always true: an owner without metadata answers a filter as an empty object would. Must not know: whose metadata.
 */
import type { SqlParameter } from "../../sqlite/connection/connection.ts";
import type { View } from "../core/transaction.ts";
import { parseFilter } from "./docs-filter.ts";
import { Bindings, filterSql, prepareQueries } from "./docs-query.ts";

/** Where the metadata lies. */
export interface MetadataPlace {
  readonly table: string;
  /** SQL that holds of the owner's row of the table, `AS x`, where it has metadata, in the column of that name. */
  readonly ofOwner: string;
}

/** Refuses a filter that is none. */
export function checkFilter(field: string, text: string): void {
  parseFilter(field, text);
}

/** The filter, JSON text that passed `checkFilter`, as an SQL condition on an owner, and its parameters. */
export function filterCondition(
  view: View,
  { table, ofOwner }: MetadataPlace,
  text: string,
): { readonly sql: string; readonly params: readonly SqlParameter[] } {
  const { connection } = view;
  const filter = parseFilter("filter", text);
  const bindings = new Bindings();
  const holds = filterSql(filter, "x.metadata", bindings);
  prepareQueries(connection);
  const ofNothing =
    connection.get<{ holds: number }>(
      `SELECT ${holds} AS holds FROM (SELECT '{}' AS metadata) AS x`,
      ...named(bindings),
    )!.holds === 1;
  if (!connection.hasTable(table)) return { sql: ofNothing ? "1" : "0", params: [] };
  // Asked once here: most filters do not hold of nothing, and then those without metadata need no look.
  const sql = ofNothing
    ? `NOT EXISTS (SELECT 1 FROM ${table} AS x WHERE ${ofOwner} AND NOT ${holds})`
    : `EXISTS (SELECT 1 FROM ${table} AS x WHERE ${ofOwner} AND ${holds})`;
  return { sql, params: named(bindings) };
}

function named({ values }: Bindings): readonly SqlParameter[] {
  return Object.keys(values).length > 0 ? [values] : [];
}
