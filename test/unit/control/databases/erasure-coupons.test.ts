import { describe, expect, test } from "vitest";
import type { ServiceError } from "../../../../src/base/faults/errors.ts";
import { StoreError } from "../../../../src/base/faults/errors.ts";
import { limits } from "../../../../src/base/limits.ts";
import { silentLog, type Log } from "../../../../src/base/log.ts";
import { realWorld } from "../../../../src/base/world.ts";
import {
  ErasureCoupons,
  erasuresListBytesMax,
  erasureMarkerMs,
} from "../../../../src/control/databases/erasure-coupons.ts";
import { decodeCoupon, encodeCoupon, type ErasureCoupon } from "../../../../src/format/erasure/erasure-coupon.ts";
import { receiptPayload, type ErasureReceipt } from "../../../../src/format/erasure/erasure-receipt.ts";
import { erasureCouponKey, erasureMarkerKey } from "../../../../src/format/keys/object-keys.ts";
import type { VersionPurge } from "../../../../src/store/port/object-store.ts";
import { openStore } from "../../../../src/store/open-store.ts";
import { countingBytes, sampleCoupon, sampleEvidence } from "../../../support/format-samples.ts";
import { ScriptedStore } from "../../../support/scripted-store.ts";
import { setWorld } from "../../../support/set-world.ts";
import { temporaryDirectory } from "../../../support/temporary.ts";

const startMs = 1_700_000_000_000;
const uuid = sampleCoupon.uuid;
const otherUuid = "11111111-2222-3333-4444-555555555555";
const { traces } = sampleCoupon;

/** The id of the n-th erasure. */
const idOf = (n: number): string => `ers_01HF7YAT${String(n).padStart(18, "0")}`;
const buildBegun = (n: number, of = uuid): ErasureCoupon => ({
  ...sampleCoupon,
  id: idOf(n),
  uuid: of,
  status: "begun",
  memoryIds: [],
  points: [],
  blockedBy: undefined,
  waitingFor: undefined,
  traces: undefined,
});
const erased = (coupon: ErasureCoupon): ErasureCoupon => ({
  ...coupon,
  status: "pending",
  memoryIds: sampleCoupon.memoryIds,
  points: sampleCoupon.points,
  traces,
});
const blocked = (coupon: ErasureCoupon): ErasureCoupon => ({
  ...coupon,
  status: "blocked",
  blockedBy: { checkpoints: ["main/x"], branches: [] },
});
const completed = (coupon: ErasureCoupon): ErasureCoupon => ({
  ...coupon,
  status: "completed",
  completedAtMs: startMs + 5,
  receipt: buildReceipt(coupon),
});
const buildReceipt = (coupon: ErasureCoupon): ErasureReceipt => ({
  payload: receiptPayload(coupon, startMs + 5, sampleEvidence),
  alg: "EdDSA",
  kid: "k",
  sig: "A".repeat(86),
});

interface Kept {
  readonly store: ScriptedStore;
  readonly coupons: ErasureCoupons;
  readonly clock: { now: number; aheadMs: number };
  readonly logged: string[];
  unfinished(uuid?: string): Promise<string[]>;
}

function kept(): Kept {
  const clock = setWorld(startMs);
  const store = new ScriptedStore(() => clock.now);
  const logged: string[] = [];
  const log: Log = { ...silentLog, warn: (message) => logged.push(message), error: (message) => logged.push(message) };
  const coupons = new ErasureCoupons({ store, world: clock.world, log });
  const unfinished = async (of?: string): Promise<string[]> => {
    const ids: string[] = [];
    for await (const { id } of coupons.unfinished({ uuid: of })) ids.push(id);
    return ids;
  };
  return { store, coupons, clock, logged, unfinished };
}

const alreadyThere = expect.objectContaining({ name: "ServiceError", code: "already_exists" }) as ServiceError;
const matchFault = (kind: string): StoreError => expect.objectContaining({ name: "StoreError", kind }) as StoreError;

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
