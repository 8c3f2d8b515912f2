/**
 * Many keys of a namespace at once: got from one state, put or deleted in one transaction.
 *
 * Always true: a write is carried out whole or not at all, and an error names the item that is at fault; no key is
 * named twice in one call, so that no condition depends on an item before it. Must not know: how a value is stored.
 */
import { invalid } from "../../base/faults/errors.ts";
import { limits } from "../../base/limits.ts";
import { checkCollectionName, checkKvKey } from "../../format/core/names.ts";
import type { Expected } from "../core/expected.ts";
import type { Tx, View } from "../core/transaction.ts";
import { kvRowColumns, readEntries, type KvEntry, type KvRow } from "./kv-entries.ts";
import { lives, putValue, removeValue, type KvWrite } from "./kv.ts";

function checkKeys(field: string, keys: readonly string[], nameOf: (at: number) => string): void {
  if (keys.length === 0 || keys.length > limits.kvBatchMax)
    throw invalid(`${field} must hold 1 to ${limits.kvBatchMax} items`);
  const seen = new Set<string>();
  for (const [at, key] of keys.entries()) {
    checkKvKey(key, nameOf(at));
    if (seen.size === seen.add(key).size) throw invalid(`${nameOf(at)} names a key that an item before it has named`);
  }
}

function place(at: number): string {
  return `items[${at}].`;
}

/**
 * The living ones of these keys with their values, in the order asked for. `remaining` are those that there was no room
 * for: to be asked for again.
 */
export function kvGetMany(
  view: View,
  { ns, keys }: { readonly ns: string; readonly keys: readonly string[] },
): { readonly entries: readonly KvEntry[]; readonly remaining: readonly string[] } {
  checkCollectionName("ns", ns);
  checkKeys("keys", keys, (at) => `keys[${at}]`);
  const columns = kvRowColumns(view);
  const rows = keys.flatMap((key) => {
    const row = view.connection.get<KvRow>(
      `SELECT ${columns} FROM __service_kv WHERE ns = ? AND key = ? AND ${lives}`,
      ns,
      key,
      view.nowMs,
    );
    return row ? [row] : [];
  });
  const entries = readEntries(view, rows, true);
  return { entries, remaining: rows.slice(entries.length).map(({ key }) => key) };
}

/** Stores all of the values, each on its own condition, or none. */
export function kvPutMany(
  tx: Tx,
  { ns, items }: { readonly ns: string; readonly items: readonly KvWrite[] },
): Record<string, never> {
  checkCollectionName("ns", ns);
  const keys = items.map(({ key }) => key);
  checkKeys("items", keys, (at) => `${place(at)}key`);
  for (const [at, item] of items.entries()) putValue(tx, { ...item, ns }, place(at));
  return {};
}

/** A key to be deleted. */
export interface KvDeletion extends Pick<Expected, "ifMatch"> {
  readonly key: string;
}

/** Deletes all of the keys, each on its own condition, or none; an absent one is no error. */
export function kvDeleteMany(
  tx: Tx,
  { ns, items }: { readonly ns: string; readonly items: readonly KvDeletion[] },
): { readonly deleted: number } {
  checkCollectionName("ns", ns);
  const keys = items.map(({ key }) => key);
  checkKeys("items", keys, (at) => `${place(at)}key`);
  return { deleted: items.filter((item, at) => removeValue(tx, { ...item, ns }, place(at))).length };
}
