/**
 * Memories that are there: one given by its id, changed or deleted, and those whose time is over.
 *
 * Always true: what has expired is invisible from that instant on (model/memory/memory-presence), whether or not a
 * sweep has come by.
 */
import { invalid, ServiceError } from "../../base/faults/errors.ts";
import { checkText } from "../../format/core/names.ts";
import { note } from "../core/change-notes.ts";
import type { Tx, View } from "../core/transaction.ts";
import { checkTtl } from "../core/ttl.ts";
import { readMetadata, replaceMetadata } from "../docs/memory-metadata.ts";
import { memoryStates, stateMarks, stateOf, type MemoryState } from "../standing/states.ts";
import { findDuplicate } from "./duplicates.ts";
import { reindexMemory } from "./keyword.ts";
import { keywordsBytesMax } from "./memory-ingest.ts";
import { pinMemory, unpinMemories } from "./memory-pins.ts";
import { presence } from "./memory-presence.ts";
import { loadMemories, type MemoryRecord } from "./memory-record.ts";
import { removeMemories } from "./memory-removal.ts";

/** The row of a memory that is there to be seen, in whatever state, or in one of these. */
export function findRow(view: View, id: string, states: readonly MemoryState[] = memoryStates): number | undefined {
  const present = presence(view, states);
  return view.connection.get<{ row: number }>(
    `SELECT m.row FROM __service_memory AS m WHERE m.id = ? AND ${present.sql}`,
    id,
    ...present.params,
  )?.row;
}

/** The memory with what it superseded itself, oldest first, or undefined when there is none or it has expired. */
export function getMemory(view: View, input: { readonly id: string }): MemoryRecord | undefined {
  const row = findRow(view, input.id);
  if (row === undefined) return undefined;
  return { ...loadMemories(view, [row])[0]!, supersedes: supersededBy(view, input.id) };
}

/** What the memory has superseded itself, oldest first. */
function supersededBy(view: View, id: string): string[] {
  const present = presence(view, ["superseded"]);
  return view.connection
    .all<{ id: string }>(
      `SELECT m.id FROM __service_memory AS m WHERE m.superseded_by = ? AND ${present.sql} ORDER BY m.row`,
      id,
      ...present.params,
    )
    .map((superseded) => superseded.id);
}

/** What is to be changed of what is known beside a memory; what is absent stays as it is. */
export interface MemoryChange {
  readonly pinned?: boolean;
  /** JSON text of an object, in the place of what it has; an empty one takes that away. */
  readonly metadata?: string;
  /** In the place of those that it has; empty text takes them away. */
  readonly keywords?: string;
  /** Of a task: how long it lives from now on; 0 ends it. */
  readonly ttlSecs?: number;
  /** Of a task: whether it is done. */
  readonly completed?: boolean;
}

/** Refuses a change of nothing, and what no memory can have. Reads nothing. */
export function checkChange({ pinned, metadata, keywords, ttlSecs, completed }: MemoryChange): void {
  if ((pinned ?? metadata ?? keywords ?? ttlSecs ?? completed) === undefined)
    throw invalid("give at least one field to change: pinned, metadata, keywords, ttl, completed");
  if (metadata !== undefined) readMetadata("metadata", metadata);
  if (keywords !== undefined && keywords !== "") checkText("keywords", keywords, keywordsBytesMax);
  if (ttlSecs !== undefined) checkTtl("ttl", ttlSecs);
}

/**
 * Changes what is known beside the memory, which stays the same one, and gives it as it is then; undefined when there
 * is none or it has expired. A change to what already holds writes nothing.
 */
