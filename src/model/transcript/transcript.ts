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
import { checkSubject, putSubject, subjectColumn } from "../core/subjects.ts";
import { note } from "../core/change-notes.ts";
import type { Tx, View } from "../core/transaction.ts";
import { turnFilter, type TurnFilters } from "./turn-filters.ts";
import { joinedDetails, putDetails, type TurnDetails } from "./turn-details.ts";
import { indexTurn } from "./turn-text.ts";
import { embed, embeddedSpace, isForeign, type Embedded, type Maker } from "../memory/memory-vectors.ts";
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
  /** Its caller's id of it, if it has one. */
  turnId?: string;
  /** JSON text of an object, if it has some. */
  metadata?: string;
  /** Whom it is about; absent where that was not said. */
  subject?: string;
}

/** The one vector space of all turns of a database, or undefined while none has a vector. */
function turnSpace(view: View): VectorSpace | undefined {
  return embeddedSpace(view, "turn");
}

/** A turn as it is given: `content` is JSON text that `readContent` gave. */
export interface NewTurn extends TurnDetails {
  /** Whom it is about. */
  readonly subject?: string | undefined;
  readonly role: string;
  readonly content: string;
  readonly embedding?: Float32Array | undefined;
  readonly embeddedBy?: Maker | undefined;
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
    readonly subject?: string;
  },
): { seq: number; embedding?: Embedded } {
  const { sessionId, role, embedding, embeddedBy, subject } = input;
  checkSessionId(sessionId);
  checkText("role", role, limits.roleBytesMax);
  const { text: content } = readContent("content", input.content);
  if (embedding) checkEmbedding("embedding", embedding);
  if (subject !== undefined) checkSubject("subject", subject);
  const seq = lastSeq(tx, sessionId) + 1;
  const embedded = insertTurn(tx, sessionId, seq, { role, content, embedding, embeddedBy, subject });
  touchSession(tx, sessionId);
  return embedded ? { seq, embedding: embedded } : { seq };
}

/** Writes a turn whose fields were checked, under a number above all of its session's. */
export function insertTurn(tx: Tx, sessionId: string, seq: number, turn: NewTurn): Embedded | undefined {
  const { role, content } = turn;
  const { lastInsertRowid: row } = tx.connection.run(
    "INSERT INTO __service_turn (session_id, seq, created_at, role, content) VALUES (?, ?, ?, ?, ?)",
    sessionId,
    seq,
    tx.nowMs,
    role,
    content,
  );
  note(tx, "turn", "created", sessionId, seq);
  putDetails(tx, row, sessionId, turn);
  putSubject(tx, { kind: "turn", owner: row }, turn.subject);
  indexTurn(tx, row, content.length);
  return embed(tx, "turn", row, turn);
}

/** The highest number that a turn of the session ever had; 0 when there was none. */
export function lastSeq(view: View, sessionId: string): number {
  const { seq } = view.connection.get<{ seq: number }>(
    `SELECT max(coalesce((SELECT max(seq) FROM __service_turn WHERE session_id = ?), 0),
                coalesce((SELECT seq FROM __service_turn_floor WHERE session_id = ?), 0)) AS seq`,
    sessionId,
    sessionId,
  )!;
  return seq;
}

const turnColumns = "t.session_id AS sessionId, t.seq, t.role, t.content, t.created_at AS createdAt";

/**
 * The turns of these rows, in the order of the rows. `field` is what a client can lower when they are too large
 * together.
 */
export function loadTurns(
  view: View,
  field: string,
  rows: readonly { readonly row: number; readonly bytes: number }[],
): TurnRecord[] {
  checkAnswerBytes(field, rows);
  const { join, columns } = joinedDetails(view);
  const turns = view.connection.all<
    TurnRecord & { turnId: string | null; metadata: string | null; subject: string | null }
  >(
    `SELECT ${turnColumns}, ${columns}, ${subjectColumn(view, "turn", "t.row")} AS subject FROM json_each(?) AS wanted
     CROSS JOIN __service_turn AS t ON t.row = wanted.value ${join} ORDER BY wanted.key`,
    JSON.stringify(rows.map(({ row }) => row)),
  );
  return turns.map(({ turnId, metadata, subject, ...turn }) => ({
    ...turn,
    ...(turnId !== null && { turnId }),
    ...(metadata !== null && { metadata }),
    ...(subject !== null && { subject }),
  }));
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
  const { join, bytes } = joinedDetails(view);
  const newestFirst = view.connection.all<{ row: number; bytes: number }>(
    `SELECT t.row, ${bytes} AS bytes FROM __service_turn AS t ${join}
     WHERE t.session_id = ? ORDER BY t.seq DESC LIMIT ?`,
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
  const { join, bytes } = joinedDetails(view);
  const rows = view.connection.all<{ row: number; bytes: number }>(
    `SELECT t.row, ${bytes} AS bytes FROM json_each(?) AS wanted CROSS JOIN __service_turn AS t ON t.row = ` +
      `wanted.value ${join} ORDER BY wanted.key`,
    JSON.stringify(found.map(({ row }) => row)),
  );
  return loadTurns(view, "k", rows).map((turn, at) => {
    const { distance } = found[at]!;
    return distance === undefined ? turn : { ...turn, distance };
  });
}
