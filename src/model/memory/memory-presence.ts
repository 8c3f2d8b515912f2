/**
 * Which memories are visible.
 *
 * Always true: what has expired, and what policy removes, is invisible to every command from that instant on, whether
 * or not a sweep has come by; so it is no matter whether the database is written, or which node holds it. Must not
 * know: what a caller looks for.
 */
import type { SqlParameter } from "../../sqlite/connection/connection.ts";
import type { View } from "../core/transaction.ts";
import { statesSql, supersededSql, type MemoryState } from "../standing/states.ts";

/** A condition on `__service_memory AS m`. */
export interface Presence {
  readonly sql: string;
  readonly params: readonly SqlParameter[];
}

/** Holds of the memories that are there, of those in the states that the caller lets through at all. */
export function presence({ nowMs, retention = {} }: View, states: readonly MemoryState[]): Presence {
  const { eventMaxAgeMs, supersededMaxAgeMs, supersededMaxCount } = retention;
  const all = ["(m.expires_at IS NULL OR m.expires_at > ?)"];
  const params: SqlParameter[] = [nowMs];
  if (eventMaxAgeMs !== undefined) {
    all.push("(m.type <> 'event' OR m.created_at > ?)");
    params.push(nowMs - eventMaxAgeMs);
  }
  all.push(statesSql("m", states));
  if (!states.includes("superseded")) return { sql: all.join(" AND "), params };
  const isOther = `(${supersededSql("m")}) IS NOT TRUE`;
  if (supersededMaxAgeMs !== undefined) {
    all.push(`(${isOther} OR m.superseded_at > ?)`);
    params.push(nowMs - supersededMaxAgeMs);
  }
  if (supersededMaxCount !== undefined) {
    // The newest of a topic stay. Counts no further than it must.
    all.push(`(${isOther} OR (SELECT count(*) FROM (
      SELECT 1 FROM __service_memory AS n WHERE n.topic_key = m.topic_key AND n.type = m.type
        AND ${supersededSql("n")} AND n.row > m.row LIMIT ?)) < ?)`);
    params.push(supersededMaxCount, supersededMaxCount);
  }
  return { sql: all.join(" AND "), params };
}
