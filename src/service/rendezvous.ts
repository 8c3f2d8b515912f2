/**
 * Which node a database belongs to when none holds it: the same answer on every node that sees the same nodes.
 *
 * Rendezvous hashing: each node has a weight of its own for each database, and the heaviest one is preferred. When a
 * node comes or goes, only its own databases move. Pure.
 */
import { bytesOf } from "../base/bytes.ts";
import { hashOf } from "../format/seal.ts";
import type { LiveNode } from "../store/leases.ts";

/** The nodes in the order in which they should take the database. Those that do not reach object storage come last: they could not write it. */
export function rendezvousOrder(uuid: string, nodes: readonly LiveNode[]): LiveNode[] {
  const weighed = nodes.map((node) => ({ node, weight: weightOf(uuid, node.id) }));
  weighed.sort((a, b) => Number(b.node.reachesStore) - Number(a.node.reachesStore) || (a.weight < b.weight ? 1 : -1));
  return weighed.map(({ node }) => node);
}

/** The first 8 bytes of a SHA-256: ids differ, so no two nodes ever weigh the same in practice. */
function weightOf(uuid: string, nodeId: string): bigint {
  const digest = hashOf(bytesOf(`${uuid} ${nodeId}`));
  return new DataView(digest.buffer, digest.byteOffset, 8).getBigUint64(0);
}
