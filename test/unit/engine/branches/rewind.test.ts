/** Back to an earlier state, by a commit that goes forward. */
import { describe, expect, test } from "vitest";
import { limits } from "../../../../src/base/limits.ts";
import { noise, TimedEngine, VirtualTime } from "../../../support/timed-engine.ts";

function setup(options = {}): { time: VirtualTime; node: TimedEngine } {
  const time = new VirtualTime();
  time.store.audit();
  return { time, node: new TimedEngine(time, options) };
}

/** Writes k1 … kn, one group each; gives the txid of the first. */
async function fill(node: TimedEngine, count: number, from = 1, branch = "main"): Promise<void> {
  for (let n = from; n < from + count; n++) await node.put(`k${String(n).padStart(4, "0")}`, branch);
}

const names = (count: number): string[] =>
  Array.from({ length: count }, (_, n) => `k${String(n + 1).padStart(4, "0")}`);

describe("a rewind", () => {
  test("branching-03, recovery-05: goes to any txid, also between flushes, and takes a new one", async () => {
    const { time, node } = setup();
    await fill(node, 5);
    await node.sync();
    await fill(node, 5, 6);
    expect(await node.branch({ act: "rewind", to: "3" })).toEqual({ rewoundTo: 3, txid: 11 });
    expect(await node.keys()).toEqual(names(3));
    expect(await node.branch({ act: "rewind", to: "8" })).toEqual({ rewoundTo: 8, txid: 12 });
    expect(await node.keys()).toEqual(names(8));
    expect((await node.put("later")).txid).toBe(13);
    expect(await node.branch({ act: "rewind", to: "11" })).toMatchObject({ rewoundTo: 11 });
    expect(await node.keys()).toEqual(names(3));
    const { value } = await node.sql(["PRAGMA integrity_check"]);
    expect((value as { rowsJson: string }[])[0]!.rowsJson).toBe('[["ok"]]');
    expect(time.store.violations).toEqual([]);
  });

  test("branching-03: by a checkpoint's name, and again by the same name; a rewind can itself be rewound", async () => {
    const { time, node } = setup();
    await fill(node, 3);
    const { checkpoint, txid } = await node.branch({ act: "checkpoint", name: "here" });
    expect([checkpoint, txid]).toEqual(["here", 3]);
    await fill(node, 3, 4);
    await node.branch({ act: "checkpoint", name: "there" });
    expect(await node.branch({ act: "rewind", to: "here" })).toMatchObject({ rewoundTo: 3, txid: 7 });
    expect(await node.branch({ act: "rewind", to: "there" })).toMatchObject({ rewoundTo: 6, txid: 8 });
    expect(await node.keys()).toEqual(names(6));
    expect(await node.branch({ act: "rewind", to: "here" })).toMatchObject({ rewoundTo: 3, txid: 9 });
    expect(await node.keys()).toEqual(names(3));
    expect(time.store.violations).toEqual([]);
  });

  test("is the same after a restart and on an empty disk, and so is every state before it", async () => {
    const { time, node } = setup();
    await fill(node, 6);
    await node.branch({ act: "rewind", to: "2" });
    await node.put("after");
    let again = await node.again();
    expect(await again.keys()).toEqual(["after", ...names(2)]);
    again = await again.again(true);
    expect(await again.keys()).toEqual(["after", ...names(2)]);
    await again.branch({ act: "rewind", to: "6" });
    expect(await again.keys()).toEqual(names(6));
    await again.branch({ act: "rewind", to: "8" });
    expect(await again.keys()).toEqual(["after", ...names(2)]);
    expect(time.store.violations).toEqual([]);
  });

  test("to the state before the first write gives an empty branch", async () => {
    const { node } = setup();
    await fill(node, 2);
    await node.branch({ act: "rewind", to: "0" });
    expect(await node.keys()).toEqual([]);
    await node.branch({ act: "rewind", to: "2" });
    expect(await node.keys()).toEqual(names(2));
  });

  test("of a branch that nobody has written is 404, and of one that was only claimed goes to nothing", async () => {
    const { node } = setup();
    await expect(node.branch({ act: "rewind", to: "1" })).rejects.toMatchObject({ code: "not_found" });
    await node.sync();
    expect(await node.branch({ act: "rewind", to: "0" })).toMatchObject({ rewoundTo: 0, txid: 1 });
  });

  test("goes across a new base image", async () => {
    const { time, node } = setup();
    await fill(node, 2);
    for (let n = 0; time.history(node.uuid).timelines.length === 0; n++) {
      expect(n).toBeLessThan(200);
      await node.time.of(node.putting("big", "main", {}, noise(64 * 1024, n)));
      await time.pass(limits.shipIntervalMs + 10);
    }
    expect(time.manifest(node.uuid).fromTxid).toBeGreaterThan(2);
    await node.branch({ act: "rewind", to: "2" });
    expect(await node.keys()).toEqual(names(2));
    await node.branch({ act: "rewind", to: "3" });
    expect(await node.keys()).toEqual(["big", ...names(2)]);
    const again = await node.again(true);
    await again.branch({ act: "rewind", to: "1" });
    expect(await again.keys()).toEqual(names(1));
    expect(time.store.violations).toEqual([]);
  });

  test("F70: to what the branch never was, or never was this branch, is 404 and changes nothing", async () => {
    const { time, node } = setup();
    await fill(node, 4);
    await node.branch({ act: "fork", name: "child", at: "3" });
    await node.put("own", "child");
    await node.sync("child");
    const before = time.manifest(node.uuid).txid;
    for (const to of ["99", "nobody", "-1", "1e0", "99999999999999999"]) {
      await expect(node.branch({ act: "rewind", to }), to).rejects.toMatchObject({ code: "not_found" });
    }
    await expect(node.branch({ act: "rewind", to: "2" }, "child")).rejects.toMatchObject({ code: "not_found" });
    await node.branch({ act: "rewind", to: "3" }, "child");
    expect(await node.keys("child")).toEqual(names(3));
    expect(time.manifest(node.uuid).txid).toBe(before);
  });

  test("F70: to a txid that a failover has skipped is 404, on either side of the gap it works", async () => {
    const { time, node } = setup();
    await fill(node, 3);
    await node.sync();
    time.store.decideFate = () => "refused";
    await fill(node, 2, 4);
    node.kill();
    time.store.decideFate = () => "fine";
    node.wipe();
    const other = new TimedEngine(time, { nodeId: "other" });
    const { txid } = await other.put("next");
    expect(txid).toBeGreaterThan(5);
    await other.sync();
    for (const to of ["4", "5", String(txid - 1)])
      await expect(other.branch({ act: "rewind", to })).rejects.toMatchObject({ code: "not_found" });
    await other.branch({ act: "rewind", to: "3" });
    expect(await other.keys()).toEqual(names(3));
    await other.branch({ act: "rewind", to: String(txid) });
    expect(await other.keys()).toEqual([...names(3), "next"]);
    expect(time.store.violations).toEqual([]);
  });

  test("branching-06: to a txid outside the window is 404, unless it has a name", async () => {
    const { time, node } = setup({ pitrMs: 60_000, idleCloseMs: 1_000_000 });
    await fill(node, 2);
    await node.sync();
    await node.branch({ act: "checkpoint", name: "kept" });
    await fill(node, 3, 3);
    await node.sync();
    await time.pass(30_000);
    await node.put("young");
    await node.sync();
    await time.pass(40_000);
    await node.put("younger");
    await node.sync();
    await expect(node.branch({ act: "rewind", to: "1" })).rejects.toMatchObject({ code: "not_found" });
    await expect(node.branch({ act: "rewind", to: "4" })).rejects.toMatchObject({ code: "not_found" });
    expect(await node.branch({ act: "rewind", to: "kept" })).toMatchObject({ rewoundTo: 2 });
    expect(await node.branch({ act: "rewind", to: "6" })).toMatchObject({ rewoundTo: 6 });
    // What ended half a minute ago was current within the window.
    expect(await node.branch({ act: "rewind", to: "5" })).toMatchObject({ rewoundTo: 5 });
  });
});

