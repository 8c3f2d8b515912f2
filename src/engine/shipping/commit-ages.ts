/**
 * How old the oldest commit is that object storage does not cover.
 *
 * Always true: never reported younger than it is, nor older by more than the length of a stretch: commits that follow
 * each other within one share the time of the first. Stretches get longer when there are many, so that an outage of any
 * length takes the same room.
 */
import type { World } from "../../base/world.ts";

/**
 * Commits that follow each other within this share the time of the first, or within longer when there are that many
 * such stretches: a hundredth of an outage.
 */
export const commitStretchMs = 50;
export const commitStretchesMax = 256;

/** Commits from this one up to the next stretch, and when the first of them happened, on world.monotonicMs(). */
interface Stretch {
  readonly txid: number;
  readonly atMs: number;
}

export class CommitAges {
  readonly #world: World;
  /** Of all that is not covered, oldest first. */
  #stretches: Stretch[] = [];
  #stretchMs: number = commitStretchMs;
  #newestTxid = -1;

  constructor(world: World) {
    this.#world = world;
  }

  /** The age of the oldest commit that is not covered; 0 when all are. */
  get oldestMs(): number {
    const oldest = this.#stretches[0];
    return oldest === undefined ? 0 : this.#world.monotonicMs() - oldest.atMs;
  }

  /** This transaction, and all before it, was committed. */
  committed(txid: number): void {
    this.#newestTxid = txid;
    const atMs = this.#world.monotonicMs();
    const last = this.#stretches.at(-1);
    if (last !== undefined && atMs - last.atMs < this.#stretchMs) return;
    this.#stretches.push({ txid, atMs });
    while (this.#stretches.length > commitStretchesMax) this.#lengthen();
  }

  /** Gives the commits of every stretch that is near the one before it to that one, which is older. */
  #lengthen(): void {
    this.#stretchMs *= 2;
    const kept: Stretch[] = [];
    for (const stretch of this.#stretches)
      if (stretch.atMs - (kept.at(-1)?.atMs ?? -Infinity) >= this.#stretchMs) kept.push(stretch);
    this.#stretches = kept;
  }

  /** Everything up to this transaction is covered. */
  covered(txid: number): void {
    if (txid >= this.#newestTxid) {
      this.#stretches = [];
      this.#stretchMs = commitStretchMs;
      return;
    }
    // A stretch is over when the next one begins with what is covered already, or right behind it.
    const first = this.#stretches.findLastIndex((stretch) => stretch.txid <= txid + 1);
    if (first > 0) this.#stretches.splice(0, first);
    if (this.#stretches.length < commitStretchesMax / 2)
      this.#stretchMs = Math.max(commitStretchMs, this.#stretchMs / 2);
  }
}
