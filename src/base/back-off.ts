/**
 * When to try again what has failed: more and more rarely, up to a bound, and at a random time within it, so that
 * callers who failed together part.
 */
import type { World } from "./world.ts";

/** One of its 2^20 is more than any bound: beyond that the exponent would only overflow. */
const doublingsMax = 20;

export class BackOff {
  readonly #world: World;
  readonly #minMs: number;
  readonly #maxMs: number;
  #failures = 0;
  #untilMs = -Infinity;

  constructor(world: World, minMs: number, maxMs: number) {
    this.#world = world;
    this.#minMs = minMs;
    this.#maxMs = maxMs;
  }

  /** Whether it may be tried now. */
  get isOver(): boolean {
    return this.#world.monotonicMs() >= this.#untilMs;
  }

  /** Whether the last try failed. */
  get isFailing(): boolean {
    return this.#failures > 0;
  }

  /** A try failed. Says whether it was the first one to. */
  failed(): boolean {
    const pauseMs = Math.min(this.#minMs * 2 ** Math.min(this.#failures++, doublingsMax), this.#maxMs);
    this.#untilMs = this.#world.monotonicMs() + pauseMs * (0.5 + this.#world.randomBytes(1)[0]! / 512);
    return this.#failures === 1;
  }

  /** A try succeeded. Says whether the one before had failed. */
  succeeded(): boolean {
    const wasFailing = this.isFailing;
    this.#failures = 0;
    this.#untilMs = -Infinity;
    return wasFailing;
  }
}
