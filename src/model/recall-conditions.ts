/** Which memories a recall may offer: what every channel asks in its own SQL, so that filters never starve an answer. */
import type { SqlValue } from "../sqlite/connection.ts";
import type { View } from "./transaction.ts";

/** The filters of a request. */
export interface Filters {
  /** Absent: all; empty: none. */
  readonly types?: readonly string[];
  readonly sessionId?: string;
  readonly source?: string;
  readonly includeSuperseded?: boolean;
}

/** Conditions on `__service_memory AS m`. */
export interface Conditions {
  readonly sql: string;
  readonly params: readonly SqlValue[];
  /** Whether the request narrows: otherwise most memories are expected to pass. */
  readonly narrow: boolean;
}

/**
 * The conditions that the filters mean. Session and source are asked of the provenance, not of the memory's own first
 * session and source: whoever said it as a duplicate has ingested it as well. Both together must hold of one saying.
 */
export function conditionsOf(view: View, filters: Filters): Conditions {
  const all = ["(m.expires_at IS NULL OR m.expires_at > ?)"];
  const params: SqlValue[] = [view.nowMs];
  if (!filters.includeSuperseded) all.push("m.superseded_by IS NULL");
  const common = all.length;
  if (filters.types) {
    const types = [...new Set(filters.types)];
    all.push(`m.type IN (${types.map(() => "?").join(", ")})`);
    params.push(...types);
  }
  const said: string[] = [];
  for (const [column, value] of [["session_id", filters.sessionId], ["source", filters.source]] as const) {
    if (value === undefined) continue;
    said.push(`p.${column} = ?`);
    params.push(value);
  }
  if (said.length > 0) all.push(`EXISTS (SELECT 1 FROM __service_memory_provenance AS p WHERE p.memory = m.row AND ${said.join(" AND ")})`);
  return { sql: all.join(" AND "), params, narrow: all.length > common };
}

/** Those of the rows that meet the conditions. */
export function admitted(view: View, conditions: Conditions, rows: readonly number[]): ReadonlySet<number> {
  const sql = `SELECT m.row FROM json_each(?) AS asked CROSS JOIN __service_memory AS m ON m.row = asked.value WHERE ${conditions.sql}`;
  return new Set(view.connection.all<{ row: number }>(sql, JSON.stringify(rows), ...conditions.params).map(({ row }) => row));
}
