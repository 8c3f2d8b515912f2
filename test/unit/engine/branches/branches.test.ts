/** Branches and checkpoints: forks of any state, names, bounds, and what they cost. */
import { describe, expect, test } from "vitest";
import { limits } from "../../../../src/base/limits.ts";
import { CopyRecords } from "../../../../src/control/databases/copy-records.ts";
import { Catalogs } from "../../../../src/engine/history/catalogs.ts";
import { GarbageCollector } from "../../../../src/engine/maintenance/garbage-collector.ts";
import { encodeCatalog, catalogBytesMax } from "../../../../src/format/history/catalog.ts";
import { encodeManifest, computeSha256 } from "../../../../src/format/history/manifest.ts";
import { encodeHistory } from "../../../../src/format/history/history.ts";
import { catalogKey, manifestKey, historyKey, poolId } from "../../../../src/format/keys/object-keys.ts";
import { TimedEngine, VirtualTime } from "../../../support/timed-engine.ts";
import { startBranching, findId, describeOutcome } from "../../../support/branching-node.ts";

/** Gives the branch named states, as so many checkpoints leave them: an object of history, which the manifest names. */
async function giveCheckpoints(time: VirtualTime, node: TimedEngine, name: string, count: number): Promise<void> {
  const branchId = findId(time, node, name);
  const manifest = time.manifest(node.uuid, branchId);
  const id = poolId(branchId, manifest.epoch, node.world.ulid());
  const checkpoints = Array.from({ length: count }, (_, n) => ({ name: `c${n}`, txid: manifest.txid, createdAtMs: n }));
  const bytes = encodeHistory({ uuid: node.uuid, branchId, timelines: [], checkpoints });
  const { version } = time.store.read(manifestKey(node.uuid, branchId))!;
  await time.store.calm.put(historyKey(node.uuid, id), bytes, { kind: "absent" });
  const next = {
    ...manifest,
    seq: manifest.seq + 1,
    history: { id, bytes: bytes.length, sha256: computeSha256(bytes) },
  };
  await time.store.calm.put(manifestKey(node.uuid, branchId), encodeManifest(next), { kind: "version", version });
}

describe("a fork", () => {
  test("branching-02: sees what its parent had, and neither sees what the other writes then", async () => {
    const { time, node } = startBranching();
    await node.put("base");
    expect(await node.branch({ act: "fork", name: "x" })).toMatchObject({ branch: "x", parent: "main", forkTxid: 1 });
    await node.put("theirs", "x");
    await node.put("ours");
    expect(await node.keys("x")).toEqual(["base", "theirs"]);
    expect(await node.keys()).toEqual(["base", "ours"]);
    const again = await node.again(true);
    expect(await again.keys("x")).toEqual(["base", "theirs"]);
    expect(await again.keys()).toEqual(["base", "ours"]);
    expect(time.store.violations).toEqual([]);
  });

  test("of any txid and of a checkpoint, inside and outside of the tail", async () => {
    const { time, node } = startBranching();
    for (let n = 1; n <= 6; n++) await node.put(`k${n}`, "main", { durable: n > 3 });
    await node.branch({ act: "checkpoint", name: "c" });
    await node.put("k7");
    expect(time.manifest(node.uuid).tail.length).toBeGreaterThan(0);
    const counts = [
      ["0", 0],
      ["2", 2],
      ["5", 5],
      ["c", 6],
      ["7", 7],
    ] as const;
    for (const [at, count] of counts) {
      await node.branch({ act: "fork", name: `f${at}`, at });
      expect(await node.keys(`f${at}`)).toHaveLength(count);
      expect((await node.put("own", `f${at}`)).txid).toBe(Number(at === "c" ? 6 : at) + 1);
      await node.sync(`f${at}`);
    }
    await expect(node.branch({ act: "fork", name: "nothing", at: "8" })).rejects.toMatchObject({ code: "not_found" });
    await expect(node.branch({ act: "fork", name: "nothing", at: "none" })).rejects.toMatchObject({
      code: "not_found",
    });
    const again = await node.again(true);
    for (const [at, count] of counts) expect(await again.keys(`f${at}`)).toHaveLength(count + 1);
    expect(time.store.violations).toEqual([]);
  });

  test("of a branch that nobody has written, and of a fork of a fork", async () => {
    const { time, node } = startBranching();
    expect(await node.branch({ act: "fork", name: "a" })).toMatchObject({ forkTxid: 0 });
    await node.branch({ act: "fork", name: "b" }, "a");
    await node.put("k", "b");
    await node.branch({ act: "fork", name: "c" }, "b");
    expect(await node.keys("c")).toEqual(["k"]);
    expect(await node.keys("a")).toEqual([]);
    const { branches } = await node.branch({ act: "list" });
    expect(branches.map(({ name, parent, forkTxid, txid }: any) => [name, parent, forkTxid, txid])).toEqual([
      ["main", undefined, undefined, 0],
      ["a", "main", 0, 0],
      ["b", "a", 0, 1],
      ["c", "b", 1, 1],
    ]);
    expect(time.store.violations).toEqual([]);
  });

  test("sees every write that was acknowledged before it was asked for, shipped or not", async () => {
    const { node } = startBranching();
    for (let n = 1; n <= 5; n++) {
      await node.put(`k${n}`);
      await node.branch({ act: "fork", name: `f${n}` });
      expect(await node.keys(`f${n}`)).toHaveLength(n);
    }
  });

  test("many at once, of one parent, all come to be", async () => {
    const { time, node } = startBranching();
    time.store.decideFate = () => ({ held: time.scheduler.sleep(15) });
    await node.put("k");
    const names = Array.from({ length: 40 }, (_, n) => `f${String(n).padStart(2, "0")}`);
    await time.of(Promise.all(names.map((name) => node.branching({ act: "fork", name }))));
    const { branches } = await node.branch({ act: "list" });
    expect(branches.map(({ name }: any) => name)).toEqual(["main", ...names]);
    expect(time.store.violations).toEqual([]);
  });

  test("of one name by two at once is one, and one refusal", async () => {
    const { time, node } = startBranching();
    await node.put("k");
    await node.sync();
    const other = new TimedEngine(time, { nodeId: "other" });
    await other.keys();
    const both = [node.branching({ act: "fork", name: "x" }), node.branching({ act: "fork", name: "x" })];
    expect((await time.of(Promise.all(both.map(describeOutcome)))).toSorted()).toEqual(["already_exists", "done"]);
    // The other node knows an older catalog; the store's decides.
    expect(await describeOutcome(other.branch({ act: "fork", name: "x" }))).toBe("already_exists");
    expect(time.store.violations).toEqual([]);
  });
});

