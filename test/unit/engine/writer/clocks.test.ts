/** One wrong wall clock: what a node does meanwhile, and that no harm of it stays. */
import { describe, expect, test } from "vitest";
import { limits } from "../../../../src/base/limits.ts";
import { packRefsMin } from "../../../../src/engine/compaction/timeline-length.ts";
import { duePrefix } from "../../../../src/format/keys/expiry-keys.ts";
import { databasePrefix } from "../../../../src/format/keys/object-keys.ts";
import type { ObjectStore } from "../../../../src/store/port/object-store.ts";
import { TimedEngine, VirtualTime } from "../../../support/timed-engine.ts";
import { clockSlackMs } from "../../../../src/base/trusted-time.ts";
import { sweepIntervalMs } from "../../../../src/engine/maintenance/expired-row-sweeper.ts";
import { collectAfterMs } from "../../../../src/engine/maintenance/background-jobs.ts";

const hourMs = 3_600_000;
const dayMs = 24 * hourMs;
const yearMs = 365 * dayMs;
const startMs = Date.UTC(2030, 0, 1);
const trueMs = (time: VirtualTime): number => Math.floor(startMs + time.scheduler.nowMs);
const listPool = (node: TimedEngine): readonly string[] =>
  node.time.store.keys(databasePrefix(node.uuid)).filter((key) => key.includes("/seg/") || key.includes("/hist/"));
const shippedMs = limits.shipIntervalMs + 20;

/** A node on a directory, or on a store that has a clock of its own and tells it with each answer. */
function nodeOn(
  store: "file" | "s3",
  time: VirtualTime,
  options: ConstructorParameters<typeof TimedEngine>[1] = {},
  skewMs = 0,
): TimedEngine {
  if (store === "file") return new TimedEngine(time, { nodeId: "a", idleCloseMs: 1e12, ...options });
  const telling = new Proxy(time.store, {
    get:
      (_, name: keyof ObjectStore) =>
      async (...args: never[]) => {
        const sentMs = node.world.monotonicMs();
        const answer = await (time.store[name] as (...args: never[]) => Promise<unknown>)(...args);
        node.world.time.heard(Math.floor(trueMs(time) / 1_000) * 1_000, sentMs);
        return answer;
      },
  });
  const node = new TimedEngine(time, { nodeId: "a", idleCloseMs: 1e12, ...options }, undefined, telling);
  node.world.skewMs = skewMs;
  node.world.time.awaitStore();
  return node;
}

async function putAndSync(node: TimedEngine, key: string, branch = "main"): Promise<number> {
  const { txid } = await node.put(key, branch);
  await node.sync(branch);
  return txid;
}

function puttingFor(node: TimedEngine, key: string, ttlSecs: number): Promise<unknown> {
  return node.time.of(
    node.client.write(node.at("main"), "kv.put", { ns: "n", key, value: Buffer.from(key), ttlSecs }, node.soon()),
  );
}

const wrongClocks = [
  ["file", 4 * dayMs],
  ["file", 8 * yearMs],
  ["file", -8 * yearMs],
  ["s3", 4 * dayMs],
  ["s3", 8 * yearMs],
  ["s3", -8 * yearMs],
] as const;

