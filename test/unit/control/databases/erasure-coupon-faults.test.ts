/** What a failure leaves behind of an erasure coupon and its marker, and how it is found and put right. */
import { describe, expect, test } from "vitest";
import { StoreError } from "../../../../src/base/faults/errors.ts";
import { silentLog } from "../../../../src/base/log.ts";
import { ErasureCoupons, erasureMarkerMs } from "../../../../src/control/databases/erasure-coupons.ts";
import { erasureCouponKey, erasureMarkerKey } from "../../../../src/format/keys/object-keys.ts";
import type { VersionPurge } from "../../../../src/store/port/object-store.ts";
import { ScriptedStore } from "../../../support/scripted-store.ts";
import { setWorld } from "../../../support/set-world.ts";
import {
  startMs,
  uuid,
  idOf,
  buildBegun,
  erased,
  completed,
  type Kept,
  kept,
  matchFault,
} from "../../../support/kept-coupons.ts";

describe("what a failure leaves behind", () => {
  test("F85: no coupon stands without its marker, wherever putting it ends", async () => {
    for (const [verb, fate] of [
      ["erasing/", "refused"],
      ["erasing/", "requestLost"],
      ["erasures/", "refused"],
      ["erasures/", "requestLost"],
      ["erasures/", "answerLost"],
    ] as const) {
      const { coupons, store, unfinished } = kept();
      store.decideFate = (request, key) => (request === "put" && key.startsWith(verb) ? fate : "fine");
      const outcome = await coupons.begin(buildBegun(1)).then(
        () => "begun",
        (error: unknown) => (error as StoreError).kind,
      );
      store.decideFate = () => "fine";
      const [coupon, marker] = [
        store.read(erasureCouponKey(uuid, idOf(1))),
        store.read(erasureMarkerKey(uuid, idOf(1))),
      ];
      if (coupon) expect(marker, `${verb} ${fate}`).toBeDefined();
      expect(outcome === "begun", `${verb} ${fate}`).toBe(fate === "answerLost");
      expect(await unfinished()).toEqual(coupon ? [idOf(1)] : []);
    }
  });

  test("F85: a coupon that was put although its caller gave up is found by its marker", async () => {
    const { coupons, store, unfinished } = kept();
    const { promise: late, resolve } = Promise.withResolvers<void>();
    store.decideFate = (verb, key) => (verb === "put" && key.startsWith("erasures/") ? { late } : "fine");
    await expect(coupons.begin(buildBegun(1))).rejects.toThrow(matchFault("unknown_outcome"));
    store.decideFate = () => "fine";
    expect(await unfinished()).toEqual([]);
    resolve();
    await late;
    expect(await unfinished()).toEqual([idOf(1)]);
  });

  test("a marker without a coupon is left alone while its coupon may be on its way, and then removed", async () => {
    const { coupons, store, clock, unfinished } = kept();
    store.decideFate = (verb, key) => (verb === "put" && key.startsWith("erasures/") ? "refused" : "fine");
    await expect(coupons.begin(buildBegun(1))).rejects.toThrow(matchFault("unavailable"));
    store.decideFate = () => "fine";
    clock.now += erasureMarkerMs;
    expect(await unfinished()).toEqual([]);
    expect(store.keys("erasing/")).toHaveLength(1);
    clock.now += 1;
    expect(await unfinished(uuid)).toEqual([]);
    expect(store.keys()).toEqual([]);
  });

  test("F42: nor is it removed by a node whose clock has come to be ahead", async () => {
    const { coupons, store, clock, unfinished } = kept();
    store.decideFate = (verb, key) => (verb === "put" && key.startsWith("erasures/") ? "refused" : "fine");
    await expect(coupons.begin(buildBegun(1))).rejects.toThrow(matchFault("unavailable"));
    clock.aheadMs = 4 * 86_400_000;
    expect(await unfinished()).toEqual([]);
    expect(store.keys("erasing/")).toHaveLength(1);
  });

  test("an erasure that took so long to note that its marker may be gone does not begin", async () => {
    const clock = setWorld(startMs);
    const store = new ScriptedStore(() => clock.now);
    let monotonicMs = 0;
    const coupons = new ErasureCoupons({
      store,
      world: { ...clock.world, monotonicMs: () => monotonicMs },
      log: silentLog,
    });
    store.watch = (key) => (monotonicMs += key.startsWith("erasures/") ? erasureMarkerMs / 2 : 0);
    await expect(coupons.begin(buildBegun(1))).rejects.toThrow(matchFault("unavailable"));
    expect(store.keys()).toEqual([]);
  });

  test("the marker of a completed coupon is removed by whoever sees it", async () => {
    for (const sees of [
      (one: Kept) => one.unfinished(),
      (one: Kept) => one.coupons.change(uuid, idOf(1), () => undefined),
    ]) {
      const one = kept();
      await one.coupons.begin(buildBegun(1));
      await one.coupons.change(uuid, idOf(1), erased);
      one.store.decideFate = (verb) => (verb === "delete" ? "refused" : "fine");
      expect((await one.coupons.change(uuid, idOf(1), completed)).status).toBe("completed");
      expect(one.store.keys("erasing/")).toHaveLength(1);
      expect(one.logged).toHaveLength(1);
      expect(await one.unfinished()).toEqual([]);
      expect(one.store.keys("erasing/")).toHaveLength(1);
      one.store.decideFate = () => "fine";
      await sees(one);
      expect(one.store.keys("erasing/")).toEqual([]);
    }
  });

  test("earlier versions of a coupon are purged before the marker goes, and tried again until they are", async () => {
    const { coupons, store, logged, unfinished } = kept();
    const purged: string[] = [];
    let purge = async (): Promise<VersionPurge> => ({ versioned: true, removed: 2, uploadsAborted: 0, locked: 0 });
    const purgeVersions = (prefix: string): Promise<VersionPurge> => (purged.push(prefix), purge());
    Object.assign(store, { purgeVersions });
    for (const n of [1, 2, 3]) await coupons.begin(buildBegun(n)).then(() => coupons.change(uuid, idOf(n), erased));
    await coupons.change(uuid, idOf(1), completed);
    expect(purged).toEqual([erasureCouponKey(uuid, idOf(1))]);
    purge = () => Promise.reject(new StoreError("misconfigured", "not allowed"));
    expect((await coupons.change(uuid, idOf(2), completed)).status).toBe("completed");
    expect(store.keys("erasing/")).toEqual([2, 3].map((n) => erasureMarkerKey(uuid, idOf(n))));
    expect(logged).toHaveLength(1);
    purge = async () => ({ versioned: true, removed: 0, uploadsAborted: 0, locked: 1 });
    expect(await unfinished()).toEqual([idOf(3)]);
    expect(store.keys("erasing/")).toEqual([erasureMarkerKey(uuid, idOf(3))]);
    expect(logged[1]).toContain("locked");
  });

  test("a rotten coupon is an error to who asks for it, and hides no other in a list", async () => {
    const { coupons, store, logged, unfinished } = kept();
    for (const n of [1, 2, 3]) await coupons.begin(buildBegun(n));
    store.spoil(erasureCouponKey(uuid, idOf(2)), (bytes) => bytes.with(60, bytes[60]! ^ 1));
    await expect(coupons.get(uuid, idOf(2))).rejects.toThrow(matchFault("corrupt"));
    await expect(coupons.change(uuid, idOf(2), erased)).rejects.toThrow(matchFault("corrupt"));
    await expect(coupons.discard(uuid, idOf(2))).rejects.toThrow(matchFault("corrupt"));
    expect(await unfinished()).toEqual([1, 3].map(idOf));
    expect((await coupons.list(uuid)).coupons.map(({ id }) => id)).toEqual([3, 1].map(idOf));
    expect(logged).toHaveLength(2);
    // Its marker stays: what it was is not known.
    expect(store.keys("erasing/")).toHaveLength(3);
  });

  test("a coupon under another one's key is taken for rotten", async () => {
    const { coupons, store } = kept();
    for (const n of [1, 2]) await coupons.begin(buildBegun(n));
    store.spoil(erasureCouponKey(uuid, idOf(2)), () => store.read(erasureCouponKey(uuid, idOf(1)))!.bytes);
    await expect(coupons.get(uuid, idOf(2))).rejects.toThrow(matchFault("corrupt"));
  });

  test("F96: a store that does not answer is an error, never an empty list", async () => {
    const { coupons, store, unfinished } = kept();
    await coupons.begin(buildBegun(1));
    for (const verb of ["list", "get"]) {
      store.decideFate = (request) => (request === verb ? "refused" : "fine");
      await expect(unfinished()).rejects.toThrow(matchFault("unavailable"));
      await expect(coupons.list(uuid)).rejects.toThrow(matchFault("unavailable"));
    }
  });
});
