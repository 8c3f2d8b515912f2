/** A node that was overtaken without knowing it: what it answers, and what becomes of its writes and branches. */
import { cpSync, existsSync, mkdirSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import type { BranchAct } from "../../../../src/engine/api/protocol.ts";
import {
  HeldDisk,
  holdManifests,
  keysInStore,
  LeasedNode,
  leaseMs,
  describeOutcome,
  pair,
} from "../../../support/leased-node.ts";
import { temporaryDirectory } from "../../../support/temporary.ts";
import { noise } from "../../../support/timed-engine.ts";
import { soundDisk } from "../../../support/sound-disk.ts";

describe("a writer that was overtaken", () => {
  test("F46, distribution-11: finds out between upload and manifest: no durable answer is given", async () => {
    const { time, a, b } = await pair();
    const resumed = Promise.withResolvers<void>();
    holdManifests(time, resumed.promise);
    const durable = describeOutcome(a.putting("zombie", "main", { durable: true }, noise(200_000)));
    await time.pass(50);
    expect(time.store.keys(`db/${a.uuid}/seg/`)).toHaveLength(1 + 1);
    time.store.decideFate = () => "fine";
    await time.pass(60_000 - leaseMs);
    await b.hold(2);
    await b.put("of b", "main", { durable: true });
    resumed.resolve();
    expect(await time.of(durable)).toBe("unavailable");
    expect(await a.fenced()).toEqual([1]);
    expect(await describeOutcome(a.put("more", "main", { durable: true }))).toBe("unheld");
    expect(await b.keys()).toEqual(["first", "of b"]);
    expect(await keysInStore(time)).toEqual(["first", "of b"]);
    expect(time.store.violations).toEqual([]);
  });

  test("F47: stopped before its commit's fsync, does not acknowledge what it finds on its disk", async () => {
    const disk = new HeldDisk();
    const { time, a, b } = await pair(disk);
    disk.hold();
    const standard = describeOutcome(a.putting("zombie"));
    await time.pass(2 * leaseMs);
    await b.hold(2);
    await b.put("of b", "main", { durable: true });
    disk.release();
    expect(await time.of(standard)).toBe("unavailable");
    expect(await a.fenced()).toEqual([1]);
    expect(await a.keys()).toEqual(["first", "of b"]);
    expect(readdirSync(join(a.directory, "quarantine", a.uuid)).length).toBeGreaterThan(0);
    expect(await keysInStore(time)).toEqual(["first", "of b"]);
    expect(time.store.violations).toEqual([]);
  });

  test.each<[string, (node: LeasedNode) => Promise<void>]>([
    [
      "F48: only the wall clock has moved, as after a suspension of the machine",
      async (node) => void (node.world.skewMs += 300_000),
    ],
    [
      "F47: only the monotonic clock has moved, as the wall clock was put back",
      async (node) => {
        node.world.skewMs -= 3_600_000;
        await node.time.pass(2 * leaseMs);
      },
    ],
  ])("%s: a standard write waits for the manifest", async (_name, move) => {
    const disk = new HeldDisk();
    const { time, a, b } = await pair(disk);
    disk.hold();
    const before = a.putting("before");
    await time.pass(1);
    await move(a);
    disk.release();
    const { txid, durableTxid } = await time.of(before);
    expect(durableTxid).toBeGreaterThanOrEqual(txid);
    await b.hold(2);
    await b.put("of b", "main", { durable: true });
    expect(await describeOutcome(a.put("after"))).toBe("unavailable");
    expect(await keysInStore(time)).toEqual(["before", "first", "of b"]);
  });

  test("F49: without coordination every write is durable while nobody claims; renewal ends that", async () => {
    const { time, a } = await pair();
    expect((await a.put("certain")).durableTxid).toBe(1);
    await time.pass(leaseMs);
    for (const key of ["k1", "k2", "k3"]) {
      const { txid, durableTxid } = await a.put(key);
      expect(durableTxid, key).toBeGreaterThanOrEqual(txid);
    }
    await a.renew();
    const { txid, durableTxid } = await a.put("certain again");
    expect(durableTxid).toBeLessThan(txid);
    expect(await a.fenced()).toEqual([]);
  });

  test("F49, F55: without coordination but with storage, another's claim ends it at its next manifest", async () => {
    const { time, a, b } = await pair();
    await time.pass(leaseMs);
    await a.put("durable only");
    await b.hold(2);
    await b.put("of b");
    expect(await describeOutcome(a.put("zombie"))).toBe("unavailable");
    expect(await a.fenced()).toEqual([1]);
    expect(await describeOutcome(a.put("zombie"))).toBe("unheld");
    await b.sync();
    expect(await keysInStore(time)).toEqual(["durable only", "first", "of b"]);
    expect(time.store.violations).toEqual([]);
  });

  test("F49: while its lease is not certain it takes a branch only from itself", async () => {
    const { time, a, b } = await pair();
    await a.branch({ act: "fork", name: "own" });
    await a.releaseDatabase();
    await b.hold(2);
    await b.put("of b", "main", { durable: true });
    await b.releaseDatabase();
    await a.hold(3, 10);
    await time.pass(20);
    expect(await describeOutcome(a.put("zombie"))).toBe("unavailable");
    expect(time.manifest(a.uuid).node).toBe("b");
    expect(await describeOutcome(a.put("own", "own"))).toBe("done");
    await a.renew();
    expect(await describeOutcome(a.put("certain"))).toBe("done");
  });

  test("a write that changes nothing is not answered from an old state", async () => {
    const { time, a, b } = await pair();
    await time.pass(leaseMs);
    expect(await describeOutcome(a.time.of(a.removing("nothing")))).toBe("done");
    await b.hold(2);
    await b.put("of b", "main", { durable: true });
    expect(await time.of(describeOutcome(a.removing("of b")))).toBe("unavailable");
    expect(await a.fenced()).toEqual([1]);
  });

  test("a durable write that changes nothing is not either", async () => {
    const { time, a, b } = await pair();
    await time.pass(leaseMs);
    await b.hold(2);
    await b.put("of b", "main", { durable: true });
    expect(await time.of(describeOutcome(a.removing("of b", { durable: true })))).toBe("unavailable");
  });

  test("F49: it cannot keep its successor away by moving its manifest faster than a file is opened", async () => {
    const { time, a } = await pair();
    const slowly = (): Promise<void> => time.scheduler.sleep(100);
    const b = new LeasedNode(time, "b", {}, undefined, { ...soundDisk, fdatasync: slowly, syncDirectory: slowly });
    await time.pass(leaseMs);
    time.store.decideFate = () => ({ held: time.scheduler.sleep(2) });
    let writes = 0;
    const writing = (async () => {
      for (; (await describeOutcome(a.putting(`zombie ${writes}`))) === "done"; writes++)
        await time.scheduler.sleep(10);
    })();
    await time.pass(500);
    await b.hold(2, 60_000);
    for (
      let tries = 1;
      (await time.of(describeOutcome(b.putting("of b", "main", { durable: true })))) !== "done";
      tries++
    )
      expect(tries).toBeLessThan(5);
    await time.of(writing);
    expect(writes).toBeGreaterThan(20);
    expect(time.manifest(a.uuid).node).toBe("b");
    expect(await time.of(b.primaryKeys())).toHaveLength(1 + writes + 1);
    expect(time.store.violations).toEqual([]);
  });

  test("distribution-04: an old owner ships nothing of a dirty copy; the new owner's data is whole", async () => {
    const { time, a, b } = await pair();
    time.store.decideFate = () => "refused";
    await a.put("dirty");
    const copy = join(temporaryDirectory(), "copy");
    mkdirSync(copy);
    cpSync(a.directory, copy, { recursive: true });
    a.kill();
    time.store.decideFate = () => "fine";
    await b.hold(2);
    await b.put("of b", "main", { durable: true });
    const manifests = time.store.count("put", "head");
    const old = new LeasedNode(time, "a", {}, copy);
    await time.pass(10_000);
    expect(time.store.count("put", "head")).toBe(manifests);
    expect(existsSync(join(copy, "quarantine", a.uuid))).toBe(true);
    await old.hold(1);
    expect(await old.keys()).toEqual(["first", "of b"]);
    expect(await keysInStore(time)).toEqual(["first", "of b"]);
    expect(time.store.violations).toEqual([]);
  });

  test("distribution-11: what was answered as durable survives the takeover from a lost node", async () => {
    const { time, a, b } = await pair();
    for (let n = 0; n < 20; n++) await a.put(`k${n}`, "main", { durable: n % 2 === 0 });
    a.kill();
    await b.hold(2);
    await b.put("of b");
    const keys = await b.keys();
    for (let n = 0; n < 20; n += 2) expect(keys).toContain(`k${n}`);
    expect(time.store.violations).toEqual([]);
  });
});

describe("branches of a database that another node has taken, without its last holder's knowing", () => {
  /**
   * The last holder knows of `old`, and its lease has run out; the new one has written, made `new` and removed `old`.
   */
  async function taken(): Promise<Awaited<ReturnType<typeof pair>>> {
    const { time, a, b } = await pair();
    await a.branch({ act: "fork", name: "old" });
    await a.branch({ act: "checkpoint", name: "c" });
    await time.pass(2 * leaseMs);
    await b.hold(2, 1_000_000);
    await b.put("of b");
    await b.branch({ act: "fork", name: "new" });
    await b.branch({ act: "delete", name: "old" });
    await b.branch({ act: "forget-checkpoint", name: "c" });
    return { time, a, b };
  }

  test.each<[string, BranchAct]>([
    ["a fork", { act: "fork", name: "mine" }],
    ["a fork of its own past", { act: "fork", name: "mine", at: "1" }],
    ["a deletion", { act: "delete", name: "old" }],
    ["a deletion of what it does not know", { act: "delete", name: "new" }],
  ])("%s is refused, and has not happened", async (_what, act) => {
    const { time, a, b } = await taken();
    expect(await describeOutcome(time.of(a.branching(act)))).toMatch(/^(?:unheld|unavailable)$/);
    expect(time.catalog(a.uuid).branches.map(({ name }) => name)).toEqual(["main", "new"]);
    expect((await b.branch({ act: "list" })).branches.map(({ name }: { name: string }) => name)).toEqual([
      "main",
      "new",
    ]);
    expect(time.store.violations).toEqual([]);
  });

  test.each<[string, (a: LeasedNode) => Promise<unknown>]>([
    ["a list of branches", (a) => a.branching({ act: "list" })],
    ["a list of checkpoints", (a) => a.branching({ act: "checkpoints" })],
    ["a checkpoint that it knows already", (a) => a.branching({ act: "checkpoint", name: "c" })],
    ["a rewind", (a) => a.branching({ act: "rewind", to: "c" })],
    ["a sync", (a) => a.client.sync(a.at("main"), a.soon())],
  ])("%s is another node's business", async (_what, ask) => {
    const { time, a } = await taken();
    expect(await describeOutcome(time.of(ask(a)))).toMatch(/^(?:unheld|unavailable)$/);
    expect(time.store.violations).toEqual([]);
  });

  test("one it does not know is there, one it knows is gone, for whoever asks the writer there", async () => {
    const { time, a } = await taken();
    const primary = (branch: string): Promise<unknown> =>
      a.client.read(a.at(branch), "kv.list", { ns: "n" }, a.soon({ consistency: "primary" }));
    expect(await time.of(primary("new"))).toMatchObject({ value: { keys: ["first", "of b"] } });
    expect(await describeOutcome(time.of(primary("old")))).toBe("branch_not_found");
  });

  test("a change that is on its way when the next holder takes the database comes too late", async () => {
    const { time, a, b } = await pair();
    await a.branch({ act: "fork", name: "old" });
    const onItsWay = Promise.withResolvers<void>();
    time.store.decideFate = (verb, key) =>
      verb === "put" && key.endsWith("/catalog") ? { held: onItsWay.promise } : "fine";
    const acts = [
      describeOutcome(a.branching({ act: "fork", name: "mine" })),
      describeOutcome(a.branching({ act: "delete", name: "old" })),
    ];
    await time.pass(2 * leaseMs);
    time.store.decideFate = () => "fine";
    await b.hold(2, 1_000_000);
    onItsWay.resolve();
    expect(await time.of(Promise.all(acts))).toEqual(["unavailable", "unavailable"]);
    expect(await b.keys("old")).toEqual(["first"]);
    expect((await b.branch({ act: "list" })).branches.map(({ name }: { name: string }) => name)).toEqual([
      "main",
      "old",
    ]);
    expect(time.store.violations).toEqual([]);
  });

  test("untaken, it is read and rewound as the lease runs out, and branched when it is renewed", async () => {
    const { time, a } = await pair();
    await a.branch({ act: "checkpoint", name: "c" });
    await a.put("second");
    await time.pass(2 * leaseMs);
    expect((await a.branch({ act: "list" })).branches).toHaveLength(1);
    expect((await a.branch({ act: "checkpoints" })).checkpoints).toHaveLength(1);
    await a.branch({ act: "rewind", to: "c" });
    await time.of(a.client.sync(a.at("main"), a.soon()));
    expect(await describeOutcome(time.of(a.branching({ act: "fork", name: "mine" })))).toBe("unavailable");
    await a.renew();
    await a.branch({ act: "fork", name: "mine" });
    expect(await a.keys("mine")).toEqual(["first"]);
  });
});