describe("names", () => {
  test("are taken until the branch is deleted; main always is", async () => {
    const { node } = startBranching();
    await node.put("k");
    await node.branch({ act: "fork", name: "x" });
    expect(await describeOutcome(node.branch({ act: "fork", name: "x" }))).toBe("already_exists");
    expect(await describeOutcome(node.branch({ act: "fork", name: "main" }))).toBe("already_exists");
    expect(await describeOutcome(node.branch({ act: "delete", name: "main" }))).toBe("invalid_request");
    await node.branch({ act: "delete", name: "x" });
    expect(await describeOutcome(node.branch({ act: "delete", name: "x" }))).toBe("branch_not_found");
    expect(await describeOutcome(node.keys("x"))).toBe("branch_not_found");
    await node.branch({ act: "fork", name: "x" });
    expect(await node.keys("x")).toEqual(["k"]);
  });

  test("F67: used again are another branch: nothing of the old one shows, and its old writer is fenced", async () => {
    const { time, node } = startBranching();
    await node.put("k");
    await node.branch({ act: "fork", name: "x" });
    await node.put("old", "x");
    await node.sync("x");
    const oldId = findId(time, node, "x");
    const other = new TimedEngine(time, { nodeId: "other" });
    await other.branch({ act: "delete", name: "x" });
    await other.branch({ act: "fork", name: "x" });
    await other.put("new", "x");
    await other.sync("x");
    expect(findId(time, node, "x")).not.toBe(oldId);
    expect(await describeOutcome(node.put("late", "x", { durable: true }))).toBe("unavailable");
    expect(await other.keys("x")).toEqual(["k", "new"]);
    expect(await (await other.again(true)).keys("x")).toEqual(["k", "new"]);
    expect(time.store.violations).toEqual([]);
  });

  test("F67: used again during a sweep of expired branches keep the new branch's writes", async () => {
    const { time, node } = startBranching({ gcGraceMs: 60_000, idleCloseMs: 20_000 });
    await node.put("k");
    for (let n = 0; n < 10; n++) await node.branch({ act: "fork", name: `x${n}`, ttlSecs: 30 });
    await time.pass(29_000);
    // Slow, so that what is taken out first has long a new namesake when the sweep ends.
    time.store.decideFate = () => ({ held: time.scheduler.sleep(300) });
    const left = (): number => time.catalog(node.uuid).branches.filter(({ name }) => name !== "main").length;
    for (let look = 0; look < 3_000 && left() === 10; look++) await time.pass(100);
    expect(left()).toBe(9);
    await node.branch({ act: "fork", name: "x0" });
    const written: string[] = [];
    while (
      time.catalog(node.uuid).branches.some(({ name }) => name.startsWith("x") && name !== "x0") ||
      written.length < 20
    ) {
      const key = `kept${written.length}`;
      await node.put(key, "x0");
      written.push(key);
      await time.pass(100);
    }
    await time.pass(2_000);
    expect(await node.keys("x0")).toEqual(["k", ...written].toSorted());
    await node.sync("x0");
    expect(await (await node.again(true)).keys("x0")).toEqual(["k", ...written].toSorted());
    expect(time.store.violations).toEqual([]);
  });

  test("at most so many exist, main included; a deleted one makes room", async () => {
    const { time, node } = startBranching();
    await node.put("k");
    await node.branch({ act: "fork", name: "a" });
    const { branches, ...catalog } = time.catalog(node.uuid);
    const many = Array.from({ length: limits.branchesMax - branches.length }, (_, n) => ({
      ...branches[1]!,
      name: `n${String(n).padStart(4, "0")}`,
      id: node.world.ulid(),
    }));
    time.store.watch = () => {};
    time.store.spoil(catalogKey(node.uuid), () => encodeCatalog({ ...catalog, branches: [...branches, ...many] }));
    expect(time.store.read(catalogKey(node.uuid))!.bytes.length).toBeLessThan(catalogBytesMax / 8);
    expect(await describeOutcome(node.branch({ act: "fork", name: "z" }))).toBe("invalid_request");
    await node.branch({ act: "delete", name: "a" });
    expect(await describeOutcome(node.branch({ act: "fork", name: "z" }))).toBe("done");
    expect(await describeOutcome(node.branch({ act: "fork", name: "zz" }))).toBe("invalid_request");
  });
});

