/**
 * A dense matrix of unit vectors with the owner of each row, and the exact search over it.
 *
 * Always true: rows [0, count) are all in use and everything after them is zero, so a removed vector is nowhere in
 * the matrix. Must not know: where the vectors come from, budgets, indexes.
 */
import { assert } from "../../base/faults/assert.ts";
import { cosine, kernelMargin, rankRows, type Ranking } from "./vector-kernel.ts";

/** Owners put to a search's filter at once; well under the number of parameters a statement may have. */
export const vectorFilterOwnersMax = 1000;

/** One vector found: the caller's own number for it, and the cosine. */
export interface Hit {
  readonly owner: number;
  readonly similarity: number;
}

/** Says which of these owners may be in the answer. Asked for at most `vectorFilterOwnersMax` at a time. */
export type OwnerFilter = (owners: readonly number[]) => ReadonlySet<number>;

export interface Search {
  /** A unit vector in a buffer of its own. */
  readonly query: Float32Array;
  /** How many hits are wanted, at least 1. */
  readonly want: number;
  readonly allowed: OwnerFilter | undefined;
}

/** The best `want` of both lists, best first, ties by owner. */
export function mergeHits(left: readonly Hit[], right: readonly Hit[], want: number): Hit[] {
  return [...left, ...right].sort((a, b) => b.similarity - a.similarity || a.owner - b.owner).slice(0, want);
}

/** What a further hit must reach to enter a list that is already full. */
export function computeFloor(hits: readonly Hit[], want: number): number {
  return hits.length < want ? -Infinity : hits[want - 1]!.similarity;
}

/** The filter's verdicts within one search, so that widening never asks about an owner twice. */
export class Admission {
  readonly #allowed: OwnerFilter | undefined;
  readonly #verdicts = new Map<number, boolean>();

  constructor(allowed: OwnerFilter | undefined) {
    this.#allowed = allowed;
  }

