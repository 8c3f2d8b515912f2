/**
 * Which memories a recall may offer: what every channel asks in its own SQL, so that filters never starve an answer.
 */
import { invalid } from "../../base/faults/errors.ts";
import { limits } from "../../base/limits.ts";
import { checkText } from "../../format/core/names.ts";
import type { SqlParameter } from "../../sqlite/connection/connection.ts";
import { metadataCondition } from "../docs/memory-metadata.ts";
import { checkFilter } from "../docs/metadata-filter.ts";
import { presence } from "./memory-presence.ts";
import { memoryTypes, type MemoryType } from "./memory-record.ts";
import { checkSubject, subjectCondition } from "../core/subjects.ts";
import type { View } from "../core/transaction.ts";
import { activeOnly, memoryStates, type MemoryState } from "../standing/states.ts";
import { checkValidTime } from "../standing/validity.ts";

/** The filters of a request. */
export interface Filters {
  /** Absent: all; empty: none. */
  readonly types?: readonly string[];
  readonly sessionId?: string;
  readonly source?: string;
  /** Whom it is about. */
  readonly subject?: string;
  readonly includeSuperseded?: boolean;
  /** Also tasks that were completed. */
  readonly includeCompleted?: boolean;
  /** Those that hold in the world at this time, in Unix milliseconds; absent: whenever they hold. */
  readonly validAtMs?: number;
  /** In these states only, instead of active ones and those that are included. */
  readonly states?: readonly string[];
  /** Stored at or after this time, in Unix milliseconds. */
  readonly createdFromMs?: number;
  /** Stored before this time. */
  readonly createdToMs?: number;
  /** JSON text of a filter over metadata. */
  readonly filter?: string;
}

/** Refuses filters that no state of the database could answer. Reads nothing. */
export function checkFilters(filters: Filters): void {
  const { types, sessionId, source, subject, filter } = filters;
  checkStates(filters);
  checkValidTime("valid_at", filters.validAtMs);
  for (const type of types ?? []) {
    if (!memoryTypes.includes(type as MemoryType)) throw invalid(`types must be among ${memoryTypes.join(", ")}`);
  }
  if (sessionId !== undefined) checkText("session_id", sessionId, limits.sessionIdBytesMax);
  if (source !== undefined) checkText("source", source, limits.sourceBytesMax);
  if (subject !== undefined) checkSubject("subject", subject);
  if (filter !== undefined) checkFilter("filter", filter);
}

function checkStates({ states, includeSuperseded, includeCompleted }: Filters): void {
  if (states === undefined) return;
  if (states.some((state) => !memoryStates.includes(state as MemoryState)))
    throw invalid(`status must be among ${memoryStates.join(", ")}`);
  if (includeSuperseded || includeCompleted)
    throw invalid("status says which states are given: leave include_superseded and include_completed out beside it");
}

/** The states that the filters let through. */
function statesIn({ states, includeSuperseded, includeCompleted }: Filters): readonly MemoryState[] {
  if (states !== undefined) return states as readonly MemoryState[];
  if (!includeSuperseded && !includeCompleted) return activeOnly;
  return [
    ...activeOnly,
    ...(includeSuperseded ? (["superseded"] as const) : []),
    ...(includeCompleted ? (["completed"] as const) : []),
  ];
}

export function checkTime(field: string, timeMs: number | undefined): void {
  if (timeMs !== undefined && !(Number.isSafeInteger(timeMs) && timeMs >= 0))
    throw invalid(`${field} must be a time in Unix milliseconds`);
}

/** The span of time of every request that takes one. */
export function checkTimeRange({ createdFromMs, createdToMs }: Filters): void {
  checkTime("since", createdFromMs);
  checkTime("until", createdToMs);
  if (createdFromMs !== undefined && createdToMs !== undefined && createdFromMs >= createdToMs)
    throw invalid("since must be before until: what is stored at since is given, what is stored at until is not");
}

/** Conditions on `__service_memory AS m`. */
export interface Conditions {
  readonly sql: string;
  readonly params: readonly SqlParameter[];
  /** Whether the request narrows: otherwise most memories are expected to pass. */
  readonly narrow: boolean;
}

/**
 * The conditions that the filters mean. Session and source are asked of the provenance, not of the memory's own first
 * session and source: an agent that said it as a duplicate has ingested it as well. Both together must hold of one
 * saying.
 */
export function buildConditions(view: View, filters: Filters): Conditions {
  const present = presence(view, statesIn(filters), filters.validAtMs);
  const all = [present.sql];
  const params: SqlParameter[] = [...present.params];
  const common = all.length;
  if (filters.types) {
    const types = [...new Set(filters.types)];
    all.push(`m.type IN (${types.map(() => "?").join(", ")})`);
    params.push(...types);
  }
  for (const [comparison, timeMs] of [
    [">=", filters.createdFromMs],
    ["<", filters.createdToMs],
  ] as const) {
    if (timeMs === undefined) continue;
    all.push(`m.created_at ${comparison} ?`);
    params.push(timeMs);
  }
  const said: string[] = [];
  for (const [column, value] of [
    ["session_id", filters.sessionId],
    ["source", filters.source],
  ] as const) {
    if (value === undefined) continue;
    said.push(`p.${column} = ?`);
    params.push(value);
  }
  if (said.length > 0)
    all.push(
      `EXISTS (SELECT 1 FROM __service_memory_provenance AS p WHERE p.memory = m.row AND ${said.join(" AND ")})`,
    );
  if (filters.subject !== undefined) {
    const about = subjectCondition(view, "memory", "m.row", filters.subject);
    all.push(about.sql);
    params.push(...about.params);
  }
  if (filters.filter !== undefined) {
    // Last, as it costs the most.
    const metadata = metadataCondition(view, filters.filter);
    all.push(metadata.sql);
    params.push(...metadata.params);
  }
  return { sql: all.join(" AND "), params, narrow: all.length > common };
}

/**
 * Tells those of the rows that meet the conditions. For one search: what hundreds of conditions compile to is made once
 * and not kept, as it would take the place of what all use.
 */
export function admitter(
  { connection }: View,
  { sql, params }: Conditions,
): (rows: readonly number[]) => ReadonlySet<number> {
  const statement = connection
    .prepared(
      `SELECT m.row FROM json_each(?) AS asked CROSS JOIN __service_memory AS m ON m.row = asked.value WHERE ${sql}`,
    )
    .pluck();
  return (rows) => {
    connection.look();
    return new Set(statement.all(JSON.stringify(rows), ...params) as number[]);
  };
}
