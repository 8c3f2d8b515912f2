/**
 * This node among the others: its lease, its links to them, and where each call runs.
 *
 * Always true: the lease is renewed only while disk and engines get on, and while this node reaches object storage or
 * no other one does: a node that cannot serve its databases loses them to one that can. Put together only where there
 * is a coordination store; without one the engine itself answers every call.
 */
import { StoreError } from "../../base/faults/errors.ts";
import { limits } from "../../base/limits.ts";
import type { Log } from "../../base/log.ts";
import type { World } from "../../base/world.ts";
import type { EngineClient } from "../../engine/threads/client.ts";
import { mainBranch } from "../../format/core/names.ts";
import { manifestKey } from "../../format/keys/object-keys.ts";
import { Placement } from "../../service/placement/placement.ts";
import { Shards } from "../../service/placement/shards.ts";
import { EtcdLeases } from "../../store/etcd/etcd-leases.ts";
import type { LeaseEvents, Leases, LiveNode } from "../../store/port/leases.ts";
import type { ObjectStore } from "../../store/port/object-store.ts";
import type { Instruments } from "../observability/instruments.ts";
import { NodeDoor } from "./node-door.ts";
import { PeerLinks } from "./peer-links.ts";
import { Progress } from "../observability/progress.ts";
import { StoreReach } from "../observability/store-reach.ts";

/** A node that has not reached object storage for this long releases its databases, if another one does reach it. */
const storeSilenceMs = 20_000;

export interface ClusterOptions {
  /** Where the coordination store is (`SERVICE_COORD`). */
  readonly endpoints: readonly string[];
  readonly nodeId: string;
  /** The node's data directory. */
  readonly directory: string;
  readonly engine: EngineClient;
  readonly store: ObjectStore;
  readonly clusterKey: string;
  /** Count and trace what passes between this node and the others. */
  readonly instruments: Instruments;
  readonly world: World;
  readonly log: Log;
}

export class Cluster {
  /** Runs every call, here or elsewhere. */
  readonly placement: Placement;
  /** Serves the other nodes. */
  readonly door: NodeDoor;
  /** What this node is the one to look after. */
  readonly shards: Shards;
  readonly #options: ClusterOptions;
  readonly #leases: Leases;
  readonly #peers: PeerLinks;
  readonly #progress: Progress;
  readonly #reach: StoreReach;
  #node: LiveNode | undefined;
  /** Whether this node has given its databases up because it does not reach object storage. */
  #isCutOff = false;

  private constructor(options: ClusterOptions, progress: Progress) {
    const { endpoints, nodeId, engine, store, clusterKey, instruments, world, log } = options;
    this.#options = options;
    this.#progress = progress;
    this.#leases = new EtcdLeases({ endpoints, world, log, progress: () => this.#prove() });
    this.#peers = new PeerLinks({
      clusterKey,
      world,
      log,
      hinted: (uuid) => this.placement.hinted(uuid),
      linkLost: () => instruments.cluster.linksLost++,
    });
    this.placement = new Placement({
      local: engine,
      leases: this.#leases,
      peers: instruments.peers(this.#peers),
      world,
      log,
      nodeId,
      isUnwritten: (uuid) => isUnwritten(store, uuid),
    });
    this.shards = new Shards({ world, nodeId, nodes: () => this.#leases.nodes() });
    this.door = new NodeDoor({ host: instruments.host(this.placement), clusterKey, world, log });
    this.#reach = new StoreReach({
      store,
      world,
      // What was written last is shipped by then, or the looks have found that it cannot be.
      isNeeded: () => world.monotonicMs() - this.placement.usedMs < limits.storeReachIdleMs,
      looked: (isReached, silenceMs) => this.#looked(isReached, silenceMs),
    });
  }

  /** Nothing is sent yet. Throws when an endpoint is none. */
  static async open(options: ClusterOptions): Promise<Cluster> {
    return new Cluster(options, await Progress.open(options.directory, options.engine, options.world));
  }

  /**
   * Takes this node's lease. A coordination store that does not answer is asked again for ever; one that never will is
   * an error.
   */
  async join(address: string): Promise<void> {
    this.#node = { id: this.#options.nodeId, address, reachesStore: true, sharesJobs: true };
    const { leaseEvents } = this.placement;
    const { cluster: counts } = this.#options.instruments;
    const events: LeaseEvents = {
      // From a renewal that was under way when the databases were released.
      renewed: (until) => void (this.#isCutOff || leaseEvents.renewed(until)),
      lost: () => {
        counts.leasesLost++;
        leaseEvents.lost();
      },
      renewalFailed: () => counts.renewalsFailed++,
    };
    await this.#leases.join(this.#node, events);
    void this.shards.start();
    this.#reach
      .keepLooking()
      .catch((error: unknown) =>
        this.#options.log.error("it is not looked any more whether object storage is reached", error),
      );
  }

  /** Closes every link: nothing is forwarded any more. */
  async disconnect(): Promise<void> {
    await this.shards.close();
    this.#reach.close();
    await this.#peers.close();
  }

  /** Ends this node's lease. The engines have closed everything. */
  async leave(): Promise<void> {
    await this.placement.leave();
    await this.#progress.close();
  }

  async #prove(): Promise<void> {
    if (this.#isCutOff)
      throw new StoreError("unavailable", "object storage is not reached, and another node reaches it");
    await this.#progress.prove();
  }

  async #looked(isReached: boolean, silenceMs: number): Promise<void> {
    const { log } = this.#options;
    if (isReached) this.#isCutOff = false;
    if (silenceMs >= storeSilenceMs && !this.#isCutOff && (await this.#isReachedByAnother())) {
      this.#isCutOff = true;
      log.warn("object storage is not reached from here but from another node: all databases are given up", {
        silenceMs,
      });
      this.placement.lost();
    }
    if (this.#node!.reachesStore !== isReached) await this.#announce({ ...this.#node!, reachesStore: isReached });
  }

  async #isReachedByAnother(): Promise<boolean> {
    try {
      return (await this.#leases.nodes()).some(({ id, reachesStore }) => reachesStore && id !== this.#options.nodeId);
    } catch (error) {
      // While the coordination store does not answer, no other node can take anything.
      if (error instanceof StoreError) return false;
      throw error;
    }
  }

  async #announce(node: LiveNode): Promise<void> {
    this.#node = node;
    this.#options.log.warn(node.reachesStore ? "object storage is reached again" : "object storage is not reached");
    try {
      await this.#leases.announce(node);
    } catch (error) {
      // It goes out with the next renewal.
      if (!(error instanceof StoreError)) throw error;
    }
  }
}

/** A branch has a head from its first claim on, and every database has this branch. */
async function isUnwritten(store: ObjectStore, uuid: string): Promise<boolean> {
  return (await store.get(manifestKey(uuid, mainBranch))) === undefined;
}
