/**
 * The one way in which a memory is removed: forgotten, expired, ended with its session or erased.
 *
 * Always true: its row, its fingerprint, its provenance, its metadata, its pin, its vector and its words go
 * together. Nothing
 * else refers to a memory by row.
 */
import { note } from "../core/change-notes.ts";
import { isBatched } from "../core/database-state.ts";
import { removeFingerprint } from "./fingerprint-index.ts";
import { unindexMemory } from "./keyword.ts";
import { removeMetadata } from "../docs/memory-metadata.ts";
import { unpinMemories } from "./memory-pins.ts";
import { unembedMemories } from "./memory-vectors.ts";
import type { Tx } from "../core/transaction.ts";

/** Removes the memories of these rows, and notes why. What they superseded stays superseded. */
export function removeMemories(tx: Tx, rows: readonly number[], why: "forgotten" | "expired" | "reviewed"): void {
  unembedMemories(tx, rows);
  removeMetadata(tx, rows);
  unpinMemories(tx, rows);
  for (const row of rows) {
    if (isBatched(tx.connection)) removeFingerprint(tx, row);
    tx.connection.run("DELETE FROM __service_memory_provenance WHERE memory = ?", row);
    const removed = tx.connection.get<{ id: string }>("DELETE FROM __service_memory WHERE row = ? RETURNING id", row);
    if (removed) note(tx, "memory", why, removed.id);
    unindexMemory(tx, row);
  }
}
