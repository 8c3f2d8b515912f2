/** The coupons of erasures in object storage: their life, changes that race, and their list. */
import { describe, expect, test } from "vitest";
import type { ServiceError } from "../../../../src/base/faults/errors.ts";
import { limits } from "../../../../src/base/limits.ts";
import { silentLog } from "../../../../src/base/log.ts";
import { realWorld } from "../../../../src/base/world.ts";
import { ErasureCoupons, erasuresListBytesMax } from "../../../../src/control/databases/erasure-coupons.ts";
import { decodeCoupon, encodeCoupon, type ErasureCoupon } from "../../../../src/format/erasure/erasure-coupon.ts";
import { erasureCouponKey, erasureMarkerKey } from "../../../../src/format/keys/object-keys.ts";
import { openStore } from "../../../../src/store/open-store.ts";
import { countingBytes } from "../../../support/format-samples.ts";
import { temporaryDirectory } from "../../../support/temporary.ts";
import {
  startMs,
  uuid,
  traces,
  idOf,
  buildBegun,
  erased,
  completed,
  kept,
  matchFault,
} from "../../../support/kept-coupons.ts";

const otherUuid = "11111111-2222-3333-4444-555555555555";

const blocked = (coupon: ErasureCoupon): ErasureCoupon => ({
  ...coupon,
  status: "blocked",
  blockedBy: { checkpoints: ["main/x"], branches: [] },
});

const alreadyThere = expect.objectContaining({ name: "ServiceError", code: "already_exists" }) as ServiceError;

