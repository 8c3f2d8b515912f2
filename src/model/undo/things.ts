/**
 * What a transaction can have changed, thing by thing: as it is stored, and by what two of its states are told apart.
 *
 * A thing is what the change feed names: a memory, a turn, a value, a document, a vector, a file, and the session that
 * came with one. Always true: what is stored of a thing are the rows of the tables of its kind, whole; row numbers and
 * the vectors of memories and turns are no part of what tells two states apart, as jobs of the node's own may change
 * them. Must not know: which states are compared, how one is put back.
 */
import { hash } from "node:crypto";
import type { SqlValue } from "../../sqlite/connection/connection.ts";
import type { ChangeNote } from "../core/change-notes.ts";
import type { View } from "../core/transaction.ts";
import { findCollection as findDocs } from "../docs/docs-index.ts";
import { findFile, readText } from "../files/file-store.ts";
import { findSpace } from "../vectors/vectors.ts";

export type ThingKind = "memory" | "session" | "turn" | "kv" | "doc" | "vector" | "file";

/** A thing by its names, in the order in which the change feed has them. */
export type Thing = readonly [kind: ThingKind, ...names: (string | number)[]];

export type StoredRow = Readonly<Record<string, SqlValue>>;

/** The row that the thing itself is, and by their tables the rows that belong to it. */
export interface StoredThing {
  readonly own: StoredRow;
  readonly parts: Readonly<Record<string, readonly StoredRow[]>>;
}

/** Where a vector of any kind is. */
export const vectorTable = "__service_vector";

/** Columns that number rows, which a thing that went and came again may have anew. */
const numbering = new Set(["row", "memory", "turn", "owner", "n"]);

/** The things that these changes are of, each once; `sql` and `erasure` have none. */
export function thingsOf(changes: readonly ChangeNote[]): readonly Thing[] {
  const things = new Map<string, Thing>();
  for (const [kind, op, ...names] of changes) {
    // What had expired is not there to anybody, whether or not its row is.
    if (kind === "sql" || kind === "erasure" || op === "expired") continue;
    const thing: Thing = [kind, ...names];
    things.set(JSON.stringify(thing), thing);
  }
  return [...things.values()];
}

/** The sessions in which a memory or a turn was said: theirs come with them. */
export function sessionsOf([kind, name]: Thing, stored: StoredThing | undefined): readonly string[] {
  if (kind === "turn") return [String(name)];
  if (kind !== "memory" || !stored) return [];
  const rows = [stored.own, ...(stored.parts["__service_memory_provenance"] ?? [])];
  return rows.flatMap((row) => (typeof row["session_id"] === "string" && row["session_id"] ? [row["session_id"]] : []));
}

/** What is stored of the thing; undefined where it is not there. */
export function readThing(view: View, thing: Thing): StoredThing | undefined {
  const [kind, first, second] = thing as [ThingKind, string, string | number];
  switch (kind) {
    case "memory":
      return withParts(view, "__service_memory", "id = ?", [first], "row", memoryParts);
    case "turn":
      return withParts(view, "__service_turn", "session_id = ? AND seq = ?", [first, second], "row", turnParts);
    case "kv":
      return withParts(view, "__service_kv", "ns = ? AND key = ?", [first, second], "row", [subject("key", 0)]);
    case "session":
      return withParts(view, "__service_session", "id = ?", [first], undefined, []);
    case "doc": {
      const collection = findDocs(view, first);
      if (!collection) return undefined;
      return withParts(view, collection.table, "id = ?", [second], "n", [subject("document", collection.number)]);
    }
    case "vector": {
      const space = findSpace(view, "collection", first);
      if (!space) return undefined;
      const item = "space = ? AND id = ?";
      return withParts(view, "__service_vector_item", item, [space.space, second], "owner", vectorParts(space.space));
    }
    case "file":
      return readFileThing(view, first);
  }
}

/** Rows that belong to another: those of the table whose columns say so, given its number. */
interface Part {
  readonly table: string;
  readonly where: string;
}

const subject = (kind: string, place: number): Part => ({
  table: "__service_subject",
  where: `kind = '${kind}' AND place = ${place} AND owner = ?`,
});

/** The space in use, and not one that is being abandoned. */
const embedded = (kind: "memory" | "turn"): Part => ({
  table: vectorTable,
  where: `space = (SELECT space FROM __service_vector_space WHERE kind = '${kind}' AND name = '${kind}') AND owner = ?`,
});

const memoryParts: readonly Part[] = [
  ...["provenance", "metadata", "pin", "validity", "link"].map((name) => ({
    table: `__service_memory_${name}`,
    where: "memory = ?",
  })),
  subject("memory", 0),
  embedded("memory"),
];

const turnParts: readonly Part[] = [
  { table: "__service_turn_detail", where: "turn = ?" },
  subject("turn", 0),
  embedded("turn"),
];

const vectorParts = (space: number): readonly Part[] => [
  { table: vectorTable, where: `space = ${space} AND owner = ?` },
  { table: "__service_vector_detail", where: "owner = ?" },
  subject("vector", 0),
];

function withParts(
  { connection }: View,
  table: string,
  where: string,
  names: readonly (string | number)[],
  number: string | undefined,
  parts: readonly Part[],
): StoredThing | undefined {
  const own = connection.get<StoredRow>(`SELECT * FROM ${table} WHERE ${where}`, ...names);
  if (!own) return undefined;
  const there = connection.tablesAmong(parts.map((part) => part.table));
  const rows = parts
    .filter((part) => there.has(part.table))
    .map((part): [string, StoredRow[]] => {
      const sql = `SELECT * FROM ${part.table} WHERE ${part.where}`;
      return [part.table, connection.all<StoredRow>(sql, own[number!] as number)];
    });
  return { own, parts: Object.fromEntries(rows.filter(([, found]) => found.length > 0)) };
}

/** The present text of the path, and whom it is about; earlier versions are history. */
function readFileThing(view: View, path: string): StoredThing | undefined {
  const file = findFile(view, path);
  if (!file) return undefined;
  const about = view.connection.hasTable("__service_subject")
    ? view.connection.all<StoredRow>(`SELECT * FROM __service_subject WHERE ${subject("file", 0).where}`, file.row)
    : [];
  return {
    own: { path, hash: file.hash, text: readText(view, file) },
    parts: about.length > 0 ? { __service_subject: about } : {},
  };
}

/** What tells the states of a thing apart. */
export function markOf([kind]: Thing, { own, parts }: StoredThing): string {
  const ignored = kind === "vector" ? "" : vectorTable;
  const told = Object.entries(parts)
    .filter(([table]) => table !== ignored)
    .sort(([one], [other]) => (one < other ? -1 : 1))
    .map(([table, rows]) => [table, rows.map(tellRow).sort()]);
  return hash("sha256", JSON.stringify([tellRow(own), told]), "base64url");
}

function tellRow(row: StoredRow): string {
  const columns = Object.entries(row).filter(([column]) => !numbering.has(column));
  return JSON.stringify(
    columns.map(([column, value]) => [column, value instanceof Uint8Array ? hash("sha256", value, "hex") : value]),
  );
}

/** Bytes of what is stored, about. */
export function sizeOf({ own, parts }: StoredThing): number {
  let bytes = 0;
  for (const row of [own, ...Object.values(parts).flat()])
    for (const value of Object.values(row))
      bytes += typeof value === "string" ? value.length : value instanceof Uint8Array ? value.byteLength : 8;
  return bytes;
}
