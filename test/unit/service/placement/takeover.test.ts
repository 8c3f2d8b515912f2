/** Who serves the databases of a node that is gone, and what goes on when leases fail. */
import { setTimeout as pause } from "node:timers/promises";
import { describe, expect, test } from "vitest";
import type { ServiceError } from "../../../../src/base/faults/errors.ts";
import { Rendezvous } from "../../../../src/service/placement/rendezvous.ts";
import type { LiveNode } from "../../../../src/store/port/leases.ts";
import { uuidOf } from "../../../support/inline-engine.ts";
import { PlacedNodes, placedTtlMs } from "../../../support/placed-nodes.ts";
import { catchRefusal, until } from "../../../support/placed-calls.ts";

const uuid = uuidOf(1);

describe("a node that is gone", () => {
  test("F46 a dead node's databases go to those preferred for them, when its lease has ended", async () => {
    const {
      cluster,
      nodes: [a, b, c],
    } = await PlacedNodes.start("a", "b", "c");
    const uuids = Array.from({ length: 12 }, (_, index) => uuidOf(200 + index));
    await Promise.all(uuids.map((each) => cluster.put(a, each, "k", "v", { durable: true })));
    const diedMs = cluster.world.monotonicMs();
    cluster.isolate(a);
    await Promise.all(uuids.map((each) => cluster.put(b, each, "k", "w")));
    expect(cluster.world.monotonicMs() - diedMs).toBeGreaterThanOrEqual(placedTtlMs - 200);
    const living: LiveNode[] = [b, c].map(({ id, address }) => ({
      id,
      address,
      reachesStore: true,
      sharesJobs: true,
    }));
    expect(uuids.map((each) => cluster.findHolder(each))).toEqual(
      uuids.map((each) => new Rendezvous(living).first(each)!.id),
    );
    for (const each of uuids) expect(await cluster.get(b, each, "k", { consistency: "primary" })).toBe("w");
  });

  test("while nobody may take the database a call waits out its time, then is told to come back", async () => {
    const {
      cluster,
      nodes: [a, b],
    } = await PlacedNodes.start("a", "b");
    await cluster.put(a, uuid, "k", "v");
    cluster.isolate(a);
    const refusal = await catchRefusal(cluster.put(b, uuid, "k", "w", { budgetMs: 300 }));
    expect([refusal.code, refusal.detail.retryAfterSecs]).toEqual(["unavailable", 1]);
  });

  test("F62 a node that hands over while its clients and others write loses nothing, and refuses nothing", async () => {
    const {
      cluster,
      nodes: [a, b, c],
    } = await PlacedNodes.start("a", "b", "c");
    const uuids = Array.from({ length: 8 }, (_, index) => uuidOf(300 + index));
    await Promise.all(uuids.map((each) => cluster.put(a, each, "k", "v")));
    let isOver = false;
    const written = new Map<string, string[]>();
    const writers = [a, b].flatMap((node) =>
      uuids.map(async (each) => {
        for (let turn = 0; !isOver; turn++) {
          const key = `${node.id}-${turn}`;
          await cluster.put(node, each, key, key);
          written.set(each, [...(written.get(each) ?? []), key]);
        }
      }),
    );
    await pause(200);
    await a.placement.handOver();
    await pause(300);
    isOver = true;
    await Promise.all(writers);
    for (const each of uuids) {
      expect(cluster.findHolder(each)).not.toBe("a");
      const keys = written.get(each)!;
      expect(keys.length).toBeGreaterThan(10);
      for (const key of keys) expect(await cluster.get(c, each, key, { consistency: "primary" })).toBe(key);
    }
  });

  test("the last node that leaves says at once that it takes no more", async () => {
    const {
      cluster,
      nodes: [a],
    } = await PlacedNodes.start("a");
    await cluster.put(a, uuid, "k", "v");
    await a.placement.handOver();
    expect((await catchRefusal(cluster.put(a, uuid, "k", "w"))).code).toBe("unavailable");
    expect(await cluster.get(a, uuid, "k")).toBe("v");
  });
});

describe("when leases fail", () => {
  test("F50 without the coordination store what is held, routed or copied serves; nothing new is taken", async () => {
    const {
      cluster,
      nodes: [a, b],
    } = await PlacedNodes.start("a", "b");
    await cluster.put(a, uuid, "k", "1");
    await cluster.put(b, uuid, "k", "2", { durable: true });
    for (const node of [a, b]) cluster.table.cut(node.id);
    await pause(placedTtlMs);
    expect(a.placement.isLeased).toBe(false);
    expect((await cluster.put(a, uuid, "k", "3")).txid).toBe(3);
    expect((await cluster.put(b, uuid, "k", "4")).txid).toBe(4);
    expect(await cluster.get(b, uuid, "k", { minTxid: 4 })).toBe("4");
    const fresh = await catchRefusal(cluster.put(a, uuidOf(2), "k", "v"));
    expect([fresh.code, fresh.detail.retryAfterSecs]).toEqual(["unavailable", 1]);
    expect(await cluster.get(a, uuidOf(2), "k")).toBeUndefined();
  });

  test("F52 leases taken away wrongly cost lease epochs, and no write acknowledged as durable", async () => {
    const {
      cluster,
      nodes: [a, b],
    } = await PlacedNodes.start("a", "b");
    const written: string[] = [];
    for (let round = 0; round < 6; round++) {
      for (const node of [a, b]) {
        const key = `${node.id}-${round}`;
        // Whoever was overtaken without knowing may say once that he does not know what became of it.
        await until(() =>
          cluster.put(node, uuid, key, "v", { durable: true }).then(
            () => true,
            ({ code }: ServiceError) => (expect(code).toBe("unavailable"), false),
          ),
        );
        written.push(key);
        cluster.table.revoke(cluster.findHolder(uuid) ?? "nobody");
      }
    }
    // Who believes in a lease that was taken away answers from what it has, until it asks to renew it.
    await until(() =>
      [a, b].every(({ id, placement }) => placement.heldCount === (cluster.findHolder(uuid) === id ? 1 : 0)),
    );
    for (const key of written) expect(await cluster.get(a, uuid, key, { consistency: "primary" })).toBe("v");
    expect(cluster.table.holding(uuid).holder!.leaseEpoch).toBeGreaterThan(1);
  });

  test("F55 a node whose database another one has claimed sends its calls there", async () => {
    const {
      cluster,
      nodes: [a, b],
    } = await PlacedNodes.start("a", "b");
    await cluster.put(a, uuid, "k", "1", { durable: true });
    // It reaches object storage and the other node, not the coordination store.
    cluster.table.cut("a");
    cluster.table.revoke("a");
    await cluster.put(b, uuid, "k", "2", { durable: true });
    expect(cluster.findHolder(uuid)).toBe("b");
    // Whatever it answers, it has not been done there.
    await cluster.put(a, uuid, "k", "3", { durable: true, budgetMs: 2_000 }).then(
      () => expect.unreachable(),
      () => undefined,
    );
    await until(() => a.placement.heldCount === 0);
    cluster.table.mend("a");
    await until(() => a.placement.isLeased);
    await cluster.put(a, uuid, "k", "4");
    expect(cluster.findHolder(uuid)).toBe("b");
    expect(await cluster.get(b, uuid, "k")).toBe("4");
  });
});
