/**
 * Memories in the order in which they came, page by page, and forgetting a page of them.
 *
 * Always true: a listing that goes on from its cursor gives no memory twice and misses none that was there all the
 * time, whatever is written meanwhile; a page is bounded in memories, in bytes and in how many it looks at. It rests on
 * this: rows are numbered in the order of their times, and a number comes back only when it was the highest.
 */
import { invalid } from "../../base/faults/errors.ts";
import { limits } from "../../base/limits.ts";
import { checkText } from "../../format/core/names.ts";
import { joinedMetadata } from "../docs/memory-metadata.ts";
import { loadMemories, type MemoryRecord } from "./memory-record.ts";
import { removeMemories } from "./memory-removal.ts";
import { checkTurnNumber, derivedRows, memoryIdBytesMax, type LinkTarget } from "../standing/links.ts";
import { checkFilters, checkTimeRange, buildConditions, type Conditions, type Filters } from "./recall-conditions.ts";
import type { Tx, View } from "../core/transaction.ts";

export const memoriesListDefault = 50;
export const memoriesListMax = 1000;
/**
 * Memories on one page of a list, all together, unless a single one has more: common gRPC clients take 4 MiB, and
 * JSON grows in the binary form.
 */
const memoriesListBytesMax = 2 * 1024 * 1024;
/** Memories that one page looks at to find those that meet its conditions, about 20 ms; the next page goes on. */
export const memoriesLooksMax = 5_000;

/** What a memory must meet to be listed or forgotten. */
interface ListConditions extends Filters {
  readonly topicKey?: string;
  /** What they were derived from: a memory, a turn of a session, or any turn of it. */
  readonly derivedFrom?: LinkTarget;
}

export interface ListInput extends ListConditions {
  /** By when they were stored: newest first (`desc`, the default) or oldest first. */
  readonly order?: string;
  readonly limit?: number;
  /** `nextCursor` of the page before. */
  readonly cursor?: string;
}

/** Refuses a request that no state of the database could answer. Reads nothing. */
export function checkList(input: ListInput): void {
  checkFilters(input);
  const { topicKey, order, limit, cursor } = input;
  if (topicKey !== undefined) checkText("topic_key", topicKey, limits.topicKeyBytesMax);
  if (input.derivedFrom) checkTarget(input.derivedFrom);
  checkTimeRange(input);
  if (order !== undefined && order !== "asc" && order !== "desc")
    throw invalid("order must be desc, newest first, or asc, oldest first");
  if (limit !== undefined && (!Number.isInteger(limit) || limit < 1))
    throw invalid(`limit must be a whole number from 1; at most ${memoriesListMax} memories are on a page`);
  if (cursor !== undefined) decodeCursor(cursor, input.order === "asc");
}

function checkTarget({ memoryId, sessionId, seq }: LinkTarget): void {
  if (memoryId !== undefined && sessionId !== undefined)
    throw invalid("give derived_from_memory or derived_from_session, not both");
  if (seq !== undefined && sessionId === undefined) throw invalid("derived_from_seq goes with derived_from_session");
  if (memoryId !== undefined) checkText("derived_from_memory", memoryId, memoryIdBytesMax);
  if (sessionId !== undefined) checkText("derived_from_session", sessionId, limits.sessionIdBytesMax);
  if (seq !== undefined) checkTurnNumber("derived_from_seq", seq);
}

/** Refuses to forget everything because nothing was said. */
export function checkDeletion(input: ListInput): void {
  const { types, topicKey, sessionId, source, createdFromMs, createdToMs, filter, states, derivedFrom } = input;
  if (
    [types, topicKey, sessionId, source, createdFromMs, createdToMs, filter, states, derivedFrom].every(
      (condition) => condition === undefined,
    )
  ) {
    throw invalid(
      "give at least one of types, topic_key, session_id, source, since, until, filter, status and " +
        "derived_from_memory or derived_from_session; an empty filter holds of every memory",
    );
  }
  checkList(input);
}

/**
 * The memories that meet the conditions, of a request that passed `checkList`; `nextCursor` is there when there may be
 * more.
 */
