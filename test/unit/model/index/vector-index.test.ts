/** Exact search over vectors in memory or in pieces from their rows, and the budget that decides which. */
import fc from "fast-check";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import {
  storedForm,
  streamNearest,
  VectorCache,
  VectorPool,
  type RowSource,
} from "../../../../src/model/index/vector-index.ts";
import { kernelMargin, unitVector } from "../../../../src/model/index/vector-kernel.ts";
import { Admission, VectorMatrix, type OwnerFilter } from "../../../../src/model/index/vector-matrix.ts";
import {
  deleteVector,
  findSpace,
  nearest,
  openSpace,
  putVector,
  type VectorSpace,
} from "../../../../src/model/vectors/vectors.ts";
import { ModelDatabase } from "../../../support/model-database.ts";
import { clusteredVectors, oracleNearest } from "../../../support/nearest-oracle.ts";

const dimension = 24;
const oneVectorBytes = VectorMatrix.bytesFor(dimension, 1);

function filled(database: ModelDatabase, name: string, vectors: readonly Float32Array[]): VectorSpace {
  return database.write((tx) => {
    const space = openSpace(tx, "memory", name, vectors[0]!.length);
    vectors.forEach((vector, at) => putVector(tx, space, at + 1, vector));
    return space;
  });
}

const byOwner = (vectors: readonly Float32Array[]): Map<number, Float32Array> =>
  new Map(vectors.map((vector, at) => [at + 1, vector]));

describe("matrix", () => {
  test("a removed or replaced vector is nowhere in its memory, and the free rows are zero", () => {
    fc.assert(
      fc.property(
        fc.array(fc.record({ owner: fc.integer({ min: 1, max: 8 }), removes: fc.boolean() }), { maxLength: 60 }),
        (changes) => {
          const matrix = new VectorMatrix(2, 0);
          const living = new Map<number, number>();
          changes.forEach(({ owner, removes }, at) => {
            const mark = at + 1;
            if (removes) {
              matrix.remove(owner);
              living.delete(owner);
            } else {
              matrix.put(owner, new Float32Array([mark, mark]), at);
              living.set(owner, mark);
            }
          });
          expect(Array.from(matrix.rows.subarray(0, 2 * matrix.count)).toSorted()).toEqual(
            [...living.values()].flatMap((mark) => [mark, mark]).toSorted(),
          );
          expect(matrix.rows.subarray(2 * matrix.count).every((value) => value === 0)).toBe(true);
          for (const [owner, mark] of living) expect(matrix.rows[matrix.findRow(owner)! * 2]).toBe(mark);
        },
      ),
    );
  });

  test("equal vectors beyond what is ranked first do not hide one another: ties go by owner", () => {
    const matrix = new VectorMatrix(3, 0);
    const vector = unitVector(new Float32Array([1, 2, 3]));
    for (let owner = 500; owner >= 1; owner--) matrix.put(owner, vector, 0);
    const hits = matrix.nearest({ query: vector.slice(), want: 3, allowed: undefined });
    expect(hits).toEqual([1, 2, 3].map((owner) => ({ owner, similarity: 1 })));
  });

  test("no error of the kernel within its margin changes the answer, under any floor", () => {
    // Directions so close that their similarities differ by about what the kernel may be off.
    const angles = fc.array(fc.integer({ min: 0, max: 200 }), { minLength: 1, maxLength: 40 });
    fc.assert(
      fc.property(
        angles,
        fc.infiniteStream(fc.integer({ min: -100, max: 100 })),
        fc.integer({ min: 1, max: 5 }),
        fc.nat(40),
        fc.nat(40),
        (steps, errors, want, length, floorRank) => {
          const vectors = steps.map((step) => new Float32Array([Math.cos(1 + step * 1e-7), Math.sin(1 + step * 1e-7)]));
          const matrix = new VectorMatrix(2, 0);
          vectors.forEach((vector, at) => matrix.put(at + 1, unitVector(vector), 0));
          const query = new Float32Array([1, 0]);
          const all = oracleNearest(byOwner(vectors), query, vectors.length);
          const offBy = kernelMargin(2);
          const ranked = all
            .map(({ owner, similarity }) => ({
              row: owner - 1,
              score: similarity + (offBy * (errors.next().value ?? 0)) / 100,
            }))
            .sort((left, right) => right.score - left.score)
            .slice(0, Math.max(1, length));
          const floor = all[floorRank]?.similarity ?? -Infinity;
          const ranking = { rows: ranked.map(({ row }) => row), scores: ranked.map(({ score }) => score) };
          const hits = matrix.best(ranking, { query, want, allowed: undefined }, new Admission(undefined), floor);
          if (ranked.length === vectors.length) expect(hits).toBeDefined();
          if (hits)
            expect(hits.filter((hit) => hit.similarity >= floor)).toEqual(
              all.slice(0, want).filter((hit) => hit.similarity >= floor),
            );
        },
      ),
      { numRuns: 500 },
    );
  });

  test("vectors that differ by less than the kernel can tell are still ordered rightly", () => {
    const matrix = new VectorMatrix(512, 0);
    const [base] = clusteredVectors(1, 512, 1, 7);
    const vectors = Array.from({ length: 300 }, (_, at) =>
      base!.map((value, place) => (place === at ? value + 2e-4 : value)),
    );
    vectors.forEach((vector, at) => matrix.put(at + 1, unitVector(vector), 0));
    const query = clusteredVectors(1, 512, 1, 7)[0]!;
    expect(matrix.nearest({ query: unitVector(query), want: 10, allowed: undefined })).toEqual(
      oracleNearest(byOwner(vectors), query, 10),
    );
  });
});

