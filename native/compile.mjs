/**
 * Compiles the native library: at the installation (native/build.mjs), and for the packages of the platforms
 * (packages/native).
 *
 * Plain JavaScript for any Node that npm may run with. Its only header is better-sqlite3's own, because node-gyp would
 * want Node's headers, which a closed machine cannot download.
 */
import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, renameSync, rmSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const here = dirname(fileURLToPath(import.meta.url));
const sources = ["sqlguard.c", "authorizer.c", "rows.c", "process.c", "slices.c"];

/**
 * Runs a compiler that makes one shared library.
 *
 * @param {readonly string[]} compiler The command and what it is always given.
 * @param {string} output Replaced as a whole: a running process may have the old one mapped.
 * @param {readonly string[]} given Flags and sources.
 * @returns {string | undefined} Why it could not be built.
 */
export function compileLibrary(compiler, output, given) {
  const [command = "cc", ...first] = compiler;
  mkdirSync(dirname(output), { recursive: true });
  const fresh = `${output}.${process.pid}`;
  const compiled = spawnSync(command, [...first, "-shared", "-fPIC", "-fvisibility=hidden", ...given, "-o", fresh], {
    encoding: "utf8",
  });
  if (compiled.error) {
    const { code } = /** @type {NodeJS.ErrnoException} */ (compiled.error);
    return `the C compiler ${command} could not be run (${code})`;
  }
  if (compiled.status !== 0) {
    rmSync(fresh, { force: true });
    return `the C compiler failed: ${compiled.stderr.trim().split("\n")[0] ?? ""}`;
  }
  if (compiled.stderr !== "") process.stderr.write(compiled.stderr);
  renameSync(fresh, output);
  return undefined;
}

/**
 * The SQL guard.
 *
 * @param {readonly string[]} compiler
 * @param {string} output
 * @returns {string | undefined} Why it could not be built.
 */
export function compileGuard(compiler, output) {
  let header;
  try {
    header = join(dirname(createRequire(import.meta.url).resolve("better-sqlite3/package.json")), "deps", "sqlite3");
  } catch {
    return "better-sqlite3 is not installed";
  }
  if (!existsSync(join(header, "sqlite3ext.h"))) return `${header} has no sqlite3ext.h`;
  const files = sources.map((name) => join(here, name));
  return compileLibrary(compiler, output, ["-O2", "-Wall", "-pthread", "-I", header, ...files]);
}

/**
 * The words of a command such as `ccache cc`.
 *
 * @param {string} text
 */
export function commandWords(text) {
  return text.split(" ").filter((part) => part !== "");
}
