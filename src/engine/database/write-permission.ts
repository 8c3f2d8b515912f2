/**
 * This node's right to write one open branch: the lease, the claim, what it has reserved, and how far it may run ahead.
 *
 * Always true: nothing is committed while the database's lease is not held, before the claim has landed in the branch's
 * manifest, nor beyond the transaction ids that the claim has reserved there. Without a shipper (shipping is off)
 * everything is allowed and nothing is durable.
 */
import { invalid, ServiceError } from "../../base/faults/errors.ts";
import type { WriterEpoch } from "../../format/history/manifest.ts";
import type { ManifestWriter } from "../history/manifest-writer.ts";
import { isFull } from "../compaction/timeline-length.ts";
import type { LeaseState } from "../api/lease-expiry.ts";
import { isTxidLost } from "../history/timelines.ts";
import { notShipping } from "./refusals.ts";
import type { Shipper } from "../shipping/shipper.ts";
import type { Backlog } from "../api/measures.ts";

export interface WritePermissionOptions {
  readonly manifest: ManifestWriter;
  readonly leaseState: LeaseState;
  /** Undefined when nothing is shipped. */
  readonly shipper: Shipper | undefined;
  /** Makes this node the branch's writer, durably. */
  readonly claim: () => Promise<WriterEpoch>;
  /** The newest transaction id that the file holds. */
  readonly knownTxid: number;
  /** Whether nothing that the branch ever acknowledged can be missing from the file. */
  readonly knowsAll: boolean;
  readonly unshippedMsMax: number;
  readonly unshippedBytesMax: number;
}

export class WritePermission {
  readonly #options: WritePermissionOptions;
  #writerEpoch: WriterEpoch | undefined;
  #claiming = false;
  #nextTxid: number;

  constructor(options: WritePermissionOptions) {
    this.#options = options;
    this.#nextTxid = options.knownTxid + 1;
  }

  /** The transaction id of the next commit. */
  get nextTxid(): number {
    return this.#nextTxid;
  }

  /** What the state row says of whose commit it is. */
  get writerEpochId(): Uint8Array | undefined {
    return this.#writerEpoch?.id;
  }

  /** Whether a write costs no claim. */
  get claimed(): boolean {
    return this.#writerEpoch !== undefined || this.#options.shipper === undefined;
  }

  get claiming(): boolean {
    return this.#claiming;
  }

  /** Whether this node holds the database: without that it begins no write. */
  get isHeld(): boolean {
    return this.#leaseEpoch !== undefined;
  }

  /** Whether other nodes may hold the database at other times. */
  get isShared(): boolean {
    return this.#leaseEpoch !== 0;
  }

  get #leaseEpoch(): number | undefined {
    return this.#options.leaseState.getLeaseEpoch(this.#options.manifest.now.uuid);
  }

  /**
   * Whether no other node can have a newer state than this one: only then is the local disk enough for an answer. A
   * branch that is not claimed may just be getting the last manifest of its previous writer.
   */
  get isSole(): boolean {
    const { leaseState, manifest } = this.#options;
    if (!this.isShared) return true;
    return this.isHeld && leaseState.isLive && this.#writerEpoch !== undefined && !manifest.fenced;
  }

  /**
   * Whether the next transaction id is within what the manifest has reserved; if not, the next manifest will reserve
   * more.
   */
  get reserved(): boolean {
    const { shipper, manifest } = this.#options;
    if (!shipper || this.#nextTxid <= manifest.now.reservedTo) return true;
    shipper.hurry(this.#nextTxid - 1);
    return false;
  }

  /** Whether object storage covers everything up to here. */
  covers(txid: number): boolean {
    return this.#options.shipper === undefined || this.#options.manifest.now.txid >= txid;
  }

  /**
   * What waits, when so many writes wait for their turn, this was committed last, and the shipper was not told of so
   * much of the log.
   */
  backlog(writes: number, committedTxid: number, unseenBytes: number): Backlog {
    const { shipper, manifest } = this.#options;
    const txids = shipper ? Math.max(0, committedTxid - manifest.now.txid) : 0;
    return {
      writes,
      txids,
      bytes: txids > 0 ? shipper!.unshippedBytes + unseenBytes : 0,
      ms: shipper?.unshippedMs ?? 0,
    };
  }

  /**
   * Why no more may be committed now: too much is unshipped, the reserved ids are used up and no more can be had, or
   * the timeline has no room for what would be shipped. A node that has not claimed the branch claims it first: then it
   * is packed.
   */
  get lag(): string | undefined {
    const { manifest, shipper, unshippedBytesMax, unshippedMsMax } = this.#options;
    if (!shipper) return undefined;
    if (this.claimed && isFull(manifest.now, shipper.unshippedBytes))
      return "the branch's history must be packed first: it is in as many objects as a branch may have";
    const isOver = shipper.unshippedBytes > unshippedBytesMax || shipper.unshippedMs > unshippedMsMax;
    if (!isOver && (!shipper.failing || !this.claimed || this.reserved)) return undefined;
    return "object storage lags behind: too much is not shipped yet";
  }

  /**
   * Why an answer from the state `committedTxid` cannot be from one that the caller says it has seen; undefined when it
   * can.
   */
  findMinTxidRefusal(minTxid: number, committedTxid: number, safeTxid: number): ServiceError | undefined {
    const { manifest, knowsAll } = this.#options;
    const { reservedTo, txid } = manifest.now;
    // What a writer before us had reserved beyond its manifest may have been given, and cannot be recovered any more.
    const isUnknown = !this.claimed && !knowsAll && minTxid > Math.max(txid, committedTxid) && minTxid <= reservedTo;
    if (isUnknown || isTxidLost(manifest.now, minTxid)) {
      return new ServiceError(
        "conflict",
        `transaction ${minTxid} was lost before it reached object storage; the branch stands at ${safeTxid}`,
      );
    }
    // What the writer never gave cannot be waited for.
    if (minTxid <= committedTxid) return undefined;
    return invalid(`Service-Min-Txid ${minTxid} was never given by this branch, which stands at ${safeTxid}`);
  }

  /** Claims the branch; one claim at a time, the others share it by asking again. */
  async claim(): Promise<void> {
    this.#claiming = true;
    try {
      const writerEpoch = await this.#options.claim();
      this.#nextTxid = Math.max(this.#nextTxid, writerEpoch.firstTxid);
      this.#writerEpoch = writerEpoch;
      this.#options.shipper?.claimed();
    } finally {
      this.#claiming = false;
    }
  }

  /** The commit of `nextTxid` has happened. Gives its transaction id. */
  committed(): number {
    return this.#nextTxid++;
  }

  /** The shipper, for what needs object storage; refuses when nothing is shipped. */
  get shipper(): Shipper {
    if (this.#options.shipper) return this.#options.shipper;
    throw notShipping();
  }

  get shipperOrNone(): Shipper | undefined {
    return this.#options.shipper;
  }
}
