/**
 * Sessions and what was said in them as records: the sessions, the last numbers of transcripts of which turns are gone,
 * the turns.
 *
 * Always true: a turn keeps its number in its session.
 */
import { invalid } from "../../base/faults/errors.ts";
import { limits } from "../../base/limits.ts";
import { note } from "../core/change-notes.ts";
import { readContent } from "../core/content.ts";
import { isSessionUsed } from "../core/session-row.ts";
import { putSubject, subjectColumn } from "../core/subjects.ts";
import type { Tx, View } from "../core/transaction.ts";
import { embed, embeddedSpace, findMaker } from "../memory/memory-vectors.ts";
import { findTurn, joinedDetails, putDetails, readDetails } from "../transcript/turn-details.ts";
import { removeTurnRows } from "../transcript/turn-removal.ts";
import { indexTurn } from "../transcript/turn-text.ts";
import { turnIdBytesMax } from "../transcript/turn-details.ts";
import { isAnySubjectErased, isErasedSession, isErasedSubject, isErasedTurn, isTarget } from "./erased.ts";
import { formLine, isStored, plain, readSubject, type RecordKind, vectorJson } from "./record.ts";

interface SessionRecord {
  readonly id: string;
  readonly createdAt: number;
  readonly lastActiveAt: number;
}

export const sessionRecords: RecordKind<SessionRecord> = {
  kind: "session",
  tables: { __service_session: { exported: ["id", "created_at", "last_active_at"], derived: {} } },

  *rows({ connection }, after) {
    const rows = connection
      .prepared(
        `SELECT id, created_at AS createdAt, last_active_at AS lastActiveAt FROM __service_session
         WHERE id > ? ORDER BY id`,
      )
      .iterate(after?.[0] ?? "") as Iterable<SessionRecord>;
    for (const { id, createdAt, lastActiveAt } of rows)
      yield {
        position: [id],
        line: formLine("session", {
          id: plain(id),
          created_at: plain(createdAt),
          last_active_at: plain(lastActiveAt),
        }),
      };
  },

  read: (fields) => ({
    id: fields.text("id", limits.sessionIdBytesMax),
    createdAt: fields.time("created_at"),
    lastActiveAt: fields.time("last_active_at"),
  }),

  find({ connection }, { id, createdAt, lastActiveAt }) {
    const there = connection.get<Omit<SessionRecord, "id">>(
      "SELECT created_at AS createdAt, last_active_at AS lastActiveAt FROM __service_session WHERE id = ?",
      id,
    );
    if (!there) return "absent";
    return there.createdAt === createdAt && there.lastActiveAt === lastActiveAt ? "same" : "different";
  },

  write({ connection }, { id, createdAt, lastActiveAt }) {
    connection.run(
      `INSERT INTO __service_session (id, created_at, last_active_at) VALUES (?, ?, ?)
       ON CONFLICT (id) DO UPDATE SET created_at = excluded.created_at, last_active_at = excluded.last_active_at`,
      id,
      createdAt,
      lastActiveAt,
    );
  },

  // Its id may tell of a subject whom all of it was about.
  isErased: (view, { id, lastActiveAt }, erased) =>
    isErasedSession(erased, id, lastActiveAt) || (isAnySubjectErased(erased, lastActiveAt) && !isSessionUsed(view, id)),
};

interface FloorRecord {
  readonly sessionId: string;
  readonly seq: number;
}

export const floorRecords: RecordKind<FloorRecord> = {
  kind: "turn_floor",
  tables: { __service_turn_floor: { exported: ["session_id", "seq"], derived: {} } },

  *rows({ connection }, after) {
    const rows = connection
      .prepared(
        "SELECT session_id AS sessionId, seq FROM __service_turn_floor WHERE session_id > ? ORDER BY session_id",
      )
      .iterate(after?.[0] ?? "") as Iterable<FloorRecord>;
    for (const { sessionId, seq } of rows)
      yield { position: [sessionId], line: formLine("turn_floor", { session_id: plain(sessionId), seq: plain(seq) }) };
  },

  read: (fields) => ({
    sessionId: fields.text("session_id", limits.sessionIdBytesMax),
    seq: fields.count("seq"),
  }),

  find({ connection }, { sessionId, seq }) {
    const there = connection.get<{ seq: number }>(
      "SELECT seq FROM __service_turn_floor WHERE session_id = ?",
      sessionId,
    );
    return there && there.seq >= seq ? "same" : "absent";
  },

  write({ connection }, { sessionId, seq }) {
    connection.run(
      "INSERT INTO __service_turn_floor (session_id, seq) VALUES (?, ?) ON CONFLICT (session_id) DO UPDATE " +
        "SET seq = max(seq, excluded.seq)",
      sessionId,
      BigInt(seq),
    );
  },

  isErased: (view, { sessionId }, erased) =>
    isTarget(
      erased,
      undefined,
      (target) => target.kind === "session" && target.turns && target.sessionId === sessionId,
    ) ||
    (isAnySubjectErased(erased) && !isSessionUsed(view, sessionId)),
};

interface TurnRecord {
  readonly sessionId: string;
  readonly seq: number;
  readonly role: string;
  /** JSON text. */
  readonly content: string;
  readonly createdAt: number;
  readonly turnId: string | undefined;
  readonly metadata: string | undefined;
  readonly subject: string | undefined;
  readonly embedder: string | undefined;
  readonly vector: Float32Array | undefined;
}

