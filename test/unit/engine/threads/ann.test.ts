/** The approximate index of a large space: when it is built, used and left aside, and that no answer is wrong by it. */
import { readdirSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { realWorld } from "../../../../src/base/world.ts";
import { indexBuilder } from "../../../../src/engine/threads/ann-builder.ts";
import { VectorCache, VectorPool, type IndexBuilder } from "../../../../src/model/index/vector-index.ts";
import { unitVector } from "../../../../src/model/index/vector-kernel.ts";
import {
  deleteVector,
  nearest,
  openSpace,
  putVector,
  type OwnerFilter,
  type VectorSpace,
} from "../../../../src/model/vectors/vectors.ts";
import { ModelDatabase } from "../../../support/model-database.ts";
import { clusteredVectors, oracleNearest } from "../../../support/nearest-oracle.ts";
import { temporaryDirectory } from "../../../support/temporary.ts";

const dimension = 32;
const exactVectorsMax = 500;
const world = realWorld();
const vectors = clusteredVectors(3000, dimension, 40, 11);
const queries = clusteredVectors(60, dimension, 40, 12);

let pool: VectorPool;
let reports: string[];
let scratch: string;
let builder: IndexBuilder;
let database: ModelDatabase;
let expected: Map<number, Float32Array>;
let space: VectorSpace;
/** Called when a build has been asked for and has not begun. */
let beforeBuild: () => void;
let builds: number;

function open(bytesMax = 2 ** 30): void {
  pool = new VectorPool({
    exactVectorsMax,
    bytesMax,
    buildIndex(...work) {
      builds++;
      beforeBuild();
      return builder(...work);
    },
  });
  database = new ModelDatabase(new VectorCache(pool));
  expected = new Map();
  space = database.write((tx) => openSpace(tx, "memory", "m", dimension));
  change(vectors.map((vector, at) => [at + 1, vector]));
}

beforeEach(() => {
  reports = [];
  builds = 0;
  beforeBuild = () => {};
  scratch = temporaryDirectory();
  builder = indexBuilder(scratch, world, (message) => reports.push(message));
  open();
});

afterEach(async () => {
  database.vectors.evictAll();
  await database.vectors.idle();
  expect(readdirSync(scratch)).toEqual([]);
  database.close();
});

/** Commits puts, and deletes where no vector is given. */
function change(changes: readonly (readonly [owner: number, vector?: Float32Array])[]): void {
  database.write((tx) => {
    for (const [owner, vector] of changes) {
      if (vector) putVector(tx, space, owner, vector);
      else deleteVector(tx, space, owner);
    }
  });
  for (const [owner, vector] of changes) {
    if (vector) expected.set(owner, vector);
    else expected.delete(owner);
  }
}

const search = (query: Float32Array, want = 10, allowed?: OwnerFilter) =>
  nearest(database.view(), space, query, want, allowed);

/** The share of the true nearest that the searches give, over all queries. */
function recall(want = 10, allowed?: OwnerFilter): number {
  let found = 0;
  let there = 0;
  const passes = (owner: number): boolean => !allowed || allowed([owner]).has(owner);
  for (const query of queries) {
    const truth = oracleNearest(expected, query, want, passes);
    const hits = search(query, want, allowed).hits;
    const owners = new Set(hits.map((hit) => hit.owner));
    // What is found is scored exactly, whoever found it.
    for (const hit of hits)
      expect(hit).toEqual(oracleNearest(new Map([[hit.owner, expected.get(hit.owner)!]]), query, 1)[0]);
    there += truth.length;
    found += truth.filter((hit) => owners.has(hit.owner)).length;
  }
  return found / there;
}

async function builtIndex(): Promise<void> {
  expect(search(queries[0]!).exact).toBe(true);
  await database.vectors.idle();
  expect(search(queries[0]!).exact).toBe(false);
}

describe("an approximate index", () => {
  test("narrows the search of a large space, with recall@10 of at least .95, and rescores exactly", async () => {
    await builtIndex();
    expect(recall()).toBeGreaterThanOrEqual(0.95);
    expect(recall(100)).toBeGreaterThanOrEqual(0.95);
    expect(reports).toEqual([]);
  });

  test("is exact again under a filter that lets few through, and when much is wanted", async () => {
    await builtIndex();
    for (const only of [1, 1234, 3000]) {
      expect(search(queries[1]!, 10, (owners) => new Set(owners.filter((owner) => owner === only)))).toEqual({
        hits: oracleNearest(expected, queries[1]!, 10, (owner) => owner === only),
        exact: true,
      });
    }
    expect(search(queries[2]!, 1000)).toEqual({ hits: oracleNearest(expected, queries[2]!, 1000), exact: true });
    const third: OwnerFilter = (owners) => new Set(owners.filter((owner) => owner % 3 === 0));
    expect(search(queries[3]!, 10, third).exact).toBe(false);
    expect(recall(10, third)).toBeGreaterThanOrEqual(0.95);
  });

  test("finds what came after it, and nothing of what was removed or replaced since", async () => {
    await builtIndex();
    const late = clusteredVectors(200, dimension, 40, 13);
    change(late.map((vector, at) => [5000 + at, vector]));
    change(Array.from({ length: 100 }, (_, at) => [at * 7 + 1] as const));
    change(Array.from({ length: 100 }, (_, at) => [at * 11 + 2, late[at]!] as const));
    const { hits, exact } = search(late[5]!, 3);
    expect(exact).toBe(false);
    expect(hits).toEqual(oracleNearest(expected, late[5]!, 3));
    expect(recall()).toBeGreaterThanOrEqual(0.95);
    expect(builds).toBe(1);
  });

  test("is right about changes made while it is built", async () => {
    const late = clusteredVectors(300, dimension, 40, 14);
    expect(search(queries[0]!).exact).toBe(true);
    change(late.slice(0, 100).map((vector, at) => [6000 + at, vector]));
    change(Array.from({ length: 150 }, (_, at) => [at * 5 + 1] as const));
    change(late.slice(100).map((vector, at) => [at * 9 + 3, vector]));
    change([[16, vectors[999]!]]);
    // Removed and put back, and put and removed again: only the last word counts.
    change([[6], [6, vectors[5]!], [6001]]);
    expect(search(queries[4]!)).toEqual({ hits: oracleNearest(expected, queries[4]!, 10), exact: true });
    await database.vectors.idle();
    expect(search(queries[4]!).exact).toBe(false);
    expect(recall()).toBeGreaterThanOrEqual(0.95);
    for (const at of [0, 50, 250]) expect(search(late[at]!, 2).hits).toEqual(oracleNearest(expected, late[at]!, 2));
  });

  test("is built again when a quarter of it is out of date, and serves meanwhile", async () => {
    await builtIndex();
    const late = clusteredVectors(900, dimension, 40, 15);
    change(late.slice(0, 700).map((vector, at) => [7000 + at, vector]));
    search(queries[0]!);
    await database.vectors.idle();
    expect(builds).toBe(1);
    change(late.slice(700).map((vector, at) => [7700 + at, vector]));
    expect(search(queries[0]!).exact).toBe(false);
    change([[7000], [1], [2, late[3]!], [9999, late[4]!]]);
    await database.vectors.idle();
    expect(builds).toBe(2);
    expect(search(queries[0]!).exact).toBe(false);
    expect(recall()).toBeGreaterThanOrEqual(0.95);
    expect(search(late[4]!, 2).hits).toEqual(oracleNearest(expected, late[4]!, 2));
    await database.vectors.idle();
    expect(builds).toBe(2);
  });

  test("is left aside once the space is small again", async () => {
    await builtIndex();
    change(Array.from({ length: 2600 }, (_, at) => [at + 1] as const));
    for (const query of queries)
      expect(search(query)).toEqual({ hits: oracleNearest(expected, query, 10), exact: true });
  });

  test("counts against the budget", async () => {
    search(queries[0]!);
    const before = database.vectors.bytes;
    await database.vectors.idle();
    expect(database.vectors.bytes).toBeGreaterThan(before + vectors.length * dimension * 4);
  });

  test("is not built where the budget has no room for it", async () => {
    database.close();
    open(vectors.length * (dimension * 4 + 64) * 2);
    expect(search(queries[0]!).exact).toBe(true);
    expect(builds).toBe(0);
    expect(database.vectors.bytes).toBeGreaterThan(0);
  });
});

describe("a build", () => {
  test("that is abandoned leaves neither a file nor an index, before, while and after the worker runs", async () => {
    for (const delayMs of [0, 1, 20, 100, 300]) {
      search(queries[0]!);
      await new Promise<void>((resolve) => void world.after(delayMs, resolve));
      database.vectors.evictAll();
      await database.vectors.idle();
      expect(readdirSync(scratch)).toEqual([]);
      expect([database.vectors.bytes, pool.bytes]).toEqual([0, 0]);
    }
    beforeBuild = () => database.vectors.evictAll();
    search(queries[0]!);
    await database.vectors.idle();
    beforeBuild = () => {};
    expect(search(queries[0]!)).toEqual({ hits: oracleNearest(expected, queries[0]!, 10), exact: true });
    expect(reports).toEqual([]);
  });

  test("that is abandoned stops: it has ended before a later, smaller one", async () => {
    const build = (count: number, abandoned: AbortSignal) => {
      const matrix = new Float32Array(count * dimension);
      for (let row = 0; row < count; row++) matrix.set(unitVector(vectors[row % vectors.length]!), row * dimension);
      return builder(matrix, dimension, count, abandoned);
    };
    const abandon = new AbortController();
    const ended: string[] = [];
    const long = build(60_000, abandon.signal).then((index) => (ended.push("abandoned"), index));
    await new Promise<void>((resolve) => void world.after(50, resolve));
    abandon.abort();
    const short = build(3000, new AbortController().signal).then((index) => (ended.push("short"), index));
    expect(await long).toBeUndefined();
    (await short)!.close();
    expect(ended).toEqual(["abandoned", "short"]);
  });

  test("runs one at a time in a thread", async () => {
    const second = database.write((tx) => {
      const made = openSpace(tx, "memory", "second", dimension);
      vectors.forEach((vector, at) => putVector(tx, made, at + 1, vector));
      return made;
    });
    search(queries[0]!);
    nearest(database.view(), second, queries[0]!, 5);
    expect(builds).toBe(1);
    await database.vectors.idle();
    nearest(database.view(), second, queries[0]!, 5);
    expect(builds).toBe(2);
  });

  test("that fails says so, leaves the search exact, and is not tried again until the space has grown", async () => {
    builder = indexBuilder(join(scratch, "missing"), world, (message) => reports.push(message));
    search(queries[0]!);
    await database.vectors.idle();
    expect(reports).toEqual([expect.stringContaining("could not be built, searches stay exact")]);
    expect(search(queries[0]!)).toEqual({ hits: oracleNearest(expected, queries[0]!, 10), exact: true });
    expect(builds).toBe(1);
    change(clusteredVectors(800, dimension, 40, 16).map((vector, at) => [8000 + at, vector]));
    search(queries[0]!);
    expect(builds).toBe(2);
    await database.vectors.idle();
  });

  test("gives an index whose labels are the rows of the matrix", async () => {
    const matrix = new Float32Array(100 * dimension);
    for (let row = 0; row < 100; row++) matrix.set(unitVector(vectors[row]!), row * dimension);
    const index = await builder(matrix.slice(), dimension, 100, new AbortController().signal);
    const { rows, scores } = index!.search(unitVector(vectors[42]!), 3);
    expect(rows[0]).toBe(42);
    expect(scores[0]).toBeCloseTo(1, 5);
    expect(index!.search(unitVector(vectors[42]!), 500).rows.length).toBeLessThanOrEqual(100);
    index!.close();
  });
});
