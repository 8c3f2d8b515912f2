/** What the installation does about the native library: nothing where the platform has a package, else it compiles. */
import { spawnSync } from "node:child_process";
import { cpSync, existsSync, mkdirSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { nativePlaces, packageFolder } from "../../src/base/native-places.ts";
import { temporaryDirectory } from "../support/temporary.ts";

const root = packageFolder;
const name = nativePlaces.platformPackage();

/** An installation of version 1.2.3 beside a platform's package of that version. */
function installBeside(version: string | undefined, library = nativePlaces.compiledLibrary(root)): string {
  const folder = temporaryDirectory();
  cpSync(join(root, "native"), join(folder, "native"), {
    recursive: true,
    filter: (path) => path !== join(root, "native/build"),
  });
  writeFileSync(join(folder, "package.json"), JSON.stringify({ version: "1.2.3" }));
  mkdirSync(join(folder, "node_modules"));
  symlinkSync(join(root, "node_modules/better-sqlite3"), join(folder, "node_modules/better-sqlite3"));
  if (version === undefined) return folder;
  const beside = join(folder, "node_modules", name);
  mkdirSync(beside, { recursive: true });
  writeFileSync(join(beside, "package.json"), JSON.stringify({ version }));
  cpSync(library, join(beside, nativePlaces.fileName));
  return folder;
}

function runInstall(folder: string, compiler: string): { readonly said: string; readonly compiled: boolean } {
  const ran = spawnSync(process.execPath, [join(folder, "native/build.mjs")], {
    encoding: "utf8",
    env: { ...process.env, CC: compiler },
  });
  expect([ran.status, ran.stderr]).toEqual([0, ""]);
  return { said: ran.stdout, compiled: existsSync(nativePlaces.compiledLibrary(folder)) };
}

test("with the platform's package nothing is compiled and nothing is said", () => {
  expect(runInstall(installBeside("1.2.3"), "no-such-compiler")).toEqual({ said: "", compiled: false });
});

test("with one of another version it compiles, and says why in a line", () => {
  expect(runInstall(installBeside("1.2.2"), "cc")).toEqual({
    said: `palimpsest: ${name} is version 1.2.2, and this is 1.2.3: the SQL guard is compiled here\n`,
    compiled: true,
  });
});

test("with one that does not load on this machine it compiles, and says what the system said", () => {
  const { said, compiled } = runInstall(installBeside("1.2.3", join(root, "package.json")), "cc");
  expect(said).toMatch(/^palimpsest: the prebuilt SQL guard does not load, it is compiled here: .+\n$/);
  expect(compiled).toBe(true);
});

test("without either the installation goes on, and says what is missing", () => {
  expect(runInstall(installBeside(undefined), "no-such-compiler")).toEqual({
    said:
      "palimpsest: the SQL guard was not built, so the SQL route stays unconfigured: the C compiler no-such-compiler " +
      "could not be run (ENOENT)\n",
    compiled: false,
  });
});
