/**
 * Which turns a search may offer: of one session, of a span of time.
 *
 * Must not know: how turns are searched.
 */
import type { SqlParameter } from "../../sqlite/connection/connection.ts";
import type { View } from "../core/transaction.ts";

export interface TurnFilters {
  readonly sessionId?: string | undefined;
  /** Appended at or after this time, in Unix milliseconds. */
  readonly createdFromMs?: number | undefined;
  /** Appended before this time. */
  readonly createdToMs?: number | undefined;
}

/** Gives those of the rows that meet the filters; undefined where all do. */
export function turnFilter(
  view: View,
  { sessionId, createdFromMs, createdToMs }: TurnFilters,
): ((rows: readonly number[]) => ReadonlySet<number>) | undefined {
  const conditions: string[] = [];
  const params: SqlParameter[] = [];
  for (const [condition, value] of [
    ["t.session_id = ?", sessionId],
    ["t.created_at >= ?", createdFromMs],
    ["t.created_at < ?", createdToMs],
  ] as const) {
    if (value === undefined) continue;
    conditions.push(condition);
    params.push(value);
  }
  if (conditions.length === 0) return undefined;
  const sql =
    "SELECT t.row FROM json_each(?) AS asked CROSS JOIN __service_turn AS t ON t.row = asked.value WHERE " +
    conditions.join(" AND ");
  return (rows) =>
    new Set(view.connection.all<{ row: number }>(sql, JSON.stringify(rows), ...params).map(({ row }) => row));
}
