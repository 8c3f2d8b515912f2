/** The leases that tests share, which must do what etcd's do. */
import { describe, expect, test } from "vitest";
import { realWorld, type World } from "../../../../src/base/world.ts";
import { describeLeases, joined } from "../../../support/lease-suite.ts";
import { LeaseTable, SharedLeases } from "../../../support/shared-leases.ts";

describeLeases("leases that tests share", () => {
  const table = new LeaseTable(realWorld());
  return { open: () => new SharedLeases(table, realWorld()) };
});

describe("leases that tests share, in time", () => {
  /** Worlds with one clock, which `pass` moves; what is due happens on the way. */
  function time(): { world: World; pass: (ms: number) => Promise<void> } {
    let nowMs = 0;
    let due: { atMs: number; act: () => void }[] = [];
    const world: World = {
      ...realWorld(),
      nowMs: () => nowMs,
      wallMs: () => nowMs,
      monotonicMs: () => nowMs,
      after(delayMs, act) {
        const timer = { atMs: nowMs + delayMs, act };
        due.push(timer);
        return () => void (due = due.filter((other) => other !== timer));
      },
    };
    const pass = async (ms: number): Promise<void> => {
      const endMs = nowMs + ms;
      for (;;) {
        // What was asked for just now is set before the clock moves on.
        await new Promise((resolve) => setImmediate(resolve));
        const next = due.filter(({ atMs }) => atMs <= endMs).toSorted((a, b) => a.atMs - b.atMs)[0];
        if (!next) break;
        due = due.filter((timer) => timer !== next);
        nowMs = next.atMs;
        next.act();
      }
      nowMs = endMs;
    };
    return { world, pass };
  }

  test("a node that is cut off loses its databases with its lease, hears so, and has a lease again", async () => {
    const { world, pass } = time();
    const table = new LeaseTable(world);
    const a = await joined(new SharedLeases(table, world));
    const b = await joined(new SharedLeases(table, world));
    await a.leases.acquire("db");
    await pass(60_000);
    expect(a.told.at(-1)).toEqual({ monotonicMs: 68_000, wallMs: 68_000 });
    table.cut(a.node.id);
    await pass(9_000);
    expect(await b.leases.acquire("db")).toMatchObject({ kind: "held" });
    await expect(a.leases.holding("db")).rejects.toMatchObject({ kind: "unavailable" });
    await pass(1_001);
    expect(await b.leases.acquire("db")).toEqual({ kind: "acquired", leaseEpoch: 2 });
    expect(await b.leases.nodes()).toEqual([b.node]);
    expect(a.told).not.toContain("lost");
    table.mend(a.node.id);
    await pass(2_000);
    expect(a.told.slice(-2)).toEqual(["lost", { monotonicMs: 80_000, wallMs: 80_000 }]);
    expect(await a.leases.acquire("db")).toMatchObject({ kind: "held", by: { nodeId: b.node.id } });
  });

  test("F51: F57: what is lost begins anew, and without progress the lease lapses", async () => {
    const { world, pass } = time();
    const table = new LeaseTable(world);
    let hangs = false;
    const a = await joined(new SharedLeases(table, world, () => (hangs ? new Promise(() => {}) : Promise.resolve())));
    const b = await joined(new SharedLeases(table, world));
    for (let turn = 0; turn < 3; turn++) await a.leases.acquire("db");
    table.wipe();
    await expect(b.leases.acquire("db")).rejects.toMatchObject({ kind: "unavailable" });
    await pass(2_001);
    expect(await b.leases.holding("db")).toEqual({ holder: undefined });
    expect(await a.leases.acquire("db")).toEqual({ kind: "acquired", leaseEpoch: 1 });
    hangs = true;
    await pass(10_001);
    expect(await b.leases.acquire("db")).toEqual({ kind: "acquired", leaseEpoch: 2 });
  });
});