describe("checkpoints", () => {
  test("branching-03: name a state; the same name for the same state is the same checkpoint", async () => {
    const { time, node } = startBranching();
    await node.put("k1");
    expect(await node.branch({ act: "checkpoint", name: "c" })).toMatchObject({ checkpoint: "c", txid: 1 });
    expect(await node.branch({ act: "checkpoint", name: "c" })).toMatchObject({ checkpoint: "c", txid: 1 });
    await node.put("k2");
    expect(await describeOutcome(node.branch({ act: "checkpoint", name: "c" }))).toBe("already_exists");
    await node.branch({ act: "checkpoint", name: "d" });
    const { checkpoints } = await node.branch({ act: "checkpoints" });
    expect(checkpoints.map(({ name, txid }: any) => [name, txid])).toEqual([
      ["c", 1],
      ["d", 2],
    ]);
    await node.branch({ act: "forget-checkpoint", name: "c" });
    expect(await describeOutcome(node.branch({ act: "forget-checkpoint", name: "c" }))).toBe("not_found");
    expect(await describeOutcome(node.branch({ act: "rewind", to: "c" }))).toBe("not_found");
    const again = await node.again(true);
    expect((await again.branch({ act: "checkpoints" })).checkpoints).toHaveLength(1);
    expect(time.store.violations).toEqual([]);
  });

  test("many at once are all there; a child has none of its parent's", async () => {
    const { time, node } = startBranching();
    await node.put("k");
    time.store.decideFate = () => ({ held: time.scheduler.sleep(5) });
    await time.of(
      Promise.all(Array.from({ length: 12 }, (_, n) => node.branching({ act: "checkpoint", name: `c${n}` }))),
    );
    expect((await node.branch({ act: "checkpoints" })).checkpoints).toHaveLength(12);
    await node.branch({ act: "fork", name: "x" });
    expect((await node.branch({ act: "checkpoints" }, "x")).checkpoints).toEqual([]);
    expect(time.store.violations).toEqual([]);
  });

  test("have a bound", async () => {
    const { time, node } = startBranching();
    await node.put("k");
    for (let n = 0; n < limits.checkpointsMax; n++) await node.branch({ act: "checkpoint", name: `c${n}` });
    expect(await describeOutcome(node.branch({ act: "checkpoint", name: "more" }))).toBe("invalid_request");
    expect(time.store.violations).toEqual([]);
  });
});

