/** Sessions: which there are, and how one ends. */
import { invalid } from "../../base/faults/errors.ts";
import { limits } from "../../base/limits.ts";
import { checkSessionId } from "../../format/core/names.ts";
import { removeMemories } from "../memory/memory-removal.ts";
import { removeSession } from "../core/session-row.ts";
import { note } from "../core/change-notes.ts";
import type { Tx, View } from "../core/transaction.ts";
import { removeTurns } from "./turn-removal.ts";

const sessionsMax = 1000;
/** A page that counts turns ends with the session by which it has counted so many, some 20 ms. */
export const turnsCountedMax = 200_000;

/** A session; times are Unix milliseconds. */
export interface SessionRecord {
  id: string;
  createdAt: number;
  lastActiveAt: number;
  /** How many turns it has; this and the next two only where they were asked for. */
  turns?: number;
  /** Of its first turn; absent when it has none, as the next. */
  firstTurnAt?: number;
  lastTurnAt?: number;
}

/** What a listing of sessions asks for. */
export interface SessionListInput {
  readonly limit?: number;
  /** `nextCursor` of the page before. */
  readonly cursor?: string;
  /** Also counts the turns. */
  readonly includeTurns?: boolean;
}

/** Refuses a request that no state of the database could answer. Reads nothing. */
export function checkSessionList({ limit, cursor }: SessionListInput): void {
  if (limit !== undefined && (!Number.isInteger(limit) || limit < 1))
    throw invalid(`limit must be a whole number from 1; at most ${sessionsMax} sessions are given`);
  if (cursor !== undefined) decodeCursor(cursor);
}

function cursorAfter({ lastActiveAt, id }: SessionPlace): string {
  return Buffer.from(`${lastActiveAt} ${id}`).toString("base64url");
}

type SessionPlace = Pick<SessionRecord, "lastActiveAt" | "id">;

function decodeCursor(cursor: string): SessionPlace {
  const [, digits, id = ""] = /^(\d{1,16}) (.+)$/s.exec(Buffer.from(cursor, "base64url").toString()) ?? [];
  const place = { lastActiveAt: Number(digits), id };
  if (Number.isSafeInteger(place.lastActiveAt) && cursorAfter(place) === cursor) return place;
  throw invalid("cursor must be the next_cursor of an earlier page");
}

/**
 * A page of the sessions that were not ended, the most recently active first; `nextCursor` is there when there are
 * more. `limit` above the limit is cut to it.
 */
export function listSessions(view: View, input: SessionListInput): { sessions: SessionRecord[]; nextCursor?: string } {
  checkSessionList(input);
  const want = Math.min(input.limit ?? limits.sessionsDefault, sessionsMax);
  const after = input.cursor === undefined ? undefined : decodeCursor(input.cursor);
  const found = view.connection.all<SessionRecord>(
    `SELECT id, created_at AS createdAt, last_active_at AS lastActiveAt FROM __service_session
     ${after ? "WHERE (last_active_at, id) < (?, ?)" : ""} ORDER BY last_active_at DESC, id DESC LIMIT ?`,
    ...(after ? [after.lastActiveAt, after.id] : []),
    want + 1,
  );
  const page = found.slice(0, want);
  const sessions = input.includeTurns ? withTurns(view, page) : page;
  const hasMore = sessions.length < found.length;
  return { sessions, ...(hasMore && { nextCursor: cursorAfter(sessions.at(-1)!) }) };
}

/** The sessions with what is said of their turns, until enough turns were counted. */
function withTurns(view: View, sessions: readonly SessionRecord[]): SessionRecord[] {
  const counted: SessionRecord[] = [];
  let left = turnsCountedMax;
  for (const session of sessions) {
    if (left <= 0) break;
    const { turns, firstTurnAt, lastTurnAt } = view.connection.get<{
      turns: number;
      firstTurnAt: number | null;
      lastTurnAt: number | null;
    }>(
      `SELECT n.turns, f.created_at AS firstTurnAt, l.created_at AS lastTurnAt
       FROM (SELECT count(*) AS turns, min(seq) AS first, max(seq) AS last
         FROM __service_turn WHERE session_id = ?) AS n
       LEFT JOIN __service_turn AS f ON f.session_id = ? AND f.seq = n.first
       LEFT JOIN __service_turn AS l ON l.session_id = ? AND l.seq = n.last`,
      session.id,
      session.id,
      session.id,
    )!;
    left -= turns;
    counted.push({
      ...session,
      turns,
      ...(firstTurnAt !== null && { firstTurnAt }),
      ...(lastTurnAt !== null && { lastTurnAt }),
    });
  }
  return counted;
}

/**
 * Ends a session: its tasks go, and its transcript when `turns` says so; its other memories stay. An unknown session
 * has nothing to end. `removed` counts the tasks, `turnsRemoved` the turns.
 */
export function endSession(
  tx: Tx,
  input: { readonly sessionId: string; readonly turns: boolean },
): { removed: number; turnsRemoved: number } {
  const { sessionId } = input;
  checkSessionId(sessionId);
  // A task's fingerprint holds its session, so no other session can have a part in it.
  const tasks = tx.connection.all<{ row: number }>(
    "SELECT row FROM __service_memory WHERE session_id = ? AND type = 'task'",
    sessionId,
  );
  removeMemories(
    tx,
    tasks.map(({ row }) => row),
    "forgotten",
  );
  const turnsRemoved = input.turns ? removeTurns(tx, sessionId) : 0;
  removeSession(tx, sessionId);
  note(tx, "session", "ended", sessionId);
  return { removed: tasks.length, turnsRemoved };
}
