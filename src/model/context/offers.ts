/**
 * What each section of a context block could show, the most wanted first, as far as it is looked at.
 *
 * Always true: a bounded number of rows is looked at, most of them by an index, and a text is read when there is room
 * for its line; what has expired, and what policy removes, is not offered. Must not know: budgets, how a block is
 * written, what a recall finds.
 */
import type { View } from "../core/transaction.ts";
import { latestMemories, type FoundMemory, type Latest } from "../memory/latest-memories.ts";
import { joinedPins, pinnedMemories } from "../memory/memory-pins.ts";
import { presence } from "../memory/memory-presence.ts";
import type { MemoryRecord } from "../memory/memory-record.ts";
import { activeOnly } from "../standing/states.ts";
import { latestTurns, lastTalk } from "../transcript/latest-turns.ts";
import { formatSpan } from "./age.ts";
import type { Offer, OfferedLine } from "./room.ts";
import { contentCharsShownMax, memoryLineText, turnLineText } from "./stored-text.ts";

/** What a section offers, as far as the database knows it. */
export type Offered = Pick<Offer, "ids" | "line" | "more"> & { readonly sessionId?: string | undefined };

/** What a line of a memory is made of; `content` may be its beginning. */
type ShownMemory = Pick<MemoryRecord, "id" | "type" | "summary" | "content" | "createdAt" | "expiresAt" | "pinned">;

/** A section that shows nothing, as nothing was asked or nothing is there. */
export const nothingOffered: Offered = {
  ids: [],
  line: () => {
    throw new RangeError("a section without ids has no lines");
  },
  more: false,
};

/** Reads a line once, however often it is asked for. */
function remembered({ connection }: View, read: (at: number) => OfferedLine): Offered["line"] {
  const lines = new Map<number, OfferedLine>();
  return (at) => {
    // Between two lines at the latest, so that a long block holds no other tenant up.
    connection.look();
    const line = lines.get(at) ?? read(at);
    lines.set(at, line);
    return line;
  };
}

function memoryLine(
  { id, type, summary, content, createdAt, expiresAt, pinned }: ShownMemory,
  nowMs: number,
  isTypeShown: boolean,
): OfferedLine {
  const about = {
    id,
    age: formatSpan(nowMs - createdAt),
    ...(isTypeShown && { type }),
    ...(pinned && { isPinned: true }),
    ...(expiresAt !== undefined && { left: formatSpan(expiresAt - nowMs) }),
  };
  return { about, ...memoryLineText(summary, content) };
}

function readMemory(view: View, row: number): ShownMemory {
  const pins = joinedPins(view);
  const { expiresAt, pinned, ...memory } = view.connection.get<
    Omit<ShownMemory, "expiresAt" | "pinned"> & { expiresAt: number | null; pinned: number }
  >(
    `SELECT m.id, m.type, m.summary, substr(m.content, 1, ${contentCharsShownMax + 1}) AS content,
       m.created_at AS createdAt, m.expires_at AS expiresAt, ${pins.column} AS pinned
     FROM __service_memory AS m ${pins.join} WHERE m.row = ?`,
    row,
  )!;
  return { ...memory, ...(expiresAt !== null && { expiresAt }), ...(pinned === 1 && { pinned: true as const }) };
}

/** Pinned memories before others, each once. */
function offerMemories(
  view: View,
  nowMs: number,
  { pinned, latest, most, isTypeShown = false }: MemoriesFound,
): Offered {
  const isFirst = new Set(pinned.map(({ id }) => id));
  const all = [...pinned, ...latest.memories.filter(({ id }) => !isFirst.has(id))];
  const found = all.slice(0, most);
  return {
    ids: found.map(({ id }) => id),
    line: remembered(view, (at) => memoryLine(readMemory(view, found[at]!.row), nowMs, isTypeShown)),
    more: latest.more || all.length > most,
  };
}

interface MemoriesFound {
  readonly pinned: readonly FoundMemory[];
  readonly latest: Latest;
  readonly most: number;
  readonly isTypeShown?: boolean;
}

/** Active instructions: pinned ones, then the newest. */
export function offerInstructions(view: View, nowMs: number, most: number): Offered {
  const pinned = pinnedMemories(view, ["instruction"], most + 1);
  return offerMemories(view, nowMs, { pinned, latest: latestMemories(view, "instruction", most), most });
}

/** Pinned facts and events, then the newest active facts. */
export function offerFacts(view: View, nowMs: number, most: number): Offered {
  const pinned = pinnedMemories(view, ["fact", "event"], most + 1);
  return offerMemories(view, nowMs, { pinned, latest: latestMemories(view, "fact", most), most });
}

/** Tasks: pinned ones, then those that expire soonest. */
export function offerTasks(view: View, nowMs: number, most: number): Offered {
  const present = presence(view, activeOnly);
  const soonest = view.connection.all<FoundMemory>(
    `SELECT m.row, m.id FROM __service_memory AS m INDEXED BY __service_memory_expiry
     WHERE m.expires_at > ? AND ${present.sql} ORDER BY m.expires_at, m.row LIMIT ?`,
    view.nowMs,
    ...present.params,
    most + 1,
  );
  const latest = { memories: soonest.slice(0, most), more: soonest.length > most };
  return offerMemories(view, nowMs, { pinned: pinnedMemories(view, ["task"], most + 1), latest, most });
}

/** What a recall found, in its order. */
export function offerFound(view: View, memories: readonly MemoryRecord[], nowMs: number, most: number): Offered {
  return {
    ids: memories.map(({ id }) => id),
    line: remembered(view, (at) => memoryLine(memories[at]!, nowMs, true)),
    more: memories.length >= most,
  };
}

/** The last turns of the session, or of the one that was active last, the newest first. */
export function offerTurns(view: View, nowMs: number, most: number, asked: string | undefined): Offered {
  const sessionId = asked ?? lastTalk(view);
  if (sessionId === undefined) return nothingOffered;
  const turns = latestTurns(view, { sessionId, most: most + 1, charsMax: contentCharsShownMax + 1 });
  return {
    ids: turns.slice(0, most).map(({ seq }) => `#${seq}`),
    line: remembered(view, (at) => {
      const { seq, createdAt, role, content } = turns[at]!.read();
      return { about: { id: `#${seq}`, age: formatSpan(nowMs - createdAt) }, ...turnLineText(role, content) };
    }),
    more: turns.length > most,
    sessionId: turns.length > 0 ? sessionId : undefined,
  };
}
