/**
 * Tables of users as records: their definitions, their rows, then indexes, views and triggers, which come when the rows
 * are there.
 *
 * Always true: what is written is user SQL and runs under the guard, in a process, as any other of its caller
 * (`toSql`); a value is written so that its type comes back: integers by their digits, reals with a point or an
 * exponent, blobs in base64. Must not know: who runs the statements.
 */
import { invalid } from "../../base/faults/errors.ts";
import { limits } from "../../base/limits.ts";
import type { SqlValue } from "../../sqlite/connection/connection.ts";
import { isNumber, isObject, formatNumber, jsonText, storedJson, type Json } from "../core/docs-json.ts";
import type { View } from "../core/transaction.ts";
import { type Fields, formLine, type Found, plain, type RecordKind } from "./record.ts";
import { findObject, laterObjects, quoted, rowidNames, type UserTable, userTables } from "./user-tables.ts";

/** A statement of user SQL. */
interface SqlText {
  readonly text: string;
  readonly paramsJson: string | undefined;
}

/** A kind whose records are written by user SQL. */
export interface SqlRecordKind<Parsed = unknown> extends RecordKind<Parsed> {
  toSql(record: Parsed, mode: "skip" | "replace" | "fail"): SqlText;
}

const nameBytesMax = 1_024;

interface DefinitionRecord {
  readonly name: string;
  readonly sql: string;
}

function definitionKind(
  kind: string,
  form: RegExp,
  list: (view: View) => readonly DefinitionRecord[],
): SqlRecordKind<DefinitionRecord> {
  return {
    kind,
    tables: {},
    *rows(view, after) {
      const all = list(view);
      const from = after === undefined ? 0 : all.findIndex(({ name }) => name === after[0]) + 1;
      for (const { name, sql } of all.slice(from))
        yield { position: [name], line: formLine(kind, { name: plain(name), sql: plain(sql) }) };
    },
    read(fields: Fields) {
      const name = fields.text("name", nameBytesMax);
      const sql = fields.text("sql", limits.sqlTextBytesMax);
      if (!form.test(sql)) throw invalid(`sql must be a definition, as of a record of kind ${kind}`);
      return { name, sql };
    },
    find(view, { name, sql }): Found {
      const there = findObject(view, name);
      if (!there) return "absent";
      return there.sql === sql ? "same" : "blocked";
    },
    write: writtenBySql,
    toSql: ({ sql }) => ({ text: sql, paramsJson: undefined }),
  };
}

function writtenBySql(): never {
  throw new Error("records of users' tables are written by user SQL");
}

export const sqlTableRecords = definitionKind("sql_table", /^CREATE\s+(?:VIRTUAL\s+)?TABLE\s/i, userTables);
export const sqlLaterRecords = definitionKind(
  "sql_schema",
  /^CREATE\s+(?:UNIQUE\s+INDEX|INDEX|VIEW|TRIGGER)\s/i,
  laterObjects,
);

interface SqlRowRecord {
  readonly table: string;
  /** JSON text of a number; undefined where the row number is a column, or there is none. */
  readonly rowid: string | undefined;
  readonly values: ReadonlyMap<string, Json>;
}

function formValue(value: unknown): string {
  if (typeof value === "bigint") return String(value);
  if (value instanceof Uint8Array) return `{"$base64":"${Buffer.from(value).toString("base64")}"}`;
  if (typeof value !== "number") return JSON.stringify(value);
  if (!Number.isFinite(value)) return value < 0 ? "-1e999" : "1e999";
  const text = Object.is(value, -0) ? "-0" : String(value);
  return /[.e]/.test(text) ? text : `${text}.0`;
}

function readRows(view: View, table: UserTable, after: string | number | undefined): Iterable<unknown[]> {
  const { name, columns, rowid } = table;
  const chosen = [rowid ?? "0", ...columns.map(quoted)].join(", ");
  const [where, params] =
    rowid === undefined
      ? [`LIMIT -1 OFFSET ?`, [BigInt(after ?? 0)]]
      : after === undefined
        ? [`ORDER BY ${rowid}`, []]
        : [`WHERE ${rowid} > ? ORDER BY ${rowid}`, [BigInt(after)]];
  try {
    const statement = view.connection.prepared(`SELECT ${chosen} FROM ${quoted(name)} ${where}`);
    return statement
      .raw(true)
      .safeIntegers(true)
      .iterate(...params) as Iterable<unknown[]>;
  } catch (error) {
    throw invalid(`the table ${quoted(name).slice(0, 80)} cannot be read: ${(error as Error).message.slice(0, 200)}`);
  }
}

