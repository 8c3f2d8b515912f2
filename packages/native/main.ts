/**
 * Makes the archives that are published, in one folder: the main package, which names those of the platforms, these
 * themselves, and the clients.
 *
 *   node packages/native/main.ts --out staged                              the platform of this machine, by its compiler
 *   node packages/native/main.ts --out staged --zig "python3 -m ziglang"   every platform, by Zig's
 *
 * `--repository` adds the address of the sources, which a provenance must name. Always true: nothing in the checkout is
 * changed but what is ignored there; packages of platforms are no dependency of a checkout, where they do not exist.
 */
import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { parseArgs } from "node:util";
import { nativePlaces } from "../../src/base/native-places.ts";
import { compileTarget, ownCompilers, zigCompilers } from "./compile-target.ts";
import { packageName, platformManifest, publishedManifest, targets, type Target } from "./targets.ts";

const root = join(import.meta.dirname, "../..");
/** Of other folders, with what their own manifests say. */
const others = ["clients/typescript", "clients/connect", "packages/mcp"];

type Manifest = Readonly<Record<string, unknown>> & { readonly name: string; readonly version: string };

function readManifest(folder: string): Manifest {
  return JSON.parse(readFileSync(join(folder, "package.json"), "utf8")) as Manifest;
}

function writeManifest(folder: string, manifest: object): void {
  writeFileSync(join(folder, "package.json"), `${JSON.stringify(manifest, null, 2)}\n`);
}

/** Packs a folder and gives the archive's path. */
function pack(folder: string, out: string, ...flags: readonly string[]): string {
  const stdout = execFileSync("npm", ["pack", "--json", "--pack-destination", out, ...flags], {
    cwd: folder,
    encoding: "utf8",
    maxBuffer: 64 * 1024 * 1024,
    stdio: ["ignore", "pipe", "inherit"],
  });
  // Scripts that npm runs on the way write before the JSON.
  const [{ filename }] = JSON.parse(stdout.slice(stdout.search(/^\[/m))) as [{ readonly filename: string }];
  return join(out, filename);
}

/** Packs a package of the checkout, with its manifest changed. */
function packChanged(folder: string, out: string, change: (manifest: Manifest) => object): void {
  const scratch = mkdtempSync(join(tmpdir(), "palimpsest-stage-"));
  try {
    execFileSync("tar", ["-xzf", pack(folder, scratch), "-C", scratch]);
    const unpacked = join(scratch, "package");
    writeManifest(unpacked, change(readManifest(unpacked)));
    pack(unpacked, out, "--ignore-scripts");
  } finally {
    rmSync(scratch, { recursive: true, force: true });
  }
}

function packTarget(target: Target, out: string, zig: string | undefined, repository: string | undefined): void {
  const main = readManifest(root);
  const folder = mkdtempSync(join(tmpdir(), "palimpsest-stage-"));
  try {
    const files = compileTarget(target, zig ? zigCompilers(zig, target) : ownCompilers(process.env), folder);
    const about = { version: main.version, license: main["license"] as string, ...(repository && { repository }) };
    writeManifest(folder, platformManifest(target, about, files));
    writeFileSync(
      join(folder, "README.md"),
      `# ${packageName(target)}\n\nWhat [palimpsest](https://www.npmjs.com/package/palimpsest) has compiled for this ` +
        "platform. npm installs it with that package; it is of no use by itself.\n",
    );
    pack(folder, out, "--ignore-scripts");
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** The platform that this runs on, as the loader sees it. */
function ownTarget(): Target {
  const name = nativePlaces.platformPackage();
  const own = targets.find((target) => packageName(target) === name);
  if (!own) throw new Error(`there is no package ${name}: add the platform to packages/native/targets.ts`);
  return own;
}

const { values } = parseArgs({
  options: { out: { type: "string" }, zig: { type: "string" }, repository: { type: "string" } },
});
if (values.out === undefined) throw new Error("--out FOLDER says where the archives go");
const out = resolve(values.out);
rmSync(out, { recursive: true, force: true });
mkdirSync(out, { recursive: true });
for (const target of values.zig ? targets : [ownTarget()]) packTarget(target, out, values.zig, values.repository);
packChanged(root, out, (manifest) => publishedManifest(manifest, values.repository));
for (const folder of others)
  packChanged(join(root, folder), out, (manifest) => ({ ...manifest, repository: values.repository }));
