/** What every adapter of the lease port that several nodes share must do: one suite, run over each of them. */
import { describe, expect, onTestFinished, test } from "vitest";
import type { LeaseEvents, Leases, LiveNode } from "../../src/store/port/leases.ts";

/** One coordination store, and a new adapter of it for each node. */
export interface SharedCoordination {
  open(): Leases;
}

/** A node's adapter with what it was told. */
export interface LeasedNode {
  readonly node: LiveNode;
  readonly leases: Leases;
  /** The spans that were told, and every loss. */
  readonly told: (Parameters<LeaseEvents["renewed"]>[0] | "lost")[];
}

let nodes = 0;

/** A node that has joined; it leaves when the test ends. */
export async function joined(leases: Leases, id = `node-${++nodes}`): Promise<LeasedNode> {
  const node = { id, address: `http://${id}:8080`, reachesStore: true, sharesJobs: true };
  const told: LeasedNode["told"] = [];
  onTestFinished(() => leases.leave().catch(() => {}));
  await leases.join(node, { renewed: (until) => void told.push(until), lost: () => void told.push("lost") });
  return { node, leases, told };
}

/** Runs the suite; every `open` answers an empty store. */
export function describeLeases(name: string, open: () => SharedCoordination): void {
  describe(name, () => {
    test("a free database is taken under term 1, others see its holder, and its count outlives release", async () => {
      const coordination = open();
      const a = await joined(coordination.open());
      const b = await joined(coordination.open());
      expect(await b.leases.holding("db")).toEqual({ holder: undefined });
      expect(await a.leases.acquire("db")).toEqual({ kind: "acquired", leaseEpoch: 1 });
      const holder = { nodeId: a.node.id, address: a.node.address, leaseEpoch: 1 };
      expect(await b.leases.holding("db")).toEqual({ holder });
      expect(await b.leases.acquire("db")).toEqual({ kind: "held", by: holder });
      await b.leases.release("db", 1);
      await a.leases.release("db", 2);
      expect((await a.leases.holding("db")).holder).toEqual(holder);
      await a.leases.release("db", 1);
      expect(await b.leases.holding("db")).toEqual({ holder: undefined });
      expect(await b.leases.acquire("db")).toEqual({ kind: "acquired", leaseEpoch: 2 });
      expect(await b.leases.acquire("other")).toEqual({ kind: "acquired", leaseEpoch: 1 });
    });

    test("distribution-10: 16 nodes that race for one database converge on one holder", async () => {
      const coordination = open();
      const racers = await Promise.all(Array.from({ length: 16 }, () => joined(coordination.open())));
      const outcomes = await Promise.all(racers.map(({ leases }) => leases.acquire("db")));
      const winners = racers.filter((_, at) => outcomes[at]!.kind === "acquired");
      expect(winners).toHaveLength(1);
      const holder = { nodeId: winners[0]!.node.id, address: winners[0]!.node.address, leaseEpoch: 1 };
      expect(outcomes.filter(({ kind }) => kind === "held")).toEqual(
        Array.from({ length: 15 }, () => ({ kind: "held", by: holder })),
      );
    });

    test("no term is given twice, however often the database changes hands", async () => {
      const coordination = open();
      const rivals = await Promise.all([1, 2, 3].map(() => joined(coordination.open())));
      const leaseEpochs: number[] = [];
      await Promise.all(
        rivals.map(async ({ leases }) => {
          for (let turn = 0; turn < 20; turn++) {
            const acquisition = await leases.acquire("db");
            if (acquisition.kind === "held") continue;
            leaseEpochs.push(acquisition.leaseEpoch);
            await leases.release("db", acquisition.leaseEpoch);
          }
        }),
      );
      expect(leaseEpochs.length).toBeGreaterThan(0);
      expect(leaseEpochs).toEqual(leaseEpochs.map((_, at) => at + 1));
    });

    test("databases that share a count each have terms that grow", async () => {
      const coordination = open();
      const a = await joined(coordination.open());
      const b = await joined(coordination.open());
      const last = new Map<string, number>();
      for (let turn = 0; turn < 5; turn++) {
        await Promise.all(
          ["abc-1", "abc-2", "abc-3"].map(async (uuid, at) => {
            const taker = (turn + at) % 2 === 0 ? a : b;
            const acquisition = await taker.leases.acquire(uuid);
            if (acquisition.kind === "held") throw new Error("nobody else takes it now");
            expect(acquisition.leaseEpoch).toBeGreaterThan(last.get(uuid) ?? 0);
            last.set(uuid, acquisition.leaseEpoch);
            await taker.leases.release(uuid, acquisition.leaseEpoch);
          }),
        );
      }
      expect(Math.max(...last.values())).toBe(15);
    });

    test("a node that comes back takes its own databases under the next term before its old lease ends", async () => {
      const coordination = open();
      const before = await joined(coordination.open(), "node-back");
      await before.leases.acquire("db");
      const after = await joined(coordination.open(), "node-back");
      expect(await after.leases.acquire("db")).toEqual({ kind: "acquired", leaseEpoch: 2 });
      await before.leases.release("db", 1);
      expect((await after.leases.holding("db")).holder).toMatchObject({ leaseEpoch: 2 });
    });

    test("a node that leaves is gone at once, and so is all that it held", async () => {
      const coordination = open();
      const a = await joined(coordination.open());
      const b = await joined(coordination.open());
      await a.leases.acquire("db");
      await a.leases.leave();
      expect(await b.leases.nodes()).toEqual([b.node]);
      expect(await b.leases.holding("db")).toEqual({ holder: undefined });
      expect(await b.leases.acquire("db")).toEqual({ kind: "acquired", leaseEpoch: 2 });
      await expect(a.leases.acquire("db2")).rejects.toMatchObject({ kind: "unavailable" });
    });

    test("nodes see each other and what the others announce", async () => {
      const coordination = open();
      const a = await joined(coordination.open());
      expect(await a.leases.nodes()).toEqual([a.node]);
      const changed = { ...a.node, reachesStore: false };
      await a.leases.announce(changed);
      const b = await joined(coordination.open());
      expect((await b.leases.nodes()).toSorted((x, y) => x.id.localeCompare(y.id))).toEqual(
        [changed, b.node].toSorted((x, y) => x.id.localeCompare(y.id)),
      );
    });

    test("a forgotten database is held by nobody, and its terms go on", async () => {
      const coordination = open();
      const a = await joined(coordination.open());
      await a.leases.acquire("db");
      await a.leases.forget("db");
      expect(await a.leases.holding("db")).toEqual({ holder: undefined });
      expect(await a.leases.acquire("db")).toEqual({ kind: "acquired", leaseEpoch: 2 });
    });

    test("a joined node has been told for how long it surely holds its lease", async () => {
      const a = await joined(open().open());
      expect(a.told).toEqual([{ monotonicMs: expect.any(Number), wallMs: expect.any(Number) }]);
    });
  });
}
