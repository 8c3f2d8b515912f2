/** From an erasure whose grace is over to its proof: what is cut, what stays, what is collected. */
import { existsSync, mkdirSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { manifestKey } from "../../../../src/format/keys/object-keys.ts";
import { collectGraceMs, ErasingNode } from "../../../support/erasing-node.ts";
import { seeded } from "../../../support/random.ts";
import { lateGraces } from "../../../../src/engine/maintenance/garbage-collector.ts";
import { statesFrom, erased } from "../../../support/erased-states.ts";

describe("an erasure whose grace is over", () => {
  test("erasure-01, erasure-07: leaves nothing in storage or on disk; later states stay as they were", async () => {
    const { node, coupon, kept } = await erased();
    const before = await node.states();
    expect((await node.residue("zyxwvutsecret")).length).toBeGreaterThan(0);
    const first = await node.expunge(coupon);
    expect(first).toEqual({
      blocked: {},
      clean: [],
      waitingFor: "the collection of old objects",
      mayChangeSoon: true,
      evidence: undefined,
    });
    const done = await node.complete(coupon);
    expect(done.clean).toEqual([coupon.id]);
    expect(await node.residue("zyxwvutsecret")).toEqual([]);
    expect(await node.states()).toEqual(statesFrom(before, coupon.txid));
    const { evidence } = done;
    expect(evidence).toMatchObject({
      heads_checked: 1,
      catalogs_checked: 1,
      traces: { looked_for: coupon.traces.windowsTotal, hits: 0 },
      oldest_restorable_txid: { main: coupon.txid },
      store: { versioned: false, versions_removed: 0, uploads_aborted: 0 },
      local: [{ node: "test-node", files_scrubbed: 1 }],
    });
    expect(evidence!.objects.live).toBe(evidence!.objects.listed);
    expect(evidence!.objects.scanned).toBe(evidence!.objects.listed);
    expect(evidence!.states_restored.length).toBeGreaterThanOrEqual(3);
    await expect(node.node.branch({ act: "rewind", to: String(coupon.txid - 1) })).rejects.toMatchObject({
      code: "not_found",
    });
    expect(await node.holds(kept)).toBe(true);
    await node.node.branch({ act: "rewind", to: String(coupon.txid) });
    expect(await node.holds(kept)).toBe(true);
    expect(node.time.store.violations).toEqual([]);
  });

  test("changes nothing when it is asked again", async () => {
    const { node, coupon } = await erased();
    await node.complete(coupon);
    // The catalog forgets what was deleted when it is looked at next.
    await node.expunge(coupon);
    const before = node.time.store.keys().map((key) => [key, node.time.store.read(key)!.version]);
    expect((await node.expunge(coupon)).clean).toEqual([coupon.id]);
    expect(node.time.store.keys().map((key) => [key, node.time.store.read(key)!.version])).toEqual(before);
  });

  test("that is not due is only asked about", async () => {
    const { node, coupon } = await erased();
    const before = node.time.store.keys();
    expect(await node.expunge({ ...coupon, isDue: false })).toEqual({
      blocked: {},
      clean: [],
      waitingFor: undefined,
      mayChangeSoon: false,
      evidence: undefined,
    });
    expect(node.time.store.keys()).toEqual(before);
    expect([...(await node.states()).keys()][0]).toBe(0);
  });

  test("puts about as much as the database has, once", async () => {
    const { node, coupon } = await erased();
    await node.fill(10, "main", 20_000);
    await node.complete(coupon);
    const live = node.storedBytes;
    const again = await node.erase(await node.remember("another"));
    let put = 0;
    const store = node.time.store.put.bind(node.time.store);
    node.time.store.put = (key, bytes, condition) => {
      put += bytes.length;
      return store(key, bytes, condition);
    };
    await node.expunge(again);
    expect(put).toBeLessThan(2 * live);
  });

  test("goes through packs that span it, new base images and rewinds", async () => {
    const { node, coupon } = await erased();
    for (let round = 0; round < 3; round++) {
      await node.fill(6, "main", 40_000);
      await node.node.branch({ act: "rewind", to: String(coupon.txid + round + 1) });
      await node.fill(4);
    }
    expect(node.time.history(node.uuid).timelines.length).toBeGreaterThan(2);
    const before = await node.states();
    expect((await node.complete(coupon)).clean).toEqual([coupon.id]);
    expect(await node.residue("zyxwvutsecret")).toEqual([]);
    expect(await node.states()).toEqual(statesFrom(before, coupon.txid));
    expect(node.time.store.violations).toEqual([]);
  });

  test("goes on while others write", async () => {
    const { node, coupon, kept } = await erased();
    const writes = Array.from({ length: 40 }, (_, n) => node.node.putting(`w${n}`, "main", { durable: n % 2 === 0 }));
    await node.expunge(coupon);
    await node.time.of(Promise.all(writes));
    expect((await node.complete(coupon)).clean).toEqual([coupon.id]);
    expect(await node.residue("zyxwvutsecret")).toEqual([]);
    node.node = await node.node.again(true);
    expect((await node.node.keys()).filter((key) => key.startsWith("w"))).toHaveLength(40);
    expect(await node.holds(kept)).toBe(true);
    expect(node.time.store.violations).toEqual([]);
  });

  test("is carried on by the next run when a node dies anywhere in it", async () => {
    const points = new Set<string>();
    for (let stop = 0; stop < 12; stop++) {
      const { node, coupon, kept } = await erased();
      let left = stop;
      node.node.world.atCrashPoint = (name) => {
        if (left-- > 0) return;
        points.add(name);
        node.node.kill();
        node.node.world.atCrashPoint = () => {};
      };
      const run = node.node.client.branch(
        node.node.at("main"),
        { act: "expunge", coupons: [coupon] },
        { deadlineMs: Infinity },
      );
      run.catch(() => {});
      await node.time.pass(60_000);
      node.restart();
      expect((await node.complete(coupon)).clean, `stop ${stop}`).toEqual([coupon.id]);
      expect(await node.residue("zyxwvutsecret"), `stop ${stop}`).toEqual([]);
      expect(await node.holds(kept)).toBe(true);
      expect(node.time.store.violations).toEqual([]);
    }
    expect(
      points.has("image-put") && points.has("head-put") && points.has("head-landed") && points.has("condemned"),
    ).toBe(true);
  });

  test("removes from the disk closed branches, what was set aside and what was never finished", async () => {
    const { node, coupon } = await erased();
    const directory = join(node.node.directory, "db", node.uuid);
    const aside = join(node.node.directory, "quarantine", node.uuid);
    mkdirSync(aside, { recursive: true });
    for (const path of [
      join(directory, "main.db.01J00000000000000000000000.tmp"),
      join(directory, "main.db.restoring"),
      join(directory, "01J00000000000000000000000.db"),
      join(aside, "x.db"),
    ]) {
      writeFileSync(path, "zyxwvutsecret");
    }
    const { evidence } = await node.complete(coupon);
    expect(await node.residue("zyxwvutsecret")).toEqual([]);
    expect(readdirSync(directory).filter((name) => !name.startsWith("main.db"))).toEqual([]);
    expect(existsSync(aside)).toBe(false);
    expect(evidence!.local[0]!.files_removed).toBe(4);
  });
});

describe("several erasures", () => {
  test("F94: one that is asked for while the first waits keeps its undo, and is done after its own grace", async () => {
    const { node, coupon, kept } = await erased();
    await node.expunge(coupon);
    const second = await node.erase(kept);
    await node.fill(2);
    const early = { ...second, isDue: false };
    expect((await node.complete(coupon, early)).clean).toEqual([coupon.id]);
    expect([...(await node.states()).keys()].some((txid) => txid < second.txid)).toBe(true);
    expect((await node.complete(second)).clean).toEqual([second.id]);
    expect(await node.residue("memory that stays")).toEqual([]);
    expect(Math.min(...(await node.states()).keys())).toBe(second.txid);
  });

  test("F94: one that is due waits for an older one's undo on the branch; one rewrite serves both", async () => {
    const { node, coupon, kept } = await erased();
    const second = await node.erase(kept);
    const before = await node.states();
    expect(await node.expunge({ ...coupon, isDue: false }, second)).toEqual({
      blocked: {},
      clean: [],
      waitingFor: "another erasure's grace",
      mayChangeSoon: false,
      evidence: undefined,
    });
    expect(await node.states()).toEqual(before);
    expect((await node.complete(coupon, second)).clean).toEqual([coupon.id, second.id]);
    expect(await node.states()).toEqual(statesFrom(before, second.txid));
  });

  test("a blocked one does not hold up the others", async () => {
    const { node, coupon, kept } = await erased();
    await node.node.branch({ act: "fork", name: "side" });
    const second = await node.erase(kept);
    const outcome = await node.complete(coupon, second);
    expect(outcome).toMatchObject({ blocked: { [second.id]: { branches: ["side"] } }, clean: [coupon.id] });
    expect(await node.holds(kept, "side")).toBe(true);
  });
});

describe("forks", () => {
  test("made after the erasure keep their states byte for byte, and so do theirs", async () => {
    const { node, coupon } = await erased();
    await node.node.branch({ act: "fork", name: "child", at: String(coupon.txid + 1) });
    await node.fill(3, "child");
    await node.node.branch({ act: "fork", name: "grandchild" }, "child");
    await node.fill(2, "grandchild");
    const before = [await node.states("child"), await node.states("grandchild")];
    expect((await node.complete(coupon)).clean).toEqual([coupon.id]);
    expect([await node.states("child"), await node.states("grandchild")]).toEqual(before);
    expect(await node.residue("zyxwvutsecret")).toEqual([]);
    node.node = await node.node.again(true);
    expect((await node.node.keys("grandchild")).length).toBeGreaterThan(0);
    expect(node.time.store.violations).toEqual([]);
  });

  test("made while it is carried out are looked at too", async () => {
    const { node, coupon } = await erased();
    await node.expunge(coupon);
    await node.node.branch({ act: "fork", name: "late", at: String(coupon.txid) });
    const done = await node.complete(coupon);
    expect(done.evidence!.oldest_restorable_txid).toEqual({ main: coupon.txid, late: coupon.txid });
    expect(existsSync(join(node.node.directory, "db", node.uuid, `${node.branchId("late")}.db`))).toBe(true);
  });
});

describe("random lives", () => {
  test("F95: what is called clean has left nothing, and no other state has changed", async () => {
    let cleaned = 0;
    for (let seed = 1; seed <= 12; seed++) {
      const random = seeded(seed);
      const pick = <Value>(values: readonly Value[]): Value => values[Math.floor(random() * values.length)]!;
      const node = new ErasingNode();
      const branches = ["main"];
      const memories: { readonly id: string; readonly token: string }[] = [];
      const coupons: { readonly coupon: Awaited<ReturnType<ErasingNode["erase"]>>; readonly token: string }[] = [];
      for (let step = 0; step < 30; step++) {
        const [branch, chance] = [pick(branches), random()];
        if (memories.length === 0 || chance < 0.3) {
          const token = `zyxwv${seed}t${step}secret`;
          memories.push({
            id: await node.remember(`${token} of ${branch}`, branch, { topicKey: pick(["a", "b"]) }),
            token,
          });
        } else if (chance < 0.45) await node.fill(1 + Math.floor(random() * 3), branch, 2_000);
        else if (chance < 0.55)
          await node.node.branch({ act: "rewind", to: String(pick([...(await node.states(branch)).keys()])) }, branch);
        else if (chance < 0.65 && branches.length < 4) {
          await node.node.branch(
            { act: "fork", name: `b${step}`, at: String(pick([...(await node.states(branch)).keys()])) },
            branch,
          );
          branches.push(`b${step}`);
        } else {
          const { id, token } = pick(memories);
          if (!(await node.holds(id, branch))) continue;
          if (chance < 0.7) await node.forget(id, branch);
          else coupons.push({ coupon: await node.erase(id, branch), token });
        }
      }
      const before = new Map<string, Map<number, string>>();
      for (const branch of branches) {
        await node.node.sync(branch);
        before.set(branch, await node.states(branch));
      }
      const { clean, blocked, waitingFor } = await node.complete(...coupons.map(({ coupon }) => coupon));
      expect(waitingFor).toBeUndefined();
      expect([...clean, ...Object.keys(blocked)].sort(), `seed ${seed}`).toEqual(
        coupons.map(({ coupon }) => coupon.id).sort(),
      );
      cleaned += clean.length;
      // A branch that is named has it: whoever erases it there is not told that there is nothing.
      for (const { coupon } of coupons)
        for (const branch of blocked[coupon.id]?.branches ?? [])
          expect(await node.holds(coupon.memoryIds[0]!, branch), `seed ${seed}, ${branch}`).toBe(true);
      for (const { coupon, token } of coupons)
        if (clean.includes(coupon.id)) expect(await node.residue(token), `seed ${seed}, ${token}`).toEqual([]);
      for (const branch of branches) {
        const after = await node.states(branch);
        const states = before.get(branch)!;
        expect(
          [...after].every(([txid, state]) => states.get(txid) === state),
          `seed ${seed}, ${branch}`,
        ).toBe(true);
        expect(Math.max(...after.keys())).toBe(Math.max(...states.keys()));
      }
      expect(node.time.store.violations).toEqual([]);
    }
    expect(cleaned).toBeGreaterThan(10);
  }, 120_000);
});

describe("a deleted database", () => {
  test("erasure-08: completes its erasures once its objects are listed gone", async () => {
    const { node, coupon } = await erased();
    await node.time.of(node.node.client.deleteTarget(node.node.at("main"), node.node.soon()));
    expect(await node.expunge(coupon)).toMatchObject({
      clean: [],
      waitingFor: "the deleted database's objects are being removed",
    });
    await node.time.pass(collectGraceMs + 100_000);
    // A put that was given up may still land.
    expect(await node.expunge(coupon)).toMatchObject({
      clean: [],
      waitingFor: "objects of the deleted database that may come late",
    });
    await node.time.pass(lateGraces * collectGraceMs);
    const done = await node.expunge(coupon);
    expect(done.clean).toEqual([coupon.id]);
    expect(done.evidence).toMatchObject({ objects: { listed: 0, live: 0 }, states_restored: [] });
    expect(node.time.store.read(manifestKey(node.uuid, "main"))).toBeUndefined();
  });
});
