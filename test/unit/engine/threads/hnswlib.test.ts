/** Where the index of vectors comes from: the platform's package of this version, else its own package. */
import { copyFileSync, existsSync, mkdirSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { expect, test } from "vitest";
import { nativePlaces } from "../../../../src/base/native-places.ts";
import { loadHnswlib } from "../../../../src/engine/threads/hnswlib.ts";
import { temporaryDirectory } from "../../../support/temporary.ts";

function findAddon(): string | undefined {
  try {
    const { resolve } = createRequire(import.meta.url);
    const addon = join(dirname(resolve("hnswlib-node/package.json")), "build/Release/addon.node");
    return existsSync(addon) ? addon : undefined;
  } catch {
    return undefined;
  }
}

const addon = findAddon();

/** An installation of version 1.2.3 whose platform has a package of that version with those bytes as its addon. */
function installBeside(version: string, write: (path: string) => void): string {
  const root = temporaryDirectory();
  const folder = join(root, "node_modules", nativePlaces.platformPackage());
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(root, "package.json"), JSON.stringify({ version: "1.2.3" }));
  writeFileSync(join(folder, "package.json"), JSON.stringify({ version }));
  write(join(folder, "hnswlib.node"));
  return root;
}

test.skipIf(!addon)("the platform's package has it (skipped without hnswlib-node, which is optional)", async () => {
  const root = installBeside("1.2.3", (path) => copyFileSync(addon!, path));
  const { HierarchicalNSW } = await loadHnswlib(root);
  const index = new HierarchicalNSW("ip", 2);
  index.initIndex(2);
  index.addPoint([0, 1], 5);
  expect(index.searchKnn([0, 1], 1).neighbors).toEqual([5]);
});

test("what the platform's package has is what is loaded", async () => {
  const root = installBeside("1.2.3", (path) => writeFileSync(path, "no library"));
  await expect(loadHnswlib(root)).rejects.toThrow("hnswlib.node");
});

test.skipIf(!addon)("a package of another version is passed over for its own", async () => {
  const root = installBeside("1.2.2", (path) => writeFileSync(path, "no library"));
  expect((await loadHnswlib(root)).HierarchicalNSW).toBeTypeOf("function");
});
