/** Random inputs on every wire of a node: it answers each, holds nothing of them, and lets nobody wait. */
import { expect, test } from "vitest";
import { fuzzWires } from "./wires.ts";

test("ten thousand inputs with structure: no fault, no stall, nothing held", async () => {
  const { inputs, findings, longestMs, leftMiB, heldBytes, answers } = await fuzzWires(10_000, 20_261);
  expect(findings).toEqual([]);
  expect([inputs, heldBytes]).toEqual([10_000, 0]);
  // Most inputs must come further than the door to be worth anything.
  expect((answers["200"] ?? 0) + (answers["201"] ?? 0)).toBeGreaterThan(1_000);
  expect(longestMs).toBeLessThan(200);
  expect(leftMiB).toBeLessThan(32);
}, 300_000);
