/** The real world but for its wall clock, which a test sets. */
import { realWorld, type World } from "../../src/base/world.ts";

export function setWorld(nowMs: number): { readonly world: World; now: number } {
  const state = { now: nowMs, world: { ...realWorld(), nowMs: () => state.now } };
  return state;
}
