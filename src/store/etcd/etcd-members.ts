/**
 * The live nodes as etcd has them, listed only when they have changed.
 *
 * Always true: a caller gets what was true within the last second, or the failure to learn it; the same array is given
 * for as long as nothing has changed. One small request tells whether something has: every announcement changes one key
 * that all nodes share, and a node that goes makes the keys fewer. Between two looks that both find the same, nothing
 * was announced, so what there is now is a part of what there was; and as it is as many, it is the same. Nodes of older
 * builds do not change that key, so the list is read anew now and then. Must not know: what nodes are for.
 */
import type { Log } from "../../base/log.ts";
import type { World } from "../../base/world.ts";
import { get, list, type EtcdClient, type EtcdEntry } from "./etcd-client.ts";
import type { LeaseKeys } from "./lease-records.ts";
import type { LiveNode } from "../port/leases.ts";

/**
 * Live nodes that are listed at once, and that are looked at in all: those beyond do what they hold, and none is
 * preferred.
 */
const coordNodesPageMax = 1_000;
const coordNodesMax = 100_000;
/** How long the live nodes are taken for the same without asking whether they are. */
const coordNodesMs = 1_000;
/**
 * They are listed again after this, though nothing has said that they changed: nodes of older builds do not say it.
 */
const coordNodesListMs = 60_000;

export interface EtcdMembersOptions {
  readonly client: EtcdClient;
  readonly keys: LeaseKeys;
  readonly world: Pick<World, "monotonicMs">;
  readonly log: Log;
}

/** The nodes, and by what it is known that they are still these. */
interface Listed {
  readonly nodes: readonly LiveNode[];
  /** Of the key that announcements change. */
  readonly revision: bigint;
  readonly count: number;
  readonly atMs: number;
}

export class EtcdMembers {
  readonly #options: EtcdMembersOptions;
  #listed: Listed | undefined;
  #look: { readonly atMs: number; readonly nodes: Promise<readonly LiveNode[]> } | undefined;
  #isCrowded = false;

  constructor(options: EtcdMembersOptions) {
    this.#options = options;
  }

  /** Throws StoreError. */
  nodes(): Promise<readonly LiveNode[]> {
    const nowMs = this.#options.world.monotonicMs();
    if (this.#look && nowMs - this.#look.atMs < coordNodesMs) return this.#look.nodes;
    const look = { atMs: nowMs, nodes: this.#find(nowMs) };
    this.#look = look;
    look.nodes.catch(() => {
      // All waiters hear why; the next caller asks again.
      if (this.#look === look) this.#look = undefined;
    });
    return look.nodes;
  }

  /** This node is announced in another way, or not any more: the next caller is not given the old list. */
  changed(): void {
    this.#look = undefined;
  }

  async #find(nowMs: number): Promise<readonly LiveNode[]> {
    const listed = this.#listed;
    if (listed && nowMs - listed.atMs < coordNodesListMs) {
      const { revision, count } = await this.#read(1);
      if (revision === listed.revision && count === listed.count) return listed.nodes;
    }
    // What comes while the pages are read changes these two, so that the next look finds that the list is old.
    const { revision, count, found } = await this.#read(coordNodesPageMax);
    const entries = [...found];
    while (entries.length < Math.min(count, coordNodesMax)) {
      const {
        read: [page = []],
      } = await this.#options.client.transact(
        [],
        [list(this.#options.keys.nodes, coordNodesPageMax, entries.at(-1)!.key)],
      );
      if (page.length === 0) break;
      entries.push(...page);
    }
    this.#tellOfCrowd(count);
    const nodes = entries.slice(0, coordNodesMax).map((entry) => this.#options.keys.decodeNode(entry));
    this.#listed = {
      nodes: listed && isSame(listed.nodes, nodes) ? listed.nodes : nodes,
      revision,
      count,
      atMs: nowMs,
    };
    return this.#listed.nodes;
  }

  async #read(
    countMax: number,
  ): Promise<{ readonly revision: bigint; readonly count: number; readonly found: readonly EtcdEntry[] }> {
    const { client, keys } = this.#options;
    const {
      read: [[announced] = [], found = []],
      counts,
    } = await client.transact([], [get(keys.announced), list(keys.nodes, countMax)]);
    return { revision: announced?.revision ?? 0n, count: counts[1] ?? found.length, found };
  }

  /** Logged once, when it comes to that: the cluster goes on. */
  #tellOfCrowd(count: number): void {
    const isCrowded = count > coordNodesMax;
    if (isCrowded && !this.#isCrowded)
      this.#options.log.warn("there are more nodes than are looked at: those beyond are preferred for nothing", {
        nodes: count,
        lookedAt: coordNodesMax,
      });
    this.#isCrowded = isCrowded;
  }
}

/** Whether the lists, which both come in the order of their keys, say the same. */
function isSame(before: readonly LiveNode[], now: readonly LiveNode[]): boolean {
  return (
    before.length === now.length &&
    before.every((node, at) => {
      const { id, address, reachesStore, sharesJobs } = now[at]!;
      return (
        node.id === id &&
        node.address === address &&
        node.reachesStore === reachesStore &&
        node.sharesJobs === sharesJobs
      );
    })
  );
}
