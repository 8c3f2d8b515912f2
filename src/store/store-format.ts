/**
 * What the whole store says of itself: `format.json`, the version of its layout.
 *
 * | member     | type    | meaning                                                                        |
 * |------------|---------|--------------------------------------------------------------------------------|
 * | v          | integer | form of this object, 1                                                         |
 * | layout     | integer | version of the keys, of the objects that say none of their own, and of what is |
 * |            |         | written anew (`findWrittenVersions`)                                              |
 * | written_by | string  | the build that first wrote here, for people                                    |
 *
 * Always true: a process opens the store for writing only if it reads and writes this layout; a store without the
 * object that holds anything else is of layout 1, as earlier builds left none; the layout of a store never falls. Must
 * not know: what lies in the store.
 */
import { encodeUtf8, decodeUtf8 } from "../base/bytes.ts";
import { StoreError } from "../base/faults/errors.ts";
import { storeFormatKey } from "../format/keys/object-keys.ts";
import { formats, newestLayout, requireVersion } from "../format/core/versions.ts";
import type { ObjectStore, StoredObject } from "./port/object-store.ts";
import { surePut } from "./port/sure-put.ts";

/** The layout of stores from before the object. */
const firstLayout = 1;

/** Where nodes that start try out what a server does: nothing that is kept. */
const probePrefix = "probe/";

/**
 * Refuses a store whose layout this build does not read: NewerFormat, or StoreError("corrupt") when the object is none
 * of ours.
 */
export async function requireStoreFormat(store: ObjectStore): Promise<void> {
  const stored = await store.get(storeFormatKey);
  if (stored) decodeLayout(stored);
}

/**
 * The layout of the store; as above, and writes the object into a store that has none: an empty one gets the newest
 * layout. `build` names this build for people.
 */
export async function claimStoreFormat(store: ObjectStore, build: string): Promise<number> {
  const stored = await store.get(storeFormatKey);
  if (stored) return decodeLayout(stored);
  const layout = (await isUnused(store)) ? newestLayout : firstLayout;
  const outcome = await surePut(store, storeFormatKey, encodeFormat(layout, build), { kind: "absent" });
  return outcome.kind === "lost" && outcome.current ? decodeLayout(outcome.current) : layout;
}

/**
 * Gives the store the newest layout, and says which one it had. Each node goes by it from its next start on; builds
 * that do not read it refuse the store. Throws StoreError: "misconfigured" for a place that no node has written to,
 * "unavailable" when another process changed the object meanwhile.
 */
export async function raiseStoreFormat(store: ObjectStore, build: string): Promise<number> {
  const stored = await store.get(storeFormatKey);
  if (!stored) {
    if (await isUnused(store))
      throw new StoreError("misconfigured", "the store is empty: it gets the newest layout from the first node");
    await claimStoreFormat(store, build);
    return raiseStoreFormat(store, build);
  }
  const layout = decodeLayout(stored);
  if (layout === newestLayout) return layout;
  const condition = { kind: "version", version: stored.version } as const;
  const outcome = await surePut(store, storeFormatKey, encodeFormat(newestLayout, build), condition);
  if (outcome.kind === "lost")
    throw new StoreError("unavailable", `${storeFormatKey} was changed meanwhile; try again`);
  return layout;
}

/** Whether nothing was ever kept here. */
async function isUnused(store: ObjectStore): Promise<boolean> {
  for (let after: string | undefined; ;) {
    const { objects, next } = await store.list("", { limit: 100, ...(after !== undefined && { after }) });
    if (objects.some(({ key }) => !key.startsWith(probePrefix))) return false;
    if (next === undefined) return true;
    after = next;
  }
}

function encodeFormat(layout: number, build: string): Uint8Array {
  return encodeUtf8(JSON.stringify({ v: 1, layout, written_by: build }));
}

function decodeLayout({ bytes }: Pick<StoredObject, "bytes">): number {
  let layout: unknown;
  try {
    layout = (JSON.parse(decodeUtf8(bytes) ?? "") as { readonly layout?: unknown } | null)?.layout;
  } catch (error) {
    throw new StoreError("corrupt", `the object ${storeFormatKey} is not JSON`, { cause: error });
  }
  requireVersion(formats.store, layout);
  return layout;
}
