/** A world whose time passes only when a test says so: what is due then happens, in the order of its times. */
import { realWorld, type World } from "../../src/base/world.ts";

export interface PausedWorld {
  readonly world: World;
  /** Lets so much time pass, and gives the promises of what it woke their turn. */
  pass(ms: number): Promise<void>;
}

export function pausedWorld(): PausedWorld {
  let nowMs = 0;
  let timers: { readonly atMs: number; readonly act: () => void }[] = [];
  const settle = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));
  const world: World = {
    ...realWorld(),
    monotonicMs: () => nowMs,
    after(delayMs, act) {
      const timer = { atMs: nowMs + delayMs, act };
      timers.push(timer);
      return () => (timers = timers.filter((one) => one !== timer));
    },
  };
  return {
    world,
    async pass(ms) {
      const untilMs = nowMs + ms;
      for (;;) {
        await settle();
        const [next] = timers.filter(({ atMs }) => atMs <= untilMs).sort((one, other) => one.atMs - other.atMs);
        if (!next) break;
        nowMs = Math.max(nowMs, next.atMs);
        timers = timers.filter((one) => one !== next);
        next.act();
      }
      nowMs = untilMs;
      await settle();
    },
  };
}
