/** Runs of the command: in the process of the test, which begin sooner, and as processes of their own. */
import { execFile } from "node:child_process";
import { Readable } from "node:stream";
import { type Command, CommanderError } from "commander";
import { runCommandLine } from "../../src/server/cli/command-line.ts";
import type { Surroundings } from "../../src/server/cli/surroundings.ts";
import { serviceEntry } from "./node-process.ts";

/** How a run ended, and what it wrote. */
export interface Run<Code = number> {
  readonly code: Code;
  readonly out: string;
  readonly error: string;
}

type Variables = Readonly<Record<string, string>>;

/** The whole command line in this process. */
export async function palimpsest(words: readonly string[], env: Variables = {}, input = ""): Promise<Run> {
  let [out, error] = ["", ""];
  const around = {
    argv: ["node", "palimpsest", ...words],
    env,
    pid: 1,
    stdin: Readable.from([input]),
    stdout: {
      write: (text: string, told?: () => void) => {
        out += text;
        told?.();
      },
    },
    stderr: { write: (text: string) => (error += text) },
    on: () => {},
    off: () => {},
    exit: () => {},
  };
  const code = await runCommandLine(around as unknown as Surroundings);
  return { code, out, error };
}

/** What a single command is given: the variables, and where it writes. */
interface CommandSurroundings {
  readonly env: Variables;
  readonly stdout: { write(text: string): unknown };
  readonly stderr: { write(text: string): unknown };
}

/** A single command in this process. A wrong command line has the code that the parser gives it. */
export async function runCommand(
  make: (around: CommandSurroundings, ended: (code: number) => void) => Command,
  words: readonly string[],
  env: Variables = {},
): Promise<Run<number | undefined>> {
  let [out, error, code]: [string, string, number | undefined] = ["", "", undefined];
  const stdout = { write: (text: string) => (out += text) };
  const stderr = { write: (text: string) => (error += text) };
  const command = make({ env, stdout, stderr }, (ended) => (code = ended));
  try {
    await command
      .exitOverride()
      .configureOutput({ writeErr: stderr.write, writeOut: stdout.write })
      .parseAsync(words, { from: "user" });
  } catch (thrown) {
    if (!(thrown instanceof CommanderError)) throw thrown;
    code = thrown.exitCode;
  }
  return { code, out, error };
}

/** The command as a process, which reads the input and has no other variables than these. */
export function spawned(words: readonly string[], env: Variables = {}, input = ""): Promise<Run> {
  return new Promise((resolve) => {
    const child = execFile(
      process.execPath,
      [serviceEntry, ...words],
      { env: { PATH: process.env["PATH"], ...env } },
      (_, out, error) => resolve({ code: child.exitCode ?? -1, out, error }),
    );
    child.stdin!.end(input);
  });
}
