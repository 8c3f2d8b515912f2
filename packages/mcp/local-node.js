/**
 * The node: found where it answers, or started on this machine where that was asked for.
 *
 * Always true: of several that start one at once one node comes up, as a port has one listener, and all of them use it;
 * it outlives whoever started it. Must not know: the protocol.
 */
import { spawn } from "node:child_process";
import { mkdirSync, openSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as wait } from "node:timers/promises";

const startMs = 20_000;
const lookMs = 100;

/**
 * Resolves when the node answers, at once where none is to be started: then its absence is told of each request.
 *
 * @param {import("./options.js").Options} options
 * @param {(text: string) => void} tell
 * @returns {Promise<void>}
 */
export async function findNode({ url, start, command, dataDirectory }, tell) {
  if (!start || (await answers(url))) return;
  mkdirSync(dataDirectory, { recursive: true, mode: 0o700 });
  const log = join(dataDirectory, "node.log");
  tell(`no node answers at ${url.origin}; starting one with its data in ${dataDirectory}`);
  const output = openSync(log, "a", 0o600);
  const child = spawn(command, ["serve"], {
    detached: true,
    stdio: ["ignore", output, output],
    env: {
      ...process.env,
      SERVICE_LISTEN: `${url.hostname}:${url.port || "80"}`,
      SERVICE_DATA_DIR: dataDirectory,
      SERVICE_SINGLE_NODE: "1",
    },
  });
  /** @type {Promise<string>} */
  const failed = new Promise((resolve) =>
    child.once("error", () =>
      resolve(`${command} cannot be run: npm install -g palimpsest, or set PALIMPSEST_COMMAND`),
    ),
  );
  child.unref();
  for (const endsAt = Date.now() + startMs; Date.now() < endsAt;) {
    const why = await Promise.race([failed, wait(lookMs)]);
    if (why !== undefined) throw new Error(why);
    if (await answers(url)) return;
  }
  throw new Error(`the node that was started does not answer; ${log} says why`);
}

/** @param {URL} url */
async function answers(url) {
  try {
    return (await fetch(new URL("/health", url), { signal: AbortSignal.timeout(2_000) })).ok;
  } catch {
    // Nobody listens there.
    return false;
  }
}
