/**
 * What the whole store says of itself: `format.json`, the version of its layout.
 *
 * | member     | type    | meaning                                                                        |
 * |------------|---------|--------------------------------------------------------------------------------|
 * | v          | integer | form of this object, 1                                                         |
 * | layout     | integer | version of the keys, and of the objects that say none of their own             |
 * | written_by | string  | the build that first wrote here, for people                                    |
 *
 * Always true: a process opens the store for writing only if it reads and writes this layout; a store without the
 * object is of layout 1, as earlier builds left none. Must not know: what lies in the store.
 */
import { encodeUtf8, decodeUtf8 } from "../base/bytes.ts";
import { StoreError } from "../base/faults/errors.ts";
import { storeFormatKey } from "../format/keys/object-keys.ts";
import { formats, requireVersion } from "../format/core/versions.ts";
import type { ObjectStore } from "./port/object-store.ts";
import { surePut } from "./port/sure-put.ts";

/**
 * Refuses a store whose layout this build does not read: NewerFormat, or StoreError("corrupt") when the object is none
 * of ours.
 */
export async function requireStoreFormat(store: ObjectStore): Promise<void> {
  const stored = await store.get(storeFormatKey);
  if (stored) requireVersion(formats.store, layoutIn(stored.bytes));
}

/** As above, and writes the object into a store that has none. `build` names this build for people. */
export async function claimStoreFormat(store: ObjectStore, build: string): Promise<void> {
  const stored = await store.get(storeFormatKey);
  if (stored) return requireVersion(formats.store, layoutIn(stored.bytes));
  const bytes = encodeUtf8(JSON.stringify({ v: 1, layout: Math.max(...formats.store.writes), written_by: build }));
  const outcome = await surePut(store, storeFormatKey, bytes, { kind: "absent" });
  if (outcome.kind === "lost" && outcome.current) requireVersion(formats.store, layoutIn(outcome.current.bytes));
}

function layoutIn(bytes: Uint8Array): unknown {
  try {
    return (JSON.parse(decodeUtf8(bytes) ?? "") as { readonly layout?: unknown } | null)?.layout;
  } catch (error) {
    throw new StoreError("corrupt", `the object ${storeFormatKey} is not JSON`, { cause: error });
  }
}
