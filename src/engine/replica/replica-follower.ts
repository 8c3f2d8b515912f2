/**
 * Reads on a node that does not hold a database: copies that follow the manifests which another node writes.
 *
 * A copy is the branch's ordinary file, opened without a claim at a manifest's state (engine/opening/branch-opening),
 * and brought forward by closing it and opening it again (engine/pool/registry). How often is looked, and whether a
 * notification comes (engine/replica/manifest-watcher), decides only how old a copy may be.
 *
 * Always true: what is answered from a copy is a state of the history that object storage has, as of the copy's last
 * look at the manifest; of two reads here the second never sees an older manifest. Must not know: leases, other nodes.
 *
 * What this node itself wrote when it was the writer needs care. Its file may be ahead of the manifest, by groups that
 * it acknowledged and has not shipped. While there is no claim since, these are the branch's newest states and shipping
 * them is right: the open handle does so, and the manifest's compare-and-set judges. Once another node has claimed,
 * they are no part of the history, and only the manifest tells which is the case. So nothing is answered from such a
 * handle until everything in it has landed, which proves that at that instant there was no such claim. If there was
 * one, the compare-and-set fails and the handle fails as fenced; opened again, its file is judged and set aside.
 */
import { ServiceError, StoreError } from "../../base/faults/errors.ts";
import { limits } from "../../base/limits.ts";
import { TimeUp, within } from "../../base/time-limit.ts";
import { sleep } from "../../base/world.ts";
import type { Database } from "../database/database.ts";
import {
  ManifestWatcher,
  type Followed,
  type FollowedBranch,
  type ManifestWatcherOptions,
} from "./manifest-watcher.ts";
import type { ReplicaMeasures } from "../api/measures.ts";
import type { Target, Consistency } from "../api/protocol.ts";

/** How long a read waits for its copy to become new enough; then the writer is asked. */
export const replicaPatienceMs = 500;
const replicaPauseMs = 25;

/** How new an answer must be. */
export interface Wanted {
  readonly minTxid: number;
  readonly consistency: Consistency | undefined;
}

export class ReplicaFollower {
  readonly #options: ManifestWatcherOptions;
  readonly #looks: ManifestWatcher;

  constructor(options: ManifestWatcherOptions) {
    this.#options = options;
    this.#looks = new ManifestWatcher(options);
  }

  /**
   * An open copy of the branch that is fresh enough for the call, or undefined when it cannot be had from object
   * storage: the call is then turned away as behind. Throws what the catalog says of a branch that is gone, and
   * StoreError when object storage does not answer and no copy that is here will do. A caller that waits before it uses
   * the copy has to see whether it is still the open one.
   */
  async reach(target: Target, { minTxid, consistency }: Wanted, deadlineMs: number): Promise<Database | undefined> {
    const { registry, world } = this.#options;
    if (consistency === "primary") return undefined;
    const followed = this.#looks.follow(target.uuid);
    const branchId = await this.#branchId(followed, target, consistency);
    const branch = this.#looks.branch(followed, target);
    const untilMs = Math.min(deadlineMs, world.monotonicMs() + replicaPatienceMs);
    const open = registry.peek(target);
    if (!open) branch.lookedAtMs = world.monotonicMs();
    // The name may be another branch's by now.
    else if (open.opened.branchId !== branchId) await registry.removeDeletedBranch(target, open.opened.branchId);
    // While object storage answers, a copy that was not looked after for longer answers no read; `cached` reads
    // neither.
    else if (world.monotonicMs() - branch.lookedAtMs > limits.followLookMsMax)
      await this.#tryLook(followed, branch, untilMs);
    if (followed.purged) throw new ServiceError("database_not_found", "the database was deleted");
    const database = await this.#covered(target, untilMs, deadlineMs);
    if (!database || isReached(database, minTxid)) return database;
    return this.#catchUp(followed, branch, minTxid, untilMs, deadlineMs);
  }

  /** A manifest of the database is said to have moved: looks soon. */
  notify(uuid: string): void {
    this.#looks.notify(uuid);
  }

