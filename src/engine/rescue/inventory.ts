/**
 * What one database has in object storage, and whether it fits together: the look that doctor, repair, backup and
 * restore share.
 *
 * Always true: it only reads. What it calls missing or unsound was looked at twice, and nothing had replaced the
 * manifest that refers to it meanwhile: a node that packs and collects meanwhile makes nothing look broken. In memory
 * are the references of one database, one page of its listing and, of what is proven, a few objects.
 */
import { StoreError } from "../../base/faults/errors.ts";
import { limits } from "../../base/limits.ts";
import { Semaphore } from "../../base/collections/semaphore.ts";
import { decodeCatalog, type Catalog, type CatalogBranch } from "../../format/history/catalog.ts";
import { decodeManifest, computeSha256, type Manifest, type TxidRange } from "../../format/history/manifest.ts";
import { decodeHistory, type History } from "../../format/history/history.ts";
import { catalogKey, databasePrefix, manifestKey, isBranchId, parsePoolId } from "../../format/keys/object-keys.ts";
import type { SegmentRef } from "../../format/history/refs.ts";
import { NewerFormat } from "../../format/core/versions.ts";
import { listed } from "../../store/port/listing.ts";
import type { ObjectStore } from "../../store/port/object-store.ts";
import { sameBytes } from "../../store/port/sure-put.ts";
import { findGaps } from "../history/timeline-gaps.ts";
import { fetchObject, RottenObject, type PageSource } from "../segments/pool-objects.ts";

/** A database that changes while it is looked at is looked at again at most this often. */
const inventoryRoundsMax = 4;
/** Objects that are read at once to prove them; each may be a full pack. */
const inventoryFetchesMax = 4;

/** An object that says something, as it was found. */
export type Looked<Value> =
  | { readonly kind: "sound"; readonly value: Value; readonly bytes: Uint8Array; readonly version: string }
  | { readonly kind: "missing" }
  /** `isNewer`: a build that knows more than this one has written it. */
  | { readonly kind: "unreadable"; readonly why: string; readonly isNewer: boolean; readonly version: string };

/** A branch as the catalog, its manifest and its history tell of it. */
export interface BranchInventory {
  readonly id: string;
  /** Undefined for a manifest that no catalog lists. */
  readonly listed: CatalogBranch | undefined;
  readonly manifest: Looked<Manifest>;
  /** Undefined when the manifest has none, or cannot be read itself. */
  readonly history: Looked<History> | undefined;
  /** Transaction ids that the manifest's own timeline should hold and does not name. */
  readonly gaps: readonly TxidRange[];
}

/** Why an object that a manifest or a history refers to is unusable. */
interface ObjectFault {
  readonly kind: "missing" | "length" | "rotten";
  readonly why: string;
}

/** Objects of a kind, some of them by name. */
export interface Histogram {
  count: number;
  bytes: number;
  readonly keys: string[];
}

export interface DatabaseInventory {
  readonly uuid: string;
  readonly catalog: Looked<Catalog>;
  readonly branches: readonly BranchInventory[];
  /** By the key below the database's folder, such as `seg/<id>`. */
  readonly faults: ReadonlyMap<string, ObjectFault>;
  readonly objects: number;
  readonly bytes: number;
  /** What is listed and nothing refers to; `condemned` of them are on their way out. */
  readonly unreferenced: Histogram;
  readonly condemned: number;
  readonly foreign: Histogram;
  /** When the newest object was put, by the store's clock; 0 when there is none. */
  readonly newestMs: number;
  /** Objects that were read and proven. */
  readonly proven: number;
}

/** What the looks of several rounds share. */
interface Look {
  readonly source: PageSource;
  /** Whether every object is read and proven. */
  readonly deep: boolean;
  /** Keys of what was proven before: an immutable object stays what it is. */
  readonly proven: Set<string>;
}

/** What an immutable object must turn out to be. */
interface Promised {
  readonly bytes: number;
  /** Undefined for a history. */
  readonly ref: SegmentRef | undefined;
}

/** Looks at everything that the database has. `deep` reads and proves every object that anything refers to. */
export async function takeInventory(source: PageSource, deep: boolean): Promise<DatabaseInventory> {
  const look: Look = { source, deep, proven: new Set() };
  for (let round = 1; ; round++) {
    const found = await lookOnce(look);
    const isWhole =
      found.faults.size === 0 &&
      found.branches.every(
        ({ manifest, history }) => manifest.kind === "sound" && (history?.kind ?? "sound") === "sound",
      );
    if (isWhole || round >= inventoryRoundsMax || !(await hasMoved(look, found))) return found;
  }
}

