/**
 * A number of permits: as many acts as there are permits run at once, the others wait in order. The callers bound how
 * many may wait: branches by the handles that are open, calls by the places of the node, lists by their own bound
 * (docs/bounds.md). Acts of different kinds have permits of their own: those that hang must stop no others.
 */
import { assert } from "../faults/assert.ts";

export class Semaphore {
  #free: number;
  readonly #waiting: (() => void)[] = [];

  constructor(count: number) {
    assert(count > 0, "there is at least one permit");
    this.#free = count;
  }

  /** Runs the act once a permit is free. */
  async run<Value>(act: () => Promise<Value>): Promise<Value> {
    if (this.#free > 0) this.#free--;
    else await new Promise<void>((resolve) => this.#waiting.push(resolve));
    try {
      return await act();
    } finally {
      const next = this.#waiting.shift();
      if (next) next();
      else this.#free++;
    }
  }
}
