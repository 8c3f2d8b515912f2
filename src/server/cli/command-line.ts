/**
 * The command line: `palimpsest serve`, its flags, what it says, its signals and exit codes; and the smaller commands.
 *
 * Exit codes: 0 stopped in order; 1 the node failed to start or to stop; 2 a wrong command line or configuration; 128 +
 * n when a second signal n ends the drain. What a person reads goes to standard output, logs go to standard error.
 */
import { availableParallelism } from "node:os";
import { Command, CommanderError, Option } from "commander";
import { jsonLog, type Log } from "../../base/log.ts";
import { formatsMarkdown } from "../../format/core/versions.ts";
import { adminCommands } from "./admin-commands.ts";
import { getFlag, readConfig, settingsMarkdown, type Config, type Environment } from "../config/config.ts";
import { settings } from "../config/settings.ts";
import { startNode } from "../node/compose.ts";
import { packageVersion } from "../config/package-version.ts";
import { doctorCommand } from "./doctor-command.ts";
import { backupCommand, restoreFleet } from "./copy-command.ts";
import { repairCommand } from "./repair-command.ts";
import { restore, restoreCommand, type RestoreAllFlags, type RestoreFlags } from "./restore-command.ts";
import { inspectCommand } from "./inspect-command.ts";
import { forgetNodeCommand } from "./forget-node-command.ts";
import { keyCommand } from "./key-command.ts";
import { scanCommand } from "./scan-command.ts";
import { startRefusals, startWarnings } from "../config/start-checks.ts";
import { verifyCommand } from "./verify-command.ts";

/** The parts of `process` that the command line uses. */
export type Surroundings = Pick<
  NodeJS.Process,
  "argv" | "env" | "pid" | "stdin" | "stdout" | "stderr" | "on" | "off" | "exit"
>;

const usageExit = 2;
const signalNumbers = { SIGINT: 2, SIGTERM: 15 } as const;
type StopSignal = keyof typeof signalNumbers;

/** Runs the command that the arguments name and answers its exit code once it is over. */
export async function runCommandLine(around: Surroundings): Promise<number> {
  let code = 0;
  const program = new Command("palimpsest")
    .description("An agent-memory database.")
    .version(packageVersion())
    .exitOverride()
    .configureOutput({ writeOut: (text) => around.stdout.write(text), writeErr: (text) => around.stderr.write(text) });
  program.addCommand(
    serveCommand()
      .action(async (flags: Readonly<Record<string, string | true>>) => {
        code = await serve(around, { ...around.env, ...toVariables(flags) });
      })
      .copyInheritedSettings(program),
  );
  program.addCommand(
    restoreCommand()
      .action(async (flags: RestoreFlags & RestoreAllFlags) => {
        code = flags.all ? await restoreFleet(around, flags) : await restoreUntilSignal(around, flags);
      })
      .copyInheritedSettings(program),
  );
  program.addCommand(verifyCommand(around, (exitCode) => (code = exitCode)).copyInheritedSettings(program));
  program.addCommand(scanCommand(around, (exitCode) => (code = exitCode)).copyInheritedSettings(program));
  program.addCommand(backupCommand(around, (exitCode) => (code = exitCode)).copyInheritedSettings(program));
  program.addCommand(doctorCommand(around, (exitCode) => (code = exitCode)).copyInheritedSettings(program));
  program.addCommand(inspectCommand(around, (exitCode) => (code = exitCode)).copyInheritedSettings(program));
  program.addCommand(repairCommand(around, (exitCode) => (code = exitCode)).copyInheritedSettings(program));
  program.addCommand(forgetNodeCommand(around, (exitCode) => (code = exitCode)).copyInheritedSettings(program));
  program.addCommand(
    inheriting(
      keyCommand(around, (exitCode) => (code = exitCode)),
      program,
    ),
  );
  for (const command of adminCommands(around, (exitCode) => (code = exitCode)))
    program.addCommand(inheriting(command, program));
  program
    .command("variables")
    .description("print the table of variables in Markdown")
    .action(() => {
      around.stdout.write(settingsMarkdown());
    });
  program
    .command("formats")
    .description("print which versions of the formats at rest this build writes and reads, in Markdown")
    .action(() => {
      around.stdout.write(formatsMarkdown());
    });
  try {
    await program.parseAsync(around.argv);
    return code;
  } catch (error) {
    // Commander has already written what it has to say; `--help` and `--version` end this way too.
    if (error instanceof CommanderError) return error.exitCode === 0 ? 0 : usageExit;
    throw error;
  }
}

/** The command and those below it with the parent's ways of speaking and ending. */
function inheriting(command: Command, parent: Command): Command {
  command.copyInheritedSettings(parent);
  for (const child of command.commands) inheriting(child, command);
  return command;
}

/** `serve` with one flag for every setting that is not a secret. */
function serveCommand(): Command {
  const command = new Command("serve").description("run a node until SIGTERM or SIGINT");
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

/** Restores a file; the first signal ends it and leaves nothing behind. */
async function restoreUntilSignal(around: Surroundings, flags: RestoreFlags): Promise<number> {
  const stop = firstSignal(around);
  const controller = new AbortController();
  void stop.received.then((signal) => controller.abort(new Error(`ended by ${signal}`)));
  try {
    return await restore(
      { env: around.env, stdout: around.stdout, stderr: around.stderr, signal: controller.signal },
      flags,
    );
  } finally {
    stop.release();
  }
}

/** Watches for the signals that stop a node: the first is reported, the second exits at once. */
function firstSignal(around: Surroundings): { readonly received: Promise<StopSignal>; release(): void } {
  const { promise, resolve } = Promise.withResolvers<StopSignal>();
  let stopping = false;
  const onSignal = (signal: NodeJS.Signals): void => {
    if (stopping) around.exit(128 + signalNumbers[signal as StopSignal]);
    stopping = true;
    resolve(signal as StopSignal);
  };
  const signals = Object.keys(signalNumbers) as StopSignal[];
  for (const signal of signals) around.on(signal, onSignal);
  return {
    received: promise,
    release() {
      for (const signal of signals) around.off(signal, onSignal);
    },
  };
}

function refuse(around: Surroundings, reasons: readonly string[]): number {
  around.stderr.write(`palimpsest: not started\n${reasons.map((reason) => `  ${reason}\n`).join("")}`);
  return usageExit;
}
