/**
 * What a memory was derived from, in the JSON of a record.
 *
 * Always true: the text of links that were read is that which the database gives of them. Must not know: whether what a
 * link names is there.
 */
import { invalid } from "../../base/faults/errors.ts";
import { getField, type JsonObject } from "../core/docs-json.ts";
import { checkLink, linksMax, type MemoryLink } from "../standing/links.ts";
import type { Fields } from "./record.ts";

const names = ["memory_id", "session_id", "seq"] as const;

/** The links as their column gives them (standing/links). */
export function formLinks(links: readonly MemoryLink[]): string {
  return JSON.stringify(
    links.map(({ memoryId, sessionId, seq }) =>
      memoryId === undefined ? { session_id: sessionId, seq } : { memory_id: memoryId },
    ),
  );
}

/** The links of a record. Throws invalid_request. */
export function readLinks(fields: Fields): readonly MemoryLink[] {
  return (fields.maybeObjects("derived_from", linksMax) ?? []).map(readLink);
}

function readLink(link: JsonObject, at: number): MemoryLink {
  const field = `derived_from[${at}]`;
  const unknown = Object.keys(link).find((name) => !names.some((known) => known === name));
  if (unknown !== undefined) throw invalid(`${field} has no field ${JSON.stringify(unknown.slice(0, 64))}`);
  const [memoryId, sessionId, seq] = names.map((name) => getField(link, name));
  if (memoryId !== undefined && typeof memoryId !== "string") throw invalid(`${field}.memory_id must be a string`);
  if (sessionId !== undefined && typeof sessionId !== "string") throw invalid(`${field}.session_id must be a string`);
  if (seq !== undefined && typeof seq !== "number") throw invalid(`${field}.seq must be the number of a turn, from 1`);
  const found = {
    ...(memoryId !== undefined && { memoryId }),
    ...(sessionId !== undefined && { sessionId }),
    ...(seq !== undefined && { seq }),
  };
  checkLink(field, found);
  return found;
}
