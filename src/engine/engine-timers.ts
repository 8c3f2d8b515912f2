/**
 * What an engine thread does by the clock: closes idle files, sweeps what has expired, and lets its other parts do
 * their round.
 */
import { limits } from "../base/limits.ts";
import type { Cancel, World } from "../base/world.ts";
import type { EngineParts } from "./engine-parts.ts";

const housekeepingMs = 1_000;

/** The rounds of one engine thread. */
export class EngineTimers {
  readonly #world: World;
  readonly #parts: EngineParts;
  #cancel: Cancel = () => {};
  #stopped = false;

  /** It begins at once, and its first round comes after a pause. */
  constructor(world: World, parts: EngineParts) {
    this.#world = world;
    this.#parts = parts;
    this.#plan(housekeepingMs);
  }

  /** No round begins any more. */
  stop(): void {
    this.#stopped = true;
    this.#cancel();
  }

  /** A round every second; with much to close it takes every other slice of the thread. */
  #plan(pauseMs: number): void {
    this.#cancel = this.#world.after(pauseMs, () => {
      const { storeTime, registry, sweeper, due, places, jobs, compactor, spares, past } = this.#parts;
      storeTime.tick();
      const more = registry.closeIdle();
      sweeper.tick();
      due.tick();
      places.tick();
      jobs.tick();
      spares.tick();
      past.states.tick();
      compactor.tick(() => registry.manifests());
      if (!this.#stopped) this.#plan(more ? limits.housekeepingBudgetMs : housekeepingMs);
    });
  }
}
