/**
 * What a node does for the databases of others: it purges its copies when an erasure or a deletion waits for them; and
 * in its shards it takes up deletions whose objects are still to be removed, and orders the copies of other nodes.
 *
 * Always true: an order is removed only after the engine has answered it; what fails is done again at the next look. A
 * node that starts does this first, so that it serves nothing whose purge was ordered while it was down. Two nodes that
 * take up one deletion do no harm: what is removed is never written again. Must not know: what was erased.
 */
import { getErrorCode, ServiceError, StoreError } from "../../base/faults/errors.ts";
import { limits } from "../../base/limits.ts";
import type { Log } from "../../base/log.ts";
import { LruMap } from "../../base/collections/lru-map.ts";
import { RisingPause, Rounds } from "../../base/rounds.ts";
import { sleep, type World } from "../../base/world.ts";
import type { CopyRecords } from "../../control/databases/copy-records.ts";
import type { Databases } from "../../control/databases/databases.ts";
import type { OwnedShards } from "../../control/databases/owned-pages.ts";
import type { EnginePort } from "../../engine/api/engine-port.ts";
import type { EngineClient } from "../../engine/threads/client.ts";
import { isStanding } from "../../format/records/copy-record.ts";
import { mainBranch } from "../../format/core/names.ts";
import type { CopyPlace } from "../../format/keys/node-keys.ts";

/**
 * How often a node looks whether its copies are to be purged, and for deleted databases in its shards; more and more
 * rarely, up to `shardLookMsMax`, while it finds none.
 */
export const replicaPurgerMs = 30_000;
/**
 * A deleted database that is still not gone is asked for again after the first time, and then later and later, up to
 * the second.
 */
const deletedLookMsMin = 30_000;
const deletedLookMsMax = 3_600_000;
/** Purges of copies that one look carries out; the next one goes on. */
const copyOrdersMax = 10_000;
/**
 * How long a node that starts goes on purging copies before it serves; the rest goes while it serves, and their
 * erasures wait.
 */
const replicaPurgerStartMs = 30_000;

export interface ReplicaRemoverParts {
  readonly world: World;
  readonly log: Log;
  readonly engine: EnginePort;
  readonly databases: Databases;
  /** Absent where this node is alone: then all of it is its own. */
  readonly cluster?: ReplicaRemoverCluster | undefined;
}

export interface ReplicaRemoverCluster {
  /** This node's own engine. */
  readonly local: Pick<EngineClient, "removeCopies">;
  readonly copies: CopyRecords;
  readonly nodeId: string;
  /** What this node is the one to look after. */
  readonly shards: OwnedShards;
  /** Has the node look at once for copies that it is to purge; one that is not reached looks by itself. */
  readonly nudge: (nodeId: string) => void;
}

/** A deleted database that this node looks after. */
interface Deleted {
  /** Whether its objects are being removed here. */
  isBeingPurged: boolean;
  /** When it is asked for again, on world.monotonicMs(), and how long that was put off. */
  nextMs: number;
  readonly pause: RisingPause;
}

export class ReplicaRemover {
  readonly #parts: ReplicaRemoverParts;
  readonly #deleted = new LruMap<string, Deleted>(limits.copiesRememberedMax);
  readonly #rounds: Rounds;
  readonly #pause = new RisingPause(replicaPurgerMs, limits.shardLookMsMax);
  /** Whether the last look found anything that is new, or failed. */
  #isBusy = true;

