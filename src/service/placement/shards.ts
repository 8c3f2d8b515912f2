/**
 * Which shards are this node's to look after: of all nodes that take their share, the one that is first in rendezvous
 * order of a shard owns it.
 *
 * Always true: nodes that see the same nodes agree on every owner, so that each job has one; a node with an older view
 * does a job twice or a little later, which jobs must bear. Nodes of builds before take no share: they do jobs by an
 * order of their own, which covers what it covers, and the others own every shard among themselves, so that nothing is
 * left to a node that does not know of it. While it cannot be learnt which nodes live, what was owned is owned. Must
 * not know what the jobs are.
 */
import { StoreError } from "../../base/faults/errors.ts";
import { Rounds } from "../../base/rounds.ts";
import type { World } from "../../base/world.ts";
import type { OwnedShards } from "../../control/databases/owned-pages.ts";
import { shardsCount, shardText } from "../../format/core/shards.ts";
import type { LiveNode } from "../../store/port/leases.ts";
import { computeSeed, computeWeight, type Seed } from "./rendezvous.ts";

/** How often a node looks which nodes live: those that have come or gone change whose a shard is. */
export const shardMembersMs = 10_000;

export interface ShardsParts {
  readonly world: World;
  /** This node's identity. */
  readonly nodeId: string;
  /** The nodes that live; the same array while nothing has changed. Throws StoreError. */
  readonly nodes: () => Promise<readonly LiveNode[]>;
}

export class Shards implements OwnedShards {
  readonly #parts: ShardsParts;
  readonly #rounds: Rounds;
  readonly #owners = new ShardOwners();
  readonly #listeners: (() => void)[] = [];
  #nodes: readonly LiveNode[] | undefined;
  /** In ascending order. */
  #owned: readonly number[] = [];

  constructor(parts: ShardsParts) {
    this.#parts = parts;
    this.#rounds = new Rounds({ world: parts.world, pauseMs: shardMembersMs, round: () => this.look() });
  }

  /** Looks which nodes live, now and from time to time; resolves after the first look. */
  start(): Promise<void> {
    return this.#rounds.start();
  }

  /** Owns nothing any more. */
  async close(): Promise<void> {
    this.#owned = [];
    await this.#rounds.close(0);
  }

  /** The listener is told whenever shards have become this node's. */
  whenGained(listener: () => void): void {
    this.#listeners.push(listener);
  }

  has(shard: number): boolean {
    return this.from(shard) === shard;
  }

  from(shard: number): number | undefined {
    let [low, high] = [0, this.#owned.length];
    while (low < high) {
      const middle = (low + high) >>> 1;
      if (this.#owned[middle]! < shard) low = middle + 1;
      else high = middle;
    }
    return this.#owned[low];
  }

  /** Looks which nodes live. */
  async look(): Promise<void> {
    const { nodes, nodeId } = this.#parts;
    try {
      const now = await nodes();
      if (now === this.#nodes || this.#rounds.closing) return;
      this.#nodes = now;
      this.#owners.share(now);
    } catch (error) {
      if (error instanceof StoreError) return;
      throw error;
    }
    const before = new Set(this.#owned);
    this.#owned = this.#owners.ownedBy(nodeId);
    if (this.#owned.some((shard) => !before.has(shard))) for (const listener of this.#listeners) listener();
  }
}

/**
 * Who owns each shard. Only what changes with the nodes is computed anew: four million weights take a tenth of a
 * second.
 */
export class ShardOwners {
  readonly #seeds: readonly Seed[] = Array.from({ length: shardsCount }, (_, shard) =>
    computeSeed(`shard ${shardText(shard)}`),
  );
  readonly #owners = new Array<string | undefined>(shardsCount).fill(undefined);
  readonly #weights = new Array<number>(shardsCount).fill(-1);
  #nodes: ReadonlyMap<string, Seed> = new Map();

  /** These nodes live now. Those that do not reach object storage own nothing, while another one does. */
  share(living: readonly LiveNode[]): void {
    const sharing = living.filter(({ sharesJobs }) => sharesJobs);
    const reaching = sharing.filter(({ reachesStore }) => reachesStore);
    const ids = (reaching.length > 0 ? reaching : sharing).map(({ id }) => id);
    const before = this.#nodes;
    this.#nodes = new Map(ids.map((id) => [id, before.get(id) ?? computeSeed(id)]));
    const come = ids.filter((id) => !before.has(id));
    for (let shard = 0; shard < shardsCount; shard++) {
      const owner = this.#owners[shard];
      if (owner === undefined || this.#nodes.has(owner)) this.#offer(shard, come);
      else this.#offerAnew(shard);
    }
  }

  ownedBy(nodeId: string): readonly number[] {
    return this.#owners.flatMap((owner, shard) => (owner === nodeId ? [shard] : []));
  }

  #offerAnew(shard: number): void {
    this.#owners[shard] = undefined;
    this.#weights[shard] = -1;
    this.#offer(shard, this.#nodes.keys());
  }

  #offer(shard: number, ids: Iterable<string>): void {
    const seed = this.#seeds[shard]!;
    for (const id of ids) {
      const weight = computeWeight(seed, this.#nodes.get(id)!);
      const most = this.#weights[shard]!;
      if (weight < most || (weight === most && id <= this.#owners[shard]!)) continue;
      this.#owners[shard] = id;
      this.#weights[shard] = weight;
    }
  }
}
