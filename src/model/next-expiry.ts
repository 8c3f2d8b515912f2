/**
 * When something of a database will be there for a sweep to remove, so that one can be made although it is not in use.
 *
 * Always true: the time is never later than the true one, unless policy changes; it may be too early, and then the
 * sweep that comes of it finds a later one. Looks at a bounded number of rows, most of them by an index. Must not know:
 * who sweeps, where times are noted.
 */
import { limits } from "../base/limits.ts";
import type { AgingPosition } from "./memory/memory-aging.ts";
import type { MemoryRetention } from "./core/retention.ts";
import type { View } from "./core/transaction.ts";
import { supersededSql } from "./standing/states.ts";

/** What is known of the database beside its rows. */
export interface DueQuestion {
  readonly retention?: MemoryRetention | undefined;
  /** Where the last sweep of the same open file has come to. */
  readonly position?: AgingPosition | undefined;
  /** Whether that sweep was through, and nothing but sweeps has been committed since. */
  readonly isSwept: boolean;
}

/**
 * When the next sweep has something to do, in Unix milliseconds; undefined while nothing that there is will ever
 * expire.
 */
export function nextDue(
  view: View,
  { retention = {}, position = {}, isSwept }: DueQuestion,
): { readonly dueAtMs: number | undefined } {
  const { eventMaxAgeMs, supersededMaxAgeMs, supersededMaxCount } = retention;
  const times = [
    readTime(view, "SELECT min(expires_at) AS at FROM __service_kv WHERE expires_at IS NOT NULL"),
    readTime(view, "SELECT min(expires_at) AS at FROM __service_memory WHERE expires_at IS NOT NULL"),
    eventMaxAgeMs === undefined ? undefined : later(nextEvent(view, position.event), eventMaxAgeMs),
    supersededMaxAgeMs === undefined
      ? undefined
      : later(
          readTime(
            view,
            `SELECT superseded_at AS at FROM __service_memory AS m WHERE superseded_by IS NOT NULL
             AND ${supersededSql("m")} ORDER BY superseded_by LIMIT 1`,
          ),
          supersededMaxAgeMs,
        ),
    // Only a sweep through all topics tells which one has too many.
    supersededMaxCount === undefined || isSwept
      ? undefined
      : readTime(
          view,
          `SELECT ? AS at FROM __service_memory AS m WHERE superseded_by IS NOT NULL AND ${supersededSql("m")} LIMIT 1`,
          view.nowMs,
        ),
  ];
  const known = times.filter((atMs) => atMs !== undefined);
  return { dueAtMs: known.length === 0 ? undefined : Math.min(...known) };
}

function readTime(view: View, sql: string, ...values: number[]): number | undefined {
  return view.connection.get<{ at: number | null }>(sql, ...values)?.at ?? undefined;
}

function later(atMs: number | undefined, byMs: number): number | undefined {
  return atMs === undefined ? undefined : atMs + byMs;
}

/** When the oldest event was taken in, or at the earliest; rows are numbered in the order of their times. */
function nextEvent(view: View, from: AgingPosition["event"]): number | undefined {
  const stands =
    from &&
    view.connection.get("SELECT 1 FROM __service_memory WHERE row = ? AND id = ?", from.row, from.id) !== undefined;
  const row = stands ? from.row : 0;
  const event = readTime(
    view,
    "SELECT created_at AS at FROM (SELECT row, type, created_at FROM __service_memory WHERE row > ? ORDER " +
      "BY row LIMIT ?) WHERE type = 'event' ORDER BY row LIMIT 1",
    row,
    limits.sweepLooksMax,
  );
  return (
    event ??
    readTime(
      view,
      "SELECT created_at AS at FROM __service_memory WHERE row > ? ORDER BY row LIMIT 1 OFFSET ?",
      row,
      limits.sweepLooksMax - 1,
    )
  );
}
