/**
 * The process that runs a node's own model, seen from the node that has started it, and what the two say to each other.
 *
 * Why a process and no thread: the runtime is native code, whose faults end the process that they happen in; its memory
 * is given back whole when it ends, and seen by itself while it runs.
 *
 * Always true: it is given texts over a pipe and gives back numbers; it knows no secret, and nothing that it prints is
 * kept. Once it is killed, only its end is heard. Must not know: whose texts they are.
 */
import { spawn, type ChildProcess } from "node:child_process";
import { fileURLToPath } from "node:url";
import { moduleFile } from "../base/package-root.ts";

/** Heap of JavaScript values of such a process, in MiB: a vocabulary, and a few texts. */
const modelHeapMiB = 64;

/** What such a process is told. */
export type ToModelProcess =
  | { readonly kind: "open"; readonly entry: string; readonly threads: number }
  | { readonly kind: "embed"; readonly texts: readonly string[] };

/** What it answers, once for each order and in their order. */
export type FromModelProcess =
  | { readonly kind: "opened"; readonly residentBytes: number }
  /** The model cannot be loaded; the reason names files of the package and no text. */
  | { readonly kind: "unusable"; readonly reason: string }
  /** A place for each text; undefined for one that the model fails at. */
  | {
      readonly kind: "embedded";
      readonly vectors: readonly (Float32Array | undefined)[];
      readonly residentBytes: number;
      /** Processor time that this process has taken since it began, all its threads together. */
      readonly cpuMs: number;
    };

/** A process with a model. */
export interface ModelProcess {
  readonly pid: number | undefined;
  send(message: ToModelProcess): void;
  kill(): void;
  /** Called once. `ended` comes last; `how` is the exit code or the signal. */
  listen(hear: (message: FromModelProcess) => void, ended: (how: string) => void): void;
}

/**
 * Starts one with nothing else of the environment. A process that cannot be started ends at once; a system without
 * memory for one may refuse to try, which is thrown.
 */
export function startModelProcess(environment: Readonly<Record<string, string>>): ModelProcess {
  const entry = fileURLToPath(moduleFile("ai/local-child.ts"));
  const child = spawn(process.execPath, [`--max-old-space-size=${modelHeapMiB}`, entry], {
    env: environment,
    // A text could be in what the runtime prints.
    stdio: ["ignore", "ignore", "ignore", "ipc"],
    serialization: "advanced",
    // A terminal's signals are for the node.
    detached: true,
  });
  return new Spawned(child);
}

class Spawned implements ModelProcess {
  readonly #child: ChildProcess;
  #killed = false;

  constructor(child: ChildProcess) {
    this.#child = child;
  }

  get pid(): number | undefined {
    return this.#child.pid;
  }

  send(message: ToModelProcess): void {
    // What cannot be sent is said by the process's end.
    if (this.#child.connected) this.#child.send(message, () => {});
  }

  kill(): void {
    this.#killed = true;
    this.#child.kill("SIGKILL");
  }

  listen(hear: (message: FromModelProcess) => void, ended: (how: string) => void): void {
    const child = this.#child;
    let isOver = false;
    const end = (how: string): void => {
      if (!isOver) ended(how);
      isOver = true;
    };
    child.on("message", (message) => {
      if (!this.#killed) hear(message as FromModelProcess);
    });
    child.on("exit", (code, signal) => end(signal ?? `exit code ${code}`));
    child.on("error", (error) => {
      if (child.pid === undefined) end(error.name);
    });
  }
}