describe("the life of a coupon", () => {
  test("erasure-06: a coupon is created if absent, and only once", async () => {
    const { coupons, store } = kept();
    await coupons.begin(buildBegun(1));
    await expect(coupons.begin({ ...buildBegun(1), database: "other" })).rejects.toThrow(alreadyThere);
    expect(await coupons.get(uuid, idOf(1))).toEqual(buildBegun(1));
    expect(store.keys()).toEqual([erasureMarkerKey(uuid, idOf(1)), erasureCouponKey(uuid, idOf(1))]);
    expect(await coupons.get(uuid, idOf(2))).toBeUndefined();
    expect(await coupons.get(otherUuid, idOf(1))).toBeUndefined();
  });

  test("erasure-06: of many nodes that create the same coupon at once one wins", async () => {
    const location = { kind: "file", directory: temporaryDirectory() } as const;
    const nodes = await Promise.all(
      Array.from(
        { length: 8 },
        async () =>
          new ErasureCoupons({ store: await openStore(location, realWorld()), world: realWorld(), log: silentLog }),
      ),
    );
    const outcomes = await Promise.allSettled(
      nodes.map((node, index) => node.begin({ ...buildBegun(1), database: `node-${index}` })),
    );
    const winners = outcomes.flatMap(({ status }, index) => (status === "fulfilled" ? [index] : []));
    expect(winners).toHaveLength(1);
    for (const outcome of outcomes) if (outcome.status === "rejected") expect(outcome.reason).toEqual(alreadyThere);
    for (const node of nodes) expect((await node.get(uuid, idOf(1)))?.database).toBe(`node-${winners[0]}`);
  });

  test("erasure-06: unfinished are those that began, are pending or blocked, of one database or of all", async () => {
    const { coupons, unfinished } = kept();
    for (const n of [1, 2, 3, 4]) await coupons.begin(buildBegun(n));
    await coupons.begin(buildBegun(5, otherUuid));
    for (const n of [2, 3, 4]) await coupons.change(uuid, idOf(n), erased);
    await coupons.change(uuid, idOf(3), blocked);
    await coupons.change(uuid, idOf(4), completed);
    expect(await unfinished(uuid)).toEqual([1, 2, 3].map(idOf));
    expect(await unfinished(otherUuid)).toEqual([idOf(5)]);
    expect(await unfinished()).toEqual([1, 2, 3, 5].map(idOf));
  });

  test("completion destroys the traces, then removes the marker, and is for good", async () => {
    const { coupons, store } = kept();
    await coupons.begin(buildBegun(1));
    await coupons.change(uuid, idOf(1), erased);
    await coupons.change(uuid, idOf(1), (coupon) => ({ ...blocked(coupon), waitingFor: "x" }));
    const changes: string[] = [];
    store.watch = (key, _, after) => changes.push(`${after ? "put" : "delete"} ${key}`);
    const done = await coupons.change(uuid, idOf(1), completed);
    expect(done).toMatchObject({
      status: "completed",
      traces: undefined,
      blockedBy: undefined,
      waitingFor: undefined,
      completedAtMs: startMs + 5,
    });
    expect(changes).toEqual([`put ${erasureCouponKey(uuid, idOf(1))}`, `delete ${erasureMarkerKey(uuid, idOf(1))}`]);
    expect(Buffer.from(store.read(erasureCouponKey(uuid, idOf(1)))!.bytes).includes('traces":{"key')).toBe(false);
    expect(await coupons.change(uuid, idOf(1), () => expect.unreachable())).toEqual(done);
    expect(await coupons.get(uuid, idOf(1))).toEqual(done);
  });

  test("a coupon whose target was unknown is discarded with its marker; one that has come further stays", async () => {
    const { coupons, store, unfinished } = kept();
    for (const n of [1, 2]) await coupons.begin(buildBegun(n));
    await coupons.change(uuid, idOf(2), erased);
    for (const n of [1, 2, 3]) await coupons.discard(uuid, idOf(n));
    expect(store.keys()).toEqual([erasureMarkerKey(uuid, idOf(2)), erasureCouponKey(uuid, idOf(2))]);
    expect(await unfinished()).toEqual([idOf(2)]);
  });

  test("a coupon cannot be changed into that of another erasure, nor one that is not there into anything", async () => {
    const { coupons } = kept();
    await coupons.begin(buildBegun(1));
    await expect(coupons.change(uuid, idOf(1), (coupon) => ({ ...coupon, id: idOf(2) }))).rejects.toThrow(/invariant/);
    await expect(coupons.change(uuid, idOf(2), () => expect.unreachable())).rejects.toThrow(matchFault("corrupt"));
    expect(await coupons.change(uuid, idOf(1), () => undefined)).toEqual(buildBegun(1));
  });
});

describe("changes that race", () => {
  test("are all made, each upon the others", async () => {
    const location = { kind: "file", directory: temporaryDirectory() } as const;
    const nodes = await Promise.all(
      Array.from(
        { length: 4 },
        async () =>
          new ErasureCoupons({ store: await openStore(location, realWorld()), world: realWorld(), log: silentLog }),
      ),
    );
    await nodes[0]!.begin(buildBegun(1));
    const counted = (coupon: ErasureCoupon): ErasureCoupon => ({
      ...coupon,
      waitingFor: String(Number(coupon.waitingFor ?? 0) + 1),
    });
    await Promise.all(nodes.flatMap((node) => Array.from({ length: 5 }, () => node.change(uuid, idOf(1), counted))));
    expect((await nodes[0]!.get(uuid, idOf(1)))?.waitingFor).toBe("20");
  });

  test("to completion give every caller the one receipt", async () => {
    const { coupons, store } = kept();
    await coupons.begin(buildBegun(1));
    await coupons.change(uuid, idOf(1), erased);
    const all = await Promise.all(
      Array.from({ length: 6 }, (_, n) =>
        coupons.change(uuid, idOf(1), (coupon) => ({ ...completed(coupon), completedAtMs: startMs + n })),
      ),
    );
    expect(new Set(all.map(({ completedAtMs }) => completedAtMs)).size).toBe(1);
    expect(store.keys("erasing/")).toEqual([]);
  });

  test("tell their own put from one of the same content by another node", async () => {
    const { coupons, store } = kept();
    await coupons.begin(buildBegun(1));
    const waiting = (coupon: ErasureCoupon): ErasureCoupon => ({
      ...coupon,
      waitingFor: `${coupon.waitingFor ?? ""}x`,
    });
    let lost = 1;
    store.decideFate = (verb) => (verb === "put" && lost-- > 0 ? "answerLost" : "fine");
    expect((await coupons.change(uuid, idOf(1), waiting)).waitingFor).toBe("x");
    expect((await coupons.get(uuid, idOf(1)))?.waitingFor).toBe("x");
  });

  test("end when the store keeps no promise", async () => {
    const { coupons, store } = kept();
    await coupons.begin(buildBegun(1));
    const key = erasureCouponKey(uuid, idOf(1));
    let n = 0;
    const change = coupons.change(uuid, idOf(1), (coupon) => {
      store.spoil(key, () => encodeCoupon(coupon, countingBytes(16, n++ & 0xff)));
      return { ...coupon, waitingFor: "x" };
    });
    await expect(change).rejects.toThrow(matchFault("unavailable"));
    expect(n).toBeGreaterThan(10);
  });
});

