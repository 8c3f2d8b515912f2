/** Searches by dot product among more vectors than are looked at first, where one length is far from the others. */
import { expect, test } from "vitest";
import { searchVectors } from "../../../../src/model/vectors/vector-search.ts";
import { upsertVectors } from "../../../../src/model/vectors/vector-collections.ts";
import { ModelDatabase } from "../../../support/model-database.ts";

test("a long vector whose direction is the farthest of all is not missed", () => {
  const database = new ModelDatabase();
  try {
    const total = 52_000;
    for (let from = 0; from < total; from += 1_000)
      database.write((tx) =>
        upsertVectors(tx, {
          collection: "c",
          vectors: Array.from({ length: 1_000 }, (_, n) => ({
            id: `v${from + n}`,
            embedding: Float32Array.of(2 - (from + n) / total, (from + n) / total),
          })),
        }),
      );
    // By its direction it is the farthest; by its length it is the nearest.
    database.write((tx) =>
      upsertVectors(tx, { collection: "c", vectors: [{ id: "long", embedding: Float32Array.of(1_000, 3_000) }] }),
    );
    const { hits } = searchVectors(database.view(), {
      collection: "c",
      vector: Float32Array.of(1, 0),
      k: 2,
      metric: "dot",
    });
    expect(hits.map(({ id }) => id)).toEqual(["long", "v0"]);
  } finally {
    database.close();
  }
});
