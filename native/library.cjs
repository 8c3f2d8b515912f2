/**
 * Where the native library lies: in the package of this platform, which npm installs beside this one where there is
 * one, or in native/build, where the installation has compiled it.
 *
 * Plain JavaScript that every Node can require, as the installation asks it too. Always true: a package of another
 * version is never named, for the library and its callers change together. Must not know: whether a library loads.
 */
"use strict";

const { existsSync, readFileSync } = require("node:fs");
const { createRequire } = require("node:module");
const { dirname, join } = require("node:path");

/** What the library is called, in each place. */
const fileName = "sqlguard.so";

/** Whether this process runs on musl: its loader is mapped then (better-sqlite3 looks at the same). */
function isMusl() {
  if (process.platform !== "linux" || !existsSync("/proc/self/maps")) return false;
  return /\/ld-musl-[^/\s]*\.so/.test(readFileSync("/proc/self/maps", "latin1"));
}

/** The package that has what is compiled for this machine. */
function platformPackage() {
  return `@palimpsest/native-${process.platform}-${process.arch}${isMusl() ? "-musl" : ""}`;
}

/**
 * @param {string} root The folder of this package.
 * @returns {string | undefined} The folder of the platform's package.
 */
function findPlatformPackage(root) {
  try {
    return dirname(createRequire(join(root, "package.json")).resolve(`${platformPackage()}/package.json`));
  } catch (error) {
    if (/** @type {NodeJS.ErrnoException} */ (error).code === "MODULE_NOT_FOUND") return undefined;
    throw error;
  }
}

/** @param {string} folder */
function readVersion(folder) {
  return /** @type {string} */ (JSON.parse(readFileSync(join(folder, "package.json"), "utf8")).version);
}

/**
 * The folder of the platform's package if it is of this version; else why it is passed over, or nothing where it is not
 * installed.
 *
 * @param {string} root The folder of this package.
 * @returns {{ folder?: string, passedOver?: string }}
 */
function findPrebuilt(root) {
  const folder = findPlatformPackage(root);
  if (folder === undefined) return {};
  const [theirs, own] = [readVersion(folder), readVersion(root)];
  return theirs === own ? { folder } : { passedOver: `${platformPackage()} is version ${theirs}, and this is ${own}` };
}

/** @param {string} root The folder of this package. */
function compiledLibrary(root) {
  return join(root, "native", "build", fileName);
}

module.exports = { compiledLibrary, fileName, findPrebuilt, platformPackage };
