/**
 * The process between a program and the node that it has started: it ends the node, and removes its folder, when the
 * program asks for that or is no more, however it came to its end.
 *
 * Run with the folder and the command as arguments. Always true: the program holds the other end of standard input, which
 * the system closes with the program. Signals to the terminal's group are for the program; what follows is done here.
 */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { rm } from "node:fs/promises";

/** Milliseconds for an orderly stop before the node is killed. */
const stopTimeoutMs = 10_000;

const [directory, program, ...given] = process.argv.slice(2) as [string, string, ...string[]];
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) process.on(signal, () => undefined);
// Nobody listens any more when the program is gone.
for (const stream of [process.stdout, process.stderr]) stream.on("error", () => undefined);

const node = spawn(program, given, { detached: true, stdio: ["ignore", "inherit", "inherit"] });
const ended = new Promise<number>((resolve) => {
  node.once("error", ({ message }) => {
    process.stderr.write(`it cannot be started: ${message}\n`);
    resolve(1);
  });
  node.once("exit", (code) => resolve(code ?? 1));
});
const left = once(process.stdin.resume(), "end").catch(() => undefined);
await Promise.race([left, ended]);
node.kill("SIGTERM");
const timer = setTimeout(() => node.kill("SIGKILL"), stopTimeoutMs);
const code = await ended;
clearTimeout(timer);
await rm(directory, { recursive: true, force: true, maxRetries: 3 });
process.exit(code);