describe("a rewind among others", () => {
  test("F68: what is written meanwhile is before or after it, and nothing acknowledged is lost", async () => {
    const { time, node } = setup();
    time.store.decideFate = () => ({ held: time.scheduler.sleep(7) });
    await fill(node, 3);
    const written = new Map<string, number>();
    const until = time.scheduler.nowMs + 3_000;
    const writers = Array.from({ length: 4 }, async (_, writer) => {
      for (let n = 0; time.scheduler.nowMs < until; n++) {
        const key = `w${writer}-${n}`;
        written.set(key, (await node.putting(key, "main", { durable: n % 5 === 0 })).txid);
        await time.scheduler.sleep(3);
      }
    });
    const rewinds: { rewoundTo: number; txid: number }[] = [];
    const rewinder = async (): Promise<void> => {
      while (time.scheduler.nowMs < until) {
        await time.scheduler.sleep(200);
        const { value, txid } = await node.branching({ act: "rewind", to: "3" });
        rewinds.push({ ...(value as { rewoundTo: number }), txid });
      }
    };
    await time.of(Promise.all([...writers, rewinder()]));
    expect(rewinds.length).toBeGreaterThan(5);
    const last = rewinds.at(-1)!.txid;
    const expected = [...names(3), ...[...written].filter(([, txid]) => txid > last).map(([key]) => key)].toSorted();
    expect(await node.keys()).toEqual(expected);
    expect([...written.values()].filter((txid) => rewinds.some((rewind) => rewind.txid === txid))).toEqual([]);
    const again = await node.again(true);
    expect(await again.keys()).toEqual(expected);
    expect(time.store.violations).toEqual([]);
  });

  test("a rewind and a write that come together while the branch opens take turns", async () => {
    for (const writeFirst of [true, false]) {
      const { time, node } = setup();
      await fill(node, 3);
      const again = await node.again();
      const acts = [
        () => again.branching({ act: "rewind", to: "1" }),
        () => again.putting("meanwhile", "main", { durable: true }),
      ];
      const [rewind, write] = await time.of(
        Promise.all((writeFirst ? acts.toReversed() : acts).map((act) => act())).then((done) =>
          writeFirst ? done.toReversed() : done,
        ),
      );
      expect(rewind!.txid).not.toBe(write!.txid);
      const expected = write!.txid > rewind!.txid ? ["k0001", "meanwhile"] : ["k0001"];
      expect(await again.keys()).toEqual(expected);
      expect(await (await again.again(true)).keys()).toEqual(expected);
    }
  });

  test("several rewinds at once are done one after the other", async () => {
    const { time, node } = setup();
    await fill(node, 4);
    const outcomes = await time.of(Promise.all(["1", "2", "3"].map((to) => node.branching({ act: "rewind", to }))));
    expect(outcomes.map(({ txid }) => txid).toSorted()).toEqual([5, 6, 7]);
    const last = outcomes.find(({ txid }) => txid === 7)!.value as { rewoundTo: number };
    expect(await node.keys()).toEqual(names(last.rewoundTo));
  });

  test("forks, checkpoints and syncs at the same time as a rewind end, and end right", async () => {
    const { time, node } = setup();
    time.store.decideFate = () => ({ held: time.scheduler.sleep(5) });
    for (let round = 0; round < 12; round++) {
      const { txid } = await node.put(`r${round}`);
      const acts = await time.of(
        Promise.allSettled([
          node.branching({ act: "fork", name: `f${round}` }),
          node.branching({ act: "rewind", to: String(txid) }),
          node.branching({ act: "checkpoint", name: `c${round}` }),
          node.client.sync(node.at("main"), node.soon()),
          node.branching({ act: "rewind", to: String(txid) }),
        ]),
      );
      for (const act of acts) if (act.status === "rejected") expect(act.reason).toMatchObject({ code: "unavailable" });
      expect(acts.filter(({ status }) => status === "fulfilled").length).toBeGreaterThanOrEqual(2);
    }
    expect(await node.keys()).toHaveLength(12);
    expect(time.store.violations).toEqual([]);
  });

  test("F69: a rewind whose manifest got no answer is done once, whatever became of it", async () => {
    for (const fate of ["answerLost", "requestLost", "refused"] as const) {
      const { time, node } = setup();
      await fill(node, 4);
      await node.sync();
      let lost = 0;
      time.store.decideFate = (verb, key) => (verb === "put" && key.includes("/head/") && lost++ < 1 ? fate : "fine");
      const outcome = await node.branch({ act: "rewind", to: "2" }).then(
        () => "done",
        (error: { code?: string }) => error.code ?? "fault",
      );
      expect(["done", "unavailable"], fate).toContain(outcome);
      const keys = await node.keys();
      expect([names(2), names(4)], fate).toContainEqual(keys);
      if (outcome === "done") expect(keys).toEqual(names(2));
      await node.put("after", "main", { durable: true });
      expect(await node.keys()).toEqual(["after", ...keys]);
      expect(await (await node.again(true)).keys(), fate).toEqual(["after", ...keys]);
      expect(time.store.violations).toEqual([]);
    }
  });
});
