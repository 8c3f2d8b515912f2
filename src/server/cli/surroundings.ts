/** What the command line knows of its process, the signals that stop what it runs, and how commands speak and end. */
import type { Command } from "commander";

/** The parts of `process` that the command line uses. */
export type Surroundings = Pick<
  NodeJS.Process,
  "argv" | "env" | "pid" | "stdin" | "stdout" | "stderr" | "on" | "off" | "exit"
>;

/** The exit code after a wrong command line or configuration. */
export const usageExit = 2;

const signalNumbers = { SIGINT: 2, SIGTERM: 15 } as const;
type StopSignal = keyof typeof signalNumbers;

/** Watches for the signals that stop a node: the first is reported, the second exits at once. */
export function firstSignal(around: Surroundings): { readonly received: Promise<StopSignal>; release(): void } {
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

/** The command and those below it with the parent's ways of speaking and ending. */
export function inheriting(command: Command, parent: Command): Command {
  command.copyInheritedSettings(parent);
  for (const child of command.commands) inheriting(child, command);
  return command;
}