describe("streaming", () => {
  /** Rows of an array, at most `chunk` at a time whatever is asked for. */
  const source = (vectors: readonly Float32Array[], chunk: number): RowSource => ({
    count: () => vectors.length,
    after: (owner, rowsMax) =>
      vectors
        .map((vector, at) => ({ owner: at + 1, embedding: storedForm(unitVector(vector)) }))
        .filter((row) => row.owner > owner)
        .slice(0, Math.min(rowsMax, chunk)),
  });

  test("chunks of any size give what the whole gives, under any filter", () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 60 }),
        fc.integer({ min: 1, max: 70 }),
        fc.integer({ min: 1, max: 12 }),
        fc.integer({ min: 1, max: 9 }),
        fc.integer(),
        (count, chunk, want, every, seed) => {
          const vectors = clusteredVectors(count, dimension, 4, seed);
          const query = clusteredVectors(1, dimension, 4, seed + 1)[0]!;
          const allowed: OwnerFilter = (owners) => new Set(owners.filter((owner) => owner % every === 0));
          const { hits, exact } = streamNearest(source(vectors, chunk), dimension, {
            query: unitVector(query),
            want,
            allowed,
          });
          expect(exact).toBe(true);
          expect(hits).toEqual(oracleNearest(byOwner(vectors), query, want, (owner) => owner % every === 0));
        },
      ),
      { numRuns: 60 },
    );
  });

  test("a space too large for the budget is searched from its rows, several chunks of them", () => {
    const wide = 4096;
    const vectors = clusteredVectors(600, wide, 5, 3);
    const [streamed, cached] = [
      new ModelDatabase(new VectorCache(new VectorPool({ bytesMax: 1 }))),
      new ModelDatabase(),
    ];
    try {
      const query = vectors[77]!;
      const found = [streamed, cached].map((database) =>
        nearest(database.view(), filled(database, "m", vectors), query, 20),
      );
      expect(found[0]).toEqual(found[1]);
      expect(found[0]!.hits[0]).toEqual({ owner: 78, similarity: 1 });
      expect(streamed.vectors.bytes).toBe(0);
      expect(cached.vectors.bytes).toBeGreaterThan(600 * wide * 4);
    } finally {
      streamed.close();
      cached.close();
    }
  });
});

