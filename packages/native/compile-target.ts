/**
 * Compiles the libraries of one platform into a folder: the SQL guard, and hnswlib-node's addon, which as a package of
 * its own is compiled on every machine.
 *
 * Always true: the addon speaks Node-API, so one binary serves every Node. Must not know: what becomes of the folder.
 */
import { copyFileSync, readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { commandWords, compileGuard, compileLibrary } from "../../native/compile.mjs";
import { nativePlaces } from "../../src/base/native-places.ts";
import type { Target } from "./targets.ts";

const require = createRequire(import.meta.url);
const guardName = nativePlaces.fileName;

/** As src/engine/threads/hnswlib.ts looks for it. */
const addonName = "hnswlib.node";
const noticesName = "THIRD-PARTY-LICENSES.txt";

/** Commands that compile C and C++. */
export interface Compilers {
  readonly c: readonly string[];
  readonly cpp: readonly string[];
}

/** The compilers of this machine, for its own platform. */
export function ownCompilers(env: NodeJS.ProcessEnv): Compilers {
  return { c: commandWords(env["CC"] ?? "cc"), cpp: commandWords(env["CXX"] ?? "c++") };
}

/** Zig's, which compile for any platform; `zig` is its command. */
export function zigCompilers(zig: string, { triple }: Target): Compilers {
  const given = ["-target", triple, "-s"];
  return { c: [...commandWords(zig), "cc", ...given], cpp: [...commandWords(zig), "c++", ...given] };
}

function packageFolder(name: string, from: NodeJS.Require = require): string {
  return dirname(from.resolve(`${name}/package.json`));
}

/** Compiles into the folder and gives the names of what is there now; throws what a compiler said. */
export function compileTarget(target: Target, compilers: Compilers, folder: string): readonly string[] {
  const hnswlib = packageFolder("hnswlib-node");
  const addonApi = packageFolder("node-addon-api", createRequire(join(hnswlib, "package.json")));
  const failures = [
    compileGuard(compilers.c, join(folder, guardName)),
    compileLibrary(compilers.cpp, join(folder, addonName), [
      ...["-O3", "-std=c++17", "-pthread", "-DNAPI_DISABLE_CPP_EXCEPTIONS", "-DNODE_GYP_MODULE_NAME=addon"],
      ...["-I", addonApi, "-I", join(packageFolder("node-api-headers"), "include")],
      // Node itself has what the addon calls.
      ...(target.platform === "darwin" ? ["-undefined", "dynamic_lookup"] : ["-static-libgcc", "-static-libstdc++"]),
      join(hnswlib, "src", "addon.cc"),
    ]),
  ].filter((failure) => failure !== undefined);
  if (failures.length > 0) throw new Error(failures.join("; "));
  writeFileSync(join(folder, noticesName), notices(hnswlib, addonApi));
  copyFileSync(new URL("../../LICENSE", import.meta.url), join(folder, "LICENSE"));
  return [guardName, addonName, noticesName];
}

function notices(hnswlib: string, addonApi: string): string {
  const texts = [
    ["hnswlib-node", join(hnswlib, "LICENSE.txt")],
    ["hnswlib", join(hnswlib, "src", "hnswlib", "LICENSE")],
    ["node-addon-api", join(addonApi, "LICENSE.md")],
  ] as const;
  const parts = texts.map(([name, path]) => `${name}\n\n${readFileSync(path, "utf8").trim()}\n`);
  return `${addonName} is made of what follows.\n\n${parts.join("\n---\n\n")}`;
}
