/** Rows as they were stored, written back; what numbers them follows the thing that they belong to. */
import type { Tx } from "../core/transaction.ts";
import { ensureTrigger, type SubjectKind } from "../core/subjects.ts";
import type { StoredRow, StoredThing } from "./things.ts";

/** The columns by which the rows of a table say whose they are, where that is not the table's own thing. */
const ownerColumns: Readonly<Record<string, string>> = {
  __service_memory_provenance: "memory",
  __service_memory_metadata: "memory",
  __service_memory_pin: "memory",
  __service_memory_validity: "memory",
  __service_memory_link: "memory",
  __service_turn_detail: "turn",
  __service_vector_detail: "owner",
  __service_subject: "owner",
};

/** Inserts the row, with its number where it has one; gives its number. */
export function insertRow({ connection }: Tx, table: string, row: StoredRow): number {
  const columns = Object.keys(row);
  return connection.run(
    `INSERT INTO ${table} (${columns.join(", ")}) VALUES (${columns.map(() => "?").join(", ")})`,
    ...Object.values(row),
  ).lastInsertRowid;
}

/** Inserts the row under the number that it had, in this column, unless another has it by now; gives the number. */
export function insertAgain(tx: Tx, table: string, column: string, row: StoredRow): number {
  const { [column]: number, ...unnumbered } = row;
  const isTaken = tx.connection.get(`SELECT 1 FROM ${table} WHERE ${column} = ?`, number!) !== undefined;
  return insertRow(tx, table, isTaken ? unnumbered : row);
}

/** Gives the row of this number the values, but for its number. */
export function replaceRow({ connection }: Tx, table: string, column: string, number: number, row: StoredRow): void {
  const { [column]: _, ...values } = row;
  const set = Object.keys(values).map((name) => `${name} = ?`);
  connection.run(`UPDATE ${table} SET ${set.join(", ")} WHERE ${column} = ?`, ...Object.values(values), number);
}

/** Puts what belongs to the thing of this number back, in the place of what belongs to it now. */
export function putParts(tx: Tx, before: StoredThing, now: StoredThing | undefined, number: number): void {
  for (const [table, rows] of Object.entries(now?.parts ?? {}))
    if (table in ownerColumns) for (const row of rows) removeRow(tx, table, row);
  for (const [table, rows] of Object.entries(before.parts)) {
    const column = ownerColumns[table];
    // A vector goes into a space, which knows more of it than its row.
    if (column === undefined) continue;
    for (const row of rows) insertRow(tx, table, numbered(tx, table, row, column, number));
  }
}

function numbered(tx: Tx, table: string, row: StoredRow, column: string, number: number): StoredRow {
  if (table !== "__service_subject") return { ...row, [column]: number };
  // Its own number means nothing, and may be another's by now.
  const { row: _, ...values } = row;
  ensureTrigger(tx.connection, row["kind"] as SubjectKind, row["place"] as number);
  return { ...values, [column]: number };
}

function removeRow({ connection }: Tx, table: string, row: StoredRow): void {
  const columns = Object.keys(row);
  const where = columns.map((column) => `${column} IS ?`).join(" AND ");
  connection.run(`DELETE FROM ${table} WHERE ${where}`, ...Object.values(row));
}
