/**
 * Numbers that look like chance and follow from a seed: the same seed gives the same numbers everywhere.
 *
 * Must not be used where chance matters (`World` has that): who knows the seed knows them all.
 */

/** Gives numbers from 0 up to but not including 1 (mulberry32). */
export function seeded(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296;
  };
}
