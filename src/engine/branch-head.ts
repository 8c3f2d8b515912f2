/**
 * The head of one branch as its writer sees it: read once, then moved by compare-and-set, one change at a time.
 *
 * Always true: the head held here is the newest that is known to have landed; a body whose outcome is unknown is
 * offered again, and settled, before another one is made from it; once somebody else's head stands there this one is
 * fenced for good. Must not know: files, queues.
 */
import { assert } from "../base/assert.ts";
import { ServiceError, StoreError } from "../base/errors.ts";
import { limits } from "../base/limits.ts";
import { ulidAfter, type World } from "../base/world.ts";
import { decodeHead, encodeHead, hashOf, type Head, type Tenure, type TxidRange } from "../format/head.ts";
import { headKey, poolId } from "../format/object-keys.ts";
import type { ObjectStore, PutCondition } from "../store/object-store.ts";
import { settledPut } from "../store/settled-put.ts";
import { withLost } from "./lines.ts";

const nonceBytes = 16;
const noHash = new Uint8Array(32);

/** Another writer has claimed the branch: whatever this one still holds must not be shipped. */
export class Fenced extends ServiceError {
  constructor() {
    super("unavailable", "another node has claimed this branch; whether this write survives is not known", { retryAfterSecs: 1 });
  }
}

/** What a change may set; the rest is the head's own bookkeeping. */
export type HeadChange = Partial<Omit<Head, "uuid" | "branchId" | "seq" | "nonce" | "prevHash" | "node">>;

export interface BranchHeadOptions {
  readonly store: ObjectStore;
  readonly world: World;
  readonly nodeId: string;
  readonly uuid: string;
  readonly branchId: string;
  /** Called with the bytes of each head that landed. */
  readonly landed?: (bytes: number) => void;
}

interface Doubt {
  readonly head: Head;
  readonly bytes: Uint8Array;
}

/** The body that starts a branch which nobody has written yet. */
function unwritten(uuid: string, branchId: string): Head {
  return {
    uuid, branchId, epoch: 0, seq: 0, nonce: new Uint8Array(nonceBytes), prevHash: noHash, node: "", tenures: [], lost: [],
    txid: 0, committedAtMs: 0, reservedTo: 0, pages: 0, fromTxid: 0, floorTxid: 0, refs: [], tail: [], history: undefined, settledUlid: "",
  };
}

export class BranchHead {
  readonly #options: BranchHeadOptions;
  #head: Head;
  /** SHA-256 of the newest head's bytes; undefined while the branch has none. */
  #hash: Uint8Array | undefined;
  #condition: PutCondition;
  #doubt: Doubt | undefined;
  #tenure: Tenure | undefined;
  #fenced = false;
  /** The end of the line of those who want to change the head. */
  #turn: Promise<unknown> = Promise.resolve();
  #newestUlid = "";
  /** Objects that are being uploaded and not published yet, oldest name first. */
  readonly #uploading = new Set<string>();

  private constructor(options: BranchHeadOptions, found: { readonly head: Head; readonly bytes: Uint8Array; readonly version: string } | undefined) {
    this.#options = options;
    this.#head = found?.head ?? unwritten(options.uuid, options.branchId);
    this.#hash = found && hashOf(found.bytes);
    this.#condition = found ? { kind: "version", version: found.version } : { kind: "absent" };
  }

  /** Reads the head. `exists` is false for a branch that was never written. */
  static async read(options: BranchHeadOptions): Promise<BranchHead> {
    const found = await options.store.get(headKey(options.uuid, options.branchId));
    if (!found) return new BranchHead(options, undefined);
    const head = decodeHead(found.bytes);
    if (head.uuid !== options.uuid || head.branchId !== options.branchId) throw new StoreError("corrupt", "a head stands under another branch's name");
    return new BranchHead(options, { head, bytes: found.bytes, version: found.version });
  }

  /** Whether the branch has a head in the store. */
  get exists(): boolean {
    return this.#hash !== undefined;
  }

  /** The newest head that is known to have landed. */
  get now(): Head {
    return this.#head;
  }

  /** This writer's claim, once it has landed. */
  get tenure(): Tenure | undefined {
    return this.#tenure;
  }

  get fenced(): boolean {
    return this.#fenced;
  }

