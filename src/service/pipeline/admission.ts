/**
 * Who may come in now: the node's concurrency cap, the control rate, and what one credential may take of the rest.
 *
 * Always true: at most `concurrency` calls are under way and as many again wait; a caller that is turned away is told
 * when to come back. Buckets are kept for as many callers as `rateBucketsMax`, the idle ones forgotten first.
 */
import { ServiceError } from "../../base/faults/errors.ts";
import { limits } from "../../base/limits.ts";
import { LruMap } from "../../base/collections/lru-map.ts";
import type { World } from "../../base/world.ts";

/** Callers whose control rate is remembered. */
const rateBucketsMax = 10_000;

export class Concurrency {
  readonly #max: number;
  #running = 0;
  #waiting: (() => void)[] = [];

  constructor(max: number) {
    this.#max = max;
  }

  /** Calls that have a place. */
  get running(): number {
    return this.#running;
  }

  /** Calls that wait for one. */
  get waiting(): number {
    return this.#waiting.length;
  }

  /** Enters at once, or gives a promise of a place, or throws overloaded. Every entry is ended by one `leave`. */
  enter(): Promise<void> | undefined {
    if (this.#running < this.#max) {
      this.#running++;
      return undefined;
    }
    if (this.#waiting.length >= this.#max) {
      throw new ServiceError("overloaded", `more than ${this.#max * 2} requests are under way on this node`, {
        retryAfterSecs: 1,
      });
    }
    return new Promise((resolve) => this.#waiting.push(resolve));
  }

  leave(): void {
    const next = this.#waiting.shift();
    // The place passes from hand to hand, so the count stays.
    if (next) next();
    else this.#running--;
  }
}

interface Bucket {
  tokens: number;
  filledAtMs: number;
}

/** One caller has this many calls at once at most: more are turned away, so that they take no place of others. */
export class Shares {
  readonly #max: number;
  readonly #running = new Map<string, number>();

  constructor(max: number) {
    this.#max = max;
  }

  /** Enters or throws overloaded. Every entry is ended by one `leave`. */
  enter(caller: string): void {
    const running = this.#running.get(caller) ?? 0;
    if (running >= this.#max) {
      throw new ServiceError(
        "overloaded",
        `more than ${this.#max} requests of this credential are under way on this node`,
        { retryAfterSecs: limits.retryAfterSecsMin },
      );
    }
    this.#running.set(caller, running + 1);
  }

  leave(caller: string): void {
    const running = this.#running.get(caller)! - 1;
    if (running === 0) this.#running.delete(caller);
    else this.#running.set(caller, running);
  }
}

/** A token bucket per caller: `perSecond` sustained, twice that at once. */
export class Rate {
  readonly #perSecond: number;
  readonly #world: World;
  /** What is counted, for the refusal. */
  readonly #what: string;
  readonly #buckets = new LruMap<string, Bucket>(rateBucketsMax);

  constructor(perSecond: number, world: World, what = "control requests") {
    this.#perSecond = perSecond;
    this.#world = world;
    this.#what = what;
  }

  /** Takes one token or throws overloaded with the seconds until there is one. */
  take(caller: string): void {
    const nowMs = this.#world.monotonicMs();
    const burst = this.#perSecond * 2;
    const bucket = this.#buckets.get(caller) ?? { tokens: burst, filledAtMs: nowMs };
    bucket.tokens = Math.min(burst, bucket.tokens + ((nowMs - bucket.filledAtMs) / 1_000) * this.#perSecond);
    bucket.filledAtMs = nowMs;
    this.#buckets.set(caller, bucket);
    if (bucket.tokens < 1) {
      const retryAfterSecs = Math.max(1, Math.ceil((1 - bucket.tokens) / this.#perSecond));
      throw new ServiceError("overloaded", `more than ${this.#perSecond} ${this.#what} a second`, { retryAfterSecs });
    }
    bucket.tokens--;
  }
}
