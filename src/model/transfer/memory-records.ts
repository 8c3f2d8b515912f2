/**
 * Memories as records, in whatever state: each with who said it, whom it is about, when it holds, what it was derived
 * from, its metadata, its pin and its vector.
 *
 * Always true: what makes a memory the same under its id is what was said, by whom and when; that it was superseded
 * meanwhile is no difference. A topic keeps at most one active memory of a type: of two, the earlier is superseded by
 * the later one.
 */
import { invalid } from "../../base/faults/errors.ts";
import { limits } from "../../base/limits.ts";
import { isMemoryId } from "../../format/core/ids.ts";
import { checkText } from "../../format/core/names.ts";
import { note } from "../core/change-notes.ts";
import { readContent } from "../core/content.ts";
import { isBatched } from "../core/database-state.ts";
import { putSubject, subjectColumn } from "../core/subjects.ts";
import type { Tx, View } from "../core/transaction.ts";
import { joinedMetadata, putMetadata, readMetadata } from "../docs/memory-metadata.ts";
import { findDuplicate, fingerprint, type Same } from "../memory/duplicates.ts";
import { noteFingerprint } from "../memory/fingerprint-index.ts";
import { indexMemory } from "../memory/keyword.ts";
import { indexInstructions } from "../memory/latest-memories.ts";
import { addProvenance, checkMemory } from "../memory/memory-ingest.ts";
import { joinedPins, pinMemory } from "../memory/memory-pins.ts";
import { presence } from "../memory/memory-presence.ts";
import { memoryTypes, type MemoryType } from "../memory/memory-record.ts";
import { removeMemories } from "../memory/memory-removal.ts";
import { embed, findMaker, memorySpace } from "../memory/memory-vectors.ts";
import { addLinks, linksColumn } from "../standing/links.ts";
import { memoryStates, stateMarks, stateOf } from "../standing/states.ts";
import { joinedValidity, putValidity } from "../standing/validity.ts";
import { isErasedMemory, type Mentions, withoutErasedMentions } from "./memory-erased.ts";
import { formLinks, readLinks } from "./memory-links.ts";
import { type Fields, formLine, isStored, plain, readSubject, type RecordKind, vectorJson } from "./record.ts";

/** What is known of a memory, in the order of the columns; the same of a row and of a record. */
interface MemoryFields extends Omit<Mentions, "provenance" | "links"> {
  readonly type: MemoryType;
  readonly topicKey: string | null;
  readonly summary: string;
  /** JSON text. */
  readonly content: string;
  readonly keywords: string | null;
  readonly expiresAt: number | null;
  readonly supersededAt: number | null;
  /** JSON text. */
  readonly metadata: string | null;
  readonly validFrom: number | null;
  readonly validUntil: number | null;
  readonly pinned: boolean;
}

interface MemoryRow extends Omit<MemoryFields, "pinned"> {
  readonly row: number;
  readonly pinned: number;
  /** JSON text of a list of pairs. */
  readonly provenance: string;
  /** JSON text of a list of objects. */
  readonly links: string;
  readonly embedding: Uint8Array | null;
}

interface MemoryRecord extends MemoryFields, Mentions {
  readonly type: MemoryType;
  readonly embedder: string | undefined;
  readonly vector: Float32Array | undefined;
}

/** Sessions and sources of one memory. */
const provenanceMax = 100_000;

/** Memories with all that belongs to them. One that came from nowhere need not say so in its provenance. */
function selectMemories(view: View, condition: string): string {
  const [metadata, pins, times] = [joinedMetadata(view), joinedPins(view), joinedValidity(view)];
  return `SELECT m.row, m.id, m.type, m.topic_key AS topicKey, m.summary, m.content, m.keywords,
      m.session_id AS sessionId, m.source, m.created_at AS createdAt, m.expires_at AS expiresAt,
      m.superseded_by AS supersededBy, m.superseded_at AS supersededAt, ${metadata.column} AS metadata,
      ${pins.column} AS pinned, e.embedding, ${times.columns}, ${subjectColumn(view, "memory", "m.row")} AS subject,
      ${linksColumn(view, "m.row")} AS links,
      (SELECT json_group_array(json_array(p.session_id, p.source) ORDER BY p.session_id, p.source)
       FROM __service_memory_provenance AS p WHERE p.memory = m.row
         AND (p.session_id <> '' OR p.source <> '' OR m.session_id IS NOT NULL OR m.source IS NOT NULL)) AS provenance
    FROM __service_memory AS m ${metadata.join} ${pins.join} ${times.join}
    LEFT JOIN __service_vector AS e ON e.space = ? AND e.owner = m.row WHERE ${condition}`;
}

