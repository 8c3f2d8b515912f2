/**
 * Looks over the store's shoulder: every change of every object is checked against what must always be true of them.
 *
 * Heads form a chain; what a head or a history names is there and hashes right; nothing is both named and condemned;
 * nothing that is named is deleted. It reads the objects by itself and shares only the codecs with the service.
 */
import { rmSync } from "node:fs";
import { planOf } from "../../src/engine/history/lines.ts";
import { materialise } from "../../src/engine/segments/restore.ts";
import { decodeCatalog, type Catalog, type CatalogBranch } from "../../src/format/history/catalog.ts";
import { decodeHead, hashOf, type Head, type TxidRange } from "../../src/format/history/head.ts";
import { decodeHistory, type History } from "../../src/format/history/history.ts";
import { catalogKey, databasePrefix, headKey, historyKey } from "../../src/format/keys/object-keys.ts";
import { inlinePress } from "../../src/format/core/compression.ts";
import { runRead } from "../../src/model/commands.ts";
import { readState } from "../../src/model/schema.ts";
import { VectorCache } from "../../src/model/index/vector-index.ts";
import { Connection } from "../../src/sqlite/connection/connection.ts";
import type { ObjectStore, StoredObject } from "../../src/store/port/object-store.ts";
import { soundDisk } from "../support/sound-disk.ts";
import type { BranchModel } from "./branch-model.ts";
import { Violation, type Kind } from "./branch-model.ts";

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
  /** Heads that landed. */
  heads = 0;
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
    if (name.startsWith("head/")) this.#headChanged(uuid, key, before, after);
    else if (name === "catalog") this.#catalogChanged(uuid, before, after);
    else if (after === undefined) this.#deleted(uuid, name);
    else if (before !== undefined) throw new Violation(`${key} was written twice`);
  }

  /** How far object storage covers the branch; undefined when it knows no such branch. */
  coveredTxid(branch: BranchModel): number | undefined {
    const head = this.headOf(branch);
    return head?.txid;
  }

  /** Whether a claim has declared the transaction id lost. */
  isLost(branch: BranchModel, txid: number): boolean {
    return this.headOf(branch)?.lost.some(({ firstTxid, lastTxid }) => txid >= firstTxid && txid <= lastTxid) ?? false;
  }

  headOf({ database, id }: BranchModel): Head | undefined {
    return this.#head(database.uuid, id);
  }

  /** Checks every branch of a database once more. */
  whole(uuid: string): void {
    const catalog = this.#catalog(uuid);
    for (const { id } of catalog?.branches ?? []) {
      const head = this.#head(uuid, id);
      // Number 0: the first claim was begun and has not landed.
      if (!head && catalog?.seq === 0) continue;
      if (!head) throw new Violation(`the branch ${id} is in the catalog and has no head`);
      this.#namesWhole(uuid, head);
    }
  }

  /**
   * Restores the branch from object storage alone, at its head or at an earlier txid, and holds what it finds against
   * the model. False when the past does not reach that far.
   */
  async restores(branch: BranchModel, scratchDirectory: string, txid?: number): Promise<boolean> {
    const head = this.headOf(branch);
    if (!head) throw new Violation(`${branch.label} has no head in object storage`);
    const plan = planOf(head, this.#history(head), txid ?? head.txid);
    if (!plan) {
      if (txid === undefined)
        throw new Violation(`${branch.label}: the head's own state ${head.txid} cannot be restored`);
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

  /** Every object that a head or a history of the database names, as they stand now. */
  named(uuid: string): ReadonlySet<string> {
    const heads = (this.#catalog(uuid)?.branches ?? []).flatMap(({ id }) => this.#head(uuid, id) ?? []);
    return new Set(heads.flatMap((head) => this.#namedBy(uuid, head).map(({ key }) => key)));
  }

  #headChanged(uuid: string, key: string, before: Uint8Array | undefined, after: Uint8Array | undefined): void {
    this.heads++;
    const id = key.slice(headKey(uuid, "").length);
    if (after === undefined) {
      if (
        this.#catalog(uuid)?.deletedAtMs === undefined &&
        this.#catalog(uuid)?.branches.some((branch) => branch.id === id)
      )
        throw new Violation(`the head of ${id} was deleted, but its branch is in the catalog`);
      return;
    }
    const head = once(after, decodeHead);
    const was = before && once(before, decodeHead);
    const breaks = (what: string): never => {
      throw new Violation(`head ${id} seq ${head.seq} of ${uuid}: ${what}`);
    };
    if (head.uuid !== uuid || head.branchId !== id) breaks("stands under another's name");
    if (was) {
      if (head.seq !== was.seq + 1) breaks(`follows seq ${was.seq}`);
      if (head.epoch < was.epoch) breaks(`epoch ${head.epoch} follows ${was.epoch}`);
      if (!this.mayJump && head.epoch > was.epoch + 1) breaks(`epoch jumps from ${was.epoch} to ${head.epoch}`);
      if (Buffer.compare(head.prevHash, hashOf(before)) !== 0) breaks("does not name the head before it");
      if (head.txid < was.txid) breaks(`txid went back from ${was.txid} to ${head.txid}`);
      if (head.epoch === was.epoch && head.epoch > 0) {
        // A writer that ends in order gives back what it has not used, and is then bound by that. What lies before its
        // claim's own first id may have been given before.
        const givenTo = Math.max(was.txid, (was.writerEpochs.at(-1)?.firstTxid ?? 1) - 1);
        const gaveBack = head.reservedTo === givenTo && head.txid === was.txid;
        if (head.reservedTo < was.reservedTo && !gaveBack)
          breaks(`reservation went back from ${was.reservedTo} to ${head.reservedTo}`);
        if (was.reservedTo === givenTo && head.reservedTo > was.reservedTo)
          breaks(`reserves up to ${head.reservedTo} after everything was given back`);
      }
      if (head.epoch === was.epoch && head.node !== was.node)
        breaks(`two nodes, ${was.node} and ${head.node}, write in one epoch`);
    }
    if (head.txid > head.reservedTo && head.epoch > 0)
      breaks(`txid ${head.txid} is above the reserved ${head.reservedTo}`);
    if (!this.#ended.has(uuid)) this.#namesWhole(uuid, head);
    if (head.epoch > (was?.epoch ?? 0)) {
      // What a claim gives up ends right below its own first transaction id; it may have been joined to an earlier gap.
      const gapEnd = (head.writerEpochs.at(-1)?.firstTxid ?? 1) - 1;
      const covers = ({ firstTxid, lastTxid }: TxidRange): boolean => firstTxid <= gapEnd && lastTxid >= gapEnd;
      this.#watch.claimed?.(uuid, id, {
        node: head.node,
        lost: was?.lost.some(covers) ? undefined : head.lost.find(covers),
      });
    }
    // A line that begins above all that there was, with the objects of the state that it goes back to and one more.
    if (was && head.fromTxid > was.txid)
      this.#watch.rewound?.(
        uuid,
        id,
        head.refs.at(-2)?.lastTxid ?? breaks("begins a line with nothing before it"),
        head.fromTxid,
      );
  }

  #namesWhole(uuid: string, head: Head): void {
    const condemned = new Set(this.#catalog(uuid)?.condemned.map(({ key }) => key));
    const isBranch = this.#catalog(uuid)?.branches.some(({ id }) => id === head.branchId) ?? false;
    for (const promised of this.#namedBy(uuid, head)) {
      const at = `head ${head.branchId} seq ${head.seq} names ${promised.key}`;
      if (isBranch && condemned.has(promised.key.slice(databasePrefix(uuid).length)))
        throw new Violation(`${at}, which is condemned`);
      this.#isWhole(promised, at);
    }
  }

  /** Everything that a head and its history name. */
  #namedBy(uuid: string, head: Head): Promised[] {
    const history = this.#history(head);
    const lines = [head.refs, ...(history?.lines.map(({ refs }) => refs) ?? [])];
    const named: Promised[] = lines
      .flat()
      .map(({ id, bytes, sha256 }) => ({ key: `${databasePrefix(uuid)}seg/${id}`, bytes, sha256 }));
    if (head.history)
      named.push({ key: historyKey(uuid, head.history.id), bytes: head.history.bytes, sha256: head.history.sha256 });
    return named;
  }

  #isWhole({ key, bytes, sha256 }: Promised, at: string): void {
    const found = this.#store().peek(key);
    if (!found) throw new Violation(`${at}, which is not there`);
    const promised = `${key} ${Buffer.from(sha256).toString("hex")}`;
    if (this.#whole.has(promised) || this.#store().rotten.has(key)) return;
    if (found.bytes.length !== bytes || Buffer.compare(hashOf(found.bytes), sha256) !== 0)
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
      const head = this.#head(uuid, id);
      if (!head) {
        if (name === "main" || this.#ended.has(uuid)) continue;
        throw new Violation(`the catalog names the branch ${name}, which has no head`);
      }
      for (const { key } of this.#namedBy(uuid, head)) {
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
      const head = this.#head(uuid, id);
      if (head && this.#namedBy(uuid, head).some(({ key }) => key === databasePrefix(uuid) + name))
        throw new Violation(`${name} of ${uuid} was deleted, but the branch ${id} names it`);
    }
  }

  #catalog(uuid: string): Catalog | undefined {
    const found = this.#store().peek(catalogKey(uuid));
    return found && once(found.bytes, decodeCatalog);
  }

  #head(uuid: string, branchId: string): Head | undefined {
    const found = this.#store().peek(headKey(uuid, branchId));
    return found && once(found.bytes, decodeHead);
  }

  #history(head: Head): History | undefined {
    if (!head.history) return undefined;
    const key = historyKey(head.uuid, head.history.id);
    const found = this.#store().peek(key);
    if (!found)
      throw new Violation(
        `head ${head.branchId} seq ${head.seq} names the history ${head.history.id}, which is not there`,
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
    for (const [kind, tokens] of tokensOf(connection)) branch.observed(txid, [kind], new Set(tokens));
  } finally {
    connection.close();
  }
}

function tokensOf(connection: Connection): Map<Kind, string[]> {
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
