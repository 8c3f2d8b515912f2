/**
 * What an erasure leaves of a memory that an import brings: nothing, all of it, or the memory without what it tells of
 * others that were erased.
 *
 * Always true: it is what the erasure itself would have left of the memory (model/erasure).
 */
import type { View } from "../core/transaction.ts";
import type { MemoryLink } from "../standing/links.ts";
import { erasedMemoryId } from "../standing/states.ts";
import { type ErasedNames, isAnySubjectErased, isErasedSession, isErasedSubject, isErasedTurn } from "./erased.ts";

/** What a memory is known by, and whom it names. */
export interface Mentions {
  readonly id: string;
  readonly type: string;
  readonly createdAt: number;
  readonly sessionId: string | null;
  readonly source: string | null;
  readonly subject: string | null;
  readonly supersededBy: string | null;
  /** Each session and source that it came from, absent ones as empty text. */
  readonly provenance: readonly (readonly [string, string])[];
  readonly links: readonly MemoryLink[];
}

/** Whether the memory was erased. */
export function isErasedMemory(
  { id, type, createdAt, sessionId, subject, provenance }: Mentions,
  erased: ErasedNames,
): boolean {
  if (erased.memoryIds.includes(id) || isErasedSubject(erased, subject ?? undefined, createdAt)) return true;
  if (sessionId === null || !isErasedSession(erased, sessionId, createdAt)) return false;
  // A task is one session's alone; anything else another session may have said too.
  return type === "task" || provenance.every(([session]) => isErasedSession(erased, session, createdAt));
}

/** The memory without sessions, links and a superseder that were erased; itself where it names none. */
export function withoutErasedMentions<Memory extends Mentions>(
  view: View,
  memory: Memory,
  erased: ErasedNames,
): Memory {
  const { createdAt, sessionId, supersededBy } = memory;
  const isGone = (session: string): boolean => isErasedSession(erased, session, createdAt);
  const provenance = memory.provenance.filter(([session]) => !isGone(session));
  const links = memory.links.filter((link) => !isErasedLink(view, link, erased, createdAt));
  const isSupersederGone = supersededBy !== null && erased.memoryIds.includes(supersededBy);
  const isWhole = provenance.length === memory.provenance.length && links.length === memory.links.length;
  if (isWhole && !isSupersederGone) return memory;
  const [session = "", source = ""] = provenance[0] ?? [];
  return {
    ...memory,
    ...(sessionId !== null &&
      isGone(sessionId) && { sessionId: session === "" ? null : session, source: source === "" ? null : source }),
    ...(isSupersederGone && { supersededBy: erasedMemoryId }),
    ...{ provenance, links },
  };
}

/** Of turns of a subject nobody knows the names any more: then a link stays only where its turn is there. */
function isErasedLink(
  view: View,
  { memoryId, sessionId = "", seq = 0 }: MemoryLink,
  erased: ErasedNames,
  atMs: number,
): boolean {
  if (memoryId !== undefined) return erased.memoryIds.includes(memoryId);
  if (isErasedSession(erased, sessionId, atMs) || isErasedTurn(erased, sessionId, seq, atMs)) return true;
  const sql = "SELECT 1 FROM __service_turn WHERE session_id = ? AND seq = ?";
  return isAnySubjectErased(erased, atMs) && view.connection.get(sql, sessionId, seq) === undefined;
}
