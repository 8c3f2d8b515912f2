/** What the published packages say of themselves: platforms, versions, and what the main package names. */
import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { nativePlaces } from "../../src/base/native-places.ts";
import { packageRoot } from "../../src/base/package-root.ts";
import { packageName, platformManifest, publishedManifest, targets } from "../../packages/native/targets.ts";

function read(path: string): string {
  return readFileSync(new URL(path, packageRoot), "utf8");
}

interface Manifest {
  readonly version: string;
  readonly license: string;
  readonly scripts: Readonly<Record<string, string>>;
  readonly dependencies: Readonly<Record<string, string>>;
  readonly optionalDependencies: Readonly<Record<string, string>>;
}

const manifest = JSON.parse(read("package.json")) as Manifest & Record<string, unknown>;
const published = publishedManifest(manifest) as Manifest;
const names = targets.map(packageName);

test("glibc, musl and macOS, each on x64 and arm64, have a package of their own", () => {
  expect(names.toSorted()).toEqual([
    "@palimpsest/native-darwin-arm64",
    "@palimpsest/native-darwin-x64",
    "@palimpsest/native-linux-arm64",
    "@palimpsest/native-linux-arm64-musl",
    "@palimpsest/native-linux-x64",
    "@palimpsest/native-linux-x64-musl",
  ]);
  expect(names).toContain(nativePlaces.platformPackage());
});

test("npm installs only the one that fits: each names its system, processor and C library", () => {
  const manifests = targets.map((target) => platformManifest(target, manifest, ["sqlguard.so"]) as any);
  expect(new Set(manifests.map(({ os, cpu, libc }) => JSON.stringify([os, cpu, libc]))).size).toBe(targets.length);
  for (const { name, version, os, cpu, libc } of manifests) {
    expect(version).toBe(manifest.version);
    expect(name).toBe(`@palimpsest/native-${os[0]}-${cpu[0]}${libc?.[0] === "musl" ? "-musl" : ""}`);
    expect(libc === undefined).toBe(os[0] === "darwin");
  }
});

test("the published package names them in exactly its version, and a checkout names none", () => {
  const native = ([name]: [string, string]): boolean => name.startsWith("@palimpsest/native-");
  expect(Object.entries(published.optionalDependencies).filter(native)).toEqual(
    names.map((name) => [name, manifest.version]),
  );
  expect(JSON.stringify([manifest, read("package-lock.json")])).not.toContain("@palimpsest/native-");
});

test("what everyone would compile is left out of the published package, as is what a checkout alone can run", () => {
  expect(Object.keys(published.optionalDependencies).toSorted()).toEqual([...names, "usearch"].toSorted());
  expect({ ...published.dependencies, usearch: published.optionalDependencies["usearch"] }).toEqual(
    manifest.dependencies,
  );
  expect(published.scripts).toEqual({ install: manifest.scripts["install"] });
  expect(Object.keys(published)).not.toEqual(expect.arrayContaining(["devDependencies", "knip"]));
});

test("every platform's package is tried on that platform before it is published", () => {
  const tried = [...read(".github/workflows/publish.yml").matchAll(/\{ platform: ([\w-]+),/g)].map(
    (match) => `@palimpsest/native-${match[1]}`,
  );
  expect(tried.toSorted()).toEqual(names.toSorted());
});
