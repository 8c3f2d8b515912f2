/** Where calls run: several real engines on one store, with leases and links of the test's own process. */
import { setTimeout as pause } from "node:timers/promises";
import { describe, expect, test } from "vitest";
import { ManifestWriter } from "../../../../src/engine/history/manifest-writer.ts";
import { Rendezvous } from "../../../../src/service/placement/rendezvous.ts";
import { hastyWorld } from "../../../support/hasty-world.ts";
import { uuidOf } from "../../../support/inline-engine.ts";
import { buildMainTarget, PlacedNodes, placedTtlMs } from "../../../support/placed-nodes.ts";
import { routeFreshMs } from "../../../../src/service/placement/route-cache.ts";
import { catchRefusal, until } from "../../../support/placed-calls.ts";

const uuid = uuidOf(1);

describe("a database has one writer", () => {
  test("distribution-01: the node that gets the first write takes it, under its first lease epoch", async () => {
    const {
      cluster,
      nodes: [a, b],
    } = await PlacedNodes.start("a", "b");
    expect((await cluster.put(b, uuid, "k", "v")).txid).toBe(1);
    expect(cluster.table.holding(uuid).holder).toEqual({ nodeId: "b", address: b.address, leaseEpoch: 1 });
    expect([a.placement.heldCount, b.placement.heldCount]).toEqual([0, 1]);
  });

  test("distribution-02: a write that another node gets is forwarded, and the database stays where it is", async () => {
    const {
      cluster,
      nodes: [a, b],
    } = await PlacedNodes.start("a", "b");
    await cluster.put(a, uuid, "one", "1");
    const answer = await cluster.put(b, uuid, "two", "2", { durable: true });
    expect(answer.txid).toBe(2);
    expect(answer.durableTxid).toBeGreaterThanOrEqual(2);
    expect(await cluster.get(a, uuid, "one")).toBe("1");
    expect(await cluster.get(a, uuid, "two")).toBe("2");
    expect(cluster.findHolder(uuid)).toBe("a");
    expect([a.peers.forwarded.length, b.peers.forwarded.length]).toEqual([0, 1]);
  });

  test("a refusal of the writer comes back as it was given", async () => {
    const {
      cluster,
      nodes: [a, b],
    } = await PlacedNodes.start("a", "b");
    await cluster.put(a, uuid, "one", "1");
    const [there, here] = await Promise.all([b, a].map((node) => catchRefusal(cluster.put(node, uuid, "", "no key"))));
    expect({ code: there!.code, message: there!.message, detail: there!.detail }).toEqual({
      code: here!.code,
      message: here!.message,
      detail: here!.detail,
    });
    expect(there!.code).toBe("invalid_request");
  });

  test("distribution-03: what its holder gave up, another node takes whole, under the next lease epoch", async () => {
    const {
      cluster,
      nodes: [a, b],
    } = await PlacedNodes.start("a", "b");
    await cluster.put(a, uuid, "one", "1");
    await a.placement.handOver();
    expect(cluster.findHolder(uuid)).toBeUndefined();
    expect((await cluster.put(b, uuid, "two", "2")).txid).toBeGreaterThan(1);
    expect(cluster.table.holding(uuid).holder).toMatchObject({ nodeId: "b", leaseEpoch: 2 });
    expect([await cluster.get(b, uuid, "one"), await cluster.get(b, uuid, "two")]).toEqual(["1", "2"]);
  });

  test("distribution-05: at another node a memory supersedes as at its writer, and is read by its txid", async () => {
    const {
      cluster,
      nodes: [a, b],
    } = await PlacedNodes.start("a", "b");
    const fact = (summary: string): never =>
      ({
        memories: [{ type: "fact", summary, content: JSON.stringify(summary), keywords: "", topicKey: "theme" }],
      }) as never;
    const first = await a.placement.write(buildMainTarget(uuid), "memory.ingest", fact("dark"), cluster.deadline());
    const second = await b.placement.write(buildMainTarget(uuid), "memory.ingest", fact("light"), cluster.deadline());
    expect(second.txid).toBeGreaterThan(first.txid);
    expect(second.value.results[0]!.superseded).toEqual([first.value.results[0]!.id]);
    expect(cluster.findHolder(uuid)).toBe("a");
  });

  test("distribution-06: a plain read is answered from the own copy, one with a txid from that state", async () => {
    const {
      cluster,
      nodes: [a, b],
    } = await PlacedNodes.start("a", "b");
    await cluster.put(a, uuid, "k", "old", { durable: true });
    expect(await cluster.get(b, uuid, "k")).toBe("old");
    expect(b.peers.forwarded).toHaveLength(0);
    const { txid } = await cluster.put(a, uuid, "k", "new");
    expect(await cluster.get(b, uuid, "k", { minTxid: txid })).toBe("new");
    expect(await cluster.get(b, uuid, "k", { consistency: "primary" })).toBe("new");
    expect(cluster.findHolder(uuid)).toBe("a");
  });

  test("distribution-06: a copy that is too old is waited for when its writer is not reached", async () => {
    const {
      cluster,
      nodes: [a, b],
    } = await PlacedNodes.start("a", "b");
    await cluster.put(a, uuid, "k", "old", { durable: true });
    expect(await cluster.get(b, uuid, "k")).toBe("old");
    cluster.unlink(a);
    // It is shipped a second later.
    const { txid } = await cluster.put(a, uuid, "k", "new");
    expect(await cluster.get(b, uuid, "k", { minTxid: txid })).toBe("new");
  });

  test("distribution-08: a database that another node deletes is gone at its holder, and nobody holds it", async () => {
    const {
      cluster,
      nodes: [a, b],
    } = await PlacedNodes.start("a", "b");
    await cluster.put(a, uuid, "k", "v", { durable: true });
    await b.placement.deleteTarget(buildMainTarget(uuid), cluster.deadline());
    expect(cluster.table.holding(uuid)).toEqual({ holder: undefined });
    for (const node of [a, b])
      expect((await catchRefusal(cluster.put(node, uuid, "k", "again"))).code).toBe("database_not_found");
  });

  test("plain reads do not go back behind what the writer has answered by way of this node", async () => {
    const {
      cluster,
      nodes: [a, b],
    } = await PlacedNodes.start("a", "b");
    await cluster.put(a, uuid, "k", "old", { durable: true });
    expect(await cluster.get(b, uuid, "k")).toBe("old");
    // Not shipped yet: only the writer has it.
    await cluster.put(a, uuid, "k", "new");
    expect(await cluster.get(b, uuid, "k", { consistency: "primary" })).toBe("new");
    expect(await cluster.get(b, uuid, "k")).toBe("new");
  });

  test("a transaction that was lost is told to be, although this node has handed on a later one since", async () => {
    const {
      cluster,
      nodes: [a, b, c],
    } = await PlacedNodes.start("a", "b", "c");
    // The one that will not take the database over.
    const reader = new Rendezvous(await a.leases.nodes()).first(uuid)?.id === "b" ? c : b;
    await cluster.put(a, uuid, "k", "old", { durable: true });
    const { txid: lost } = await cluster.put(a, uuid, "k", "lost");
    expect(await cluster.get(reader, uuid, "k", { consistency: "primary" })).toBe("lost");
    // Whoever else claims the branch knows nothing of what was not shipped.
    const { store, world } = cluster;
    const other = await ManifestWriter.read({ store, world, nodeId: "other", uuid, branchId: "main" });
    expect(other.now.txid).toBeLessThan(lost);
    await other.claim(other.now.txid, false);
    await expect
      .poll(() =>
        cluster.put(reader, uuid, "k", "new", { durable: true }).then(
          () => "done",
          () => "not yet",
        ),
      )
      .toBe("done");
    expect(await cluster.get(reader, uuid, "k", { consistency: "primary" })).toBe("new");
    expect(cluster.findHolder(uuid)).not.toBe(reader.id);
    await expect(cluster.get(reader, uuid, "k", { minTxid: lost })).rejects.toMatchObject({ code: "conflict" });
    expect(await cluster.get(reader, uuid, "k")).toBe("new");
  });

  test("a read of what nobody holds needs no lease", async () => {
    const {
      cluster,
      nodes: [a, b],
    } = await PlacedNodes.start("a", "b");
    await cluster.put(a, uuid, "k", "v");
    await a.placement.handOver();
    expect(await cluster.get(b, uuid, "k")).toBe("v");
    expect(cluster.findHolder(uuid)).toBeUndefined();
  });
});

