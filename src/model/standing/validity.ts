/**
 * When what a memory says holds in the world, where it says so: from a time on, until a time, or between two.
 *
 * Owns its table, which is made by the first memory that says so: earlier files stay as they are and are still read.
 * Always true: a row belongs to a memory that is there, which a trigger of the file sees to, so that a build that knows
 * nothing of the table leaves no row behind either; it says one time at least, and a memory without a row holds at any
 * time. The id is there so that no two rows are alike and a copy of one can be looked for (erasure-traces).
 *
 * Of a topic a later memory comes before an earlier one for as long as it holds itself, and at no other time. So a
 * superseded memory is held over at a time at which everything that followed it is there and does not hold. But what
 * says the same again of an overlapping time says when it holds anew: the earlier one is held over no more. Must not
 * know: who asks for which time.
 */
import { invalid } from "../../base/faults/errors.ts";
import { encodeUtf8 } from "../../base/bytes.ts";
import type { Connection, SqlParameter } from "../../sqlite/connection/connection.ts";
import { encodeRecord, integer, nothing, text } from "../core/record-bytes.ts";
import type { Tx, View } from "../core/transaction.ts";
import { supersededSql } from "./states.ts";

export const validityTable = "__service_memory_validity";

const schema = `
CREATE TABLE ${validityTable} (
  memory INTEGER PRIMARY KEY,
  id TEXT NOT NULL,
  valid_from INTEGER,
  valid_until INTEGER
) STRICT;
CREATE TRIGGER __service_memory_times_gone AFTER DELETE ON __service_memory
BEGIN DELETE FROM ${validityTable} WHERE memory = old.row; END;
`;

/** The times that a `Date` can have, in Unix milliseconds: what holds may have begun long ago. */
export const validTimeMax = 8.64e15;

/** When a memory holds: at or after the first, before the second; absent ones bound nothing. */
export interface Validity {
  readonly validFromMs?: number;
  readonly validUntilMs?: number;
}

/** Refuses a time that none can be, of the field. */
export function checkValidTime(field: string, timeMs: number | undefined): void {
  if (timeMs !== undefined && !(Number.isInteger(timeMs) && Math.abs(timeMs) <= validTimeMax))
    throw invalid(`${field} must be a time in Unix milliseconds, from ${-validTimeMax} to ${validTimeMax}`);
}

/** Refuses what begins when it is over; `name` is the memory's place. */
export function checkValidity(name: string, { validFromMs, validUntilMs }: Validity): void {
  checkValidTime(`${name}.valid_from`, validFromMs);
  checkValidTime(`${name}.valid_until`, validUntilMs);
  if (validFromMs !== undefined && validUntilMs !== undefined && validFromMs >= validUntilMs)
    throw invalid(`${name}.valid_from must be before valid_until: at that time it holds no more`);
}

/** Whether any memory of the file says when it holds. */
export function hasValidity({ connection }: Pick<View, "connection">): boolean {
  return connection.hasTable(validityTable);
}

/** SQL that finds rows without their memory; undefined while there are none at all. */
export function strayValidity(connection: Connection): string | undefined {
  return connection.hasTable(validityTable)
    ? `SELECT 1 FROM ${validityTable} WHERE memory NOT IN (SELECT row FROM __service_memory) LIMIT 1`
    : undefined;
}

/** Notes when a new memory holds, if it says so. */
export function putValidity(tx: Tx, memory: { readonly row: number; readonly id: string }, validity: Validity): void {
  const { validFromMs = null, validUntilMs = null } = validity;
  if ((validFromMs ?? validUntilMs) === null) return;
  if (!hasValidity(tx)) tx.connection.exec(schema);
  tx.connection.run(
    `INSERT INTO ${validityTable} (memory, id, valid_from, valid_until) VALUES (?, ?, ?, ?)`,
    memory.row,
    memory.id,
    validFromMs,
    validUntilMs,
  );
}

/** The times beside `__service_memory AS m`: a join, and the columns that it gives. */
export function joinedValidity(
  view: Pick<View, "connection">,
  isThere = hasValidity(view),
): { readonly join: string; readonly columns: string } {
  if (!isThere) return { join: "", columns: "NULL AS validFrom, NULL AS validUntil" };
  return {
    join: `LEFT JOIN ${validityTable} AS v ON v.memory = m.row`,
    columns: "v.valid_from AS validFrom, v.valid_until AS validUntil",
  };
}

