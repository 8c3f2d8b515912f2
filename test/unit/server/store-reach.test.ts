import { setTimeout as pause } from "node:timers/promises";
import { expect, onTestFinished, test } from "vitest";
import { limits } from "../../../src/base/limits.ts";
import { StoreReach } from "../../../src/server/store-reach.ts";
import { hastyWorld } from "../../support/hasty-world.ts";
import { ScriptedStore } from "../../support/scripted-store.ts";

/** How much faster time runs here. */
const haste = 50;

test("F56 it is told again and again whether object storage is reached, and for how long it was not", async () => {
  const store = new ScriptedStore();
  const looks: { isReached: boolean; silenceMs: number }[] = [];
  const reach = new StoreReach(store, hastyWorld(haste), (isReached, silenceMs) => void looks.push({ isReached, silenceMs }));
  onTestFinished(() => reach.close());
  const seen = async (count: number): Promise<{ isReached: boolean; silenceMs: number }> => {
    for (const from = looks.length; looks.length < from + count; ) await pause(5);
    return looks.at(-1)!;
  };
  void reach.keepLooking();
  expect((await seen(2)).isReached).toBe(true);

  store.fateOf = () => "refused";
  const { isReached, silenceMs } = await seen(3);
  expect(isReached).toBe(false);
  expect(silenceMs).toBeGreaterThanOrEqual(limits.storeReachMs);

  // A store that says nothing at all counts as one that is not reached.
  const { promise: released, resolve: release } = Promise.withResolvers<void>();
  store.fateOf = () => ({ held: released });
  expect((await seen(2)).silenceMs).toBeGreaterThan(silenceMs);

  release();
  store.fateOf = () => "fine";
  await seen(1);
  const back = await seen(1);
  expect(back.isReached).toBe(true);
  expect(back.silenceMs).toBeLessThan(limits.storeReachMs);
});
