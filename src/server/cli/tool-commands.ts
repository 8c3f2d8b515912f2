/** The commands of operators but `serve`: for stores and files without a node, and for nodes that run. */
import type { Command } from "commander";
import { settingsMarkdown } from "../config/config.ts";
import { adminCommands } from "../node-commands/admin-commands.ts";
import { backupCommand, restoreFleet } from "./copy-command.ts";
import { doctorCommand } from "./doctor-command.ts";
import { forgetNodeCommand } from "./forget-node-command.ts";
import { formatsCommand } from "./formats-command.ts";
import { inspectCommand } from "./inspect-command.ts";
import { keyCommand } from "./key-command.ts";
import { repairCommand } from "./repair-command.ts";
import { restore, restoreCommand, type RestoreAllFlags, type RestoreFlags } from "./restore-command.ts";
import { scanCommand } from "./scan-command.ts";
import { firstSignal, inheriting, type Surroundings } from "./surroundings.ts";
import { verifyCommand } from "./verify-command.ts";

/** Adds the commands to the program. `ended` hears the exit code of the one that runs. */
export function addToolCommands(program: Command, around: Surroundings, ended: (code: number) => void): void {
  const restoring = restoreCommand().action(async (flags: RestoreFlags & RestoreAllFlags) => {
    ended(flags.all ? await restoreFleet(around, flags) : await restoreUntilSignal(around, flags));
  });
  const commands = [
    restoring,
    ...[verifyCommand, scanCommand, backupCommand, doctorCommand, inspectCommand, repairCommand].map((make) =>
      make(around, ended),
    ),
    forgetNodeCommand(around, ended),
    formatsCommand(around, ended),
    keyCommand(around, ended),
    ...adminCommands(around, ended),
  ];
  for (const command of commands) program.addCommand(inheriting(command, program).helpGroup("Operators:"));
  program
    .command("variables")
    .helpGroup("Operators:")
    .description("print the table of variables in Markdown")
    .action(() => {
      around.stdout.write(settingsMarkdown());
    });
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