/** Whether a manifest or the catalog has been replaced since: what it refers to may have been packed and collected. */
async function hasMoved({ source: { store, uuid } }: Look, { catalog, branches }: DatabaseInventory): Promise<boolean> {
  const getVersion = (looked: Looked<unknown>): string | undefined =>
    looked.kind === "missing" ? undefined : looked.version;
  if ((await store.get(catalogKey(uuid)))?.version !== getVersion(catalog)) return true;
  for (const { id, manifest } of branches)
    if ((await store.get(manifestKey(uuid, id)))?.version !== getVersion(manifest)) return true;
  return false;
}

async function lookOnce(look: Look): Promise<DatabaseInventory> {
  const { store, uuid } = look.source;
  const catalog = await lookAt(store, catalogKey(uuid), (bytes) => ownCatalog(decodeCatalog(bytes), uuid));
  const branches = await readBranches(store, uuid, catalog.kind === "sound" ? catalog.value : undefined);
  const references = listReferences(branches);
  const known = new Set(catalog.kind === "sound" ? catalog.value.condemned.map(({ key }) => key) : []);
  const pass = await passOver(look, references, known);
  await confirmMissing(look, references, pass);
  if (look.deep) await prove(look, references, pass.faults);
  return { uuid, catalog, branches, ...pass, proven: look.proven.size };
}

/** Reads an object and what it says. Throws StoreError when the store does not answer. */
export async function lookAt<Value>(
  store: ObjectStore,
  key: string,
  decode: (bytes: Uint8Array) => Value,
): Promise<Looked<Value>> {
  const stored = await store.get(key);
  if (!stored) return { kind: "missing" };
  try {
    return { kind: "sound", value: decode(stored.bytes), ...stored };
  } catch (error) {
    if (!(error instanceof StoreError)) throw error;
    return { kind: "unreadable", why: error.message, isNewer: error instanceof NewerFormat, version: stored.version };
  }
}

function ownCatalog(catalog: Catalog, uuid: string): Catalog {
  if (catalog.uuid !== uuid) throw new StoreError("corrupt", "it is another database's catalog");
  return catalog;
}

/** The manifest in the bytes, if it is that branch's. */
export function ownManifest(bytes: Uint8Array, uuid: string, branchId: string): Manifest {
  const manifest = decodeManifest(bytes);
  if (manifest.uuid !== uuid || manifest.branchId !== branchId)
    throw new StoreError("corrupt", "it is another branch's manifest");
  return manifest;
}

/** Those that the catalog lists, and those that have a manifest without being listed. */
async function readBranches(
  store: ObjectStore,
  uuid: string,
  catalog: Catalog | undefined,
): Promise<BranchInventory[]> {
  const named = new Map((catalog?.branches ?? []).map((branch) => [branch.id, branch]));
  const ids = new Set(named.keys());
  const folder = manifestKey(uuid, "");
  for await (const { key } of listed(store, folder))
    if (isBranchId(key.slice(folder.length))) ids.add(key.slice(folder.length));
  const branches: BranchInventory[] = [];
  for (const id of ids) branches.push(await readBranch(store, uuid, id, named.get(id)));
  return branches;
}

async function readBranch(
  store: ObjectStore,
  uuid: string,
  id: string,
  name: CatalogBranch | undefined,
): Promise<BranchInventory> {
  const manifest = await lookAt(store, manifestKey(uuid, id), (bytes) => ownManifest(bytes, uuid, id));
  if (manifest.kind !== "sound") return { id, listed: name, manifest, history: undefined, gaps: [] };
  const { refs, tail, fromTxid, txid, lost, history: ref } = manifest.value;
  const gaps = txid === 0 && refs.length === 0 ? [] : findGaps({ fromTxid, toTxid: txid, refs, tail }, lost);
  const history =
    ref &&
    (await lookAt(store, `${databasePrefix(uuid)}hist/${ref.id}`, (bytes) => {
      if (bytes.length !== ref.bytes || !sameBytes(computeSha256(bytes), ref.sha256))
        throw new StoreError("corrupt", "it is not what its manifest names");
      return decodeHistory(bytes);
    }));
  return { id, listed: name, manifest, history, gaps };
}

