/** The end of a transcript, turn by turn: read as far as it is wanted, and each turn no further than it is shown. */
import type { View } from "../core/transaction.ts";
import type { TurnRecord } from "./transcript.ts";

/** Sessions that are looked at to find one with turns: those that were active last. */
const talksLookedAtMax = 100;

/** The session that was active last, of those that have turns; undefined when none of them has. */
export function lastTalk(view: View): string | undefined {
  return view.connection.get<{ id: string }>(
    `SELECT s.id FROM (SELECT id, last_active_at FROM __service_session ORDER BY last_active_at DESC, id DESC
       LIMIT ${talksLookedAtMax}) AS s
     WHERE EXISTS (SELECT 1 FROM __service_turn AS t WHERE t.session_id = s.id)
     ORDER BY s.last_active_at DESC, s.id DESC LIMIT 1`,
  )?.id;
}

/** A turn that is there; its content is read when it is asked for, and of a longer one the beginning. */
export interface LatestTurn {
  readonly seq: number;
  readonly read: () => Pick<TurnRecord, "seq" | "role" | "content" | "createdAt">;
}

/** The last turns of a session, the newest first. An unknown session has none. */
export function latestTurns(
  view: View,
  { sessionId, most, charsMax }: { readonly sessionId: string; readonly most: number; readonly charsMax: number },
): readonly LatestTurn[] {
  const turns = view.connection.all<{ row: number; seq: number }>(
    "SELECT row, seq FROM __service_turn WHERE session_id = ? ORDER BY seq DESC LIMIT ?",
    sessionId,
    most,
  );
  return turns.map(({ row, seq }) => ({
    seq,
    read: () =>
      view.connection.get(
        "SELECT seq, role, substr(content, 1, ?) AS content, created_at AS createdAt FROM __service_turn WHERE row = ?",
        charsMax,
        row,
      )!,
  }));
}
