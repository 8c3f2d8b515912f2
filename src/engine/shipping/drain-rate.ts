/** How fast a queue drains while it is busy, smoothed: what Retry-After is computed from. */
import type { World } from "../../base/world.ts";

/** Shorter busy times say more about the clock than about the queue. */
const busyMsMin = 0.1;

export class DrainRate {
  readonly #world: World;
  #perSecond = 1_000;
  #busySinceMs: number | undefined;
  #begunItems = 0;

  constructor(world: World) {
    this.#world = world;
  }

  /** A round of this many items has begun. */
  begin(items: number): void {
    this.#busySinceMs ??= this.#world.monotonicMs();
    this.#begunItems += items;
  }

  /** Everything that was begun has been answered. */
  end(): void {
    if (this.#busySinceMs === undefined) return;
    const busySecs = Math.max(this.#world.monotonicMs() - this.#busySinceMs, busyMsMin) / 1_000;
    this.#perSecond = this.#perSecond * 0.8 + (this.#begunItems / busySecs) * 0.2;
    this.#begunItems = 0;
    this.#busySinceMs = undefined;
  }

  /** Whole seconds until this many items are expected to be answered. */
  secsFor(items: number): number {
    return Math.max(1, Math.ceil(items / this.#perSecond));
  }
}
