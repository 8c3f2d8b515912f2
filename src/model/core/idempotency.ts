/**
 * Writes that their callers may repeat: what each one answered, by the key that the caller gave it.
 *
 * Owns its table, which is made when the first write with a key comes. Always true: a write and its answer are in one
 * transaction, so that whoever repeats the call (a client, a node that forwards it, a client of the database's next
 * writer) finds both or neither; a key with another request is a conflict; a write that was refused is not known. A row
 * holds hashes and the answer, never the request. Must not know: what the writes do, headers, wires.
 */
import { ServiceError } from "../../base/faults/errors.ts";
import type { Tx } from "./transaction.ts";

/** How long a repeated write is known: whoever repeats a call does so within minutes, or after a day of trouble. */
export const answersKeptMs = 86_400_000;
/** Writes of a database whose answers are kept, a few hundred bytes each; beyond them the oldest goes. */
export const answersMax = 100_000;
/** Of JSON: the answer to a write of a thousand memories takes half of it. A longer one is not kept. */
export const answerCharsMax = 256 * 1024;
/** Old answers that one write removes: more than the one that it adds. */
const answersSweptMax = 16;

const table = "__service_idempotency";

const schema = `
CREATE TABLE ${table} (
  row INTEGER PRIMARY KEY,
  key BLOB NOT NULL UNIQUE,
  at INTEGER NOT NULL,
  txid INTEGER NOT NULL,
  request BLOB,
  answer TEXT
) STRICT;
`;

/** A call that may be repeated, as its writer is told of it. */
export interface IdempotencyKey {
  /** A hash of what the caller calls it by. */
  readonly key: Uint8Array;
  /** A hash of everything that it was asked for. */
  readonly request: Uint8Array;
}

/** What a repeatable write gives, the first time and every time. */
export interface RepeatableAnswer {
  readonly value: unknown;
  /** The transaction id of the write itself. */
  readonly txid: number;
  /** Whether it was carried out by an earlier call. */
  readonly isRepeat: boolean;
}

/** What is done with in a transaction. */
type OwnTx = Pick<Tx, "connection" | "nowMs" | "txid">;

interface Known {
  readonly row: number;
  readonly at: number;
  readonly txid: number;
  readonly request: Uint8Array | null;
  readonly answer: string | null;
}

/** Carries the write out, or gives the answer, plain data without bytes, that it has given before. */
export function runRepeatable(tx: OwnTx, { key, request }: IdempotencyKey, act: () => unknown): RepeatableAnswer {
  const { connection } = tx;
  const isMade = connection.hasTable(table);
  const known = isMade
    ? connection.get<Known>(`SELECT row, at, txid, request, answer FROM ${table} WHERE key = ?`, key)
    : undefined;
  if (known && known.at + answersKeptMs > tx.nowMs) return repeatOf(known, request);
  const value = act();
  if (!isMade) connection.exec(schema);
  if (known) connection.run(`DELETE FROM ${table} WHERE row = ?`, known.row);
  const answer = JSON.stringify(value ?? null);
  const { lastInsertRowid } = connection.run(
    `INSERT INTO ${table} (key, at, txid, request, answer) VALUES (?, ?, ?, ?, ?)`,
    key,
    tx.nowMs,
    tx.txid,
    request,
    answer.length > answerCharsMax ? null : answer,
  );
  connection.run(
    `DELETE FROM ${table} WHERE row IN (SELECT row FROM ${table} ORDER BY row LIMIT ?) AND (at <= ? OR row <= ?)`,
    answersSweptMax,
    tx.nowMs - answersKeptMs,
    lastInsertRowid - answersMax,
  );
  return { value, txid: tx.txid, isRepeat: false };
}

function repeatOf({ request: before, answer, txid }: Known, request: Uint8Array): RepeatableAnswer {
  if (before !== null && !Buffer.from(before).equals(request))
    throw new ServiceError("conflict", "the Idempotency-Key was used for another request");
  if (answer === null)
    throw new ServiceError(
      "conflict",
      `the write with this Idempotency-Key was carried out, as transaction ${txid}; its answer is not kept any more`,
    );
  return { value: JSON.parse(answer), txid, isRepeat: true };
}

/** Forgets what was asked and answered, and not that it was: either may hold a part of what is erased. */
export function removeAnswers({ connection }: OwnTx): void {
  if (connection.hasTable(table)) connection.run(`UPDATE ${table} SET request = NULL, answer = NULL`);
}
