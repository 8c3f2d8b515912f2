/**
 * A real world in which pauses take no time, and a time limit is up when the test says so: a busy machine makes nobody
 * late.
 *
 * What is shorter than `limitMs` is taken for a pause, and everything else for a limit. The clock goes on by what has
 * passed.
 */
import { realWorld, type World } from "../../src/base/world.ts";

export interface ToldWorld {
  readonly world: World;
  /** Every limit that runs now is up. */
  timeUp(): void;
}

export function toldWorld(limitMs: number): ToldWorld {
  const real = realWorld();
  const running = new Map<object, { readonly delayMs: number; readonly act: () => void }>();
  let nowMs = 0;
  const world: World = {
    ...real,
    monotonicMs: () => nowMs,
    after(delayMs, act) {
      if (delayMs < limitMs) {
        return real.after(0, () => {
          nowMs += delayMs;
          act();
        });
      }
      const name = {};
      running.set(name, { delayMs, act });
      return () => void running.delete(name);
    },
  };
  return {
    world,
    timeUp() {
      const over = [...running.values()];
      running.clear();
      nowMs += Math.max(0, ...over.map(({ delayMs }) => delayMs));
      for (const { act } of over) act();
    },
  };
}
