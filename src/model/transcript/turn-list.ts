/**
 * A transcript page by page, in either direction.
 *
 * Always true: a listing that goes on from its cursor gives no turn twice and misses none that was there all the time,
 * whatever is written meanwhile, since a number is given once; a page is bounded in turns, in bytes and in how many it
 * looks at. Must not know: searches.
 */
import { invalid } from "../../base/faults/errors.ts";
import { limits } from "../../base/limits.ts";
import { checkSessionId, checkText } from "../../format/core/names.ts";
import type { SqlParameter } from "../../sqlite/connection/connection.ts";
import { checkSubject, subjectCondition } from "../core/subjects.ts";
import type { View } from "../core/transaction.ts";
import { checkFilter } from "../docs/metadata-filter.ts";
import { loadTurns, type TurnRecord } from "./transcript.ts";
import { joinedDetails, turnCondition } from "./turn-details.ts";
import { checkSeq } from "./turn-removal.ts";

export const turnsListDefault = 100;
const turnsListMax = 1000;
/**
 * Contents on one page, all together, unless a single turn has more: common gRPC clients take 4 MiB, and JSON grows in
 * the binary form.
 */
const turnsListBytesMax = 2 * 1024 * 1024;
/** Turns that one page looks at to find those that meet its conditions; the next page goes on. */
export const turnsLooksMax = 5_000;

export interface TurnListInput {
  readonly sessionId: string;
  /** `asc`, oldest first (the default), or `desc`. */
  readonly order?: string;
  readonly limit?: number;
  /** `nextCursor` of the page before. */
  readonly cursor?: string;
  readonly fromSeq?: number;
  readonly toSeq?: number;
  readonly role?: string;
  /** Whom they are about. */
  readonly subject?: string;
  /** JSON text. */
  readonly filter?: string;
}

/** Refuses a request that no state of the database could answer. Reads nothing. */
export function checkTurnList(input: TurnListInput): void {
  const { sessionId, order, limit, cursor, fromSeq, toSeq, role, subject, filter } = input;
  checkSessionId(sessionId);
  if (order !== undefined && order !== "asc" && order !== "desc")
    throw invalid("order must be asc, oldest first, or desc, newest first");
  if (limit !== undefined && (!Number.isInteger(limit) || limit < 1))
    throw invalid(`limit must be a whole number from 1; at most ${turnsListMax} turns are on a page`);
  checkSeq("from_seq", fromSeq);
  checkSeq("to_seq", toSeq);
  if (role !== undefined) checkText("role", role, limits.roleBytesMax);
  if (subject !== undefined) checkSubject("subject", subject);
  if (filter !== undefined) checkFilter("filter", filter);
  if (cursor !== undefined) decodeCursor(cursor, order !== "desc");
}

function cursorAfter(seq: number, rising: boolean): string {
  return Buffer.from(`${rising ? "a" : "d"}${seq}`).toString("base64url");
}

function decodeCursor(cursor: string, rising: boolean): number {
  const seq = Number(/^[ad]([1-9]\d{0,15})$/.exec(Buffer.from(cursor, "base64url").toString())?.[1]);
  if (Number.isSafeInteger(seq) && cursorAfter(seq, rising) === cursor) return seq;
  throw invalid("cursor must be the next_cursor of an earlier page in the same order");
}

/** A page of the transcript; `nextCursor` is there when there may be more. */
export function listTurns(view: View, input: TurnListInput): { turns: TurnRecord[]; nextCursor?: string } {
  checkTurnList(input);
  const rising = input.order !== "desc";
  const want = Math.min(input.limit ?? turnsListDefault, turnsListMax);
  const { seen, lookedAt } = look(view, input, rising, want + 1);
  let bytes = 0;
  const beyond = seen.findIndex((turn, at) => at === want || ((bytes += turn.bytes) > turnsListBytesMax && at > 0));
  const page = beyond < 0 ? seen : seen.slice(0, beyond);
  const after = beyond < 0 ? lookedAt : page.at(-1)!.seq;
  return {
    turns: loadTurns(view, "limit", page),
    ...(after !== undefined && { nextCursor: cursorAfter(after, rising) }),
  };
}

/** A turn that meets the conditions, and about how large it is. */
interface Seen {
  readonly row: number;
  readonly seq: number;
  readonly bytes: number;
}

interface Conditions {
  readonly sql: string;
  readonly params: readonly SqlParameter[];
}

function buildConditions(view: View, { role, subject, filter }: TurnListInput): Conditions {
  const conditions = [
    ...(role === undefined ? [] : [{ sql: "t.role = ?", params: [role] }]),
    ...(subject === undefined ? [] : [subjectCondition(view, "turn", "t.row", subject)]),
    ...(filter === undefined ? [] : [turnCondition(view, filter)]),
  ];
  return {
    sql: ["1", ...conditions.map(({ sql }) => sql)].join(" AND "),
    params: conditions.flatMap(({ params }): readonly SqlParameter[] => params),
  };
}

/**
 * The first turns that meet the conditions; `lookedAt` is the number of the last that was looked at when there are more
 * to look at.
 */
function look(
  view: View,
  input: TurnListInput,
  rising: boolean,
  most: number,
): { readonly seen: readonly Seen[]; readonly lookedAt: number | undefined } {
  const { sessionId, cursor } = input;
  const conditions = buildConditions(view, input);
  const { join, bytes } = joinedDetails(view);
  const after = cursor === undefined ? undefined : decodeCursor(cursor, rising);
  let first = Math.max(input.fromSeq ?? 1, rising && after !== undefined ? after + 1 : 1);
  let last = Math.min(input.toSeq ?? Infinity, !rising && after !== undefined ? after - 1 : Number.MAX_SAFE_INTEGER);
  const seen: Seen[] = [];
  for (let looks = 0; ;) {
    // More with each step, so that a listing without conditions reads no more than it gives.
    const ask = Math.min(turnsLooksMax - looks, Math.max(most, 3 * looks));
    const rows = view.connection.all<{ row: number; seq: number }>(
      `SELECT row, seq FROM __service_turn WHERE session_id = ? AND seq BETWEEN ? AND ?
       ORDER BY seq ${rising ? "ASC" : "DESC"} LIMIT ?`,
      sessionId,
      first,
      last,
      ask,
    );
    seen.push(
      ...view.connection.all<Seen>(
        `SELECT t.row, t.seq, ${bytes} AS bytes FROM json_each(?) AS asked CROSS JOIN __service_turn AS t
         ON t.row = asked.value ${join} WHERE ${conditions.sql} ORDER BY asked.key LIMIT ?`,
        JSON.stringify(rows.map(({ row }) => row)),
        ...conditions.params,
        most - seen.length,
      ),
    );
    looks += rows.length;
    if (rows.length < ask) return { seen, lookedAt: undefined };
    const { seq } = rows.at(-1)!;
    if (seen.length >= most || looks >= turnsLooksMax) return { seen, lookedAt: seq };
    if (rising) first = seq + 1;
    else last = seq - 1;
  }
}
