/**
 * The names that erasures have erased: thousands of coupons of a real store are each read once, and what a batch is
 * told is what it names.
 */
import { describe, expect, test } from "vitest";
import { silentLog } from "../../../../src/base/log.ts";
import { realWorld } from "../../../../src/base/world.ts";
import { ErasureCoupons } from "../../../../src/control/databases/erasure-coupons.ts";
import { encodeCoupon, type ErasureCoupon } from "../../../../src/format/erasure/erasure-coupon.ts";
import type { ErasureTarget } from "../../../../src/format/erasure/erasure-receipt.ts";
import { erasureCouponKey } from "../../../../src/format/keys/object-keys.ts";
import { ErasedBooks } from "../../../../src/service/erasure/erased-books.ts";
import { MemoryStore } from "../../../../src/store/memory-store.ts";
import type { ObjectStore } from "../../../../src/store/port/object-store.ts";
import { buildBegun, erased, idOf, startMs, uuid } from "../../../support/kept-coupons.ts";
import { countingBytes } from "../../../support/format-samples.ts";

const memoryId = (n: number): string => `mem_01HF7YAT${String(n).padStart(18, "0")}`;

interface Shop {
  readonly store: ObjectStore;
  readonly names: ErasedBooks;
  readonly asked: { gets: number; lists: number };
  put(n: number, target: ErasureTarget, more?: Partial<ErasureCoupon>): Promise<void>;
}

/** A store that counts what is read of it. */
function open(namesMax?: number): Shop {
  const store = new MemoryStore(realWorld());
  const asked = { gets: 0, lists: 0 };
  const counted: ObjectStore = Object.assign(Object.create(store) as ObjectStore, {
    get: (key: string) => (asked.gets++, store.get(key)),
    list: (...given: Parameters<ObjectStore["list"]>) => (asked.lists++, store.list(...given)),
  });
  const coupons = new ErasureCoupons({ store: counted, world: realWorld(), log: silentLog });
  return {
    store,
    asked,
    names: new ErasedBooks(coupons, namesMax),
    async put(n, target, more = {}) {
      const begun = { ...buildBegun(n, more.uuid), target, requestedAtMs: startMs + n };
      const taken = { records: [], ...(target.kind === "subject" && { kinds: {} }), memoryIds: [], ...more };
      const coupon = more.status === "begun" ? begun : { ...erased(begun), ...taken };
      const key = erasureCouponKey(coupon.uuid, coupon.id);
      const current = await store.get(key);
      await store.put(
        key,
        encodeCoupon(coupon, countingBytes(16, 1)),
        current ? { kind: "version", version: current.version } : { kind: "absent" },
      );
    },
  };
}

describe("of thousands of coupons", () => {
  test("each is read once, and a batch is told of those that it names", async () => {
    const shop = open();
    for (let n = 0; n < 3_000; n++)
      await shop.put(n, { kind: "key", ns: "n", key: `k${n}` }, { memoryIds: [memoryId(n)] });
    const first = await shop.names.of(uuid);
    expect(shop.asked.gets).toBe(3_000);
    for (let batch = 0; batch < 100; batch++) {
      const found = first.find([new Set(["n", `k${batch}`, memoryId(batch + 1), memoryId(9_999)])]);
      expect(found).toEqual({
        memoryIds: [memoryId(batch + 1)],
        targets: [{ target: { kind: "key", ns: "n", key: `k${batch}` }, untilMs: startMs + batch }],
      });
    }
    expect(shop.asked.gets).toBe(3_000);

    await shop.put(3_000, { kind: "path", path: "a" });
    const { lists } = shop.asked;
    const second = await shop.names.of(uuid);
    expect([shop.asked.gets, shop.asked.lists - lists]).toEqual([3_001, 4]);
    expect(second.find([new Set(["a", "a/b"])]).targets).toHaveLength(1);
    expect(second.find([new Set(["n", "k7"])]).targets).toHaveLength(1);
  });

  test("one that has only begun is read again, until it is known what it took", async () => {
    const shop = open();
    await shop.put(1, { kind: "subject", subject: "ada" }, { status: "begun" });
    expect((await shop.names.of(uuid)).find([])).toEqual({
      memoryIds: [],
      targets: [{ target: { kind: "subject", subject: "ada" }, untilMs: startMs + 1 }],
    });
    await shop.put(1, { kind: "subject", subject: "ada" }, { memoryIds: [memoryId(5)] });
    const known = await shop.names.of(uuid);
    expect(known.find([new Set([memoryId(5)])])).toMatchObject({ memoryIds: [memoryId(5)], targets: [{}] });
    await shop.names.of(uuid);
    expect(shop.asked.gets).toBe(2);
    await shop.store.delete(erasureCouponKey(uuid, idOf(1)));
    await shop.put(2, { kind: "subject", subject: "bo" }, { status: "begun", uuid: other(2) });
    expect((await shop.names.of(other(2))).isEmpty).toBe(false);
    await shop.store.delete(erasureCouponKey(other(2), idOf(2)));
    expect((await shop.names.of(other(2))).isEmpty).toBe(true);
  });

  test("one that a slower clock has named comes to light though newer ones were read", async () => {
    const shop = open();
    await shop.put(9, { kind: "path", path: "new" });
    await shop.names.of(uuid);
    await shop.put(2, { kind: "path", path: "old" });
    expect((await shop.names.of(uuid)).find([new Set(["old"])]).targets).toHaveLength(1);
  });

  test("no more names are kept than the bound allows; a database with more is refused by name", async () => {
    const shop = open(10);
    for (let n = 0; n < 4; n++) await shop.put(n, { kind: "path", path: `p${n}` });
    for (let n = 0; n < 4; n++) await shop.put(n, { kind: "path", path: `p${n}` }, { uuid: other(1) });
    await shop.names.of(uuid);
    await shop.names.of(other(1));
    await shop.names.of(other(1));
    expect(shop.asked.gets).toBe(8);
    await shop.names.of(uuid);
    expect(shop.asked.gets).toBe(12);
    await shop.put(4, { kind: "path", path: "p4" }, { memoryIds: [memoryId(1)] });
    await expect(shop.names.of(uuid)).rejects.toMatchObject({
      code: "invalid_request",
      message: expect.stringContaining("more than 10 records and memories"),
    });
  });
});

const other = (n: number): string => `11111111-2222-3333-4444-${String(n).padStart(12, "0")}`;