describe("cost", () => {
  test(
    "F74: of a fork and of a list of 200 branches with 20 checkpoints each stays flat, and every object small",
    { timeout: 120_000 },
    async () => {
      const { time, node } = startBranching({ hotHandlesMax: 4 });
      await node.put("k");
      const requests = (): number => time.store.count("get") + time.store.count("put") + time.store.count("list");
      const forks: number[] = [];
      for (let n = 0; n < 200; n++) {
        const before = requests();
        await node.branch({ act: "fork", name: `f${String(n).padStart(3, "0")}` });
        forks.push(requests() - before);
        if (n % 10 === 0)
          for (let c = 0; c < 20; c++)
            await node.branch({ act: "checkpoint", name: `c${c}` }, `f${String(n).padStart(3, "0")}`);
      }
      expect(Math.max(...forks.slice(-50))).toBeLessThanOrEqual(Math.max(...forks.slice(0, 50)));
      expect(Math.max(...forks)).toBeLessThanOrEqual(8);
      const before = requests();
      const { branches } = await node.branch({ act: "list" });
      expect(branches).toHaveLength(201);
      // A manifest for each branch that is not open here.
      expect(requests() - before).toBeLessThanOrEqual(201);
      expect(time.store.read(catalogKey(node.uuid))!.bytes.length).toBeLessThan(200 * 256);
      for (const key of time.store.keys(`db/${node.uuid}/head/`))
        expect(time.store.read(key)!.bytes.length).toBeLessThan(16 * 1024);
      expect(time.store.violations).toEqual([]);
    },
  );

  test(
    "F74: of 1,000 branches with 100 checkpoints each stays within the bounds of every object",
    { timeout: 120_000 },
    async () => {
      const time = new VirtualTime();
      const node = new TimedEngine(time, { idleCloseMs: 1e12, hotHandlesMax: 4 });
      await node.put("k");
      const name = (n: number): string => `f${String(n).padStart(3, "0")}`;
      const collect = async (): Promise<number> => {
        const before = time.store.count("get") + time.store.count("list") + time.store.count("put");
        const records = new CopyRecords(time.store, node.world);
        await time.of(
          new GarbageCollector({
            store: time.store,
            world: node.world,
            catalogs: new Catalogs(time.store, node.world),
            places: { isPast: () => false, newest: () => undefined },
            records,
            graceMs: 60_000,
            notice: () => {},
          }).collect(node.uuid),
        );
        return time.store.count("get") + time.store.count("list") + time.store.count("put") - before;
      };
      const costs: number[] = [];
      const rounds: number[] = [];
      for (let n = 1; n < limits.branchesMax; n++) {
        const before = time.store.count("get") + time.store.count("put");
        await node.branch({ act: "fork", name: name(n) });
        costs.push(time.store.count("get") + time.store.count("put") - before);
        await giveCheckpoints(time, node, name(n), 100);
        if (n === 499 || n === 999) rounds.push(await collect());
      }
      expect(Math.max(...costs.slice(-100)), "a fork costs what it cost at first").toBeLessThanOrEqual(
        Math.max(...costs.slice(0, 100)),
      );
      // The catalog, a listing of its pages, and a manifest and a history for each branch.
      expect(rounds[1]! / rounds[0]!).toBeLessThan(2.1);
      expect(rounds[1]).toBeLessThan(2 * limits.branchesMax + 20);
      expect(time.store.read(catalogKey(node.uuid))!.bytes.length).toBeLessThan(catalogBytesMax / 4);
      for (const key of time.store.keys(`db/${node.uuid}/head/`))
        expect(time.store.read(key)!.bytes.length).toBeLessThan(16 * 1024);
      expect((await node.branch({ act: "list" })).branches).toHaveLength(limits.branchesMax);
      await expect(node.branch({ act: "fork", name: "one-more" })).rejects.toMatchObject({ code: "invalid_request" });
      await node.branch({ act: "rewind", to: "c42" }, name(700));
      await node.put("after", name(700));
      expect(await node.keys(name(700))).toEqual(["after", "k"]);
    },
  );

  test("F74: of a fork does not depend on how large or how old the database is", async () => {
    const { time, node } = startBranching();
    await node.put("k");
    await node.sync();
    const cost = async (name: string): Promise<number> => {
      const before = time.store.count("get") + time.store.count("put");
      await node.branch({ act: "fork", name });
      return time.store.count("get") + time.store.count("put") - before;
    };
    const small = await cost("small");
    for (let n = 0; n < 60; n++) {
      await node.time.of(node.putting(`k${n}`, "main", {}, "x".repeat(100_000)));
      await time.pass(limits.shipIntervalMs + 20);
    }
    await node.branch({ act: "checkpoint", name: "c" });
    await node.sync();
    expect(await cost("large")).toBeLessThanOrEqual(small + 1);
  });
});
