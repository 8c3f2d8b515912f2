/**
 * A real node for tests, in a process of its own: with nothing on it at first, and gone at the end.
 *
 * For Node.js only (`@palimpsest/client/local`). Needs the package `palimpsest`, or its command on the path.
 */
import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { createInterface } from "node:readline";
import { Palimpsest } from "./palimpsest.ts";
import type { ClientOptions } from "./transport.ts";

/** Milliseconds for a start, that of a cold machine included. */
const startTimeoutMs = 60_000;
/** Milliseconds for an orderly stop before the process is killed. */
const stopTimeoutMs = 10_000;

export interface LocalOptions {
  /** The command and its first arguments. Default: the installed package `palimpsest`, or `palimpsest` on the path. */
  readonly command?: readonly string[] | undefined;
  /** Further variables of the node, such as `SERVICE_EMBED_PROVIDER`. */
  readonly env?: Readonly<Record<string, string>> | undefined;
  /** Options of the client, beside its address. */
  readonly client?: Omit<ClientOptions, "url"> | undefined;
}

/** A node that runs. */
export interface Local extends AsyncDisposable {
  /** Its address, such as `http://127.0.0.1:40123`. */
  readonly url: string;
  /** A client of it. */
  readonly client: Palimpsest;
  /** Stops it, and removes what it had. */
  stop(): Promise<void>;
}

/** Starts a node on a free port of this machine. Rejects where there is none to start, or where it does not start. */
export async function startLocal({ command = findCommand(), env, client }: LocalOptions = {}): Promise<Local> {
  const directory = await mkdtemp(join(tmpdir(), "palimpsest-local-"));
  const [program, ...first] = command as readonly [string, ...string[]];
  const child = spawn(program, [...first, "serve"], {
    env: {
      ...process.env,
      SERVICE_LISTEN: "127.0.0.1:0",
      SERVICE_DATA_DIR: directory,
      SERVICE_OBJECT_STORE: "mem://",
      ...env,
    },
    stdio: ["ignore", "pipe", "pipe"],
  });
  const killed = (): boolean => child.kill("SIGKILL");
  process.once("exit", killed);
  const stop = async (): Promise<void> => {
    await end(child);
    process.removeListener("exit", killed);
    await rm(directory, { recursive: true, force: true });
  };
  try {
    const url = await readAddress(child);
    return { url, client: new Palimpsest({ ...client, url }), stop, [Symbol.asyncDispose]: stop };
  } catch (error) {
    await stop();
    throw error;
  }
}

function findCommand(): readonly string[] {
  const require = createRequire(join(resolve(), "package.json"));
  try {
    const manifest = require.resolve("palimpsest/package.json");
    const { bin } = require(manifest) as { readonly bin: Readonly<Record<string, string>> };
    return [process.execPath, join(dirname(manifest), bin["palimpsest"]!)];
  } catch {
    return ["palimpsest"];
  }
}

/** The address that the node prints once it serves. */
async function readAddress(child: ChildProcess): Promise<string> {
  let said = "";
  child.stderr!.on("data", (chunk: Buffer) => (said = (said + chunk.toString()).slice(-4_000)));
  const lines = createInterface({ input: child.stdout! });
  const signal = AbortSignal.timeout(startTimeoutMs);
  const address = new Promise<string>((found, fail) => {
    lines.on("line", (line) => {
      const match = /https?:\/\/[^\s]+/.exec(line);
      if (match !== null) found(match[0]);
    });
    child.once("error", (error) => fail(new Error(`the node cannot be started: ${error.message}`)));
    child.once("exit", (code) => fail(new Error(`the node ended with ${String(code)}: ${said}`)));
    signal.addEventListener("abort", () => fail(new Error(`the node did not start in time: ${said}`)));
  });
  return address;
}

async function end(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null || child.pid === undefined) return;
  const exited = once(child, "exit");
  child.kill("SIGTERM");
  const timer = setTimeout(() => child.kill("SIGKILL"), stopTimeoutMs);
  await exited;
  clearTimeout(timer);
}
