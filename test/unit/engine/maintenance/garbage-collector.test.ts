/** What is collected, what never is, and that no order of events can make it otherwise. */
import { describe, expect, test } from "vitest";
import { limits } from "../../../../src/base/limits.ts";
import { CopyRecords } from "../../../../src/control/databases/copy-records.ts";
import { Catalogs } from "../../../../src/engine/history/catalogs.ts";
import { GarbageCollector, type Collected, lateGraces } from "../../../../src/engine/maintenance/garbage-collector.ts";
import { ManifestWriter } from "../../../../src/engine/history/manifest-writer.ts";
import { catalogKey, databasePrefix, poolId, purgeKey, segmentKey } from "../../../../src/format/keys/object-keys.ts";
import type { ObjectStore } from "../../../../src/store/port/object-store.ts";
import { putImmutable } from "../../../../src/store/port/sure-put.ts";
import { seeded } from "../../../support/random.ts";
import { ErasingNode } from "../../../support/erasing-node.ts";
import { noise, TimedEngine, VirtualTime } from "../../../support/timed-engine.ts";
import { packRefsMin } from "../../../../src/engine/compaction/timeline-length.ts";

const graceMs = 60_000;

/** A node that never collects by itself, and a collector of the test's own. */
function setup(options = {}): {
  time: VirtualTime;
  node: TimedEngine;
  collect: () => Promise<Collected>;
  collector: (store?: ObjectStore) => GarbageCollector;
} {
  const time = new VirtualTime();
  time.store.audit();
  const node = new TimedEngine(time, { gcGraceMs: 1e12, idleCloseMs: 1e12, ...options });
  const world = time.world();
  const collector = (store: ObjectStore = time.store): GarbageCollector =>
    new GarbageCollector({
      store,
      world,
      catalogs: new Catalogs(store, world),
      records: new CopyRecords(store, world),
      places: node.engine.places,
      graceMs,
      notice: (message) => node.notices.push(message),
    });
  return { time, node, collector, collect: () => time.of(collector().collect(node.uuid)) };
}

/** Objects of the database's pool, by short key. */
const pool = (time: VirtualTime, node: TimedEngine): string[] =>
  time.store
    .keys(databasePrefix(node.uuid))
    .map((key) => key.slice(databasePrefix(node.uuid).length))
    .filter((key) => key !== "catalog");

/** Enough single segments for a pack, whose inputs are garbage then. */
async function packSome(node: TimedEngine, count = packRefsMin + 1): Promise<void> {
  for (let n = 0; n < count; n++) {
    await node.put(`p${n}`);
    await node.time.pass(limits.shipIntervalMs + 20);
  }
}

