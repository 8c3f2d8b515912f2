/**
 * An erasure is complete only when every node's disk is free of it: what each node says, and what becomes of one that
 * says nothing.
 */
import { describe, expect, test } from "vitest";
import { limits } from "../../../../src/base/limits.ts";
import { CopyRecords } from "../../../../src/control/databases/copy-records.ts";
import { readReceipt } from "../../../../src/format/erasure/erasure-receipt.ts";
import { databasePrefix } from "../../../../src/format/keys/object-keys.ts";
import {
  finds,
  member,
  openNode,
  remember,
  residueOnDisk,
  type ClusterMember,
} from "../../../support/erasing-cluster.ts";
import { sharedTime, type LeasedNode } from "../../../support/leased-node.ts";
import type { VirtualTime } from "../../../support/timed-engine.ts";
import { lateOrphansMs } from "../../../../src/engine/erasure/erasure-runner.ts";
import { erasureFirstMs } from "../../../../src/service/erasure/erasure-queue.ts";
import { replicaPurgerMs } from "../../../../src/service/jobs/replica-remover.ts";

const secret = "the zyxwvutsecret of it";
const inFile = "zyxwvutsecret";

interface Shared {
  readonly time: VirtualTime;
  readonly a: LeasedNode;
  readonly b: LeasedNode;
  readonly atA: ClusterMember;
  readonly memoryId: string;
}

/** Node a writes a database with a secret, node b has a copy of it. */
async function shared(): Promise<Shared> {
  const time = sharedTime();
  const a = await openNode(time, "a", 1);
  const b = await openNode(time, "b", undefined);
  const atA = await member(a, () => a);
  const memoryId = await remember(a, secret);
  await a.put("other", "main", { durable: true });
  expect(await finds(b, memoryId)).toBe(true);
  expect(residueOnDisk(b, inFile).length).toBeGreaterThan(0);
  return { time, a, b, atA, memoryId };
}

