/** When a thread gives back what it took while it was busy. */
import { expect, test } from "vitest";
import type { World } from "../../../src/base/world.ts";
import { IdleMemory, idleLookMs, idleLooks } from "../../../src/sqlite/idle-memory.ts";

/** A watched thread: `look` says for how long it has worked since the last look. */
function watched(): { look(workedMs: number, times?: number): void; given(): number; stop(): void } {
  let [busyMs, given] = [0, 0];
  let due: (() => void) | undefined;
  const world = {
    after(delayMs: number, act: () => void) {
      expect(delayMs).toBe(idleLookMs);
      due = act;
      return () => (due = undefined);
    },
  } as unknown as World;
  const memory = new IdleMemory(world, { busyMs: () => busyMs, giveBack: () => given++ });
  return {
    look(workedMs, times = 1) {
      for (let at = 0; at < times; at++) {
        busyMs += workedMs;
        due!();
      }
    },
    given: () => given,
    stop: () => memory.stop(),
  };
}

const [busyMs, idleMs] = [idleLookMs / 2, idleLookMs / 100];

test("a thread that was busy gives back once, when it has been idle for a while", () => {
  const { look, given } = watched();
  look(busyMs);
  look(idleMs, idleLooks - 1);
  expect(given()).toBe(0);
  look(idleMs);
  expect(given()).toBe(1);
  look(idleMs, 10 * idleLooks);
  expect(given()).toBe(1);
  look(busyMs);
  look(idleMs, idleLooks);
  expect(given()).toBe(2);
});

test("work between begins the while anew, and a thread that was never busy has nothing to give", () => {
  const { look, given } = watched();
  look(idleMs, 10 * idleLooks);
  expect(given()).toBe(0);
  for (let at = 0; at < 5; at++) {
    look(busyMs);
    look(idleMs, idleLooks - 1);
  }
  expect(given()).toBe(0);
});

test("what a thread has let go of is collected, and the library's free memory goes back", async () => {
  const registry = { collected: 0 };
  const garbage = new FinalizationRegistry(() => registry.collected++);
  (() => garbage.register({ large: new Array<number>(1e5).fill(1) }, undefined))();
  let due: (() => void) | undefined;
  const world = { after: (_delayMs: number, act: () => void) => ((due = act), () => {}) } as unknown as World;
  const memory = new IdleMemory(world);
  const untilMs = performance.now() + idleLookMs;
  while (performance.now() < untilMs - idleLookMs * 0.9);
  due!();
  // The loop has worked in the test alone: each further look finds it idle.
  for (let at = 0; at < idleLooks; at++) due!();
  await new Promise((resolve) => setTimeout(resolve, 50));
  expect(registry.collected).toBe(1);
  memory.stop();
});
