/**
 * The manifest of one branch as its writer sees it: read once, then moved by compare-and-set, one change at a time.
 *
 * Always true:
 * - the manifest held here is the newest that is known to have landed
 * - a body in doubt is offered again, and its outcome known, before another one is made from it
 * - once another writer's manifest is there, this one is fenced for good
 *
 * Must not know: files, queues.
 */
import { assert } from "../../base/faults/assert.ts";
import { ServiceError, StoreError } from "../../base/faults/errors.ts";
import { limits } from "../../base/limits.ts";
import { ulidAfter, type World } from "../../base/world.ts";
import {
  decodeManifest,
  encodeManifest,
  computeSha256,
  type Manifest,
  type WriterEpoch,
  type TxidRange,
} from "../../format/history/manifest.ts";
import { manifestKey, poolId } from "../../format/keys/object-keys.ts";
import { NewerFormat } from "../../format/core/versions.ts";
import type { ObjectStore, PutCondition } from "../../store/port/object-store.ts";
import { sameBytes, putUntilKnown } from "../../store/port/sure-put.ts";
import { isNewer } from "../local/seen-manifests.ts";
import { withLost } from "./timelines.ts";
import { brokenManifest } from "../api/missing-objects.ts";

const nonceBytes = 16;
const noHash = new Uint8Array(32);

/** Another writer has claimed the branch: whatever this one still holds must not be shipped. */
export class Fenced extends ServiceError {
  /**
   * Whether it is another node's claim, and not a manifest of our own or one that was there before ours was read anew.
   */
  readonly byOther: boolean;
  /** Whether no newer manifest is there: it was lost, or put back to an older one. */
  readonly isGone: boolean;

  constructor(byOther = true, isGone = false) {
    const why = isGone
      ? "the branch's manifest is not in object storage as this node has put it there"
      : "another node has claimed this branch";
    super("unavailable", `${why}; whether this write survives is not known`, { retryAfterSecs: 1 });
    this.byOther = byOther;
    this.isGone = isGone;
  }
}

/** What a change may set; the rest is the manifest's own bookkeeping. */
export type ManifestChange = Partial<Omit<Manifest, "uuid" | "branchId" | "seq" | "nonce" | "prevHash" | "node">>;

export interface ManifestWriterOptions {
  readonly store: ObjectStore;
  readonly world: World;
  readonly nodeId: string;
  readonly uuid: string;
  readonly branchId: string;
  /** Called with the bytes of each manifest that landed. */
  readonly landed?: (bytes: number) => void;
}

interface Doubt {
  readonly manifest: Manifest;
  readonly bytes: Uint8Array;
}

/** The body that starts a branch which was never written. */
function unwritten(uuid: string, branchId: string): Manifest {
  return {
    uuid,
    branchId,
    epoch: 0,
    seq: 0,
    nonce: new Uint8Array(nonceBytes),
    prevHash: noHash,
    node: "",
    writerEpochs: [],
    lost: [],
    txid: 0,
    committedAtMs: 0,
    reservedTo: 0,
    pages: 0,
    fromTxid: 0,
    floorTxid: 0,
    refs: [],
    tail: [],
    history: undefined,
    garbageBelowUlid: "",
  };
}

export class ManifestWriter {
  readonly #options: ManifestWriterOptions;
  #manifest: Manifest;
  /** SHA-256 of the newest manifest's bytes; undefined while the branch has none. */
  #hash: Uint8Array | undefined;
  #condition: PutCondition;
  #doubt: Doubt | undefined;
  #writerEpoch: WriterEpoch | undefined;
  #fenced: Fenced | undefined;
  /** The end of the queue of changes to the manifest. */
  #turn: Promise<unknown> = Promise.resolve();
  #newestUlid = "";
  /** Objects that are being uploaded and not published yet, oldest name first. */
  readonly #uploading = new Set<string>();

  private constructor(
    options: ManifestWriterOptions,
    found: { readonly manifest: Manifest; readonly bytes: Uint8Array; readonly version: string } | undefined,
  ) {
    this.#options = options;
    this.#manifest = found?.manifest ?? unwritten(options.uuid, options.branchId);
    this.#hash = found && computeSha256(found.bytes);
    this.#condition = found ? { kind: "version", version: found.version } : { kind: "absent" };
  }

  /** Reads the manifest. `exists` is false for a branch that was never written. */
  static async read(options: ManifestWriterOptions): Promise<ManifestWriter> {
    const found = await options.store.get(manifestKey(options.uuid, options.branchId));
    if (!found) return new ManifestWriter(options, undefined);
    const manifest = decodeStored(options, found.bytes);
    if (manifest.uuid !== options.uuid || manifest.branchId !== options.branchId)
      throw new StoreError("corrupt", "a manifest stands under another branch's name");
    return new ManifestWriter(options, { manifest, bytes: found.bytes, version: found.version });
  }

