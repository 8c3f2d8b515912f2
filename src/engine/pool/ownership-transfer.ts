/**
 * Takes databases over and hands them over: what comes before the first write under a lease, and after the last one.
 *
 * Always true: a database counts as held only once its open branches are at their newest manifests, and neither a claim
 * nor a change of its branches that another holder has sent can land any more; it is handed over only when object
 * storage has all of it and nothing is written under its old claims. The turns of one database never overlap. Must not
 * know: which node should hold what, what is asked of a database.
 */
import { ServiceError } from "../../base/faults/errors.ts";
import { limits } from "../../base/limits.ts";
import { KeyedMutex } from "../../base/collections/keyed-mutex.ts";
import { sleep, type World } from "../../base/world.ts";
import { Fenced } from "../history/manifest-writer.ts";
import type { Database } from "../database/database.ts";
import type { DatabaseOpener } from "./database-opener.ts";
import { TurnedAway } from "../api/engine-port.ts";
import type { LeaseState, LeaseSpan } from "../api/lease-expiry.ts";
import type { Registry } from "./registry.ts";
import type { Compactor } from "../compaction/compactor.ts";

export interface OwnershipTransferOptions {
  readonly leaseState: LeaseState;
  readonly registry: Registry;
  readonly opener: DatabaseOpener;
  readonly compactor: Compactor;
  readonly world: World;
  /** Something an operator should know; never content. */
  readonly notice: (message: string, uuid: string) => void;
}

export class OwnershipTransfer {
  readonly #options: OwnershipTransferOptions;
  /** For taking and handing over databases, by uuid. */
  readonly #turns = new KeyedMutex();
  /** Counts the losses of the node's lease. */
  #losses = 0;

  constructor(options: OwnershipTransferOptions) {
    this.#options = options;
  }

  /** The node's leases surely hold until then; undefined when they are lost, and every database with them. */
  renewLease(until: LeaseSpan | undefined): void {
    const { leaseState, registry } = this.#options;
    leaseState.renew(until);
    if (until !== undefined) return;
    this.#losses++;
    for (const database of registry.databases()) database.turnAway();
  }

  /**
   * The node holds the database under the lease epoch; resolves when this thread writes it. Under the same lease epoch
   * again it changes nothing.
   */
  hold(uuid: string, leaseEpoch: number): Promise<void> {
    return this.#turns.take(uuid, () => this.#take(uuid, leaseEpoch));
  }

  /**
   * Ends the node's holding of the database: no write begins any more; resolves when another node finds everything in
   * object storage. Refused with `unavailable` when that takes too long: then the next holder goes on without what lies
   * here, and its claim keeps it from being shipped, so that the lease had better stay.
   */
  releaseDatabase(uuid: string): Promise<void> {
    this.releaseLease(uuid);
    return this.#turns.take(uuid, () => this.#handOver(uuid));
  }

  /**
   * The database is not held from this very instant: what has not begun is turned away. Gives the lease epoch that
   * ends.
   */
  releaseLease(uuid: string): number | undefined {
    const { leaseState } = this.#options;
    const leaseEpoch = leaseState.getLeaseEpoch(uuid);
    leaseState.releaseDatabase(uuid);
    for (const database of this.#listOpen(uuid)) database.turnAway();
    return leaseEpoch;
  }

  async #take(uuid: string, leaseEpoch: number): Promise<void> {
    const { leaseState, registry } = this.#options;
    if ((leaseState.getLeaseEpoch(uuid) ?? -1) >= leaseEpoch) return;
    // Another node may have had it between an older lease epoch and this one.
    this.releaseLease(uuid);
    const losses = this.#losses;
    await registry.freshen(uuid);
    await registry.catalogs.confirm(uuid);
    for (const database of this.#listOpen(uuid)) if (database.claimed) await this.#confirm(database);
    if (losses !== this.#losses) throw new TurnedAway("unheld");
    leaseState.hold(uuid, leaseEpoch);
  }

  /**
   * Moves the manifest of a branch that this node has claimed. A look at it would not do: a claim that another node
   * sent while it still held the database may be on its way, and would land on an unchanged manifest.
   */
  async #confirm(database: Database): Promise<void> {
    try {
      await database.opened.manifest.update(() => ({}));
    } catch (error) {
      if (!(error instanceof Fenced)) throw error;
      database.failHandle(error);
    }
  }

  async #handOver(uuid: string): Promise<void> {
    const { registry, opener, compactor, world, notice } = this.#options;
    const untilMs = world.monotonicMs() + limits.lastShipMs;
    // A hold that was under way may have ended meanwhile.
    this.releaseLease(uuid);
    // Before anything closes: what is opened from now on is opened at the newest manifest.
    const forgotten = opener.claims.forget(uuid);
    const { closed, isCovered } = await registry.release(uuid, untilMs);
    // A job that changes a manifest later would only cost the next holder a try.
    await Promise.race([compactor.over(uuid), sleep(world, Math.max(0, untilMs - world.monotonicMs()))]);
    const open = new Set(this.#listOpen(uuid).map(({ opened }) => opened.manifest));
    await opener.claims.releaseIds(
      [...new Set([...forgotten, ...closed])].filter((manifest) => !open.has(manifest)),
      untilMs,
    );
    if (isCovered) return;
    notice("a database was let go of before all of it was shipped; the rest stays in its log", uuid);
    throw new ServiceError("unavailable", "the database could not be shipped in time", { retryAfterSecs: 1 });
  }

  #listOpen(uuid: string): Database[] {
    return [...this.#options.registry.databases()].filter(({ opened }) => opened.uuid === uuid);
  }
}
