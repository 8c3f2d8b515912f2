/**
 * A database that one node deletes while others know it: nothing that is written to it afterwards is acknowledged as if
 * it lived.
 */
import { describe, expect, test } from "vitest";
import { LeasedNode, describeOutcome, sharedTime } from "../../../support/leased-node.ts";
import type { VirtualTime } from "../../../support/timed-engine.ts";

async function three(): Promise<{ time: VirtualTime; a: LeasedNode; b: LeasedNode; c: LeasedNode }> {
  const time = sharedTime();
  const [a, b, c] = [new LeasedNode(time, "a"), new LeasedNode(time, "b"), new LeasedNode(time, "c")];
  await b.hold(1, 1e9);
  await b.put("first", "main", { durable: true });
  for (const node of [a, c]) {
    await node.renew(1e9);
    expect(await node.keys()).toEqual(["first"]);
  }
  return { time, a, b, c };
}

const deleteTarget = (node: LeasedNode): Promise<void> =>
  node.time.of(node.client.deleteTarget(node.at("main"), node.soon()));

describe("a deleted database", () => {
  test(
    "is written by no node that takes it afterwards, though it knew the database, and has no life in the " + "store",
    async () => {
      const { time, a, b, c } = await three();
      await deleteTarget(b);
      await deleteTarget(a);
      const manifest = time.manifest(a.uuid);
      await c.hold(2, 1e9);
      expect(await time.of(describeOutcome(c.putting("late")))).toBe("database_not_found");
      expect(await time.of(describeOutcome(c.putting("late", "main", { durable: true })))).toBe("database_not_found");
      expect(time.manifest(a.uuid)).toEqual(manifest);
    },
  );

  test("is no more durably written by a holder that nobody could tell, and within a second it knows", async () => {
    const { time, a, b } = await three();
    await deleteTarget(a);
    expect(await time.of(describeOutcome(b.putting("durable", "main", { durable: true })))).not.toBe("done");
    await time.pass(2_000);
    expect(await b.fenced()).toEqual([1]);
    expect(await time.of(describeOutcome(b.putting("more")))).toBe("unheld");
    await b.hold(2, 1e9);
    expect(await time.of(describeOutcome(b.putting("more")))).toBe("database_not_found");
    expect(time.store.violations).toEqual([]);
  });

  test("that nobody had written is not begun by a node that had heard of it before", async () => {
    const time = sharedTime();
    const [a, c] = [new LeasedNode(time, "a"), new LeasedNode(time, "c")];
    await a.renew(1e9);
    await deleteTarget(a);
    await c.hold(1, 1e9);
    expect(await time.of(describeOutcome(c.putting("late", "main", { durable: true })))).toBe("database_not_found");
    expect(time.store.keys("db/").filter((key) => !key.endsWith("/catalog"))).toEqual([]);
    await time.pass(1_000_000);
    expect(time.store.keys("db/")).toEqual([]);
  });
});
