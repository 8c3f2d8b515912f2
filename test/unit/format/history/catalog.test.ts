/** Catalogs at rest: they come back as they were, in one order, fit their bound, and are refused when damaged. */
import { expect, test } from "vitest";
import { AssertionFault } from "../../../../src/base/faults/assert.ts";
import { limits } from "../../../../src/base/limits.ts";
import {
  compareBranchNames,
  decodeCatalog,
  encodeCatalog,
  type Catalog,
  type CatalogBranch,
  poolKeyBytesMax,
  catalogBytesMax,
} from "../../../../src/format/history/catalog.ts";
import { expectDamageRefused, sampleCatalog } from "../../../support/format-samples.ts";

const [main, later, dev] = sampleCatalog.branches as [CatalogBranch, CatalogBranch, CatalogBranch];

function manyBranches(count: number): CatalogBranch[] {
  return Array.from({ length: count }, (_, index) => ({
    ...later,
    name: `${"b".repeat(limits.nameCharsMax - 4)}${String(index).padStart(4, "0")}`,
  }));
}

test("a catalog comes back as it was", () => {
  for (const catalog of [sampleCatalog, { ...sampleCatalog, branches: [main], condemned: [], deletedAtMs: undefined }])
    expect(decodeCatalog(encodeCatalog(catalog))).toEqual(catalog);
});

test("F74: a catalog with as many branches and condemned objects as it may have fits its bound", () => {
  const condemned = Array(limits.condemnedMax).fill({ key: "k".repeat(poolKeyBytesMax), atMs: 2 ** 53 - 1 });
  const catalog: Catalog = { ...sampleCatalog, branches: manyBranches(limits.branchesMax), condemned };
  const bytes = encodeCatalog(catalog);
  expect(bytes.length).toBeLessThanOrEqual(catalogBytesMax);
  expect(decodeCatalog(bytes)).toEqual(catalog);
});

test("damage anywhere is refused as corrupt", async () => {
  await expectDamageRefused(encodeCatalog(sampleCatalog), decodeCatalog);
});

test("main stands before all other names, which stand in code unit order", () => {
  expect(["zoo", "main", "Later", "dev", "a.b", "_"].toSorted(compareBranchNames)).toEqual([
    "main",
    "Later",
    "_",
    "a.b",
    "dev",
    "zoo",
  ]);
  expect(compareBranchNames("dev", "dev")).toBe(0);
});

test.each<[string, Partial<Catalog>]>([
  ["branches out of order", { branches: [main, dev, later] }],
  ["main behind another branch", { branches: [later, main] }],
  ["one name twice", { branches: [main, dev, dev] }],
  ["one branch too many", { branches: manyBranches(limits.branchesMax + 1) }],
  ["one condemned object too many", { condemned: Array(limits.condemnedMax + 1).fill(sampleCatalog.condemned[0]) }],
  ["a foreign branch id", { branches: [{ ...main, id: "dev" }] }],
  ["a foreign parent id", { branches: [{ ...dev, parent: { name: "main", id: "x", forkTxid: 1 } }] }],
  ["a short nonce", { nonce: new Uint8Array(15) }],
])("a catalog with %s is a bug", (_name, change) => {
  expect(() => encodeCatalog({ ...sampleCatalog, ...change })).toThrow(AssertionFault);
});
