/**
 * The branches that this thread has claimed: how a claim is made, for how long it serves, and how it is released.
 *
 * Owns what outlives a handle: the manifests that were claimed (so that a briefly closed branch is not claimed anew),
 * how far branches were answered that may come back with less, and, where nothing coordinates nodes, the branches that
 * were lost to another writer (which this node must not take back by itself, or the two would duel for ever). Always
 * true: with coordination a branch is claimed only while the database is held, and from another node only while the
 * lease is certain. Must not know: open handles, files but the mark of a restored one.
 */
import { ServiceError, StoreError } from "../../base/faults/errors.ts";
import { LruMap } from "../../base/collections/lru-map.ts";
import { sleep, type World } from "../../base/world.ts";
import type { WriterEpoch } from "../../format/history/manifest.ts";
import type { Alarms } from "../api/alarms.ts";
import { Fenced, type ManifestWriter } from "../history/manifest-writer.ts";
import type { Catalogs } from "../history/catalogs.ts";
import type { DatabaseEvents } from "../database/database-options.ts";
import { TurnedAway } from "../api/engine-port.ts";
import type { SeenManifests } from "../local/seen-manifests.ts";
import type { LeaseState } from "../api/lease-expiry.ts";
import type { LostObject } from "../api/missing-objects.ts";
import type { Opened } from "../opening/opened-file.ts";
import { fenceWriter } from "../branches/fence-writer.ts";
import type { PageSource } from "../segments/pool-objects.ts";
import type { EngineOptions } from "../api/protocol.ts";
import { removeRestoredMarker } from "../opening/restored-file.ts";
import type { ShippingParts } from "../shipping/shipper.ts";
import { recordWriterEpoch, shipDifference, claimWriterEpoch, type WriterEpochParts } from "./writer-epoch.ts";

const manifestsHeldMax = 10_000;
/**
 * Branches whose handle failed, with how far they were answered: of those beyond, the highest such point serves for
 * all.
 */
const answeredRememberedMax = 10_000;
/** Branches that a thread remembers to have lost to another node. */
const lostRememberedMax = 10_000;

/** What claims are made with, and whom they are told to. */
export interface BranchClaimsParts {
  readonly engine: Pick<EngineOptions, "nodeId" | "coordinated" | "shipping">;
  readonly leaseState: LeaseState;
  readonly world: World;
  readonly shipping: Pick<ShippingParts, "permits" | "bytesPut">;
  readonly catalogs: Catalogs;
  readonly places: SeenManifests;
  readonly alarms: Alarms;
  readonly source: (uuid: string) => PageSource;
  /** A manifest of the database, of this many bytes, has landed. */
  readonly manifestLanded: (uuid: string, bytes: number) => void;
  /** Another node's claim of a branch was met in the place of this node's. */
  readonly fenced: (uuid: string) => void;
  /** The branch was claimed, or groups of it were published: its timeline may want work. */
  readonly moved: (manifest: ManifestWriter) => void;
  /**
   * There may be something to collect: the branch was claimed, and its previous writer may have left objects behind.
   */
  readonly mayCollect: (uuid: string) => void;
}

