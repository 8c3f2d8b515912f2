/**
 * Which of a database's erasures the records of an import may speak of.
 *
 * Always true: every text and number of a record counts as a part of a name, and every folder above a path, so that
 * nothing that was erased is missed; what is found besides is judged where the record is written. Must not know:
 * coupons, which kinds of records there are.
 */
import type { ErasedNames } from "../../model/transfer/erased.ts";
import { readRecord } from "../../model/transfer/transfer.ts";
import type { NamePart } from "../erasure/erased-book.ts";
import type { KnownErasures } from "../erasure/erased-books.ts";

/** A path is no longer. */
const pathCharsMax = 1_024;

/** Of the names those that the records may speak of. Throws invalid_request, which names the line that is no record. */
export function namesIn(
  records: readonly { readonly line: number; readonly text: string }[],
  erasures: KnownErasures,
): ErasedNames {
  if (erasures.isEmpty) return { memoryIds: [], targets: [] };
  return erasures.find(records.map(({ line, text }) => partsOf(readRecord(line, text).parsed)));
}

function partsOf(record: unknown): ReadonlySet<NamePart> {
  const parts = new Set<NamePart>();
  const left = [record];
  while (left.length > 0) {
    const value = left.pop();
    if (typeof value === "number") parts.add(value);
    else if (typeof value === "string") addText(parts, value);
    else if (Array.isArray(value)) for (const one of value as unknown[]) left.push(one);
    else if (typeof value === "object" && value !== null && !ArrayBuffer.isView(value))
      for (const one of Object.values(value)) left.push(one);
  }
  return parts;
}

function addText(parts: Set<NamePart>, text: string): void {
  parts.add(text);
  if (text.length > pathCharsMax) return;
  for (let at = text.indexOf("/"); at >= 0; at = text.indexOf("/", at + 1)) parts.add(text.slice(0, at));
}
