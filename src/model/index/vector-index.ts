/**
 * The derived, in-memory side of an open database's vectors: matrices that follow the rows, and indexes over them.
 *
 * Always true: a hot space equals the committed rows. It is built from them by the first search and changed only by
 * what committed (`Tx.afterCommit`), so a rolled-back command never reaches it, and any of it may be dropped at any
 * time. A caller that replaces the rows behind SQL's back (rewind, restore) must `evictAll()`. One cache belongs to the
 * one connection that writes: a second connection would not hear of the changes.
 * Must not know: SQL, collections, what an owner is.
 */
import { assert } from "../../base/faults/assert.ts";
import {
  Admission,
  firstAsk,
  computeFloor,
  mergeHits,
  VectorMatrix,
  widening,
  type Hit,
  type Search,
} from "./vector-matrix.ts";
import { VectorPool, type AnnIndex, type IndexBuilder, type Holder } from "./vector-pool.ts";

export type { IndexBuilder } from "./vector-pool.ts";
export { VectorPool } from "./vector-pool.ts";

/** Vectors are read from SQL in chunks of this size: to fill a matrix, or to search what has no room in memory. */
const vectorStreamBytes = 4 * 1024 * 1024;

export interface Nearest {
  readonly hits: readonly Hit[];
  /** False when an approximate index chose the candidates. */
  readonly exact: boolean;
}

/** A space as its registry row gives it. */
export interface VectorSpace {
  readonly space: number;
  readonly dimension: number;
}

/** One stored vector: little-endian float32. */
export interface VectorRow {
  readonly owner: number;
  readonly embedding: Uint8Array;
}

/** The rows of one space. */
export interface RowSource {
  count(): number;
  /** At most `rowsMax` rows with owners above `after`, in the order of owners. */
  after(owner: number, rowsMax: number): readonly VectorRow[];
}

const littleEndian = new Uint8Array(new Uint16Array([1]).buffer)[0] === 1;

/** The stored form of a vector. */
export function storedForm(vector: Float32Array): Uint8Array {
  const bytes = Buffer.from(vector.buffer, vector.byteOffset, vector.byteLength);
  return littleEndian ? bytes : Buffer.from(bytes).swap32();
}

/** The vector of a stored form. */
export function decodeStoredVector(row: VectorRow, dimension: number): Float32Array {
  assert(
    row.embedding.byteLength === dimension * Float32Array.BYTES_PER_ELEMENT,
    "a stored vector has its space's dimension",
  );
  const bytes = new Uint8Array(row.embedding);
  if (!littleEndian) Buffer.from(bytes.buffer).swap32();
  return new Float32Array(bytes.buffer);
}

/** How many rows to read from SQL at once. */
function chunkRows(dimension: number): number {
  return Math.max(1, Math.floor(vectorStreamBytes / (dimension * Float32Array.BYTES_PER_ELEMENT)));
}

/** Reads the rows of the space in the order of owners, a bounded chunk at a time. */
function* chunks(source: RowSource, dimension: number): Generator<readonly VectorRow[]> {
  let after = -1;
  for (;;) {
    const rows = source.after(after, chunkRows(dimension));
    if (rows.length === 0) return;
    yield rows;
    after = rows.at(-1)!.owner;
  }
}

function fill(matrix: VectorMatrix, rows: readonly VectorRow[]): void {
  for (const row of rows) matrix.put(row.owner, decodeStoredVector(row, matrix.dimension), 0);
}

/** The exact search without a cache: slow, right, and bounded in memory. */
export function streamNearest(source: RowSource, dimension: number, search: Search): Nearest {
  let hits: Hit[] = [];
  for (const rows of chunks(source, dimension)) {
    const matrix = new VectorMatrix(dimension, rows.length);
    fill(matrix, rows);
    hits = mergeHits(hits, matrix.nearest(search, computeFloor(hits, search.want)), search.want);
  }
  return { hits, exact: true };
}

/** A built index with what its labels meant when the snapshot was taken. */
interface LabelledIndex {
  readonly ann: AnnIndex;
  readonly owners: Float64Array;
}

/**
 * The vectors of one space in memory. With an index, `main` holds what the index covers and `tail` what came after it.
 */
