/** Which reads go to a process at once: those that were stopped again and again, for a while. */
import { expect, test } from "vitest";
import { LanesUse } from "../../../../src/engine/threads/lanes-use.ts";
import { LongReads } from "../../../../src/engine/threads/long-reads.ts";

test("a read that was stopped three times within five seconds is expected to be long until they are over", () => {
  let nowMs = 0;
  const reads = new LongReads({ monotonicMs: () => nowMs });
  reads.note("u", "memory.recall");
  nowMs = 4_000;
  reads.note("u", "memory.recall");
  expect(reads.expects("u", "memory.recall")).toBe(false);
  reads.note("u", "memory.recall");
  expect(reads.expects("u", "memory.recall")).toBe(true);
  expect([reads.expects("u", "docs.find"), reads.expects("v", "memory.recall")]).toEqual([false, false]);
  nowMs = 4_999;
  expect(reads.expects("u", "memory.recall")).toBe(true);
  nowMs = 5_000;
  expect(reads.expects("u", "memory.recall")).toBe(false);
  reads.note("u", "memory.recall");
  expect(reads.expects("u", "memory.recall")).toBe(false);
});

test("a lane is shared for a second after two tenants had calls on it at once", () => {
  let nowMs = 0;
  const told: [number, number][] = [];
  const use = new LanesUse(2, { monotonicMs: () => nowMs }, (lane, tenants) => told.push([lane, tenants]));
  use.begin(0, "a");
  use.begin(0, "a");
  expect(use.wasShared(0)).toBe(false);
  use.begin(0, "b");
  use.end(0, "b");
  nowMs = 999;
  expect([use.wasShared(0), use.wasShared(1)]).toEqual([true, false]);
  nowMs = 1_000;
  expect(use.wasShared(0)).toBe(false);
  expect(told).toEqual([
    [0, 2],
    [0, 1],
  ]);
});
