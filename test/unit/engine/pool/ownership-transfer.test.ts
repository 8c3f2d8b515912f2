/** Nodes over one store: who may write a database, how it is handed over and taken. */
import { readdirSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { limits } from "../../../../src/base/limits.ts";
import {
  HeldDisk,
  holdManifests,
  keysInStore,
  LeasedNode,
  describeOutcome,
  pair,
  sharedTime,
} from "../../../support/leased-node.ts";
import type { Fate } from "../../../support/scripted-store.ts";

describe("a database that is not held", () => {
  test("takes no write, user SQL, sync, act on branches or primary read; nothing happens for it", async () => {
    const time = sharedTime();
    const node = new LeasedNode(time, "a");
    await node.renew();
    const batch = {
      statements: [{ text: "CREATE TABLE t (n)", paramsJson: undefined }],
      atomic: true,
      mayWrite: true,
    };
    const calls = [
      node.putting("k"),
      node.client.sqlWrite(node.at("main"), batch, node.soon()),
      node.client.sync(node.at("main"), node.soon()),
      node.primaryKeys(),
      node.branching({ act: "fork", name: "dev" }),
      node.branching({ act: "list" }),
      node.branching({ act: "rewind", to: "1" }),
      node.branching({ act: "delete", name: "dev" }),
    ];
    expect(await time.of(Promise.all(calls.map(describeOutcome)))).toEqual(calls.map(() => "unheld"));
    expect([...time.store.counts]).toEqual([]);
    expect(readdirSync(join(node.directory, "db"))).toEqual([]);
  });

  test("is deleted all the same", async () => {
    const { time, a, b } = await pair();
    await a.releaseDatabase();
    await time.of(b.client.deleteTarget(b.at("main"), b.soon()));
    expect(time.catalog(b.uuid).deletedAtMs).toBeDefined();
  });
});

describe("handing over", () => {
  test("distribution-03: the next holder finds everything and goes on without a gap at a higher epoch", async () => {
    const { time, a, b } = await pair();
    await a.put("second");
    await a.releaseDatabase();
    expect(time.manifest(a.uuid)).toMatchObject({ epoch: 1, txid: 2, reservedTo: 2, node: "a" });
    expect(await describeOutcome(a.put("late"))).toBe("unheld");
    await b.hold(2);
    expect((await b.put("third")).txid).toBe(3);
    expect(await b.keys()).toEqual(["first", "second", "third"]);
    expect(time.manifest(a.uuid)).toMatchObject({ epoch: 2, node: "b", lost: [] });
    await b.releaseDatabase();
    await a.hold(3);
    expect((await a.put("fourth", "main", { durable: true })).txid).toBe(4);
    expect(await keysInStore(time)).toEqual(["first", "fourth", "second", "third"]);
    expect(await a.fenced()).toEqual([]);
    expect(time.store.violations).toEqual([]);
  });

  test("gives back the ids of branches that were closed long before, and those of every branch", async () => {
    const time = sharedTime();
    const node = new LeasedNode(time, "a", { idleCloseMs: 1_000 });
    await node.hold(1, 1_000_000);
    await node.put("k");
    await node.branch({ act: "fork", name: "dev" });
    await node.put("own", "dev");
    await time.pass(10_000);
    await node.releaseDatabase();
    for (const { id } of time.catalog(node.uuid).branches)
      expect(time.manifest(node.uuid, id).reservedTo).toBe(time.manifest(node.uuid, id).txid);
  });

  test("answers writes that are under way, durable or not, and turns away those that have not begun", async () => {
    const disk = new HeldDisk();
    const { time, a } = await pair(disk);
    disk.hold();
    const begun = [a.putting("begun"), a.putting("durable", "main", { durable: true })].map(describeOutcome);
    await time.pass(1);
    const waiting = describeOutcome(a.putting("waiting"));
    await time.pass(1);
    const releaseDatabase = a.client.releaseDatabase(a.uuid, a.soon());
    await time.pass(1);
    disk.release();
    expect(await time.of(Promise.all([...begun, waiting]))).toEqual(["done", "done", "unheld"]);
    await time.of(releaseDatabase);
    expect(await keysInStore(time)).toEqual(["begun", "durable", "first"]);
  });

  test("is refused in time when object storage is away; the node's next taking ships the rest", async () => {
    const { time, a, b } = await pair();
    time.store.decideFate = () => "refused";
    await a.put("unshipped");
    const startedMs = time.scheduler.nowMs;
    expect(await describeOutcome(a.releaseDatabase())).toBe("unavailable");
    expect(time.scheduler.nowMs - startedMs).toBeLessThan(limits.lastShipMs + 2_000);
    expect(a.notices.join()).toContain("let go of before all of it was shipped");
    expect(await describeOutcome(a.put("more"))).toBe("unheld");
    time.store.decideFate = () => "fine";
    await a.hold(2);
    await a.put("after", "main", { durable: true });
    expect(await keysInStore(time)).toEqual(["after", "first", "unshipped"]);
    await a.releaseDatabase();
    await b.hold(3);
    expect(await b.keys()).toEqual(["after", "first", "unshipped"]);
    expect(time.store.violations).toEqual([]);
  });

  test("of what was only read here leaves its writer's manifests alone", async () => {
    const { time, a, b } = await pair();
    expect(await b.keys()).toEqual(["first"]);
    const manifest = time.manifest(a.uuid);
    await b.releaseDatabase();
    expect(time.manifest(a.uuid)).toEqual(manifest);
    await a.put("second", "main", { durable: true });
    expect(await a.fenced()).toEqual([]);
  });

  test("waits for an act that changes history", async () => {
    const { time, a, b } = await pair();
    for (const key of ["x", "y"]) await a.put(key);
    const historyArrives = Promise.withResolvers<void>();
    time.store.decideFate = (verb, key): Fate =>
      verb === "put" && key.includes("/hist/") ? { held: historyArrives.promise } : "fine";
    const rewind = describeOutcome(a.branching({ act: "rewind", to: "1" }));
    await time.pass(50);
    const releaseDatabase = a.client.releaseDatabase(a.uuid, a.soon());
    await time.pass(1_000);
    historyArrives.resolve();
    expect(await time.of(rewind)).toBe("done");
    await time.of(releaseDatabase);
    await b.hold(2);
    expect(await b.keys()).toEqual(["first"]);
    expect(time.manifest(a.uuid).lost).toEqual([]);
  });
});

describe("taking", () => {
  test("under the same term again changes nothing; a larger one takes its place", async () => {
    const { time, a } = await pair();
    const puts = time.store.count("put");
    await a.hold(1);
    expect(time.store.count("put")).toBe(puts);
    await a.hold(5);
    await a.put("k");
    await a.releaseDatabase();
    await a.hold(7);
    await a.put("l", "main", { durable: true });
    expect(time.manifest(a.uuid)).toMatchObject({ epoch: 7, txid: 3, lost: [] });
  });

  test("sees branches that another node made, and brings a copy open for reading to the newest head", async () => {
    const { time, a, b } = await pair();
    expect(await b.keys()).toEqual(["first"]);
    await a.put("second");
    await a.branch({ act: "fork", name: "dev" });
    await a.put("on dev", "dev");
    await a.releaseDatabase();
    await b.hold(2);
    expect(await time.of(b.primaryKeys())).toEqual(["first", "second"]);
    expect(await b.keys("dev")).toEqual(["first", "on dev", "second"]);
    expect((await b.put("third")).txid).toBe(3);
  });

  test("F51: an epoch is never given twice, though the terms begin anew", async () => {
    const { time, a, b } = await pair();
    await a.releaseDatabase();
    await b.hold(40);
    await b.put("k", "main", { durable: true });
    expect(time.manifest(a.uuid).epoch).toBe(40);
    await b.releaseDatabase();
    await a.hold(2);
    await a.put("l", "main", { durable: true });
    expect(time.manifest(a.uuid).epoch).toBe(41);
    expect(time.store.violations).toEqual([]);
  });

  test("F53: of two that claim at once one wins; the other's writes have not happened", async () => {
    const { time, a, b } = await pair();
    await a.releaseDatabase();
    // Coordination has failed: both believe that they hold the database.
    await a.hold(2);
    await b.hold(3);
    await Promise.all([time.of(describeOutcome(a.primaryKeys())), time.of(describeOutcome(b.primaryKeys()))]);
    const outcomes = await time.of(
      Promise.all([describeOutcome(a.putting("of a")), describeOutcome(b.putting("of b"))]),
    );
    expect(outcomes.toSorted()).toEqual(["done", "unheld"]);
    const [winner, loser] = outcomes[0] === "done" ? [a, b] : [b, a];
    expect(await loser.fenced()).toEqual([loser === a ? 2 : 3]);
    expect(await winner.fenced()).toEqual([]);
    expect(await describeOutcome(loser.put("again"))).toBe("unheld");
    await winner.releaseDatabase();
    await loser.hold(4);
    await loser.put("again");
    expect(await loser.keys()).toEqual(["again", "first", `of ${winner.name}`]);
    expect(time.store.violations).toEqual([]);
  });

  test("F54: whoever dies right after his claim loses nothing for the next one", async () => {
    const { time, a, b } = await pair();
    await a.releaseDatabase();
    await b.hold(2);
    // It claims without writing.
    await b.branch({ act: "checkpoint", name: "c" });
    expect(time.manifest(a.uuid)).toMatchObject({ node: "b", epoch: 2 });
    b.kill();
    const c = new LeasedNode(time, "c");
    await c.hold(3);
    await c.put("next", "main", { durable: true });
    expect(time.manifest(a.uuid)).toMatchObject({ node: "c", epoch: 3 });
    expect(await c.keys()).toEqual(["first", "next"]);
    expect(time.store.violations).toEqual([]);
  });

  test("ends with the lease: one that is lost meanwhile leaves nothing held", async () => {
    const { time, b } = await pair();
    await b.renew();
    const catalogArrives = Promise.withResolvers<void>();
    time.store.decideFate = (verb, key): Fate =>
      verb === "get" && key.endsWith("/catalog") ? { held: catalogArrives.promise } : "fine";
    const holding = describeOutcome(b.holding(2));
    await time.pass(10);
    await b.lose();
    await b.renew();
    catalogArrives.resolve();
    expect(await time.of(holding)).toBe("unheld");
    expect(await describeOutcome(b.put("k"))).toBe("unheld");
  });

  test("again makes a claim of another node come too late that was sent while that one held the database", async () => {
    const { time, a, b } = await pair();
    await a.lose();
    await b.hold(2);
    const onItsWay = Promise.withResolvers<void>();
    holdManifests(time, onItsWay.promise);
    const write = describeOutcome(b.putting("of b"));
    await time.pass(10);
    time.store.decideFate = () => "fine";
    await b.lose();
    await a.hold(3);
    expect((await a.put("of a")).durableTxid).toBe(1);
    onItsWay.resolve();
    expect(await time.of(write)).toBe("unheld");
    await time.pass(limits.shipIntervalMs * 2);
    expect(await keysInStore(time)).toEqual(["first", "of a"]);
    expect(await a.fenced()).toEqual([]);
    expect(time.store.violations).toEqual([]);
  });
});

describe("a database that other nodes follow", () => {
  test("is shipped sooner, and each manifest that lands is told; one that nobody follows is not", async () => {
    const { time, a } = await pair();
    await a.renew(1_000_000);
    a.client.followed(a.uuid);
    await a.put("k");
    await time.pass(limits.shipIntervalFollowedMs + 20);
    expect(time.manifest(a.uuid).txid).toBe(2);
    expect(a.told).toEqual([{ kind: "shipped", uuid: a.uuid }]);
    a.client.followed(a.uuid, false);
    await a.put("l");
    await time.pass(limits.shipIntervalFollowedMs + 20);
    expect(time.manifest(a.uuid).txid).toBe(2);
    await time.pass(limits.shipIntervalMs);
    expect(time.manifest(a.uuid).txid).toBe(3);
    expect(a.told).toHaveLength(1);
  });
});
