/**
 * Tries the archives that main.ts has made as a stranger would: `npx -y palimpsest` in an empty folder, with an empty
 * cache of npm and without a compiler; then a memory, a recall, SQL and an index of vectors, which need what is compiled.
 * Prints one line of JSON: the size of what was installed, and the seconds from the command to the first memory.
 *
 *   node packages/native/try.ts staged
 *
 * Needs nothing but Node, npm and the package registry. Must not know: where the archives go.
 */
import { spawn, type ChildProcess } from "node:child_process";
import { lstatSync, mkdirSync, mkdtempSync, readdirSync, rmSync } from "node:fs";
import { createRequire } from "node:module";
import { createServer, type AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { dirname, delimiter, join, resolve } from "node:path";
import { nativePlaces } from "../../src/base/native-places.ts";

/** For what hangs: an installation is waited for that long. */
const patienceMs = 300_000;
const askEveryMs = 50;

const [staged] = process.argv.slice(2);
if (staged === undefined) throw new Error("usage: node packages/native/try.ts FOLDER_OF_ARCHIVES");
/** That of this platform, as npm names archives; the registry would choose it by itself. */
const native = nativePlaces.platformPackage().replace("@", "").replace("/", "-");
const archives = ["palimpsest", native].map((name) => {
  const archive = readdirSync(staged).find(
    (one) => one.startsWith(`${name}-`) && /^\d/.test(one.slice(name.length + 1)),
  );
  if (archive === undefined) throw new Error(`${staged} has no archive of ${name}`);
  return resolve(staged, archive);
});

/** What lies in a folder takes on a disk, in bytes. */
function diskBytes(path: string): number {
  const stat = lstatSync(path);
  const below = stat.isDirectory() ? readdirSync(path).map((name) => diskBytes(join(path, name))) : [];
  return below.reduce((sum, bytes) => sum + bytes, stat.blocks * 512);
}

async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((done) => server.listen(0, "127.0.0.1", done));
  const { port } = server.address() as AddressInfo;
  await new Promise((done) => server.close(done));
  return port;
}

async function call(url: string, body: object): Promise<unknown> {
  const headers = { "content-type": "application/json" };
  const answer = await fetch(url, { method: "POST", headers, body: JSON.stringify(body) });
  if (!answer.ok) throw new Error(`${url} answered ${answer.status}: ${await answer.text()}`);
  return answer.json();
}

/** Resolves once the node answers; rejects with what the command has said where it ends before. */
async function started(child: ChildProcess, address: string): Promise<void> {
  let said = "";
  child.stdout!.on("data", (chunk: Buffer) => (said += chunk.toString()));
  child.stderr!.on("data", (chunk: Buffer) => (said += chunk.toString()));
  const { promise: ended, reject } = Promise.withResolvers<never>();
  child.once("close", () => reject(new Error(`the command ended:\n${said}`)));
  const asked = (async (): Promise<void> => {
    for (const until = performance.now() + patienceMs; performance.now() < until;) {
      if (said.includes(address)) return;
      await new Promise((done) => setTimeout(done, askEveryMs));
    }
    throw new Error(`nothing listens after ${patienceMs / 1000} seconds:\n${said}`);
  })();
  await Promise.race([asked, ended]);
}

/** From the command to the first memory, in seconds; what is kept is found again, by words and by SQL. */
async function firstMemory(folder: string): Promise<number> {
  const port = await freePort();
  const address = `http://127.0.0.1:${port}`;
  const given = archives.map((archive) => `--package=${archive}`);
  const empty = join(folder, "empty");
  mkdirSync(empty, { recursive: true });
  const begun = performance.now();
  const child = spawn("npx", ["-y", ...given, "palimpsest"], {
    cwd: empty,
    detached: true,
    env: {
      ...process.env,
      PATH: [dirname(process.execPath), process.env["PATH"]].join(delimiter),
      // Nothing can be compiled.
      CC: "false",
      CXX: "false",
      npm_config_cache: join(folder, "cache"),
      npm_config_update_notifier: "false",
      XDG_DATA_HOME: join(folder, "data"),
      XDG_CACHE_HOME: join(folder, "user-cache"),
      SERVICE_LISTEN: `127.0.0.1:${port}`,
    },
    stdio: ["ignore", "pipe", "pipe"],
  });
  const ended = new Promise((done) => child.once("close", done));
  try {
    await started(child, address);
    const profile = `${address}/v1/memory/local/me`;
    const memory = { type: "fact", summary: "The lighthouse keeper is Ada", content: null };
    await call(`${profile}/memories`, { memories: [memory] });
    const seconds = (performance.now() - begun) / 1000;
    const found = JSON.stringify(await call(`${profile}/recall`, { query: "lighthouse" }));
    if (!found.includes(memory.summary)) throw new Error(`the memory was not found again: ${found}`);
    const sum = JSON.stringify(await call(`${address}/v1/db/local--me/sql`, { stmts: [{ q: "SELECT 40 + 2" }] }));
    if (!sum.includes("[[42]]")) throw new Error(`SQL does not add: ${sum}`);
    return seconds;
  } finally {
    // npx starts the command in a child of its own: the signal goes to both.
    if (child.exitCode === null) process.kill(-child.pid!, "SIGTERM");
    await ended;
  }
}

/** The index of vectors that is compiled for this platform finds a vector again. */
function tryIndex(installed: string): void {
  const path = readdirSync(installed, { recursive: true, encoding: "utf8" }).find((name) =>
    /@palimpsest\/native-[^/]+\/hnswlib\.node$/.test(name),
  );
  if (path === undefined) throw new Error("the package of this platform was not installed");
  const { HierarchicalNSW } = createRequire(import.meta.url)(join(installed, path)) as typeof import("hnswlib-node");
  const index = new HierarchicalNSW("ip", 2);
  index.initIndex(64);
  for (let at = 0; at < 64; at++) index.addPoint([Math.cos(at), Math.sin(at)], at);
  const { neighbors } = index.searchKnn([Math.cos(7), Math.sin(7)], 1);
  if (neighbors[0] !== 7) throw new Error(`the index finds ${neighbors.join()} where 7 is`);
}

const folder = mkdtempSync(join(tmpdir(), "palimpsest-try-"));
try {
  const emptyCache = await firstMemory(folder);
  tryIndex(join(folder, "cache", "_npx"));
  const bytes = diskBytes(join(folder, "cache", "_npx"));
  rmSync(join(folder, "cache", "_npx"), { recursive: true });
  const fullCache = await firstMemory(folder);
  const again = await firstMemory(folder);
  const round = (seconds: number): number => Math.round(seconds * 10) / 10;
  console.log(
    JSON.stringify({
      megabytes: Math.round(bytes / 1e6),
      seconds: { emptyCache: round(emptyCache), fullCache: round(fullCache), installed: round(again) },
    }),
  );
} finally {
  rmSync(folder, { recursive: true, force: true });
}
