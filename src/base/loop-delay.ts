/** How late a thread does what is due: timers that fire too late tell how long it was busy with something else. */
import { shortBoundsMs, Histogram, type HistogramCounts } from "./collections/histogram.ts";
import type { Cancel, World } from "./world.ts";

/** How often a thread looks how late its timers are. */
const loopProbeMs = 100;

export class LoopDelay {
  readonly #world: World;
  readonly #late = new Histogram(shortBoundsMs);
  #cancel: Cancel;

  /** Measures from now on. */
  constructor(world: World) {
    this.#world = world;
    this.#cancel = this.#look();
  }

  /** How late the thread was, ten times a second since the beginning. */
  get counts(): HistogramCounts {
    return this.#late.counts;
  }

  stop(): void {
    this.#cancel();
  }

  #look(): Cancel {
    const dueMs = this.#world.monotonicMs() + loopProbeMs;
    return this.#world.after(loopProbeMs, () => {
      this.#late.note(Math.max(0, this.#world.monotonicMs() - dueMs));
      this.#cancel = this.#look();
    });
  }
}