  /** Learns about every one of these owners. */
  ask(owners: readonly number[]): void {
    if (!this.#allowed) return;
    const unknown = owners.filter((owner) => !this.#verdicts.has(owner));
    if (unknown.length === 0) return;
    const admitted = this.#allowed(unknown);
    for (const owner of unknown) this.#verdicts.set(owner, admitted.has(owner));
  }

  admits(owner: number): boolean {
    return !this.#allowed || this.#verdicts.get(owner) === true;
  }
}

/**
 * How many rows to rank first. Ranking 1000 rows instead of 50 costs a quarter more (measured), asking again costs all
 * of it.
 */
export function firstAsk(search: Search): number {
  return search.allowed ? 4 * search.want + 64 : search.want + 32;
}

/** By how much to widen when that was not enough. */
export const widening = 8;

/** What one owner costs beside its row: owner, stamp, and its entry in the map. */
const ownerBytes = 64;
/** The first growth, in rows. */
const capacityMin = 16;

export class VectorMatrix {
  readonly dimension: number;
  #rows: Float32Array;
  #owners: Float64Array;
  #stamps: Float64Array;
  readonly #findRow = new Map<number, number>();

  constructor(dimension: number, capacity: number) {
    this.dimension = dimension;
    this.#rows = new Float32Array(capacity * dimension);
    this.#owners = new Float64Array(capacity);
    this.#stamps = new Float64Array(capacity);
  }

  /** What a matrix of this capacity takes. */
  static bytesFor(dimension: number, capacity: number): number {
    return capacity * (dimension * Float32Array.BYTES_PER_ELEMENT + ownerBytes);
  }

  get count(): number {
    return this.#findRow.size;
  }

  get bytes(): number {
    return VectorMatrix.bytesFor(this.dimension, this.#owners.length);
  }

  findRow(owner: number): number | undefined {
    return this.#findRow.get(owner);
  }

  /** Moves every row whose stamp passes to another matrix. */
  moveTo(target: VectorMatrix, passes: (stamp: number) => boolean): void {
    // From the end, because removing a row puts the last one, already seen, in its place.
    for (let row = this.count - 1; row >= 0; row--) {
      const owner = this.#owners[row]!;
      const stamp = this.#stamps[row]!;
      if (!passes(stamp)) continue;
      target.put(owner, this.#rows.subarray(row * this.dimension, (row + 1) * this.dimension), stamp);
      this.remove(owner);
    }
  }

  /** Adds the owner's vector or replaces it. The stamp says when, in the caller's count. */
  put(owner: number, vector: Float32Array, stamp: number): void {
    assert(vector.length === this.dimension, "a matrix holds vectors of one dimension");
    let row = this.#findRow.get(owner);
    if (row === undefined) {
      row = this.count;
      if (row === this.#owners.length) this.#grow();
      this.#findRow.set(owner, row);
      this.#owners[row] = owner;
    }
    this.#rows.set(vector, row * this.dimension);
    this.#stamps[row] = stamp;
  }

  /** Removes the owner's vector: the last row takes its place, and the freed row is zeroed. */
  remove(owner: number): void {
    const row = this.#findRow.get(owner);
    if (row === undefined) return;
    this.#findRow.delete(owner);
    const last = this.count;
    if (row !== last) {
      this.#rows.copyWithin(row * this.dimension, last * this.dimension, (last + 1) * this.dimension);
      this.#owners[row] = this.#owners[last]!;
      this.#stamps[row] = this.#stamps[last]!;
      this.#findRow.set(this.#owners[row]!, row);
    }
    this.#rows.fill(0, last * this.dimension, (last + 1) * this.dimension);
  }

  /** The whole memory: the used rows, then zeros. Valid until the next change. */
  get rows(): Float32Array {
    return this.#rows;
  }

  /** The owner of each used row. Valid until the next change. */
  get owners(): Float64Array {
    return this.#owners.subarray(0, this.count);
  }

  #grow(): void {
    // By half: each vector is copied a constant number of times on average, and at most a third of the room is idle.
    const room = Math.max(capacityMin, Math.ceil(this.#owners.length * 1.5));
    const grown = <Values extends Float32Array | Float64Array>(target: Values, values: Values): Values => (
      target.set(values),
      target
    );
    this.#rows = grown(new Float32Array(room * this.dimension), this.#rows);
    this.#owners = grown(new Float64Array(room), this.#owners);
    this.#stamps = grown(new Float64Array(room), this.#stamps);
  }

  /** The best hits among all rows, exactly; those that cannot reach `floor` may be missing. */
  nearest(search: Search, floor = -Infinity): Hit[] {
    if (this.count === 0) return [];
    const admission = new Admission(search.allowed);
    for (let ask = firstAsk(search); ; ask *= widening) {
      const ranking = rankRows(this.#rows, this.dimension, this.count, search.query, Math.min(ask, this.count));
      const hits = this.best(ranking, search, admission, floor);
      if (hits) return hits;
    }
  }

  /**
   * The best hits, if this ranking is long enough to be sure of them; undefined when a row after its end could still
   * belong to them. Sure means: the want-th admitted score is above the last one by more than both can be off.
   */
  best(ranking: Ranking, search: Search, admission: Admission, floor = -Infinity): Hit[] | undefined {
    const margin = kernelMargin(this.dimension);
    const { rows, scores } = ranking;
    const passed: number[] = [];
    let cut = floor - margin;
    let at = 0;
    // Most filters admit nearly all: ask about as many as are wanted, and about more only when those were refused.
    let asked = Math.min(search.want, vectorFilterOwnersMax);
    while (at < rows.length && scores[at]! >= cut) {
      const end = Math.min(rows.length, at + asked);
      asked = Math.min(asked * 2, vectorFilterOwnersMax);
      const owners: number[] = [];
      for (let rank = at; rank < end && scores[rank]! >= cut; rank++) owners.push(this.#owners[rows[rank]!]!);
      admission.ask(owners);
      for (; at < end && scores[at]! >= cut; at++) {
        if (!admission.admits(this.#owners[rows[at]!]!)) continue;
        passed.push(rows[at]!);
        if (passed.length === search.want) cut = Math.max(cut, scores[at]! - 2 * margin);
      }
    }
    if (at === rows.length && rows.length < this.count) return undefined;
    const hits = passed.map((row) => ({
      owner: this.#owners[row]!,
      similarity: cosine(this.#rows, this.dimension, row, search.query),
    }));
    return mergeHits(hits, [], search.want);
  }
}