describe("the time of commits", () => {
  test.each(wrongClocks)(
    "F42: on %s, a clock that is off by %d ms once: times are right afterwards, transaction ids go on",
    async (store, skewMs) => {
      const time = new VirtualTime();
      const node = nodeOn(store, time);
      const txids = [await putAndSync(node, "k1")];
      node.world.skewMs = skewMs;
      txids.push(await putAndSync(node, "k2"));
      await puttingFor(node, "lives a day", 86_400);
      node.world.skewMs = 0;
      await time.pass(2_000);
      txids.push(await putAndSync(node, "k3"));
      expect(txids).toEqual([1, 2, 4]);
      const offMs = time.manifest(node.uuid).committedAtMs - trueMs(time);
      expect(Math.abs(offMs)).toBeLessThan(10_000);
      await puttingFor(node, "lives a minute", 60);
      expect(await node.keys()).toEqual(["k1", "k2", "k3", "lives a day", "lives a minute"]);
      await time.pass(61_000);
      expect(await node.keys()).toEqual(["k1", "k2", "k3", "lives a day"]);
      await time.pass(5 * sweepIntervalMs);
      const { txid } = await node.put("k4");
      expect(txid).toBe(7);
      await time.pass(dayMs);
      // Written under a clock that was days ahead it lives that much longer, and no more.
      if (store === "s3" || skewMs !== 4 * dayMs) expect(await node.keys()).not.toContain("lives a day");
      expect(await node.keys()).toContain("k4");
    },
  );

  test("F42: after a restart, and when the file says a time that has not come", async () => {
    const time = new VirtualTime();
    let node = new TimedEngine(time, { nodeId: "a" });
    await putAndSync(node, "k1");
    node.world.skewMs = 4 * dayMs;
    await putAndSync(node, "k2");
    expect(time.manifest(node.uuid).committedAtMs).toBeGreaterThan(trueMs(time) + 3 * dayMs);
    node = await node.again();
    expect(await putAndSync(node, "k3")).toBe(3);
    expect(Math.abs(time.manifest(node.uuid).committedAtMs - trueMs(time))).toBeLessThan(10_000);
    await node.branch({ act: "rewind", to: "2" });
    expect(await node.keys()).toEqual(["k1", "k2"]);
    expect(Math.abs(time.manifest(node.uuid).committedAtMs - trueMs(time))).toBeLessThan(10_000);
  });

  test("F42: does not go back over steps of seconds, or when a node with a slower clock takes over", async () => {
    const time = new VirtualTime();
    let node = new TimedEngine(time, { nodeId: "a" });
    node.world.skewMs = 20_000;
    await putAndSync(node, "k1");
    const beforeMs = time.manifest(node.uuid).committedAtMs;
    node = await node.again();
    await putAndSync(node, "k2");
    expect(time.manifest(node.uuid).committedAtMs).toBe(beforeMs);
  });
});

describe("garbage", () => {
  test.each([
    ["file", 4 * dayMs],
    ["file", 8 * yearMs],
    ["s3", 8 * yearMs],
  ] as const)(
    "F42: on %s, what was condemned under a clock that was ahead by %d ms goes after its grace",
    async (store, skewMs) => {
      const time = new VirtualTime();
      const node = nodeOn(store, time, { gcGraceMs: 60_000 });
      for (let n = 0; n < packRefsMin + 4; n++) {
        await node.put(`k${n}`);
        await time.pass(shippedMs);
      }
      node.world.skewMs = skewMs;
      await time.pass(70_000);
      expect(time.catalog(node.uuid).condemned.length).toBeGreaterThan(0);
      node.world.skewMs = 0;
      const before = listPool(node).length;
      await time.pass(10 * 60_000);
      expect(listPool(node).length).toBeLessThan(before);
      expect(time.catalog(node.uuid).condemned.filter(({ atMs }) => atMs > trueMs(time) + clockSlackMs)).toEqual([]);
    },
  );

  test("F42: nothing goes before its grace because the clock has come to be ahead", async () => {
    const time = new VirtualTime();
    const node = new TimedEngine(time, { nodeId: "a", idleCloseMs: 1e12, gcGraceMs: hourMs });
    for (let n = 0; n < packRefsMin + 4; n++) {
      await node.put(`k${n}`);
      await time.pass(shippedMs);
    }
    await time.pass(100_000);
    const condemned = time.catalog(node.uuid).condemned.map(({ key }) => databasePrefix(node.uuid) + key);
    expect(condemned.length).toBeGreaterThan(0);
    node.world.skewMs = 4 * dayMs;
    const { collections } = node.engine.state;
    for (let n = 0; n < packRefsMin + 4; n++) {
      await node.put(`l${n}`);
      await time.pass(shippedMs);
    }
    await time.pass(100_000);
    expect(node.engine.state.collections).toBeGreaterThan(collections);
    node.world.skewMs = 0;
    expect(listPool(node)).toEqual(expect.arrayContaining(condemned));
  });

  test.each([8 * yearMs, -8 * yearMs])(
    "F42: names of another time (%d ms): a takeover takes no fresh object for garbage, and leaves none behind",
    async (skewMs) => {
      const time = new VirtualTime();
      const audit = time.store.audit();
      audit.mayJump = true;
      const first = new TimedEngine(time, { nodeId: "a", gcGraceMs: 60_000, idleCloseMs: 1e12 });
      // Wrong from its start and for more than an hour: so are the names of its objects.
      first.world.skewMs = skewMs;
      await time.pass(limits.clockSteadyMs + 2_000);
      for (let n = 0; n < 12; n++) {
        await first.put(`a${n}`);
        await time.pass(shippedMs);
      }
      // An object that is never published.
      time.store.decideFate = (verb, key) => (verb === "put" && key.includes("/head/") ? "refused" : "fine");
      await time.of(first.putting("lost", "main", {}, "x".repeat(300_000)));
      await time.pass(shippedMs);
      time.store.decideFate = () => "fine";
      first.kill();
      const second = new TimedEngine(time, { nodeId: "b", gcGraceMs: 60_000, idleCloseMs: 1e12 });
      for (let n = 0; n < 12; n++) {
        await second.put(`b${n}`);
        await time.pass(shippedMs);
      }
      await time.pass(6 * hourMs);
      for (let n = 0; n < 4; n++) {
        await second.put(`c${n}`);
        await time.pass(shippedMs);
      }
      await time.pass(6 * hourMs);
      expect(time.store.violations).toEqual([]);
      const manifest = time.manifest(second.uuid);
      const timelines = time.history(second.uuid).timelines.flatMap(({ refs }) => refs);
      const live = new Set([...manifest.refs, ...timelines].map(({ id }) => id));
      expect(listPool(second).filter((key) => key.includes("/seg/") && !live.has(key.split("/seg/")[1]!))).toEqual([]);
      const fresh = await second.again(true);
      expect(await fresh.keys()).toEqual(expect.arrayContaining(["a0", "a11", "b0", "b11", "c3"]));
    },
  );
});

