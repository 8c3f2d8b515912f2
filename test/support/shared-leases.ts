/**
 * Leases that several nodes of one process share, on the clocks of their Worlds: what etcd does for nodes, for tests
 * and simulations that own time. `LeaseTable` is the coordination store, `SharedLeases` a node's adapter.
 *
 * A test can cut a node off, end its lease as if by mistake, and lose everything, as a store from an old backup has.
 */
import { StoreError } from "../../src/base/faults/errors.ts";
import type { Cancel, World } from "../../src/base/world.ts";
import type { Acquisition, Holder, Holding, LeaseEvents, Leases, LiveNode } from "../../src/store/port/leases.ts";
import { leaseTtlSecs, leaseRenewMs, leaseMarginMs } from "../../src/store/etcd/etcd-leases.ts";

interface Lease {
  readonly nodeId: string;
  endsMs: number;
}

/** How long leases live and how often they are renewed. */
export interface LeaseTimes {
  readonly ttlMs: number;
  readonly renewMs: number;
  readonly marginMs: number;
}

const usualTimes: LeaseTimes = {
  ttlMs: leaseTtlSecs * 1_000,
  renewMs: leaseRenewMs,
  marginMs: leaseMarginMs,
};

export class LeaseTable {
  readonly times: LeaseTimes;
  readonly #world: Pick<World, "monotonicMs">;
  readonly #cutOff = new Set<string>();
  readonly #leases = new Set<Lease>();
  readonly #nodes = new Map<string, { readonly node: LiveNode; readonly lease: Lease }>();
  readonly #writers = new Map<string, { readonly holder: Holder; readonly lease: Lease }>();
  readonly #leaseEpochs = new Map<string, number>();
  #listed: readonly LiveNode[] = [];

  constructor(world: Pick<World, "monotonicMs">, times: Partial<LeaseTimes> = {}) {
    this.#world = world;
    this.times = { ...usualTimes, ...times };
  }

  /** From now on nothing of the node reaches the table, until `mend`. */
  cut(nodeId: string): void {
    this.#cutOff.add(nodeId);
  }

  mend(nodeId: string): void {
    this.#cutOff.delete(nodeId);
  }

  /** Whether any node is cut off now. */
  get isAnyCut(): boolean {
    return this.#cutOff.size > 0;
  }

