/**
 * The commands of a person: they speak to a node, by the client, and load nothing of the engine.
 *
 * Always true: `personCommandNames` are the names of all of them, by which the command line knows what to load.
 */
import type { Command } from "commander";
import { bindTo } from "../client-session/session.ts";
import { branchCommands } from "../client-commands/branch-commands.ts";
import { connectCommands } from "../client-commands/connect-command.ts";
import { filesCommand } from "../client-commands/files-command.ts";
import { forgetCommands } from "../client-commands/forget-commands.ts";
import { historyCommands } from "../client-commands/history-commands.ts";
import { memoryCommands } from "../client-commands/memory-commands.ts";
import { recallCommand } from "../client-commands/recall-command.ts";
import { sqlCommand } from "../client-commands/sql-command.ts";
import { tokenCommand } from "../client-commands/token-command.ts";
import { topCommand } from "../client-commands/top-command.ts";
import { turnsCommand } from "../client-commands/turns-command.ts";
import { exportCommand } from "../transfer-commands/export-command.ts";
import { importCommand } from "../transfer-commands/import-command.ts";
import { inheriting, type Surroundings } from "./surroundings.ts";

/** Adds the commands to the program. `ended` hears the exit code of the one that runs. */
export function addPersonCommands(program: Command, around: Surroundings, ended: (code: number) => void): void {
  const bind = bindTo(around, ended);
  const groups: readonly (readonly [title: string, commands: readonly Command[]])[] = [
    ["Memories:", [...memoryCommands(bind), recallCommand(bind), ...forgetCommands(bind)]],
    ["States:", [...historyCommands(bind), ...branchCommands(bind)]],
    ["Data:", [sqlCommand(bind), turnsCommand(bind), filesCommand(bind), exportCommand(bind), importCommand(bind)]],
    ["Nodes:", [...connectCommands(bind), tokenCommand(bind), topCommand(bind)]],
  ];
  for (const [title, commands] of groups)
    for (const command of commands) program.addCommand(inheriting(command, program).helpGroup(title));
}
