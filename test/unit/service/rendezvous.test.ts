import { describe, expect, test } from "vitest";
import { rendezvousOrder } from "../../../src/service/rendezvous.ts";
import type { LiveNode } from "../../../src/store/leases.ts";
import { uuidOf } from "../../support/inline-engine.ts";

function nodesOf(...ids: string[]): LiveNode[] {
  return ids.map((id) => ({ id, address: `http://${id}`, reachesStore: true }));
}

const uuids = Array.from({ length: 6_000 }, (_, index) => uuidOf(index));
const preferredOf = (uuid: string, nodes: readonly LiveNode[]): string => rendezvousOrder(uuid, nodes)[0]!.id;

describe("the order in which nodes should take a database", () => {
  test("names every node once, and is the same whatever order they are given in", () => {
    const nodes = nodesOf("a", "b", "c", "d");
    for (const uuid of uuids.slice(0, 50)) {
      const order = rendezvousOrder(uuid, nodes).map(({ id }) => id);
      expect([...order].sort()).toEqual(["a", "b", "c", "d"]);
      expect(rendezvousOrder(uuid, nodes.toReversed()).map(({ id }) => id)).toEqual(order);
    }
  });

  test("gives each node its share", () => {
    const counts = new Map<string, number>();
    for (const uuid of uuids) {
      const id = preferredOf(uuid, nodesOf("a", "b", "c"));
      counts.set(id, (counts.get(id) ?? 0) + 1);
    }
    // A third is 2000; the standard deviation is 37.
    for (const count of counts.values()) expect(Math.abs(count - 2_000)).toBeLessThan(200);
    expect(counts.size).toBe(3);
  });

  test("moves only what must move when a node goes, and that evenly", () => {
    const moved = new Map<string, number>();
    for (const uuid of uuids) {
      const [before, after] = [preferredOf(uuid, nodesOf("a", "b", "c", "d")), preferredOf(uuid, nodesOf("a", "b", "c"))];
      if (before === "d") moved.set(after, (moved.get(after) ?? 0) + 1);
      else expect(after).toBe(before);
    }
    // A quarter of all, 1500, goes to three nodes: 500 each.
    for (const count of moved.values()) expect(Math.abs(count - 500)).toBeLessThan(100);
    expect(moved.size).toBe(3);
  });

  test("a node that does not reach object storage comes last", () => {
    const nodes = nodesOf("a", "b", "c").map((node) => ({ ...node, reachesStore: node.id !== "b" }));
    for (const uuid of uuids.slice(0, 50)) expect(rendezvousOrder(uuid, nodes)[2]!.id).toBe("b");
  });
});
