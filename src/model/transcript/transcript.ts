/**
 * Transcripts: what was said in a session, word for word, in its order.
 *
 * Always true: a session's turns are numbered from 1 upward and no number is given twice within a branch's history, not
 * even after a transcript was dropped, unless it was erased; a turn never changes. Must not know: memories.
 */
import { invalid } from "../../base/faults/errors.ts";
import { limits } from "../../base/limits.ts";
import { checkSessionId, checkText } from "../../format/core/names.ts";
import { checkAnswerBytes, readContent } from "../core/content.ts";
import { touchSession } from "../core/session-row.ts";
import type { Tx, View } from "../core/transaction.ts";
import { turnFilter, type TurnFilters } from "./turn-filters.ts";
import { indexTurn, unindexTurns } from "./turn-text.ts";
import { embed, embeddedSpace, isForeign, unembedTurns, type Embedded, type Maker } from "../memory/memory-vectors.ts";
import { checkEmbedding, nearest, type VectorSpace } from "../vectors/vectors.ts";

const turnsMax = 1000;
const turnSearchMax = 1000;

/** A turn (spec: Turn). */
export interface TurnRecord {
  sessionId: string;
  seq: number;
  role: string;
  /** JSON text. */
  content: string;
  /** Unix ms. */
  createdAt: number;
  /** On a search only: cosine distance, 0 (same direction) to 2. */
  distance?: number;
}

/** The one vector space of all turns of a database, or undefined while none has a vector. */
function turnSpace(view: View): VectorSpace | undefined {
  return embeddedSpace(view, "turn");
}

/**
 * Adds a turn at the end of the session's transcript and gives its number. A vector of another dimension than the
 * transcript's vectors is left out, which the answer says: what was said is worth more than how it is found.
 */
export function appendTurn(
  tx: Tx,
  input: {
    readonly sessionId: string;
    readonly role: string;
    readonly content: string;
    readonly embedding?: Float32Array;
    readonly embeddedBy?: Maker;
  },
): { seq: number; embedding?: Embedded } {
  const { sessionId, embedding } = input;
  checkSessionId(sessionId);
  checkText("role", input.role, limits.roleBytesMax);
  const content = readContent("content", input.content);
  if (embedding) checkEmbedding("embedding", embedding);
  const seq = lastSeq(tx, sessionId) + 1;
  const { lastInsertRowid: row } = tx.connection.run(
    "INSERT INTO __service_turn (session_id, seq, created_at, role, content) VALUES (?, ?, ?, ?, ?)",
    sessionId,
    seq,
    tx.nowMs,
    input.role,
    content.text,
  );
  touchSession(tx, sessionId);
  indexTurn(tx, row, content.text.length);
  const embedded = embed(tx, "turn", row, input);
  return embedded ? { seq, embedding: embedded } : { seq };
}

/** The highest number that a turn of the session ever had; 0 when there was none. */
function lastSeq(view: View, sessionId: string): number {
  const { seq } = view.connection.get<{ seq: number }>(
    `SELECT max(coalesce((SELECT max(seq) FROM __service_turn WHERE session_id = ?), 0),
                coalesce((SELECT seq FROM __service_turn_floor WHERE session_id = ?), 0)) AS seq`,
    sessionId,
    sessionId,
  )!;
  return seq;
}

/** Drops the session's transcript, says how many turns that were, and remembers their last number. */
export function removeTurns(tx: Tx, sessionId: string): number {
  const rows = tx.connection.all<{ row: number }>("SELECT row FROM __service_turn WHERE session_id = ?", sessionId);
  if (rows.length === 0) return 0;
  tx.connection.run(
    "INSERT INTO __service_turn_floor (session_id, seq) VALUES (?, ?) ON CONFLICT (session_id) DO UPDATE " +
      "SET seq = excluded.seq",
    sessionId,
    lastSeq(tx, sessionId),
  );
  const gone = rows.map(({ row }) => row);
  unembedTurns(tx, gone);
  unindexTurns(tx, gone);
  return tx.connection.run("DELETE FROM __service_turn WHERE session_id = ?", sessionId).changes;
}

/** Drops the session's transcript and every sign that there was one, its last number included. */
export function eraseTurns(tx: Tx, sessionId: string): void {
  removeTurns(tx, sessionId);
  tx.connection.run("DELETE FROM __service_turn_floor WHERE session_id = ?", sessionId);
}

