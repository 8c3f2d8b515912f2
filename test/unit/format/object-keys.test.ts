import { expect, test } from "vitest";
import { realWorld } from "../../../src/base/world.ts";
import { catalogKey, databasePrefix, headKey, historyKey, isBranchId, isUlid, parsePoolId, poolId, purgeKey, purgePrefix, segmentKey } from "../../../src/format/object-keys.ts";

const ulid = "01HF7YAT000000000000000001";

test("every object of a database lies under its prefix", () => {
  const keys = [catalogKey("u"), headKey("u", "main"), segmentKey("u", "i"), historyKey("u", "i")];
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
  "", "main", `main-1`, `main-1-${ulid}x`, ` main-1-${ulid}`, `main-01-${ulid}`, `main--1-${ulid}`, `main-1-${ulid.toLowerCase()}`, `main-9007199254740992-${ulid}`,
  `other-1-${ulid}`, `main-1-${ulid.slice(1)}`, `main-1-8${ulid.slice(1)}`, `main-1-${ulid.replace("H", "U")}`, `main-1e3-${ulid}`, `main-1-${ulid}\n`,
])("%j is no id of the pool", (text) => {
  expect(parsePoolId(text)).toBeUndefined();
});

test("a branch's id is main or a ULID", () => {
  expect([ulid, "main", "Main", "dev", ""].map(isBranchId)).toEqual([true, true, false, false, false]);
  expect([ulid, "main", ulid.slice(1)].map(isUlid)).toEqual([true, false, false]);
});
