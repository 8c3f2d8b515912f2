/**
 * Typed memories as they come in: the rules of a batch, duplicates, and what supersedes what.
 *
 * Always true:
 * - an ingest is recallable when it commits, and the same ingest again changes nothing
 * - a topic has at most one active memory of a type
 * - a proposal is stored and changes nothing else; it comes in as any memory does when it is approved
 * - what has expired is invisible from that instant on (model/memory/memory-presence), whether or not a sweep has come
 *   by
 *
 * Must not know: who embeds, policies beyond the numbers handed in, how a recall ranks.
 */
import { invalid } from "../../base/faults/errors.ts";
import { limits } from "../../base/limits.ts";
import { checkText } from "../../format/core/names.ts";
import { readContent } from "../core/content.ts";
import { isBatched } from "../core/database-state.ts";
import { findDuplicate, fingerprint, type Same } from "./duplicates.ts";
import { noteFingerprint } from "./fingerprint-index.ts";
import { indexMemory } from "./keyword.ts";
import { indexInstructions } from "./latest-memories.ts";
import { pinMemory } from "./memory-pins.ts";
import { memoryTypes, type MemoryType } from "./memory-record.ts";
import { putMetadata, readMetadata } from "../docs/memory-metadata.ts";
import { removeMemories } from "./memory-removal.ts";
import { embed, type Embedded, type Maker } from "./memory-vectors.ts";
import { ensureSession, touchSession } from "../core/session-row.ts";
import { checkSubject, putSubject } from "../core/subjects.ts";
import { checkTtl } from "../core/ttl.ts";
import { note } from "../core/change-notes.ts";
import type { Tx } from "../core/transaction.ts";
import { stateMarks } from "../standing/states.ts";
import { checkEmbedding } from "../vectors/vectors.ts";

export const summaryBytesMax = 8 * 1024;
export const keywordsBytesMax = 8 * 1024;
/** How long a task lives by default (spec: Limits). */
const taskTtlSecsDefault = 86_400;

/** A memory as it comes in (spec: MemoryInput). */
export interface MemoryInput {
  readonly type: string;
  readonly summary: string;
  /** JSON text. */
  readonly content: string;
  readonly topicKey?: string;
  readonly keywords?: string;
  readonly embedding?: Float32Array;
  /** Who made the vector, or would have, had it been of use; absent when it is the caller's own or there is none. */
  readonly embeddedBy?: Maker;
  readonly sessionId?: string;
  readonly source?: string;
  /** Lifetime of a task in seconds; 0 expires at once. */
  readonly ttlSecs?: number;
  /** JSON text of an object. No part of what makes two memories the same. */
  readonly metadata?: string;
  /** Whom it is about; part of what makes two memories the same. */
  readonly subject?: string;
  /** Pins it, and the existing one of a duplicate; false and absent change nothing. */
  readonly pinned?: boolean;
  /** Whether it waits for a review instead of being taken in. */
  readonly proposed?: boolean;
}

/** The outcome for one memory of a batch. */
export interface IngestResult {
  id: string;
  /** `proposed` for one that waits for a review, also where the same waited already. */
  status: "created" | "duplicate" | "proposed";
  superseded: string[];
  /** Absent when no vector came, or when a duplicate had one already. */
  embedding?: Embedded;
  /** When it expires, in Unix milliseconds; on tasks only. A duplicate changes no lifetime. */
  expiresAt?: number;
}

/** Whether a new memory of this type takes the place of the one before it on its topic. */
function supersedes(type: string): boolean {
  return type === "fact" || type === "instruction";
}

/** Refuses the whole batch when one memory breaks a rule; the message names it and its field. Reads nothing. */
export function checkMemories(memories: readonly MemoryInput[]): void {
  checkMemoryCount(memories.length);
  memories.forEach((memory, at) => checkMemory(`memories[${at}]`, memory));
}

/** Refuses more memories than one ingest may have: before each of them is looked at. */
export function checkMemoryCount(count: number): void {
  if (count > limits.ingestItemsMax)
    throw invalid(`memories has ${count} items; at most ${limits.ingestItemsMax} are allowed`);
}

