/** The build's version, as its package says it. */
import { readFileSync } from "node:fs";
import { packageRoot } from "../../base/package-root.ts";

/** Such as `0.1.0`. */
export function packageVersion(): string {
  const manifest: unknown = JSON.parse(readFileSync(new URL("package.json", packageRoot), "utf8"));
  return (manifest as { readonly version: string }).version;
}
