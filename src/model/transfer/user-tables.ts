/**
 * The tables, indexes, triggers and views that users have made, as the schema tells of them.
 *
 * Always true: reserved tables and the tables inside of virtual ones are none of them; a table comes after those that
 * its foreign keys name. Reading rows evaluates nothing of the user's: generated columns are left out.
 */
import type { View } from "../core/transaction.ts";

export interface UserObject {
  readonly type: "table" | "index" | "trigger" | "view";
  readonly name: string;
  readonly sql: string;
}

export interface UserTable extends UserObject {
  readonly isVirtual: boolean;
  /** Columns that can be written, in their order. */
  readonly columns: readonly string[];
  /** The name by which the row number can be read and written; undefined where there is none. */
  readonly rowid: string | undefined;
  /** Whether the row number is one of the columns. */
  readonly isRowidColumn: boolean;
  /** The columns of the primary key. */
  readonly key: readonly string[];
  /** Whether its rows are elsewhere, or cannot be read back. */
  readonly hasNoRows: boolean;
}

/** What a row number is called where no column has the name. */
export const rowidNames = ["rowid", "_rowid_", "oid"] as const;

/** An identifier in SQL. */
export function quoted(name: string): string {
  return `"${name.replaceAll('"', '""')}"`;
}

const own = (column: string): string =>
  `${column} NOT LIKE '\\_\\_service%' ESCAPE '\\' AND ${column} NOT LIKE 'sqlite\\_%' ESCAPE '\\'`;

/** Indexes, triggers and views: what is made once the rows are there. */
export function laterObjects({ connection }: View): readonly UserObject[] {
  return connection.all<UserObject>(
    `SELECT type, name, sql FROM sqlite_schema WHERE type <> 'table' AND sql IS NOT NULL AND ${own("name")}
     AND ${own("tbl_name")}
     ORDER BY CASE type WHEN 'index' THEN 1 WHEN 'view' THEN 2 ELSE 3 END, name`,
  );
}

/** An object by its name. */
export function findObject({ connection }: View, name: string): UserObject | undefined {
  return connection.get<UserObject>(
    `SELECT type, name, sql FROM sqlite_schema WHERE name = ? COLLATE NOCASE AND ${own("name")}`,
    name,
  );
}

/** What a view was asked for once. */
const known = new WeakMap<View, readonly UserTable[]>();

/** The tables, each after those that it refers to where that is possible. A view sees one schema. */
export function userTables(view: View): readonly UserTable[] {
  const tables = known.get(view) ?? listTables(view);
  known.set(view, tables);
  return tables;
}

function listTables(view: View): readonly UserTable[] {
  const { connection } = view;
  const found = connection.all<{ name: string; type: string; wr: number; sql: string }>(
    `SELECT l.name, l.type, l.wr, s.sql FROM pragma_table_list AS l
     JOIN sqlite_schema AS s ON s.type = 'table' AND s.name = l.name
     WHERE l.schema = 'main' AND l.type IN ('table', 'virtual') AND ${own("s.name")}
     ORDER BY l.name`,
  );
  const byName = new Map(found.map((one) => [one.name.toLowerCase(), one]));
  const ordered: (typeof found)[number][] = [];
  const seen = new Set<string>();
  const visit = (name: string): void => {
    const one = byName.get(name.toLowerCase());
    if (!one || seen.has(one.name)) return;
    seen.add(one.name);
    const parents = connection.all<{ table: string }>(
      `SELECT DISTINCT "table" FROM pragma_foreign_key_list(?) ORDER BY "table"`,
      one.name,
    );
    for (const { table } of parents) visit(table);
    ordered.push(one);
  };
  for (const { name } of found) visit(name);
  return ordered.map((one) => describe(view, one));
}

interface ColumnRow {
  readonly name: string;
  readonly type: string;
  readonly pk: number;
  readonly hidden: number;
}

function describe(
  { connection }: View,
  { name, type, wr, sql }: { name: string; type: string; wr: number; sql: string },
): UserTable {
  const all = connection.all<ColumnRow>("SELECT name, type, pk, hidden FROM pragma_table_xinfo(?) ORDER BY cid", name);
  const columns = all.filter(({ hidden }) => hidden === 0);
  const keys = columns.filter(({ pk }) => pk > 0).sort((a, b) => a.pk - b.pk);
  const isVirtual = type === "virtual";
  const isRtree = isVirtual && /USING\s+rtree/i.test(sql);
  const isTaken = (alias: string): boolean => all.some((column) => column.name.toLowerCase() === alias);
  const rowid = wr === 1 ? undefined : rowidNames.find((alias) => !isTaken(alias));
  const isAlias = keys.length === 1 && keys[0]!.type.toUpperCase() === "INTEGER";
  return {
    ...{ type: "table", name, sql, isVirtual, rowid },
    columns: columns.map((column) => column.name),
    isRowidColumn: isRtree || (wr === 0 && isAlias),
    key: isRtree ? columns.slice(0, 1).map((column) => column.name) : keys.map((column) => column.name),
    hasNoRows: isVirtual && /[(,]\s*content\s*=/i.test(sql),
  };
}
