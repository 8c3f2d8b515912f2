/**
 * Where memories of an ingest are derived from: whether it is there, and by which number a turn is known.
 *
 * Always true: what is stored names a memory or a turn that was there when it was stored. Must not know: how memories
 * are taken in.
 */
import { invalid } from "../../base/faults/errors.ts";
import { checkSessionId, checkText } from "../../format/core/names.ts";
import type { Tx, View } from "../core/transaction.ts";
import { ingest, type IngestInput, type IngestResult, type MemoryInput } from "../memory/memory-ingest.ts";
import { checkLink, linksMax, type MemoryLink } from "../standing/links.ts";
import { findTurn, turnIdBytesMax } from "../transcript/turn-details.ts";

/** What a memory was derived from, as it is said: a turn by its number or by its id. */
export interface LinkInput extends MemoryLink {
  readonly turnId?: string;
}

/** Refuses links that no state of the database could have; `name` is the memory's place. */
export function checkLinks(name: string, links: readonly LinkInput[] | undefined): void {
  if (links === undefined) return;
  if (links.length > linksMax)
    throw invalid(`${name}.derived_from has ${links.length} items; at most ${linksMax} are allowed`);
  for (const [at, { turnId, ...link }] of links.entries()) {
    const field = `${name}.derived_from[${at}]`;
    if (turnId === undefined) checkLink(field, link);
    else {
      if (link.memoryId !== undefined || link.sessionId === undefined || link.seq !== undefined)
        throw invalid(`${field}.turn_id goes with a session_id, in the place of seq`);
      checkSessionId(link.sessionId);
      checkText(`${field}.turn_id`, turnId, turnIdBytesMax);
    }
  }
}

/** A memory of an ingest, whose links may name turns by their ids. */
export type DerivedInput = Omit<MemoryInput, "derivedFrom"> & { readonly derivedFrom?: readonly LinkInput[] };

/** Takes in memories as `ingest` does, all or none; refuses those that were derived from what is not there. */
export function ingestDerived(
  tx: Tx,
  input: Omit<IngestInput, "memories"> & { readonly memories: readonly DerivedInput[] },
): { results: IngestResult[] } {
  const memories = input.memories.map(({ derivedFrom, ...memory }, at) => ({
    ...memory,
    ...(derivedFrom && {
      derivedFrom: derivedFrom.map((link, place) => resolve(tx, link, `memories[${at}].derived_from[${place}]`)),
    }),
  }));
  return ingest(tx, { ...input, memories });
}

function resolve(view: View, { turnId, ...link }: LinkInput, field: string): MemoryLink {
  const { memoryId, sessionId } = link;
  if (memoryId !== undefined) {
    if (view.connection.get("SELECT 1 FROM __service_memory WHERE id = ?", memoryId) === undefined)
      throw invalid(`${field} names no memory that is there`);
    return link;
  }
  const row = turnId === undefined ? undefined : findTurn(view, sessionId!, turnId);
  const turn =
    turnId === undefined
      ? view.connection.get<{ seq: number }>(
          "SELECT seq FROM __service_turn WHERE session_id = ? AND seq = ?",
          sessionId!,
          link.seq!,
        )
      : view.connection.get<{ seq: number }>("SELECT seq FROM __service_turn WHERE row = ?", row ?? null);
  if (!turn) throw invalid(`${field} names no turn that is there`);
  return { sessionId: sessionId!, seq: turn.seq };
}
