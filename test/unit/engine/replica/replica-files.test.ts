/** Files of copies: what a writer before has left, what a long reader holds open, and what a purge removes. */
import { existsSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { limits } from "../../../../src/base/limits.ts";
import { HeldDisk, LeasedNode, describeOutcome, sharedTime } from "../../../support/leased-node.ts";
import { ReplicaNode } from "../../../support/replica-node.ts";
import { temporaryDirectory } from "../../../support/temporary.ts";
import type { VirtualTime } from "../../../support/timed-engine.ts";
import { soundDisk } from "../../../support/sound-disk.ts";
import { followLookMsMin } from "../../../../src/engine/replica/manifest-watcher.ts";
import { replicaPatienceMs } from "../../../../src/engine/replica/replica-follower.ts";
import { refreshPatienceMs } from "../../../../src/engine/pool/registry.ts";
import { longMs, durable, pair, shipMany, pin, unpin, setAside } from "../../../support/followed-writer.ts";

/** A node that has acknowledged a write that object storage does not have, and that has lost its lease. */
async function runAhead(): Promise<{ time: VirtualTime; node: LeasedNode; ship: () => void }> {
  const time = sharedTime();
  const node = new LeasedNode(time, "node");
  await node.hold(1, longMs);
  await node.put("first", "main", durable);
  time.store.decideFate = (verb, key) => (verb === "put" && key.includes("/head/") ? "refused" : "fine");
  await node.put("logged");
  await node.lose();
  return { time, node, ship: () => void (time.store.decideFate = () => "fine") };
}

describe("a file of a node that was the writer", () => {
  const listing = (node: LeasedNode, more: object = {}): Promise<readonly string[]> =>
    node.client.read(node.at("main"), "kv.list", { ns: "n" }, node.soon(more)).then(({ value }) => value.keys);

  for (const how of ["open", "after a restart"] as const) {
    test(`that is ahead of the manifest is answered from only once it has landed (${how})`, async () => {
      const { time, node: first, ship } = await runAhead();
      let node = first;
      if (how === "after a restart") {
        first.kill();
        node = new LeasedNode(time, "node", {}, first.directory);
      }
      expect(await describeOutcome(time.of(listing(node)))).toBe("behind");
      expect(await describeOutcome(time.of(listing(node, { consistency: "cached" })))).toBe("behind");
      ship();
      await time.pass(limits.shipRetryMsMax);
      expect(await time.of(listing(node))).toEqual(["first", "logged"]);
      expect(time.manifest(node.uuid)).toMatchObject({ txid: 2, epoch: 1 });
      expect(setAside(node)).toEqual([]);
      expect(time.store.violations).toEqual([]);
    });

    test(`that another node has overtaken is never answered from, but set aside (${how})`, async () => {
      const { time, node: first, ship } = await runAhead();
      let node = first;
      if (how === "after a restart") first.kill();
      const other = new LeasedNode(time, "other");
      // The manifest is let through for the other one only.
      ship();
      first.world.pause();
      await other.hold(2, longMs);
      await other.put("of another", "main", durable);
      if (how === "after a restart") node = new LeasedNode(time, "node", {}, first.directory);
      else first.world.resume();
      for (let round = 0; round < 20; round++) {
        const outcome = await time.of(
          listing(node, round % 2 === 0 ? { consistency: "cached" } : {}).catch((error: unknown) => String(error)),
        );
        expect(outcome).not.toContain("logged");
        await time.pass(100);
      }
      expect(await time.of(listing(node))).toEqual(["first", "of another"]);
      expect(setAside(node).length).toBeGreaterThan(0);
      expect(time.manifest(node.uuid)).toMatchObject({ node: "other", epoch: 2 });
      expect(time.store.violations).toEqual([]);
    });
  }

  test("that was closed when the lease was lost is opened at the newest manifest, not the claimed one", async () => {
    const time = sharedTime();
    const [node, other] = [new LeasedNode(time, "node", { idleCloseMs: 1_000 }), new LeasedNode(time, "other")];
    await node.hold(1, longMs);
    await node.put("first", "main", durable);
    await time.pass(10_000);
    await node.lose();
    await other.hold(2, longMs);
    await other.put("second", "main", durable);
    expect(await time.of(listing(node))).toEqual(["first", "second"]);
    expect(setAside(node)).toEqual([]);
  });

  test("that becomes its writer again finds the newest manifest, whatever it had open", async () => {
    const { time, writer, replica } = await pair();
    await replica.list();
    await writer.put("second", "main", durable);
    await writer.releaseDatabase();
    replica.client.renewLease({ monotonicMs: longMs, wallMs: Number.MAX_SAFE_INTEGER });
    await time.of(replica.client.hold(replica.uuid, 2, replica.soon()));
    expect((await replica.put("third", "main", durable)).txid).toBe(3);
    await time.of(replica.client.releaseDatabase(replica.uuid, replica.soon()));
    await writer.hold(3, longMs);
    expect((await writer.put("fourth", "main", durable)).txid).toBe(4);
    await time.pass(1_000);
    expect(await replica.list()).toEqual(["first", "fourth", "second", "third"]);
    expect(time.manifest(writer.uuid).lost).toEqual([]);
    expect(time.store.violations).toEqual([]);
  });
});

describe("a long reader", () => {
  test("holds its state; others read on beside it, then wait for the new one, and nobody starves", async () => {
    const { time, writer, replica } = await pair();
    await replica.list();
    replica.engine.receive([{ ...pin, target: replica.at("main") }]);
    await time.pass(10);
    await writer.put("second", "main", durable);
    await time.pass(followLookMsMin + 50);
    expect(await replica.list()).toEqual(["first"]);
    await time.pass(refreshPatienceMs);
    const waiting = Array.from({ length: 10 }, () => replica.listing());
    let answered = 0;
    for (const one of waiting) void one.then(() => answered++);
    await time.pass(1_000);
    expect(answered).toBe(0);
    replica.engine.receive([{ ...unpin, target: replica.at("main") }]);
    for (const keys of await time.of(Promise.all(waiting))) expect(keys).toEqual(["first", "second"]);
  });

  test("does not hold up who must see something newer beyond the patience", async () => {
    const { time, writer, replica } = await pair();
    await replica.list();
    replica.engine.receive([{ ...pin, target: replica.at("main") }]);
    await time.pass(10);
    const { txid } = await writer.put("second", "main", durable);
    const startedMs = time.scheduler.nowMs;
    expect(await describeOutcome(time.of(replica.listing({ minTxid: txid })))).toBe("behind");
    expect(time.scheduler.nowMs - startedMs).toBeLessThanOrEqual(replicaPatienceMs + 50);
  });
});

describe("a purge of copies", () => {
  test("F92: waits for an exchange under way and removes all files; the next read fetches anew", async () => {
    const { time, writer } = await pair();
    const disk = new HeldDisk();
    const gate = Promise.withResolvers<void>();
    let holds = false;
    const replica = new ReplicaNode(time, {}, temporaryDirectory(), {
      ...soundDisk,
      syncDirectory: disk.syncDirectory,
      fdatasync: async (_, path) => (holds && path.endsWith(".db") ? gate.promise : undefined),
    });
    await replica.list();
    await shipMany(writer, 2);
    holds = true;
    await time.pass(1_000);
    expect(existsSync(`${replica.path()}.patching`)).toBe(true);
    let purged = false;
    const purging = replica.client.removeCopies(replica.uuid, replica.soon()).then(() => (purged = true));
    const reading = replica.listing();
    await time.pass(2_000);
    expect(purged).toBe(false);
    holds = false;
    gate.resolve();
    await time.of(purging);
    expect((await time.of(reading)).length).toBe(3);
    await time.of(replica.client.removeCopies(replica.uuid, replica.soon()));
    expect(readdirSync(join(replica.directory, "db"))).toEqual([]);
    replica.seen.forget();
    expect((await replica.list()).length).toBe(3);
    expect(replica.seen.of("seg").length).toBeGreaterThan(0);
    expect(replica.integrity()).toBe("ok");
  });

  test("F92: no branch is opened again before all of them are closed and removed", async () => {
    const { time, writer, replica } = await pair();
    await writer.branch({ act: "fork", name: "dev" });
    for (const branch of ["main", "dev"]) expect(await replica.list({}, branch)).toEqual(["first"]);
    replica.engine.receive([{ ...pin, target: replica.at("dev") }]);
    await time.pass(10);
    const purging = time.of(replica.client.removeCopies(replica.uuid, replica.soon()));
    await time.pass(1_000);
    let answered = false;
    const reading = replica.listing().finally(() => (answered = true));
    await time.pass(1_000);
    expect(answered).toBe(false);
    replica.engine.receive([{ ...unpin, target: replica.at("dev") }]);
    await purging;
    expect(await time.of(reading)).toEqual(["first"]);
    expect(replica.integrity()).toBe("ok");
  });

  test("ships first what this node acknowledged and has not shipped, and is refused while that cannot be", async () => {
    const { time, node, ship } = await runAhead();
    expect(await describeOutcome(time.of(node.client.removeCopies(node.uuid, node.soon())))).toBe("unavailable");
    ship();
    await time.of(node.client.removeCopies(node.uuid, node.soon()));
    expect(readdirSync(join(node.directory, "db"))).toEqual([]);
    expect(time.manifest(node.uuid).txid).toBe(2);
    expect(await node.keys()).toEqual(["first", "logged"]);
  });
});