  constructor(parts: ReplicaRemoverParts) {
    this.#parts = parts;
    // A lone node hears of every deletion, and of no order.
    this.#rounds = new Rounds({
      world: parts.world,
      pauseMs: parts.cluster ? () => this.#pause.after(this.#isBusy) : limits.auditSweepMs,
      round: () => this.look(),
    });
  }

  /**
   * Carries out, for a while, what was ordered while the node was down, and looks after orders from now on. A lone node
   * waits for nothing.
   */
  async start(): Promise<void> {
    const { world, cluster } = this.#parts;
    const first = this.#rounds.start();
    if (cluster) await Promise.race([first, sleep(world, replicaPurgerStartMs)]);
  }

  /** Looks now: there is an order for this node, or shards have become its own. */
  hurry(): void {
    this.#rounds.hurry();
  }

  /** Begins nothing more, and waits a moment for what is under way. */
  async close(): Promise<void> {
    await this.#rounds.close(limits.jobStopMs);
  }

  /** One look at everything. Gives whether all of it could be done. */
  async look(): Promise<boolean> {
    this.#isBusy = false;
    const ordered = await this.#told("copies that are to be purged could not be looked for", () =>
      this.#carryOutOrders(),
    );
    const deleted = await this.#told("deleted databases could not be looked for", () => this.#takeUpDeletions());
    if (!ordered || !deleted) this.#isBusy = true;
    return ordered && deleted;
  }

  async #carryOutOrders(): Promise<void> {
    const { cluster } = this.#parts;
    if (!cluster) return;
    const byDatabase = new Map<string, CopyPlace[]>();
    let count = 0;
    for await (const place of cluster.copies.orders(cluster.nodeId)) {
      byDatabase.set(place.uuid, [...(byDatabase.get(place.uuid) ?? []), place]);
      if (++count >= copyOrdersMax) break;
    }
    for (const [uuid, places] of byDatabase) {
      if (this.#rounds.closing) return;
      this.#isBusy = true;
      await this.#told(
        "this node's copies of a database could not be purged yet",
        async () => {
          await this.#removeLocally(uuid, cluster);
          // Where nothing was purged this node writes the database and cleans it itself; its next writer orders anew.
          for (const place of places) await cluster.copies.fulfilled(place);
        },
        uuid,
      );
    }
  }

  /**
   * What is deleted in this node's shards, each at its own pace: while a node that is down keeps a copy, nothing
   * changes. A lone node waits for no other: it removes each once.
   */
  async #takeUpDeletions(): Promise<void> {
    const { cluster, databases, engine, log, world } = this.#parts;
    const isDue = (uuid: string): boolean => world.monotonicMs() >= (this.#deleted.peek(uuid)?.nextMs ?? -Infinity);
    for (const uuid of await databases.deletedUuids(cluster?.shards, isDue)) {
      if (this.#rounds.closing) return;
      // What was asked for before has a pace of its own.
      this.#isBusy ||= !this.#deleted.has(uuid);
      const deleted = this.#deleted.get(uuid) ?? {
        isBeingPurged: false,
        nextMs: 0,
        pause: new RisingPause(deletedLookMsMin, deletedLookMsMax),
      };
      await this.#told(
        "a deleted database could not be taken care of yet",
        async () => {
          if (!deleted.isBeingPurged) {
            await engine.deleteTarget({ uuid, branch: mainBranch }, { deadlineMs: this.#soon() });
            deleted.isBeingPurged = true;
            log.info("a deleted database is being purged", { uuid });
          }
          if (cluster) await this.#orderCopies(uuid, cluster);
          deleted.nextMs = world.monotonicMs() + (cluster ? deleted.pause.after(false) : Infinity);
          this.#deleted.set(uuid, deleted);
        },
        uuid,
      );
    }
  }

  /** No other node tells the nodes that have a copy of the database. */
  async #orderCopies(uuid: string, { copies, nodeId, nudge }: ReplicaRemoverCluster): Promise<void> {
    const standing = (await copies.list(uuid)).filter((record) => isStanding(record) && record.node !== nodeId);
    for (const record of standing) await copies.order(record);
    for (const node of new Set(standing.map((record) => record.node))) nudge(node);
  }

  #removeLocally(uuid: string, { local }: ReplicaRemoverCluster): Promise<boolean> {
    return local.removeCopies(uuid, { deadlineMs: this.#soon() });
  }

  #soon(): number {
    return this.#parts.world.monotonicMs() + limits.requestTimeoutSecsDefault * 1_000;
  }

  /** Whether it was done; what could not be is said, and tried again. */
  async #told(words: string, act: () => Promise<void>, uuid?: string): Promise<boolean> {
    try {
      await act();
      return true;
    } catch (error) {
      const { log } = this.#parts;
      const fields = uuid === undefined ? {} : { uuid };
      if (error instanceof ServiceError || error instanceof StoreError)
        log.warn(`${words}; tried again`, { ...fields, code: getErrorCode(error) });
      else log.error(`${words}; tried again`, error, fields);
      return false;
    }
  }
}