/** The claims of one engine thread. */
export class BranchClaims {
  readonly #parts: BranchClaimsParts;
  /** Claimed manifests of branches, by file. */
  readonly #held = new LruMap<string, ManifestWriter>(manifestsHeldMax);
  /**
   * Branches that another node has claimed from us. One that is forgotten may be taken back once, which loses nothing,
   * as claims fence each other. Two nodes that must each lose that many others in between do not duel.
   */
  readonly #lost = new LruMap<string, true>(lostRememberedMax);
  /** How far each branch was answered from a failed handle, until its next claim: its file may come back with less. */
  readonly #answered = new LruMap<string, number>(answeredRememberedMax, (_, txid) => {
    this.#answeredByForgotten = Math.max(this.#answeredByForgotten, txid);
  });
  /** No branch that `#answered` has forgotten was answered beyond this: a file with less is taken to lack something. */
  #answeredByForgotten = 0;

  constructor(parts: BranchClaimsParts) {
    this.#parts = parts;
  }

  /** The manifest of the branch that was claimed here, if it still serves. */
  findManifest(uuid: string, branchId: string): ManifestWriter | undefined {
    return this.#held.get(buildKey(uuid, branchId));
  }

  /** What was opened, with whether it can lack something judged by what was answered before it was opened. */
  judged(found: Opened): Opened {
    return {
      ...found,
      knowsAll:
        found.knowsAll &&
        found.state.txid >= (this.#answered.peek(buildKey(found.uuid, found.branchId)) ?? this.#answeredByForgotten),
    };
  }

  /** A handle on the branch failed, from which it was answered up to the id: its manifest is not certain any more. */
  lose({ uuid, branchId, manifest }: Opened, error: unknown, answeredTxid: number): void {
    const key = buildKey(uuid, branchId);
    this.#held.delete(key);
    if (error instanceof Fenced && manifest.writerEpoch && !error.isGone && !this.#parts.engine.coordinated)
      this.#lost.set(key, true);
    if (error instanceof Fenced && error.byOther) this.#parts.fenced(uuid);
    this.#answered.set(key, Math.max(answeredTxid, this.#answered.peek(key) ?? 0));
  }

  /** The branch exists no more. */
  remove(uuid: string, branchId: string): void {
    this.#held.delete(buildKey(uuid, branchId));
  }

  /** Forgets what was claimed of the database, and gives it: the next opening of a branch reads its manifest anew. */
  forget(uuid: string): ManifestWriter[] {
    const keys = [...this.#held.keys()].filter((key) => key.startsWith(`${uuid}/`));
    const manifests = keys.map((key) => this.#held.peek(key)!);
    for (const key of keys) this.#held.delete(key);
    return manifests;
  }

  /**
   * Releases the transaction ids that were reserved and never used: the next claim of a branch, on whatever disk, then
   * shows that nothing is missing. For when nothing is written any more, and only where object storage covers all that
   * was: `isCovered` says for which manifests. What is not released by `untilMs` stays reserved and costs a gap.
   */
  async releaseAllIds(isCovered: (manifest: ManifestWriter) => boolean, untilMs: number): Promise<void> {
    // With shipping off nothing is covered, whatever a handle says.
    if (!this.#parts.engine.shipping) return;
    await this.releaseIds([...this.#held.values()].filter(isCovered), untilMs);
  }

  /**
   * As releaseAllIds, for these manifests, as far as they were claimed here: nothing is written under them any more,
   * and all that was is covered.
   */
  async releaseIds(covered: readonly ManifestWriter[], untilMs: number): Promise<void> {
    const { world, shipping } = this.#parts;
    const manifests = covered.filter((manifest) => manifest.writerEpoch !== undefined && !manifest.fenced);
    const givings = manifests.map((manifest) =>
      shipping.permits.run(async () => {
        if (world.monotonicMs() < untilMs) await releaseIds(manifest);
      }),
    );
    await Promise.race([Promise.all(givings), sleep(world, Math.max(0, untilMs - world.monotonicMs()))]);
  }

  /** Ships what the file has beyond its manifest, where the log that led there is gone. */
  async shipDifference(opened: Opened): Promise<void> {
    await shipDifference(this.#writerEpochParts(opened.uuid), opened);
  }

  /** What there is of `main` is in its manifest, which holds: it is served on. */
  catalogLost(uuid: string, error: LostObject, notice: DatabaseEvents["notice"]): void {
    notice(error.message);
    this.#parts.alarms.note(uuid, "catalog", error);
  }

  /**
   * Makes this node the branch's writer, or says that it is. Throws Fenced when another node has claimed it since it
   * was opened.
   */
  async claim(opened: Opened, notice: DatabaseEvents["notice"]): Promise<WriterEpoch> {
    const { leaseState, places } = this.#parts;
    const { manifest, uuid } = opened;
    const key = buildKey(uuid, opened.branchId);
    if (this.#lost.get(key)) {
      throw new ServiceError(
        "unavailable",
        "another node has claimed this branch; this one does not write it again until it is started anew",
        { retryAfterSecs: 30 },
      );
    }
    const leaseEpoch = leaseState.getLeaseEpoch(uuid);
    if (leaseEpoch === undefined) throw new TurnedAway("unheld");
    if (manifest.writerEpoch && this.#held.peek(key) === manifest) {
      // Restored under a claim that this thread has: what is acknowledged from now on is in the file.
      removeRestoredMarker(opened.connection.path);
      return manifest.writerEpoch;
    }
    const writerEpoch = manifest.writerEpoch ?? (await this.#claimAnew(opened, leaseEpoch));
    this.#parts.alarms.clear(uuid, "catalog");
    await recordWriterEpoch(this.#writerEpochParts(uuid), opened, (error) => this.catalogLost(uuid, error, notice));
    places.note(manifest.now);
    places.save(uuid, manifest.now.branchId);
    this.#answered.delete(key);
    this.#held.set(key, manifest);
    this.#parts.mayCollect(uuid);
    this.#parts.moved(manifest);
    return writerEpoch;
  }

  async #claimAnew(opened: Opened, leaseEpoch: number): Promise<WriterEpoch> {
    const { leaseState, engine } = this.#parts;
    const { manifest } = opened;
    // The node that holds the database meanwhile acknowledges what is on its own disk alone, once it has claimed the
    // branch: it must not lose that to a lease that has run out. A manifest under our own name was not claimed since.
    if (!leaseState.isLive && manifest.exists && manifest.now.node !== engine.nodeId) {
      throw new ServiceError(
        "unavailable",
        "this node's lease is not certain now, and another node may write this branch; nothing was written",
        { retryAfterSecs: 1 },
      );
    }
    if (await this.#isDeletedByOther(opened)) throw new Fenced(false);
    return this.#claimWriterEpoch(opened, leaseEpoch);
  }

  /** Whether the branch's last writer, another node, has deleted it: its name may be another branch's by now. */
  async #isDeletedByOther({ manifest, uuid, branchId }: Opened): Promise<boolean> {
    if (!manifest.exists || manifest.now.node === this.#parts.engine.nodeId) return false;
    const catalog = await this.#parts.catalogs.fresh(uuid);
    return catalog !== undefined && catalog.branches.every(({ id }) => id !== branchId);
  }

  /**
   * Claims the branch at the manifest it was opened at. Throws Fenced when that manifest has been replaced: then the
   * branch is opened anew.
   */
  async #claimWriterEpoch(opened: Opened, leaseEpoch: number): Promise<WriterEpoch> {
    const { leaseState, engine, world } = this.#parts;
    const { uuid, branchId } = opened;
    try {
      return await claimWriterEpoch(this.#writerEpochParts(uuid), opened, leaseEpoch);
    } catch (error) {
      if (!(error instanceof Fenced) || error.byOther || !engine.coordinated) throw error;
      // Its last writer goes on, maybe faster than a file is opened: it is stopped first, and the file opened where it
      // stopped.
      const mayStop = (): boolean => leaseState.isLive && leaseState.getLeaseEpoch(uuid) === leaseEpoch;
      const landed = (bytes: number): void => this.#parts.manifestLanded(uuid, bytes);
      await fenceWriter(
        { store: this.#parts.source(uuid).store, world, nodeId: engine.nodeId, uuid, branchId, landed },
        mayStop,
        leaseEpoch,
      );
      throw error;
    }
  }

  #writerEpochParts(uuid: string): WriterEpochParts {
    const { source, catalogs, world, shipping } = this.#parts;
    return { source: source(uuid), catalogs, world, bytesPut: shipping.bytesPut };
  }
}

/** The key of a branch. Neither id holds a slash, so the two parts can never run into each other. */
function buildKey(uuid: string, branchId: string): string {
  return `${uuid}/${branchId}`;
}

async function releaseIds(manifest: ManifestWriter): Promise<void> {
  try {
    await manifest.update(({ reservedTo, txid, writerEpochs }) => {
      // What lies before the claim's own first id, a writer before it may have given, whether or not anything was
      // committed since.
      const givenTo = Math.max(txid, (writerEpochs.at(-1)?.firstTxid ?? 1) - 1);
      return reservedTo > givenTo ? { reservedTo: givenTo } : undefined;
    });
  } catch (error) {
    // A store that does not answer, or a branch that is another node's by now: the ids stay reserved.
    if (!(error instanceof StoreError) && !(error instanceof Fenced)) throw error;
  }
}
