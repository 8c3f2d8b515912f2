/**
 * Turns that go: some of a session or all of them, with their words, vectors and details.
 *
 * Always true: the number of a turn that went is not given again within the branch's history, unless its session was
 * erased. Must not know: why they go.
 */
import { invalid } from "../../base/faults/errors.ts";
import { checkSessionId, checkText } from "../../format/core/names.ts";
import { note } from "../core/change-notes.ts";
import type { Tx, View } from "../core/transaction.ts";
import { unembedTurns } from "../memory/memory-vectors.ts";
import { lastSeq } from "./transcript.ts";
import { findTurn, turnIdBytesMax } from "./turn-details.ts";
import { once, removeOperations } from "./turn-operations.ts";
import { unindexTurns } from "./turn-text.ts";

/** Turns that one call deletes, in one transaction. */
export const turnsDeleteMax = 10_000;

/** Removes the turns of these rows of the session, and remembers the session's last number. */
export function removeTurnRows(tx: Tx, sessionId: string, rows: readonly number[]): number {
  if (rows.length === 0) return 0;
  tx.connection.run(
    "INSERT INTO __service_turn_floor (session_id, seq) VALUES (?, ?) ON CONFLICT (session_id) DO UPDATE " +
      "SET seq = excluded.seq",
    sessionId,
    lastSeq(tx, sessionId),
  );
  unembedTurns(tx, rows);
  unindexTurns(tx, rows);
  const removed = tx.connection.all<{ seq: number }>(
    "DELETE FROM __service_turn WHERE row IN (SELECT value FROM json_each(?)) RETURNING seq",
    JSON.stringify(rows),
  );
  for (const { seq } of removed) note(tx, "turn", "deleted", sessionId, seq);
  return removed.length;
}

/** Drops the session's transcript, says how many turns that were, and remembers their last number. */
export function removeTurns(tx: Tx, sessionId: string): number {
  const rows = tx.connection.all<{ row: number }>("SELECT row FROM __service_turn WHERE session_id = ?", sessionId);
  return removeTurnRows(
    tx,
    sessionId,
    rows.map(({ row }) => row),
  );
}

/** Drops the session's transcript and every sign that there was one, its last number included. */
export function eraseTurns(tx: Tx, sessionId: string): void {
  removeTurns(tx, sessionId);
  removeOperations(tx, sessionId);
  tx.connection.run("DELETE FROM __service_turn_floor WHERE session_id = ?", sessionId);
}

/** Which turns: exactly one of these. */
export interface TurnChoice {
  readonly last?: number | undefined;
  readonly fromSeq?: number | undefined;
  readonly seq?: number | undefined;
  readonly turnId?: string | undefined;
  readonly all?: boolean | undefined;
}

export interface DeleteTurnsInput extends TurnChoice {
  readonly sessionId: string;
  readonly operationId?: string | undefined;
}

/** Refuses a request that no state of the database could answer. Reads nothing. */
export function checkDeleteTurns({ sessionId, operationId, ...choice }: DeleteTurnsInput): void {
  checkSessionId(sessionId);
  if (operationId !== undefined) checkText("operation_id", operationId, turnIdBytesMax);
  const { last, fromSeq, seq, turnId, all } = choice;
  const given = [last, fromSeq, seq, turnId, all === true ? all : undefined].filter((value) => value !== undefined);
  if (given.length !== 1) throw invalid("give exactly one of last, from_seq, seq, turn_id and all");
  if (last !== undefined && !(Number.isInteger(last) && last >= 1 && last <= turnsDeleteMax))
    throw invalid(`last must be a whole number from 1 to ${turnsDeleteMax}`);
  checkSeq("from_seq", fromSeq);
  checkSeq("seq", seq);
  if (turnId !== undefined) checkText("turn_id", turnId, turnIdBytesMax);
}

export function checkSeq(field: string, seq: number | undefined): void {
  if (seq !== undefined && !(Number.isSafeInteger(seq) && seq >= 1))
    throw invalid(`${field} must be the number of a turn, from 1`);
}

/** Deletes turns, the newest first; `more` when there are more than one call deletes. */
export function deleteTurns(tx: Tx, input: DeleteTurnsInput): { deleted: number; more: boolean } {
  checkDeleteTurns(input);
  const { sessionId, operationId, last, fromSeq, seq, turnId } = input;
  const request = ["delete", last ?? null, fromSeq ?? null, seq ?? null, turnId ?? null];
  return once(tx, { sessionId, operationId, request }, () => {
    const rows = chosenRows(tx, input);
    const gone = rows.slice(0, turnsDeleteMax);
    return { deleted: removeTurnRows(tx, sessionId, gone), more: rows.length > gone.length };
  });
}

/** The rows of the turns that are there, newest first, and one more than one call deletes at most. */
function chosenRows(view: View, { sessionId, last, fromSeq = 1, seq, turnId }: DeleteTurnsInput): readonly number[] {
  if (turnId !== undefined) {
    const row = findTurn(view, sessionId, turnId);
    return row === undefined ? [] : [row];
  }
  return view.connection
    .all<{ row: number }>(
      "SELECT row FROM __service_turn WHERE session_id = ? AND seq BETWEEN ? AND ? ORDER BY seq DESC LIMIT ?",
      sessionId,
      seq ?? fromSeq,
      seq ?? Number.MAX_SAFE_INTEGER,
      last ?? turnsDeleteMax + 1,
    )
    .map(({ row }) => row);
}