/** Refuses one memory of an ingest that could not be taken; `name` is its place. */
export function checkMemory(name: string, memory: MemoryInput): void {
  const { type, summary, topicKey, keywords, embedding, sessionId, source, ttlSecs, metadata, subject } = memory;
  if (!memoryTypes.includes(type as MemoryType)) throw invalid(`${name}.type must be one of ${memoryTypes.join(", ")}`);
  checkText(`${name}.summary`, summary, summaryBytesMax);
  if (summary.trim() === "") throw invalid(`${name}.summary must not be blank`);
  readContent(`${name}.content`, memory.content);
  if (topicKey !== undefined) {
    if (!supersedes(type)) throw invalid(`${name}.topic_key is allowed on fact and instruction only`);
    checkText(`${name}.topic_key`, topicKey, limits.topicKeyBytesMax);
  }
  if (keywords !== undefined && keywords !== "") checkText(`${name}.keywords`, keywords, keywordsBytesMax);
  if (embedding !== undefined) checkEmbedding(`${name}.embedding`, embedding);
  if (sessionId !== undefined) checkText(`${name}.session_id`, sessionId, limits.sessionIdBytesMax);
  if (source !== undefined) checkText(`${name}.source`, source, limits.sourceBytesMax);
  if (metadata !== undefined) readMetadata(`${name}.metadata`, metadata);
  if (subject !== undefined) checkSubject(`${name}.subject`, subject);
  if (ttlSecs !== undefined) {
    if (type !== "task") throw invalid(`${name}.ttl is allowed on task only`);
    checkTtl(`${name}.ttl`, ttlSecs);
  }
}

/**
 * Takes in memories that passed `checkMemories`, in their order: the later ones of a batch see the earlier ones. A
 * duplicate of an active memory adds who said it, its pin, and its vector where there was none. `taskTtlMaxSecs` caps
 * lifetimes.
 */
export function ingest(
  tx: Tx,
  input: { readonly memories: readonly MemoryInput[]; readonly taskTtlMaxSecs?: number },
): { results: IngestResult[] } {
  const { taskTtlMaxSecs = Infinity } = input;
  return {
    results: input.memories.map(
      (memory) => takeIn(tx, memory, { expiresAt: computeExpiry(tx, memory, taskTtlMaxSecs) }).result,
    ),
  };
}

/** What is known of a memory beside what it says, as it is taken in. */
export interface Arrival {
  /** The id that it has already. */
  readonly id?: string;
  readonly expiresAt: number | null;
}

/** What became of a memory, and the row that it is, or is the same as. */
export interface TakenIn {
  readonly result: IngestResult;
  readonly row: number;
}

/** Takes in one memory that passed the checks of an ingest. */
export function takeIn(tx: Tx, memory: MemoryInput, arrival: Arrival): TakenIn {
  const content = readContent("content", memory.content);
  const identity = fingerprint({
    ...memory,
    topicKey: memory.topicKey,
    sessionId: memory.sessionId,
    subject: memory.subject,
    content: content.value,
  });
  const same = findPresent(tx, identity, "active");
  if (same) return { result: acknowledge(tx, same, memory), row: same.row };
  const pending = memory.proposed ? findPresent(tx, identity, "proposed") : undefined;
  if (pending) return { result: proposeAgain(tx, pending, memory), row: pending.row };

  const { id = `mem_${tx.newId()}`, expiresAt } = arrival;
  note(tx, "memory", memory.proposed ? "proposed" : "created", id);
  const superseded = memory.proposed ? [] : supersede(tx, memory.type, memory.topicKey, id);
  const row = insert(tx, { id, memory, identity, content: content.text, expiresAt });
  if (memory.type === "instruction" && !memory.proposed) indexInstructions(tx);
  if (memory.pinned) pinMemory(tx, row);
  putSubject(tx, { kind: "memory", owner: row }, memory.subject);
  indexMemory(tx, row, memory.summary.length + content.text.length + (memory.keywords?.length ?? 0));
  if (memory.metadata !== undefined) putMetadata(tx, { row, id }, readMetadata("metadata", memory.metadata));
  if (isBatched(tx.connection)) noteFingerprint(tx, row);
  const hasOrigin = (memory.sessionId ?? memory.source) !== undefined;
  if (hasOrigin || !isBatched(tx.connection)) addProvenance(tx, row, memory);
  if (memory.sessionId !== undefined) touchSession(tx, memory.sessionId);
  const status = memory.proposed ? "proposed" : "created";
  const result = { id, status, superseded, ...(expiresAt !== null && { expiresAt }) } as const;
  return { result: withEmbedding(result, tx, row, memory), row };
}

/** The same memory in the state, if there is one. */
function findPresent(tx: Tx, identity: Uint8Array, state: "active" | "proposed"): Same | undefined {
  const same = findDuplicate(tx, identity, state);
  if (same?.present) return same;
  // Removed here and now: what is gone must neither answer for the new memory nor block it.
  if (same) removeMemories(tx, [same.row], "expired");
  return undefined;
}

