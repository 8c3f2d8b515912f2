/** The package as a stranger gets it: packed, installed into an empty folder, started by its command. */
import { execFile, spawn } from "node:child_process";
import { writeFileSync } from "node:fs";
import { delimiter, dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { describe, expect, onTestFinished, test } from "vitest";
import { inGate } from "../support/gate.ts";
import { callRest, freePort } from "../support/node-process.ts";
import { temporaryDirectory } from "../support/temporary.ts";

const run = promisify(execFile);
const packageFolder = fileURLToPath(new URL("../..", import.meta.url));
// The Node that runs this test comes first: the machine's own may be older than the package allows.
const env = { ...process.env, PATH: [dirname(process.execPath), process.env["PATH"]].join(delimiter) };

interface Packed {
  readonly filename: string;
  readonly files: readonly { readonly path: string }[];
}

/** Packs the package, building it on the way, and answers the archive's path and what is inside. */
async function pack(destination: string): Promise<{ readonly archive: string; readonly paths: readonly string[] }> {
  const { stdout } = await run("npm", ["pack", "--json", "--pack-destination", destination], {
    cwd: packageFolder,
    env,
    maxBuffer: 64 * 1024 * 1024,
  });
  // Scripts that npm runs on the way write before the JSON.
  const [packed] = JSON.parse(stdout.slice(stdout.search(/^\[/m))) as [Packed];
  return { archive: join(destination, packed.filename), paths: packed.files.map(({ path }) => path) };
}

/** Starts `npx palimpsest serve` in the folder and resolves with its port once it listens. */
async function serve(folder: string): Promise<number> {
  const port = await freePort();
  const child = spawn("npx", ["--no-install", "palimpsest", "serve", "--listen", `127.0.0.1:${port}`], {
    cwd: folder,
    env,
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
  let written = "";
  await new Promise<void>((resolve, reject) => {
    const hear = (chunk: Buffer): void => {
      written += chunk.toString();
      if (written.includes("listening on ")) resolve();
    };
    child.stdout.on("data", hear);
    child.stderr.on("data", hear);
    child.once("exit", () => reject(new Error(`the command ended at start:\n${written}`)));
  });
  return port;
}

describe.skipIf(!inGate)("the packed package", () => {
  test("memory-01, memory-04: installs into an empty folder and serves", { timeout: 600_000 }, async () => {
    const folder = temporaryDirectory();
    const { archive, paths } = await pack(folder);
    expect(paths).toEqual(
      expect.arrayContaining([
        "package.json",
        "README.md",
        "LICENSE",
        "dist/lib/main.js",
        "dist/lib/thread.js",
        "native/sqlguard.c",
        "native/build.mjs",
      ]),
    );
    expect(paths.filter((path) => /^(src|test|gen|data)\/|\.so$|\.ts$/.test(path))).toEqual([]);

    writeFileSync(join(folder, "package.json"), JSON.stringify({ name: "stranger", private: true }));
    await run("npm", ["install", "--no-audit", "--no-fund", archive], {
      cwd: folder,
      env,
      maxBuffer: 64 * 1024 * 1024,
    });
    const port = await serve(folder);

    expect(await callRest(port, "GET", "/health")).toMatchObject({ status: 200, text: "ok" });
    const ingest = await callRest(port, "POST", "/v1/memory/pack/test/memories", {
      memories: [{ type: "fact", summary: "The lighthouse keeper is Ada", content: null }],
    });
    expect(ingest).toMatchObject({ status: 201, json: { results: [{ status: "created" }] } });
    const recall = await callRest(port, "POST", "/v1/memory/pack/test/recall", { query: "lighthouse" });
    expect(recall).toMatchObject({ status: 200, json: { memories: [{ id: ingest.json.results[0].id }] } });
    const sql = await callRest(port, "POST", "/v1/db/pack--test/sql", { stmts: [{ q: "SELECT 40 + ?", params: [2] }] });
    expect(sql).toMatchObject({ status: 200, json: { results: [{ rows: [[42]] }] } });
  });
});
