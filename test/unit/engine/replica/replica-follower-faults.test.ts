/**
 * Copies when things change under them: objects that are packed and collected, crashes, branches that go, claims, long
 * readers.
 */
import { existsSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { limits } from "../../../../src/base/limits.ts";
import { manifestKey, segmentKey } from "../../../../src/format/keys/object-keys.ts";
import { HeldDisk, LeasedNode, describeOutcome, sharedTime } from "../../../support/leased-node.ts";
import { ReplicaNode } from "../../../support/replica-node.ts";
import { temporaryDirectory } from "../../../support/temporary.ts";
import { noise, type VirtualTime } from "../../../support/timed-engine.ts";
import { soundDisk } from "../../../support/sound-disk.ts";
import { followIdleMs, followLookMsMin } from "../../../../src/engine/replica/manifest-watcher.ts";
import { replicaPatienceMs } from "../../../../src/engine/replica/replica-follower.ts";
import { refreshPatienceMs } from "../../../../src/engine/pool/registry.ts";
import { manifestsTriedMax } from "../../../../src/engine/opening/opening.ts";
import { idleCloseMs } from "../../../../src/server/config/settings.ts";
import { collectAfterMs } from "../../../../src/engine/maintenance/chores.ts";

const longMs = 10_000_000;
const durable = { durable: true };

async function pair(
  options: { gcGraceMs?: number } = {},
): Promise<{ time: VirtualTime; writer: LeasedNode; replica: ReplicaNode }> {
  const time = sharedTime();
  const [writer, replica] = [new LeasedNode(time, "writer", options), new ReplicaNode(time)];
  await writer.hold(1, longMs);
  await writer.put("first", "main", durable);
  return { time, writer, replica };
}

/** Writes so much that nothing of it fits into a manifest, shipped one by one. */
async function shipMany(node: LeasedNode, count: number, bytes = 60_000, prefix = "bulk"): Promise<void> {
  for (let one = 0; one < count; one++) {
    await node.time.of(node.putting(`${prefix} ${String(one).padStart(3, "0")}`, "main", {}, noise(bytes, one + 1)));
    await node.sync();
  }
}

const pin = { id: 1_000_000, work: { kind: "pin" }, budgetMs: longMs, minTxid: 0, durable: false } as const;
const unpin = { ...pin, id: 1_000_001, work: { kind: "unpin", token: pin.id, seenTxid: 1 } } as const;

const setAside = (node: ReplicaNode | LeasedNode): readonly string[] => {
  const folder = join(node.directory, "quarantine", node.uuid);
  return existsSync(folder) ? readdirSync(folder) : [];
};

describe("objects", () => {
  test("replica-stream-2, F80: across packs and collection it reaches the last value without the base", async () => {
    const { time, writer, replica } = await pair({ gcGraceMs: 1_000 });
    await writer.sql(["CREATE TABLE ballast (n INTEGER PRIMARY KEY, text TEXT)"]);
    for (let n = 0; n < 12; n++) await writer.sql([`INSERT INTO ballast VALUES (${n}, '${noise(500_000, n)}')`]);
    await shipMany(writer, 1);
    // Nothing follows while it skips manifests.
    await replica.list();
    const base = readdirSync(join(replica.directory, "db", writer.uuid));
    await time.pass(followIdleMs + idleCloseMs + 5_000);
    const before = time.manifest(writer.uuid);
    await shipMany(writer, 40, 60_000, "later");
    await time.pass(collectAfterMs * 4);
    const now = time.manifest(writer.uuid);
    expect(now.refs.filter(({ kind }) => kind === "image")).toEqual(before.refs.filter(({ kind }) => kind === "image"));
    expect(now.refs.length).toBeLessThan(40);
    expect(before.refs.length).toBeGreaterThan(0);
    replica.seen.forget();
    const { txid } = await replica.read("kv.get", { ns: "n", key: "later 039" });
    expect(txid).toBe(now.txid);
    const bytes = replica.seen.of("seg").reduce((sum, got) => sum + got.bytes, 0);
    const images = new Set(
      now.refs.filter(({ kind }) => kind === "image").map(({ id }) => segmentKey(writer.uuid, id)),
    );
    expect(replica.seen.of("seg").filter(({ key }) => images.has(key))).toEqual([]);
    expect(bytes).toBeLessThan((now.pages * 4_096) / 2);
    expect(readdirSync(join(replica.directory, "db", writer.uuid)).filter((name) => name.endsWith(".db"))).toEqual(
      base.filter((name) => name.endsWith(".db")),
    );
    expect(replica.integrity()).toBe("ok");
  });

  test("F80: what is collected while it is fetched is looked for in the newest manifest, not for ever", async () => {
    const { time, writer, replica } = await pair();
    await shipMany(writer, 3);
    const key = manifestKey(writer.uuid, "main");
    const old = time.store.read(key)!;
    await shipMany(writer, 40, 60_000, "later");
    await time.pass(5_000);
    const kept = new Set(time.manifest(writer.uuid).refs.map(({ id }) => segmentKey(writer.uuid, id)));
    const gone = time.store.keys(`db/${writer.uuid}/seg/`).filter((object) => !kept.has(object));
    expect(gone.length).toBeGreaterThan(3);
    for (const object of gone) await time.store.calm.delete(object);
    let answers = 0;
    // Read when the file is registered, and once more after that.
    replica.seen.between = (asked, found) => (asked === key && ++answers <= 2 ? old : found);
    expect((await replica.list()).length).toBe(44);
    expect(replica.integrity()).toBe("ok");

    // With nothing newer to be had, it is a fault that an operator sees.
    const other = new ReplicaNode(time);
    other.seen.between = (asked, found) => (asked === key ? old : found);
    expect(await describeOutcome(time.of(other.listing()))).toBe("unavailable");
    expect(other.seen.of("head").length).toBeLessThanOrEqual(manifestsTriedMax + 2);
  });

  test("an exchange that fails leaves the old copy in service, tells of it once and succeeds later", async () => {
    const { time, writer, replica } = await pair();
    await replica.list();
    await shipMany(writer, 2);
    replica.seen.between = (asked, found) => (asked.includes("/seg/") ? undefined : found);
    for (let round = 0; round < 30; round++) {
      expect(await replica.list()).toEqual(["first"]);
      await time.pass(500);
    }
    expect(replica.notices.filter((notice) => notice.includes("is missing"))).toHaveLength(1);
    // Later and later.
    expect(replica.seen.of("seg").length).toBeLessThan(30);
    replica.seen.between = undefined;
    await time.pass(30_000);
    expect((await replica.list()).length).toBe(3);
    expect(setAside(replica)).toEqual([]);
    expect(replica.integrity()).toBe("ok");
  });

  test("F79: a process that dies while its copy is laid leaves a mixture that answers nobody", async () => {
    const { time, writer } = await pair();
    let hangs = false;
    const disk = {
      ...soundDisk,
      fdatasync: async (_: number, path: string) =>
        hangs && path.endsWith(".db") ? new Promise<void>(() => {}) : undefined,
    };
    const replica = new ReplicaNode(time, {}, temporaryDirectory(), disk);
    await replica.list();
    await shipMany(writer, 2);
    hangs = true;
    await time.pass(1_000);
    expect(existsSync(`${replica.path()}.patching`)).toBe(true);
    const waiting = describeOutcome(replica.listing());
    await time.pass(5_000);
    const again = replica.restarted();
    expect((await again.list()).length).toBe(3);
    expect(existsSync(`${again.path()}.patching`)).toBe(false);
    expect(again.integrity()).toBe("ok");
    void waiting;
  });

  test("F83: vectors are searched in the state that is answered from, before and after an exchange", async () => {
    const { time, writer, replica } = await pair();
    const upsert = (id: string, angle: number): Promise<unknown> =>
      time.of(
        writer.client.write(
          writer.at("main"),
          "vector.upsert",
          { collection: "v", id, embedding: Float32Array.of(Math.cos(angle), Math.sin(angle)) },
          writer.soon(durable),
        ),
      );
    const nearest = async (minTxid: number): Promise<readonly string[]> =>
      (
        await replica.read("vector.search", { collection: "v", vector: Float32Array.of(1, 0), k: 2 }, { minTxid })
      ).value.hits.map(({ id }) => id);
    await upsert("far", 2);
    await upsert("near", 0.5);
    expect(await nearest(3)).toEqual(["near", "far"]);
    await upsert("nearer", 0.1);
    await upsert("near", 3);
    expect(await nearest(5)).toEqual(["nearer", "far"]);
  });
});

describe("branches", () => {
  test("a branch that the writer has made is found, its end is followed, and so is another of its name", async () => {
    const { time, writer, replica } = await pair();
    expect(await describeOutcome(time.of(replica.listing({}, "dev")))).toBe("branch_not_found");
    await writer.branch({ act: "fork", name: "dev" });
    await writer.put("of dev", "dev", durable);
    await time.pass(followLookMsMin);
    expect(await replica.list({}, "dev")).toEqual(["first", "of dev"]);
    const { id } = time.catalog(writer.uuid).branches.find(({ name }) => name === "dev")!;
    await writer.branch({ act: "delete", name: "dev" });
    await time.pass(1_000);
    expect(await describeOutcome(time.of(replica.listing({}, "dev")))).toBe("branch_not_found");
    expect(existsSync(replica.path(id))).toBe(false);
    await writer.branch({ act: "fork", name: "dev" });
    await writer.put("of another", "dev", durable);
    await time.pass(1_000);
    expect(await replica.list({}, "dev")).toEqual(["first", "of another"]);
    // Between two looks too.
    await writer.branch({ act: "delete", name: "dev" });
    await writer.branch({ act: "fork", name: "dev" });
    await time.pass(1_000);
    expect(await replica.list({}, "dev")).toEqual(["first"]);
    expect(await replica.list()).toEqual(["first"]);
  });

  test("a branch of another's name is never answered for it, however long somebody reads the old one", async () => {
    const { time, writer, replica } = await pair();
    await writer.branch({ act: "fork", name: "dev" });
    await writer.put("of dev", "dev", durable);
    expect(await replica.list({}, "dev")).toEqual(["first", "of dev"]);
    replica.engine.receive([{ ...pin, target: replica.at("dev") }]);
    await time.pass(10);
    await writer.branch({ act: "delete", name: "dev" });
    await writer.branch({ act: "fork", name: "dev" });
    await time.pass(1_000);
    const [plain, cached] = [replica.listing({}, "dev"), replica.listing({ consistency: "cached" }, "dev")];
    await time.pass(1_000);
    replica.engine.receive([{ ...unpin, target: replica.at("dev") }]);
    expect(await time.of(Promise.all([plain, cached]))).toEqual([["first"], ["first"]]);
  });

  test("an expired branch is not found, whether or not anybody has removed it", async () => {
    const { time, writer, replica } = await pair();
    await writer.branch({ act: "fork", name: "burner", ttlSecs: 30 });
    expect(await replica.list({}, "burner")).toEqual(["first"]);
    writer.kill();
    await time.pass(31_000);
    expect(await describeOutcome(time.of(replica.listing({}, "burner")))).toBe("branch_not_found");
    expect(await describeOutcome(time.of(replica.listing({ consistency: "cached" }, "burner")))).toBe(
      "branch_not_found",
    );
  });

  test("F68: a rewind is followed, and releases who waits for it", async () => {
    const { time, writer, replica } = await pair();
    await writer.put("second", "main", durable);
    await replica.list();
    const { txid } = await writer.branch({ act: "rewind", to: "1" });
    expect(await replica.list({ minTxid: txid })).toEqual(["first"]);
    await writer.put("third", "main", durable);
    await time.pass(1_000);
    expect(await replica.list()).toEqual(["first", "third"]);
    expect(replica.integrity()).toBe("ok");
  });

  test("F76: a deleted database is not found, and its files go", async () => {
    const { time, writer, replica } = await pair();
    await replica.list();
    await time.of(writer.client.deleteTarget(writer.at("main"), writer.soon()));
    await time.pass(1_000);
    expect(await describeOutcome(time.of(replica.listing()))).toBe("database_not_found");
    expect(await describeOutcome(time.of(replica.listing({ consistency: "cached" })))).toBe("database_not_found");
    expect(readdirSync(join(replica.directory, "db"))).toEqual([]);
  });

  test("F76: one that was purged since anybody looked is not found either", async () => {
    const { time, writer, replica } = await pair({ gcGraceMs: 1 });
    await replica.list();
    replica.engine.receive([{ ...pin, target: replica.at("main") }]);
    await time.pass(followIdleMs * 3);
    // The replica has not said that its copy is purged, so the marker stays.
    await time.noteDeletion(writer.uuid);
    await time.of(writer.client.deleteTarget(writer.at("main"), writer.soon()));
    await time.pass(10_000);
    expect(time.store.keys(`db/${writer.uuid}/`)).toEqual([]);
    expect(await describeOutcome(time.of(replica.listing()))).toBe("database_not_found");
  });
});

describe("a file of a node that was the writer", () => {
  /** The node has acknowledged a write that object storage does not have, and has lost its lease. */
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
    const time = sharedTime();
    const node = new LeasedNode(time, "node");
    await node.hold(1, longMs);
    await node.put("first", "main", durable);
    time.store.decideFate = (verb, key) => (verb === "put" && key.includes("/head/") ? "refused" : "fine");
    await node.put("logged");
    await node.lose();
    expect(await describeOutcome(time.of(node.client.removeCopies(node.uuid, node.soon())))).toBe("unavailable");
    time.store.decideFate = () => "fine";
    await time.of(node.client.removeCopies(node.uuid, node.soon()));
    expect(readdirSync(join(node.directory, "db"))).toEqual([]);
    expect(time.manifest(node.uuid).txid).toBe(2);
    expect(await node.keys()).toEqual(["first", "logged"]);
  });
});