  /** Ends the node's lease at once, though it lives. */
  revoke(nodeId: string): void {
    for (const lease of this.#leases) if (lease.nodeId === nodeId) this.#leases.delete(lease);
  }

  /** Loses everything. */
  wipe(): void {
    this.#leases.clear();
    this.#leaseEpochs.clear();
  }

  /** Whether what the node sends reaches the table. */
  isReachedBy(nodeId: string): boolean {
    return !this.#cutOff.has(nodeId);
  }

  grant(nodeId: string): Lease {
    const lease = { nodeId, endsMs: this.#world.monotonicMs() + this.times.ttlMs };
    this.#leases.add(lease);
    return lease;
  }

  /** Whether the lease lives; if so, its time begins anew. */
  keepAlive(lease: Lease): boolean {
    if (!this.isAlive(lease)) return false;
    lease.endsMs = this.#world.monotonicMs() + this.times.ttlMs;
    return true;
  }

  end(lease: Lease): void {
    this.#leases.delete(lease);
  }

  isAlive(lease: Lease): boolean {
    if (this.#world.monotonicMs() >= lease.endsMs) this.#leases.delete(lease);
    return this.#leases.has(lease);
  }

  announce(node: LiveNode, lease: Lease): void {
    this.#nodes.set(node.id, { node, lease });
  }

  acquire(uuid: string, node: LiveNode, lease: Lease): Acquisition {
    const { holder } = this.holding(uuid);
    if (holder && holder.nodeId !== node.id) return { kind: "held", by: holder };
    // One count for many databases, as in etcd.
    const leaseEpoch = (this.#leaseEpochs.get(uuid.slice(0, 3)) ?? 0) + 1;
    this.#leaseEpochs.set(uuid.slice(0, 3), leaseEpoch);
    this.#writers.set(uuid, { holder: { nodeId: node.id, address: node.address, leaseEpoch }, lease });
    return { kind: "acquired", leaseEpoch };
  }

  holding(uuid: string): Holding {
    const writer = this.#writers.get(uuid);
    return { holder: writer && this.isAlive(writer.lease) ? writer.holder : undefined };
  }

  release(uuid: string, nodeId: string, leaseEpoch: number): void {
    const { holder } = this.holding(uuid);
    if (holder?.nodeId === nodeId && holder.leaseEpoch === leaseEpoch) this.#writers.delete(uuid);
  }

  forget(uuid: string): void {
    this.#writers.delete(uuid);
  }

  /** The same array for as long as nothing has changed. */
  nodes(): readonly LiveNode[] {
    const nodes = [...this.#nodes.values()].filter(({ lease }) => this.isAlive(lease)).map(({ node }) => node);
    if (nodes.length !== this.#listed.length || nodes.some((node, at) => node !== this.#listed[at]))
      this.#listed = nodes;
    return this.#listed;
  }
}

export class SharedLeases implements Leases {
  readonly #table: LeaseTable;
  readonly #world: World;
  readonly #progress: () => Promise<void>;
  #node: LiveNode | undefined;
  #events: LeaseEvents | undefined;
  #lease: Lease | undefined;
  #cancelRound: Cancel = () => {};
  #hasLeft = false;

  /** `progress` must resolve for each renewal, as in production. */
  constructor(table: LeaseTable, world: World, progress: () => Promise<void> = async () => {}) {
    this.#table = table;
    this.#world = world;
    this.#progress = progress;
  }

  async join(node: LiveNode, events: LeaseEvents): Promise<void> {
    this.#node = node;
    this.#events = events;
    this.#renew();
    this.#nextRound();
  }

  async announce(node: LiveNode): Promise<void> {
    this.#node = node;
    if (this.#lease) this.#table.announce(this.#reach(), this.#lease);
  }

  async acquire(uuid: string): Promise<Acquisition> {
    const node = this.#reach();
    if (this.#lease && !this.#table.isAlive(this.#lease)) this.#lose();
    if (!this.#lease) throw new StoreError("unavailable", "coordination: this node has no lease now");
    return this.#table.acquire(uuid, node, this.#lease);
  }

  async holding(uuid: string): Promise<Holding> {
    this.#reach();
    return this.#table.holding(uuid);
  }

  async release(uuid: string, leaseEpoch: number): Promise<void> {
    this.#table.release(uuid, this.#reach().id, leaseEpoch);
  }

  async forget(uuid: string): Promise<void> {
    this.#reach();
    this.#table.forget(uuid);
  }

  async nodes(): Promise<readonly LiveNode[]> {
    this.#reach();
    return this.#table.nodes();
  }

  async leave(): Promise<void> {
    this.#hasLeft = true;
    this.#cancelRound();
    if (this.#lease && this.#node && this.#table.isReachedBy(this.#node.id)) this.#table.end(this.#lease);
    this.#lease = undefined;
  }

  #reach(): LiveNode {
    if (!this.#node) throw new StoreError("unavailable", "coordination: this node has not joined");
    if (!this.#table.isReachedBy(this.#node.id)) throw new StoreError("unavailable", "coordination: no answer");
    return this.#node;
  }

  #nextRound(): void {
    this.#cancelRound = this.#world.after(this.#table.times.renewMs, () => void this.#round());
  }

  async #round(): Promise<void> {
    try {
      await this.#progress();
      if (!this.#hasLeft) this.#renew();
    } catch {
      // Without progress there is no renewal; the next round looks again.
    }
    if (!this.#hasLeft) this.#nextRound();
  }

  #renew(): void {
    const { ttlMs, marginMs } = this.#table.times;
    const until = {
      monotonicMs: this.#world.monotonicMs() + ttlMs - marginMs,
      wallMs: this.#world.wallMs() + ttlMs - marginMs,
    };
    const node = this.#node!;
    // As from an etcd that does not answer, nothing is heard.
    if (!this.#table.isReachedBy(node.id)) return;
    if (this.#lease && !this.#table.keepAlive(this.#lease)) this.#lose();
    this.#lease ??= this.#table.grant(node.id);
    this.#table.announce(node, this.#lease);
    this.#events!.renewed(until);
  }

  #lose(): void {
    this.#lease = undefined;
    this.#events!.lost();
  }
}
