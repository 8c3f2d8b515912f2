/**
 * Key-value: bytes under a namespace and a key, with an optional end of life.
 *
 * Always true: what has expired is invisible to every read from that instant on, whether or not a sweep has removed
 * it; a read never writes. Namespaces are values in rows, so making one costs nothing. Must not know: HTTP, caches.
 */
import { checkCollectionName, checkKvKey } from "../../format/core/names.ts";
import { note } from "../core/change-notes.ts";
import { checkExpected, hashOf, type Expected } from "../core/expected.ts";
import { putSubject, subjectColumn } from "../core/subjects.ts";
import { checkTtl } from "../core/ttl.ts";
import type { Tx, View } from "../core/transaction.ts";

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

/** A value with what is known of it. */
export interface KvValue {
  readonly value: Uint8Array;
  /** Unix milliseconds; absent where it stays. */
  readonly expiresAt?: number;
  /** Whom it is about; absent where that was not said. */
  readonly subject?: string;
}

/** A value to be stored. `ttlSecs` counts from now, 0 expires at once; without it the value stays. */
export interface KvWrite extends Expected {
  readonly key: string;
  readonly value: Uint8Array;
  readonly ttlSecs?: number;
  /** Whom it is about: absent, it keeps what it has; empty, it has none. */
  readonly subject?: string;
}

/** SQL that holds of a row while it lives; its parameter is the time. */
export const lives = "(expires_at IS NULL OR expires_at > ?)";

/** The living value, where the write expects something of it. `place` says which of several keys it is. */
function checkValue(tx: Tx, input: KvKey & Expected, place: string): void {
  if (input.ifMatch === undefined && !input.ifAbsent) return;
  const before = readValue(tx, input);
  const where = place === "" ? "under the key" : `under ${place}key`;
  checkExpected(before && (() => hashOf(before.value)), input, { one: "value", where });
}

/** Stores the bytes under the key, in place of what is there. */
export function kvPut(tx: Tx, input: KvWrite & { readonly ns: string }): Record<string, never> {
  checkCollectionName("ns", input.ns);
  putValue(tx, input, "");
  return {};
}

/** Stores one value; `place`, empty or ending in a dot, says in errors which of several it is. */
export function putValue(tx: Tx, input: KvWrite & { readonly ns: string }, place: string): void {
  checkKvKey(input.key, `${place}key`);
  const { ttlSecs } = input;
  if (ttlSecs !== undefined) checkTtl(`${place}ttl`, ttlSecs);
  checkValue(tx, input, place);
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
  if (input.subject === undefined) return;
  const { row } = tx.connection.get<{ row: number }>(
    "SELECT row FROM __service_kv WHERE ns = ? AND key = ?",
    input.ns,
    input.key,
  )!;
  putSubject(tx, { kind: "key", owner: row }, input.subject, `${place}subject`);
}

/** The bytes as they were stored, or undefined when the key is absent or has expired. */
export function kvGet(view: View, input: KvKey): KvValue | undefined {
  checkCollectionName("ns", input.ns);
  checkKvKey(input.key);
  return readValue(view, input);
}

/** The living value of a key that was checked. */
function readValue(view: View, { ns, key }: KvKey): KvValue | undefined {
  const found = view.connection.get<{ value: Uint8Array; expiresAt: number | null; subject: string | null }>(
    `SELECT value, expires_at AS expiresAt, ${subjectColumn(view, "key", "__service_kv.row")} AS subject
     FROM __service_kv WHERE ns = ? AND key = ? AND ${lives}`,
    ns,
    key,
    view.nowMs,
  );
  if (!found) return undefined;
  const { value, expiresAt, subject } = found;
  return { value, ...(expiresAt !== null && { expiresAt }), ...(subject !== null && { subject }) };
}

/** Removes the key. `deleted` tells whether there was a row, expired or not. */
export function kvDelete(tx: Tx, input: KvKey & Pick<Expected, "ifMatch">): { readonly deleted: boolean } {
  checkCollectionName("ns", input.ns);
  return { deleted: removeValue(tx, input, "") };
}

/** Removes one key, and says whether there was a row; `place` as of `putValue`. */
export function removeValue(tx: Tx, input: KvKey & Pick<Expected, "ifMatch">, place: string): boolean {
  checkKvKey(input.key, `${place}key`);
  checkValue(tx, input, place);
  const { changes } = tx.connection.run("DELETE FROM __service_kv WHERE ns = ? AND key = ?", input.ns, input.key);
  if (changes > 0) note(tx, "kv", "deleted", input.ns, input.key);
  return changes > 0;
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
