/**
 * One object of another store as it should be here: put, replaced or removed so that it is.
 *
 * Always true: nothing is replaced but what was just read, so that two copies into one place do not mix unnoticed.
 */
import { StoreError } from "../base/faults/errors.ts";
import { listed } from "./port/listing.ts";
import type { ListedObject, ObjectStore } from "./port/object-store.ts";
import { sameBytes, surePut } from "./port/sure-put.ts";

/**
 * Has the object hold these bytes. Says whether it had to be written. Throws StoreError when another writer is at work
 * there.
 */
export async function putSame(store: ObjectStore, key: string, bytes: Uint8Array): Promise<boolean> {
  const standing = await store.get(key);
  if (standing && sameBytes(standing.bytes, bytes)) return false;
  const outcome = await surePut(
    store,
    key,
    bytes,
    standing ? { kind: "version", version: standing.version } : { kind: "absent" },
  );
  if (outcome.kind === "lost") throw new StoreError("unavailable", `somebody else writes ${key} too`);
  return true;
}

/** What two listings say of one key; undefined on the side that lacks it. */
export interface Pairing {
  readonly key: string;
  readonly from: ListedObject | undefined;
  readonly to: ListedObject | undefined;
}

/** Two listings of the same prefix side by side, in the order of keys. A page of each is in memory. */
export async function* paired(from: ObjectStore, to: ObjectStore, prefix: string): AsyncGenerator<Pairing, void> {
  const [left, right] = [listed(from, prefix), listed(to, prefix)];
  let [mine, theirs] = [await left.next(), await right.next()];
  while (!mine.done || !theirs.done) {
    const order = mine.done
      ? 1
      : theirs.done
        ? -1
        : Buffer.compare(Buffer.from(mine.value.key), Buffer.from(theirs.value.key));
    const [a, b] = [order <= 0 ? mine.value : undefined, order >= 0 ? theirs.value : undefined];
    const one = (a ?? b) as ListedObject;
    yield { key: one.key, from: a as ListedObject | undefined, to: b as ListedObject | undefined };
    if (order <= 0) mine = await left.next();
    if (order >= 0) theirs = await right.next();
  }
}
