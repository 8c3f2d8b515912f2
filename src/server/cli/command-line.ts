/**
 * The command line: which command the arguments name, and its exit code.
 *
 * Exit codes: 0 done; 1 it failed; 2 a wrong command line or configuration; 3 to 6 of the commands of a person
 * (server/client-session/session); 128 + n when a second signal n ends the drain. What a person reads goes to standard
 * output, logs go to standard error.
 */
import { Command, CommanderError } from "commander";
import { packageVersion } from "../config/package-version.ts";
import { usageExit, type Surroundings } from "./surroundings.ts";

/** The commands of a person, which load nothing else (server/cli/person-commands). */
export const personCommandNames: readonly string[] = (
  "remember list show recall forget erase history diff branch checkpoint rewind undo sql turns files export " +
  "import connect connections disconnect token tokens top"
).split(" ");

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
  const name = around.argv[2];
  // Nothing else was said: somebody has just met it.
  if (name === undefined) return (await import("./start-command.ts")).startHere(around);
  // What reads the output may have enough before its end, as head does.
  around.stdout.on?.("error", (error: NodeJS.ErrnoException) => around.exit(error.code === "EPIPE" ? 0 : 1));
  if (personCommandNames.includes(name)) {
    (await import("./person-commands.ts")).addPersonCommands(program, around, ended);
  } else {
    const { serveCommand } = await import("./serve-command.ts");
    const serve = serveCommand(around, ended).copyInheritedSettings(program).helpGroup("Operators:");
    // A node starts without loading the others.
    if (name === "serve") program.addCommand(serve);
    else {
      (await import("./person-commands.ts")).addPersonCommands(program, around, ended);
      program.addCommand(serve);
      (await import("./tool-commands.ts")).addToolCommands(program, around, ended);
      program.addCommand((await import("../terminal/completion-command.ts")).completionCommand(program, around));
    }
  }
  try {
    await program.parseAsync(around.argv);
    return code;
  } catch (error) {
    // Commander has already written what it has to say; `--help` and `--version` end this way too.
    if (error instanceof CommanderError) return error.exitCode === 0 ? 0 : usageExit;
    throw error;
  }
}
