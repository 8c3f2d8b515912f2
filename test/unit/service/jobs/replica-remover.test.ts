/**
 * Deleted databases: their owner asks for each at its own pace, orders the copies of others, and nobody else asks at
 * all.
 */
import { expect, test } from "vitest";
import { finds, member, openNode, remember, residueOnDisk } from "../../../support/erasing-cluster.ts";
import { sharedTime } from "../../../support/leased-node.ts";
import { purgeAgainMsMax } from "../../../../src/engine/maintenance/background-jobs.ts";

const hourMs = 3_600_000;
const inFile = "zyxwvutsecret";

test("a deleted database's copy on a node that is down is asked for ever more rarely, then purged", async () => {
  // By its owner only; the node purges it when it is back.
  const time = sharedTime();
  const [a, b, c] = [
    await openNode(time, "a", 1),
    await openNode(time, "b", undefined),
    await openNode(time, "c", undefined),
  ];
  const memoryId = await remember(a, inFile);
  expect(await finds(b, memoryId)).toBe(true);
  b.kill();
  const [atA, atC] = [await member(a, () => a), await member(c, () => a)];
  atC.owns = false;
  await time.noteDeletion(a.uuid, "acme--alice");
  const asked = { get: 0, list: 0 };
  time.store.decideFate = (verb, key) => {
    if (key.startsWith("purges/") && (verb === "get" || verb === "list")) asked[verb]++;
    return "fine";
  };
  await time.of(Promise.all([atA.replicaRemover.start(), atC.replicaRemover.start()]));
  await time.pass(24 * hourMs);
  // 30 s, then twice as long each time, up to an hour; the listings of the owner go on every ten minutes at most.
  expect(asked.get).toBeGreaterThan(20);
  expect(asked.get).toBeLessThan(40);
  expect(asked.list).toBeLessThan(24 * 6 + 40);
  expect(atA.nudged).toContain("b");
  expect(time.store.keys("orders/")).toEqual([expect.stringMatching(/^orders\/b\//)]);
  const b2 = await openNode(time, "b", undefined, {}, b.directory);
  expect(residueOnDisk(b2, inFile).length).toBeGreaterThan(0);
  const atB2 = await member(b2, () => a);
  atB2.owns = false;
  await time.of(atB2.replicaRemover.start());
  expect(residueOnDisk(b2, inFile)).toEqual([]);
  expect(time.store.keys("orders/")).toEqual([]);
  // The node that writes it looks as rarely by then.
  await time.pass(purgeAgainMsMax + 60_000);
  expect(time.store.keys("purges/")).toEqual([]);
  await Promise.all([atA.stop(), atC.stop(), atB2.stop()]);
});

test("a node that is told of an order looks at once, however rarely it looked before", async () => {
  const time = sharedTime();
  const [a, b] = [await openNode(time, "a", 1), await openNode(time, "b", undefined)];
  const memoryId = await remember(a, inFile);
  expect(await finds(b, memoryId)).toBe(true);
  const [atA, atB] = [await member(a, () => a), await member(b, () => a)];
  atB.owns = false;
  await time.of(atB.replicaRemover.start());
  await time.pass(hourMs);
  await time.noteDeletion(a.uuid, "acme--alice");
  await time.of(atA.replicaRemover.start());
  expect(atA.nudged).toEqual(["b"]);
  expect(residueOnDisk(b, inFile).length).toBeGreaterThan(0);
  atB.replicaRemover.hurry();
  await time.pass(1_000);
  expect(residueOnDisk(b, inFile)).toEqual([]);
  await Promise.all([atA.stop(), atB.stop()]);
});
