/**
 * Accounts as people read them, aligned, and as machines do, one JSON document.
 *
 * Always true: what is left out of a table is counted; a name or an id of somebody else cannot steer a terminal; in the
 * JSON document names are never taken away or given another meaning. Must not know: what the values mean.
 */
import { toHex } from "../../base/bytes.ts";
import type { Account, Table, Value } from "./account.ts";
import { safeText } from "./safe-text.ts";

/** An account, and what it is of. */
export interface Inspection extends Account {
  /** Which kind of thing, such as `manifest`. */
  readonly kind: string;
  /** A file's path or an object's key. */
  readonly where: string;
  /** Words on where to look next, for a person. */
  readonly next?: readonly string[] | undefined;
}

/** Version of the JSON document. */
const documentVersion = 1;
/** Digits of a hash that a table shows; the JSON document has all of them. */
const hexDigitsInTable = 16;
/** What stands where there is no value. */
const none = "-";
const between = "  ";
const units = ["KiB", "MiB", "GiB", "TiB"] as const;
const unitBytes = 1024;

/** What a person reads. Of each table at most `rowsMax` rows. */
export function formatText(inspection: Inspection, rowsMax: number): string {
  const { kind, where, fields, tables, damage, next = [] } = inspection;
  const named = Object.entries(fields).map(([name, value]) => [formatLabel(name), formatValue(value)] as const);
  const width = Math.max(0, ...named.map(([label]) => label.length));
  const lines = [`${formatLabel(kind)} ${safeText(where)}`, ""];
  for (const [label, value] of named) lines.push(`${label.padEnd(width)}${between}${value}`.trimEnd());
  for (const [name, table] of Object.entries(tables)) lines.push("", ...formatTable(name, table, rowsMax));
  if (damage.length > 0) lines.push("", ...damage.map((what) => `DAMAGED: ${safeText(what)}`));
  if (next.length > 0) lines.push("", ...next);
  return `${lines.join("\n")}\n`;
}

/** What machines read. Of each table at most `rowsMax` rows. */
export function buildDocument({ kind, where, fields, tables, damage }: Inspection, rowsMax: number): object {
  const document: Record<string, unknown> = { v: documentVersion, kind, where };
  for (const [name, value] of Object.entries(fields)) document[name] = toRaw(value);
  const leftOut: Record<string, number> = {};
  for (const [name, { columns, rows }] of Object.entries(tables)) {
    document[name] = rows
      .slice(0, rowsMax)
      .map((row) => Object.fromEntries(columns.map((column, at) => [column, toRaw(row[at]!)])));
    leftOut[name] = Math.max(0, rows.length - rowsMax);
  }
  return { ...document, left_out: leftOut, damage };
}

function formatLabel(name: string): string {
  return name.replaceAll("_", " ");
}

function formatTable(name: string, { columns, rows }: Table, rowsMax: number): string[] {
  const title = `${formatLabel(name)}: ${rows.length}`;
  if (rows.length === 0) return [title];
  const told = rows.slice(0, rowsMax);
  const cells = [
    columns.map(formatLabel),
    ...told.map((row) => row.map((value) => formatValue(value, hexDigitsInTable))),
  ];
  const widths = columns.map((_, at) => cells.reduce((most, row) => Math.max(most, row[at]!.length), 0));
  const isNumeric = columns.map((_, at) => told.every((row) => isNumber(row[at]!)));
  const lines = cells.map((row) =>
    row
      .map((cell, at) => (isNumeric[at] ? cell.padStart(widths[at]!) : cell.padEnd(widths[at]!)))
      .join(between)
      .trimEnd(),
  );
  const left = rows.length - told.length;
  return [title, ...lines, ...(left > 0 ? [`and ${left} more; --limit ${rows.length} shows all`] : [])];
}

function isNumber(value: Value): boolean {
  return value.is === "size" || value.is === "absent" || (value.is === "plain" && typeof value.value === "number");
}

/** The value for a person; of hex digits at most so many. */
function formatValue(value: Value, hexDigitsMax = Infinity): string {
  switch (value.is) {
    case "absent":
      return none;
    case "plain":
      return typeof value.value === "boolean" ? (value.value ? "yes" : "no") : safeText(String(value.value));
    case "time":
      return formatTime(value.atMs);
    case "size":
      return formatSize(value.bytes);
    case "hex": {
      const digits = toHex(value.bytes);
      return digits.length > hexDigitsMax ? `${digits.slice(0, hexDigitsMax)}…` : digits;
    }
    case "ranges": {
      const told = value.ranges.map(([first, last]) => (first === last ? `${first}` : `${first}-${last}`));
      return told.length === 0 ? none : told.join(", ") + (value.more > 0 ? `, … and ${value.more} more` : "");
    }
  }
}

function formatTime(atMs: number): string {
  const date = new Date(atMs);
  return `${Number.isNaN(date.getTime()) ? "beyond every calendar" : date.toISOString()} (${atMs})`;
}

function formatSize(bytes: number): string {
  if (bytes < unitBytes) return `${bytes} B`;
  let [scaled, unit] = [bytes / unitBytes, 0];
  for (; scaled >= unitBytes && unit < units.length - 1; unit++) scaled /= unitBytes;
  return `${bytes} B (${scaled.toFixed(1)} ${units[unit]})`;
}

function toRaw(value: Value): unknown {
  switch (value.is) {
    case "absent":
      return null;
    case "plain":
      return value.value;
    case "time":
      return value.atMs;
    case "size":
      return value.bytes;
    case "hex":
      return toHex(value.bytes);
    case "ranges":
      return { ranges: value.ranges, left_out: value.more };
  }
}
