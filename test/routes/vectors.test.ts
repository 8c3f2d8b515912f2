/** Collections of vectors, over each wire: metadata and filters, reading, listing, deleting, batches, metrics. */
import { describe, expect, test } from "vitest";
import { ok, useService } from "../support/service.ts";
import { wireNames, type Reply } from "../support/wires.ts";

const service = useService();

describe.each(wireNames)("over %s", (name) => {
  const call = (method: string, request: object): Promise<Reply> =>
    service().wire(name).call(`DataService.${method}`, request);
  const must = (method: string, request: object): Promise<Reply> => ok(call(method, request));
  const ids = (reply: Reply): string[] => reply.body.hits.map(({ id }: { id: string }) => id);

  test("metadata comes back, filters before ranking, and goes with the next upsert without it", async () => {
    const db = await service().database();
    const coll = "c";
    const vectors = Array.from({ length: 300 }, (_, n) => ({
      id: `v${n}`,
      embedding: [1, n / 1_000],
      metadata: { n, even: n % 2 === 0 },
    }));
    expect((await must("UpsertVectors", { db, coll, vectors })).body.upserted).toBe(300);
    await must("UpsertVector", { db, coll, id: "plain", embedding: [1, 0] });
    expect(
      ids(await must("SearchVectors", { db, coll, vector: [1, 0], k: 3, filter: { n: { $gte: 290 }, even: false } })),
    ).toEqual(["v291", "v293", "v295"]);
    const { body } = await must("SearchVectors", { db, coll, vector: [1, 0.005], k: 1 });
    expect(body.hits[0]).toMatchObject({ id: "v5", metadata: { n: 5, even: false } });
    expect(
      (await must("SearchVectors", { db, coll, vector: [1, 0], k: 1, filter: { n: { $exists: false } } })).body.hits,
    ).toEqual([{ id: "plain", distance: 0 }]);
    await must("UpsertVector", { db, coll, id: "v5", embedding: [1, 0.005] });
    expect(Object.keys((await must("GetVector", { db, coll, id: "v5" })).body)).not.toContain("metadata");
  });

  test("a vector is read with its length, listed by id page by page, and deleted for good", async () => {
    const db = await service().database();
    const coll = "c";
    await must("UpsertVectors", {
      db,
      coll,
      vectors: ["b", "a", "c/d", "é"].map((id, at) => ({
        id,
        embedding: [3 * (at + 1), 4 * (at + 1)],
        ...(id === "a" && { metadata: { is: "a" } }),
      })),
    });
    const got = (await must("GetVector", { db, coll, id: "c/d" })).body;
    expect(got.embedding[0]).toBeCloseTo(9, 5);
    expect(got.embedding[1]).toBeCloseTo(12, 5);
    const first = (await must("ListVectors", { db, coll, limit: 2 })).body;
    expect(first.vectors).toEqual([{ id: "a", metadata: { is: "a" } }, { id: "b" }]);
    const second = (await must("ListVectors", { db, coll, limit: 2, cursor: first.next_cursor })).body;
    expect([second.vectors, second.next_cursor]).toEqual([[{ id: "c/d" }, { id: "é" }], null]);
    const { txid } = await must("DeleteVector", { db, coll, id: "c/d" });
    expect((await call("GetVector", { db, coll, id: "c/d" })).code).toBe("not_found");
    expect(ids(await must("SearchVectors", { db, coll, vector: [3, 4] }))).not.toContain("c/d");
    // A vector that is not there, in a collection that is or not: no error, and no transaction id.
    expect((await must("DeleteVector", { db, coll, id: "c/d" })).txid).toBe(txid);
    expect((await must("DeleteVector", { db, coll: "none", id: "a" })).txid).toBe(txid);
    expect((await must("ListVectors", { db, coll: "none" })).body.vectors).toEqual([]);
  });

  test("many are deleted by ids or by a filter, a bounded number at a time", async () => {
    const db = await service().database();
    const coll = "c";
    for (const from of [0, 1_000])
      await must("UpsertVectors", {
        db,
        coll,
        vectors: Array.from({ length: 1_000 }, (_, n) => ({
          id: `v${String(from + n).padStart(4, "0")}`,
          embedding: [1, n],
          metadata: { n: from + n },
        })),
      });
    expect((await must("DeleteVectors", { db, coll, ids: ["v0000", "v0000", "absent"] })).body).toMatchObject({
      deleted: 1,
      next_cursor: null,
    });
    const first = (await must("DeleteVectors", { db, coll, filter: { n: { $gte: 500 } } })).body;
    expect(first).toMatchObject({ deleted: 1_000, next_cursor: expect.any(String) });
    expect(
      (await must("DeleteVectors", { db, coll, filter: { n: { $gte: 500 } }, cursor: first.next_cursor })).body,
    ).toMatchObject({ deleted: 500, next_cursor: null });
    expect((await must("ListVectors", { db, coll, limit: 1_000 })).body.vectors).toHaveLength(499);
    for (const bad of [
      {},
      { ids: ["a"], filter: {} },
      { ids: [""] },
      { filter: { n: { $near: 1 } } },
      { ids: ["a"], cursor: "x" },
    ])
      expect((await call("DeleteVectors", { db, coll, ...bad })).code, JSON.stringify(bad)).toBe("invalid_request");
  });

  test("a batch is stored whole or not at all, and says which vector is wrong", async () => {
    const db = await service().database();
    const good = { id: "good", embedding: [1, 2] };
    const wrong = [
      { id: "short", embedding: [1] },
      { id: "", embedding: [1, 2] },
      { id: "none", embedding: [] },
      { id: "odd", embedding: [1, 2], metadata: { $x: 1 } },
    ];
    for (const bad of wrong)
      expect(await call("UpsertVectors", { db, coll: "c", vectors: [good, bad] })).toMatchObject({
        code: "invalid_request",
        message: expect.stringContaining("vectors[1]") as unknown,
      });
    expect((await call("UpsertVectors", { db, coll: "c", vectors: [] })).code).toBe("invalid_request");
    expect((await must("ListVectors", { db, coll: "c" })).body.vectors).toEqual([]);
  });

  test("dot product and Euclidean distance rank as a plain scan does, also where lengths differ much", async () => {
    const db = await service().database();
    const coll = "c";
    const random = (seed: number): number => (Math.sin(seed * 12.9898) * 43_758.5453) % 1;
    const vectors = Array.from({ length: 500 }, (_, n) => ({
      id: `v${n}`,
      embedding: Array.from({ length: 4 }, (_, at) => Math.fround(random(n * 4 + at + 1) * (n % 50 === 0 ? 100 : 1))),
    }));
    await must("UpsertVectors", { db, coll, vectors });
    const dot = (a: readonly number[], b: readonly number[]): number =>
      a.reduce((sum, value, at) => sum + value * b[at]!, 0);
    for (const vector of [
      [1, 0.5, -0.25, 2],
      [-3, 0.1, 0, 0],
    ]) {
      const scan = (distance: (embedding: readonly number[]) => number): { id: string; distance: number }[] =>
        vectors
          .map(({ id, embedding }) => ({ id, distance: distance(embedding) }))
          .sort((a, b) => a.distance - b.distance)
          .slice(0, 10);
      const expected = {
        dot: scan((embedding) => -dot(vector, embedding)),
        euclid: scan((embedding) => Math.hypot(...embedding.map((value, at) => value - vector[at]!))),
      };
      for (const metric of ["dot", "euclid"] as const) {
        const { hits } = (await must("SearchVectors", { db, coll, vector, metric })).body;
        expect(
          hits.map(({ id }: { id: string }) => id),
          metric,
        ).toEqual(expected[metric].map(({ id }) => id));
        for (const [at, { distance }] of hits.entries())
          expect(distance).toBeCloseTo(expected[metric][at]!.distance, 3);
      }
    }
    expect((await call("SearchVectors", { db, coll, vector: [1, 0, 0, 0], metric: "manhattan" })).message).toContain(
      "cosine, dot or euclid",
    );
  });

  test("a declared metric is the collection's for good, and what its searches mean", async () => {
    const db = await service().database();
    const refused = async (method: string, request: object, words: string): Promise<void> => {
      expect(await call(method, { db, coll: "c", ...request }), JSON.stringify(request)).toMatchObject({
        code: "invalid_request",
        message: expect.stringContaining(words) as unknown,
      });
    };
    await refused("UpsertVector", { id: "a", embedding: [1, 0], metric: "manhattan" }, "cosine, dot or euclid");
    expect((await must("ListVectors", { db, coll: "c" })).body.vectors).toEqual([]);
    await must("UpsertVectors", { db, coll: "c", vectors: [{ id: "near", embedding: [3, 0] }], metric: "euclid" });
    await must("UpsertVector", { db, coll: "c", id: "far", embedding: [1, 0], metric: "euclid" });
    await must("UpsertVector", { db, coll: "c", id: "side", embedding: [3, 4] });
    const { body } = await must("SearchVectors", { db, coll: "c", vector: [3, 0], k: 2 });
    expect(body).toMatchObject({
      metric: "euclid",
      hits: [
        { id: "near", distance: 0 },
        { id: "far", distance: 2 },
      ],
    });
    const words = "collection c has metric euclid";
    await refused("UpsertVector", { id: "x", embedding: [1, 0], metric: "dot" }, words);
    await refused("UpsertVectors", { vectors: [{ id: "x", embedding: [1, 0] }], metric: "cosine" }, words);
    await refused("SearchVectors", { vector: [1, 0], metric: "cosine" }, words);
    // A collection without one is as it always was.
    await must("UpsertVector", { db, coll: "old", id: "a", embedding: [2, 0] });
    await must("UpsertVector", { db, coll: "old", id: "a", embedding: [2, 0], metric: "cosine" });
    expect(await call("UpsertVector", { db, coll: "old", id: "a", embedding: [2, 0], metric: "dot" })).toMatchObject({
      code: "invalid_request",
      message: expect.stringContaining("made without one") as unknown,
    });
    for (const metric of [undefined, "dot", "euclid"])
      expect((await must("SearchVectors", { db, coll: "old", vector: [1, 0], metric })).body.metric).toBeUndefined();
  });

  test("what is near to a stored vector is found by its id, with numbers and without metadata", async () => {
    const db = await service().database();
    const coll = "c";
    await must("UpsertVectors", {
      db,
      coll,
      vectors: [0, 1, 2, 3].map((n) => ({ id: `v${n}`, embedding: [2, n], metadata: { n } })),
    });
    const near = (await must("SearchVectors", { db, coll, id: "v1", k: 2, include_vectors: true })).body.hits;
    expect(near.map(({ id }: { id: string }) => id).toSorted()).toEqual(["v0", "v2"]);
    expect(near.find(({ id }: { id: string }) => id === "v0")).toMatchObject({ embedding: [2, 0], metadata: { n: 0 } });
    const bare = (
      await must("SearchVectors", { db, coll, id: "v0", filter: { n: { $gte: 2 } }, include_metadata: false })
    ).body.hits;
    expect(bare).toEqual([
      { id: "v2", distance: expect.any(Number) },
      { id: "v3", distance: expect.any(Number) },
    ]);
    for (const id of ["none", "v0"])
      expect((await call("SearchVectors", { db, coll: id === "none" ? coll : "other", id })).code).toBe("not_found");
    for (const bad of [{}, { id: "v0", vector: [1, 0] }, { id: "" }])
      expect((await call("SearchVectors", { db, coll, ...bad })).code, JSON.stringify(bad)).toBe("invalid_request");
    const wide = Array.from({ length: 4_096 }, (_, n) => n + 1);
    await must("UpsertVector", { db, coll: "wide", id: "a", embedding: wide });
    expect(
      (await call("SearchVectors", { db, coll: "wide", vector: wide, k: 65, include_vectors: true })).message,
    ).toContain("k must be at most 64");
  });

  test("a listing gives numbers, and only what meets a filter", async () => {
    const db = await service().database();
    const coll = "c";
    const vectors = Array.from({ length: 30 }, (_, n) => ({
      id: `v${String(n).padStart(2, "0")}`,
      embedding: [n + 1, 0],
      metadata: { odd: n % 2 === 1 },
    }));
    await must("UpsertVectors", { db, coll, vectors });
    const first = (
      await must("ListVectors", { db, coll, limit: 8, filter: JSON.stringify({ odd: true }), include_vectors: true })
    ).body;
    expect(first.vectors[0]).toEqual({ id: "v01", embedding: [2, 0], metadata: { odd: true } });
    const request = { db, coll, limit: 8, filter: JSON.stringify({ odd: true }), cursor: first.next_cursor };
    const second = (await must("ListVectors", request)).body;
    expect([...first.vectors, ...second.vectors].map(({ id }) => id)).toEqual(
      vectors.filter(({ metadata }) => metadata.odd).map(({ id }) => id),
    );
    expect(second.next_cursor).toBeNull();
    expect((await call("ListVectors", { db, coll, filter: "{" })).code).toBe("invalid_request");
    // Numbers count against a page: 2 MiB of them are 128 vectors of 4,096.
    const wide = (id: number): object => ({
      id: `w${id}`,
      embedding: Array.from({ length: 4_096 }, (_, n) => n + id + 1),
    });
    for (const from of [0, 50, 100])
      await must("UpsertVectors", { db, coll: "wide", vectors: Array.from({ length: 50 }, (_, n) => wide(from + n)) });
    const page = (await must("ListVectors", { db, coll: "wide", limit: 1_000, include_vectors: true })).body;
    expect(page.vectors.length).toBeLessThan(130);
    expect(page.next_cursor).not.toBeNull();
  });

  test("what is deleted on a branch stays on the other, and a rewind brings it back with its metadata", async () => {
    const db = await service().database();
    await must("UpsertVector", { db, coll: "c", id: "a", embedding: [2, 0], metadata: { x: 1 } });
    await ok(service().wire(name).call("BranchService.CreateCheckpoint", { db, branch: "main", name: "before" }));
    await must("DeleteVector", { db, coll: "c", id: "a" });
    await ok(service().wire(name).call("BranchService.RewindBranch", { db, branch: "main", to: "before" }));
    expect((await must("SearchVectors", { db, coll: "c", vector: [1, 0], metric: "euclid" })).body.hits).toEqual([
      { id: "a", distance: 1, metadata: { x: 1 } },
    ]);
  });
});
