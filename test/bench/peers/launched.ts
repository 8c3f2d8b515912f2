/** Programs that the bench starts and ends: none outlives it, and one that ends at its start is told with its log. */
import { spawn, spawnSync, type ChildProcess, type SpawnOptions } from "node:child_process";
import { accessSync, constants, readFileSync } from "node:fs";
import { delimiter, join } from "node:path";

/** So long a server may take to answer on a machine with much else to do. */
const startMs = 120_000;

export interface Launched {
  readonly pid: number;
  /** Waits until the question is answered; what it throws means not yet. */
  untilAnswered(ask: () => Promise<unknown>): Promise<void>;
  /** Ends the program with the signal and waits for its end. */
  end(signal: NodeJS.Signals): Promise<void>;
}

const running = new Set<ChildProcess>();
process.on("exit", () => {
  for (const child of running) child.kill("SIGKILL");
});

export function launch(command: string, args: readonly string[], options: SpawnOptions = {}): Launched {
  const child = spawn(command, args, { ...options, stdio: ["ignore", "pipe", "pipe"] });
  const said: string[] = [];
  let fault: Error | undefined;
  const ended = new Promise<void>((resolve) => {
    child.once("exit", () => resolve());
    child.once("error", (error) => {
      fault = error;
      resolve();
    });
  });
  for (const stream of [child.stdout!, child.stderr!])
    stream.setEncoding("utf8").on("data", (chunk: string) => {
      said.push(chunk);
      // The last words of a program tell why it has ended.
      if (said.length > 200) said.shift();
    });
  running.add(child);
  void ended.then(() => running.delete(child));
  const isOver = (): boolean => fault !== undefined || child.exitCode !== null || child.signalCode !== null;
  return {
    pid: child.pid ?? -1,
    async untilAnswered(ask) {
      const until = performance.now() + startMs;
      for (;;) {
        try {
          await ask();
          return;
        } catch (error) {
          if (isOver()) throw new Error(`${command} ended at its start: ${fault?.message ?? said.join("")}`);
          if (performance.now() > until) throw new Error(`${command} does not answer`, { cause: error });
          await new Promise((resolve) => setTimeout(resolve, 10));
        }
      }
    },
    async end(signal) {
      if (!isOver()) child.kill(signal);
      await ended;
    },
  };
}

/** Runs a program to its end; what it says, or an error with it. */
export function runToEnd(command: string, args: readonly string[], options: SpawnOptions = {}): string {
  const { status, stdout, stderr, error } = spawnSync(command, args, { ...options, stdio: "pipe", encoding: "utf8" });
  if (status !== 0) throw new Error(`${command} failed: ${error?.message ?? `${stdout}${stderr}`}`);
  return stdout;
}

/** Where the path has the program. */
export function findOnPath(name: string): string | undefined {
  return (process.env["PATH"] ?? "")
    .split(delimiter)
    .map((folder) => join(folder, name))
    .find((path) => isExecutable(path));
}

export function isExecutable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}

/** The user that a server may run as which refuses to be root; nothing to change for anybody else. */
export function plainUser(): { uid: number; gid: number } | undefined {
  if (process.getuid?.() !== 0) return undefined;
  const users = readFileSync("/etc/passwd", "utf8")
    .split("\n")
    .map((line) => line.split(":"));
  const found = ["postgres", "nobody"].flatMap((name) => users.filter(([user]) => user === name))[0];
  if (!found) throw new Error("there is neither a user postgres nor a user nobody");
  return { uid: Number(found[2]), gid: Number(found[3]) };
}
