/**
 * `palimpsest serve`: its flags, what it says, and its exit codes.
 *
 * Exit codes: 0 stopped in order; 1 the node failed to start or to stop; 2 a wrong configuration. What a person reads
 * goes to standard output, logs go to standard error.
 */
import { availableParallelism } from "node:os";
import { Command, Option } from "commander";
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

/** Reads the configuration, runs a node and waits until a signal has stopped it. */
async function serve(around: Surroundings, environment: Environment): Promise<number> {
  const reading = readConfig(environment, { pid: around.pid, cores: availableParallelism() });
  if ("problems" in reading) return refuse(around, reading.problems);
  const { config } = reading;
  const refusals = startRefusals(config);
  if (refusals.length > 0) return refuse(around, refusals);

  const log = jsonLog(config.logLevel, around.stderr);
  for (const warning of [...reading.warnings, ...startWarnings(config)]) log.warn(warning);
  return runNode(around, config, log);
}

async function runNode(around: Surroundings, config: Config, log: Log): Promise<number> {
  const stop = firstSignal(around);
  try {
    // Only a node that starts takes the time to load what it is made of.
    const { startNode } = await import("../node/compose.ts");
    const node = await startNode(config, log);
    around.stdout.write(
      `palimpsest ${packageVersion()}: ${config.nodeId} (${node.nodeId}), data in ${config.dataDirectory}, ` +
        `auth ${config.auth}\n`,
    );
    around.stdout.write(`listening on ${node.address}\n`);
    const signal = await stop.received;
    around.stdout.write(`${signal}: finishing what is under way; a second signal exits at once\n`);
    await node.close();
    around.stdout.write("stopped\n");
    return 0;
  } catch (error) {
    log.error("the node failed", error);
    around.stderr.write(`palimpsest: ${error instanceof Error ? error.message : String(error)}\n`);
    return 1;
  } finally {
    stop.release();
  }
}

function refuse(around: Surroundings, reasons: readonly string[]): number {
  around.stderr.write(`palimpsest: not started\n${reasons.map((reason) => `  ${reason}\n`).join("")}`);
  return usageExit;
}