  /** Whether the branch has a manifest in the store. */
  get exists(): boolean {
    return this.#hash !== undefined;
  }

  /** The newest manifest that is known to have landed. */
  get now(): Manifest {
    return this.#manifest;
  }

  /** This writer's claim, once it has landed. */
  get writerEpoch(): WriterEpoch | undefined {
    return this.#writerEpoch;
  }

  get fenced(): boolean {
    return this.#fenced !== undefined;
  }

  /** What this one was fenced by. */
  get fence(): Fenced | undefined {
    return this.#fenced;
  }

  /**
   * Makes this node the branch's writer: a new epoch and writer epoch, from which instant every older writer's
   * compare-and-set fails. The next transaction id is `txid + 1` of what this node provably has (`knownTxid`), or one
   * above everything that was ever reserved when it may have lost some; what lies between is remembered as lost.
   * `first` is the state that a branch without a manifest begins with. `leaseEpoch` is the lease's: epochs are never
   * below it, and never given twice even when the coordination store was put back to an old state and counts from
   * there.
   */
  async claim(knownTxid: number, knowsAll: boolean, first: ManifestChange = {}, leaseEpoch = 0): Promise<WriterEpoch> {
    if (this.#writerEpoch) return this.#writerEpoch;
    await this.#exclusively(async () => {
      await this.#resolveDoubt();
      if (this.#writerEpoch) return;
      const { reservedTo, txid, writerEpochs, lost } = this.#manifest;
      const epoch = Math.max(leaseEpoch, this.#manifest.epoch + 1);
      assert(knownTxid >= txid, "a writer knows at least what its manifest covers");
      const nextTxid = knowsAll ? knownTxid + 1 : Math.max(reservedTo, knownTxid) + 1;
      const gap: TxidRange[] = nextTxid > knownTxid + 1 ? [{ firstTxid: knownTxid + 1, lastTxid: nextTxid - 1 }] : [];
      const writerEpoch: WriterEpoch = {
        epoch,
        id: this.#options.world.randomBytes(16),
        firstTxid: nextTxid,
        lastTxid: nextTxid - 1,
      };
      await this.#move({
        ...first,
        epoch,
        writerEpochs: [...writerEpochs, writerEpoch].slice(-limits.manifestWriterEpochsMax),
        lost: withLost(lost, gap),
        reservedTo: nextTxid - 1 + limits.txidReserve,
      });
      this.#writerEpoch = writerEpoch;
    });
    return this.#writerEpoch!;
  }

  /**
   * Changes the manifest by what `change` gives for the newest one; undefined changes nothing. After a failure it may
   * be called again: an earlier try may have landed meanwhile, so `change` looks at the manifest it is given. Throws
   * Fenced, and StoreError("unavailable") for a timeline that is too long for a manifest.
   */
  async update(change: (manifest: Manifest) => ManifestChange | undefined): Promise<Manifest> {
    await this.#exclusively(async () => {
      await this.#resolveDoubt();
      const next = change(this.#manifest);
      if (!next) return;
      // A copy's manifest is another node's; and what an earlier process of this one claimed is its own.
      assert(
        this.#writerEpoch !== undefined || this.#manifest.node === this.#options.nodeId,
        "a manifest is changed by the node that has claimed it",
      );
      await this.#move(next);
    });
    return this.#manifest;
  }

  /**
   * Makes sure that the newest manifest known here is the one in the store, so that no other writer has claimed the
   * branch since. Throws Fenced.
   */
  async prove(): Promise<void> {
    const { store, uuid, branchId } = this.#options;
    // In turn: an own change that landed meanwhile would look like another writer's.
    await this.#exclusively(async () => {
      if (this.#fenced) throw this.#fenced;
      const found = await store.get(manifestKey(uuid, branchId));
      const isNewest = found ? this.#isHeld(found.bytes) : !this.exists;
      // A body in doubt that has landed is our own too.
      const isOwn = found !== undefined && this.#doubt !== undefined && sameBytes(found.bytes, this.#doubt.bytes);
      if (!isNewest && !isOwn) this.#endBy(found?.bytes);
    });
  }

  /**
   * A name for an object that will be published by a later update; until `endUpload` no collector takes it for garbage.
   * It sorts behind what manifests of this epoch have called settled, also after a restart under a clock that went
   * back.
   */
  beginUpload(): string {
    const { branchId, epoch, garbageBelowUlid } = this.#manifest;
    const ulid = this.#options.world.ulid();
    this.#newestUlid =
      ulid > garbageBelowUlid && ulid > this.#newestUlid
        ? ulid
        : ulidAfter(garbageBelowUlid > this.#newestUlid ? garbageBelowUlid : this.#newestUlid);
    const id = poolId(branchId, epoch, this.#newestUlid);
    this.#uploading.add(id);
    return id;
  }

  /** The object has been published or abandoned. */
  endUpload(id: string): void {
    this.#uploading.delete(id);
  }

  async #exclusively(act: () => Promise<void>): Promise<void> {
    const mine = this.#turn.then(act);
    this.#turn = mine.catch(() => {});
    await mine;
  }

  async #move(change: ManifestChange): Promise<void> {
    const { world, nodeId } = this.#options;
    // Before anything is put: the manifest stays as it is, and takes the change when its timeline is shorter.
    if ((change.refs?.length ?? 0) > limits.timelineRefsMax)
      throw new StoreError("unavailable", "the branch's timeline has no room before it is packed");
    const manifest: Manifest = {
      ...this.#manifest,
      ...change,
      seq: this.#manifest.seq + 1,
      nonce: world.randomBytes(nonceBytes),
      prevHash: this.#hash ?? noHash,
      node: nodeId,
      garbageBelowUlid: this.#computeGarbageBelowUlid(
        change.epoch === undefined ? this.#manifest.garbageBelowUlid : "",
      ),
    };
    this.#doubt = { manifest, bytes: encodeManifest(manifest) };
    await this.#resolveDoubt();
  }

  /**
   * Nothing of this epoch that was named earlier is still to come. Never falls behind an earlier value, nor behind a
   * name that is over: under a clock that went back, garbage with names of the future would otherwise stay that long.
   */
  #computeGarbageBelowUlid(settled: string): string {
    let oldest = this.#options.world.ulid();
    for (const given of [settled, this.#newestUlid]) if (oldest <= given) oldest = ulidAfter(given);
    for (const id of this.#uploading) {
      const ulid = id.slice(-oldest.length);
      if (ulid < oldest) oldest = ulid;
    }
    return oldest;
  }

  async #resolveDoubt(): Promise<void> {
    if (this.#fenced) throw this.#fenced;
    if (!this.#doubt) return;
    const { store, uuid, branchId, world } = this.#options;
    const { manifest, bytes } = this.#doubt;
    for (let attempt = 0; this.#doubt; attempt++) {
      world.crashPoint("head-put");
      const outcome = await putUntilKnown(store, manifestKey(uuid, branchId), bytes, this.#condition);
      world.crashPoint("head-landed");
      if (outcome.kind === "landed") {
        this.#manifest = manifest;
        this.#hash = computeSha256(bytes);
        this.#condition = { kind: "version", version: outcome.version };
        this.#doubt = undefined;
      } else if (outcome.current && this.#isHeld(outcome.current.bytes) && attempt < limits.doubtRetriesMax) {
        // The lost or damaged manifest was put back as it was: no other writer has claimed the branch.
        this.#condition = { kind: "version", version: outcome.current.version };
      } else {
        this.#endBy(outcome.current?.bytes);
      }
    }
    this.#options.landed?.(bytes.length);
  }

  /** Whether the bytes are those of the manifest that is held here. */
  #isHeld(bytes: Uint8Array): boolean {
    return this.#hash !== undefined && sameBytes(computeSha256(bytes), this.#hash);
  }

  /** The store has another manifest, or none: nothing is changed from here any more. */
  #endBy(bytes: Uint8Array | undefined): never {
    // A body that was damaged on its way here is no proof of another writer's manifest; one of a newer build is.
    const standing = bytes && decodeInDoubt(bytes);
    const isClaim =
      standing === undefined ||
      standing === "newer" ||
      (standing.node !== this.#options.nodeId && standing.epoch > this.#manifest.epoch);
    this.#fenced = new Fenced(
      isClaim,
      standing === undefined || (standing !== "newer" && isNewer(this.#manifest, standing)),
    );
    throw this.#fenced;
  }
}

/**
 * The manifest in the bytes that object storage has for the branch. Throws a StoreError that says which manifest is
 * none.
 */
export function decodeStored({ uuid, branchId }: Pick<Manifest, "uuid" | "branchId">, bytes: Uint8Array): Manifest {
  try {
    return decodeManifest(bytes);
  } catch (error) {
    if (error instanceof StoreError && error.kind === "corrupt") throw brokenManifest(uuid, branchId, error);
    throw error;
  }
}

/** Throws unless the bytes are a manifest, of whatever build: then the outcome is as unknown as before. */
function decodeInDoubt(bytes: Uint8Array): Manifest | "newer" {
  try {
    return decodeManifest(bytes);
  } catch (error) {
    if (error instanceof NewerFormat) return "newer";
    throw new StoreError("unknown_outcome", "a manifest could not be read back", { cause: error });
  }
}
