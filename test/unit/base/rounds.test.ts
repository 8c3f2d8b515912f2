/** Jobs that are done again and again: never two at once, sooner when hurried, never after the end. */
import { expect, test } from "vitest";
import { RisingPause, Rounds } from "../../../src/base/rounds.ts";
import { Scheduler } from "../../sim/scheduler.ts";
import { SimWorld } from "../../sim/sim-world.ts";

test("a round begins after the pause, at once when hurried, and right after the one that is under way", async () => {
  const scheduler = new Scheduler(1, 0);
  const world = new SimWorld(scheduler, 1, "a");
  const begun: number[] = [];
  let under = 0;
  const rounds = new Rounds({
    world,
    pauseMs: () => 1_000,
    round: async () => {
      expect(under++).toBe(0);
      begun.push(Math.round(scheduler.nowMs));
      await scheduler.sleep(100);
      under--;
    },
  });
  const pass = async (ms: number): Promise<void> => {
    let isOver = false;
    void scheduler.sleep(ms).then(() => (isOver = true));
    await scheduler.run(() => isOver, Infinity);
  };
  void rounds.start();
  await pass(1_500);
  expect(begun).toEqual([0, 1_100]);
  rounds.hurry();
  await pass(50);
  expect(begun).toHaveLength(3);
  rounds.hurry();
  rounds.hurry();
  await pass(1_000);
  expect(begun).toHaveLength(4);
  expect(begun[3]! - begun[2]!).toBeLessThan(110);
  const closed = rounds.close(1_000);
  rounds.hurry();
  await pass(5_000);
  await closed;
  expect(begun).toHaveLength(4);
});

test("a pause doubles while there is nothing to do, up to its most", () => {
  const pause = new RisingPause(30, 100);
  expect([true, false, false, false, true, false].map((hadWork) => pause.after(hadWork))).toEqual([
    30, 60, 100, 100, 30, 60,
  ]);
});
