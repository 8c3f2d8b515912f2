/** What is collected of a database, what never is, and that nothing of a deleted one stays. */
import { describe, expect, test } from "vitest";
import { lateGraces } from "../../../../src/engine/maintenance/garbage-collector.ts";
import { catalogKey, databasePrefix, poolId, purgeKey, segmentKey } from "../../../../src/format/keys/object-keys.ts";
import { putImmutable } from "../../../../src/store/port/sure-put.ts";
import { seeded } from "../../../support/random.ts";
import { ErasingNode } from "../../../support/erasing-node.ts";
import { noise, TimedEngine, VirtualTime } from "../../../support/timed-engine.ts";
import { packRefsMin } from "../../../../src/engine/compaction/timeline-length.ts";
import { graceMs, startCollected, packSome } from "../../../support/collected-node.ts";

/** Objects of the database's pool, by short key. */
const pool = (time: VirtualTime, node: TimedEngine): string[] =>
  time.store
    .keys(databasePrefix(node.uuid))
    .map((key) => key.slice(databasePrefix(node.uuid).length))
    .filter((key) => key !== "catalog");

describe("a round of collection", () => {
  test("segments-05: deletes the orphans after the grace, and nothing else", async () => {
    const { time, node, collect } = startCollected();
    await packSome(node);
    const before = pool(time, node);
    expect(before.length).toBeGreaterThan(packRefsMin);
    const first = await collect();
    expect(first).toMatchObject({ deleted: 0, again: true });
    expect(first.condemned).toBeGreaterThanOrEqual(packRefsMin);
    expect(pool(time, node)).toEqual(before);
    await time.pass(graceMs - 1_000);
    expect(await collect()).toMatchObject({ deleted: 0 });
    await time.pass(2_000);
    expect(await collect()).toMatchObject({ deleted: first.condemned });
    expect(pool(time, node)).toHaveLength(before.length - first.condemned);
    await collect();
    expect(time.catalog(node.uuid).condemned).toEqual([]);
    expect(await collect()).toMatchObject({ condemned: 0, deleted: 0 });
    expect(await (await node.again(true)).keys()).toHaveLength(packRefsMin + 1);
    expect(time.store.violations).toEqual([]);
  });

  test("segments-05: leaves what a fork shares, also when its parent lets go of it or is deleted", async () => {
    const { time, node, collect } = startCollected();
    await node.put("base");
    await node.branch({ act: "fork", name: "a" });
    await node.branch({ act: "fork", name: "b" }, "a");
    await node.put("own", "b");
    await node.sync("b");
    await packSome(node);
    await node.branch({ act: "delete", name: "a" });
    for (let round = 0; round < 4; round++) {
      await collect();
      await time.pass(graceMs + 1_000);
    }
    const again = await node.again(true);
    expect(await again.keys("b")).toEqual(["base", "own"]);
    expect(await again.keys()).toHaveLength(packRefsMin + 2);
    expect(time.store.violations).toEqual([]);
  });

  test("F66: takes everything that only a deleted branch had, its manifest and history too", async () => {
    const { time, node, collect } = startCollected();
    await node.put("base");
    await node.sync();
    const before = pool(time, node);
    await node.branch({ act: "fork", name: "x" });
    await node.put("own", "x");
    await node.branch({ act: "checkpoint", name: "c" }, "x");
    await node.put("more", "x");
    await node.sync("x");
    await node.branch({ act: "rewind", to: "c" }, "x");
    await node.branch({ act: "delete", name: "x" });
    for (let round = 0; round < 3; round++) {
      await collect();
      await time.pass(graceMs + 1_000);
    }
    expect(pool(time, node)).toEqual(before);
    expect(time.store.violations).toEqual([]);
  });

  test("keeps what history and checkpoints need", async () => {
    const { time, node, collect } = startCollected();
    await node.put("k1");
    await node.branch({ act: "checkpoint", name: "c" });
    await node.put("k2");
    await node.branch({ act: "rewind", to: "1" });
    await packSome(node);
    for (let round = 0; round < 3; round++) {
      await collect();
      await time.pass(graceMs + 1_000);
    }
    await node.branch({ act: "rewind", to: "2" });
    expect(await node.keys()).toEqual(["k1", "k2"]);
    await node.branch({ act: "rewind", to: "c" });
    expect(await node.keys()).toEqual(["k1"]);
  });

  test("leaves a young upload of the writer alone until the manifest says that it is settled", async () => {
    const { time, node, collect } = startCollected();
    await node.put("k");
    await node.sync();
    const { epoch } = time.manifest(node.uuid);
    const id = poolId("main", epoch, node.world.ulid());
    await putImmutable(time.store.calm, segmentKey(node.uuid, id), Buffer.from("orphan"));
    expect(await collect()).toMatchObject({ condemned: 0, again: true });
    await node.put("next", "main", { durable: true });
    expect(await collect()).toMatchObject({ condemned: 1 });
  });

  test("does nothing for a database that nobody has written, and nothing for a deleted one", async () => {
    const { time, node, collect } = startCollected();
    expect(await collect()).toEqual({ condemned: 0, deleted: 0, again: false });
    await node.put("k");
    await node.sync();
    await time.of(node.client.deleteTarget(node.at("main"), node.soon()));
    expect(await collect()).toMatchObject({ condemned: 0, deleted: 0 });
  });

  test("F38: a listing that misses keys only makes it delete less", async () => {
    const { time, node, collect } = startCollected();
    const random = seeded(7);
    time.store.hides = () => random() < 0.5;
    await packSome(node);
    for (let round = 0; round < 20; round++) {
      await collect();
      await time.pass(graceMs + 1_000);
    }
    time.store.hides = () => false;
    expect(time.store.violations).toEqual([]);
    expect(await (await node.again(true)).keys()).toHaveLength(packRefsMin + 1);
  });
});

