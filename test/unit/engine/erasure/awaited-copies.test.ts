/** Which erasures wait for which copies. */
import { describe, expect, test } from "vitest";
import { judgeCopies, mustCountAnew } from "../../../../src/engine/erasure/awaited-copies.ts";
import type { ErasedCoupon } from "../../../../src/engine/api/protocol.ts";
import type { CopyRecord } from "../../../../src/format/records/copy-record.ts";
import type { AwaitedCopies } from "../../../../src/format/erasure/erasure-coupon.ts";

const uuid = "00000000-0000-4000-8000-000000000001";
const record = (node: string, copy: string, more: Partial<CopyRecord> = {}): CopyRecord => ({
  uuid,
  node,
  copy,
  name: "",
  createdAtMs: 1,
  purged: undefined,
  ...more,
});
const purged = (filesRemoved: number): Pick<CopyRecord, "purged"> => ({ purged: { atMs: 2, filesRemoved } });
const traces = { key: new Uint8Array(32), windows: new Uint8Array(0), windowsTotal: 0 };
const coupon = (id: string, awaiting?: AwaitedCopies, memoryIds: readonly string[] = []): ErasedCoupon => ({
  id,
  memoryIds,
  points: [],
  traces,
  isDue: true,
  ...(awaiting && { awaiting }),
});
const awaiting = (...copies: readonly (readonly [node: string, copy: string])[]): AwaitedCopies => ({
  branches: ["main"],
  copies: copies.map(([node, copy]) => ({ node, copy })),
});
const judge = (records: readonly CopyRecord[], ...coupons: readonly ErasedCoupon[]): ReturnType<typeof judgeCopies> =>
  judgeCopies(records, "me", ["main"], coupons);

describe("an erasure", () => {
  test("waits for nothing where this node's copy is the only one", () => {
    expect(judge([record("me", "1")], coupon("x"))).toMatchObject({
      found: undefined,
      free: [{ id: "x" }],
      waitingFor: undefined,
    });
  });

  test("counts all copies that stand when it is cut, and waits for those of the others", () => {
    const verdict = judge(
      [record("me", "1"), record("b", "2", { name: "beta" }), record("c", "3"), record("d", "4", purged(1))],
      coupon("x"),
    );
    expect(verdict.found).toEqual({
      x: {
        awaiting: awaiting(["me", "1"], ["b", "2"], ["c", "3"]),
        holding: [
          { node: "b", copy: "2" },
          { node: "c", copy: "3" },
        ],
        purged: [],
        unattested: [],
      },
    });
    expect(verdict.free).toEqual([]);
    expect(verdict.waitingFor).toBe("a copy on node beta (b) and on 1 more");
  });

  test("waits for the copies that were counted, not for later ones, and tells what each node has said", () => {
    const counted = awaiting(["me", "1"], ["b", "2"], ["b", "3"], ["c", "4"], ["gone", "5"]);
    const records = [
      record("me", "1"),
      record("b", "2", purged(2)),
      record("b", "3", purged(3)),
      record("b", "6"),
      record("c", "4", purged(0)),
      record("new", "7"),
    ];
    const verdict = judge(records, coupon("x", counted));
    expect(verdict.free.map(({ id }) => id)).toEqual(["x"]);
    expect(verdict.found?.["x"]).toEqual({
      awaiting: counted,
      holding: [],
      purged: [
        { node: "b", files_scrubbed: 0, files_removed: 5 },
        { node: "c", files_scrubbed: 0, files_removed: 0 },
      ],
      unattested: ["gone"],
    });
  });

  test("that waits keeps no other one from its end", () => {
    const verdict = judge([record("b", "2")], coupon("old", awaiting(["b", "1"])), coupon("new"));
    expect(verdict.free.map(({ id }) => id)).toEqual(["old"]);
    expect(verdict.waitingFor).toBe("a copy on node b");
  });

  test("names a node that was given up if it can have had some of what was erased", () => {
    const forgotten = record("b", "2", { forgottenAtMs: Date.UTC(2024, 0, 1) });
    const [before, after] = ["mem_01GP3J2M000000000000000000", "mem_01J1RDH0000000000000000000"];
    expect(judge([forgotten], coupon("x", undefined, [after])).found).toBeUndefined();
    expect(judge([forgotten], coupon("x", undefined, [after, before])).found?.["x"]).toMatchObject({
      holding: [],
      unattested: ["b"],
    });
    expect(judge([forgotten], coupon("x")).found?.["x"]).toMatchObject({ unattested: ["b"] });
    expect(judge([forgotten], coupon("x")).free).toHaveLength(1);
  });

  test("has its copies counted anew only for a branch that was not cut when they were", () => {
    expect(mustCountAnew([coupon("x", awaiting(["b", "1"])), coupon("y")], ["main"])).toBe(false);
    expect(mustCountAnew([coupon("x", awaiting(["b", "1"]))], ["main", "other"])).toBe(true);
    expect(mustCountAnew([coupon("y")], ["other"])).toBe(false);
    expect(mustCountAnew([coupon("x", awaiting(["b", "1"]))], [])).toBe(false);
  });
});
