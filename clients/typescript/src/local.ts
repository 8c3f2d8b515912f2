/**
 * A real node for tests, in a process of its own: with nothing on it at first, and gone at the end.
 *
 * Always true: neither the node nor its folder outlives the program that started it, killed or not (local-keeper.ts); a
 * program that has nothing else to do ends without stopping it.
 *
 * For Node.js only (`@palimpsest/client/local`). Needs the package `palimpsest`, or its command on the path.
 */
import { spawn, type ChildProcessByStdio } from "node:child_process";
import { once } from "node:events";
import { mkdtemp } from "node:fs/promises";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import type { Socket } from "node:net";
import { createInterface } from "node:readline";
import type { Readable, Writable } from "node:stream";
import { fileURLToPath } from "node:url";
import { Palimpsest } from "./palimpsest.ts";
import type { ClientOptions } from "./transport.ts";

/** Milliseconds for a start, that of a cold machine included. */
const startTimeoutMs = 60_000;
/** Beside this file: in TypeScript where the sources run as they are. */
const keeper = fileURLToPath(
  new URL(`./local-keeper${import.meta.url.endsWith(".ts") ? ".ts" : ".js"}`, import.meta.url),
);

type Keeper = ChildProcessByStdio<Writable, Readable, Readable>;

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
  const child: Keeper = spawn(process.execPath, [keeper, directory, ...command, "serve"], {
    env: {
      ...process.env,
      SERVICE_LISTEN: "127.0.0.1:0",
      SERVICE_DATA_DIR: directory,
      SERVICE_OBJECT_STORE: "mem://",
      ...env,
    },
    stdio: ["pipe", "pipe", "pipe"],
  });
  const exited = once(child, "exit");
  // The keeper may be gone before it is told.
  child.stdin.on("error", () => undefined);
  const stop = async (): Promise<void> => {
    child.ref();
    child.stdin.end();
    await exited;
  };
  try {
    const url = await readAddress(child);
    child.unref();
    for (const stream of [child.stdin, child.stdout, child.stderr]) (stream as Writable & Socket).unref();
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
async function readAddress(child: Keeper): Promise<string> {
  let said = "";
  child.stderr.on("data", (chunk: Buffer) => (said = (said + chunk.toString()).slice(-4_000)));
  const lines = createInterface({ input: child.stdout });
  const { promise, resolve: found, reject: fail } = withResolvers<string>();
  const late = setTimeout(() => fail(new Error(`the node did not start in time: ${said}`)), startTimeoutMs);
  lines.on("line", (line) => {
    const match = /https?:\/\/[^\s]+/.exec(line);
    if (match !== null) found(match[0]);
  });
  // Standard error closes behind the last that was said.
  child.once("close", (code) => fail(new Error(`the node ended with ${String(code)}: ${said}`)));
  return promise.finally(() => clearTimeout(late));
}

/** `Promise.withResolvers`, which Node 20 does not have. */
function withResolvers<Value>(): {
  promise: Promise<Value>;
  resolve: (value: Value) => void;
  reject: (reason: Error) => void;
} {
  let resolve!: (value: Value) => void;
  let reject!: (reason: Error) => void;
  const promise = new Promise<Value>((onValue, onReason) => {
    resolve = onValue;
    reject = onReason;
  });
  return { promise, resolve, reject };
}
