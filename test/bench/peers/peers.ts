/**
 * `npm run bench -- peers [part …] [--size small] [--write docs/peers.md]`: Palimpsest beside servers that others make.
 *
 * What is not installed is skipped by name. With `--write` the document and its plots are written beside the output.
 */
import { chmodSync, mkdirSync, mkdtempSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { packageRoot } from "../../../src/base/package-root.ts";
import { ratiosSvg } from "./bars.ts";
import { findChroma } from "./chroma.ts";
import { runPart, type PartOf } from "./contest.ts";
import { bulk } from "./import.ts";
import { runToEnd } from "./launched.ts";
import { describeMachine } from "./machine.ts";
import { documentMarkdown, sectionMarkdown, settingsMarkdown, type Told } from "./markdown.ts";
import { findMem0 } from "./mem0.ts";
import { naive } from "./naive.ts";
import { ours } from "./palimpsest.ts";
import { parts, type Maker, type Part, type Skipped } from "./peer.ts";
import { findPostgres } from "./postgres.ts";
import { keyValue, recall } from "./reads.ts";
import { findRedis } from "./redis.ts";
import type { Section } from "./section.ts";
import { sizes, type Size } from "./sizes.ts";
import { syncs } from "./syncs.ts";
import { start, weight } from "./weight.ts";
import { embedded, ingest, tenants } from "./writes.ts";

const runs: readonly PartOf[] = [ingest, embedded, tenants, keyValue, recall, bulk, start, weight, syncs];

/** Who is here, ours first, and who is not. `entry` is that of our package; without one our sources run. */
export function findMakers(
  size: Size,
  { python, entry }: { readonly python: boolean; readonly entry?: string },
): { readonly makers: readonly Maker[]; readonly skipped: readonly Skipped[] } {
  const found = [
    { maker: ours(entry), skipped: [] },
    findPostgres(size.dimension),
    findRedis(),
    { maker: naive, skipped: [] },
    ...(python ? [findChroma(), findMem0(size.dimension)] : []),
  ];
  return {
    makers: found.flatMap(({ maker }) => maker ?? []),
    skipped: found.flatMap(({ skipped }) => skipped),
  };
}

export function runPeersPart(part: Part, makers: readonly Maker[], size: Size, directory: string): Promise<Section> {
  const run = runs.find((one) => one.part === part)!;
  return runPart(run, { peers: makers.flatMap(({ peers }) => peers), size, directory });
}

/**
 * A new folder that servers of other users can reach. Where a folder above the given one is closed to them, it lies
 * among the temporary files instead.
 */
export function openDirectory(near: string): string {
  const parents: string[] = [];
  for (let path = near; path !== dirname(path); path = dirname(path)) parents.push(path);
  const reached = parents.every((path) => (statSync(path).mode & 0o001) !== 0);
  const directory = mkdtempSync(join(reached ? near : tmpdir(), "bench-peers-"));
  chmodSync(directory, 0o755);
  return directory;
}

/** The document, and its plots in a folder of its name beside it. */
export function writeDocument(path: string, told: Told): void {
  const plots = basename(path, ".md");
  const folder = join(dirname(path), plots);
  mkdirSync(folder, { recursive: true });
  for (const { part, title, bars } of told.sections)
    if (bars.length > 0)
      writeFileSync(join(folder, `${part}.svg`), ratiosSvg(`${title}: above 1 Palimpsest wins`, bars));
  writeFileSync(path, documentMarkdown(told, plots));
}

/** What is measured is what is published, made anew of the sources as they are; its entry. */
function buildPackage(): string {
  runToEnd("npm", ["run", "build"], { cwd: fileURLToPath(packageRoot) });
  return fileURLToPath(new URL("dist/lib/main.js", packageRoot));
}

const valueAfter = (asked: readonly string[], flag: string): string | undefined =>
  asked.includes(flag) ? asked[asked.indexOf(flag) + 1] : undefined;

export async function benchPeers(near: string, asked: readonly string[]): Promise<void> {
  const size = sizes[valueAfter(asked, "--size") === "small" ? "small" : "full"];
  const wanted = parts.filter((part) => asked.includes(part));
  chmodSync(near, 0o755);
  const directory = openDirectory(near);
  try {
    const entry = size.name === "full" ? { entry: buildPackage() } : {};
    const { makers, skipped } = findMakers(size, { python: true, ...entry });
    const sections: Section[] = [];
    const told: Told = {
      day: new Date().toISOString().slice(0, 10),
      machine: describeMachine(directory),
      sizeFlag: size.name === "full" ? "" : ` --size ${size.name}`,
      makers,
      skipped,
      sections,
    };
    console.log(`\n${settingsMarkdown(told)}`);
    for (const part of wanted.length > 0 ? wanted : parts) {
      sections.push(await runPeersPart(part, makers, size, directory));
      console.log(`\n${sectionMarkdown(told, sections.at(-1)!)}`);
    }
    const path = valueAfter(asked, "--write");
    if (path !== undefined) writeDocument(path, told);
  } finally {
    rmSync(directory, { recursive: true, force: true });
  }
}
