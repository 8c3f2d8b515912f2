/**
 * Listings of a namespace's keys: by prefix or between two keys, in both directions, page by page, with values where
 * they are asked for.
 *
 * Always true: keys are in the order of their UTF-8 bytes; a listing page by page gives every key that was there all
 * the time once. Must not know: what a value is.
 */
import { invalid } from "../../base/faults/errors.ts";
import { encodeUtf8, isWellFormed, utf8Length, decodeUtf8 } from "../../base/bytes.ts";
import { limits } from "../../base/limits.ts";
import { checkCollectionName } from "../../format/core/names.ts";
import type { View } from "../core/transaction.ts";
import { kvRowColumns, readEntries, type KvEntry, type KvRow } from "./kv-entries.ts";
import { lives } from "./kv.ts";

const kvListMax = 1000;

/** What is shown beside the keys. */
const shownParts = ["details", "values"] as const;

interface Listing {
  readonly ns: string;
  readonly prefix?: string;
  /** From this key on, itself included. */
  readonly start?: string;
  /** Up to this key, itself left out. */
  readonly end?: string;
  /** `asc` or `desc`. */
  readonly order?: string;
  readonly limit?: number;
  readonly cursor?: string;
  /** `details` or `values`; by default keys alone. */
  readonly include?: string;
}

/**
 * A page; `entries` has the same keys where more than keys is asked for, and `nextCursor` is there when more follow.
 */
interface Page {
  readonly keys: readonly string[];
  readonly entries?: readonly KvEntry[];
  readonly nextCursor?: string;
}

/**
 * The least text that sorts after every text with this prefix, or undefined when there is none. SQLite compares UTF-8
 * bytes, which is the order of code points; so the last code point that has a successor is raised, surrogates skipped.
 */
function prefixEnd(prefix: string): string | undefined {
  const points = Array.from(prefix, (character) => character.codePointAt(0)!);
  while (points.at(-1) === 0x10ffff) points.pop();
  const last = points.pop();
  if (last === undefined) return undefined;
  return String.fromCodePoint(...points, last === 0xd7ff ? 0xe000 : last + 1);
}

/** Where a listing goes on: opaque to clients. */
function cursorAfter(key: string): string {
  return Buffer.from(encodeUtf8(key)).toString("base64url");
}

function decodeCursor(cursor: string, prefix: string): string {
  const bytes = Buffer.from(cursor, "base64url");
  const key = decodeUtf8(bytes);
  if (key === undefined || bytes.toString("base64url") !== cursor || !key.startsWith(prefix)) {
    throw invalid("cursor must be one that a listing with this prefix gave");
  }
  return key;
}

function checkBound(field: string, key: string | undefined): void {
  if (key !== undefined && (!isWellFormed(key) || utf8Length(key) > limits.kvKeyBytesMax))
    throw invalid(`${field} must be at most ${limits.kvKeyBytesMax} bytes of valid UTF-8 text`);
}

function compareKeys(left: string, right: string): number {
  return Buffer.compare(encodeUtf8(left), encodeUtf8(right));
}

/** One end of the keys that are wanted: SQLite enters its index at one bound, and would filter by a second. */
interface Bound {
  readonly key: string;
  readonly isIncluded: boolean;
}

/** The narrowest of the bounds; `sign` is 1 where the higher is the narrower. */
function narrowest(bounds: readonly (Bound | undefined)[], sign: 1 | -1): Bound | undefined {
  return bounds.reduce((left, right) => {
    if (!left || !right) return left ?? right;
    const order = sign * compareKeys(left.key, right.key);
    if (order === 0) return left.isIncluded ? right : left;
    return order > 0 ? left : right;
  }, undefined);
}

function including(key: string | undefined): Bound | undefined {
  return key === undefined ? undefined : { key, isIncluded: true };
}

function excluding(key: string | undefined): Bound | undefined {
  return key === undefined ? undefined : { key, isIncluded: false };
}

/** The living keys of a namespace. `limit` above the most allowed is cut to it. */
export function kvList(view: View, input: Listing): Page {
  const { ns, prefix = "", start, end, order = "asc", cursor, include } = input;
  checkCollectionName("ns", ns);
  checkBound("prefix", prefix);
  checkBound("start", start);
  checkBound("end", end);
  const limit = input.limit ?? limits.kvListDefault;
  if (!Number.isInteger(limit) || limit < 1)
    throw invalid(`limit must be a whole number from 1; at most ${kvListMax} keys are on a page`);
  if (order !== "asc" && order !== "desc") throw invalid("order must be asc or desc");
  if (include !== undefined && !(shownParts as readonly string[]).includes(include))
    throw invalid(`include must be ${shownParts.join(" or ")}`);
  const page = Math.min(limit, kvListMax);
  const after = cursor === undefined ? undefined : excluding(decodeCursor(cursor, prefix));
  const isUp = order === "asc";
  const from = narrowest([including(prefix), including(start), isUp ? after : undefined], 1)!;
  const to = narrowest([excluding(prefixEnd(prefix)), excluding(end), isUp ? undefined : after], -1);
  const rows = view.connection.all<KvRow>(
    `SELECT ${kvRowColumns(view)} FROM __service_kv WHERE ns = ? AND key ${from.isIncluded ? ">=" : ">"} ?
     ${to ? "AND key < ?" : ""} AND ${lives} ORDER BY key ${isUp ? "ASC" : "DESC"} LIMIT ?`,
    ns,
    from.key,
    ...(to ? [to.key] : []),
    view.nowMs,
    page + 1,
  );
  const entries = readEntries(view, rows.slice(0, page), include === "values");
  const keys = entries.map(({ key }) => key);
  return {
    keys,
    ...(include !== undefined && { entries }),
    ...(rows.length > entries.length && { nextCursor: cursorAfter(keys.at(-1)!) }),
  };
}