/** Every object of the pool that the branches refer to, by its key below the database's folder. */
function listReferences(branches: readonly BranchInventory[]): Map<string, Promised> {
  const references = new Map<string, Promised>();
  for (const { manifest, history } of branches) {
    if (manifest.kind !== "sound") continue;
    for (const ref of listRefs(manifest.value, history)) references.set(`seg/${ref.id}`, { bytes: ref.bytes, ref });
    if (manifest.value.history)
      references.set(`hist/${manifest.value.history.id}`, { bytes: manifest.value.history.bytes, ref: undefined });
  }
  return references;
}

/** All references of a branch: its timeline's, and those of its past as far as that can be read. */
export function listRefs(manifest: Manifest, history: Looked<History> | undefined): readonly SegmentRef[] {
  return history?.kind === "sound"
    ? [...manifest.refs, ...history.value.timelines.flatMap(({ refs }) => refs)]
    : manifest.refs;
}

interface Pass {
  readonly faults: Map<string, ObjectFault>;
  /** Referred to, and not listed. */
  readonly unseen: Set<string>;
  objects: number;
  bytes: number;
  condemned: number;
  newestMs: number;
  readonly unreferenced: Histogram;
  readonly foreign: Histogram;
}

/** An empty tally. */
export function emptyTally(): Histogram {
  return { count: 0, bytes: 0, keys: [] };
}

/** Counts an object in. */
export function tallied(tally: Histogram, key: string, bytes: number): void {
  tally.count++;
  tally.bytes += bytes;
  if (tally.keys.length < limits.findingKeysMax) tally.keys.push(key);
}

/** Goes once over the database's listing. */
async function passOver(
  { source: { store, uuid } }: Look,
  references: ReadonlyMap<string, Promised>,
  condemned: ReadonlySet<string>,
): Promise<Pass> {
  const prefix = databasePrefix(uuid);
  const pass: Pass = {
    faults: new Map(),
    unseen: new Set(references.keys()),
    objects: 0,
    bytes: 0,
    condemned: 0,
    newestMs: 0,
    unreferenced: emptyTally(),
    foreign: emptyTally(),
  };
  for await (const { key: whole, bytes, modifiedAtMs } of listed(store, prefix)) {
    const key = whole.slice(prefix.length);
    pass.objects++;
    pass.bytes += bytes;
    pass.newestMs = Math.max(pass.newestMs, modifiedAtMs);
    const promised = references.get(key);
    if (promised) {
      pass.unseen.delete(key);
      if (promised.bytes !== bytes)
        pass.faults.set(key, { kind: "length", why: `has ${bytes} bytes instead of ${promised.bytes}` });
    } else if (condemned.has(key)) {
      pass.condemned++;
    } else if (isPoolKey(key)) {
      tallied(pass.unreferenced, key, bytes);
    } else if (key !== "catalog" && !isManifestKey(key)) {
      tallied(pass.foreign, key, bytes);
    }
  }
  return pass;
}

function isPoolKey(key: string): boolean {
  return /^(?:seg|hist)\//.test(key) && parsePoolId(key.slice(key.indexOf("/") + 1)) !== undefined;
}

function isManifestKey(key: string): boolean {
  return key.startsWith("head/") && isBranchId(key.slice("head/".length));
}

/** A listing may lag, and a manifest that was read after it may refer to what is newer. */
async function confirmMissing(
  { source: { store, uuid } }: Look,
  references: ReadonlyMap<string, Promised>,
  { unseen, faults }: Pass,
): Promise<void> {
  for (const key of unseen) {
    const stored = await store.get(databasePrefix(uuid) + key);
    const promised = references.get(key)!;
    if (!stored) faults.set(key, { kind: "missing", why: "is missing" });
    else if (stored.bytes.length !== promised.bytes)
      faults.set(key, { kind: "length", why: `has ${stored.bytes.length} bytes instead of ${promised.bytes}` });
  }
}

/** Reads every object of page data whole. Histories were read already. */
async function prove(
  { source, proven }: Look,
  references: ReadonlyMap<string, Promised>,
  faults: Map<string, ObjectFault>,
): Promise<void> {
  const permits = new Semaphore(inventoryFetchesMax);
  const proveOne = async (key: string, ref: SegmentRef): Promise<void> => {
    try {
      await fetchObject(source, ref);
      proven.add(key);
    } catch (error) {
      if (!(error instanceof RottenObject)) throw error;
      faults.set(key, { kind: "rotten", why: error.message });
    }
  };
  const waiting = [...references].filter(([key, { ref }]) => ref !== undefined && !faults.has(key) && !proven.has(key));
  await Promise.all(waiting.map(([key, { ref }]) => permits.run(() => proveOne(key, ref!))));
}
