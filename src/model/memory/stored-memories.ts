/**
 * Memories that are there: one given by its id, changed or deleted, and those whose time is over.
 *
 * Always true: what has expired is invisible from that instant on (model/memory/memory-presence), whether or not a
 * sweep has come by.
 */
import { invalid } from "../../base/faults/errors.ts";
import type { Tx, View } from "../core/transaction.ts";
import { pinMemory, unpinMemories } from "./memory-pins.ts";
import { presence } from "./memory-presence.ts";
import { loadMemories, type MemoryRecord } from "./memory-record.ts";
import { removeMemories } from "./memory-removal.ts";

/** The row of a memory that is there to be seen. */
function findRow(view: View, id: string): number | undefined {
  const present = presence(view, { superseded: true });
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
  const present = presence(view, { superseded: true });
  const superseded = view.connection.all<{ id: string }>(
    `SELECT m.id FROM __service_memory AS m WHERE m.superseded_by = ? AND ${present.sql} ORDER BY m.row`,
    input.id,
    ...present.params,
  );
  return { ...loadMemories(view, [row])[0]!, supersedes: superseded.map(({ id }) => id) };
}

/** What is to be changed of what is known beside a memory; what is absent stays as it is. */
interface MemoryChange {
  readonly pinned?: boolean;
}

/** Refuses a change of nothing. Reads nothing. */
export function checkChange(change: MemoryChange): void {
  if (change.pinned === undefined) throw invalid("give at least one field to change: pinned");
}

/**
 * Changes what is known beside the memory, which stays the same one, and gives it as it is then; undefined when there
 * is none or it has expired. A change to what already holds writes nothing.
 */
export function updateMemory(tx: Tx, { id, pinned }: { readonly id: string } & MemoryChange): MemoryRecord | undefined {
  const row = findRow(tx, id);
  if (row === undefined) return undefined;
  if (pinned === true) pinMemory(tx, row);
  if (pinned === false) unpinMemories(tx, [row]);
  return getMemory(tx, { id });
}

/** Deletes a memory for good. What it superseded stays superseded. */
export function deleteMemory(tx: Tx, input: { readonly id: string }): { forgotten: boolean } {
  const row = findRow(tx, input.id);
  if (row !== undefined) removeMemories(tx, [row]);
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
  );
  return { removed: expired.length };
}
