/** A real node in a process of its own, on a free port, for tests that kill it and for benches. */
import { spawn, type ChildProcess } from "node:child_process";
import { randomInt } from "node:crypto";
import { createServer } from "node:net";
import { join } from "node:path";

export interface NodeProcess {
  readonly port: number;
  readonly child: ChildProcess;
  /** Everything the process has written to standard error. */
  log(): string;
  /** Calls REST; the body is sent as JSON unless it is a string. */
  call(
    method: string,
    path: string,
    body?: unknown,
    headers?: Record<string, string>,
  ): Promise<{ status: number; headers: Headers; text: string; json: any }>;
  /** Ends the process with the signal and waits for its end. */
  end(signal: NodeJS.Signals): Promise<void>;
}

/** Below the ports that systems give to connections that leave (49152 by IANA, 32768 on Linux). */
const portsFrom = 10_240;
const portsTo = 32_768;
const portTriesMax = 100;

function isFree(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const server = createServer();
    server.once("error", () => resolve(false));
    server.listen(port, "127.0.0.1", () => server.close(() => resolve(true)));
  });
}

/**
 * A port on which nobody listens. It is none that a connection of another test takes before the node listens on it, as
 * one that the system gives would be.
 */
export async function freePort(): Promise<number> {
  for (let tries = 0; tries < portTriesMax; tries++) {
    const port = randomInt(portsFrom, portsTo);
    if (await isFree(port)) return port;
  }
  throw new Error("no port is free");
}

export async function callRest(
  port: number,
  method: string,
  path: string,
  body?: unknown,
  headers: Record<string, string> = {},
): Promise<{ status: number; headers: Headers; text: string; json: any }> {
  const init: RequestInit = {
    method,
    headers: { ...(body === undefined ? {} : { "content-type": "application/json" }), ...headers },
  };
  if (body !== undefined)
    init.body =
      typeof body === "string" || body instanceof Uint8Array
        ? (body as NonNullable<RequestInit["body"]>)
        : JSON.stringify(body);
  const response = await fetch(`http://127.0.0.1:${port}${path}`, init);
  const text = await response.text();
  let json: unknown;
  if (response.headers.get("content-type")?.startsWith("application/json") && text !== "") json = JSON.parse(text);
  return { status: response.status, headers: response.headers, text, json };
}

/** Those that run; none outlives whoever has started it, however that ends. */
const running = new Set<ChildProcess>();
process.on("exit", () => {
  for (const child of running) child.kill("SIGKILL");
});

const compileCache = join(import.meta.dirname, "../../node_modules/.cache/compiled");
/** What the command starts with. */
export const serviceEntry = join(import.meta.dirname, "../../src/server/main.ts");

/**
 * Starts `palimpsest serve` from the sources, or another entry of a node, on a free port or the given one, with this
 * Node.js or another, and resolves when it is ready.
 */
export async function startNodeProcess(
  dataDirectory: string,
  variables: Record<string, string> = {},
  entry = serviceEntry,
  givenPort?: number,
  runtime = process.execPath,
): Promise<NodeProcess> {
  const port = givenPort ?? (await freePort());
  const child = spawn(runtime, [entry, "serve"], {
    // What Node has compiled of the sources it keeps: half of the time that a start takes.
    env: {
      PATH: process.env["PATH"],
      NODE_COMPILE_CACHE: compileCache,
      SERVICE_DATA_DIR: dataDirectory,
      SERVICE_LISTEN: `127.0.0.1:${port}`,
      ...variables,
    },
    stdio: ["ignore", "ignore", "pipe"],
  });
  const lines: string[] = [];
  child.stderr!.setEncoding("utf8").on("data", (chunk: string) => lines.push(chunk));
  running.add(child);
  const ended = new Promise<void>((resolve) => child.once("exit", () => resolve()));
  void ended.then(() => running.delete(child));
  for (;;) {
    if (child.exitCode !== null || child.signalCode !== null)
      throw new Error(`the node ended at start:\n${lines.join("")}`);
    try {
      // A node that asks for credentials tells a stranger only that it serves.
      if ([200, 401].includes((await fetch(`http://127.0.0.1:${port}/health/ready`)).status)) break;
    } catch {
      // Not listening yet.
    }
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  return {
    port,
    child,
    log: () => lines.join(""),
    call: (method, path, body, headers) => callRest(port, method, path, body, headers),
    end: async (signal) => {
      child.kill(signal);
      await ended;
    },
  };
}