export function listMemories(view: View, input: ListInput): { memories: MemoryRecord[]; nextCursor?: string } {
  const { seen, nextCursor } = readPage(view, input, input.limit ?? memoriesListDefault, memoriesListBytesMax);
  const memories = loadMemories(
    view,
    seen.map(({ row }) => row),
  );
  return { memories, ...(nextCursor !== undefined && { nextCursor }) };
}

/**
 * Deletes the memories that meet the conditions, of a request that passed `checkDeletion`, newest first. What they
 * superseded stays superseded.
 */
export function deleteMemories(tx: Tx, input: ListInput): { ids: string[]; nextCursor?: string } {
  const { seen, nextCursor } = readPage(tx, input, input.limit ?? memoriesListMax, Infinity);
  removeMemories(
    tx,
    seen.map(({ row }) => row),
    "forgotten",
  );
  return { ids: seen.map(({ id }) => id), ...(nextCursor !== undefined && { nextCursor }) };
}

/** A place between two memories: after this one. */
interface Position {
  readonly row: number;
  readonly id: string;
}

const positionPattern = /^([ad])([1-9]\d{0,15}) (\S{1,64})$/;

/** What a caller goes on with after the memory, in the order. */
export function cursorAfter({ row, id }: Position, rising: boolean): string {
  return Buffer.from(`${rising ? "a" : "d"}${row} ${id}`).toString("base64url");
}

/** The place that a cursor of the order means; refuses another. */
export function decodeCursor(cursor: string, rising: boolean): Position {
  const [, order, digits, id] = positionPattern.exec(Buffer.from(cursor, "base64url").toString()) ?? [];
  const position = { row: Number(digits), id: id ?? "" };
  if (order !== undefined && Number.isSafeInteger(position.row) && cursorAfter(position, rising) === cursor)
    return position;
  throw invalid("cursor must be the next_cursor of an earlier page in the same order");
}

/** Rows from `first` up to but not including `end`. */
interface Range {
  readonly first: number;
  readonly end: number;
}

/** The first row that was stored at or after the time, or the number after the last one. */
function firstRowSince(view: View, timeMs: number): number {
  let low = 1;
  let high = view.connection.get<{ end: number }>("SELECT coalesce(max(row), 0) + 1 AS end FROM __service_memory")!.end;
  while (low < high) {
    const middle = Math.floor((low + high) / 2);
    const found = view.connection.get<{ row: number; created_at: number }>(
      "SELECT row, created_at FROM __service_memory WHERE row >= ? ORDER BY row LIMIT 1",
      middle,
    );
    if (!found || found.created_at >= timeMs) high = middle;
    else low = found.row + 1;
  }
  return low;
}

function computeRange(view: View, { createdFromMs, createdToMs, cursor }: ListInput, rising: boolean): Range {
  const first = createdFromMs === undefined ? 1 : firstRowSince(view, createdFromMs);
  const end = createdToMs === undefined ? Number.MAX_SAFE_INTEGER : firstRowSince(view, createdToMs);
  const after = cursor === undefined ? undefined : decodeCursor(cursor, rising);
  if (!after) return { first, end };
  if (!rising) return { first, end: Math.min(end, after.row) };
  return { first: Math.max(first, firstRowAfter(view, after)), end };
}

/** The first row that may come after the memory in rising order. */
export function firstRowAfter(view: View, { row, id }: Position): number {
  // The number of a memory that is gone may be that of a later one by now.
  const stands = view.connection.get("SELECT 1 FROM __service_memory WHERE row = ? AND id = ?", row, id) !== undefined;
  return stands ? row + 1 : row;
}