/** A proposal of what waits already: who proposed it is added, and nothing that a reviewer may have seen changes. */
function proposeAgain(tx: Tx, { id, row, expiresAt }: Same, memory: MemoryInput): IngestResult {
  if (!isOwnOrigin(tx, row, memory)) addProvenance(tx, row, memory);
  if (memory.sessionId !== undefined) ensureSession(tx, memory.sessionId);
  return { id, status: "proposed", superseded: [], ...(expiresAt !== null && { expiresAt }) };
}

function computeExpiry(tx: Tx, memory: MemoryInput, taskTtlMaxSecs: number): number | null {
  if (memory.type !== "task") return null;
  return tx.nowMs + Math.min(memory.ttlSecs ?? taskTtlSecsDefault, taskTtlMaxSecs) * 1000;
}

/**
 * A duplicate: nothing of the memory changes; only what was not known before is added, so that saying it twice costs
 * nothing. A proposal adds nothing at all.
 */
function acknowledge(tx: Tx, same: Same, memory: MemoryInput): IngestResult {
  const { id, row, expiresAt } = same;
  const result = { id, status: "duplicate" as const, superseded: [], ...(expiresAt !== null && { expiresAt }) };
  if (memory.proposed) return result;
  const isNews = !isOwnOrigin(tx, same.row, memory) && addProvenance(tx, same.row, memory);
  if (memory.sessionId !== undefined) (isNews ? touchSession : ensureSession)(tx, memory.sessionId);
  if (memory.pinned) pinMemory(tx, row);
  if (isNews || memory.pinned) note(tx, "memory", "updated", id);
  return withEmbedding(result, tx, row, memory);
}

function withEmbedding(result: IngestResult, tx: Tx, row: number, memory: MemoryInput): IngestResult {
  const embedded = embed(tx, "memory", row, memory);
  return embedded ? { ...result, embedding: embedded } : result;
}

/** Whether the memory says itself that it came like this, from no session and no source. */
function isOwnOrigin({ connection }: Tx, row: number, { sessionId, source }: MemoryInput): boolean {
  if ((sessionId ?? source) !== undefined) return false;
  const sql = "SELECT 1 FROM __service_memory WHERE row = ? AND session_id IS NULL AND source IS NULL";
  return connection.get(sql, row) !== undefined;
}

/** Records who said it, and says whether that was not known yet. */
export function addProvenance(
  tx: Tx,
  row: number,
  { sessionId = "", source = "" }: Pick<MemoryInput, "sessionId" | "source">,
): boolean {
  return (
    tx.connection.run(
      "INSERT INTO __service_memory_provenance (memory, session_id, source) VALUES (?, ?, ?) ON CONFLICT DO NOTHING",
      row,
      sessionId,
      source,
    ).changes > 0
  );
}

/** Marks the topic's active memory as superseded by `id`, and gives its id. */
function supersede(tx: Tx, type: string, topicKey: string | undefined, id: string): string[] {
  if (topicKey === undefined) return [];
  const old = tx.connection.get<{ row: number; id: string }>(
    "SELECT row, id FROM __service_memory WHERE topic_key = ? AND type = ? AND superseded_by IS NULL",
    topicKey,
    type,
  );
  if (!old) return [];
  tx.connection.run(
    "UPDATE __service_memory SET superseded_by = ?, superseded_at = ? WHERE row = ?",
    id,
    tx.nowMs,
    old.row,
  );
  note(tx, "memory", "superseded", old.id);
  return [old.id];
}

interface NewMemory {
  readonly id: string;
  readonly memory: MemoryInput;
  readonly identity: Uint8Array;
  /** JSON text. */
  readonly content: string;
  readonly expiresAt: number | null;
}

function insert(tx: Tx, { id, memory, identity, content, expiresAt }: NewMemory): number {
  return tx.connection.run(
    `INSERT INTO __service_memory (id, type, created_at, expires_at, topic_key, session_id, source,
       fingerprint, keywords, summary, content, superseded_by, superseded_at)
     VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
    id,
    memory.type,
    tx.nowMs,
    expiresAt,
    memory.topicKey ?? null,
    memory.sessionId ?? null,
    memory.source ?? null,
    identity,
    memory.keywords ?? null,
    memory.summary,
    content,
    memory.proposed ? stateMarks.proposed : null,
    memory.proposed ? tx.nowMs : null,
  ).lastInsertRowid;
}