  /** The copies that are open, and how far they are behind. */
  get measures(): ReplicaMeasures {
    const { registry, world } = this.#options;
    const nowMs = world.monotonicMs();
    let [open, lagTxidsMax, lookedMsMax] = [0, 0, 0];
    for (const { target, newest, lookedAtMs } of this.#looks.branches()) {
      const database = registry.peek(target);
      if (!database || database.claimed) continue;
      open++;
      lagTxidsMax = Math.max(lagTxidsMax, (newest?.txid ?? 0) - database.durableTxid);
      // Not looked after at all yet: then it was opened just now.
      if (lookedAtMs > -Infinity) lookedMsMax = Math.max(lookedMsMax, nowMs - lookedAtMs);
    }
    return { open, lagTxidsMax, lookedMsMax };
  }

  /** Looks at nothing by itself any more. */
  stop(): void {
    this.#looks.stop();
  }

  /**
   * The id of the branch of that name. For what is not open, or not known, the catalog is read anew, unless that was
   * just done.
   */
  async #branchId(followed: Followed, target: Target, consistency: Consistency | undefined): Promise<string> {
    const { registry } = this.#options;
    const { catalogs } = registry;
    if (consistency !== "cached" && !registry.peek(target)) await this.#looks.freshen(followed);
    try {
      return (await catalogs.branch(target.uuid, target.branch)).id;
    } catch (error) {
      if (!(error instanceof ServiceError)) throw error;
      await this.#looks.freshen(followed);
      return (await catalogs.branch(target.uuid, target.branch)).id;
    }
  }

  /** The copy, once object storage covers all of it; undefined when that is not so in time. */
  async #covered(target: Target, untilMs: number, deadlineMs: number): Promise<Database | undefined> {
    const { registry, world } = this.#options;
    for (;;) {
      const database = await registry.use(target, deadlineMs, "newest");
      if (database.isDrained) return database;
      if (world.monotonicMs() >= untilMs) return undefined;
      database.hurry();
      await sleep(world, replicaPauseMs);
    }
  }

  /** Looks until the copy has come as far as the caller has seen, for as long as that can help. */
  async #catchUp(
    followed: Followed,
    branch: FollowedBranch,
    minTxid: number,
    untilMs: number,
    deadlineMs: number,
  ): Promise<Database | undefined> {
    const { world } = this.#options;
    for (let pauseMs = replicaPauseMs; ; pauseMs *= 2) {
      if (!(await this.#within(untilMs, this.#looks.look(followed)))) return undefined;
      if (branch.refreshing && !(await this.#within(untilMs, branch.refreshing))) return undefined;
      const database = await this.#covered(branch.target, untilMs, deadlineMs);
      if (!database || isReached(database, minTxid)) return database;
      // No writer goes beyond what its manifest has reserved, so that there is nothing to wait for here.
      if (minTxid > (branch.newest?.reservedTo ?? 0) || world.monotonicMs() + pauseMs >= untilMs) return undefined;
      await sleep(world, pauseMs);
    }
  }

  /** A look that need not succeed: an old copy will do when object storage does not answer. */
  async #tryLook(followed: Followed, branch: FollowedBranch, untilMs: number): Promise<void> {
    try {
      if ((await this.#within(untilMs, this.#looks.look(followed))) && branch.refreshing)
        await this.#within(untilMs, branch.refreshing);
    } catch (error) {
      if (!(error instanceof StoreError)) throw error;
    }
    // The next reader does not wait for it too.
    branch.lookedAtMs = this.#options.world.monotonicMs();
  }

  /** Whether the act has ended by then. */
  async #within(untilMs: number, act: Promise<void>): Promise<boolean> {
    const { world } = this.#options;
    try {
      await within(world, Math.max(0, untilMs - world.monotonicMs()), () => act);
      return true;
    } catch (error) {
      if (error instanceof TimeUp) return false;
      throw error;
    }
  }
}

/** Whether a state that the caller says it has seen is in the copy, or is known never to come. */
function isReached(database: Database, minTxid: number): boolean {
  const { txid, lost } = database.opened.manifest.now;
  return minTxid <= txid || lost.some(({ firstTxid, lastTxid }) => firstTxid <= minTxid && minTxid <= lastTxid);
}