/** The next `most` rows of the range in order, of those that an index can tell apart. */
function rowsIn(view: View, input: ListInput, range: Range, rising: boolean, most: number): readonly number[] {
  const { topicKey, sessionId, derivedFrom } = input;
  const order = rising ? "ASC" : "DESC";
  const within = (column: string): string => `${column} >= ? AND ${column} < ? ORDER BY ${column} ${order} LIMIT ?`;
  const derived = derivedFrom && derivedRows(view, derivedFrom);
  if (derivedFrom && !derived) return [];
  if (derived)
    return view.connection
      .prepared(`${derived.sql} AND ${within("l.memory")}`)
      .pluck()
      .all(...derived.params, range.first, range.end, most) as number[];
  // The index of sessions leaves the empty one out: SQLite uses it only where it is told so.
  const source =
    topicKey !== undefined
      ? `SELECT row FROM __service_memory WHERE topic_key = ? AND ${within("row")}`
      : sessionId !== undefined
        ? "SELECT DISTINCT memory FROM __service_memory_provenance WHERE session_id <> '' AND session_id = ? " +
          `AND ${within("memory")}`
        : `SELECT row FROM __service_memory WHERE ${within("row")}`;
  const key = topicKey ?? sessionId;
  return view.connection
    .prepared(source)
    .pluck()
    .all(...(key === undefined ? [] : [key]), range.first, range.end, most) as number[];
}

/** A memory that meets the conditions, and about how large it is. */
interface Seen extends Position {
  readonly bytes: number;
}

/** Those of the rows that meet the conditions, in their order, at most `most`. */
function seenAmong(view: View, conditions: Conditions, rows: readonly number[], most: number): readonly Seen[] {
  const { join, column } = joinedMetadata(view);
  return view.connection.all<Seen>(
    `SELECT m.row, m.id, octet_length(m.content) + octet_length(m.summary) + coalesce(octet_length(m.keywords), 0) +
       coalesce(octet_length(${column}), 0) AS bytes
     FROM json_each(?) AS asked CROSS JOIN __service_memory AS m ON m.row = asked.value ${join} WHERE ${conditions.sql}
       ORDER BY asked.key LIMIT ?`,
    JSON.stringify(rows),
    ...conditions.params,
    most,
  );
}

interface Page {
  readonly seen: readonly Seen[];
  readonly nextCursor: string | undefined;
}

/** A page of at most `limit` memories, and of `bytesMax` unless a single one has more. */
function readPage(view: View, input: ListInput, limit: number, bytesMax: number): Page {
  const rising = input.order === "asc";
  const want = Math.min(limit, memoriesListMax);
  const { topicKey } = input;
  const narrowed = buildConditions(view, input);
  const conditions =
    topicKey === undefined
      ? narrowed
      : { ...narrowed, sql: `m.topic_key = ? AND ${narrowed.sql}`, params: [topicKey, ...narrowed.params] };
  const { seen, lookedAt } = look(view, input, conditions, rising, want + 1);
  let bytes = 0;
  const beyond = seen.findIndex((memory, at) => at === want || ((bytes += memory.bytes) > bytesMax && at > 0));
  if (beyond >= 0) return { seen: seen.slice(0, beyond), nextCursor: cursorAfter(seen[beyond - 1]!, rising) };
  return { seen, nextCursor: lookedAt && cursorAfter(lookedAt, rising) };
}

/**
 * The first memories that meet the conditions; `lookedAt` is the last that was looked at when there are more to look
 * at.
 */
function look(
  view: View,
  input: ListInput,
  conditions: Conditions,
  rising: boolean,
  most: number,
): { readonly seen: readonly Seen[]; readonly lookedAt: Position | undefined } {
  const seen: Seen[] = [];
  let range = computeRange(view, input, rising);
  for (let looks = 0; ;) {
    // More with each step, so that a listing without conditions reads no more than it gives.
    const ask = Math.min(memoriesLooksMax - looks, Math.max(most, 3 * looks));
    const rows = rowsIn(view, input, range, rising, ask);
    seen.push(...seenAmong(view, conditions, rows, most - seen.length));
    looks += rows.length;
    const last = rows.at(-1);
    if (last === undefined || rows.length < ask) return { seen, lookedAt: undefined };
    if (seen.length >= most || looks >= memoriesLooksMax) {
      const { id } = view.connection.get<{ id: string }>("SELECT id FROM __service_memory WHERE row = ?", last)!;
      return { seen, lookedAt: { row: last, id } };
    }
    range = rising ? { ...range, first: last + 1 } : { ...range, end: last };
  }
}