function vectorSpace(view: View): { readonly space: number; readonly embedder: string | undefined } {
  const space = memorySpace(view);
  return { space: space?.space ?? 0, embedder: space && findMaker(view, space)?.name };
}

function identityOf(memory: MemoryFields): Uint8Array {
  const { type, topicKey, summary, content, sessionId, subject, validFrom, validUntil } = memory;
  const { value } = readContent("content", content);
  return fingerprint({
    type,
    topicKey: topicKey ?? undefined,
    summary,
    content: value,
    sessionId: sessionId ?? undefined,
    subject: subject ?? undefined,
    validFromMs: validFrom ?? undefined,
    validUntilMs: validUntil ?? undefined,
  });
}

function rowOf(view: View, id: string): MemoryRow | undefined {
  return view.connection.get<MemoryRow>(selectMemories(view, "m.id = ?"), vectorSpace(view).space, id);
}

/** Whether it is neither proposed nor completed; that something has superseded it meanwhile is no difference. */
function isOpen({ supersededBy }: Pick<MemoryFields, "supersededBy">): boolean {
  const state = stateOf(supersededBy);
  return state === "active" || state === "superseded";
}

/** Whether the row says what the record says. Of a vector that its space has no room for nothing is asked. */
function isSame(row: MemoryRow, record: MemoryRecord, hasRoom: boolean): boolean {
  const { type, topicKey, summary, content, keywords, sessionId, source, createdAt, expiresAt, metadata } = record;
  return (
    row.type === type &&
    isOpen(row) === isOpen(record) &&
    row.topicKey === topicKey &&
    row.summary === summary &&
    row.content === content &&
    row.keywords === keywords &&
    row.sessionId === sessionId &&
    row.source === source &&
    row.createdAt === createdAt &&
    row.expiresAt === expiresAt &&
    row.metadata === metadata &&
    row.subject === record.subject &&
    row.validFrom === record.validFrom &&
    row.validUntil === record.validUntil &&
    row.links === formLinks(record.links) &&
    (row.pinned === 1) === record.pinned &&
    row.provenance === JSON.stringify(record.provenance) &&
    (!hasRoom || isStored(row.embedding, record.vector))
  );
}

/** Whether the vector may lie in the space of the memories. */
function hasRoomFor(view: View, { vector, embedder }: MemoryRecord): boolean {
  const space = memorySpace(view);
  if (!space || !vector) return true;
  return space.dimension === vector.length && findMaker(view, space)?.name === embedder;
}

/** The active memory on the topic. */
function activeOn({ connection }: View, { topicKey, type }: MemoryRecord): ActiveMemory | undefined {
  if (topicKey === null) return undefined;
  return connection.get(
    `SELECT row, id, created_at AS createdAt FROM __service_memory
     WHERE topic_key = ? AND type = ? AND superseded_by IS NULL`,
    topicKey,
    type,
  );
}

interface ActiveMemory {
  readonly row: number;
  readonly id: string;
  readonly createdAt: number;
}

/** What the record is superseded by once it lies beside the others on its topic, which may be superseded by it. */
function settleTopic(tx: Tx, record: MemoryRecord): readonly [string | null, number | null] {
  if (record.supersededBy !== null) return [record.supersededBy, record.supersededAt];
  const other = activeOn(tx, record);
  if (!other) return [null, null];
  if (other.createdAt > record.createdAt) return [other.id, other.createdAt];
  tx.connection.run(
    "UPDATE __service_memory SET superseded_by = ?, superseded_at = ? WHERE row = ?",
    record.id,
    record.createdAt,
    other.row,
  );
  note(tx, "memory", "superseded", other.id);
  return [null, null];
}

/** What a record says of the state that a memory is in; nothing of an active one. */
function formState({ supersededBy, supersededAt }: MemoryRow): Readonly<Record<string, string | undefined>> {
  const state = stateOf(supersededBy);
  if (state === "active" || state === "superseded")
    return { superseded_by: plain(supersededBy), superseded_at: plain(supersededAt) };
  return { state: plain(state), state_at: plain(supersededAt) };
}