/** A condition with its parameters. */
interface Condition {
  readonly sql: string;
  readonly params: readonly SqlParameter[];
}

/** Holds of the rows of the alias that do not hold at the time. */
function outsideSql(alias: string): string {
  return `EXISTS (SELECT 1 FROM ${validityTable} AS v WHERE v.memory = ${alias}.row
    AND (v.valid_from > ? OR v.valid_until <= ?))`;
}

/** Of `__service_memory AS m`, of a file in which some memory says when it holds: that it holds at the time. */
export function validAt(atMs: number): Condition {
  return { sql: `NOT ${outsideSql("m")}`, params: [atMs, atMs] };
}

/** Holds where `n` does not say `m` again, of a time that overlaps. */
const notAgain = `NOT (n.summary = m.summary AND n.content = m.content AND NOT EXISTS (
  SELECT 1 FROM ${validityTable} AS a CROSS JOIN ${validityTable} AS b ON b.memory = m.row
  WHERE a.memory = n.row AND (a.valid_from >= b.valid_until OR b.valid_from >= a.valid_until)))`;

/** Of `__service_memory AS m`, likewise: that it is superseded, and nothing that followed it holds at the time. */
export function heldOverAt(atMs: number): Condition {
  return {
    sql: `(${supersededSql("m")} AND EXISTS (
      WITH RECURSIVE later (superseder) AS (
        SELECT n.superseded_by FROM __service_memory AS n WHERE n.id = m.superseded_by AND ${outsideSql("n")}
          AND ${notAgain}
        UNION ALL
        SELECT n.superseded_by FROM later CROSS JOIN __service_memory AS n ON n.id = later.superseder
          WHERE ${outsideSql("n")} AND ${notAgain})
      SELECT 1 FROM later WHERE superseder IS NULL))`,
    params: [atMs, atMs, atMs, atMs],
  };
}

/** The newest memories that say when they hold, so many, of which those that are held over are looked for. */
const looksMax = 5_000;

/** SQL for the rows of a type that may be held over at the time, given `heldOverParameters`. */
export const heldOverRows = `
  WITH RECURSIVE later (id) AS (
    SELECT n.id FROM (SELECT * FROM ${validityTable} ORDER BY memory DESC LIMIT ${looksMax}) AS v
      CROSS JOIN __service_memory AS n ON n.row = v.memory
      WHERE n.superseded_by IS NULL AND n.topic_key IS NOT NULL AND n.type = ?
        AND (v.valid_from > ? OR v.valid_until <= ?)
    UNION ALL
    SELECT n.id FROM later CROSS JOIN __service_memory AS n ON n.superseded_by = later.id
      WHERE n.superseded_by IS NOT NULL AND ${outsideSql("n")})
  SELECT o.row FROM later CROSS JOIN __service_memory AS o ON o.superseded_by = later.id
    WHERE o.superseded_by IS NOT NULL`;

/** What `heldOverRows` is asked with. */
export function heldOverParameters(type: string, atMs: number): readonly SqlParameter[] {
  return [type, atMs, atMs, atMs, atMs];
}

/** Whether the active memory of a topic says when it holds: where it does not, nothing is held over. */
export function isActiveBounded({ connection }: View, type: string, topicKey: string): boolean {
  const sql = `SELECT 1 FROM __service_memory AS m CROSS JOIN ${validityTable} AS v ON v.memory = m.row
    WHERE m.topic_key = ? AND m.type = ? AND m.superseded_by IS NULL`;
  return connection.hasTable(validityTable) && connection.get(sql, topicKey, type) !== undefined;
}

/** The last bytes of the memory's row here as it lies on its page, by which a copy is found; undefined without one. */
export function validityEnd({ connection }: View, row: number): Uint8Array | undefined {
  if (!connection.hasTable(validityTable)) return undefined;
  const found = connection.get<{ id: string; from: number | null; until: number | null }>(
    `SELECT id, valid_from AS "from", valid_until AS until FROM ${validityTable} WHERE memory = ?`,
    row,
  );
  if (!found) return undefined;
  const times = [found.from, found.until].map((time) => (time === null ? nothing : integer(time)));
  return encodeRecord(nothing, text(encodeUtf8(found.id)), ...times);
}
