/**
 * Which node a database belongs to when none holds it: the same answer on every node that sees the same nodes.
 *
 * Rendezvous hashing: each node has a weight of its own for each database, and the heaviest one is preferred. When a
 * node comes or goes, only its own databases move. Ids are hashed once, and a weight is a few multiplications, as every
 * call for a database without a holder looks through all nodes. A node of another build may weigh otherwise: that makes
 * two nodes want one database, and the lease decides. Pure.
 */
import { encodeUtf8 } from "../../base/bytes.ts";
import { computeSha256 } from "../../format/core/seal.ts";
import type { LiveNode } from "../../store/port/leases.ts";

/** What an id or a key is weighed by: 64 bits of its SHA-256. */
export interface Seed {
  readonly high: number;
  readonly low: number;
}

export class Rendezvous {
  readonly nodes: readonly LiveNode[];
  readonly #seeds: readonly Seed[];

  constructor(nodes: readonly LiveNode[]) {
    this.nodes = nodes;
    this.#seeds = nodes.map(({ id }) => computeSeed(id));
  }

  /**
   * The node that should take what the key names, among those that may. One that does not reach object storage is named
   * only when no other is left: it could not write it.
   */
  first(key: string, mayTake: (node: LiveNode) => boolean = () => true): LiveNode | undefined {
    const seed = computeSeed(key);
    let best: LiveNode | undefined;
    let most = -1;
    for (let at = 0; at < this.nodes.length; at++) {
      const node = this.nodes[at]!;
      const weight = computeWeight(seed, this.#seeds[at]!);
      if (best && !isBefore(node, weight, best, most)) continue;
      if (!mayTake(node)) continue;
      [best, most] = [node, weight];
    }
    return best;
  }
}

function isBefore(node: LiveNode, weight: number, other: LiveNode, otherWeight: number): boolean {
  if (node.reachesStore !== other.reachesStore) return node.reachesStore;
  // Of 32 bits two may be the same.
  return weight === otherWeight ? node.id > other.id : weight > otherWeight;
}

/** What is weighed for the text, which is hashed here. */
export function computeSeed(text: string): Seed {
  const digest = computeSha256(encodeUtf8(text));
  const view = new DataView(digest.buffer, digest.byteOffset, 8);
  return { high: view.getUint32(0), low: view.getUint32(4) };
}

/** 32 bits that look random to every pair. */
export function computeWeight(key: Seed, node: Seed): number {
  return mixed(mixed(key.high ^ node.high) ^ key.low ^ node.low);
}

/** The finish of MurmurHash3: every bit of the input changes half of those of the output. */
function mixed(value: number): number {
  let bits = value;
  bits = Math.imul(bits ^ (bits >>> 16), 0x85ebca6b);
  bits = Math.imul(bits ^ (bits >>> 13), 0xc2b2ae35);
  return (bits ^ (bits >>> 16)) >>> 0;
}
