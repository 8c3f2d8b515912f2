/** Vectors in their spaces: the nearest are those that a look at all would find; collections, names, bounds. */
import fc from "fast-check";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { limits } from "../../../../src/base/limits.ts";
import type { Tx } from "../../../../src/model/core/transaction.ts";
import { VectorCache, VectorPool } from "../../../../src/model/index/vector-index.ts";
import {
  checkEmbedding,
  deleteVector,
  findSpace,
  hasVector,
  nearest,
  openSpace,
  putVector,
  type VectorSpace,
} from "../../../../src/model/vectors/vectors.ts";
import { upsertVector } from "../../../../src/model/vectors/vector-collections.ts";
import { searchVectors } from "../../../../src/model/vectors/vector-search.ts";
import { ModelDatabase } from "../../../support/model-database.ts";
import { oracleNearest } from "../../../support/nearest-oracle.ts";
import { vectorFilterOwnersMax } from "../../../../src/model/index/vector-matrix.ts";

let database: ModelDatabase;

beforeEach(() => {
  database = new ModelDatabase();
});

afterEach(() => database.close());

const vector = (...values: number[]): Float32Array => new Float32Array(values);

// Few distinct numbers make many equal and nearly equal vectors: the hard case for ties and for the cut.
const embedding = fc
  .array(fc.constantFrom(-1, 0, 1, 2, 0.1), { minLength: 3, maxLength: 3 })
  .map((values) => (values.every((value) => value === 0) ? vector(1, 0, 0) : vector(...values)));
const owner = fc.integer({ min: 1, max: 25 });
const change = fc.oneof(
  { weight: 5, arbitrary: fc.record({ kind: fc.constant("put" as const), owner, embedding }) },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant("delete" as const), owner }) },
);
type Change = typeof change extends fc.Arbitrary<infer Value> ? Value : never;
/** One commit group: commands of several changes each, some of which fail at their end. */
const group = fc.array(fc.record({ changes: fc.array(change, { maxLength: 6 }), fails: fc.boolean() }), {
  minLength: 1,
  maxLength: 4,
});

function applyTo(vectors: Map<number, Float32Array>, changes: readonly Change[]): void {
  for (const one of changes) {
    if (one.kind === "put") vectors.set(one.owner, one.embedding);
    else vectors.delete(one.owner);
  }
}

function applyIn(tx: Tx, changes: readonly Change[]): VectorSpace {
  const space = openSpace(tx, "memory", "m", 3);
  for (const one of changes) {
    if (one.kind === "put") putVector(tx, space, one.owner, one.embedding);
    else deleteVector(tx, space, one.owner);
  }
  return space;
}

describe("nearest equals brute force after any history of commits and rollbacks", () => {
  test.each([
    ["by the matrix", () => new VectorPool()],
    ["streamed, without room for a matrix", () => new VectorPool({ bytesMax: 0 })],
    ["with room that runs out as the space grows", () => new VectorPool({ bytesMax: 900 })],
  ])("%s", (_, pool) => {
    const oddOwners = (owners: readonly number[]) => new Set(owners.filter((candidate) => candidate % 2 === 1));
    fc.assert(
      fc.property(
        fc.array(group, { maxLength: 5 }),
        embedding,
        fc.integer({ min: 1, max: 8 }),
        owner,
        (groups, query, want, only) => {
          const fresh = new ModelDatabase(new VectorCache(pool()));
          try {
            const expected = new Map<number, Float32Array>();
            for (const commands of groups) {
              fresh.group(
                ...commands.map(({ changes, fails }) => (tx: Tx) => {
                  applyIn(tx, changes);
                  if (fails) throw new Error("this command fails");
                }),
              );
              for (const { changes, fails } of commands) if (!fails) applyTo(expected, changes);
              const space = findSpace(fresh.view(), "memory", "m");
              if (!space) {
                expect(expected.size).toBe(0);
                continue;
              }
              const search = (
                ...filter: Parameters<typeof nearest> extends [unknown, unknown, unknown, unknown, ...infer Rest]
                  ? Rest
                  : never
              ) => nearest(fresh.view(), space, query, want, ...filter);
              expect(search()).toEqual({ hits: oracleNearest(expected, query, want), exact: true });
              expect(search(oddOwners).hits).toEqual(
                oracleNearest(expected, query, want, (candidate) => candidate % 2 === 1),
              );
              expect(search(() => new Set([only])).hits).toEqual(
                oracleNearest(expected, query, want, (candidate) => candidate === only),
              );
              expect(search(() => new Set()).hits).toEqual([]);
              for (const [candidate] of expected) expect(hasVector(fresh.view(), space, candidate)).toBe(true);
            }
          } finally {
            fresh.close();
          }
        },
      ),
      { numRuns: 40 },
    );
  });

  test("the same rows give the same bits whatever the history, and after a reopening of the cache", () => {
    fc.assert(
      fc.property(
        fc.array(change, { maxLength: 20 }),
        fc.uniqueArray(fc.tuple(owner, embedding), { selector: ([key]) => key, minLength: 1, maxLength: 15 }),
        embedding,
        (detour, rows, query) => {
          const [direct, winding] = [new ModelDatabase(), new ModelDatabase()];
          try {
            const puts = rows.map(([key, value]): Change => ({ kind: "put", owner: key, embedding: value }));
            const removals = Array.from({ length: 25 }, (_, at): Change => ({ kind: "delete", owner: at + 1 }));
            const space = direct.write((tx) => applyIn(tx, puts));
            winding.write((tx) => applyIn(tx, [...detour]));
            nearest(winding.view(), space, query, 5);
            winding.write((tx) =>
              applyIn(
                tx,
                removals.filter((removal) => !rows.some(([key]) => key === removal.owner)),
              ),
            );
            winding.write((tx) => applyIn(tx, puts.toReversed()));
            const hits = nearest(direct.view(), space, query, 7);
            expect(nearest(winding.view(), space, query, 7)).toEqual(hits);
            winding.vectors.evictAll();
            expect(nearest(winding.view(), space, query, 7)).toEqual(hits);
          } finally {
            direct.close();
            winding.close();
          }
        },
      ),
      { numRuns: 40 },
    );
  });
});

