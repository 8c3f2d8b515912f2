/** The end of a branch: deletion and expiry, forks and writes that meet it, and answers that never came. */
import { existsSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { limits } from "../../../../src/base/limits.ts";
import { branchPath } from "../../../../src/engine/local/database-files.ts";
import { catalogKey, manifestKey } from "../../../../src/format/keys/object-keys.ts";
import type { VirtualTime } from "../../../support/timed-engine.ts";
import { TimedEngine } from "../../../support/timed-engine.ts";
import { startBranching, findId, describeOutcome } from "../../../support/branching-node.ts";

/** From now on a put of the catalog has no answer, and lands when what is given for it is called. */
function delayCatalog({ store }: VirtualTime, { uuid }: TimedEngine): (() => void)[] {
  const landings: (() => void)[] = [];
  store.decideFate = (verb, key) =>
    verb === "put" && key === catalogKey(uuid)
      ? { late: new Promise<void>((resolve) => landings.push(resolve)) }
      : "fine";
  return landings;
}

describe("the end of a branch", () => {
  test("F66: a parent that is deleted takes nothing from its children", async () => {
    const { time, node } = startBranching();
    await node.put("base");
    await node.branch({ act: "fork", name: "parent" });
    await node.put("theirs", "parent");
    await node.branch({ act: "fork", name: "child" }, "parent");
    await node.branch({ act: "delete", name: "parent" });
    expect(await node.keys("child")).toEqual(["base", "theirs"]);
    await node.put("own", "child");
    await node.branch({ act: "rewind", to: String((await node.put("more", "child")).txid - 1) }, "child");
    expect(await (await node.again(true)).keys("child")).toEqual(["base", "own", "theirs"]);
    expect(time.store.violations).toEqual([]);
  });

  test("F31: one left in doubt comes when its put lands; what is open of the branch is then closed", async () => {
    const { time, node } = startBranching();
    await node.put("base");
    await node.branch({ act: "fork", name: "x" });
    await node.put("own", "x", { durable: true });
    const file = branchPath(join(node.directory, "db"), node.uuid, findId(time, node, "x"));
    const landings = delayCatalog(time, node);
    expect(await describeOutcome(node.branch({ act: "delete", name: "x" }))).toBe("unavailable");
    // Tried again and again: what else is asked of the branch that is open goes on meanwhile.
    await time.pass(5_000);
    expect(await node.keys("x")).toEqual(["base", "own"]);
    expect(landings.length).toBeGreaterThan(limits.doubtRetriesMax + 2);
    landings[0]!();
    await time.pass(5_000);
    expect(existsSync(file)).toBe(false);
    expect(await describeOutcome(node.put("late", "x"))).toBe("branch_not_found");
    expect((await node.branch({ act: "list" })).branches.map(({ name }: any) => name)).toEqual(["main"]);
    expect(await node.keys()).toEqual(["base"]);
    expect(time.store.violations).toEqual([]);
  });

  test("F31: one that comes after the death of the node that asked is seen with the catalog", async () => {
    const { time, node } = startBranching();
    await node.put("base");
    await node.branch({ act: "fork", name: "x" });
    await node.put("old", "x", { durable: true });
    const landings = delayCatalog(time, node);
    expect(await describeOutcome(node.branch({ act: "delete", name: "x" }))).toBe("unavailable");
    node.kill();
    time.store.decideFate = () => "fine";
    const next = new TimedEngine(time, { idleCloseMs: 1e12 }, node.directory);
    expect(await next.keys("x")).toEqual(["base", "old"]);
    landings[0]!();
    await next.branch({ act: "fork", name: "y" });
    expect(await describeOutcome(next.keys("x"))).toBe("branch_not_found");
    await next.branch({ act: "fork", name: "x" });
    expect(await next.keys("x")).toEqual(["base"]);
    expect(time.store.violations).toEqual([]);
  });

  test("F31: a fork that was left in doubt is there from the instant its put has landed, burner and all", async () => {
    const { time, node } = startBranching();
    await node.put("base");
    const landings = delayCatalog(time, node);
    expect(await describeOutcome(node.branch({ act: "fork", name: "x", ttlSecs: 60 }))).toBe("unavailable");
    expect(await describeOutcome(node.keys("x"))).toBe("unavailable");
    landings[0]!();
    expect(await node.keys("x")).toEqual(["base"]);
    time.store.decideFate = () => "fine";
    await time.pass(62_000);
    expect(await describeOutcome(node.keys("x"))).toBe("branch_not_found");
    await time.pass(60_000);
    expect(time.catalog(node.uuid).branches.map(({ name }) => name)).toEqual(["main"]);
    expect(time.store.violations).toEqual([]);
  });

  test("F63: a fork of a branch that is deleted at the same time is there and whole, or refused", async () => {
    for (let delayMs = 0; delayMs < 60; delayMs += 4) {
      const { time, node } = startBranching();
      await node.put("base");
      await node.branch({ act: "fork", name: "parent" });
      await node.put("theirs", "parent");
      time.store.decideFate = () => ({ held: time.scheduler.sleep(10) });
      const forking = describeOutcome(node.branching({ act: "fork", name: "child" }, "parent"));
      const deleting = time.scheduler
        .sleep(delayMs)
        .then(() => describeOutcome(node.branching({ act: "delete", name: "parent" })));
      const [forked, deleted] = await time.of(Promise.all([forking, deleting]));
      expect(deleted).toBe("done");
      expect(["done", "branch_not_found", "unavailable"]).toContain(forked);
      if (forked === "done") expect(await node.keys("child")).toEqual(["base", "theirs"]);
      else expect(await describeOutcome(node.keys("child"))).toBe("branch_not_found");
      expect(time.store.violations).toEqual([]);
    }
  });

  test("branching-04: a burner is gone once its time is over, its name is free, its parent as it was", async () => {
    const { time, node } = startBranching();
    await node.put("base");
    expect(await node.branch({ act: "fork", name: "x", ttlSecs: 60 })).toMatchObject({
      ttlAtMs: node.world.nowMs() + 60_000,
    });
    await node.put("own", "x");
    await time.pass(59_000);
    expect(await node.keys("x")).toEqual(["base", "own"]);
    await time.pass(1_100);
    expect(await describeOutcome(node.keys("x"))).toBe("branch_not_found");
    expect(await describeOutcome(node.put("k", "x"))).toBe("branch_not_found");
    expect((await node.branch({ act: "list" })).branches.map(({ name }: any) => name)).toEqual(["main"]);
    await node.branch({ act: "fork", name: "x" });
    expect(await node.keys("x")).toEqual(["base"]);
    expect(await node.keys()).toEqual(["base"]);
    expect(time.store.violations).toEqual([]);
  });

  test("F75: a burner that expires while it is written ends with branch_not_found; nobody brings it back", async () => {
    const { time, node } = startBranching({ gcGraceMs: 30_000 });
    await node.put("base");
    await node.branch({ act: "fork", name: "x", ttlSecs: 5 });
    const id = findId(time, node, "x");
    time.store.decideFate = () => ({ held: time.scheduler.sleep(20) });
    const codes: string[] = [];
    const until = time.scheduler.nowMs + 8_000;
    const writers = Array.from({ length: 3 }, async (_, writer) => {
      for (let n = 0; time.scheduler.nowMs < until; n++) {
        codes.push(await describeOutcome(node.putting(`k${writer}-${n}`, "x", { durable: n % 4 === 0 })));
        await time.scheduler.sleep(10);
      }
    });
    await time.of(Promise.all(writers));
    expect(codes).toContain("done");
    expect(codes.at(-1)).toBe("branch_not_found");
    expect(codes.lastIndexOf("done")).toBeLessThan(codes.indexOf("branch_not_found") + 10);
    await time.pass(600_000);
    expect(time.catalog(node.uuid).branches.map(({ name }) => name)).toEqual(["main"]);
    expect(time.store.read(manifestKey(node.uuid, id))).toBeUndefined();
    expect(time.store.keys(`db/${node.uuid}/seg/${id}`)).toEqual([]);
    expect(time.store.violations).toEqual([]);
  });

  test("the files of a deleted branch go from the disk, whether it was open or not", async () => {
    const { time, node } = startBranching({ idleCloseMs: 5_000 });
    await node.put("base");
    for (const name of ["open", "closed"]) {
      await node.branch({ act: "fork", name });
      await node.put("own", name);
      await node.sync(name);
    }
    const buildPath = (name: string): string =>
      branchPath(join(node.directory, "db"), node.uuid, findId(time, node, name));
    const paths = [buildPath("open"), buildPath("closed")];
    await time.pass(4_000);
    await node.keys("open");
    await time.pass(3_000);
    for (const path of paths) expect(existsSync(path)).toBe(true);
    for (const name of ["open", "closed"]) await node.branch({ act: "delete", name });
    for (const path of paths) expect(existsSync(path)).toBe(false);
  });
});
