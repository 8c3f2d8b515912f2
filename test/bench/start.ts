/**
 * How long a start takes: from the process to the first answer of a write that is on disk. The package as it is
 * published, the sources, and a bare `node:http` server as the floor, in turn.
 */
import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { startNodeProcess } from "../support/node-process.ts";
import { median } from "./raw-client.ts";

const rounds = 11;
const built = join(import.meta.dirname, "../../dist/lib/main.js");

/** Milliseconds until the echo server has said its port and answered. */
async function startEcho(): Promise<number> {
  const fromMs = performance.now();
  const child = spawn(process.execPath, [join(import.meta.dirname, "echo-server.ts")], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  const [port] = (await once(child.stdout, "data")) as [Buffer];
  await fetch(`http://127.0.0.1:${port.toString().trim()}/`);
  const tookMs = performance.now() - fromMs;
  child.kill();
  return tookMs;
}

/** Milliseconds until the node has answered a write. */
async function startOurs(directory: string, entry: string | undefined): Promise<number> {
  const fromMs = performance.now();
  const node = await startNodeProcess(directory, {}, entry);
  const { status } = await node.call("PUT", "/v1/db/kv/kv/n/k", "value", { "content-type": "text/plain" });
  if (status !== 200) throw new Error(`the first write was answered with ${status}`);
  const tookMs = performance.now() - fromMs;
  await node.end("SIGTERM");
  return tookMs;
}

export async function benchStart(directory: string): Promise<void> {
  if (!existsSync(built)) execFileSync("npm", ["run", "build"], { stdio: "inherit" });
  for (const [name, entry] of [
    ["package", built],
    ["sources", undefined],
  ] as const) {
    const node = await startNodeProcess(join(directory, name), {}, entry);
    await node.call("POST", "/v1/databases", { name: "kv" });
    await node.end("SIGTERM");
  }
  const took: Record<"echo" | "package" | "sources", number[]> = { echo: [], package: [], sources: [] };
  for (let round = 0; round < rounds; round++) {
    took.echo.push(await startEcho());
    took.package.push(await startOurs(join(directory, "package"), built));
    took.sources.push(await startOurs(join(directory, "sources"), undefined));
  }
  console.log(
    "\n### Start to the first answer\n\n| | ms, median | min to max | of a bare server |\n|---|---:|---:|---:|",
  );
  const floor = median(took.echo);
  for (const [what, figures] of Object.entries(took)) {
    const [least, most] = [Math.min(...figures), Math.max(...figures)];
    console.log(
      `| ${what} | ${median(figures).toFixed(0)} | ${least.toFixed(0)} to ${most.toFixed(0)} | ` +
        `${(median(figures) / floor).toFixed(1)} |`,
    );
  }
}