describe("a deleted database", () => {
  test("F76: with hot handles and a write under way is refused from then on, and gone after the grace", async () => {
    const { time, node } = startCollected({ gcGraceMs: 5_000 });
    await node.put("k");
    await node.branch({ act: "fork", name: "x" });
    await node.put("own", "x");
    await time.store.calm.put(purgeKey(node.uuid), Buffer.from("n"), { kind: "absent" });
    const writes = Array.from({ length: 5 }, (_, n) =>
      node.putting(`late${n}`, n % 2 === 0 ? "main" : "x").then(
        () => "done",
        (error: { code: string }) => error.code,
      ),
    );
    const dropping = node.client.deleteTarget(node.at("main"), node.soon());
    await time.of(Promise.all([dropping, ...writes]));
    for (const write of writes) expect(["done", "unavailable", "database_not_found"]).toContain(await write);
    await expect(node.put("later")).rejects.toMatchObject({ code: "database_not_found" });
    expect(time.store.keys(databasePrefix(node.uuid)).length).toBeGreaterThan(2);
    await time.pass(20_000);
    expect(time.store.keys(databasePrefix(node.uuid))).toEqual([]);
    expect(time.store.read(purgeKey(node.uuid))).toBeDefined();
    await time.pass(lateGraces * 5_000);
    expect(time.store.read(purgeKey(node.uuid))).toBeUndefined();
    await expect(node.put("much later")).rejects.toMatchObject({ code: "database_not_found" });
    expect(time.store.keys(databasePrefix(node.uuid))).toEqual([]);
  });

  test("a purge that stops anywhere is finished by the next one; the catalog and the marker go last", async () => {
    const { time, node, collector } = startCollected();
    await packSome(node, 5);
    await time.store.calm.put(purgeKey(node.uuid), Buffer.from("n"), { kind: "absent" });
    const count = time.store.keys(databasePrefix(node.uuid)).length;
    await node.close();
    time.store.watch = () => {};
    for (let stop = 1; stop <= count; stop++) {
      let left = stop;
      time.store.decideFate = (verb) => (verb === "delete" && left-- <= 0 ? "refused" : "fine");
      await time.of(collector().purge(node.uuid)).catch(() => {});
      if (time.store.keys(databasePrefix(node.uuid)).length > 0)
        expect(time.store.read(catalogKey(node.uuid))).toBeDefined();
      else expect(stop).toBeGreaterThan(1);
    }
    time.store.decideFate = () => "fine";
    const last = collector();
    expect(await time.of(last.purge(node.uuid))).toBe((lateGraces * graceMs) / 2);
    expect(time.store.keys(databasePrefix(node.uuid))).toEqual([]);
    expect(time.store.read(purgeKey(node.uuid))).toBeDefined();
    await time.pass(lateGraces * graceMs);
    expect(await time.of(last.purge(node.uuid))).toBeUndefined();
    expect(time.store.read(purgeKey(node.uuid))).toBeUndefined();
  });

  test.each(["seg", "head", "catalog"])(
    "that gets an object late, under %s/, is purged of that too, and its marker stays until then",
    async (folder) => {
      const time = new VirtualTime();
      const node = new TimedEngine(time, { gcGraceMs: 60_000, idleCloseMs: 1e12 });
      const wake = Promise.withResolvers<void>();
      const late = (verb: string, key: string): boolean => verb === "put" && key.includes(`/${folder}`);
      if (folder === "seg") {
        await node.put("k1");
        await node.sync();
      }
      time.store.decideFate = (verb, key) => (late(verb, key) ? { late: wake.promise } : "fine");
      // The first put of a manifest or a catalog lands where there is none; that of an object always does.
      node.putting("secret").catch(() => {});
      await time.pass(1_500);
      time.store.decideFate = () => "fine";
      node.kill();
      await time.noteDeletion(node.uuid);
      const other = new TimedEngine(time, { nodeId: "b", gcGraceMs: 60_000 });
      await time.of(other.client.deleteTarget(other.at("main"), other.soon()));
      await time.pass(300_000);
      expect(time.store.keys(databasePrefix(node.uuid))).toEqual([]);
      wake.resolve();
      await time.pass(1_000);
      expect(time.store.keys(databasePrefix(node.uuid))).not.toEqual([]);
      expect(time.store.read(purgeKey(node.uuid))).toBeDefined();
      await time.pass(900_000);
      expect(time.store.keys(databasePrefix(node.uuid))).toEqual([]);
      expect(time.store.read(purgeKey(node.uuid))).toBeUndefined();
    },
  );

  test("with erasures asked about is not said to be gone while an object may come late", async () => {
    const node = new ErasingNode({ gcGraceMs: 60_000 });
    const secret = await node.remember("the zyxwvutsecret of it");
    const coupon = await node.erase(secret);
    const wake = Promise.withResolvers<void>();
    node.time.store.decideFate = (verb, key) =>
      verb === "put" && key.includes("/seg/") ? { late: wake.promise } : "fine";
    await node.time.of(node.node.putting("late", "main", {}, noise(100_000)));
    await node.time.pass(1_500);
    node.time.store.decideFate = () => "fine";
    node.node.kill();
    await node.time.noteDeletion(node.uuid);
    // The marker of an unfinished erasure keeps that of the deletion.
    await node.time.store.calm.put(`erasing/${node.uuid}/${coupon.id}`, Buffer.from(""), { kind: "absent" });
    node.restart();
    await node.time.of(node.node.client.deleteTarget(node.node.at("main"), node.node.soon()));
    await node.time.pass(130_000);
    expect(await node.expunge(coupon)).toMatchObject({
      clean: [],
      waitingFor: "objects of the deleted database that may come late",
    });
    wake.resolve();
    await node.time.pass(1);
    expect(await node.expunge(coupon)).toMatchObject({
      clean: [],
      waitingFor: "the deleted database's objects are being removed",
    });
    expect(node.time.store.keys(databasePrefix(node.uuid))).toEqual([]);
    await node.time.pass(lateGraces * 60_000 - 1_000);
    expect(await node.expunge(coupon)).toMatchObject({ clean: [] });
    await node.time.pass(2_000);
    expect(await node.expunge(coupon)).toMatchObject({ clean: [coupon.id] });
  });
});
