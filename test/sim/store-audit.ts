/**
 * Looks over the store's shoulder: every change of every object is checked against what must always be true of them.
 *
 * Manifests form a chain; what a manifest or a history names is there and hashes right; nothing is both named and
 * condemned; nothing that is named is deleted. It reads the objects by itself and shares only the codecs with the
 * service.
 */
import { rmSync } from "node:fs";
import { findRestorePlan } from "../../src/engine/history/timelines.ts";
import { materialise } from "../../src/engine/segments/restore.ts";
import { decodeCatalog, type Catalog, type CatalogBranch } from "../../src/format/history/catalog.ts";
import { decodeManifest, computeSha256, type Manifest, type TxidRange } from "../../src/format/history/manifest.ts";
import { decodeHistory, type History } from "../../src/format/history/history.ts";
import { catalogKey, databasePrefix, manifestKey, historyKey } from "../../src/format/keys/object-keys.ts";
import { inlinePress } from "../../src/format/core/compression.ts";
import { runRead } from "../../src/model/commands.ts";
import { readState } from "../../src/model/schema.ts";
import { VectorCache } from "../../src/model/index/vector-index.ts";
import { Connection } from "../../src/sqlite/connection/connection.ts";
import type { ObjectStore, StoredObject } from "../../src/store/port/object-store.ts";
import { soundDisk } from "../support/sound-disk.ts";
import type { BranchModel } from "./branch-model.ts";
import type { Kind } from "./changes.ts";
import { Violation } from "./asks.ts";

const uuidPattern = /^db\/([^/]+)\/(.+)$/;

/** What a reference promises of an object. */
interface Promised {
  readonly key: string;
  readonly bytes: number;
  readonly sha256: Uint8Array;
}

/** A node has become the writer of a branch. */
export interface Claim {
  readonly node: string;
  /** Transaction ids that it declares lost, if any. */
  readonly lost: TxidRange | undefined;
}

/** A store whose objects can be looked at behind everybody's back. */
export interface AuditedStore {
  /** The object as it lies there, not to be changed. */
  peek(key: string): StoredObject | undefined;
  /** Keys of objects that were spoilt. */
  readonly rotten: ReadonlySet<string>;
  /** The store without any fault. */
  readonly calm: ObjectStore;
}

/** Told of what lands, by the ids of branches. */
export interface StoreWatch {
  claimed?(uuid: string, branchId: string, claim: Claim): void;
  /** The branch went back to the state at `toTxid` by the transaction `txid`. */
  rewound?(uuid: string, branchId: string, toTxid: number, txid: number): void;
  forked?(uuid: string, branch: CatalogBranch): void;
  deleted?(uuid: string, branchId: string): void;
}

/** What was decoded of bytes that never change. */
const decodings = new WeakMap<Uint8Array, unknown>();

function once<Value>(bytes: Uint8Array, decode: (bytes: Uint8Array) => Value): Value {
  const known = decodings.get(bytes);
  if (known !== undefined) return known as Value;
  const value = decode(bytes);
  decodings.set(bytes, value);
  return value;
}

export class StoreAudit {
  readonly #store: () => AuditedStore;
  readonly #watch: StoreWatch;
  /** Objects that were found to be what a reference says; they never change. */
  readonly #whole = new Set<string>();
  /** Databases that were deleted: what still comes of them names what may be gone, and goes too. */
  readonly #ended = new Set<string>();
  /** Manifests that landed. */
  manifests = 0;
  /** Whether epochs may leave some out: they do where leases count them too. */
  mayJump = false;

  constructor(store: () => AuditedStore, watch: StoreWatch = {}) {
    this.#store = store;
    this.#watch = watch;
  }

  /** Throws a Violation when the change breaks a rule. */
  changed(key: string, before: Uint8Array | undefined, after: Uint8Array | undefined): void {
    const [, uuid, name] = uuidPattern.exec(key) ?? [];
    if (uuid === undefined || name === undefined) return;
    if (name.startsWith("head/")) this.#manifestChanged(uuid, key, before, after);
    else if (name === "catalog") this.#catalogChanged(uuid, before, after);
    else if (after === undefined) this.#deleted(uuid, name);
    else if (before !== undefined) throw new Violation(`${key} was written twice`);
  }