export function updateMemory(
  tx: Tx,
  { id, pinned, metadata, keywords, ttlSecs, completed, taskTtlMaxSecs }: MemoryUpdate,
): MemoryRecord | undefined {
  const row = findRow(tx, id);
  if (row === undefined) return undefined;
  refuseProposal(tx, row);
  if (completed !== undefined) changeCompletion(tx, row, completed);
  if (ttlSecs !== undefined) changeExpiry(tx, row, Math.min(ttlSecs, taskTtlMaxSecs ?? Infinity));
  if (pinned === true) pinMemory(tx, row);
  if (pinned === false) unpinMemories(tx, [row]);
  if (metadata !== undefined) replaceMetadata(tx, { row, id }, readMetadata("metadata", metadata));
  if (keywords !== undefined) changeKeywords(tx, row, keywords === "" ? null : keywords);
  note(tx, "memory", "updated", id);
  const [changed] = loadMemories(tx, [row]);
  return { ...changed!, supersedes: supersededBy(tx, id) };
}

/** A change of one memory. `taskTtlMaxSecs` caps lifetimes. */
interface MemoryUpdate extends MemoryChange {
  readonly id: string;
  readonly taskTtlMaxSecs?: number;
}

/** What a reviewer approves is what was proposed. */
function refuseProposal({ connection }: Tx, row: number): void {
  const sql = "SELECT 1 FROM __service_memory WHERE row = ? AND superseded_by = ?";
  if (connection.get(sql, row, stateMarks.proposed) !== undefined)
    throw new ServiceError("conflict", "the memory is a proposal, which does not change before it is reviewed");
}

/** A task that is done is not open: it is neither recalled nor the same as one that is to be done again. */
function changeCompletion(tx: Tx, row: number, completed: boolean): void {
  const { type, supersededBy, identity } = tx.connection.get<{
    type: string;
    supersededBy: string | null;
    identity: Uint8Array;
  }>("SELECT type, superseded_by AS supersededBy, fingerprint AS identity FROM __service_memory WHERE row = ?", row)!;
  if (type !== "task") throw invalid("completed is allowed on a task only");
  if ((stateOf(supersededBy) === "completed") === completed) return;
  const open = completed ? undefined : findDuplicate(tx, identity);
  if (open?.present)
    throw new ServiceError(
      "conflict",
      `the same task is open as ${open.id}: complete that one, or leave this one done`,
    );
  if (open) removeMemories(tx, [open.row], "expired");
  tx.connection.run(
    "UPDATE __service_memory SET superseded_by = ?, superseded_at = ? WHERE row = ?",
    completed ? stateMarks.completed : null,
    completed ? tx.nowMs : null,
    row,
  );
}

function changeExpiry({ connection, nowMs }: Tx, row: number, ttlSecs: number): void {
  const sql = "UPDATE __service_memory SET expires_at = ? WHERE row = ? AND type = 'task'";
  if (connection.run(sql, nowMs + ttlSecs * 1_000, row).changes === 0)
    throw invalid("ttl is allowed on a task only: other memories do not expire");
}

function changeKeywords(tx: Tx, row: number, keywords: string | null): void {
  const sql = "UPDATE __service_memory SET keywords = ? WHERE row = ? AND keywords IS NOT ?";
  if (tx.connection.run(sql, keywords, row, keywords).changes > 0) reindexMemory(tx, row);
}

/** Deletes a memory for good. What it superseded stays superseded. */
export function deleteMemory(tx: Tx, input: { readonly id: string }): { forgotten: boolean } {
  const row = findRow(tx, input.id);
  if (row !== undefined) removeMemories(tx, [row], "forgotten");
  return { forgotten: row !== undefined };
}

/** Removes tasks that have expired, the earliest first, at most `rowsMax`. */
export function sweepMemories(tx: Tx, input: { readonly rowsMax: number }): { removed: number } {
  const expired = tx.connection.all<{ row: number }>(
    "SELECT row FROM __service_memory WHERE expires_at <= ? ORDER BY expires_at LIMIT ?",
    tx.nowMs,
    input.rowsMax,
  );
  removeMemories(
    tx,
    expired.map(({ row }) => row),
    "expired",
  );
  return { removed: expired.length };
}
