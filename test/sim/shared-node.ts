/**
 * A simulated node among others: the engine behind the real placement, with leases that the simulation keeps, peers
 * that take a call from one simulated process to another, names of databases, and the job that looks after deleted
 * ones.
 */
import { ServiceError } from "../../src/base/faults/errors.ts";
import { limits } from "../../src/base/limits.ts";
import { silentLog } from "../../src/base/log.ts";
import { CopyRecords } from "../../src/control/databases/copy-records.ts";
import { Databases } from "../../src/control/databases/databases.ts";
import type { EngineClient } from "../../src/engine/threads/client.ts";
import type { PortCall } from "../../src/engine/api/engine-port.ts";
import type { Answer, Target } from "../../src/engine/api/protocol.ts";
import { mainBranch } from "../../src/format/core/names.ts";
import { manifestKey } from "../../src/format/keys/object-keys.ts";
import { ReplicaRemover } from "../../src/service/jobs/replica-remover.ts";
import { Unreachable, type ForwardedCall, type Peers } from "../../src/service/placement/peers.ts";
import { Placement } from "../../src/service/placement/placement.ts";
import { shardsWhile } from "../support/all-shards.ts";
import { SharedLeases, type LeaseTable } from "../support/shared-leases.ts";
import { outside, type Owner, type Scheduler } from "./scheduler.ts";
import type { SimNode } from "./sim-node.ts";
import { ProcessGone, type Crash } from "./sim-node.ts";
import type { SimWorld } from "./sim-world.ts";

export interface SharedNodeParts {
  readonly scheduler: Scheduler;
  readonly table: LeaseTable;
  readonly random: () => number;
  /** Every node by its name, which is its address. */
  readonly nodes: ReadonlyMap<string, SharedNode>;
  /** A node's own engine has answered. */
  readonly answered: (node: SharedNode, target: Target, call: PortCall, answer: Answer) => void;
  /** A database could not be shipped in time when it was to be handed over. */
  readonly handedOverShort: () => void;
  /** Whether nodes tell those that read a database that its manifests have moved. */
  readonly hints: boolean;
  /** A planted bug: the engines take their leases to last for ever. */
  readonly leasesNeverEnd: boolean;
}

/** What clients find in a running process. */
export interface Doors {
  readonly placement: Placement;
  readonly databases: Databases;
  readonly world: SimWorld;
}

interface Process extends Doors {
  readonly replicaRemover: ReplicaRemover;
  /** Ends of what other nodes follow here, by who follows what. */
  readonly followers: Map<string, () => void>;
}

const hopMsMax = 5;

export class SharedNode {
  readonly sim: SimNode;
  readonly #parts: SharedNodeParts;
  #process: Process | undefined;
  /** When the process went on after it was stopped. */
  resumedAtMs = -Infinity;

  constructor(sim: SimNode, parts: SharedNodeParts) {
    this.sim = sim;
    this.#parts = parts;
  }

  get name(): string {
    return this.sim.name;
  }

  start(): void {
    this.sim.start();
    // Called at once; a process that dies ends it.
    this.sim.call((client, world) => this.#join(client, world)).catch(() => {});
  }

  async #join(local: EngineClient, world: SimWorld): Promise<void> {
    const { table, leasesNeverEnd } = this.#parts;
    const { sim } = this;
    const { nodeId } = sim;
    this.#overhear(local);
    const renewLease = local.renewLease.bind(local);
    local.renewLease = (until) =>
      renewLease(until && leasesNeverEnd ? { monotonicMs: Infinity, wallMs: Infinity } : until);
    const store = sim.openStore(world);
    const leases = new SharedLeases(table, world);
    const placement = new Placement({
      local,
      leases,
      peers: this.#peers(world),
      world,
      log: silentLog,
      nodeId,
      isUnwritten: async (uuid) => (await store.get(manifestKey(uuid, mainBranch))) === undefined,
    });
    const databases = new Databases(store, world);
    // Every node takes up every deletion: what two of them do must do no harm.
    const cluster = {
      local,
      copies: new CopyRecords(store, world),
      nodeId,
      shards: shardsWhile(() => true),
      nudge: (id: string) => placement.nudge(id),
    };
    const replicaRemover = new ReplicaRemover({ world, log: silentLog, engine: placement, databases, cluster });
    placement.whenNudged(() => replicaRemover.hurry());
    this.#process = { placement, databases, replicaRemover, world, followers: new Map() };
    await leases.join({ id: nodeId, address: this.name, reachesStore: true, sharesJobs: true }, placement.leaseEvents);
    await replicaRemover.start();
  }