describe("an erasure of a database that another node has a copy of", () => {
  test("waits until the node has purged it by order, and the receipt says so; later fetches are clean", async () => {
    const { time, a, b, atA, memoryId } = await shared();
    const atB = await member(b, () => a);
    atB.owns = false;
    const { value: coupon } = await atA.erase(memoryId);
    atA.erasures.start();
    await time.pass(20_000);
    expect(await atA.coupon(coupon.id)).toMatchObject({
      status: "pending",
      waitingFor: "a copy on node b-name (b)",
      awaiting: { branches: ["main"] },
    });
    expect(residueOnDisk(a, inFile)).toEqual([]);
    await time.of(atB.replicaRemover.start());
    expect(residueOnDisk(b, inFile)).toEqual([]);
    await time.pass(120_000);
    const done = await atA.coupon(coupon.id);
    expect(done).toMatchObject({ status: "completed" });
    expect(done.awaiting).toBeUndefined();
    const { payload } = done.receipt!;
    expect(payload.v).toBe(1);
    expect(payload.evidence.local).toEqual([
      { node: "a", files_scrubbed: 1, files_removed: expect.any(Number) as number },
      { node: "b", files_scrubbed: 0, files_removed: expect.any(Number) as number },
    ]);
    expect(payload.evidence.local[1]!.files_removed).toBeGreaterThan(0);
    expect(await finds(b, memoryId)).toBe(false);
    expect(residueOnDisk(b, inFile)).toEqual([]);
    // What was said of purged copies is of no use any more; the new copy stands.
    expect(
      (await new CopyRecords(time.store.calm, time.world()).list(a.uuid)).map(({ node, purged }) => [node, purged]),
    ).toEqual([
      ["a", undefined],
      ["b", undefined],
    ]);
    expect(time.store.keys("orders/")).toEqual([]);
    await Promise.all([atA.stop(), atB.stop()]);
  });

  test("F89: stays pending over restarts while that node is down; once back it purges, then serves", async () => {
    const { time, a, b, atA, memoryId } = await shared();
    b.kill();
    const { value: coupon } = await atA.erase(memoryId);
    atA.erasures.start();
    await time.pass(3_600_000);
    expect((await atA.coupon(coupon.id)).waitingFor).toBe("a copy on node b-name (b)");
    await atA.stop();
    a.kill();
    const a2 = await openNode(time, "a", 2, {}, a.directory);
    const atA2 = await member(a2, () => a2);
    atA2.erasures.start();
    await time.pass(600_000);
    expect((await atA2.coupon(coupon.id)).status).toBe("pending");
    const b2 = await openNode(time, "b", undefined, {}, b.directory);
    const atB2 = await member(b2, () => a2);
    expect(residueOnDisk(b2, inFile).length).toBeGreaterThan(0);
    await time.of(atB2.replicaRemover.start());
    expect(residueOnDisk(b2, inFile)).toEqual([]);
    await time.pass(120_000);
    expect((await atA2.coupon(coupon.id)).status).toBe("completed");
    await Promise.all([atA2.stop(), atB2.stop()]);
  });

  test("F89: a node given up by an operator is named as unattested, in a receipt of another version", async () => {
    const { time, a, b, atA, memoryId } = await shared();
    b.kill();
    const { value: coupon } = await atA.erase(memoryId);
    atA.erasures.start();
    await time.pass(60_000);
    expect(await new CopyRecords(time.store.calm, time.world()).forget("b")).toBe(1);
    await time.pass(120_000);
    const { receipt } = await atA.coupon(coupon.id);
    expect(receipt?.payload).toMatchObject({ v: 2, evidence: { unattested: ["b"], local: [{ node: "a" }] } });
    expect(readReceipt(JSON.parse(JSON.stringify(receipt)))).toEqual(receipt);
    // A memory that was taken in later was never there.
    const later = await remember(a, "something later");
    const { value: next } = await atA.erase(later);
    await time.pass(120_000);
    const other = await atA.coupon(next.id);
    expect(other.receipt?.payload.v).toBe(1);
    expect(other.receipt?.payload.evidence.unattested).toBeUndefined();
    await atA.stop();
  });

  test("does not count what is copied once history is cut, however many nodes come and go", async () => {
    const { time, a, b, atA, memoryId } = await shared();
    const { value: coupon } = await atA.erase(memoryId);
    atA.erasures.start();
    await time.pass(30_000);
    expect((await atA.coupon(coupon.id)).awaiting?.copies.map(({ node }) => node)).toEqual(["a", "b"]);
    const c = await openNode(time, "c", undefined);
    expect(await finds(c, memoryId)).toBe(false);
    c.kill();
    const atB = await member(b, () => a);
    await time.of(atB.replicaRemover.start());
    await time.pass(120_000);
    expect((await atA.coupon(coupon.id)).status).toBe("completed");
    expect(residueOnDisk(c, inFile)).toEqual([]);
    await Promise.all([atA.stop(), atB.stop()]);
  });

  test("counts the copies of the node that carried it before, when another one writes the database", async () => {
    const { time, a, b, atA, memoryId } = await shared();
    const { value: coupon } = await atA.erase(memoryId);
    atA.erasures.start();
    await time.pass(30_000);
    await atA.stop();
    await a.releaseDatabase();
    await time.of(b.holding(2));
    const atB = await member(b, () => b);
    atB.erasures.start();
    await time.pass(erasureFirstMs + 120_000);
    expect((await atB.coupon(coupon.id)).waitingFor).toBe("a copy on node a-name (a)");
    expect(atB.nudged).toContain("a");
    const again = await member(a, () => b);
    await time.of(again.replicaRemover.start());
    await time.pass(120_000);
    const { receipt } = await atB.coupon(coupon.id);
    expect(receipt?.payload.evidence.local.map(({ node }) => node)).toEqual(["b", "a"]);
    expect(residueOnDisk(a, inFile)).toEqual([]);
    expect(residueOnDisk(b, inFile)).toEqual([]);
    await Promise.all([atB.stop(), again.stop()]);
  });

  test("F90: a late object of a paused old writer goes an hour after completion, and the receipt stands", async () => {
    const { time, a, b, atA, memoryId } = await shared();
    const orphans = time.store
      .keys(`${databasePrefix(a.uuid)}seg/`)
      .map((key) => ({ key, bytes: time.store.read(key)!.bytes }));
    expect(orphans.length).toBeGreaterThan(0);
    // The node that wrote before is stopped in the middle of its puts; another one takes the database.
    await a.releaseDatabase();
    await time.of(b.holding(2));
    const atB = await member(b, () => b);
    await b.put("next", "main", { durable: true });
    const { value: coupon } = await atB.erase(memoryId);
    atB.erasures.start();
    await time.pass(30_000);
    await time.of((await member(a, () => b)).replicaRemover.start());
    await time.pass(120_000);
    const { receipt } = await atB.coupon(coupon.id);
    expect(receipt).toBeDefined();
    const late = orphans.map(({ key, bytes }, at) => ({
      key: `${key.slice(0, key.lastIndexOf("-") + 1)}${a.world.ulid()}`,
      bytes,
      at,
    }));
    for (const { key, bytes } of late) await time.store.calm.put(key, bytes, { kind: "absent" });
    await time.pass(lateOrphansMs + 300_000);
    expect(late.filter(({ key }) => time.store.read(key) !== undefined)).toEqual([]);
    expect((await atB.coupon(coupon.id)).receipt).toEqual(receipt);
    await Promise.all([atA.stop(), atB.stop()]);
  });

  test("of a database that is deleted meanwhile completes when the other node has purged its copy too", async () => {
    const { time, a, b, atA, memoryId } = await shared();
    const { value: coupon } = await atA.erase(memoryId, 1_000);
    await time.of(a.client.deleteTarget(a.at("main"), a.soon()));
    atA.erasures.start();
    atA.erasures.wake(a.uuid);
    await time.pass(200_000);
    expect(await atA.coupon(coupon.id)).toMatchObject({ status: "pending", awaiting: { copies: [{ node: "b" }] } });
    const atB = await member(b, () => a);
    atB.owns = false;
    await time.of(atB.replicaRemover.start());
    expect(residueOnDisk(b, inFile)).toEqual([]);
    await time.pass(300_000);
    expect((await atA.coupon(coupon.id)).receipt?.payload.evidence.local.map(({ node }) => node)).toEqual(["a", "b"]);
    await Promise.all([atA.stop(), atB.stop()]);
  });
});

