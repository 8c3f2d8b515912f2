/** Which native library is taken: the platform's package of this version that loads, else what was compiled here. */
import { copyFileSync, mkdirSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { expect, test } from "vitest";
import { nativePlaces, packageFolder } from "../../../src/base/native-places.ts";
import { findLibrary } from "../../../src/sqlite/native.ts";
import { temporaryDirectory } from "../../support/temporary.ts";

const sound = nativePlaces.compiledLibrary(packageFolder);
const unsound = "no library";

/** An installation: its folder, and where its libraries are. */
function install(parts: { readonly compiled?: string; readonly prebuilt?: string; readonly version?: string }): {
  readonly root: string;
  readonly compiled: string;
  readonly prebuilt: string;
} {
  const root = temporaryDirectory();
  const folder = join(root, "node_modules", nativePlaces.platformPackage());
  const places = { compiled: nativePlaces.compiledLibrary(root), prebuilt: join(folder, nativePlaces.fileName) };
  writeFileSync(join(root, "package.json"), JSON.stringify({ version: "1.2.3" }));
  for (const place of ["compiled", "prebuilt"] as const) {
    const library = parts[place];
    if (library === undefined) continue;
    mkdirSync(dirname(places[place]), { recursive: true });
    if (library === unsound) writeFileSync(places[place], unsound);
    else copyFileSync(library, places[place]);
  }
  if (parts.prebuilt !== undefined)
    writeFileSync(join(folder, "package.json"), JSON.stringify({ version: parts.version ?? "1.2.3" }));
  return { root, ...places };
}

test("the platform's package is taken before what was compiled", () => {
  const { root, prebuilt } = install({ compiled: sound, prebuilt: sound });
  expect(findLibrary(root)).toMatchObject({ path: prebuilt, passedOver: [] });
});

test("without that package what was compiled is taken, and nothing is said", () => {
  const { root, compiled } = install({ compiled: sound });
  expect(findLibrary(root)).toMatchObject({ path: compiled, passedOver: [] });
});

test("a package of another version is passed over, and both versions are named", () => {
  const { root, compiled } = install({ compiled: sound, prebuilt: sound, version: "1.2.2" });
  expect(findLibrary(root)).toMatchObject({
    path: compiled,
    passedOver: [`${nativePlaces.platformPackage()} is version 1.2.2, and this is 1.2.3`],
  });
});

test("a library that does not load is passed over, and what the system says of it is told", () => {
  const { root, compiled, prebuilt } = install({ compiled: sound, prebuilt: unsound });
  expect(findLibrary(root)).toMatchObject({
    path: compiled,
    passedOver: [expect.stringContaining(`${prebuilt} does not load: `)],
  });
});

test("where none loads there is none, and each is told", () => {
  const { root } = install({ compiled: unsound, prebuilt: sound, version: "2.0.0" });
  expect(findLibrary(root)).toEqual({ passedOver: [expect.any(String), expect.stringContaining("does not load")] });
  expect(findLibrary(install({}).root)).toEqual({ passedOver: [] });
});
