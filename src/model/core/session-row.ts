/** A session's own row: that it exists, since when, and when it was last used. */
import type { Tx, View } from "./transaction.ts";

/**
 * Notes that something happened in the session, which begins with it. Its time never goes back, whatever the clock
 * does.
 */
export function touchSession(tx: Tx, sessionId: string): void {
  tx.connection.run(
    `INSERT INTO __service_session (id, created_at, last_active_at) VALUES (?, ?, ?)
     ON CONFLICT (id) DO UPDATE SET last_active_at = excluded.last_active_at
       WHERE last_active_at < excluded.last_active_at`,
    sessionId,
    tx.nowMs,
    tx.nowMs,
  );
}

/** Makes the session exist, without any sign of activity when it already does: then nothing changes. */
export function ensureSession(tx: Tx, sessionId: string): void {
  tx.connection.run(
    "INSERT INTO __service_session (id, created_at, last_active_at) VALUES (?, ?, ?) ON CONFLICT (id) DO NOTHING",
    sessionId,
    tx.nowMs,
    tx.nowMs,
  );
}

/** Ends the session as such; what was said in it is not touched. */
export function removeSession(tx: Tx, sessionId: string): void {
  tx.connection.run("DELETE FROM __service_session WHERE id = ?", sessionId);
}

/** Whether a turn, or a memory, says that it comes from the session. */
export function isSessionUsed({ connection }: View, sessionId: string): boolean {
  const sql = `SELECT 1 FROM __service_turn WHERE session_id = ?
     UNION ALL SELECT 1 FROM __service_memory_provenance WHERE session_id = ? LIMIT 1`;
  return connection.get(sql, sessionId, sessionId) !== undefined;
}
