/** The age of what object storage does not cover: that of the oldest commit, whatever is on its way. */
import { describe, expect, test } from "vitest";
import { realWorld } from "../../../../src/base/world.ts";
import { CommitAges, commitStretchMs, commitStretchesMax } from "../../../../src/engine/shipping/commit-ages.ts";
import { seeded } from "../../../support/random.ts";
import { TimedEngine, VirtualTime } from "../../../support/timed-engine.ts";

describe("the ages of commits", () => {
  test("are never told younger than they are, and older by little, over outages of any length", () => {
    for (let seed = 1; seed <= 4; seed++) {
      const random = seeded(seed);
      const clock = { now: 0 };
      const ages = new CommitAges({ ...realWorld(), monotonicMs: () => clock.now });
      let waiting: { txid: number; atMs: number }[] = [];
      let longest = 0;
      for (let txid = 1; txid < 8_000; txid++) {
        clock.now += random() ** 6 * 2_000;
        ages.committed(txid);
        waiting.push({ txid, atMs: clock.now });
        if (random() < 0.002) {
          const covered = waiting[Math.floor(random() * waiting.length)]!.txid;
          ages.covered(covered);
          waiting = waiting.filter((one) => one.txid > covered);
        }
        const trueMs = waiting.length === 0 ? 0 : clock.now - waiting[0]!.atMs;
        expect(ages.oldestMs).toBeGreaterThanOrEqual(trueMs);
        longest = Math.max(longest, trueMs);
        expect(ages.oldestMs - trueMs).toBeLessThanOrEqual(commitStretchMs + (4 * longest) / commitStretchesMax);
      }
      ages.covered(8_000);
      expect(ages.oldestMs).toBe(0);
    }
  });

  test("begin anew when all is covered, exactly", () => {
    const clock = { now: 0 };
    const ages = new CommitAges({ ...realWorld(), monotonicMs: () => clock.now });
    ages.committed(5);
    clock.now = 10;
    ages.committed(6);
    clock.now = 100;
    ages.committed(7);
    clock.now = 110;
    expect(ages.oldestMs).toBe(110);
    ages.covered(5);
    expect(ages.oldestMs).toBe(110);
    ages.covered(6);
    expect(ages.oldestMs).toBe(10);
    ages.covered(7);
    expect(ages.oldestMs).toBe(0);
    clock.now = 120;
    ages.committed(8);
    clock.now = 121;
    expect(ages.oldestMs).toBe(1);
  });
});

test(
  "F33: over a slow store the age of unshipped writes is bounded and told by the metric",
  { timeout: 60_000 },
  async () => {
    const time = new VirtualTime();
    const unshippedMsMax = 30_000;
    const node = new TimedEngine(time, {
      nodeId: "a",
      idleCloseMs: 1e12,
      unshippedMsMax,
      unshippedBytesMax: 64 * 2 ** 20,
    });
    await node.put("k0");
    await node.sync();
    time.store.decideFate = (verb) => (verb === "put" ? { held: time.scheduler.sleep(10_000) } : "fine");
    const acknowledged: { readonly txid: number; readonly atMs: number }[] = [];
    const ageNow = (): number => {
      const manifest = time.manifest(node.uuid).txid;
      const oldest = acknowledged.find(({ txid }) => txid > manifest);
      return oldest ? time.scheduler.nowMs - oldest.atMs : 0;
    };
    const value = "x".repeat(700 * 1024);
    let [refused, worst] = [0, 0];
    for (let n = 0; n < 150; n++) {
      const before = ageNow();
      const taken = await time.of(
        node.putting(`k${n}`, "main", {}, value).then(
          ({ txid }) => acknowledged.push({ txid, atMs: time.scheduler.nowMs }),
          () => 0,
        ),
      );
      if (taken === 0) refused++;
      // What is taken while the oldest waits for too long was taken by mistake.
      if (before > unshippedMsMax) expect(taken).toBe(0);
      const told = node.engine.state.backlogs.ms;
      expect(told).toBeGreaterThanOrEqual(ageNow());
      expect(told - ageNow()).toBeLessThan(1_000);
      worst = Math.max(worst, ageNow());
      await time.pass(1_000);
    }
    expect(refused).toBeGreaterThan(10);
    expect(acknowledged.length).toBeGreaterThan(30);
    // It waits for the batch that is under way and for its own, two puts each, and no longer.
    expect(worst).toBeLessThan(unshippedMsMax + 2 * 20_000);
    time.store.decideFate = () => "fine";
    await node.sync();
    expect(node.engine.state.backlogs.ms).toBe(0);
  },
);
