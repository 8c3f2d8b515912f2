/** Keys of objects: whose each is, what it tells, and which lie together. */
import { expect, test } from "vitest";
import { realWorld } from "../../../../src/base/world.ts";
import { isErasureId, isMemoryId, isUlid } from "../../../../src/format/core/ids.ts";
import {
  catalogKey,
  databasePrefix,
  erasingPrefix,
  erasureCouponKey,
  erasureCouponPrefix,
  erasureMarkerKey,
  erasureMarkerPrefix,
  manifestKey,
  historyKey,
  isBranchId,
  parseErasureKey,
  parsePoolId,
  poolId,
  purgeKey,
  purgePrefix,
  segmentKey,
} from "../../../../src/format/keys/object-keys.ts";

const ulid = "01HF7YAT000000000000000001";

test("every object of a database lies under its prefix", () => {
  const keys = [catalogKey("u"), manifestKey("u", "main"), segmentKey("u", "i"), historyKey("u", "i")];
  expect(keys).toEqual(["db/u/catalog", "db/u/head/main", "db/u/seg/i", "db/u/hist/i"]);
  for (const key of keys) expect(key.startsWith(databasePrefix("u"))).toBe(true);
  expect(purgeKey("u")).toBe(`${purgePrefix}u`);
  expect(purgeKey("u").startsWith(databasePrefix("u"))).toBe(false);
});

test("an id of the pool says again what it was made of", () => {
  const world = realWorld();
  for (const branchId of ["main", world.ulid()]) {
    for (const epoch of [0, 1, 10, 2 ** 53 - 1]) {
      const parts = { branchId, epoch, ulid: world.ulid() };
      expect(parsePoolId(poolId(parts.branchId, parts.epoch, parts.ulid))).toEqual(parts);
    }
  }
});

test.each([
  "",
  "main",
  `main-1`,
  `main-1-${ulid}x`,
  ` main-1-${ulid}`,
  `main-01-${ulid}`,
  `main--1-${ulid}`,
  `main-1-${ulid.toLowerCase()}`,
  `main-9007199254740992-${ulid}`,
  `other-1-${ulid}`,
  `main-1-${ulid.slice(1)}`,
  `main-1-8${ulid.slice(1)}`,
  `main-1-${ulid.replace("H", "U")}`,
  `main-1e3-${ulid}`,
  `main-1-${ulid}\n`,
])("%j is no id of the pool", (text) => {
  expect(parsePoolId(text)).toBeUndefined();
});

test("a branch's id is main or a ULID", () => {
  expect([ulid, "main", "Main", "dev", ""].map(isBranchId)).toEqual([true, true, false, false, false]);
  expect([ulid, "main", ulid.slice(1)].map(isUlid)).toEqual([true, false, false]);
});

test("a coupon and its marker lie apart from their database, and their keys say whose they are", () => {
  const [uuid, id] = ["0f8fad5b-d9cb-469f-a165-70867728950e", `ers_${ulid}`];
  expect(erasureCouponKey(uuid, id)).toBe(`erasures/${uuid}/${id}`);
  expect(erasureMarkerKey(uuid, id)).toBe(`erasing/${uuid}/${id}`);
  expect(erasureCouponKey(uuid, id).startsWith(erasureCouponPrefix(uuid))).toBe(true);
  expect(erasureMarkerKey(uuid, id).startsWith(erasureMarkerPrefix(uuid))).toBe(true);
  expect(erasureMarkerPrefix(uuid).startsWith(erasingPrefix)).toBe(true);
  for (const key of [erasureCouponKey(uuid, id), erasureMarkerKey(uuid, id)])
    expect(parseErasureKey(key)).toEqual({ uuid, id });
  for (const key of [
    `erasures/${uuid}`,
    `erasures/${uuid}/${ulid}`,
    `erasing/u/${id}`,
    `erasing/${uuid}/${id}/x`,
    `x/erasing/${uuid}/${id}`,
    `erasing/${uuid}/${id}\n`,
  ])
    expect(parseErasureKey(key)).toBeUndefined();
});

test("ids of memories and erasures are told from each other and from anything else", () => {
  expect([`mem_${ulid}`, `ers_${ulid}`, ulid, `mem_${ulid} `, `mem_${ulid}\n`, 1, undefined].map(isMemoryId)).toEqual([
    true,
    false,
    false,
    false,
    false,
    false,
    false,
  ]);
  expect([`mem_${ulid}`, `ers_${ulid}`, `ers_${ulid.toLowerCase()}`].map(isErasureId)).toEqual([false, true, false]);
});
