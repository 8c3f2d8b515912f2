/** The real world but for what time it is, which a test sets; and by how much its wall clock is wrong. */
import { TrustedTime } from "../../src/base/trusted-time.ts";
import { realWorld, type World } from "../../src/base/world.ts";

export function setWorld(nowMs: number): { readonly world: World; now: number; aheadMs: number } {
  const wallMs = (): number => state.now + state.aheadMs;
  const state = { now: nowMs, aheadMs: 0, world: realWorld() };
  const time = new TrustedTime(wallMs, () => state.now);
  state.world = { ...state.world, nowMs: () => time.nowMs(), wallMs, time };
  return state;
}
