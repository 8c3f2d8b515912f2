/**
 * One database from one store into another, consistent at one manifest of each branch, while nodes write to the first.
 *
 * The manifests decide: catalog and manifests are read, everything that they refer to is copied and read back, and only
 * then the manifests and the catalog are put in the other store. If an object has been packed and collected meanwhile,
 * the newer manifest that no longer needs it is read, and what is there already stays. Nothing in the first store
 * changes. Always true: whatever manifests in the other store refer to is there at every moment.
 */
import { StoreError } from "../../base/faults/errors.ts";
import { limits } from "../../base/limits.ts";
import type { Semaphore } from "../../base/collections/semaphore.ts";
import { decodeCatalog } from "../../format/history/catalog.ts";
import type { Manifest } from "../../format/history/manifest.ts";
import { decodeHistory } from "../../format/history/history.ts";
import { catalogKey, databasePrefix, manifestKey, historyKey } from "../../format/keys/object-keys.ts";
import type { Compression } from "../../format/core/compression.ts";
import { listed } from "../../store/port/listing.ts";
import { putSame } from "../../store/mirror.ts";
import type { ObjectStore } from "../../store/port/object-store.ts";
import { sameBytes } from "../../store/port/sure-put.ts";
import { isWritten } from "../history/catalogs.ts";
import { ownManifest } from "../rescue/inventory.ts";

export interface DatabaseCopyParts {
  readonly from: ObjectStore;
  readonly to: ObjectStore;
  readonly press: Compression;
  /** Of all that are copied at once, whatever their database. */
  readonly permits: Semaphore;
  /** What the other store is given for a manifest. */
  readonly manifestFor: (manifest: Manifest, bytes: Uint8Array) => Uint8Array;
}

/** The outcome for a database. */
interface CopiedDatabase {
  readonly kind: "copied";
  readonly branchIds: readonly string[];
  /** Immutable objects that the branches refer to, and how much of that was copied now. */
  readonly objects: number;
  readonly bytes: number;
  readonly copied: number;
  readonly copiedBytes: number;
}

export type DatabaseOutcome =
  | CopiedDatabase
  /** Nothing of it was ever written. */
  | { readonly kind: "unwritten" }
  /** It is being removed. */
  | { readonly kind: "deleted" }
  /** It does not fit together, and no newer manifest repairs that. */
  | { readonly kind: "damaged"; readonly why: string };

/** The database as one look saw it. */
interface Seen {
  readonly catalogBytes: Uint8Array;
  readonly manifests: readonly { readonly manifest: Manifest; readonly bytes: Uint8Array }[];
  /** Immutable objects by their key below the database's folder. */
  readonly needed: ReadonlyMap<string, { readonly bytes: number; readonly sha256: Uint8Array }>;
}

/** Something is missing or rotten that the look of a moment ago refers to. */
class Gone extends Error {}

/** Copies the database. Throws StoreError when a store does not answer. */
export async function copyDatabase(parts: DatabaseCopyParts, uuid: string): Promise<DatabaseOutcome> {
  let [copied, copiedBytes] = [0, 0];
  const count = (bytes: number): void => {
    copied++;
    copiedBytes += bytes;
  };
  let before: string | undefined;
  for (let round = 1; ; round++) {
    try {
      const seen = await look(parts.from, uuid);
      if ("kind" in seen) return seen;
      await copyNeeded(parts, uuid, seen, count);
      await publish(parts, uuid, seen);
      const bytes = [...seen.needed.values()].reduce((sum, object) => sum + object.bytes, 0);
      return {
        kind: "copied",
        branchIds: seen.manifests.map(({ manifest }) => manifest.branchId),
        objects: seen.needed.size,
        bytes,
        copied,
        copiedBytes,
      };
    } catch (error) {
      if (!(error instanceof Gone)) throw error;
      // The same answer twice: there is no newer manifest that does without.
      if (error.message === before || round >= limits.backupRoundsMax) return { kind: "damaged", why: error.message };
      before = error.message;
    }
  }
}

