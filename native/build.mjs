/**
 * Compiles the native half of the SQL guard when the package is installed.
 *
 * Plain JavaScript for any Node that npm may run with. Never fails an install: without a C compiler the SQL route
 * answers `unconfigured`, and everything else works. Its only header is better-sqlite3's own, because node-gyp would
 * want Node's headers, which a closed machine cannot download.
 */
import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, renameSync, rmSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const here = dirname(fileURLToPath(import.meta.url));
const output = join(here, "build", "sqlguard.so");
const sources = ["sqlguard.c", "authorizer.c", "rows.c", "process.c", "slices.c"];

/** Why it could not be built, or undefined. */
function build() {
  let header;
  try {
    header = join(dirname(createRequire(import.meta.url).resolve("better-sqlite3/package.json")), "deps", "sqlite3");
  } catch {
    return "better-sqlite3 is not installed";
  }
  if (!existsSync(join(header, "sqlite3ext.h"))) return `${header} has no sqlite3ext.h`;
  mkdirSync(dirname(output), { recursive: true });
  // A running process may have the old library mapped: replace the file, never write into it.
  const fresh = `${output}.${process.pid}`;
  const [command, ...given] = (process.env.CC || "cc").split(" ").filter((part) => part !== "");
  const flags = [
    "-shared",
    "-fPIC",
    "-O2",
    "-fvisibility=hidden",
    "-Wall",
    "-pthread",
    "-I",
    header,
    "-o",
    fresh,
    ...sources.map((name) => join(here, name)),
  ];
  const compiled = spawnSync(command, [...given, ...flags], { encoding: "utf8" });
  if (compiled.error) return `the C compiler ${command} could not be run (${compiled.error.code})`;
  if (compiled.status !== 0) {
    rmSync(fresh, { force: true });
    return `the C compiler failed: ${compiled.stderr.trim().split("\n")[0] ?? ""}`;
  }
  if (compiled.stderr !== "") process.stderr.write(compiled.stderr);
  renameSync(fresh, output);
  return undefined;
}

let failure;
try {
  failure = build();
} catch (error) {
  failure = error.message;
}
if (failure !== undefined) {
  console.log(`palimpsest: the SQL guard was not built, so the SQL route stays unconfigured: ${failure}`);
}