  /** How far object storage covers the branch; undefined when it knows no such branch. */
  coveredTxid(branch: BranchModel): number | undefined {
    const manifest = this.findManifest(branch);
    return manifest?.txid;
  }

  /** Whether a claim has declared the transaction id lost. */
  isLost(branch: BranchModel, txid: number): boolean {
    return (
      this.findManifest(branch)?.lost.some(({ firstTxid, lastTxid }) => txid >= firstTxid && txid <= lastTxid) ?? false
    );
  }

  findManifest({ database, id }: BranchModel): Manifest | undefined {
    return this.#manifest(database.uuid, id);
  }

  /** Checks every branch of a database once more. */
  whole(uuid: string): void {
    const catalog = this.#catalog(uuid);
    for (const { id } of catalog?.branches ?? []) {
      const manifest = this.#manifest(uuid, id);
      // Number 0: the first claim was begun and has not landed.
      if (!manifest && catalog?.seq === 0) continue;
      if (!manifest) throw new Violation(`the branch ${id} is in the catalog and has no manifest`);
      this.#namesWhole(uuid, manifest);
    }
  }

  /**
   * Restores the branch from object storage alone, at its manifest or at an earlier txid, and holds what it finds
   * against the model. False when the past does not reach that far.
   */
  async restores(branch: BranchModel, scratchDirectory: string, txid?: number): Promise<boolean> {
    const manifest = this.findManifest(branch);
    if (!manifest) throw new Violation(`${branch.label} has no manifest in object storage`);
    const plan = findRestorePlan(manifest, this.#history(manifest), txid ?? manifest.txid);
    if (!plan) {
      if (txid === undefined)
        throw new Violation(`${branch.label}: the manifest's own state ${manifest.txid} cannot be restored`);
      return false;
    }
    const path = `${scratchDirectory}/restored.db`;
    for (const ending of ["", "-wal", "-shm"]) rmSync(path + ending, { force: true });
    // No fault and no time: the store's calm side, and a disk that syncs at once.
    await materialise(
      { store: this.#store().calm, uuid: branch.database.uuid, press: inlinePress, disk: soundDisk },
      plan,
      path,
    );
    holdAgainstModel(branch, plan.txid, path);
    return true;
  }

  /** Every object that a manifest or a history of the database names, as they stand now. */
  named(uuid: string): ReadonlySet<string> {
    const manifests = (this.#catalog(uuid)?.branches ?? []).flatMap(({ id }) => this.#manifest(uuid, id) ?? []);
    return new Set(manifests.flatMap((manifest) => this.#namedBy(uuid, manifest).map(({ key }) => key)));
  }

  #manifestChanged(uuid: string, key: string, before: Uint8Array | undefined, after: Uint8Array | undefined): void {
    this.manifests++;
    const id = key.slice(manifestKey(uuid, "").length);
    if (after === undefined) {
      if (
        this.#catalog(uuid)?.deletedAtMs === undefined &&
        this.#catalog(uuid)?.branches.some((branch) => branch.id === id)
      )
        throw new Violation(`the manifest of ${id} was deleted, but its branch is in the catalog`);
      return;
    }
    const manifest = once(after, decodeManifest);
    const was = before && once(before, decodeManifest);
    const breaks = (what: string): never => {
      throw new Violation(`head ${id} seq ${manifest.seq} of ${uuid}: ${what}`);
    };
    if (manifest.uuid !== uuid || manifest.branchId !== id) breaks("stands under another's name");
    if (was) {
      if (manifest.seq !== was.seq + 1) breaks(`follows seq ${was.seq}`);
      if (manifest.epoch < was.epoch) breaks(`epoch ${manifest.epoch} follows ${was.epoch}`);
      if (!this.mayJump && manifest.epoch > was.epoch + 1) breaks(`epoch jumps from ${was.epoch} to ${manifest.epoch}`);
      if (Buffer.compare(manifest.prevHash, computeSha256(before)) !== 0)
        breaks("does not name the manifest before it");
      if (manifest.txid < was.txid) breaks(`txid went back from ${was.txid} to ${manifest.txid}`);
      if (manifest.epoch === was.epoch && manifest.epoch > 0) {
        // A writer that ends in order gives back what it has not used, and is then bound by that. What lies before its
        // claim's own first id may have been given before.
        const givenTo = Math.max(was.txid, (was.writerEpochs.at(-1)?.firstTxid ?? 1) - 1);
        const gaveBack = manifest.reservedTo === givenTo && manifest.txid === was.txid;
        if (manifest.reservedTo < was.reservedTo && !gaveBack)
          breaks(`reservation went back from ${was.reservedTo} to ${manifest.reservedTo}`);
        if (was.reservedTo === givenTo && manifest.reservedTo > was.reservedTo)
          breaks(`reserves up to ${manifest.reservedTo} after everything was given back`);
      }
      if (manifest.epoch === was.epoch && manifest.node !== was.node)
        breaks(`two nodes, ${was.node} and ${manifest.node}, write in one epoch`);
    }
    if (manifest.txid > manifest.reservedTo && manifest.epoch > 0)
      breaks(`txid ${manifest.txid} is above the reserved ${manifest.reservedTo}`);
    if (!this.#ended.has(uuid)) this.#namesWhole(uuid, manifest);
    if (manifest.epoch > (was?.epoch ?? 0)) {
      // What a claim gives up ends right below its own first transaction id; it may have been joined to an earlier gap.
      const gapEnd = (manifest.writerEpochs.at(-1)?.firstTxid ?? 1) - 1;
      const covers = ({ firstTxid, lastTxid }: TxidRange): boolean => firstTxid <= gapEnd && lastTxid >= gapEnd;
      this.#watch.claimed?.(uuid, id, {
        node: manifest.node,
        lost: was?.lost.some(covers) ? undefined : manifest.lost.find(covers),
      });
    }
    // A timeline that begins above all that there was, with the objects of the state that it goes back to and one more.
    if (was && manifest.fromTxid > was.txid)
      this.#watch.rewound?.(
        uuid,
        id,
        manifest.refs.at(-2)?.lastTxid ?? breaks("begins a timeline with nothing before it"),
        manifest.fromTxid,
      );
  }

  #namesWhole(uuid: string, manifest: Manifest): void {
    const condemned = new Set(this.#catalog(uuid)?.condemned.map(({ key }) => key));
    const isBranch = this.#catalog(uuid)?.branches.some(({ id }) => id === manifest.branchId) ?? false;
    for (const promised of this.#namedBy(uuid, manifest)) {
      const at = `head ${manifest.branchId} seq ${manifest.seq} names ${promised.key}`;
      if (isBranch && condemned.has(promised.key.slice(databasePrefix(uuid).length)))
        throw new Violation(`${at}, which is condemned`);
      this.#isWhole(promised, at);
    }
  }

  /** Everything that a manifest and its history name. */
  #namedBy(uuid: string, manifest: Manifest): Promised[] {
    const history = this.#history(manifest);
    const timelines = [manifest.refs, ...(history?.timelines.map(({ refs }) => refs) ?? [])];
    const named: Promised[] = timelines
      .flat()
      .map(({ id, bytes, sha256 }) => ({ key: `${databasePrefix(uuid)}seg/${id}`, bytes, sha256 }));
    if (manifest.history)
      named.push({
        key: historyKey(uuid, manifest.history.id),
        bytes: manifest.history.bytes,
        sha256: manifest.history.sha256,
      });
    return named;
  }

  #isWhole({ key, bytes, sha256 }: Promised, at: string): void {
    const found = this.#store().peek(key);
    if (!found) throw new Violation(`${at}, which is not there`);
    const promised = `${key} ${Buffer.from(sha256).toString("hex")}`;
    if (this.#whole.has(promised) || this.#store().rotten.has(key)) return;
    if (found.bytes.length !== bytes || Buffer.compare(computeSha256(found.bytes), sha256) !== 0)
      throw new Violation(`${at} with another hash or length`);
    this.#whole.add(promised);
  }

  #catalogChanged(uuid: string, before: Uint8Array | undefined, after: Uint8Array | undefined): void {
    if (after === undefined) return;
    const catalog = once(after, decodeCatalog);
    const was = before && once(before, decodeCatalog);
    if (was && catalog.seq !== was.seq + 1) throw new Violation(`the catalog's seq ${catalog.seq} follows ${was.seq}`);
    if (was?.deletedAtMs !== undefined && catalog.deletedAtMs === undefined)
      throw new Violation(`the deleted database ${uuid} came back`);
    if (catalog.deletedAtMs !== undefined) this.#ended.add(uuid);
    const condemned = new Set(catalog.condemned.map(({ key }) => key));
    for (const { id, name } of catalog.branches) {
      const manifest = this.#manifest(uuid, id);
      if (!manifest) {
        if (name === "main" || this.#ended.has(uuid)) continue;
        throw new Violation(`the catalog names the branch ${name}, which has no manifest`);
      }
      for (const { key } of this.#namedBy(uuid, manifest)) {
        const short = key.slice(databasePrefix(uuid).length);
        if (condemned.has(short)) throw new Violation(`the catalog condemns ${short}, which the branch ${name} names`);
      }
    }
    this.#tellOfBranches(uuid, was?.branches ?? [], catalog.branches);
  }

  #tellOfBranches(uuid: string, before: readonly CatalogBranch[], after: readonly CatalogBranch[]): void {
    const [old, now] = [new Set(before.map(({ id }) => id)), new Set(after.map(({ id }) => id))];
    // A name that is used again was free before.
    for (const { id } of before) if (!now.has(id)) this.#watch.deleted?.(uuid, id);
    for (const branch of after) if (!old.has(branch.id) && branch.parent) this.#watch.forked?.(uuid, branch);
  }