describe("spaces", () => {
  test("a space's dimension is fixed by its first vector; names are distinct within a kind, by case too", () => {
    database.write((tx) => {
      const first = openSpace(tx, "memory", "Users", 2);
      expect(openSpace(tx, "memory", "Users", 5)).toEqual(first);
      expect(openSpace(tx, "memory", "users", 5)).toMatchObject({ dimension: 5 });
      expect(openSpace(tx, "turn", "Users", 7)).toMatchObject({ dimension: 7 });
    });
    expect(findSpace(database.view(), "memory", "Users")!.dimension).toBe(2);
    expect(findSpace(database.view(), "collection", "Users")).toBeUndefined();
  });

  test("the same vector again changes nothing, in any scale", () => {
    database.write((tx) => putVector(tx, openSpace(tx, "memory", "m", 2), 1, vector(3, 4)));
    const space = findSpace(database.view(), "memory", "m")!;
    expect(database.group((tx) => putVector(tx, space, 1, vector(6, 8)))[0]).toMatchObject({ changed: false });
    expect(database.group((tx) => deleteVector(tx, space, 2))[0]).toMatchObject({ changed: false });
    expect(database.group((tx) => putVector(tx, space, 1, vector(4, 3)))[0]).toMatchObject({ changed: true });
  });

  test("vectors are stored as little-endian float32 of length 1", () => {
    database.write((tx) => putVector(tx, openSpace(tx, "memory", "m", 2), 1, vector(3, 4)));
    const { embedding: stored } = database.connection.get<{ embedding: Buffer }>(
      "SELECT embedding FROM __service_vector",
    )!;
    expect([stored.readFloatLE(0), stored.readFloatLE(4)]).toEqual([Math.fround(0.6), Math.fround(0.8)]);
  });

  test("a write sees its own vectors, and its rolled-back search leaves nothing in the cache", () => {
    database.write((tx) => putVector(tx, openSpace(tx, "memory", "m", 2), 1, vector(1, 0)));
    const space = findSpace(database.view(), "memory", "m")!;
    expect(() =>
      database.write((tx) => {
        putVector(tx, space, 2, vector(0, 1));
        expect(nearest(tx, space, vector(0, 1), 1).hits).toEqual([{ owner: 2, similarity: 1 }]);
        throw new Error("this command fails");
      }),
    ).toThrow("this command fails");
    expect(nearest(database.view(), space, vector(0, 1), 5).hits).toEqual([{ owner: 1, similarity: 0 }]);
  });

  test("a filter is never asked about more owners at once than its limit, nor about one twice", () => {
    const count = 2 * vectorFilterOwnersMax + 500;
    database.write((tx) => {
      const space = openSpace(tx, "memory", "m", 2);
      for (let at = 1; at <= count; at++) putVector(tx, space, at, vector(Math.cos(at / count), Math.sin(at / count)));
    });
    const asked: number[] = [];
    const hits = nearest(database.view(), findSpace(database.view(), "memory", "m")!, vector(1, 0), 2, (owners) => {
      expect(owners.length).toBeLessThanOrEqual(vectorFilterOwnersMax);
      asked.push(...owners);
      return new Set(owners.filter((candidate) => candidate === count));
    }).hits;
    expect(hits.map((hit) => hit.owner)).toEqual([count]);
    expect(asked.toSorted((left, right) => left - right)).toEqual(Array.from({ length: count }, (_, at) => at + 1));
  });

  test("a filter that lets much through is not asked about everything", () => {
    database.write((tx) => {
      const space = openSpace(tx, "memory", "m", 2);
      for (let at = 1; at <= 3000; at++) putVector(tx, space, at, vector(Math.cos(at / 3000), Math.sin(at / 3000)));
    });
    let asked = 0;
    nearest(database.view(), findSpace(database.view(), "memory", "m")!, vector(1, 0), 5, (owners) => {
      asked += owners.length;
      return new Set(owners);
    });
    expect(asked).toBeLessThan(200);
  });
});

