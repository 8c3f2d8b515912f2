/** The kernel that ranks vectors, native or not: how far it may be off, and what it refuses. */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
  cosine,
  kernelFault,
  kernelMargin,
  kernelName,
  rankInJavaScript,
  rankRows,
  unitVector,
} from "../../../../src/model/index/vector-kernel.ts";
import { clusteredVectors } from "../../../support/nearest-oracle.ts";

test("the native kernel is the one in use where it is installed", () => {
  expect({ kernelName, kernelFault }).toEqual({ kernelName: "usearch", kernelFault: undefined });
});

describe.each([
  ["native", rankRows],
  ["plain JavaScript", rankInJavaScript],
])("%s kernel", (_, rank) => {
  test("ranks by inner product, and is within its margin of the true cosine", () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 300 }),
        fc.integer({ min: 1, max: 60 }),
        fc.integer(),
        fc.double({ min: 0, max: 1, noNaN: true }),
        (dimension, count, seed, part) => {
          const vectors = clusteredVectors(count + 1, dimension, 3, seed).map(unitVector);
          const query = vectors.pop()!;
          const matrix = new Float32Array((count + 5) * dimension);
          vectors.forEach((vector, row) => matrix.set(vector, row * dimension));
          const ask = Math.max(1, Math.ceil(part * count));
          const { rows, scores } = rank(matrix, dimension, count, query, ask);
          expect(rows).toHaveLength(ask);
          expect(new Set(Array.from(rows)).size).toBe(ask);
          for (let at = 0; at < ask; at++) {
            expect(rows[at]).toBeLessThan(count);
            expect(Math.abs(scores[at]! - cosine(matrix, dimension, rows[at]!, query))).toBeLessThanOrEqual(
              kernelMargin(dimension),
            );
            if (at > 0) expect(scores[at]!).toBeLessThanOrEqual(scores[at - 1]!);
          }
          const left = vectors.map((_, row) => row).filter((row) => !Array.from(rows).includes(row));
          for (const row of left)
            expect(cosine(matrix, dimension, row, query)).toBeLessThanOrEqual(
              scores[ask - 1]! + kernelMargin(dimension),
            );
        },
      ),
      { numRuns: 100 },
    );
  });
});

test("unit vectors of the smallest and the largest numbers have length 1", () => {
  for (const value of [1.4e-45, 1e-30, 1, 3.4e38]) {
    const unit = unitVector(new Float32Array([value, value, 0, -value]));
    expect(Math.hypot(...unit)).toBeCloseTo(1, 6);
  }
});

test("a view from the middle of a buffer is refused rather than misread", () => {
  const shared = new Float32Array(8).fill(1);
  expect(() => rankRows(shared, 2, 4, shared.subarray(2, 4), 1)).toThrow(/head of their buffers/);
  expect(() => rankRows(shared.subarray(2), 2, 3, new Float32Array([1, 0]), 1)).toThrow(/head of their buffers/);
});
