/**
 * `palimpsest serve`: its flags, what it says, and its exit codes.
 *
 * Exit codes: 0 stopped in order; 1 the node failed to start or to stop; 2 a wrong configuration. What a person reads
 * goes to standard output, logs go to standard error.
 */
import { availableParallelism } from "node:os";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { Command, Option } from "commander";
import { placeFile, realDisk } from "../../base/disk.ts";
import { getErrorCode } from "../../base/faults/errors.ts";
import { jsonLog, type Log } from "../../base/log.ts";
import { getFlag, readConfig, type Config, type Environment } from "../config/config.ts";
import { packageVersion } from "../config/package-version.ts";
import { settings } from "../config/settings.ts";
import { startRefusals, startWarnings } from "../config/start-checks.ts";
import { firstSignal, usageExit, type Surroundings } from "./surroundings.ts";

/** The command, with one flag for every setting that is not a secret. `ended` hears the exit code. */
export function serveCommand(around: Surroundings, ended: (code: number) => void): Command {
  const command = new Command("serve")
    .description("run a node until SIGTERM or SIGINT")
    .action(async (flags: Readonly<Record<string, string | true>>) => {
      ended(await serve(around, { ...around.env, ...toVariables(flags) }));
    });
  const secrets: string[] = [];
  for (const setting of Object.values(settings)) {
    const name = getFlag(setting);
    if (name === undefined) {
      secrets.push(setting.variable);
      continue;
    }
    const about = `${setting.meaning.replaceAll("`", "")} (${setting.variable}, default: ${setting.shown})`;
    command.addOption(new Option(setting.kind.toggle ? name : `${name} <value>`, about));
  }
  return command.addHelpText(
    "after",
    `\nFlags win over variables. Secrets are variables only:\n  ${secrets.join("\n  ")}\n`,
  );
}

/** The flags as the variables that they replace. */
function toVariables(flags: Readonly<Record<string, string | true>>): Environment {
  const variables: Record<string, string> = {};
  for (const [flag, value] of Object.entries(flags)) {
    const variable = `SERVICE_${flag.replace(/[A-Z]/g, (letter) => `_${letter}`).toUpperCase()}`;
    variables[variable] = value === true ? "1" : value;
  }
  return variables;
}

/** What is told of a node that has started. */
export interface Told {
  readonly address: string;
  readonly dataDirectory: string;
  readonly auth: string;
}

/** In the data directory: where its node listens, for whoever would start a second one. A hint; it may be stale. */
const addressFile = "node-address";

/** Runs a node as the variables say until a signal has stopped it. `greet` gives what is said at its start. */
export async function serve(
  around: Surroundings,
  environment: Environment,
  greet?: (told: Told) => string,
): Promise<number> {
  const reading = readConfig(environment, { pid: around.pid, cores: availableParallelism() });
  if ("problems" in reading) return refuse(around, reading.problems);
  const { config } = reading;
  const refusals = startRefusals(config);
  if (refusals.length > 0) return refuse(around, refusals);

  const log = jsonLog(config.logLevel, around.stderr);
  for (const warning of [...reading.warnings, ...startWarnings(config)]) log.warn(warning);
  return runNode(around, config, log, greet);
}

async function runNode(
  around: Surroundings,
  config: Config,
  log: Log,
  greet?: (told: Told) => string,
): Promise<number> {
  const stop = firstSignal(around);
  try {
    // Only a node that starts takes the time to load what it is made of.
    const { startNode } = await import("../node/compose.ts");
    const node = await startNode(config, log);
    const { dataDirectory, auth } = config;
    await leaveAddress(join(dataDirectory, addressFile), node.address, log);
    if (greet) around.stdout.write(greet({ address: node.address, dataDirectory, auth }));
    else
      around.stdout.write(
        `palimpsest ${packageVersion()}: ${config.nodeId} (${node.nodeId}), data in ${dataDirectory}, auth ${auth}\n` +
          `listening on ${node.address}\n`,
      );
    const signal = await stop.received;
    around.stdout.write(`${signal}: finishing what is under way; a second signal exits at once\n`);
    await node.close();
    around.stdout.write("stopped\n");
    return 0;
  } catch (error) {
    log.error("the node failed", error);
    const message = error instanceof Error ? error.message : String(error);
    around.stderr.write(`palimpsest: ${message}${hintOf(error, config)}\n`);
    return 1;
  } finally {
    stop.release();
  }
}

/** What helps whoever starts a second node, or one at an address that is taken. */
function hintOf(error: unknown, { dataDirectory }: Config): string {
  if ((error as NodeJS.ErrnoException).code === "EADDRINUSE")
    return "; another program has that address: --listen 127.0.0.1:0 or SERVICE_LISTEN takes a free one";
  if (!(error as Error).message.endsWith("is in use by another process")) return "";
  const address = readAddress(join(dataDirectory, addressFile));
  return address === undefined ? "" : `: a node runs already, at ${address}`;
}

/** A node serves without it. */
async function leaveAddress(path: string, address: string, log: Log): Promise<void> {
  try {
    await placeFile(realDisk, path, Buffer.from(`${address}\n`));
  } catch (error) {
    log.warn("the node's address could not be left in its data directory", { code: getErrorCode(error) });
  }
}

function readAddress(path: string): string | undefined {
  try {
    return URL.parse(readFileSync(path, "utf8").trim())?.origin;
  } catch {
    // A hint only: the node runs wherever it is.
    return undefined;
  }
}

function refuse(around: Surroundings, reasons: readonly string[]): number {
  around.stderr.write(`palimpsest: not started\n${reasons.map((reason) => `  ${reason}\n`).join("")}`);
  return usageExit;
}
