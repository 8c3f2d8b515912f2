/**
 * A real etcd of one member in a temporary directory, for tests that a double cannot convince. It is the one that
 * PALIMPSEST_ETCD names, or `etcd` on the path; without either, and outside the gate, its tests are skipped.
 */
import { spawn, spawnSync, type ChildProcess } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { inGate } from "./gate.ts";
import { freePort } from "./node-process.ts";

const toolVariable = "PALIMPSEST_ETCD";

function toolOnPath(): string | undefined {
  const found = spawnSync("sh", ["-c", "command -v etcd"], { encoding: "utf8" }).stdout.trim();
  return found === "" ? undefined : found;
}

const tool = process.env[toolVariable] || toolOnPath();

/** Whether the tests of a real etcd run here. */
export const hasEtcd = inGate || tool !== undefined;

/** What to add to the name of a suite that is skipped without etcd. */
export const etcdNeed = hasEtcd ? "" : ` (skipped: ${toolVariable} names no etcd, and there is none on the path)`;

export interface EtcdServer {
  /** Such as `http://127.0.0.1:2379`. */
  readonly endpoint: string;
  /** Kills etcd at once, as a power cut would; what it has stored stays. */
  stop(): Promise<void>;
  /** Starts it again after `stop`, on the same port and data. */
  start(): Promise<void>;
  /** Starts it again after `stop`, on the same port, with nothing in it. */
  startEmpty(): Promise<void>;
  /** Keeps it from answering, with its connections open, until `awaken`. */
  freeze(): void;
  awaken(): void;
  /** Ends it as an operator would: it says farewell to its clients. */
  stopGently(): Promise<void>;
  /** Calls its HTTP gateway, as somebody from outside; bytes are base64 there. */
  call(path: string, body: unknown): Promise<any>;
  /** Kills it and removes what it has stored. */
  end(): Promise<void>;
}

/** Starts an etcd with nothing in it and resolves when it answers. */
export async function startEtcd(): Promise<EtcdServer> {
  if (tool === undefined) throw new Error(`${toolVariable} names no etcd; run .ci/run, which prepares it`);
  const command = tool;
  const directory = mkdtempSync(join(tmpdir(), "palimpsest-etcd-"));
  const data = join(directory, "data");
  const endpoint = `http://127.0.0.1:${await freePort()}`;
  const peer = `http://127.0.0.1:${await freePort()}`;
  let child: ChildProcess | undefined;

  async function start(): Promise<void> {
    const said: string[] = [];
    const flags = {
      name: "test",
      "data-dir": data,
      "log-level": "error",
      logger: "zap",
      "listen-client-urls": endpoint,
      "advertise-client-urls": endpoint,
      "listen-peer-urls": peer,
      "initial-advertise-peer-urls": peer,
      "initial-cluster": `test=${peer}`,
    };
    const started = spawn(
      command,
      Object.entries(flags).map(([name, value]) => `--${name}=${value}`),
      {
        env: { PATH: process.env["PATH"], ETCD_UNSUPPORTED_ARCH: process.arch },
        stdio: ["ignore", "pipe", "pipe"],
      },
    );
    child = started;
    let fault: Error | undefined;
    started.once("error", (error) => (fault = error));
    for (const stream of [started.stdout, started.stderr])
      stream.setEncoding("utf8").on("data", (chunk: string) => said.push(chunk));
    while (!(await isHealthy(endpoint))) {
      if (fault || started.exitCode !== null || started.signalCode !== null)
        throw new Error(`etcd ended at start: ${fault?.message ?? said.join("")}`);
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
  }

  async function end(signal: NodeJS.Signals): Promise<void> {
    const stopped = child;
    child = undefined;
    if (!stopped || stopped.exitCode !== null || stopped.signalCode !== null) return;
    const gone = new Promise((resolve) => stopped.once("exit", resolve));
    stopped.kill(signal);
    await gone;
  }

  const server: EtcdServer = {
    endpoint,
    start,
    stop: () => end("SIGKILL"),
    stopGently: () => end("SIGTERM"),
    async startEmpty() {
      rmSync(data, { recursive: true, force: true });
      await start();
    },
    freeze: () => void child?.kill("SIGSTOP"),
    awaken: () => void child?.kill("SIGCONT"),
    async call(path, body) {
      const answer = await fetch(`${endpoint}/v3/${path}`, { method: "POST", body: JSON.stringify(body) });
      if (!answer.ok) throw new Error(`etcd: ${path}: ${answer.status} ${await answer.text()}`);
      return answer.json();
    },
    async end() {
      await end("SIGKILL");
      rmSync(directory, { recursive: true, force: true });
    },
  };
  try {
    await start();
    return server;
  } catch (error) {
    await server.end();
    throw error;
  }
}

/** It has a leader and answers. */
async function isHealthy(endpoint: string): Promise<boolean> {
  try {
    const answer = await fetch(`${endpoint}/health`, { signal: AbortSignal.timeout(1_000) });
    return answer.ok && ((await answer.json()) as { readonly health?: string }).health === "true";
  } catch {
    // Not listening yet.
    return false;
  }
}
