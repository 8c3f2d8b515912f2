/**
 * A simulated node among others: the engine behind the real placement, with leases that the simulation keeps, and peers
 * that take a call from one simulated process to another.
 */
import { ServiceError } from "../../src/base/errors.ts";
import { silentLog } from "../../src/base/log.ts";
import type { EngineClient } from "../../src/engine/client.ts";
import type { CallOptions, PortCall } from "../../src/engine/engine-port.ts";
import type { Answer, Target } from "../../src/engine/protocol.ts";
import { mainBranch } from "../../src/format/names.ts";
import { headKey } from "../../src/format/object-keys.ts";
import { Unreachable, type ForwardedCall, type Peers } from "../../src/service/peers.ts";
import { Placement } from "../../src/service/placement.ts";
import { SharedLeases, type LeaseTable } from "../support/shared-leases.ts";
import { outside, type Owner, type Scheduler } from "./scheduler.ts";
import { ProcessGone, SimNode, type Crash } from "./sim-node.ts";
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
  /** A planted bug: the engines take their leases to last for ever. */
  readonly leasesNeverEnd: boolean;
}

const hopMsMax = 5;

export class SharedNode {
  readonly sim: SimNode;
  readonly #parts: SharedNodeParts;
  #placement: Placement | undefined;
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

  async #join(client: EngineClient, world: SimWorld): Promise<void> {
    const { table, leasesNeverEnd, answered, handedOverShort } = this.#parts;
    const { sim } = this;
    const { nodeId } = sim;
    const run = client.run.bind(client);
    client.run = async (target, call, options) => {
      const answer = await run(target, call, options);
      answered(this, target, call, answer);
      return answer;
    };
    const letGo = client.letGo.bind(client);
    client.letGo = async (uuid, options) => {
      try {
        await letGo(uuid, options);
      } catch (error) {
        handedOverShort();
        throw error;
      }
    };
    const renewLease = client.renewLease.bind(client);
    client.renewLease = (until) => renewLease(until && leasesNeverEnd ? { monotonicMs: Infinity, wallMs: Infinity } : until);
    const leases = new SharedLeases(table, world);
    const placement = (this.#placement = new Placement({ local: client, leases, peers: this.#peers(world), world, log: silentLog, nodeId, isUnwritten: async (uuid) => (await sim.storeOf(world).get(headKey(uuid, mainBranch))) === undefined }));
    await leases.join({ id: nodeId, address: this.name, reachesStore: true, sharesJobs: true }, placement.leaseEvents);
  }

  /** A client's call to this node. Ends with ProcessGone when the node dies first. */
  run(target: Target, call: PortCall, options: (world: SimWorld) => CallOptions): Promise<Answer> {
    return this.sim.call((_, world) => this.#placement!.run(target, call, options(world)));
  }

  crash(kind: Crash): void {
    this.#placement = undefined;
    this.sim.crash(kind);
  }

  /** Hands everything over and ends the process in order. */
  async stop(): Promise<void> {
    const placement = this.#placement!;
    await this.sim.call(() => placement.handOver().then(() => placement.leave()));
    await this.sim.stop();
    this.#placement = undefined;
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
        if (!peer || !peer.#placement) throw new Unreachable();
        const answer = await peer.#serve(structuredClone(call)).catch(async (error: unknown) => {
          await this.#hop(world);
          if (error instanceof ProcessGone) throw new ServiceError("unavailable", "the node went away; whether the write happened is not known");
          throw error;
        });
        await this.#hop(world);
        return structuredClone(answer);
      },
      follow: () => {},
      nudge: () => {},
      close: async () => {},
    };
  }

  #serve(call: ForwardedCall): Promise<Answer> {
    const placement = this.#placement!;
    return this.sim.call(async (_, world) => {
      await this.#hop(world);
      return placement.serve(call);
    });
  }
}
