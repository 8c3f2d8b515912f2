/** A writer as its lease ends or is not certain: what it gives up, what it still answers, and whom it asks first. */
import { describe, expect, test } from "vitest";
import {
  HeldDisk,
  keysInStore,
  LeasedNode,
  leaseMs,
  describeOutcome,
  pair,
  sharedTime,
} from "../../../support/leased-node.ts";
import { TimedEngine } from "../../../support/timed-engine.ts";

describe("a node that nothing coordinates", () => {
  test("F58: takes no branch that the one which overtook it has deleted, whoever has its name by now", async () => {
    const time = sharedTime();
    const [a, b] = [new TimedEngine(time, { nodeId: "a", idleCloseMs: 1_000 }), new TimedEngine(time, { nodeId: "b" })];
    await a.put("on main", "main", { durable: true });
    await a.branch({ act: "fork", name: "dev" });
    await time.pass(10_000);
    await b.put("of b", "dev", { durable: true });
    await b.branch({ act: "delete", name: "dev" });
    await b.branch({ act: "fork", name: "dev" });
    expect(await describeOutcome(a.put("zombie", "dev"))).toBe("unavailable");
    await a.put("of a", "dev", { durable: true });
    expect(await new TimedEngine(time, { nodeId: "looker" }).keys("dev")).toEqual(["of a", "on main"]);
    expect(time.store.violations).toEqual([]);
  });
});

describe("a lease that is lost", () => {
  test("ends every holding: the queue is turned away, what is committed is shipped, then answered", async () => {
    const disk = new HeldDisk();
    const { time, a } = await pair(disk);
    disk.hold();
    const begun = a.putting("begun");
    await time.pass(1);
    const queued = describeOutcome(a.putting("queued"));
    await time.pass(1);
    await a.lose();
    expect(await time.of(queued)).toBe("unheld");
    disk.release();
    const { txid, durableTxid } = await time.of(begun);
    expect(durableTxid).toBeGreaterThanOrEqual(txid);
    expect(await describeOutcome(a.put("more"))).toBe("unheld");
    expect(await keysInStore(time)).toEqual(["begun", "first"]);
  });

  test("leaves no job that changes a manifest, claims a branch or removes one", async () => {
    const time = sharedTime();
    const node = new LeasedNode(time, "a", { gcGraceMs: 1_000 });
    await node.hold(1, 1_000_000);
    await node.put("k", "main", { durable: true });
    await node.branch({ act: "fork", name: "burner", ttlSecs: 30 });
    await time.of(
      node.client.write(
        node.at("main"),
        "kv.put",
        { ns: "n", key: "gone soon", value: Buffer.from("v"), ttlSecs: 5 },
        node.soon(),
      ),
    );
    await node.sync();
    await node.lose();
    await time.pass(2_000);
    const changes = (): readonly number[] => [
      time.store.count("put", "head"),
      time.store.count("put", "catalog"),
      time.store.count("delete"),
    ];
    const before = changes();
    await time.pass(600_000);
    expect(changes()).toEqual(before);
    await node.hold(2, 1_000_000);
    await node.put("again");
    await time.pass(300_000);
    expect(time.catalog(node.uuid).branches.map(({ name }) => name)).toEqual(["main"]);
  });
});

describe("a transaction id that a writer has never given", () => {
  test("is refused while the branch is its own, and another node's business when that has claimed it", async () => {
    const { time, a, b } = await pair();
    const reading = (minTxid: number): Promise<string> =>
      time.of(describeOutcome(a.client.read(a.at("main"), "kv.get", { ns: "n", key: "first" }, a.soon({ minTxid }))));
    expect(await reading(200)).toBe("invalid_request");
    // Its lease was taken from it, and it has not heard of that.
    await b.hold(2);
    const { txid } = await b.put("of b", "main", { durable: true });
    expect(await reading(txid)).toBe("unheld");
    expect(await a.fenced()).toEqual([1]);
  });
});

describe("a primary read", () => {
  test("on the writer asks object storage nothing while the lease is certain", async () => {
    const { time, a } = await pair();
    const gets = time.store.count("get");
    expect(await time.of(a.primaryKeys())).toEqual(["first"]);
    expect(time.store.count("get")).toBe(gets);
  });

  test("while it is not, looks whether our own manifest stands there, and is refused when another's does", async () => {
    const { time, a, b } = await pair();
    await time.pass(leaseMs);
    const gets = time.store.count("get", "head");
    expect(await time.of(a.primaryKeys())).toEqual(["first"]);
    expect(time.store.count("get", "head")).toBe(gets + 1);
    await b.hold(2);
    await b.put("of b", "main", { durable: true });
    expect(await time.of(describeOutcome(a.primaryKeys()))).toBe("unavailable");
    expect(await a.fenced()).toEqual([1]);
  });

  test("of what is not shipped waits for its manifest while the lease is not certain", async () => {
    const { time, a } = await pair();
    await a.put("unshipped");
    await a.renew(1);
    await time.pass(2);
    time.store.decideFate = () => "refused";
    const read = a.primaryKeys();
    await time.pass(5_000);
    time.store.decideFate = () => "fine";
    expect(await time.of(read)).toEqual(["first", "unshipped"]);
    expect(time.manifest(a.uuid).txid).toBe(2);
  });

  test("of a branch that is not claimed yet sees what its last writer has shipped after that", async () => {
    const { time, a, b } = await pair();
    await a.lose();
    await b.hold(2);
    expect(await time.of(b.primaryKeys())).toEqual(["first"]);
    // The last writer's manifest, on its way all the while.
    await a.hold(1);
    await a.put("late", "main", { durable: true });
    expect(await time.of(describeOutcome(b.primaryKeys()))).not.toBe("done");
    expect(await time.of(b.primaryKeys())).toEqual(["first", "late"]);
  });

  test("leaves plain reads alone", async () => {
    const { time, a } = await pair();
    await time.pass(leaseMs);
    const gets = time.store.count("get");
    expect(await a.keys()).toEqual(["first"]);
    expect(time.store.count("get")).toBe(gets);
  });
});
