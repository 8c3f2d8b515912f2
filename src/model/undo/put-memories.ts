/**
 * Memories and turns that an undo puts back: their rows, what belongs to them, their words and their vectors.
 *
 * Always true: what is put back has the row number that it had, if no other took it meanwhile, so that rows stay in the
 * order of their times; a topic still has one active memory of a type and nothing is twice, or all is refused. Must not
 * know: which states were compared.
 */
import { ServiceError } from "../../base/faults/errors.ts";
import { note } from "../core/change-notes.ts";
import { isBatched } from "../core/database-state.ts";
import type { Tx } from "../core/transaction.ts";
import { findDuplicate } from "../memory/duplicates.ts";
import { enterFingerprints } from "../memory/fingerprint-index.ts";
import { memoryWords, reindexMemory } from "../memory/keyword.ts";
import { removeMemories } from "../memory/memory-removal.ts";
import { embeddedSpace } from "../memory/memory-vectors.ts";
import { stateOf } from "../standing/states.ts";
import { restoreWords, type WordTable } from "../text/word-batches.ts";
import { turnWords } from "../transcript/turn-text.ts";
import { putStoredVector } from "../vectors/vectors.ts";
import { insertAgain, putParts, replaceRow } from "./rows.ts";
import { vectorTable, type StoredRow, type StoredThing } from "./things.ts";

const memoryTable = "__service_memory";
const turnTable = "__service_turn";

/** Puts the memory back as it was, in the place of what it is now. */
export function putMemory(tx: Tx, id: string, now: StoredThing | undefined, before: StoredThing): void {
  const row = before.own;
  const state = stateOf(row["superseded_by"] as string | null);
  const current = now?.own;
  // One that was approved has come in anew, as another row; all others stay theirs.
  const isSameRow = current !== undefined && current["created_at"] === row["created_at"];
  if (current && !isSameRow) removeMemories(tx, [current["row"] as number], "forgotten");
  if (state === "active" || state === "proposed") refuseTwice(tx, row, state);
  if (current && isSameRow) {
    const number = current["row"] as number;
    replaceRow(tx, memoryTable, "row", number, row);
    putParts(tx, before, now, number);
    reindexMemory(tx, number);
    note(tx, "memory", "updated", id);
    return;
  }
  const number = restoreRow(tx, memoryTable, row, memoryWords, textChars(row));
  if (isBatched(tx.connection)) enterFingerprints(tx, number);
  putParts(tx, before, undefined, number);
  putVectorBack(tx, "memory", before, number);
  note(tx, "memory", state === "proposed" ? "proposed" : "created", id);
}

/** Refuses a memory in the place of which there is another by now. */
function refuseTwice(tx: Tx, row: StoredRow, state: "active" | "proposed"): void {
  const other =
    findDuplicate(tx, row["fingerprint"] as Uint8Array, state)?.id ??
    (state === "proposed"
      ? undefined
      : tx.connection.get<{ id: string }>(
          `SELECT id FROM ${memoryTable} WHERE topic_key = ? AND type = ? AND superseded_by IS NULL`,
          row["topic_key"] as string | null,
          row["type"] as string,
        )?.id);
  if (other !== undefined && other !== row["id"])
    throw new ServiceError("conflict", `memory ${String(row["id"])} cannot come back: ${other} is in its place now`);
}

/** Puts a turn back that is there no more. */
export function putTurn(tx: Tx, sessionId: string, seq: number, before: StoredThing): void {
  const row = before.own;
  const number = restoreRow(tx, turnTable, row, turnWords, String(row["content"]).length);
  putParts(tx, before, undefined, number);
  putVectorBack(tx, "turn", before, number);
  note(tx, "turn", "created", sessionId, seq);
}

function textChars(row: StoredRow): number {
  return ["summary", "content", "keywords"].reduce((sum, column) => sum + String(row[column] ?? "").length, 0);
}

/** Inserts the row under the number that it had, unless another has it; gives the number. */
function restoreRow(tx: Tx, table: string, row: StoredRow, words: WordTable, chars: number): number {
  const number = insertAgain(tx, table, "row", row);
  restoreWords(tx, words, number, chars);
  return number;
}

/** Vectors go into the space that they were of only; without its own a memory is embedded as any that lacks one. */
function putVectorBack(tx: Tx, kind: "memory" | "turn", before: StoredThing, number: number): void {
  const stored = before.parts[vectorTable]?.[0];
  const space = embeddedSpace(tx, kind);
  if (stored && space && space.space === stored["space"])
    putStoredVector(tx, space, number, stored["embedding"] as Uint8Array);
}
