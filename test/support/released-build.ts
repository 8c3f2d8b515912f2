/**
 * The sources of a released build, taken out of this repository's own history: for tests in which two builds work on
 * one store. They run with the packages that are installed here.
 */
import { execFileSync } from "node:child_process";
import { mkdirSync, symlinkSync } from "node:fs";
import { join } from "node:path";

const root = join(import.meta.dirname, "../..");

/** The commit that the golden store was written by: version 0.1.0 before `format.json`. */
export const releasedCommit = "5f3e9ad526910c7f6416f0a735da7e345e2abea8";

/** The last commit whose nodes forward calls as structured clones of V8 alone. */
export const clonesOnlyCommit = "75a0b9c5787128f161b83fd07021e25191545a5c";

/** Whether the history that is here reaches back to it; an archive of the sources has none. */
export function hasReleasedBuild(commit = releasedCommit): boolean {
  try {
    execFileSync("git", ["cat-file", "-e", `${commit}^{commit}`], { cwd: root, stdio: "ignore" });
    return true;
  } catch {
    return false;
  }
}

/** Puts the sources of a commit into the folder; gives the entry of a node. */
export function buildEntry(folder: string, commit: string): string {
  mkdirSync(folder, { recursive: true });
  const archive = execFileSync("git", ["archive", commit, "src", "gen", "proto", "native", "package.json"], {
    cwd: root,
    maxBuffer: 2 ** 28,
  });
  execFileSync("tar", ["-x", "-C", folder], { input: archive });
  symlinkSync(join(root, "node_modules"), join(folder, "node_modules"));
  // Its own native part: that of another build speaks of other things.
  execFileSync(process.execPath, [join(folder, "native/build.mjs")], { cwd: folder });
  return join(folder, "src/server/main.ts");
}