  #deleted(uuid: string, name: string): void {
    const catalog = this.#catalog(uuid);
    if (!catalog || catalog.deletedAtMs !== undefined) return;
    if (!catalog.condemned.some(({ key }) => key === name))
      throw new Violation(`${name} of ${uuid} was deleted without having been condemned`);
    for (const { id } of catalog.branches) {
      const manifest = this.#manifest(uuid, id);
      if (manifest && this.#namedBy(uuid, manifest).some(({ key }) => key === databasePrefix(uuid) + name))
        throw new Violation(`${name} of ${uuid} was deleted, but the branch ${id} names it`);
    }
  }

  #catalog(uuid: string): Catalog | undefined {
    const found = this.#store().peek(catalogKey(uuid));
    return found && once(found.bytes, decodeCatalog);
  }

  #manifest(uuid: string, branchId: string): Manifest | undefined {
    const found = this.#store().peek(manifestKey(uuid, branchId));
    return found && once(found.bytes, decodeManifest);
  }

  #history(manifest: Manifest): History | undefined {
    if (!manifest.history) return undefined;
    const key = historyKey(manifest.uuid, manifest.history.id);
    const found = this.#store().peek(key);
    if (!found)
      throw new Violation(
        `head ${manifest.branchId} seq ${manifest.seq} names the history ${manifest.history.id}, which is not there`,
      );
    return this.#store().rotten.has(key) ? undefined : once(found.bytes, decodeHistory);
  }
}