describe("what ends by a time", () => {
  test.each([
    ["file", 4 * dayMs],
    ["file", 8 * yearMs],
    ["s3", 4 * dayMs],
  ] as const)(
    "F42: on %s, a clock that is ahead by %d ms for two minutes ends no branch, trims no history, sweeps no row",
    async (store, skewMs) => {
      const time = new VirtualTime();
      const node = nodeOn(store, time, { gcGraceMs: 60_000, pitrMs: dayMs });
      await node.put("k1");
      await node.branch({ act: "fork", name: "x", ttlSecs: 3 * 86_400 });
      await putAndSync(node, "onx", "x");
      await putAndSync(node, "k2");
      await puttingFor(node, "ttl", 3 * 86_400);
      await node.branch({ act: "rewind", to: "1" });
      await putAndSync(node, "k3");
      await puttingFor(node, "ttl too", 3 * 86_400);
      const memories = [{ type: "task", summary: "a task", content: "{}", ttlSecs: 2 * 86_400 }];
      const { value } = await time.of(
        node.client.write(node.at("main"), "memory.ingest", { memories } as never, node.soon()),
      );
      const [{ id }] = (value as never as { results: [{ id: string }] }).results;
      // An acknowledged write that only the disk has.
      time.store.decideFate = (verb, key) => (verb === "put" && key.includes("/head/") ? "refused" : "fine");
      await node.put("unshipped", "x");
      node.world.skewMs = skewMs;
      for (let n = 0; n < 13; n++) {
        await time.pass(10_000);
        await node.keys("x").catch(() => {});
        await node.branch({ act: "fork", name: "x" }).catch(() => {});
      }
      node.world.skewMs = 0;
      time.store.decideFate = () => "fine";
      await time.pass(2_000);
      const { branches } = await node.branch({ act: "list" });
      expect(branches.map(({ name }: { name: string }) => name)).toEqual(["main", "x"]);
      expect(await node.keys("x")).toEqual(["k1", "onx", "unshipped"]);
      expect(await node.keys()).toEqual(["k1", "k3", "ttl too"]);
      const found = await time.of(node.client.read(node.at("main"), "memory.get", { id }, node.soon()));
      expect(found.value).toBeDefined();
      await node.branch({ act: "rewind", to: "2" });
      expect(await node.keys()).toEqual(["k1", "k2"]);
      await node.branch({ act: "rewind", to: "3" });
      expect(await node.keys()).toEqual(["k1", "k2", "ttl"]);
      // And all of it ends when its time has come.
      await time.pass(3 * dayMs);
      expect((await node.branch({ act: "list" })).branches.map(({ name }: { name: string }) => name)).toEqual(["main"]);
      expect(await node.keys()).toEqual(["k1", "k2"]);
    },
  );

  test("F42: a clock that is ahead when a node starts, and stays so: the store's is gone by", async () => {
    const time = new VirtualTime();
    const node = nodeOn("s3", time, { gcGraceMs: 60_000, pitrMs: dayMs }, 4 * dayMs);
    await node.put("k1");
    const { ttlAtMs } = await node.branch({ act: "fork", name: "x", ttlSecs: 3 * 86_400 });
    expect(Math.abs(ttlAtMs - trueMs(time) - 3 * dayMs)).toBeLessThan(5_000);
    await putAndSync(node, "onx", "x");
    await time.pass(dayMs);
    expect(await node.keys("x")).toEqual(["k1", "onx"]);
    expect(Math.abs(time.manifest(node.uuid).committedAtMs - trueMs(time))).toBeLessThan(dayMs + 5_000);
    await time.pass(2 * dayMs);
    expect((await node.branch({ act: "list" })).branches).toHaveLength(1);
  });

  test("F42: a timeline closed by a clock that was ahead leaves the window once that is set right", async () => {
    const time = new VirtualTime();
    const node = new TimedEngine(time, { nodeId: "a", idleCloseMs: 1e12, gcGraceMs: 60_000, pitrMs: dayMs });
    await putAndSync(node, "k1");
    await putAndSync(node, "k2");
    node.world.skewMs = 20 * hourMs;
    await node.branch({ act: "rewind", to: "1" });
    expect(time.history(node.uuid).timelines[0]!.endedAtMs).toBeGreaterThan(trueMs(time) + 19 * hourMs);
    node.world.skewMs = 0;
    await node.branch({ act: "checkpoint", name: "c" });
    await node.branch({ act: "forget-checkpoint", name: "c" });
    await time.pass(collectAfterMs + 5_000);
    expect(time.history(node.uuid).timelines[0]!.endedAtMs).toBeLessThan(trueMs(time) + clockSlackMs);
    await node.branch({ act: "rewind", to: "2" });
    await time.pass(dayMs + hourMs);
    await node.branch({ act: "checkpoint", name: "c" });
    await node.branch({ act: "forget-checkpoint", name: "c" });
    await time.pass(collectAfterMs + 5_000);
    expect(time.history(node.uuid).timelines.map(({ fromTxid }) => fromTxid)).not.toContain(1);
  });

  test("F42: an entry of what is due is not used up by a clock that is ahead", async () => {
    const time = new VirtualTime();
    const node = new TimedEngine(time, { nodeId: "a", gcGraceMs: 60_000, idleCloseMs: 30_000 });
    await node.put("k1");
    await node.branch({ act: "fork", name: "x", ttlSecs: 7_200 });
    await time.pass(120_000);
    const catalog = time.catalog(node.uuid);
    const { id: branchId } = catalog.branches.find(({ name }) => name === "x")!;
    const entries = (): number => time.store.keys(duePrefix).filter((key) => key.endsWith(branchId)).length;
    expect(entries()).toBe(1);
    await time.of(time.store.delete(time.store.keys(duePrefix).find((key) => key.endsWith(branchId))!));
    const again = await node.again();
    again.world.skewMs = 4 * dayMs;
    // Another node, or the main thread, took the time for certain.
    await again.branch({ act: "sweep", branchId } as never);
    await time.pass(2_000);
    expect(entries()).toBe(1);
    again.world.skewMs = 0;
    await time.pass(3 * hourMs);
    await again.branch({ act: "sweep", branchId } as never);
    expect(time.catalog(again.uuid).branches.map(({ name }) => name)).toEqual(["main"]);
  });
});
