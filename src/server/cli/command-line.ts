/**
 * The command line: which command the arguments name, and its exit code.
 *
 * Exit codes: 0 done; 1 it failed; 2 a wrong command line or configuration; 128 + n when a second signal n ends the
 * drain. What a person reads goes to standard output, logs go to standard error.
 */
import { Command, CommanderError } from "commander";
import { packageVersion } from "../config/package-version.ts";
import { serveCommand } from "./serve-command.ts";
import { usageExit, type Surroundings } from "./surroundings.ts";

/** Runs the command that the arguments name and answers its exit code once it is over. */
export async function runCommandLine(around: Surroundings): Promise<number> {
  let code = 0;
  const ended = (exitCode: number): void => {
    code = exitCode;
  };
  const program = new Command("palimpsest")
    .description("An agent-memory database.")
    .version(packageVersion())
    .exitOverride()
    .configureOutput({ writeOut: (text) => around.stdout.write(text), writeErr: (text) => around.stderr.write(text) });
  program.addCommand(serveCommand(around, ended).copyInheritedSettings(program));
  // A node starts without loading the others.
  if (around.argv[2] !== "serve") (await import("./tool-commands.ts")).addToolCommands(program, around, ended);
  try {
    await program.parseAsync(around.argv);
    return code;
  } catch (error) {
    // Commander has already written what it has to say; `--help` and `--version` end this way too.
    if (error instanceof CommanderError) return error.exitCode === 0 ? 0 : usageExit;
    throw error;
  }
}
