/**
 * Whose shards are whose: every one has one owner among those who see the same, old builds have none, and who gains
 * some hears of it.
 */
import { describe, expect, test } from "vitest";
import { StoreError } from "../../../../src/base/faults/errors.ts";
import { shardsCount } from "../../../../src/format/core/shards.ts";
import { ShardOwners, Shards, shardMembersMs } from "../../../../src/service/placement/shards.ts";
import type { LiveNode } from "../../../../src/store/port/leases.ts";
import { Scheduler } from "../../../sim/scheduler.ts";
import { SimWorld } from "../../../sim/sim-world.ts";

const buildNodes = (...ids: string[]): LiveNode[] =>
  ids.map((id) => ({ id, address: `http://${id}`, reachesStore: true, sharesJobs: true }));
const buildIds = (count: number): string[] => Array.from({ length: count }, (_, index) => `node-${index}`);

function sharedAmong(...memberships: readonly LiveNode[][]): ShardOwners {
  const owners = new ShardOwners();
  for (const nodes of memberships) owners.share(nodes);
  return owners;
}

const ownedBy = (owners: ShardOwners, ids: readonly string[]): number[] => ids.map((id) => owners.ownedBy(id).length);

describe("shards", () => {
  test("each have one owner, and every node its share", () => {
    for (const count of [1, 3, 10, 100]) {
      const shares = ownedBy(sharedAmong(buildNodes(...buildIds(count))), buildIds(count));
      expect(shares.reduce((sum, share) => sum + share, 0)).toBe(shardsCount);
      const [mean, deviation] = [shardsCount / count, Math.sqrt(shardsCount / count)];
      for (const share of shares) expect(Math.abs(share - mean)).toBeLessThanOrEqual(5 * deviation);
    }
  });

  test("come to the same owners whichever way nodes came and went; only those of a node that goes move", () => {
    const [a, b] = [buildIds(40), buildIds(60).slice(20)];
    const direct = sharedAmong(buildNodes(...b));
    const byTurns = sharedAmong(
      buildNodes(...a),
      buildNodes(...a, ...b.slice(20)),
      buildNodes("x"),
      [],
      buildNodes(...a),
      buildNodes(...b).toReversed(),
    );
    for (const id of b) expect(byTurns.ownedBy(id)).toEqual(direct.ownedBy(id));
    expect(byTurns.ownedBy("node-0")).toEqual([]);
    const before = sharedAmong(buildNodes(...a));
    const after = sharedAmong(buildNodes(...a), buildNodes(...a.slice(1)));
    for (const id of a.slice(1)) expect(after.ownedBy(id)).toEqual(expect.arrayContaining([...before.ownedBy(id)]));
  });

  test("are not left to old builds, nor to nodes that do not reach object storage, while another does", () => {
    // Old: those that know nothing of them.
    const [a, b, c] = buildNodes("a", "b", "c") as [LiveNode, LiveNode, LiveNode];
    expect(
      ownedBy(sharedAmong([a, { ...b, sharesJobs: false }, { ...c, reachesStore: false }]), ["a", "b", "c"]),
    ).toEqual([shardsCount, 0, 0]);
    expect(
      ownedBy(
        sharedAmong([
          { ...b, sharesJobs: false },
          { ...c, reachesStore: false },
        ]),
        ["b", "c"],
      ),
    ).toEqual([0, shardsCount]);
    expect(ownedBy(sharedAmong([{ ...b, sharesJobs: false }]), ["b"])).toEqual([0]);
  });

  test("of 1,000 nodes are worked out anew in a few milliseconds when one comes or goes", () => {
    const ids = buildIds(1_000);
    const owners = sharedAmong(buildNodes(...ids));
    const tookMs = (nodes: readonly LiveNode[]): number => {
      const startedMs = performance.now();
      owners.share(nodes);
      return performance.now() - startedMs;
    };
    const fewer = buildNodes(...ids.slice(1));
    const all = buildNodes(...ids);
    expect(Math.min(...Array.from({ length: 10 }, () => tookMs(fewer) + tookMs(all)))).toBeLessThan(20);
  });
});

describe("a node", () => {
  function owning(): {
    shards: Shards;
    scheduler: Scheduler;
    pass: (ms: number) => Promise<void>;
    set: (nodes: readonly LiveNode[] | "silent") => void;
    gains: () => number;
  } {
    const scheduler = new Scheduler(1, 0);
    const world = new SimWorld(scheduler, 1, "a");
    let nodes: readonly LiveNode[] | "silent" = buildNodes("a");
    let gains = 0;
    const shards = new Shards({
      world,
      nodeId: "a",
      nodes: async () => {
        if (nodes === "silent") throw new StoreError("unavailable", "no answer");
        return nodes;
      },
    });
    shards.whenGained(() => gains++);
    const pass = async (ms: number): Promise<void> => {
      let isOver = false;
      void scheduler.sleep(ms).then(() => (isOver = true));
      await scheduler.run(() => isOver, Infinity);
    };
    return { shards, scheduler, pass, set: (given) => void (nodes = given), gains: () => gains };
  }

  test("hears of what it gains between two looks, and keeps what it has while nobody says who lives", async () => {
    const { shards, pass, set, gains } = owning();
    expect(shards.from(0)).toBeUndefined();
    await pass(1);
    void shards.start();
    await pass(10);
    expect([shards.from(0), shards.has(shardsCount - 1), shards.from(shardsCount), gains()]).toEqual([
      0,
      true,
      undefined,
      1,
    ]);
    set(buildNodes("a", "b"));
    await pass(shardMembersMs + 10);
    const own = Array.from({ length: shardsCount }, (_, shard) => shard).filter((shard) => shards.has(shard));
    expect(own.length).toBeGreaterThan(1_500);
    expect(own.length).toBeLessThan(2_500);
    for (let shard = 0; shard < shardsCount; shard += 7)
      expect(shards.from(shard)).toBe(own.find((one) => one >= shard));
    expect(gains()).toBe(1);
    set("silent");
    await pass(10 * shardMembersMs);
    expect(shards.has(own[0]!)).toBe(true);
    set(buildNodes("a"));
    await pass(shardMembersMs + 10);
    expect([gains(), shards.has(0), shards.has(shardsCount - 1)]).toEqual([2, true, true]);
    await shards.close();
    expect(shards.from(0)).toBeUndefined();
  });
});