describe("a round of collection", () => {
  test("segments-05: deletes the orphans after the grace, and nothing else", async () => {
    const { time, node, collect } = setup();
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
    const { time, node, collect } = setup();
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
    const { time, node, collect } = setup();
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
    const { time, node, collect } = setup();
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
    const { time, node, collect } = setup();
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
    const { time, node, collect } = setup();
    expect(await collect()).toEqual({ condemned: 0, deleted: 0, again: false });
    await node.put("k");
    await node.sync();
    await time.of(node.client.deleteTarget(node.at("main"), node.soon()));
    expect(await collect()).toMatchObject({ condemned: 0, deleted: 0 });
  });

  test("F38: a listing that misses keys only makes it delete less", async () => {
    const { time, node, collect } = setup();
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

/** The store as a collector sees it that stops before its n-th request of the verb, until it is let go. */
function pausing(
  time: VirtualTime,
  verb: "get" | "put" | "delete" | "list",
  nth: number,
): { store: ObjectStore; resume: () => void; paused: () => boolean } {
  const gate = Promise.withResolvers<void>();
  let seen = 0;
  let paused = false;
  const door = async <Answer>(name: string, act: () => Promise<Answer>): Promise<Answer> => {
    if (name === verb && ++seen === nth) {
      paused = true;
      await gate.promise;
      paused = false;
    }
    return act();
  };
  const { store } = time;
  return {
    paused: () => paused,
    resume: () => gate.resolve(),
    store: {
      get: (key) => door("get", () => store.get(key)),
      put: (...put) => door("put", () => store.put(...put)),
      delete: (key) => door("delete", () => store.delete(key)),
      list: (...list) => door("list", () => store.list(...list)),
      purgeVersions: () => store.purgeVersions(),
    },
  };
}

describe("whoever is paused", () => {
  test("F64: a collector that sleeps for a day at any of its requests does no harm", async () => {
    for (const verb of ["get", "put", "delete", "list"] as const) {
      for (let nth = 1; nth <= 2; nth++) {
        const { time, node, collector, collect } = setup();
        await node.put("base");
        await packSome(node);
        await collect();
        await time.pass(graceMs + 1_000);
        const { store, resume, paused } = pausing(time, verb, nth);
        const sleeping = collector(store).collect(node.uuid);
        await time.pass(1_000);
        if (!paused()) {
          await time.of(sleeping);
          continue;
        }
        await node.branch({ act: "fork", name: "meanwhile" });
        await node.put("own", "meanwhile");
        await node.branch({ act: "rewind", to: "3" });
        await packSome(node);
        await node.branch({ act: "fork", name: "past", at: "2" });
        await collect();
        await time.pass(86_400_000);
        await collect();
        resume();
        await time.of(sleeping).catch(() => {});
        expect(time.store.violations, `${verb} ${nth}`).toEqual([]);
        const again = await node.again(true);
        expect(await again.keys("meanwhile")).toContain("own");
        expect(await again.keys("past")).toHaveLength(2);
      }
    }
  });

  test("F65: a writer that stalls beyond the grace between upload and manifest publishes all the same", async () => {
    const { time, node, collect } = setup();
    await node.put("k", "main", { durable: true });
    const held = Promise.withResolvers<void>();
    time.store.decideFate = (verb, key) => (verb === "put" && key.includes("/head/") ? { held: held.promise } : "fine");
    await node.put("k2");
    await time.pass(2_000);
    for (let round = 0; round < 3; round++) {
      await collect();
      await time.pass(graceMs + 1_000);
    }
    time.store.decideFate = () => "fine";
    held.resolve();
    await node.sync();
    expect(time.manifest(node.uuid).txid).toBe(2);
    expect(await (await node.again(true)).keys()).toEqual(["k", "k2"]);
    expect(time.store.violations).toEqual([]);
  });

  test("F65: a writer that stalls while another takes over is fenced, and its upload goes", async () => {
    const { time, node, collect } = setup();
    await node.put("k", "main", { durable: true });
    const held = Promise.withResolvers<void>();
    time.store.decideFate = (verb, key) => (verb === "put" && key.includes("/head/") ? { held: held.promise } : "fine");
    await node.put("k2");
    await time.pass(2_000);
    time.store.decideFate = () => "fine";
    const other = new TimedEngine(time, { nodeId: "other", gcGraceMs: 1e12 });
    await other.put("theirs", "main", { durable: true });
    expect((await collect()).condemned).toBe(1);
    await time.pass(graceMs + 1_000);
    expect((await collect()).deleted).toBe(1);
    held.resolve();
    await time.pass(5_000);
    expect(time.manifest(node.uuid).node).toBe("other");
    expect(await other.keys()).toEqual(["k", "theirs"]);
    expect(time.store.violations).toEqual([]);
  });

  test("F63: a fork that sleeps at any request while its parent is collected is whole or refused", async () => {
    let forked = 0;
    for (const verb of ["get", "put"] as const) {
      for (let nth = 1; nth <= 4; nth++) {
        const { time, node, collector } = setup();
        await packSome(node, packRefsMin - 1);
        let seen = 0;
        const gate = Promise.withResolvers<void>();
        time.store.decideFate = (asked, key) =>
          asked === verb && !key.includes("/seg/") && ++seen === nth ? { held: gate.promise } : "fine";
        const forking = node.branching({ act: "fork", name: "child", at: "3" });
        const outcome = forking.then(
          () => "done",
          (error: { code?: string }) => error.code ?? String(error),
        );
        await time.pass(1_000);
        for (let n = 0; n < 4; n++) {
          node.putting(`m${n}`).catch(() => {});
          await time.pass(limits.shipIntervalMs + 20);
        }
        for (let round = 0; round < 4; round++) {
          // Only the fork and its node are slow.
          await time.of(collector(time.store.calm).collect(node.uuid));
          await time.pass(graceMs + 1_000);
        }
        gate.resolve();
        const end = await time.of(outcome);
        expect(["done", "unavailable", "request_timeout"], `${verb} ${nth}`).toContain(end);
        await time.pass(5_000);
        // A manifest that was never announced may name what is gone; no branch may.
        time.store.audit().whole(node.uuid);
        const again = await node.again(true);
        if (time.catalog(node.uuid).branches.some(({ name }) => name === "child")) {
          forked++;
          expect(await again.keys("child")).toHaveLength(3);
        }
      }
    }
    expect(forked).toBeGreaterThan(3);
  });

  test("F63, F64: a forker that lost its parent and slept through deletion announces nothing gone", async () => {
    const { time, node, collect } = setup();
    await packSome(node, packRefsMin - 1);
    // It sleeps with the child's manifest in hand, before that is put.
    const gate = Promise.withResolvers<void>();
    let child = 0;
    time.store.decideFate = (verb, key) =>
      verb === "put" && key.includes("/head/") && !key.endsWith("/main") && child++ === 0
        ? { held: gate.promise }
        : "fine";
    const outcome = node.branching({ act: "fork", name: "child" }).then(
      () => "done",
      (error: { code?: string }) => error.code ?? String(error),
    );
    await time.pass(1_000);
    expect(child).toBe(1);
    const other = new TimedEngine(time, { nodeId: "other", gcGraceMs: 1e12, idleCloseMs: 1e12 });
    await packSome(other, 2 * packRefsMin);
    for (let round = 0; round < 4; round++) {
      await collect();
      await time.pass(graceMs + 1_000);
    }
    expect(time.catalog(node.uuid).condemned).toEqual([]);
    gate.resolve();
    await time.of(outcome);
    // A manifest that was never announced may name what is gone; no branch may.
    time.store.audit().whole(node.uuid);
    if (time.catalog(node.uuid).branches.some(({ name }) => name === "child")) {
      other.kill();
      expect((await new TimedEngine(time, { nodeId: "third" }).keys("child")).length).toBeGreaterThanOrEqual(
        packRefsMin - 1,
      );
    }
  });
});

describe("a deleted database", () => {
  test("F76: with hot handles and a write under way is refused from then on, and gone after the grace", async () => {
    const { time, node } = setup({ gcGraceMs: 5_000 });
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
    const { time, node, collector } = setup();
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

describe("everything at once", () => {
  test("F63-F66, F71: writes, forks, rewinds, deletions, packs and collections leave nothing dangling", async () => {
    for (let seed = 1; seed <= 6; seed++) {
      const random = seeded(seed);
      const below = (count: number): number => Math.floor(random() * count);
      const { time, node, collector } = setup({ pitrMs: 120_000, hotHandlesMax: 3 });
      time.store.decideFate = (verb) =>
        random() < 0.02
          ? verb === "put"
            ? (["answerLost", "requestLost", "refused"] as const)[below(3)]!
            : "refused"
          : { held: time.scheduler.sleep(random() * 20) };
      let branches = ["main"];
      let forks = 0;
      const failures: string[] = [];
      const fine = async (promise: Promise<unknown>): Promise<void> => {
        await promise.catch((error: { code?: string; kind?: string }) =>
          failures.push(String(error.code ?? error.kind ?? error)),
        );
      };
      for (let step = 0; step < 120; step++) {
        const branch = branches[below(branches.length)]!;
        const under: Promise<unknown>[] = [];
        for (let n = 1 + below(3); n > 0; n--)
          under.push(
            fine(node.putting(`k${below(40)}`, branch, { durable: random() < 0.3 }, noise(8 * (1 + below(512)), step))),
          );
        if (random() < 0.15 && branches.length < 8) {
          const name = `f${++forks}`;
          under.push(fine(node.branching({ act: "fork", name, ...(random() < 0.2 ? { ttlSecs: 60 } : {}) }, branch)));
          branches.push(name);
        }
        if (random() < 0.1) under.push(fine(node.branching({ act: "checkpoint", name: `c${below(5)}` }, branch)));
        if (random() < 0.1)
          under.push(
            fine(
              node.branching({ act: "rewind", to: random() < 0.5 ? `c${below(5)}` : String(below(step + 1)) }, branch),
            ),
          );
        if (random() < 0.05)
          under.push(fine(node.branching({ act: "forget-checkpoint", name: `c${below(5)}` }, branch)));
        if (random() < 0.08 && branch !== "main") {
          under.push(fine(node.branching({ act: "delete", name: branch })));
          branches = branches.filter((name) => name !== branch);
        }
        if (random() < 0.25) under.push(fine(collector().collect(node.uuid)));
        await time.of(Promise.all(under));
        if (random() < 0.3) await time.pass(random() < 0.2 ? graceMs + 1_000 : 1_200);
        expect(time.store.violations, `seed ${seed} step ${step}`).toEqual([]);
      }
      time.store.decideFate = () => "fine";
      const told = failures.filter(
        (code) =>
          ![
            "unavailable",
            "not_found",
            "branch_not_found",
            "already_exists",
            "unknown_outcome",
            "request_timeout",
            "conflict",
            "overloaded",
          ].includes(code),
      );
      expect(told, `seed ${seed}`).toEqual([]);
      await node.sync();
      const audit = time.store.audit();
      audit.whole(node.uuid);
      for (let round = 0; round < 4; round++) {
        await time.of(collector().collect(node.uuid));
        await time.pass(graceMs + 1_000);
      }
      audit.whole(node.uuid);
      const again = await node.again(true);
      for (const { name, ttlAtMs } of time.catalog(node.uuid).branches)
        if (ttlAtMs === undefined) await again.keys(name);
      expect(time.store.violations).toEqual([]);
    }
  });
});

describe("what a writer reserves", () => {
  test("F64: a condemned object is referred to by no manifest that lands later", async () => {
    const { time, node, collect } = setup();
    await packSome(node);
    await collect();
    const condemned = new Set(time.catalog(node.uuid).condemned.map(({ key }) => key));
    expect(condemned.size).toBeGreaterThan(0);
    await node.branch({ act: "rewind", to: "3" });
    await node.branch({ act: "fork", name: "x", at: "2" });
    await packSome(node);
    for (const id of ["main", time.catalog(node.uuid).branches.find(({ name }) => name === "x")!.id]) {
      for (const { id: ref } of time.manifest(node.uuid, id).refs) expect(condemned.has(`seg/${ref}`)).toBe(false);
    }
    const manifest = await ManifestWriter.read({
      store: time.store,
      world: node.world,
      nodeId: "test",
      uuid: node.uuid,
      branchId: "main",
    });
    expect(manifest.exists).toBe(true);
    expect(time.store.violations).toEqual([]);
  });
});
