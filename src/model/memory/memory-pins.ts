/**
 * Which memories are pinned: shown first, whatever their age, where a part of what is remembered is shown.
 *
 * Owns its table, which is made by the first pin: earlier files stay as they are and are still read. Always true: a pin
 * goes with its memory, and is no part of what makes two memories the same. It holds the memory's number and time, and
 * nothing that was said. The time is there because a build without pins may remove a memory and leave its pin, and the
 * number of the newest memory is given again: a pin counts where both agree. Must not know: who shows what.
 */
import type { Connection } from "../../sqlite/connection/connection.ts";
import type { Tx, View } from "../core/transaction.ts";
import { activeOnly } from "../standing/states.ts";
import { presence } from "./memory-presence.ts";

const table = "__service_memory_pin";

const columns = "memory INTEGER PRIMARY KEY, created_at INTEGER NOT NULL";
const schema = `CREATE TABLE IF NOT EXISTS ${table} (${columns}) STRICT`;

const sameMemory = (pin: string): string => `${pin}.memory = m.row AND ${pin}.created_at = m.created_at`;

/** SQL that finds pins without their memory; undefined while nothing was ever pinned. */
export function strayPins(connection: Connection): string | undefined {
  return connection.hasTable(table)
    ? `SELECT 1 FROM ${table} AS p
         WHERE NOT EXISTS (SELECT 1 FROM __service_memory AS m WHERE ${sameMemory("p")}) LIMIT 1`
    : undefined;
}

/** Pins the memory of this row, which is there; one that is pinned stays as it is. */
export function pinMemory({ connection }: Tx, row: number): void {
  connection.exec(schema);
  connection.run(
    `INSERT INTO ${table} (memory, created_at) SELECT row, created_at FROM __service_memory WHERE row = ?
     ON CONFLICT (memory) DO UPDATE SET created_at = excluded.created_at WHERE created_at <> excluded.created_at`,
    row,
  );
}

/** Takes the pins of these memories away, of those that have one. */
export function unpinMemories({ connection }: Tx, rows: readonly number[]): void {
  if (!connection.hasTable(table)) return;
  for (const row of rows) connection.run(`DELETE FROM ${table} WHERE memory = ?`, row);
}

/** The pins beside `__service_memory AS m`: a join, and a column that is 1 where the memory is pinned. */
export function joinedPins({ connection }: View): { readonly join: string; readonly column: string } {
  if (!connection.hasTable(table)) return { join: "", column: "0" };
  return { join: `LEFT JOIN ${table} AS pin ON ${sameMemory("pin")}`, column: "pin.memory IS NOT NULL" };
}

/** Pins that are looked at to find those of a type, newest memory first. */
const pinsLookedAtMax = 5_000;

/** The pinned memories of these types that are active, the newest first, at most so many. */
export function pinnedMemories(
  view: View,
  types: readonly string[],
  most: number,
): { readonly row: number; readonly id: string }[] {
  if (!view.connection.hasTable(table)) return [];
  const present = presence(view, activeOnly);
  return view.connection.all(
    `SELECT m.row, m.id
     FROM (SELECT memory, created_at FROM ${table} ORDER BY memory DESC LIMIT ${pinsLookedAtMax}) AS p
     CROSS JOIN __service_memory AS m ON ${sameMemory("p")}
     WHERE m.type IN (SELECT value FROM json_each(?)) AND ${present.sql} ORDER BY m.row DESC LIMIT ?`,
    JSON.stringify(types),
    ...present.params,
    most,
  );
}
