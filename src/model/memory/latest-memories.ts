/**
 * The newest active memories of a type, without a walk through all memories.
 *
 * Owns the index of instructions, which is made when one is stored: they are few, and count whatever their age. Always
 * true: it holds numbers of rows and nothing that was said; a file without it (no instruction was stored since builds
 * know it) is read as well. Elsewhere the newest rows are looked at, and of older ones those that have a topic.
 */
import type { Tx, View } from "../core/transaction.ts";
import { activeOnly } from "../standing/states.ts";
import { presence } from "./memory-presence.ts";
import type { MemoryType } from "./memory-record.ts";

const instructionIndex = "__service_memory_instruction";

/** The newest rows that are looked at, and topics; a few milliseconds. */
export const latestLooksMax = 5_000;

/** Makes the index, if the file has none. */
export function indexInstructions({ connection }: Tx): void {
  connection.exec(
    `CREATE INDEX IF NOT EXISTS ${instructionIndex} ON __service_memory (type)
     WHERE type = 'instruction' AND superseded_by IS NULL`,
  );
}

/** A memory, by its number and its id. */
export interface FoundMemory {
  readonly row: number;
  readonly id: string;
}

/** Memories, and whether there may be others that were not looked at. */
export interface Latest {
  readonly memories: readonly FoundMemory[];
  readonly more: boolean;
}

/** The newest active memories of the type, the newest first, at most `most`. */
export function latestMemories(view: View, type: MemoryType, most: number): Latest {
  const { connection } = view;
  const present = presence(view, activeOnly);
  const isIndexed =
    type === "instruction" &&
    connection.get("SELECT 1 FROM sqlite_schema WHERE type = 'index' AND name = ?", instructionIndex) !== undefined;
  if (isIndexed) {
    const memories = connection.all<FoundMemory>(
      `SELECT m.row, m.id FROM __service_memory AS m INDEXED BY ${instructionIndex}
       WHERE m.type = 'instruction' AND m.superseded_by IS NULL AND ${present.sql} ORDER BY m.row DESC LIMIT ?`,
      ...present.params,
      most + 1,
    );
    return { memories: memories.slice(0, most), more: memories.length > most };
  }
  const { newest } = connection.get<{ newest: number }>(
    "SELECT coalesce(max(row), 0) AS newest FROM __service_memory",
  )!;
  const floor = Math.max(0, newest - latestLooksMax);
  const memories = connection.all<FoundMemory>(
    `SELECT m.row, m.id FROM __service_memory AS m WHERE m.row > ? AND m.type = ? AND ${present.sql}
     ORDER BY m.row DESC LIMIT ?`,
    floor,
    type,
    ...present.params,
    most + 1,
  );
  const older = floor > 0 && memories.length <= most ? withTopic(view, type, floor, most + 1 - memories.length) : [];
  const all = [...memories, ...older];
  return { memories: all.slice(0, most), more: all.length > most || floor > 0 };
}

/** Those up to this row that have a topic, the newest first. */
function withTopic(view: View, type: MemoryType, upTo: number, most: number): readonly FoundMemory[] {
  const present = presence(view, activeOnly);
  return view.connection.all(
    `SELECT m.row, m.id FROM (
       SELECT row, type FROM __service_memory INDEXED BY __service_memory_current
       WHERE topic_key IS NOT NULL AND superseded_by IS NULL LIMIT ?
     ) AS found CROSS JOIN __service_memory AS m ON m.row = found.row
     WHERE found.type = ? AND found.row <= ? AND ${present.sql} ORDER BY m.row DESC LIMIT ?`,
    latestLooksMax,
    type,
    upTo,
    ...present.params,
    most,
  );
}
