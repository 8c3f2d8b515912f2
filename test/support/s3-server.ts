/**
 * A real server that speaks S3 (versitygw over a temporary directory), for tests that a double cannot convince. The
 * gate builds it and names it by PALIMPSEST_S3_SERVER; without that variable, and outside the gate, its tests are
 * skipped.
 */
import { spawn, type ChildProcess } from "node:child_process";
import { randomBytes } from "node:crypto";
import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { S3Location } from "../../src/store/s3/s3-store.ts";
import { gateTool, inGate } from "./gate.ts";
import { freePort } from "./node-process.ts";

const toolVariable = "PALIMPSEST_S3_SERVER";
const bucket = "palimpsest-test";
const region = "us-east-1";

/** Whether the tests of a real server run here. */
export const hasS3Server = inGate || Boolean(process.env[toolVariable]);

/** What to add to the name of a suite that is skipped without the server. */
export const s3ServerNeed = hasS3Server ? "" : ` (skipped: ${toolVariable} names no server)`;

export interface S3Server {
  readonly endpoint: string;
  /** Standard variables for a process that uses the server, credentials included. */
  readonly variables: Readonly<Record<string, string>>;
  /** A store's URL, as SERVICE_OBJECT_STORE takes it. */
  buildUrl(prefix: string): string;
  buildLocation(prefix: string): S3Location;
  /** Kills the server at once, as a power cut would; what it has stored stays. */
  stop(): Promise<void>;
  /** Starts it again after `stop`, on the same port and data. */
  start(): Promise<void>;
  /** Keeps the server from answering, with its connections open, until `awaken`. */
  freeze(): void;
  awaken(): void;
  /** Kills the server and removes what it has stored. */
  end(): Promise<void>;
}

/**
 * Starts a server with an empty bucket and credentials of its own, able to keep versions if asked, and resolves when it
 * answers.
 */
export async function startS3Server({ keepsVersions = false } = {}): Promise<S3Server> {
  const tool = gateTool(toolVariable);
  const directory = mkdtempSync(join(tmpdir(), "palimpsest-s3-"));
  const objects = join(directory, "objects");
  mkdirSync(join(objects, bucket), { recursive: true });
  const versions = keepsVersions ? ["--versioning-dir", mkdirUnder(directory, "versions")] : [];
  const port = await freePort();
  const endpoint = `http://127.0.0.1:${port}`;
  const accessKey = randomBytes(10).toString("hex");
  const secretKey = randomBytes(20).toString("hex");
  let child: ChildProcess | undefined;

  async function start(): Promise<void> {
    const said: string[] = [];
    const started = spawn(
      tool,
      ["--port", `127.0.0.1:${port}`, "--region", region, "--keep-alive", "--quiet", "posix", ...versions, objects],
      {
        env: { PATH: process.env["PATH"], ROOT_ACCESS_KEY_ID: accessKey, ROOT_SECRET_ACCESS_KEY: secretKey },
        stdio: ["ignore", "pipe", "pipe"],
      },
    );
    child = started;
    let fault: Error | undefined;
    started.once("error", (error) => (fault = error));
    for (const stream of [started.stdout, started.stderr])
      stream.setEncoding("utf8").on("data", (chunk: string) => said.push(chunk));
    while (!(await answers(endpoint))) {
      if (fault || started.exitCode !== null || started.signalCode !== null)
        throw new Error(`the S3 server ended at start: ${fault?.message ?? said.join("")}`);
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
  }

  async function stop(): Promise<void> {
    const stopped = child;
    child = undefined;
    if (!stopped || stopped.exitCode !== null || stopped.signalCode !== null) return;
    const gone = new Promise((resolve) => stopped.once("exit", resolve));
    stopped.kill("SIGKILL");
    await gone;
  }

  const server: S3Server = {
    endpoint,
    variables: {
      AWS_ACCESS_KEY_ID: accessKey,
      AWS_SECRET_ACCESS_KEY: secretKey,
      AWS_REGION: region,
      AWS_ENDPOINT_URL_S3: endpoint,
      AWS_ALLOW_HTTP: "true",
    },
    buildUrl: (prefix) => `s3://${bucket}/${prefix}`,
    buildLocation: (prefix) => ({ kind: "s3", bucket, prefix, endpoint, region, plainHttp: true }),
    start,
    stop,
    freeze: () => void child?.kill("SIGSTOP"),
    awaken: () => void child?.kill("SIGCONT"),
    async end() {
      await stop();
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

function mkdirUnder(directory: string, name: string): string {
  const path = join(directory, name);
  mkdirSync(path);
  return path;
}

/** Any answer at all will do: an unsigned request is refused. */
async function answers(endpoint: string): Promise<boolean> {
  try {
    await fetch(endpoint);
    return true;
  } catch {
    // Not listening yet.
    return false;
  }
}