describe("finding the writer", () => {
  test("calls that come at once share one acquisition, and run in the order in which they came", async () => {
    const {
      cluster,
      nodes: [a, b],
    } = await PlacedNodes.start("a", "b");
    const answers = await Promise.all(
      Array.from({ length: 50 }, (_, index) => cluster.put(a, uuid, "k", String(index))),
    );
    expect(await cluster.get(a, uuid, "k")).toBe("49");
    expect(answers.map(({ txid }) => txid)).toEqual(answers.map(({ txid }) => txid).toSorted((x, y) => x - y));
    await Promise.all(Array.from({ length: 50 }, (_, index) => cluster.put(b, uuid, "k", String(100 + index))));
    expect(await cluster.get(a, uuid, "k")).toBe("149");
    expect([a.leases.acquisitions, b.leases.acquisitions]).toEqual([1, 0]);
    for (let turn = 0; turn < 10; turn++) await cluster.put(b, uuid, "k", "v");
    expect(b.leases.lookups, "and then the way is known").toBeLessThan(5);
  });

  test("a holder that is asked again and again is looked up now and then, and no call waits for that", async () => {
    const haste = 10;
    const {
      cluster,
      nodes: [a, b],
    } = await PlacedNodes.startIn(hastyWorld(haste), 10 * routeFreshMs, "a", "b");
    await cluster.put(a, uuid, "k", "1");
    await cluster.put(b, uuid, "k", "2");
    await pause(routeFreshMs / haste);
    const before = b.leases.lookups;
    cluster.table.cut("b");
    await cluster.put(b, uuid, "k", "3");
    expect(b.leases.lookups).toBeGreaterThan(before);
    expect(await cluster.get(a, uuid, "k")).toBe("3");
  });

  test("F53 first writes that race on two nodes end at one holder, and both are there", async () => {
    const {
      cluster,
      nodes: [a, b],
    } = await PlacedNodes.start("a", "b");
    await Promise.all(
      Array.from({ length: 20 }, async (_, index) => {
        const raced = uuidOf(100 + index);
        const answers = await Promise.all([cluster.put(a, raced, "a", "1"), cluster.put(b, raced, "b", "2")]);
        expect(Math.max(...answers.map(({ txid }) => txid))).toBeLessThanOrEqual(2);
        const holder = cluster.findHolder(raced) === "a" ? a : b;
        expect([await cluster.get(holder, raced, "a"), await cluster.get(holder, raced, "b")]).toEqual(["1", "2"]);
      }),
    );
    expect(a.placement.heldCount + b.placement.heldCount).toBe(20);
  });

  test("F61 stale routes in a circle end the call: whoever gets it from another node does not send it on", async () => {
    const {
      cluster,
      nodes: [a, b],
    } = await PlacedNodes.start("a", "b");
    await cluster.put(a, uuid, "k", "1");
    await cluster.put(b, uuid, "k", "2");
    // The route of b leads to a, and the leases lead from a to b, which does not know and cannot ask.
    cluster.table.revoke("a");
    await until(() => a.placement.heldCount === 0);
    await b.leases.acquire(uuid);
    cluster.table.cut("b");
    const before = b.peers.forwarded.length;
    const refusal = await catchRefusal(cluster.put(a, uuid, "k", "3", { budgetMs: placedTtlMs / 2 }));
    expect(refusal.code).toBe("unavailable");
    expect(refusal.detail.retryAfterSecs).toBeGreaterThanOrEqual(1);
    expect(b.peers.forwarded).toHaveLength(before);
    // Tried again, and with pauses.
    expect(a.peers.forwarded.length).toBeGreaterThan(1);
    expect(a.peers.forwarded.length).toBeLessThan(15);
  });

  test("a call for a lease epoch that is not held is turned away; the sender finds the holder", async () => {
    const {
      cluster,
      nodes: [a, b, c],
    } = await PlacedNodes.start("a", "b", "c");
    await cluster.put(a, uuid, "k", "1");
    await cluster.put(c, uuid, "k", "2");
    await a.placement.handOver();
    await cluster.put(b, uuid, "k", "3");
    const holder = cluster.findHolder(uuid)!;
    expect((await cluster.put(c, uuid, "k", "4")).txid).toBeGreaterThan(3);
    expect(cluster.findHolder(uuid)).toBe(holder);
    expect(holder).not.toBe("a");
  });

  test("the lease points to a node that was started anew: it takes the database again when asked", async () => {
    const {
      cluster,
      nodes: [a, b],
    } = await PlacedNodes.start("a", "b");
    await cluster.put(a, uuid, "k", "1");
    await cluster.put(b, uuid, "k", "2");
    // All that the node knows of it is gone, as after a crash; its lease is not.
    await a.engine.client.releaseDatabase(uuid, cluster.deadline());
    expect((await cluster.put(b, uuid, "k", "3")).txid).toBeGreaterThan(2);
    expect(cluster.table.holding(uuid).holder).toMatchObject({ nodeId: "a", leaseEpoch: 2 });
  });
});

describe("orders", () => {
  test("are looked for at once by the node that is told of them; one that is not reached looks itself", async () => {
    // Be it this one.
    const {
      cluster,
      nodes: [a, b],
    } = await PlacedNodes.start("a", "b");
    const looked: string[] = [];
    for (const { id, placement } of [a, b]) placement.whenNudged(() => looked.push(id));
    a.placement.nudge("a");
    a.placement.nudge("b");
    a.placement.nudge("gone");
    await until(() => looked.length === 2);
    cluster.unlink(b);
    a.placement.nudge("b");
    await pause(20);
    expect(looked).toEqual(["a", "b"]);
  });
});

describe("hints", () => {
  test("F84 a node that has read a copy is told when its manifest has moved, and only then", async () => {
    const {
      cluster,
      nodes: [a, b],
    } = await PlacedNodes.start("a", "b");
    let hints = 0;
    const end = a.placement.followed(uuid, () => hints++);
    await cluster.put(a, uuid, "k", "1", { durable: true });
    await until(() => hints > 0);
    end();
    const before = hints;
    await cluster.put(a, uuid, "k", "2", { durable: true });
    expect(hints).toBe(before);
    expect(await cluster.get(b, uuid, "k", { minTxid: 2 })).toBe("2");
  });
});
