/**
 * Where an export or an import goes on, as a text that clients give back.
 *
 * Always true: what is read has the form of what was written; that it was not altered is not asked, as it gives nobody
 * anything that the call itself would not.
 */
import { invalid } from "../../base/faults/errors.ts";

const cursorCharsMax = 16 * 1024;

/** The text of a place. */
export function writeCursor(place: object): string {
  return Buffer.from(JSON.stringify({ v: 1, ...place }), "utf8").toString("base64url");
}

/** Reads a text of `writeCursor`; `isPlace` judges its form. Throws invalid_request. */
export function readCursor<Place>(text: string, isPlace: (value: Readonly<Record<string, unknown>>) => boolean): Place {
  try {
    const value: unknown =
      text.length > cursorCharsMax ? undefined : JSON.parse(Buffer.from(text, "base64url").toString());
    if (typeof value === "object" && value !== null && (value as { v?: unknown }).v === 1)
      if (isPlace(value as Record<string, unknown>)) return value as Place;
  } catch {
    // Below: it is no cursor.
  }
  throw invalid("cursor must be one that the call before has given");
}

/** Whether the value is an object of counts. */
export function isCounts(value: unknown): value is Readonly<Record<string, number>> {
  if (typeof value !== "object" || value === null) return false;
  return Object.values(value).every((count) => Number.isSafeInteger(count) && (count as number) >= 0);
}

/** Whether the value is a hash in hexadecimal. */
export function isHash(value: unknown): value is string {
  return typeof value === "string" && /^[0-9a-f]{64}$/.test(value);
}