export const sqlRowRecords: SqlRecordKind<SqlRowRecord> = {
  kind: "sql_row",
  tables: {},

  *rows(view, after) {
    const tables = userTables(view);
    const from = after === undefined ? 0 : tables.findIndex(({ name }) => name === after[0]);
    for (const table of tables.slice(Math.max(from, 0))) {
      const { name, columns, rowid, isRowidColumn, hasNoRows } = table;
      if (hasNoRows) continue;
      let passed = Number(name === after?.[0] ? after[1] : 0);
      for (const [number, ...values] of readRows(view, table, name === after?.[0] ? after[1] : undefined)) {
        const fields = columns.map((column, at) => `${JSON.stringify(column)}:${formValue(values[at])}`);
        const line = formLine("sql_row", {
          table: plain(name),
          rowid: rowid === undefined || isRowidColumn ? undefined : String(number),
          values: `{${fields.join(",")}}`,
        });
        passed++;
        yield { position: [name, rowid === undefined ? passed : String(number)], line };
      }
    }
  },

  read(fields) {
    const table = fields.text("table", nameBytesMax);
    const rowid = fields.maybeJson("rowid");
    if (rowid !== undefined && !/^-?\d{1,19}$/.test(rowid)) throw invalid("rowid must be a whole number");
    const values = storedJson(fields.json("values"));
    if (!isObject(values)) throw invalid("values must be an object, by the columns' names");
    const isValue = (value: Json): boolean =>
      value === null || typeof value === "string" || isNumber(value) || blobOf(value) !== undefined;
    for (const [column, value] of Object.entries(values))
      if (!isValue(value))
        throw invalid(`values.${column.slice(0, 64)} must be null, a number, a string or {"$base64"}`);
    return { table, rowid, values: new Map(Object.entries(values)) };
  },

  find(view, { table: name, rowid, values }) {
    const table = userTables(view).find((one) => one.name.toLowerCase() === name.toLowerCase());
    if (!table) return "absent";
    const columns = [...values.keys()];
    if (columns.some((column) => !table.columns.includes(column))) return "blocked";
    const [where, params] =
      rowid !== undefined && table.rowid !== undefined
        ? [`${table.rowid} = ?`, [BigInt(rowid)]]
        : [
            table.key.map((column) => `${quoted(column)} IS ?`).join(" AND "),
            table.key.map((c) => toSqlValue(values.get(c))),
          ];
    if (where === "") return "absent";
    const same = columns.map((column) => `${quoted(column)} IS ?`).join(" AND ") || "1";
    const there = view.connection.get<{ same: number }>(
      `SELECT ${same} AS same FROM ${quoted(table.name)} WHERE ${where}`,
      ...columns.map((column) => toSqlValue(values.get(column))),
      ...params,
    );
    if (!there) return "absent";
    return there.same === 1 ? "same" : "different";
  },

  write: writtenBySql,

  toSql({ table, rowid, values }, mode) {
    const verb = { skip: "INSERT OR IGNORE", replace: "INSERT OR REPLACE", fail: "INSERT" }[mode];
    const taken = new Set([...values.keys()].map((column) => column.toLowerCase()));
    const number = rowid === undefined ? undefined : rowidNames.find((alias) => !taken.has(alias));
    const columns = [...(number === undefined ? [] : [number]), ...[...values.keys()].map(quoted)];
    if (columns.length === 0) return { text: `${verb} INTO ${quoted(table)} DEFAULT VALUES`, paramsJson: undefined };
    const params = [...(number === undefined ? [] : [rowid!]), ...[...values.values()].map(jsonText)];
    const places = columns.map(() => "?").join(", ");
    return {
      text: `${verb} INTO ${quoted(table)} (${columns.join(", ")}) VALUES (${places})`,
      paramsJson: `[${params.join(",")}]`,
    };
  },
};

function blobOf(value: Json): Uint8Array | undefined {
  if (!isObject(value)) return undefined;
  const { $base64: text, ...others } = value;
  if (typeof text !== "string" || Object.keys(others).length > 0) return undefined;
  return Buffer.from(text, "base64");
}

function toSqlValue(value: Json | undefined): SqlValue {
  if (value === undefined || value === null || typeof value === "string") return value ?? null;
  if (!isNumber(value)) return blobOf(value) ?? null;
  const text = formatNumber(value);
  return /^-?\d+$/.test(text) ? BigInt.asIntN(64, BigInt(text)) : Number(text);
}