describe("cache", () => {
  let database: ModelDatabase;
  let pool: VectorPool;

  beforeEach(() => {
    pool = new VectorPool({ bytesMax: 250 * oneVectorBytes });
    database = new ModelDatabase(new VectorCache(pool));
  });

  afterEach(() => database.close());

  const search = (space: VectorSpace, query: Float32Array) => nearest(database.view(), space, query, 3).hits;

  test("a space is read into memory by its first search, not by a write", () => {
    const vectors = clusteredVectors(100, dimension, 4, 1);
    const space = filled(database, "m", vectors);
    expect(database.vectors.bytes).toBe(0);
    search(space, vectors[0]!);
    expect(database.vectors.bytes).toBeGreaterThanOrEqual(100 * oneVectorBytes);
    expect(pool.bytes).toBe(database.vectors.bytes);
  });

  test("the least recently used space makes room, of whichever database it is", () => {
    const other = new ModelDatabase(new VectorCache(pool));
    try {
      const vectors = clusteredVectors(100, dimension, 4, 1);
      const [first, second] = [filled(database, "first", vectors), filled(database, "second", vectors)];
      const third = filled(other, "third", vectors);
      const query = vectors[5]!;
      const hits = search(first, query);
      search(second, query);
      search(first, query);
      expect(nearest(other.view(), third, query, 3).hits).toEqual(hits);
      expect(pool.bytes).toBeLessThanOrEqual(pool.bytesMax);
      // `second` went, `first` stayed: a write behind the cache's back shows which one reads its rows anew.
      database.connection.exec("DELETE FROM __service_vector WHERE owner = 6");
      expect(search(first, query)).toEqual(hits);
      expect(search(second, query).map((hit) => hit.owner)).not.toContain(6);
    } finally {
      other.close();
    }
  });

  test("drop gives everything back, and the next search reads the rows anew", () => {
    const vectors = clusteredVectors(50, dimension, 4, 1);
    const space = filled(database, "m", vectors);
    search(space, vectors[0]!);
    database.connection.exec("DELETE FROM __service_vector WHERE owner = 1");
    database.vectors.evictAll();
    expect([database.vectors.bytes, pool.bytes]).toEqual([0, 0]);
    expect(search(space, vectors[0]!)).toEqual(
      oracleNearest(new Map([...byOwner(vectors)].filter(([owner]) => owner !== 1)), vectors[0]!, 3),
    );
  });

  test("a space that outgrows the budget leaves memory and is still searched rightly", () => {
    const vectors = clusteredVectors(300, dimension, 4, 1);
    const space = filled(database, "m", vectors.slice(0, 200));
    search(space, vectors[0]!);
    expect(database.vectors.bytes).toBeGreaterThan(0);
    database.write((tx) => vectors.forEach((vector, at) => putVector(tx, space, at + 1, vector)));
    expect(database.vectors.bytes).toBe(0);
    expect(search(space, vectors[250]!)).toEqual(oracleNearest(byOwner(vectors), vectors[250]!, 3));
  });

  test("a row of another length than its space's is a fault, not an answer", () => {
    const space = filled(database, "m", clusteredVectors(5, dimension, 2, 1));
    database.connection.exec("UPDATE __service_vector SET embedding = x'00000000' WHERE owner = 3");
    expect(() => search(space, clusteredVectors(1, dimension, 1, 1)[0]!)).toThrow(/its space's dimension/);
    expect(pool.bytes).toBe(0);
  });

  test("deletes reach a hot space only when they commit", () => {
    const vectors = clusteredVectors(20, dimension, 2, 1);
    const space = filled(database, "m", vectors);
    const before = search(space, vectors[3]!);
    database.group(
      (tx) => {
        deleteVector(tx, space, 4);
        throw new Error("this command fails");
      },
      (tx) => deleteVector(tx, space, 20),
    );
    expect(search(space, vectors[3]!)).toEqual(before.filter((hit) => hit.owner !== 20));
    database.write((tx) => deleteVector(tx, space, 4));
    expect(search(space, vectors[3]!).map((hit) => hit.owner)).not.toContain(4);
    expect(findSpace(database.view(), "memory", "m")).toEqual(space);
  });
});
