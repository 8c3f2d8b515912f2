/**
 * What all vector caches of one thread share: the byte budget, and the one index build that may run at a time.
 *
 * Always true: what the holders hold together is within the budget, as the least recently used are evicted first. Must
 * not know: matrices, rows, databases.
 */
import { assert } from "../../base/faults/assert.ts";
import { limits } from "../../base/limits.ts";
import type { Ranking } from "./vector-kernel.ts";

/** All in-memory matrices of one engine thread together; the least recently used go first. */
const vectorCacheBytesMax = 2048 * 1024 * 1024;

/** A built approximate index over the rows of one matrix; its labels are positions in that matrix. */
export interface AnnIndex {
  /** An estimate of what it takes. */
  readonly bytes: number;
  /** About the best `count` labels for a unit vector; scores are inner products. May give fewer. */
  search(query: Float32Array, count: number): Ranking;
  /** Frees the vectors inside at once, without waiting for the garbage collector. */
  close(): void;
}

/**
 * Builds an index over `count` unit vectors, off this thread; the matrix is handed over and not touched again. Resolves
 * undefined when no index can be built, which is logged, or when it was abandoned; never rejects.
 */
export type IndexBuilder = (
  matrix: Float32Array<ArrayBuffer>,
  dimension: number,
  count: number,
  abandoned: AbortSignal,
) => Promise<AnnIndex | undefined>;

export interface VectorPoolOptions {
  readonly bytesMax?: number;
  /** Above this many vectors of a space an index is built, when there is a builder. */
  readonly exactVectorsMax?: number;
  readonly buildIndex?: IndexBuilder | undefined;
}

/** Something whose memory counts against the budget. */
export interface Holder {
  /** Gives its memory back; called by the pool, which has already forgotten it. */
  evict(): void;
}

export class VectorPool {
  readonly bytesMax: number;
  readonly exactVectorsMax: number;
  readonly buildIndex: IndexBuilder | undefined;
  /** In order of use, the least recent first. */
  readonly #held = new Map<Holder, number>();
  #bytes = 0;
  #build: Promise<void> | undefined;

  constructor(options: VectorPoolOptions = {}) {
    this.bytesMax = options.bytesMax ?? vectorCacheBytesMax;
    this.exactVectorsMax = options.exactVectorsMax ?? limits.exactVectorsMax;
    this.buildIndex = options.buildIndex;
  }

  /** Bytes held by all caches of the thread. */
  get bytes(): number {
    return this.#bytes;
  }

  /**
   * Evicts the least recently used until `bytes` more fit. False, with nothing evicted, when they could not fit even
   * alone.
   */
  makeRoom(bytes: number): boolean {
    if (bytes > this.bytesMax) return false;
    for (const oldest of this.#held.keys()) {
      if (this.#bytes + bytes <= this.bytesMax) break;
      this.release(oldest);
      oldest.evict();
    }
    return true;
  }

  /**
   * Notes that the holder now takes `bytes` and is in use; others make room. False, the holder forgotten, when it
   * cannot fit.
   */
  hold(holder: Holder, bytes: number): boolean {
    if (this.#held.get(holder) === bytes) {
      this.touch(holder);
      return true;
    }
    this.release(holder);
    if (!this.makeRoom(bytes)) return false;
    this.#held.set(holder, bytes);
    this.#bytes += bytes;
    return true;
  }

  /** Notes that the holder is in use. */
  touch(holder: Holder): void {
    const bytes = this.#held.get(holder);
    if (bytes === undefined) return;
    this.#held.delete(holder);
    this.#held.set(holder, bytes);
  }

  release(holder: Holder): void {
    this.#bytes -= this.#held.get(holder) ?? 0;
    this.#held.delete(holder);
  }

  /** Whether an index build runs. */
  get building(): boolean {
    return this.#build !== undefined;
  }

  /** Notes the running build. The caller has seen that there is no other. */
  startBuild(build: Promise<void>): void {
    assert(!this.building, "a thread builds one index at a time");
    this.#build = build.finally(() => {
      this.#build = undefined;
    });
  }

  /** Resolves when no build is running: an abandoned one has then deleted its files. */
  async idle(): Promise<void> {
    while (this.#build) await this.#build;
  }
}
