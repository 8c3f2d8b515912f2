/** A real world in which time runs faster, so that bounds of many seconds pass within a test. */
import { realWorld, type World } from "../../src/base/world.ts";

export function hastyWorld(factor: number): World {
  const world = realWorld();
  return {
    ...world,
    monotonicMs: () => world.monotonicMs() * factor,
    after: (delayMs, act) => world.after(delayMs / factor, act),
  };
}
