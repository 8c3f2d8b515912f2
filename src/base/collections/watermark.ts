/**
 * A number that only rises, and its waiters: committed, synced, shipped, applied.
 *
 * Why: "answer when everything up to here is safe" is the same question at every stage, so it has one shape.
 */
import { assert } from "../faults/assert.ts";

interface Waiter {
  readonly level: number;
  readonly resolve: () => void;
  readonly reject: (error: unknown) => void;
}

export class Watermark {
  #level: number;
  #failure: { readonly error: unknown } | undefined;
  #waiters: Waiter[] = [];

  constructor(level: number) {
    this.#level = level;
  }

  get level(): number {
    return this.#level;
  }

  /**
   * Raises the mark and settles every waiter it has reached. Lowering it is a bug; raising it to its present value is
   * not.
   */
  raise(level: number): void {
    assert(level >= this.#level, "a watermark never falls");
    if (level === this.#level) return;
    this.#level = level;
    const waiting = this.#waiters;
    if (waiting.length === 0) return;
    this.#waiters = waiting.filter((waiter) => waiter.level > level);
    for (const waiter of waiting) if (waiter.level <= level) waiter.resolve();
  }

  /** Rejects every waiter, now and later: the level can never be reached. */
  fail(error: unknown): void {
    this.#failure = { error };
    const waiting = this.#waiters;
    this.#waiters = [];
    for (const waiter of waiting) waiter.reject(error);
  }

  /** Whether `level` is reached without waiting; callers on the hot path ask first and avoid a promise. */
  reached(level: number): boolean {
    return this.#level >= level;
  }

  /** Resolves once the mark is at or above `level`. */
  wait(level: number): Promise<void> {
    if (this.#level >= level) return Promise.resolve();
    if (this.#failure) return Promise.reject(this.#failure.error);
    return new Promise((resolve, reject) => this.#waiters.push({ level, resolve, reject }));
  }
}
