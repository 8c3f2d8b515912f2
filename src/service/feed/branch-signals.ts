/**
 * Who waits for a database to change, and the signals that it has.
 *
 * Always true: a signal only saves time; whoever waits looks again by itself, soon after a signal and then ever more
 * rarely. Must not know: what is looked at.
 */
import type { World } from "../../base/world.ts";

/** How long the first wait after a change is, */
const pauseMsMin = 25;
/** and the longest: so late is a change that nobody signals. */
const changePauseMsMax = 500;
/** A signal ends no wait before this: one look serves all the writes of that time. */
const gatherMs = 5;

export class BranchSignals {
  readonly #world: Pick<World, "after">;
  readonly #waiting = new Map<string, Set<() => void>>();

  constructor(world: Pick<World, "after">) {
    this.#world = world;
  }

  /** The database may have changed. */
  moved(uuid: string): void {
    const waiting = this.#waiting.get(uuid);
    if (!waiting) return;
    this.#waiting.delete(uuid);
    for (const wake of waiting) wake();
  }

  /** How long to wait after a wait in which nothing came. */
  static longer(pauseMs: number): number {
    return Math.min(changePauseMsMax, Math.max(pauseMsMin, 2 * pauseMs));
  }

  /** Waits for a signal, for so long, or until the caller goes. Gives whether there was a signal. */
  next(uuid: string, pauseMs: number, gone: AbortSignal | undefined): Promise<boolean> {
    return new Promise((resolve) => {
      const waiting = this.#waiting.get(uuid) ?? new Set();
      this.#waiting.set(uuid, waiting);
      let cancel = (): void => {};
      const end = (isSignal: boolean): void => {
        cancel();
        gone?.removeEventListener("abort", leave);
        waiting.delete(wake);
        if (waiting.size === 0 && this.#waiting.get(uuid) === waiting) this.#waiting.delete(uuid);
        resolve(isSignal);
      };
      const leave = (): void => end(false);
      const wake = (): void => {
        cancel();
        cancel = this.#world.after(gatherMs, () => end(true));
      };
      waiting.add(wake);
      cancel = this.#world.after(pauseMs, leave);
      gone?.addEventListener("abort", leave);
      if (gone?.aborted) leave();
    });
  }
}
