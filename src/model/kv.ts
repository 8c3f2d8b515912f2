/**
 * Key-value: bytes under a namespace and a key, with an optional end of life.
 *
 * Always true: what has expired is invisible to every read from that instant on, whether or not a sweep has removed
 * it; a read never writes. Namespaces are values in rows, so making one costs nothing. Must not know: HTTP, caches.
 */
import { invalid } from "../base/faults/errors.ts";
import { encodeUtf8, isWellFormed, utf8Length, decodeUtf8 } from "../base/bytes.ts";
import { limits } from "../base/limits.ts";
import { checkCollectionName, checkKvKey } from "../format/core/names.ts";
import { note } from "./core/change-notes.ts";
import { checkExpected, hashOf, type Expected } from "./core/expected.ts";
import { checkTtl } from "./core/ttl.ts";
import type { Tx, View } from "./core/transaction.ts";

const kvListMax = 1000;

/** The table. `value` comes last, so that a listing never walks through the overflow pages of large values. */
export const kvSchema = `
CREATE TABLE __service_kv (
  row INTEGER PRIMARY KEY,
  ns TEXT NOT NULL,
  key TEXT NOT NULL,
  expires_at INTEGER,
  value BLOB NOT NULL,
  UNIQUE (ns, key)
) STRICT;
CREATE INDEX __service_kv_expiry ON __service_kv (expires_at) WHERE expires_at IS NOT NULL;
`;

export interface KvKey {
  readonly ns: string;
  readonly key: string;
}

function checkKey(input: KvKey): void {
  checkCollectionName("ns", input.ns);
  checkKvKey(input.key);
}

/** The living value, where the write expects something of it. */
function checkValue(tx: Tx, input: KvKey & Expected): void {
  if (input.ifMatch === undefined && !input.ifAbsent) return;
  const before = kvGet(tx, input);
  checkExpected(before && (() => hashOf(before.value)), input, { one: "value", where: "under the key" });
}

/** Stores the bytes under the key. `ttlSecs` counts from now, 0 expires at once; without it the value stays. */
export function kvPut(
  tx: Tx,
  input: KvKey & Expected & { readonly value: Uint8Array; readonly ttlSecs?: number },
): Record<string, never> {
  checkKey(input);
  const { ttlSecs } = input;
  if (ttlSecs !== undefined) checkTtl("ttl", ttlSecs);
  checkValue(tx, input);
  // The same value for the same time changes nothing, and so costs no transaction.
  const { changes } = tx.connection.run(
    `INSERT INTO __service_kv (ns, key, expires_at, value) VALUES (?, ?, ?, ?)
     ON CONFLICT (ns, key) DO UPDATE SET expires_at = excluded.expires_at, value = excluded.value
     WHERE expires_at IS NOT excluded.expires_at OR value <> excluded.value`,
    input.ns,
    input.key,
    ttlSecs === undefined ? null : tx.nowMs + ttlSecs * 1000,
    input.value,
  );
  if (changes > 0) note(tx, "kv", "put", input.ns, input.key);
  return {};
}

/** The bytes as they were stored, or undefined when the key is absent or has expired. */
export function kvGet(view: View, input: KvKey): { readonly value: Uint8Array } | undefined {
  checkKey(input);
  return view.connection.get<{ value: Uint8Array }>(
    "SELECT value FROM __service_kv WHERE ns = ? AND key = ? AND (expires_at IS NULL OR expires_at > ?)",
    input.ns,
    input.key,
    view.nowMs,
  );
}

/** Removes the key. `deleted` tells whether there was a row, expired or not. */
export function kvDelete(tx: Tx, input: KvKey & Pick<Expected, "ifMatch">): { readonly deleted: boolean } {
  checkKey(input);
  checkValue(tx, input);
  const { changes } = tx.connection.run("DELETE FROM __service_kv WHERE ns = ? AND key = ?", input.ns, input.key);
  if (changes > 0) note(tx, "kv", "deleted", input.ns, input.key);
  return { deleted: changes > 0 };
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

/**
 * The living keys of a namespace in bytewise order. `limit` above the most allowed is cut to it; `nextCursor` is there
 * when more follow.
 */
export function kvList(
  view: View,
  input: { readonly ns: string; readonly prefix?: string; readonly limit?: number; readonly cursor?: string },
): { readonly keys: readonly string[]; readonly nextCursor?: string } {
  checkCollectionName("ns", input.ns);
  const prefix = input.prefix ?? "";
  if (!isWellFormed(prefix) || utf8Length(prefix) > limits.kvKeyBytesMax)
    throw invalid(`prefix must be at most ${limits.kvKeyBytesMax} bytes of valid UTF-8 text`);
  const limit = input.limit ?? limits.kvListDefault;
  if (!Number.isInteger(limit) || limit < 1)
    throw invalid(`limit must be a whole number from 1; at most ${kvListMax} keys are on a page`);
  const end = prefixEnd(prefix);
  const page = Math.min(limit, kvListMax);
  // One lower bound, not two: SQLite would enter the index at the first and filter by the other.
  const [from, start] =
    input.cursor === undefined ? ["key >= ?", prefix] : ["key > ?", decodeCursor(input.cursor, prefix)];
  const rows = view.connection.all<{ key: string }>(
    `SELECT key FROM __service_kv WHERE ns = ? AND ${from}${end === undefined ? "" : " AND key < ?"}
     AND (expires_at IS NULL OR expires_at > ?) ORDER BY key LIMIT ?`,
    input.ns,
    start,
    ...(end === undefined ? [] : [end]),
    view.nowMs,
    page + 1,
  );
  const keys = rows.slice(0, page).map((row) => row.key);
  return rows.length > page ? { keys, nextCursor: cursorAfter(keys.at(-1)!) } : { keys };
}

/** Removes at most `rowsMax` rows that have expired, the longest expired first. */
export function kvSweep(tx: Tx, input: { readonly rowsMax: number }): { readonly removed: number } {
  const removed = tx.connection.all<KvKey>(
    `DELETE FROM __service_kv WHERE row IN (
       SELECT row FROM __service_kv WHERE expires_at IS NOT NULL AND expires_at <= ? ORDER BY expires_at, row LIMIT ?)
     RETURNING ns, key`,
    tx.nowMs,
    input.rowsMax,
  );
  for (const { ns, key } of removed) note(tx, "kv", "expired", ns, key);
  return { removed: removed.length };
}