const turnColumns = "t.session_id AS sessionId, t.seq, t.role, t.content, t.created_at AS createdAt";

/**
 * The turns of these rows, in the order of the rows. `field` is what a client can lower when they are too large
 * together.
 */
function loadTurns(
  view: View,
  field: string,
  rows: readonly { readonly row: number; readonly bytes: number }[],
): TurnRecord[] {
  checkAnswerBytes(field, rows);
  return view.connection.all(
    `SELECT ${turnColumns} FROM json_each(?) AS wanted CROSS JOIN __service_turn AS t ON t.row = ` +
      "wanted.value ORDER BY wanted.key",
    JSON.stringify(rows.map(({ row }) => row)),
  );
}

function checkCount(field: string, count: number, most: number): number {
  if (!Number.isInteger(count) || count < 1)
    throw invalid(`${field} must be a whole number from 1; at most ${most} turns are given`);
  return Math.min(count, most);
}

/** The last turns of a session, oldest first; `last` above the limit is cut to it. An unknown session has none. */
export function lastTurns(
  view: View,
  input: { readonly sessionId: string; readonly last?: number },
): { turns: TurnRecord[] } {
  checkSessionId(input.sessionId);
  const last = checkCount("last", input.last ?? limits.turnsDefault, turnsMax);
  const newestFirst = view.connection.all<{ row: number; bytes: number }>(
    "SELECT row, octet_length(content) AS bytes FROM __service_turn WHERE session_id = ? ORDER BY seq DESC LIMIT ?",
    input.sessionId,
    last,
  );
  return { turns: loadTurns(view, "last", newestFirst.reverse()) };
}

/**
 * The turns nearest to a vector, nearest first, of one session or of all. Refuses a vector of another dimension than
 * the transcript's; without any vectors there the answer is empty. `k` above the limit is cut to it.
 */
export function searchTurns(
  view: View,
  input: { readonly sessionId?: string; readonly vector: Float32Array; readonly k?: number },
): { turns: TurnRecord[] } {
  if (input.sessionId !== undefined) checkSessionId(input.sessionId);
  checkEmbedding("vector", input.vector);
  const k = checkCount("k", input.k ?? limits.turnSearchDefault, turnSearchMax);
  const space = turnSpace(view);
  if (space && space.dimension !== input.vector.length) {
    throw invalid(
      `vector has ${input.vector.length} numbers, but the transcript's vectors have ${space.dimension}, fixed ` +
        "by the first one",
    );
  }
  return { turns: foundTurns(view, nearestRows(view, { ...input, filters: { sessionId: input.sessionId }, k })) };
}

/** A turn's row number, and how far its vector is. */
export interface NearTurn {
  readonly row: number;
  readonly distance: number;
}

/** The search itself, for a recall too: a vector of another dimension or another model is near to nothing. */
export function nearestRows(
  view: View,
  search: {
    readonly filters: TurnFilters;
    readonly vector: Float32Array;
    readonly embeddedBy?: string | undefined;
    readonly k: number;
  },
): readonly NearTurn[] {
  const space = turnSpace(view);
  if (!space || space.dimension !== search.vector.length) return [];
  if (search.embeddedBy !== undefined && isForeign(view, space, search.embeddedBy)) return [];
  const { hits } = nearest(view, space, search.vector, search.k, turnFilter(view, search.filters));
  return hits.map(({ owner, similarity }) => ({ row: owner, distance: 1 - similarity }));
}

/** The turns that a search found, in its order, each with its distance where it has one. */
export function foundTurns(
  view: View,
  found: readonly { readonly row: number; readonly distance?: number }[],
): TurnRecord[] {
  const rows = view.connection.all<{ row: number; bytes: number }>(
    "SELECT t.row, octet_length(t.content) AS bytes FROM json_each(?) AS wanted CROSS JOIN __service_turn " +
      "AS t ON t.row = wanted.value ORDER BY wanted.key",
    JSON.stringify(found.map(({ row }) => row)),
  );
  return loadTurns(view, "k", rows).map((turn, at) => {
    const { distance } = found[at]!;
    return distance === undefined ? turn : { ...turn, distance };
  });
}