  /**
   * Makes this node the branch's writer: a new epoch and tenure, from which instant every older writer's compare-and-set
   * fails. The next transaction id is `txid + 1` of what this node provably has (`knownTxid`), or one above everything
   * that was ever reserved when it may have lost some; what lies between is remembered as lost. `first` is the state
   * that a branch without a head begins with.
   */
  async claim(knownTxid: number, knowsAll: boolean, first: HeadChange = {}): Promise<Tenure> {
    if (this.#tenure) return this.#tenure;
    await this.#exclusively(async () => {
      await this.#settle();
      if (this.#tenure) return;
      const { epoch, reservedTo, txid, tenures, lost } = this.#head;
      assert(knownTxid >= txid, "a writer knows at least what its head covers");
      const nextTxid = knowsAll ? knownTxid + 1 : Math.max(reservedTo, knownTxid) + 1;
      const gap: TxidRange[] = nextTxid > knownTxid + 1 ? [{ firstTxid: knownTxid + 1, lastTxid: nextTxid - 1 }] : [];
      const tenure: Tenure = { epoch: epoch + 1, id: this.#options.world.randomBytes(16), firstTxid: nextTxid, lastTxid: nextTxid - 1 };
      await this.#move({
        ...first,
        epoch: epoch + 1,
        tenures: [...tenures, tenure].slice(-limits.headTenuresMax),
        lost: withLost(lost, gap),
        reservedTo: nextTxid - 1 + limits.txidReserve,
      });
      this.#tenure = tenure;
    });
    return this.#tenure!;
  }

  /**
   * Changes the head by what `change` gives for the newest one; undefined changes nothing. After a failure it may be
   * called again: an earlier try may have landed meanwhile, so `change` looks at the head it is given. Throws Fenced.
   */
  async update(change: (head: Head) => HeadChange | undefined): Promise<Head> {
    await this.#exclusively(async () => {
      await this.#settle();
      const next = change(this.#head);
      if (next) await this.#move(next);
    });
    return this.#head;
  }

  /**
   * A name for an object that will be published by a later update; until `endUpload` no collector takes it for garbage.
   * It sorts behind what heads of this epoch have called settled, also after a restart under a clock that went back.
   */
  beginUpload(): string {
    const { branchId, epoch, settledUlid } = this.#head;
    const ulid = this.#options.world.ulid();
    this.#newestUlid = ulid > settledUlid && ulid > this.#newestUlid ? ulid : ulidAfter(settledUlid > this.#newestUlid ? settledUlid : this.#newestUlid);
    const id = poolId(branchId, epoch, this.#newestUlid);
    this.#uploading.add(id);
    return id;
  }

  /** The object has been published or given up. */
  endUpload(id: string): void {
    this.#uploading.delete(id);
  }

  async #exclusively(act: () => Promise<void>): Promise<void> {
    const mine = this.#turn.then(act);
    this.#turn = mine.catch(() => {});
    await mine;
  }

  async #move(change: HeadChange): Promise<void> {
    const { world, nodeId } = this.#options;
    const head: Head = {
      ...this.#head,
      ...change,
      seq: this.#head.seq + 1,
      nonce: world.randomBytes(nonceBytes),
      prevHash: this.#hash ?? noHash,
      node: nodeId,
      settledUlid: this.#settledUlid(),
    };
    this.#doubt = { head, bytes: encodeHead(head) };
    await this.#settle();
  }

  /** Nothing of this epoch that was named earlier is still to come. */
  #settledUlid(): string {
    let oldest = this.#options.world.ulid();
    for (const id of this.#uploading) {
      const ulid = id.slice(-oldest.length);
      if (ulid < oldest) oldest = ulid;
    }
    return oldest;
  }

  async #settle(): Promise<void> {
    if (this.#fenced) throw new Fenced();
    if (!this.#doubt) return;
    const { store, uuid, branchId, world } = this.#options;
    const { head, bytes } = this.#doubt;
    world.crashPoint("head-put");
    const outcome = await settledPut(store, headKey(uuid, branchId), bytes, this.#condition);
    world.crashPoint("head-landed");
    if (outcome.kind === "lost") {
      // A body that was damaged on its way here is no proof that another writer's stands there.
      if (outcome.current) decodeInDoubt(outcome.current.bytes);
      this.#fenced = true;
      throw new Fenced();
    }
    this.#head = head;
    this.#hash = hashOf(bytes);
    this.#condition = { kind: "version", version: outcome.version };
    this.#doubt = undefined;
    this.#options.landed?.(bytes.length);
  }
}

/** Throws unless the bytes are a head: then the outcome is as unknown as before. */
function decodeInDoubt(bytes: Uint8Array): void {
  try {
    decodeHead(bytes);
  } catch (error) {
    throw new StoreError("unknown_outcome", "a head was put and could not be read back", { cause: error });
  }
}

