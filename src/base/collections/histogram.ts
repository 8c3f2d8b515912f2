/**
 * How long something took, counted in classes of durations: what a histogram is made of.
 *
 * Always true: noting costs a few comparisons and two additions, and allocates nothing, so that it may be used on any
 * path; what it gives is plain data that may cross threads. Must not know: who reads it.
 */

/** Upper ends of the classes in milliseconds, ascending. */
export type HistogramBounds = readonly number[];

/** What was noted since the beginning. */
export interface HistogramCounts {
  readonly boundsMs: HistogramBounds;
  /** How many fell into each class; the last is for what lies above all bounds. */
  readonly counts: readonly number[];
  readonly sumMs: number;
}

/** For what takes a client's time. */
export const longBoundsMs: HistogramBounds = [
  1, 2.5, 5, 10, 25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 30_000,
];

/** For what takes a disk's or a thread's time. */
export const shortBoundsMs: HistogramBounds = [0.1, 0.25, 0.5, 1, 2.5, 5, 10, 25, 50, 100, 250, 1_000];

export class Histogram {
  readonly #boundsMs: HistogramBounds;
  readonly #counts: number[];
  #sumMs = 0;

  constructor(boundsMs: HistogramBounds) {
    this.#boundsMs = boundsMs;
    this.#counts = [...boundsMs.map(() => 0), 0];
  }

  /** Counts one duration. */
  note(ms: number): void {
    let index = 0;
    while (index < this.#boundsMs.length && ms > this.#boundsMs[index]!) index++;
    this.#counts[index]!++;
    this.#sumMs += ms;
  }

  /** What was noted so far. */
  get counts(): HistogramCounts {
    return { boundsMs: this.#boundsMs, counts: [...this.#counts], sumMs: this.#sumMs };
  }
}