async function look(from: ObjectStore, uuid: string): Promise<Seen | Exclude<DatabaseOutcome, CopiedDatabase>> {
  const stored = await from.get(catalogKey(uuid));
  if (!stored) {
    const some = await from.list(databasePrefix(uuid), { limit: 1 });
    if (some.objects.length === 0) return { kind: "unwritten" };
    throw new Gone("its catalog is missing");
  }
  const catalog = decoded("its catalog", () => decodeCatalog(stored.bytes));
  if (catalog.deletedAtMs !== undefined) return { kind: "deleted" };
  const manifests: { manifest: Manifest; bytes: Uint8Array }[] = [];
  const needed = new Map<string, { readonly bytes: number; readonly sha256: Uint8Array }>();
  for (const { id, name } of catalog.branches) {
    const found = await from.get(manifestKey(uuid, id));
    if (!found) {
      // Its first write may be on its way, objects before the manifest.
      if (!isWritten(catalog)) continue;
      throw new Gone(`the manifest of branch ${name} is missing`);
    }
    const manifest = decoded(`the manifest of branch ${name}`, () => ownManifest(found.bytes, uuid, id));
    manifests.push({ manifest, bytes: found.bytes });
    await addNeeded(from, manifest, needed);
  }
  return { catalogBytes: stored.bytes, manifests, needed };
}

async function addNeeded(
  from: ObjectStore,
  manifest: Manifest,
  needed: Map<string, { readonly bytes: number; readonly sha256: Uint8Array }>,
): Promise<void> {
  const refs = [...manifest.refs];
  if (manifest.history) {
    needed.set(`hist/${manifest.history.id}`, manifest.history);
    const stored = await from.get(historyKey(manifest.uuid, manifest.history.id));
    if (!stored) throw new Gone(`the history object ${manifest.history.id} is missing`);
    refs.push(
      ...decoded(`the history object ${manifest.history.id}`, () => decodeHistory(stored.bytes)).timelines.flatMap(
        (timeline) => timeline.refs,
      ),
    );
  }
  for (const ref of refs) needed.set(`seg/${ref.id}`, ref);
}

function decoded<Value>(what: string, decode: () => Value): Value {
  try {
    return decode();
  } catch (error) {
    if (!(error instanceof StoreError)) throw error;
    throw new Gone(`${what} cannot be read: ${error.message}`);
  }
}

/**
 * Every object that the other store lacks. What it has under the same name with the same length was read back when it
 * was put.
 */
async function copyNeeded(
  { from, to, press, permits }: DatabaseCopyParts,
  uuid: string,
  { needed }: Seen,
  count: (bytes: number) => void,
): Promise<void> {
  const prefix = databasePrefix(uuid);
  const waiting = new Map(needed);
  for await (const { key, bytes } of listed(to, prefix))
    if (waiting.get(key.slice(prefix.length))?.bytes === bytes) waiting.delete(key.slice(prefix.length));
  const isWhole = async (bytes: Uint8Array | undefined, sha256: Uint8Array): Promise<boolean> =>
    bytes !== undefined && sameBytes(await press.digest(bytes), sha256);
  const copyOne = async (key: string, sha256: Uint8Array): Promise<void> => {
    const stored = (await from.get(prefix + key)) ?? undefined;
    if (!stored) throw new Gone(`the object ${key} is missing`);
    if (!(await isWhole(stored.bytes, sha256))) throw new Gone(`the object ${key} is not what was written`);
    await putSame(to, prefix + key, stored.bytes);
    if (!(await isWhole((await to.get(prefix + key))?.bytes, sha256)))
      throw new StoreError("corrupt", `${key} of database ${uuid} was not read back as it was put`);
    count(stored.bytes.length);
  };
  // All of them end before the first failure is thrown: nothing is written behind the caller's back.
  const outcomes = await Promise.allSettled(
    [...waiting].map(([key, { sha256 }]) => permits.run(() => copyOne(key, sha256))),
  );
  const failed = outcomes.find((outcome) => outcome.status === "rejected");
  if (failed) throw failed.reason;
}

/** Manifests first, then the catalog that lists them, then away with what neither refers to. */
async function publish(
  { to, manifestFor }: DatabaseCopyParts,
  uuid: string,
  { catalogBytes, manifests, needed }: Seen,
): Promise<void> {
  const kept = new Set(["catalog", ...needed.keys()]);
  for (const { manifest, bytes } of manifests) {
    kept.add(`head/${manifest.branchId}`);
    await putSame(to, manifestKey(uuid, manifest.branchId), manifestFor(manifest, bytes));
  }
  await putSame(to, catalogKey(uuid), catalogBytes);
  const prefix = databasePrefix(uuid);
  for await (const { key } of listed(to, prefix)) if (!kept.has(key.slice(prefix.length))) await to.delete(key);
}