describe("an erasure that two nodes look after", () => {
  test("completes once, with one receipt and one event, whoever is first", async () => {
    const { time, a, b, atA, memoryId } = await shared();
    const atB = await member(b, () => a);
    const { value: coupon } = await atA.erase(memoryId);
    await time.of(atB.replicaRemover.start());
    for (const one of [atA, atB]) one.erasures.start();
    await time.pass(300_000);
    expect((await atB.coupon(coupon.id)).status).toBe("completed");
    const events = [...atA.audited, ...atB.audited].filter(({ action }) => action === "erasure.completed");
    expect(events).toHaveLength(1);
    await Promise.all([atA.stop(), atB.stop()]);
  });

  test("is carried on where it was asked for, whosever shard the database is in", async () => {
    const { time, a, b, atA, memoryId } = await shared();
    const atB = await member(b, () => a);
    atB.owns = false;
    await time.of(atB.replicaRemover.start());
    for (const one of [atA, atB]) one.erasures.start();
    const { value: coupon } = await atB.erase(memoryId);
    await time.pass(replicaPurgerMs + 60_000);
    expect(atB.acts).toContain("expunge");
    expect(atA.acts).toEqual([]);
    expect((await atA.coupon(coupon.id)).status).toBe("completed");
    expect(atB.audited.map(({ action }) => action)).toEqual(["erasure.completed"]);
    await Promise.all([atA.stop(), atB.stop()]);
  });

  test("completes within the named bounds when the asked node is gone, by the owner of its shard", async () => {
    const { time, a, b, atA, memoryId } = await shared();
    const atB = await member(b, () => a);
    atB.owns = false;
    atA.erasures.start();
    // By now the owner looks as rarely as it ever does.
    await time.pass(4 * limits.shardLookMsMax);
    const { value: coupon } = await atB.erase(memoryId);
    await atB.stop();
    await time.pass(erasureFirstMs - 30_000);
    expect(atA.acts).toEqual([]);
    const again = await member(b, () => a);
    again.owns = false;
    await time.of(again.replicaRemover.start());
    await time.pass(limits.shardLookMsMax + 60_000);
    expect(atA.acts).toContain("expunge");
    expect((await atA.coupon(coupon.id)).status).toBe("completed");
    expect(atA.audited.map(({ action }) => action)).toEqual(["erasure.completed"]);
    await Promise.all([atA.stop(), again.stop()]);
  });

  test("is found at once by a node whose shard the database has become", async () => {
    const { time, a, b, atA, memoryId } = await shared();
    const { value: coupon } = await atA.erase(memoryId, 3_600);
    const atB = await member(b, () => a);
    await time.of(atB.replicaRemover.start());
    atB.owns = false;
    atB.erasures.start();
    await time.pass(3_700_000);
    expect(atB.acts).toEqual([]);
    atB.owns = true;
    atB.erasures.takeOver();
    await time.pass(5_000);
    expect(atB.acts).toContain("expunge");
    expect(atB.nudged).toContain("b");
    atB.replicaRemover.hurry();
    await time.pass(10_000);
    expect((await atB.coupon(coupon.id)).status).toBe("completed");
    await Promise.all([atA.stop(), atB.stop()]);
  });

  test("has the other nodes look for their orders at once", async () => {
    const { time, b, a, atA, memoryId } = await shared();
    const atB = await member(b, () => a);
    await time.of(atB.replicaRemover.start());
    // By now it looks as rarely as it ever does.
    await time.pass(4 * limits.shardLookMsMax);
    const { value: coupon } = await atA.erase(memoryId);
    atA.erasures.start();
    await time.pass(5_000);
    expect(atA.nudged).toContain("b");
    atB.replicaRemover.hurry();
    await time.pass(10_000);
    expect((await atA.coupon(coupon.id)).status).toBe("completed");
    await Promise.all([atA.stop(), atB.stop()]);
  });

  test("gives the same coupon to whoever asks for the same by way of another node", async () => {
    const { b, a, atA, memoryId } = await shared();
    const atB = await member(b, () => a);
    const { value: first } = await atA.erase(memoryId, 1_000);
    const { value: again } = await atB.erase(memoryId, 1_000);
    expect(again.id).toBe(first.id);
    await expect(atB.erase(`mem_${a.world.ulid()}`)).rejects.toMatchObject({ code: "not_found" });
  });

  test("is looked at soon when what blocks it goes by way of a node that does not look after it", async () => {
    const { time, a, b, atA, memoryId } = await shared();
    const atB = await member(b, () => a);
    atB.owns = false;
    await time.of(atB.replicaRemover.start());
    await a.branch({ act: "checkpoint", name: "before" });
    const { value: coupon } = await atA.erase(memoryId);
    atA.erasures.start();
    await time.pass(30_000);
    expect((await atA.coupon(coupon.id)).status).toBe("blocked");
    await a.branch({ act: "forget-checkpoint", name: "before" });
    atB.erasures.wake(a.uuid);
    await time.pass(60_000);
    expect((await atA.coupon(coupon.id)).status).not.toBe("blocked");
    await Promise.all([atA.stop(), atB.stop()]);
  });
});