interface TurnRow {
  readonly row: number;
  readonly sessionId: string;
  readonly seq: number;
  readonly role: string;
  readonly content: string;
  readonly createdAt: number;
  readonly turnId: string | null;
  readonly metadata: string | null;
  readonly subject: string | null;
  readonly embedding: Uint8Array | null;
}

function selectTurns(view: View, condition: string): string {
  const { join, columns } = joinedDetails(view);
  return `SELECT t.row, t.session_id AS sessionId, t.seq, t.role, t.content, t.created_at AS createdAt, ${columns},
      ${subjectColumn(view, "turn", "t.row")} AS subject, v.embedding
    FROM __service_turn AS t ${join} LEFT JOIN __service_vector AS v ON v.space = ? AND v.owner = t.row
    WHERE ${condition}`;
}

function vectorSpace(view: View): { readonly space: number; readonly embedder: string | undefined } {
  const space = embeddedSpace(view, "turn");
  return { space: space?.space ?? 0, embedder: space && findMaker(view, space)?.name };
}

function hasRoomFor(view: View, { vector, embedder }: TurnRecord): boolean {
  const space = embeddedSpace(view, "turn");
  if (!space || !vector) return true;
  return space.dimension === vector.length && findMaker(view, space)?.name === embedder;
}

function rowAt({ connection }: View, { sessionId, seq }: TurnRecord): number | undefined {
  return connection.get<{ row: number }>(
    "SELECT row FROM __service_turn WHERE session_id = ? AND seq = ?",
    sessionId,
    seq,
  )?.row;
}

export const turnRecords: RecordKind<TurnRecord> = {
  kind: "turn",
  tables: {
    __service_turn: {
      exported: ["session_id", "seq", "created_at", "role", "content"],
      derived: { row: "given anew" },
    },
    __service_turn_detail: {
      exported: ["turn_id", "metadata"],
      derived: { turn: "the record's own", mark: "given anew", session_id: "the turn's" },
    },
  },

  *rows(view, after) {
    const { space, embedder } = vectorSpace(view);
    const rows = view.connection
      .prepared(selectTurns(view, "t.row > ? ORDER BY t.row"))
      .iterate(space, after?.[0] ?? 0) as Iterable<TurnRow>;
    for (const row of rows)
      yield {
        position: [row.row],
        line: formLine("turn", {
          session_id: plain(row.sessionId),
          seq: plain(row.seq),
          role: plain(row.role),
          content: row.content,
          created_at: plain(row.createdAt),
          turn_id: plain(row.turnId),
          metadata: row.metadata ?? undefined,
          subject: plain(row.subject),
          embedder: row.embedding === null ? undefined : plain(embedder ?? null),
          vector: vectorJson(row.embedding),
        }),
      };
  },

  read(fields) {
    const sessionId = fields.text("session_id", limits.sessionIdBytesMax);
    const seq = fields.count("seq");
    if (seq < 1) throw invalid("seq must be the number of a turn, from 1");
    const role = fields.text("role", limits.roleBytesMax);
    const { text: content } = readContent("content", fields.json("content"));
    const details = { turnId: fields.maybeText("turn_id", turnIdBytesMax), metadata: fields.maybeJson("metadata") };
    const { turnId, metadata } = readDetails("", details);
    return {
      ...{ sessionId, seq, role, content, turnId, metadata },
      createdAt: fields.time("created_at"),
      subject: readSubject(fields),
      embedder: fields.maybeText("embedder", 256),
      vector: fields.maybeVector("vector"),
    };
  },

  find(view, record) {
    const { space } = vectorSpace(view);
    const there = view.connection.get<TurnRow>(
      selectTurns(view, "t.session_id = ? AND t.seq = ?"),
      space,
      record.sessionId,
      record.seq,
    );
    const isSame =
      there?.role === record.role &&
      there.content === record.content &&
      there.createdAt === record.createdAt &&
      there.turnId === (record.turnId ?? null) &&
      there.metadata === (record.metadata ?? null) &&
      there.subject === (record.subject ?? null) &&
      (!hasRoomFor(view, record) || isStored(there.embedding, record.vector));
    if (isSame) return "same";
    const named = record.turnId === undefined ? undefined : findTurn(view, record.sessionId, record.turnId);
    if (named !== undefined && named !== there?.row) return "blocked";
    return there ? "different" : "absent";
  },

  write(tx: Tx, record) {
    const { sessionId, seq, role, content, createdAt } = record;
    const replaced = rowAt(tx, record);
    if (replaced !== undefined) removeTurnRows(tx, sessionId, [replaced]);
    const row = tx.connection.run(
      "INSERT INTO __service_turn (session_id, seq, created_at, role, content) VALUES (?, ?, ?, ?, ?)",
      ...[sessionId, seq, createdAt, role, content],
    ).lastInsertRowid;
    note(tx, "turn", "created", sessionId, seq);
    putDetails(tx, row, sessionId, record);
    putSubject(tx, { kind: "turn", owner: row }, record.subject);
    indexTurn(tx, row, content.length);
    if (record.vector && hasRoomFor(tx, record)) embed(tx, "turn", row, { embedding: record.vector, isUnit: true });
  },

  isErased: (_view, { sessionId, seq, createdAt, subject }, erased) =>
    isErasedSubject(erased, subject, createdAt) || isErasedTurn(erased, sessionId, seq, createdAt),
};
