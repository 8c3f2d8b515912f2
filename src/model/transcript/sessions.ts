/** Sessions: which there are, and how one ends. */
import { invalid } from "../../base/faults/errors.ts";
import { limits } from "../../base/limits.ts";
import { checkSessionId } from "../../format/core/names.ts";
import { removeMemories } from "../memory/memory-removal.ts";
import { removeSession } from "../core/session-row.ts";
import type { Tx, View } from "../core/transaction.ts";
import { removeTurns } from "./transcript.ts";

const sessionsMax = 1000;

/** A session; times are Unix milliseconds. */
export interface SessionRecord {
  id: string;
  createdAt: number;
  lastActiveAt: number;
}

/** The sessions that were not ended, the most recently active first; `limit` above the limit is cut to it. */
export function listSessions(view: View, input: { readonly limit?: number }): { sessions: SessionRecord[] } {
  const limit = input.limit ?? limits.sessionsDefault;
  if (!Number.isInteger(limit) || limit < 1)
    throw invalid(`limit must be a whole number from 1; at most ${sessionsMax} sessions are given`);
  const sessions = view.connection.all<SessionRecord>(
    "SELECT id, created_at AS createdAt, last_active_at AS lastActiveAt FROM __service_session ORDER BY " +
      "last_active_at DESC, id DESC LIMIT ?",
    Math.min(limit, sessionsMax),
  );
  return { sessions };
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
  );
  const turnsRemoved = input.turns ? removeTurns(tx, sessionId) : 0;
  removeSession(tx, sessionId);
  return { removed: tasks.length, turnsRemoved };
}
