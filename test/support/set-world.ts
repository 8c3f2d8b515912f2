/** The real world but for what time it is, which a test sets: all of this world's clocks agree with it. */
import { TrustedTime } from "../../src/base/trusted-time.ts";
import { realWorld, type World } from "../../src/base/world.ts";

export function setWorld(nowMs: number): { readonly world: World; now: number } {
  const clock = (): number => state.now;
  const world = realWorld();
  const state = { now: nowMs, world };
  state.world = { ...world, nowMs: clock, wallMs: clock, time: new TrustedTime(clock, clock) };
  return state;
}
