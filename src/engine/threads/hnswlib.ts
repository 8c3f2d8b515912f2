/**
 * hnswlib-node, as the platform's package has it compiled (packages/native), else as a package of its own. Both are
 * optional.
 *
 * Must not know: what it is used for.
 */
import { createRequire } from "node:module";
import { join } from "node:path";
import { nativePlaces, packageFolder } from "../../base/native-places.ts";
import { packageRoot } from "../../base/package-root.ts";

export type Hnswlib = typeof import("hnswlib-node");

/** The library; throws what was missed of its own package where neither is there. */
export async function loadHnswlib(root = packageFolder): Promise<Hnswlib> {
  const { folder } = nativePlaces.findPrebuilt(root);
  if (folder !== undefined) return createRequire(packageRoot)(join(folder, "hnswlib.node")) as Hnswlib;
  return (await import("hnswlib-node")).default;
}