class HotSpace implements Holder {
  readonly main: VectorMatrix;
  readonly #tail: VectorMatrix;
  #index: LabelledIndex | undefined;
  /** Counts the changes, so that a snapshot can tell what came after it. */
  #stamp = 0;
  /** The size at which a build was last tried without success. */
  #declinedAt = 0;
  #aborting: AbortController | undefined;
  /** The last build that was begun; resolved when it has left no file behind. */
  #built: Promise<void> | undefined;
  readonly #onEvict: (left: Promise<void> | undefined) => void;

  constructor(dimension: number, capacity: number, onEvict: (left: Promise<void> | undefined) => void) {
    this.main = new VectorMatrix(dimension, capacity);
    this.#tail = new VectorMatrix(dimension, 0);
    this.#onEvict = onEvict;
  }

  get count(): number {
    return this.main.count + this.#tail.count;
  }

  get bytes(): number {
    return this.main.bytes + this.#tail.bytes + (this.#index?.ann.bytes ?? 0);
  }

  put(owner: number, vector: Float32Array): void {
    this.#stamp++;
    if (!this.#index) return this.main.put(owner, vector, this.#stamp);
    // What the index knows of this owner is no longer true: it must not be found in `main` again.
    this.main.remove(owner);
    this.#tail.put(owner, vector, this.#stamp);
  }

  remove(owner: number): void {
    this.main.remove(owner);
    this.#tail.remove(owner);
  }

  nearest(search: Search, exactVectorsMax: number): Nearest {
    const narrowed = this.#index && this.count > exactVectorsMax ? this.#narrow(this.#index, search) : undefined;
    const hits = narrowed ?? this.main.nearest(search);
    const tail = this.#tail.nearest(search, computeFloor(hits, search.want));
    return { hits: mergeHits(hits, tail, search.want), exact: narrowed === undefined };
  }

  /** The hits in `main` by the index; undefined when the filter lets so few through that a scan is the better way. */
  #narrow(index: LabelledIndex, search: Search): Hit[] | undefined {
    const admission = new Admission(search.allowed);
    // Walking an eighth of the graph costs more than scanning all of the matrix.
    for (let ask = firstAsk(search); ask <= index.owners.length / 8; ask *= widening) {
      const found = index.ann.search(search.query, ask);
      const rows: number[] = [];
      const scores: number[] = [];
      for (let at = 0; at < found.rows.length; at++) {
        // Labels of owners that were removed or replaced since the snapshot have no row in `main`.
        const row = this.main.findRow(index.owners[found.rows[at]!]!);
        if (row === undefined) continue;
        rows.push(row);
        scores.push(found.scores[at]!);
      }
      const hits = this.main.best({ rows, scores }, search, admission);
      if (hits) return hits;
    }
    return undefined;
  }