  /** Tells the simulation what the engine answers, and what it could not hand over. */
  #overhear(local: EngineClient): void {
    const { answered, handedOverShort } = this.#parts;
    const run = local.run.bind(local);
    local.run = async (target, call, options) => {
      const answer = await run(target, call, options);
      answered(this, target, call, answer);
      return answer;
    };
    const releaseDatabase = local.releaseDatabase.bind(local);
    local.releaseDatabase = async (uuid, options) => {
      try {
        await releaseDatabase(uuid, options);
      } catch (error) {
        handedOverShort();
        throw error;
      }
    };
  }

  /** A client's call to this node. Ends with ProcessGone when the node dies first. */
  call<Value>(act: (doors: Doors) => Promise<Value>): Promise<Value> {
    return this.sim.call(() => act(this.#process!));
  }

  crash(kind: Crash): void {
    this.#process = undefined;
    this.sim.crash(kind);
  }

  /** Hands everything over and ends the process in order. */
  async stop(): Promise<void> {
    const { placement, replicaRemover } = this.#process!;
    await this.sim.call(() =>
      replicaRemover
        .close()
        .then(() => placement.handOver())
        .then(() => placement.leave()),
    );
    await this.sim.stop();
    this.#process = undefined;
  }

  #hop(owner: Owner): Promise<void> {
    const { scheduler, random } = this.#parts;
    return new Promise((resolve) => {
      scheduler.at(random() * hopMsMax, owner, "hop", resolve);
    });
  }

  #peers(world: SimWorld): Peers {
    return {
      forward: async (address, call) => {
        await this.#hop(outside);
        const peer = this.#parts.nodes.get(address);
        if (!peer || !peer.#process) throw new Unreachable();
        const answer = await peer.#serve(structuredClone(call)).catch(async (error: unknown) => {
          await this.#hop(world);
          if (error instanceof ProcessGone)
            throw new ServiceError("unavailable", "the node went away; whether the write happened is not known");
          throw error;
        });
        await this.#hop(world);
        return structuredClone(answer);
      },
      follow: (address, uuid) => {
        if (this.#parts.hints) void this.#follow(address, uuid, world);
      },
      nudge: (address) => void this.#reach(address, (peer) => peer.placement.nudged()),
      close: async () => {},
    };
  }

  /** Does something at another process, a hop away, if there is one; a message that may be lost. */
  async #reach(address: string, act: (peer: Process) => void): Promise<void> {
    await this.#hop(outside);
    const node = this.#parts.nodes.get(address);
    const peer = node && node.#process;
    if (!peer) return;
    await this.#hop(peer.world);
    act(peer);
  }

  #follow(address: string, uuid: string, world: SimWorld): Promise<void> {
    const { scheduler, nodes } = this.#parts;
    const hint = async (): Promise<void> => {
      await nodes.get(address)!.#hop(outside);
      await this.#hop(world);
      this.#process?.placement.hinted(uuid);
    };
    return this.#reach(address, ({ placement, followers, world: peer }) => {
      const key = `${this.name} ${uuid}`;
      const before = followers.get(key);
      const end = placement.followed(uuid, () => void hint());
      before?.();
      followers.set(key, end);
      scheduler.at(limits.followMs, peer, "follow ends", end);
    });
  }

  #serve(call: ForwardedCall): Promise<Answer> {
    const { placement, world } = this.#process!;
    return this.sim.call(async () => {
      await this.#hop(world);
      return placement.serve(call);
    });
  }
}