/** Opens a database file by itself and holds everything in it against the model at that txid. */
function holdAgainstModel(branch: BranchModel, txid: number, path: string): void {
  const connection = new Connection(path, { readonly: false, pageCacheKiB: 512 });
  try {
    const check = connection.raw.pragma("integrity_check", { simple: true });
    if (check !== "ok") throw new Violation(`${branch.label}: the file at txid ${txid} is not sound: ${String(check)}`);
    const state = readState(connection);
    if (state.txid !== txid)
      throw new Violation(`${branch.label}: the file of txid ${txid} says that it is at ${state.txid}`);
    for (const [kind, tokens] of readTokens(connection)) branch.observed(txid, [kind], new Set(tokens));
  } finally {
    connection.close();
  }
}

function readTokens(connection: Connection): Map<Kind, string[]> {
  const view = { connection, nowMs: 0, vectors: new VectorCache() };
  const docs = runRead("docs.find", view, { collection: "sim", filter: "{}", limit: 1_000 }) as {
    docs: readonly string[];
  };
  const hasTable = connection.get("SELECT 1 FROM sqlite_schema WHERE name = 'sim'") !== undefined;
  return new Map<Kind, string[]>([
    ["kv", connection.all<{ key: string }>("SELECT key FROM __service_kv WHERE ns = 'sim'").map(({ key }) => key)],
    [
      "memory",
      connection.all<{ summary: string }>("SELECT summary FROM __service_memory").map(({ summary }) => summary),
    ],
    ["docs", docs.docs.map((doc) => (JSON.parse(doc) as { _id: string })._id)],
    ["sql", hasTable ? connection.all<{ token: string }>("SELECT token FROM sim").map(({ token }) => token) : []],
  ]);
}
