/** How a node knows whether it reaches object storage: whom it tells, how often it looks, and when it need not. */
import { setTimeout as pause } from "node:timers/promises";
import { expect, onTestFinished, test } from "vitest";
import { limits } from "../../../../src/base/limits.ts";
import { StoreReach, storeReachMs } from "../../../../src/server/observability/store-reach.ts";
import { hastyWorld } from "../../../support/hasty-world.ts";
import { VirtualTime } from "../../../support/timed-engine.ts";
import { ScriptedStore } from "../../../support/scripted-store.ts";

/** How much faster time runs here. */
const haste = 50;

test("F56 it is told again and again whether object storage is reached, and for how long it was not", async () => {
  const store = new ScriptedStore();
  const looks: { isReached: boolean; silenceMs: number }[] = [];
  const reach = new StoreReach({
    store,
    world: hastyWorld(haste),
    isNeeded: () => true,
    looked: (isReached, silenceMs) => void looks.push({ isReached, silenceMs }),
  });
  onTestFinished(() => reach.close());
  const seen = async (count: number): Promise<{ isReached: boolean; silenceMs: number }> => {
    for (const from = looks.length; looks.length < from + count;) await pause(5);
    return looks.at(-1)!;
  };
  void reach.keepLooking();
  expect((await seen(2)).isReached).toBe(true);

  store.decideFate = () => "refused";
  const { isReached, silenceMs } = await seen(3);
  expect(isReached).toBe(false);
  expect(silenceMs).toBeGreaterThanOrEqual(storeReachMs);

  // A store that says nothing at all counts as one that is not reached.
  const { promise: released, resolve: release } = Promise.withResolvers<void>();
  store.decideFate = () => ({ held: released });
  expect((await seen(2)).silenceMs).toBeGreaterThan(silenceMs);

  release();
  store.decideFate = () => "fine";
  await seen(1);
  const back = await seen(1);
  expect(back.isReached).toBe(true);
  expect(back.silenceMs).toBeLessThan(storeReachMs);
});

test("looks are rare while nobody needs object storage, not once somebody does or it is not reached", async () => {
  // A first failure is no long silence.
  const time = new VirtualTime();
  const { store } = time;
  const looks: { isReached: boolean; silenceMs: number }[] = [];
  let isNeeded = false;
  const reach = new StoreReach({
    store,
    world: time.world(),
    isNeeded: () => isNeeded,
    looked: (isReached, silenceMs) => void looks.push({ isReached, silenceMs }),
  });
  const during = async (ms: number): Promise<number> => {
    const before = looks.length;
    await time.pass(ms);
    return looks.length - before;
  };
  void reach.keepLooking();
  expect(await during(3_600_000)).toBeLessThanOrEqual(61);
  isNeeded = true;
  expect(await during(60_000)).toBeGreaterThanOrEqual(19);
  isNeeded = false;
  await time.pass(2 * limits.storeReachIdleMs);
  store.decideFate = () => "refused";
  await time.pass(limits.storeReachIdleMs + storeReachMs);
  const first = looks.find(({ isReached }) => !isReached)!;
  expect(first.silenceMs).toBeLessThan(limits.storeReachAnswerMs);
  expect(await during(60_000)).toBeGreaterThanOrEqual(15);
  expect(looks.at(-1)!.silenceMs).toBeGreaterThan(60_000);
  store.decideFate = () => "fine";
  await time.pass(10_000);
  expect(looks.at(-1)).toEqual({ isReached: true, silenceMs: 0 });
  reach.close();
});