describe("checkEmbedding", () => {
  test.each([
    ["empty", vector(), /^embedding has 0 numbers; 1 to 4096 are allowed/],
    ["too long", new Float32Array(limits.vectorDimensionMax + 1).fill(1), /^embedding has 4097 numbers/],
    ["not a number", vector(1, Number.NaN), /^embedding must hold finite/],
    ["infinite", vector(Number.NEGATIVE_INFINITY), /^embedding must hold finite/],
    ["beyond float32", vector(1e39), /^embedding must hold finite/],
    ["zero", vector(0, -0), /^embedding must not be all zeros/],
    ["zero in float32", vector(1e-60), /^embedding must not be all zeros/],
  ])("%s", (_, value, message) => {
    expect(() => checkEmbedding("embedding", value)).toThrow(message);
  });

  test("the longest allowed", () => {
    checkEmbedding("embedding", new Float32Array(limits.vectorDimensionMax).fill(1e-45));
  });
});

describe("collections", () => {
  const upsert = (id: string, value: Float32Array, collection = "c") =>
    database.write((tx) => upsertVector(tx, { collection, id, embedding: value }));
  const search = (value: Float32Array, k?: number, collection = "c") =>
    searchVectors(database.view(), { collection, vector: value, ...(k === undefined ? {} : { k }) }).hits;

  test("documents-05: three upserts, k 2 gives two, nearest first", () => {
    upsert("east", vector(1, 0));
    upsert("north", vector(0, 1));
    upsert("west", vector(-1, 0));
    expect(search(vector(2, 0.1), 2).map((hit) => hit.id)).toEqual(["east", "north"]);
    expect(search(vector(5, 0))).toEqual([
      { id: "east", distance: 0 },
      { id: "north", distance: 1 },
      { id: "west", distance: 2 },
    ]);
  });

  test("an upsert replaces; an unknown collection has no hits; k is cut to the most allowed", () => {
    upsert("a", vector(1, 0));
    upsert("a", vector(0, 1));
    expect(search(vector(0, 1), 10_000_000)).toEqual([{ id: "a", distance: 0 }]);
    expect(search(vector(0, 1, 3), 5, "nowhere")).toEqual([]);
  });

  test("collections whose names differ in case or punctuation do not meet", () => {
    for (const name of ["Users", "users", "a-b", "a_b"]) upsert(name, vector(1, 0), name);
    for (const name of ["Users", "users", "a-b", "a_b"])
      expect(search(vector(1, 0), 5, name)).toEqual([{ id: name, distance: 0 }]);
  });

  test("a wrong dimension is refused with both dimensions, and leaves no item behind", () => {
    upsert("a", vector(1, 0));
    expect(() => upsert("b", vector(1, 0, 0))).toThrow("embedding has 3 numbers, but collection c has dimension 2");
    expect(() => search(vector(1))).toThrow("vector has 1 numbers, but collection c has dimension 2");
    upsert("b", vector(0, 1));
    expect(search(vector(1, 0))).toHaveLength(2);
  });

  test("a refused first vector does not fix a dimension", () => {
    expect(() => upsert("a", vector(0, 0))).toThrow(/^embedding must not/);
    expect(() => upsert("", vector(1, 0))).toThrow(/^id must be 1 to 256 bytes/);
    upsert("a", vector(1, 0, 0));
    expect(search(vector(1, 0, 0))).toHaveLength(1);
  });

  test.each([0, -1, 1.5, Number.NaN])("k %d is refused", (k) => {
    expect(() => search(vector(1, 0), k)).toThrow(/^k must be a whole number from 1; at most 1000/);
  });

  test("names outside the rule are refused", () => {
    expect(() => upsert("a", vector(1), "a.b")).toThrow(/^collection must/);
    expect(() => search(vector(1), 1, "")).toThrow(/^collection must/);
  });

  test("there is an end to new collections, not to writes into old ones", () => {
    database.write((tx) => {
      for (let at = 0; at < limits.collectionsMax; at++) openSpace(tx, "collection", `c${at}`, 2);
    });
    expect(() => upsert("a", vector(1, 0), "more")).toThrow(/at most 1000 vector collections/);
    upsert("a", vector(1, 0), "c0");
    expect(search(vector(1, 0), 1, "c0")).toHaveLength(1);
  });
});