  /** Starts an index build when the space is large enough and has no index, or one that is a quarter out of date. */
  considerIndex(pool: VectorPool): void {
    if (!pool.buildIndex || pool.building || !this.#wantsIndex(pool.exactVectorsMax)) return;
    // Room for the copy that the builder gets and for the index to come.
    if (3 * this.bytes > pool.bytesMax || !pool.makeRoom(2 * this.bytes)) return;
    this.#built = this.#build(pool, pool.buildIndex);
    pool.startBuild(this.#built);
  }

  #wantsIndex(exactVectorsMax: number): boolean {
    if (this.count <= exactVectorsMax || this.count < 1.25 * this.#declinedAt) return false;
    if (!this.#index) return true;
    const gone = this.#index.owners.length - this.main.count;
    return this.#tail.count + gone > this.#index.owners.length / 4;
  }

  /** Builds an index over the vectors of now and adopts it, unless the space is closed meanwhile. */
  async #build(pool: VectorPool, buildIndex: IndexBuilder): Promise<void> {
    const { dimension } = this.main;
    const { count } = this;
    const stamp = this.#stamp;
    const matrix = new Float32Array(count * dimension);
    matrix.set(this.main.rows.subarray(0, this.main.count * dimension));
    matrix.set(this.#tail.rows.subarray(0, this.#tail.count * dimension), this.main.count * dimension);
    const owners = new Float64Array(count);
    owners.set(this.main.owners);
    owners.set(this.#tail.owners, this.main.count);
    const aborting = new AbortController();
    this.#aborting = aborting;
    const ann = await buildIndex(matrix, dimension, count, aborting.signal);
    if (aborting.signal.aborted) {
      ann?.close();
      return;
    }
    this.#aborting = undefined;
    if (ann) this.#adopt({ ann, owners }, stamp);
    else this.#declinedAt = count;
    if (!pool.hold(this, this.bytes)) this.evict();
  }

  #adopt(index: LabelledIndex, stamp: number): void {
    this.#index?.ann.close();
    this.#index = index;
    this.main.moveTo(this.#tail, (changed) => changed > stamp);
    this.#tail.moveTo(this.main, (changed) => changed <= stamp);
  }

  /** Frees the index and abandons a build, whose end is given. The space is not used again. */
  close(): Promise<void> | undefined {
    this.#aborting?.abort();
    this.#index?.ann.close();
    this.#index = undefined;
    return this.#built;
  }

  evict(): void {
    this.#onEvict(this.close());
  }
}

/** The hot spaces of one open database. */
export class VectorCache {
  readonly #pool: VectorPool;
  readonly #hot = new Map<number, HotSpace>();
  /** Resolves when the spaces that were dropped have left nothing on disk. */
  #left: Promise<unknown> = Promise.resolve();

  /** All caches of a thread are given the same pool. */
  constructor(pool: VectorPool = new VectorPool()) {
    this.#pool = pool;
  }

  /** Bytes that this cache holds. */
  get bytes(): number {
    return this.#hot.values().reduce((sum, hot) => sum + hot.bytes, 0);
  }

  /** The nearest vectors among the committed rows, which `source` reads. */
  nearest(space: VectorSpace, source: RowSource, search: Search): Nearest {
    const hot = this.#hot.get(space.space) ?? this.#load(space, source);
    if (!hot) return streamNearest(source, space.dimension, search);
    const nearest = hot.nearest(search, this.#pool.exactVectorsMax);
    this.#pool.touch(hot);
    hot.considerIndex(this.#pool);
    return nearest;
  }

  /** Follows a committed put; `vector` is the unit vector that was stored. */
  put(space: number, owner: number, vector: Float32Array): void {
    const hot = this.#hot.get(space);
    if (!hot) return;
    // Without the room to grow, the commit still holds: the space is derived, so it goes and searches stream.
    const grown = unlessOutOfMemory(() => (hot.put(owner, vector), true));
    if (grown && this.#pool.hold(hot, hot.bytes)) return;
    this.#pool.release(hot);
    hot.evict();
  }

  /** Follows a committed delete. */
  remove(space: number, owner: number): void {
    this.#hot.get(space)?.remove(owner);
  }

  /** Empties the cache: after a rewind or a restore, at an erasure, at close. A running build is abandoned. */
  evictAll(): void {
    for (const hot of this.#hot.values()) {
      this.#pool.release(hot);
      this.#leave(hot.close());
    }
    this.#hot.clear();
  }

  /**
   * Resolves when everything that was dropped or evicted so far is gone from disk too: builds of this database that
   * were abandoned.
   */
  async forgotten(): Promise<void> {
    await this.#left;
  }

  #leave(left: Promise<void> | undefined): void {
    if (left) this.#left = Promise.all([this.#left, left]);
  }

  /**
   * Resolves when no index build of the thread is running; after `evictAll()`, when its copies of vectors are gone from
   * disk too.
   */
  idle(): Promise<void> {
    return this.#pool.idle();
  }

  /** The space read into memory, or undefined when it does not fit the budget. */
  #load(space: VectorSpace, source: RowSource): HotSpace | undefined {
    const { dimension } = space;
    const count = source.count();
    if (!this.#pool.makeRoom(VectorMatrix.bytesFor(dimension, count))) return undefined;
    const removeHot = (left: Promise<void> | undefined): void => {
      this.#hot.delete(space.space);
      this.#leave(left);
    };
    const hot = unlessOutOfMemory(() => new HotSpace(dimension, count, removeHot));
    if (!hot) return undefined;
    for (const rows of chunks(source, dimension)) fill(hot.main, rows);
    if (!this.#pool.hold(hot, hot.bytes)) return undefined;
    this.#hot.set(space.space, hot);
    return hot;
  }
}

/** The result, or undefined when the process could not get the memory for a typed array. */
function unlessOutOfMemory<Result>(act: () => Result): Result | undefined {
  try {
    return act();
  } catch (error) {
    if (error instanceof RangeError) return undefined;
    throw error;
  }
}
