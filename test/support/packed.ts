/** A package of ours as a stranger gets it: packed, installed into an empty folder, started by its command. */
import { execFile, spawn, type ChildProcess } from "node:child_process";
import { existsSync, writeFileSync } from "node:fs";
import { delimiter, dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { onTestFinished } from "vitest";
import { packageRoot } from "../../src/base/package-root.ts";
import { freePort } from "./node-process.ts";

const run = promisify(execFile);
// The Node that runs this test comes first: the machine's own may be older than the package allows.
const env = { ...process.env, PATH: [dirname(process.execPath), process.env["PATH"]].join(delimiter) };

interface Packed {
  readonly filename: string;
  readonly files: readonly { readonly path: string }[];
}

async function npm(folder: string, ...given: readonly string[]): Promise<string> {
  const { stdout } = await run("npm", [...given], { cwd: folder, env, maxBuffer: 64 * 1024 * 1024 });
  return stdout;
}

/** Packs a package, building it on the way, and answers the archive's path and what is inside. */
export async function pack(
  destination: string,
  folder = ".",
): Promise<{ readonly archive: string; readonly paths: readonly string[] }> {
  const stdout = await npm(
    fileURLToPath(new URL(folder, packageRoot)),
    ...["pack", "--json", "--pack-destination", destination],
  );
  // Scripts that npm runs on the way write before the JSON.
  const [packed] = JSON.parse(stdout.slice(stdout.search(/^\[/m))) as [Packed];
  return { archive: join(destination, packed.filename), paths: packed.files.map(({ path }) => path) };
}

/** Installs an archive into a folder of a stranger. */
export async function install(folder: string, archive: string, ...flags: readonly string[]): Promise<void> {
  const manifest = join(folder, "package.json");
  if (!existsSync(manifest)) writeFileSync(manifest, JSON.stringify({ name: "stranger", private: true }));
  await npm(folder, "install", "--no-audit", "--no-fund", ...flags, archive);
}

/** `npx palimpsest serve` in the folder; its end is waited for when the test is over. */
function startServe(folder: string, port: number, variables: Readonly<Record<string, string>>): ChildProcess {
  const child = spawn("npx", ["--no-install", "palimpsest", "serve", "--listen", `127.0.0.1:${port}`], {
    cwd: folder,
    env: { ...env, ...variables },
    detached: true,
    stdio: ["ignore", "pipe", "pipe"],
  });
  const { promise: ended, resolve: onEnd } = Promise.withResolvers<void>();
  // The pipes close when the last of the two has ended, which is what still writes to the folder.
  child.once("close", () => onEnd());
  onTestFinished(async () => {
    // npx starts the command in a child of its own: the signal goes to both.
    if (child.exitCode === null) process.kill(-child.pid!, "SIGTERM");
    await ended;
  });
  return child;
}

/** Starts a node by its command and resolves with its port once it listens; rejects with what it said when it ends. */
export async function serve(folder: string, variables: Readonly<Record<string, string>> = {}): Promise<number> {
  const port = await freePort();
  const child = startServe(folder, port, variables);
  let written = "";
  await new Promise<void>((resolve, reject) => {
    const hear = (chunk: Buffer): void => {
      written += chunk.toString();
      if (written.includes("listening on ")) resolve();
    };
    child.stdout!.on("data", hear);
    child.stderr!.on("data", hear);
    child.once("close", () => reject(new Error(`the command ended at start:\n${written}`)));
  });
  return port;
}
