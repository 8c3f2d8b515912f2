/**
 * Several nodes in the test's own process: real engines on one store in memory, real placements, leases of one table,
 * and links that call the other node directly. A test can cut a link, kill a node, and count what is forwarded.
 */
import { join } from "node:path";
import { onTestFinished } from "vitest";
import { silentLog } from "../../src/base/log.ts";
import { realWorld, type World } from "../../src/base/world.ts";
import type { Answer, Target } from "../../src/engine/api/protocol.ts";
import { mainBranch } from "../../src/format/core/names.ts";
import { manifestKey } from "../../src/format/keys/object-keys.ts";
import { Unreachable, type ForwardedCall, type Peers } from "../../src/service/placement/peers.ts";
import { Placement } from "../../src/service/placement/placement.ts";
import type { Acquisition, Holding } from "../../src/store/port/leases.ts";
import { MemoryStore } from "../../src/store/memory-store.ts";
import { openInlineEngine, type InlineEngine } from "./inline-engine.ts";
import { LeaseTable, SharedLeases } from "./shared-leases.ts";
import { temporaryDirectory } from "./temporary.ts";

/** How long leases live here: a test waits for their end. */
export const placedTtlMs = 1_000;

/** Leases that count what is asked of them. */
class CountedLeases extends SharedLeases {
  acquisitions = 0;
  lookups = 0;

  override holding(uuid: string): Promise<Holding> {
    this.lookups++;
    return super.holding(uuid);
  }

  override acquire(uuid: string): Promise<Acquisition> {
    this.acquisitions++;
    return super.acquire(uuid);
  }
}

class DirectPeers implements Peers {
  readonly #cluster: PlacedNodes;
  readonly forwarded: ForwardedCall[] = [];

  constructor(cluster: PlacedNodes) {
    this.#cluster = cluster;
  }

  async forward(address: string, call: ForwardedCall): Promise<Answer> {
    const node = this.#cluster.reached(address);
    this.forwarded.push(call);
    // Cloned as a wire would, so that nothing but plain data can pass.
    return structuredClone(await node.placement.serve(structuredClone(call)));
  }

  follow(address: string, uuid: string): void {
    const node = this.#cluster.reached(address);
    node.placement.followed(uuid, () =>
      this.#cluster.nodes.find((candidate) => candidate.peers === this)?.placement.hinted(uuid),
    );
  }

  nudge(address: string): void {
    this.#cluster.reached(address).placement.nudged();
  }

  async close(): Promise<void> {}
}

export interface PlacedNode {
  readonly id: string;
  readonly address: string;
  readonly placement: Placement;
  readonly engine: InlineEngine;
  readonly leases: CountedLeases;
  readonly peers: DirectPeers;
}

export class PlacedNodes {
  readonly world: World;
  readonly store: MemoryStore;
  readonly table: LeaseTable;
  readonly nodes: PlacedNode[] = [];
  readonly #unreached = new Set<string>();

  private constructor(world: World, ttlMs: number) {
    this.world = world;
    this.store = new MemoryStore(world);
    this.table = new LeaseTable(world, { ttlMs, renewMs: 100, marginMs: 200 });
  }

  /** Starts nodes of these names, which live until the test ends. */
  static start<Names extends readonly string[]>(
    ...ids: Names
  ): Promise<{ cluster: PlacedNodes; nodes: { [Index in keyof Names]: PlacedNode } }> {
    return PlacedNodes.startIn(realWorld(), placedTtlMs, ...ids);
  }

  static async startIn<Names extends readonly string[]>(
    world: World,
    ttlMs: number,
    ...ids: Names
  ): Promise<{ cluster: PlacedNodes; nodes: { [Index in keyof Names]: PlacedNode } }> {
    const cluster = new PlacedNodes(world, ttlMs);
    for (const id of ids) await cluster.#start(id);
    return { cluster, nodes: cluster.nodes as unknown as { [Index in keyof Names]: PlacedNode } };
  }

  /** The node at the address; Unreachable when it is dead or cut off. */
  reached(address: string): PlacedNode {
    const node = this.nodes.find((candidate) => candidate.address === address);
    if (!node || this.#unreached.has(node.id)) throw new Unreachable(`${address} is not reached`);
    return node;
  }

  /** From now on no other node reaches this one. */
  unlink({ id }: PlacedNode): void {
    this.#unreached.add(id);
  }

  /** From now on nobody reaches the node, and it reaches neither the leases nor, by them, anybody else. */
  isolate(node: PlacedNode): void {
    this.unlink(node);
    this.table.cut(node.id);
  }

  deadline(budgetMs = 10_000): { deadlineMs: number } {
    return { deadlineMs: this.world.monotonicMs() + budgetMs };
  }

  /** Who holds the database, by name. */
  findHolder(uuid: string): string | undefined {
    return this.table.holding(uuid).holder?.nodeId;
  }

  put(
    node: PlacedNode,
    uuid: string,
    key: string,
    value: string,
    options: { durable?: boolean; budgetMs?: number } = {},
  ): Promise<Answer> {
    const input = { ns: "default", key, value: new TextEncoder().encode(value) };
    return node.placement.write(buildMainTarget(uuid), "kv.put", input, {
      ...this.deadline(options.budgetMs),
      durable: options.durable ?? false,
    });
  }

  /** The value as the node's own copy has it, or with `primary` as its writer does. */
  async get(
    node: PlacedNode,
    uuid: string,
    key: string,
    options: { minTxid?: number; consistency?: "primary" } = {},
  ): Promise<string | undefined> {
    const { value } = await node.placement.read(
      buildMainTarget(uuid),
      "kv.get",
      { ns: "default", key },
      { ...this.deadline(), ...options },
    );
    return value && new TextDecoder().decode(value.value);
  }

  async #start(id: string): Promise<void> {
    const { world, store, table } = this;
    const address = `http://${id}:8080`;
    const engine = openInlineEngine(join(temporaryDirectory(), id), {
      world,
      store,
      options: { nodeId: id, coordinated: true },
    });
    const leases = new CountedLeases(table, world);
    const peers = new DirectPeers(this);
    const placement = new Placement({
      local: engine.client,
      leases,
      peers,
      world,
      log: silentLog,
      nodeId: id,
      isUnwritten: async (uuid) => (await store.get(manifestKey(uuid, mainBranch))) === undefined,
    });
    await leases.join({ id, address, reachesStore: true, sharesJobs: true }, placement.leaseEvents);
    this.nodes.push({ id, address, placement, engine, leases, peers });
    onTestFinished(async () => {
      await placement.leave();
      await engine.client.close();
    });
  }
}

export function buildMainTarget(uuid: string): Target {
  return { uuid, branch: mainBranch };
}
