/**
 * Operations on transcripts that their callers may repeat: what each one answered, by its id.
 *
 * Owns its table, which is made when the first operation with an id comes. Always true: an operation is carried out
 * once while its answer is kept, which is `operationKeptMs` at least and no longer needed afterwards, unless
 * `operationsMax` newer ones came; an id with another request is a conflict; no content is kept, only a hash of it.
 * Must not know: what the operations do.
 */
import { hash } from "node:crypto";
import { ServiceError } from "../../base/faults/errors.ts";
import { checkText } from "../../format/core/names.ts";
import type { Tx, View } from "../core/transaction.ts";
import { turnIdBytesMax } from "./turn-details.ts";

/** How long a repeated operation is known: whoever repeats a call does so within minutes, or after a day of trouble. */
export const operationKeptMs = 86_400_000;
/** Operations of a database whose answers are kept, some hundred bytes each. */
export const operationsMax = 10_000;
/** Old answers that one operation removes: more than the one that it adds. */
const operationsSweptMax = 16;

const table = "__service_turn_operation";

/** The mark comes first and no two rows have the same, so that a copy of one can be looked for (erasure-traces). */
const schema = `
CREATE TABLE ${table} (
  operation INTEGER PRIMARY KEY,
  mark TEXT NOT NULL,
  session_id TEXT NOT NULL,
  operation_id TEXT NOT NULL,
  at INTEGER NOT NULL,
  request BLOB NOT NULL,
  answer TEXT NOT NULL,
  UNIQUE (session_id, operation_id)
) STRICT;
`;

export interface Operation {
  readonly sessionId: string;
  /** Absent: the operation cannot be repeated safely. */
  readonly operationId?: string | undefined;
  /** What the operation is, and everything that it was asked for: plain data. */
  readonly request: unknown;
}

/** Carries the operation out, or gives the answer, plain data, that it has given before. */
export function once<Answer>(tx: Tx, { sessionId, operationId, request }: Operation, act: () => Answer): Answer {
  if (operationId === undefined) return act();
  checkText("operation_id", operationId, turnIdBytesMax);
  const { connection } = tx;
  const digest = hash("sha256", JSON.stringify(request), "buffer");
  if (!connection.hasTable(table)) connection.exec(schema);
  const known = connection.get<{ at: number; request: Uint8Array; answer: string }>(
    `SELECT at, request, answer FROM ${table} WHERE session_id = ? AND operation_id = ?`,
    sessionId,
    operationId,
  );
  if (known && known.at + operationKeptMs > tx.nowMs) {
    if (digest.equals(known.request)) return JSON.parse(known.answer) as Answer;
    throw new ServiceError("conflict", "operation_id was used for another request in this session");
  }
  const answer = act();
  if (known) connection.run(`DELETE FROM ${table} WHERE session_id = ? AND operation_id = ?`, sessionId, operationId);
  const { lastInsertRowid } = connection.run(
    `INSERT INTO ${table} (mark, session_id, operation_id, at, request, answer) VALUES (?, ?, ?, ?, ?, ?)`,
    tx.newId(),
    sessionId,
    operationId,
    tx.nowMs,
    digest,
    JSON.stringify(answer),
  );
  connection.run(
    `DELETE FROM ${table} WHERE operation IN (SELECT operation FROM ${table} ORDER BY operation LIMIT ?)
     AND (at <= ? OR operation <= ?)`,
    operationsSweptMax,
    tx.nowMs - operationKeptMs,
    lastInsertRowid - operationsMax,
  );
  return answer;
}

/** Forgets the session's operations. */
export function removeOperations(tx: Tx, sessionId: string): void {
  if (tx.connection.hasTable(table)) tx.connection.run(`DELETE FROM ${table} WHERE session_id = ?`, sessionId);
}

/** A row as far as a copy of it is looked for by. */
export interface OperationStart {
  readonly mark: string;
  readonly operationIdBytes: number;
  readonly at: number;
  readonly requestBytes: number;
  readonly answerBytes: number;
}

/** The operations of the session that are kept. */
export function operationStarts(view: View, sessionId: string): readonly OperationStart[] {
  if (!view.connection.hasTable(table)) return [];
  return view.connection.all(
    `SELECT mark, octet_length(operation_id) AS operationIdBytes, at, octet_length(request) AS requestBytes,
       octet_length(answer) AS answerBytes FROM ${table} WHERE session_id = ? ORDER BY operation`,
    sessionId,
  );
}
