/** Collection beside others: whoever is paused, late or many at once, nothing that is named is ever collected. */
import { describe, expect, test } from "vitest";
import { limits } from "../../../../src/base/limits.ts";
import { ManifestWriter } from "../../../../src/engine/history/manifest-writer.ts";
import type { ObjectStore } from "../../../../src/store/port/object-store.ts";
import { holdManifests } from "../../../support/leased-node.ts";
import { seeded } from "../../../support/random.ts";
import type { VirtualTime } from "../../../support/timed-engine.ts";
import { noise, TimedEngine } from "../../../support/timed-engine.ts";
import { packRefsMin } from "../../../../src/engine/compaction/timeline-length.ts";
import { graceMs, startCollected, packSome } from "../../../support/collected-node.ts";

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
        const { time, node, collector, collect } = startCollected();
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
    const { time, node, collect } = startCollected();
    await node.put("k", "main", { durable: true });
    const held = Promise.withResolvers<void>();
    holdManifests(time, held.promise);
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
    const { time, node, collect } = startCollected();
    await node.put("k", "main", { durable: true });
    const held = Promise.withResolvers<void>();
    holdManifests(time, held.promise);
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
        const { time, node, collector } = startCollected();
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
    const { time, node, collect } = startCollected();
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

describe("everything at once", () => {
  test("F63-F66, F71: writes, forks, rewinds, deletions, packs and collections leave nothing dangling", async () => {
    for (let seed = 1; seed <= 6; seed++) {
      const random = seeded(seed);
      const below = (count: number): number => Math.floor(random() * count);
      const { time, node, collector } = startCollected({ pitrMs: 120_000, hotHandlesMax: 3 });
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
    const { time, node, collect } = startCollected();
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
