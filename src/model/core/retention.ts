/**
 * How long a database keeps memories: what is over a bound is invisible at once, and removed by a sweep
 * (model/memory/memory-aging).
 */

/** What is undefined has no bound. */
export interface MemoryRetention {
  readonly eventMaxAgeMs?: number;
  /** Counted from when a memory was superseded. */
  readonly supersededMaxAgeMs?: number;
  /** Superseded memories that each topic of a type keeps. */
  readonly supersededMaxCount?: number;
}