/** The state that a record says, as a row has it. */
function readState(fields: Fields): readonly [string | null, number | null] {
  const by = fields.maybeText("superseded_by", 64);
  const at = fields.maybeTime("superseded_at");
  const state = fields.maybeText("state", 16);
  const stateAt = fields.maybeTime("state_at");
  if (by !== undefined && !isMemoryId(by)) throw invalid("superseded_by must be mem_ and a ULID");
  if ((by === undefined) !== (at === undefined)) throw invalid("superseded_by and superseded_at go together");
  if ((state === undefined) !== (stateAt === undefined)) throw invalid("state and state_at go together");
  if (state === undefined) return [by ?? null, at ?? null];
  if (by !== undefined) throw invalid("a memory is superseded or in another state, not both");
  if (state !== "proposed" && state !== "completed") throw invalid("state must be proposed or completed, or left out");
  return [stateMarks[state], stateAt!];
}

/** The memory that says the same, where only one may: among the active ones, and among the proposed ones. */
function findTwin(view: View, record: MemoryRecord): Same | undefined {
  const state = stateOf(record.supersededBy);
  return state === "active" || state === "proposed" ? findDuplicate(view, identityOf(record), state) : undefined;
}

export const memoryRecords: RecordKind<MemoryRecord> = {
  kind: "memory",
  tables: {
    __service_memory: {
      exported: [
        ...["id", "type", "created_at", "expires_at", "superseded_by", "superseded_at", "topic_key", "session_id"],
        ...["source", "keywords", "summary", "content"],
      ],
      derived: { row: "given anew", fingerprint: "follows from what is said" },
    },
    __service_memory_provenance: { exported: ["session_id", "source"], derived: { memory: "the record's own" } },
    __service_memory_metadata: { exported: ["metadata"], derived: { memory: "the record's own", id: "likewise" } },
    __service_memory_validity: {
      exported: ["valid_from", "valid_until"],
      derived: { memory: "the record's own", id: "likewise" },
    },
    __service_memory_link: {
      exported: ["from_memory", "session_id", "seq"],
      derived: { link: "given anew, in the same order", memory: "the record's own", id: "likewise" },
    },
    // Of records of every kind that may have one.
    __service_subject: {
      exported: ["subject"],
      derived: { row: "given anew", kind: "the record's own", place: "likewise", owner: "likewise" },
    },
    __service_memory_pin: { exported: ["memory"], derived: { created_at: "the memory's" } },
  },

  *rows(view, after) {
    const { space, embedder } = vectorSpace(view);
    const present = presence(view, memoryStates);
    const rows = view.connection
      .prepared(selectMemories(view, `m.row > ? AND ${present.sql} ORDER BY m.row`))
      .iterate(space, after?.[0] ?? 0, ...present.params) as Iterable<MemoryRow>;
    for (const row of rows)
      yield {
        position: [row.row],
        line: formLine("memory", {
          id: plain(row.id),
          type: plain(row.type),
          topic_key: plain(row.topicKey),
          summary: plain(row.summary),
          content: row.content,
          keywords: plain(row.keywords),
          session_id: plain(row.sessionId),
          source: plain(row.source),
          provenance: row.provenance === "[]" ? undefined : row.provenance,
          created_at: plain(row.createdAt),
          expires_at: plain(row.expiresAt),
          ...formState(row),
          metadata: row.metadata ?? undefined,
          subject: plain(row.subject),
          valid_from: plain(row.validFrom),
          valid_until: plain(row.validUntil),
          derived_from: row.links === "[]" ? undefined : row.links,
          pinned: row.pinned === 1 ? "true" : undefined,
          embedder: row.embedding === null ? undefined : plain(embedder ?? null),
          vector: vectorJson(row.embedding),
        }),
      };
  },

  read(fields: Fields) {
    const id = fields.text("id", 64);
    if (!isMemoryId(id)) throw invalid("id must be mem_ and a ULID");
    const type = fields.oneOf("type", memoryTypes);
    const topicKey = fields.maybeText("topic_key", limits.topicKeyBytesMax);
    const summary = fields.maybeAnyText("summary") ?? "";
    const keywords = fields.maybeAnyText("keywords");
    const { text: content } = readContent("content", fields.json("content"));
    const sessionId = fields.maybeText("session_id", limits.sessionIdBytesMax);
    const source = fields.maybeText("source", limits.sourceBytesMax);
    const metadataJson = fields.maybeJson("metadata");
    const subject = readSubject(fields);
    const validFromMs = fields.maybeInteger("valid_from");
    const validUntilMs = fields.maybeInteger("valid_until");
    const links = readLinks(fields);
    const given = {
      ...{ type, summary, content },
      ...(validFromMs !== undefined && { validFromMs }),
      ...(validUntilMs !== undefined && { validUntilMs }),
      ...(topicKey !== undefined && { topicKey }),
      ...(keywords !== undefined && { keywords }),
    };
    checkMemory("the record", given);
    const [supersededBy, supersededAt] = readState(fields);
    const expiresAt = fields.maybeTime("expires_at");
    if ((expiresAt !== undefined) !== (type === "task")) throw invalid("a task has expires_at, and nothing else has");
    const provenance = fields.maybePairs("provenance", provenanceMax) ?? [];
    for (const [session, said] of provenance) {
      if (session !== "") checkText("provenance", session, limits.sessionIdBytesMax);
      if (said !== "") checkText("provenance", said, limits.sourceBytesMax);
    }
    const embedder = fields.maybeText("embedder", 256);
    return {
      ...{ id, type, summary, content, provenance, links, embedder },
      subject: subject ?? null,
      validFrom: validFromMs ?? null,
      validUntil: validUntilMs ?? null,
      topicKey: topicKey ?? null,
      keywords: keywords ?? null,
      sessionId: sessionId ?? null,
      source: source ?? null,
      createdAt: fields.time("created_at"),
      expiresAt: expiresAt ?? null,
      ...{ supersededBy, supersededAt },
      metadata: metadataJson === undefined ? null : readMetadata("metadata", metadataJson),
      pinned: fields.maybeTrue("pinned") ?? false,
      vector: fields.maybeVector("vector"),
    };
  },

  find(view, record) {
    const there = rowOf(view, record.id);
    if (there && isSame(there, record, hasRoomFor(view, record))) return "same";
    if (record.expiresAt !== null && record.expiresAt <= view.nowMs) return "expired";
    const twin = findTwin(view, record);
    if (twin?.present && twin.id !== record.id) return "duplicate";
    return there ? "different" : "absent";
  },

  write(tx, record) {
    const identity = identityOf(record);
    const replaced = tx.connection.get<{ row: number }>("SELECT row FROM __service_memory WHERE id = ?", record.id);
    if (replaced) removeMemories(tx, [replaced.row], "forgotten");
    const expired = findTwin(tx, record);
    if (expired) removeMemories(tx, [expired.row], "expired");
    const [supersededBy, supersededAt] = settleTopic(tx, record);
    const { id, type, createdAt, expiresAt, topicKey, sessionId, source, keywords, summary, content } = record;
    const { validFrom, validUntil } = record;
    const row = tx.connection.run(
      `INSERT INTO __service_memory (id, type, created_at, expires_at, superseded_by, superseded_at, topic_key,
         session_id, source, fingerprint, keywords, summary, content)
       VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
      ...[id, type, createdAt, expiresAt, supersededBy, supersededAt, topicKey],
      ...[sessionId, source, identity, keywords, summary, content],
    ).lastInsertRowid;
    note(tx, "memory", stateOf(supersededBy) === "proposed" ? "proposed" : "created", id);
    if (type === "instruction") indexInstructions(tx);
    if (record.pinned) pinMemory(tx, row);
    putSubject(tx, { kind: "memory", owner: row }, record.subject ?? undefined);
    putValidity(
      tx,
      { row, id },
      {
        ...(validFrom !== null && { validFromMs: validFrom }),
        ...(validUntil !== null && { validUntilMs: validUntil }),
      },
    );
    addLinks(tx, { row, id }, record.links);
    indexMemory(tx, row, summary.length + content.length + (keywords?.length ?? 0));
    if (record.metadata !== null) putMetadata(tx, { row, id }, record.metadata);
    if (isBatched(tx.connection)) noteFingerprint(tx, row);
    else if (sessionId === null && source === null) addProvenance(tx, row, {});
    for (const [session, said] of record.provenance) addProvenance(tx, row, { sessionId: session, source: said });
    if (record.vector && hasRoomFor(tx, record)) embed(tx, "memory", row, { embedding: record.vector, isUnit: true });
  },

  isErased: (_view, record, erased) => isErasedMemory(record, erased),
  withoutErased: withoutErasedMentions,
};