describe("a list of coupons", () => {
  test("has a database's coupons only, newest first, in parts that can be gone through", async () => {
    const { coupons, store } = kept();
    const count = 2 * limits.erasuresListMax;
    const nonce = countingBytes(16, 1);
    for (let n = 0; n < count; n++)
      await store.calm.put(erasureCouponKey(uuid, idOf(n)), encodeCoupon(buildBegun(n), nonce), { kind: "absent" });
    await coupons.begin(buildBegun(count, otherUuid));
    await store.calm.put(`erasures/${uuid}/foreign`, countingBytes(3, 1), { kind: "absent" });
    const seen: string[] = [];
    let parts = 0;
    for (let before: string | undefined; ; parts++) {
      const page = await coupons.list(uuid, before);
      expect(page.coupons.length).toBeLessThanOrEqual(limits.erasuresListMax);
      seen.push(...page.coupons.map(({ id }) => id));
      if (page.next === undefined) break;
      before = page.next;
    }
    expect(seen).toEqual(Array.from({ length: count }, (_, n) => idOf(count - 1 - n)));
    expect(parts).toBe(1);
    expect(await coupons.list("22222222-2222-3333-4444-555555555555")).toEqual({ coupons: [], next: undefined });
  });

  test("ends early when its coupons are large, and never before the first", async () => {
    const { coupons, store } = kept();
    const windows = new Uint8Array(limits.erasureCouponBytesMax * 0.7);
    const large = (n: number): ErasureCoupon => ({ ...erased(buildBegun(n)), traces: { ...traces!, windows } });
    const bytes = encodeCoupon(large(0), countingBytes(16, 1)).length;
    const fitting = Math.floor(erasuresListBytesMax / bytes);
    for (let n = 0; n <= fitting; n++)
      await store.calm.put(erasureCouponKey(uuid, idOf(n)), encodeCoupon(large(n), countingBytes(16, 1)), {
        kind: "absent",
      });
    const first = await coupons.list(uuid);
    expect(first.coupons).toHaveLength(fitting);
    const rest = await coupons.list(uuid, first.next);
    expect(rest.coupons.map(({ id }) => id)).toEqual([idOf(0)]);
    expect(rest.next).toBeUndefined();
  });
});

test("what lies in the store is a coupon of the format", async () => {
  const { coupons, store } = kept();
  await coupons.begin(buildBegun(1));
  expect(decodeCoupon(store.read(erasureCouponKey(uuid, idOf(1)))!.bytes)).toEqual(buildBegun(1));
  expect(Buffer.from(store.read(erasureMarkerKey(uuid, idOf(1)))!.bytes).toString()).toBe(idOf(1));
});
