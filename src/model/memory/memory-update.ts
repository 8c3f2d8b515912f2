/**
 * Changing what is known beside a memory, without making it another one.
 *
 * Always true: its identity, its words, its time and its place in its topic stay; what is not given stays as it was; a
 * change to what already holds writes nothing.
 */
import { invalid } from "../../base/faults/errors.ts";
import type { Tx } from "../core/transaction.ts";
import type { MemoryRecord } from "./memory-record.ts";
import { pinMemory, unpinMemories } from "./memory-pins.ts";
import { findRow, getMemory } from "./stored-memories.ts";

/** What is to be changed; what is absent stays as it is. */
export interface MemoryChange {
  readonly pinned?: boolean;
}

/** Refuses a change of nothing. Reads nothing. */
export function checkChange(change: MemoryChange): void {
  if (change.pinned === undefined) throw invalid("give at least one field to change: pinned");
}

/** Changes the memory, and gives it as it is then; undefined when there is none or it has expired. */
export function updateMemory(tx: Tx, { id, pinned }: { readonly id: string } & MemoryChange): MemoryRecord | undefined {
  const row = findRow(tx, id);
  if (row === undefined) return undefined;
  if (pinned === true) pinMemory(tx, row);
  if (pinned === false) unpinMemories(tx, [row]);
  return getMemory(tx, { id });
}
