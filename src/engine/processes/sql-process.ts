/**
 * A process that runs user SQL, seen from the node that has started it.
 *
 * Always true: it is given what it needs and nothing else, two pipes and an environment without a secret; once it is
 * killed, only its end is heard, after the system has closed its files.
 */
import { spawn, type ChildProcess } from "node:child_process";
import { setPriority } from "node:os";
import type { Duplex } from "node:stream";
import { encodeFrame, FrameReader } from "./sql-frames.ts";
import type { FromSqlProcess, ToSqlProcess } from "./sql-messages.ts";

/** Heap of JavaScript values of such a process, in MiB: a result's rows and their JSON. */
const sqlHeapMiB = 256;
/** By so much the system prefers the threads that answer all callers to these processes. */
const sqlNiceness = 5;

/** What carries batches to such a process and answers back. */
export interface SqlProcess {
  /** The process's number to the system. */
  readonly pid: number | undefined;
  send(message: ToSqlProcess): void;
  /** Stops the batch of that ticket at SQLite's next step, now or when it begins. */
  interrupt(ticket: number): void;
  kill(): void;
  /**
   * Called once, before anything is sent. `ended` comes last, when the process is gone; `how` is its exit code or its
   * signal.
   */
  listen(hear: (message: FromSqlProcess) => void, ended: (how: string) => void): void;
}

export interface SqlProcessOptions {
  readonly entry: string;
  /** The data directory. */
  readonly directory: string;
  /** What it may know of the environment: no secret. */
  readonly environment: Readonly<Record<string, string>>;
}

/** Starts one. A process that cannot be started ends at once. */
export function startSqlProcess({ entry, directory, environment }: SqlProcessOptions): SqlProcess {
  const child = spawn(process.execPath, [`--max-old-space-size=${sqlHeapMiB}`, entry], {
    env: environment,
    // Not the node's own: content could be in what it prints.
    stdio: ["ignore", "ignore", "ignore", "pipe", "pipe"],
    // A terminal's signals are for the node.
    detached: true,
  });
  giveWay(child);
  return new Spawned(child, { kind: "hello", directory });
}

/** The threads that answer all callers come first on a busy processor. */
function giveWay({ pid }: ChildProcess): void {
  try {
    if (pid !== undefined) setPriority(pid, sqlNiceness);
  } catch {
    // It has ended already, or the system does not permit it: then it takes its share like the others.
  }
}

class Spawned implements SqlProcess {
  readonly #child: ChildProcess;
  readonly #messages: Duplex | undefined;
  readonly #tickets: Duplex | undefined;
  #killed = false;
  #fault: Error | undefined;

  constructor(child: ChildProcess, hello: ToSqlProcess) {
    this.#child = child;
    [this.#messages, this.#tickets] = [child.stdio[3], child.stdio[4]] as (Duplex | undefined)[];
    // A process that could not be started has no pipes; a pipe that breaks says what the process's end says after it.
    const note = (error: Error): void => void (this.#fault = error);
    child.on("error", note);
    this.#messages?.on("error", note);
    this.#tickets?.on("error", note);
    this.send(hello);
  }

  get pid(): number | undefined {
    return this.#child.pid;
  }

  send(message: ToSqlProcess): void {
    this.#messages?.write(encodeFrame(message));
  }

  interrupt(ticket: number): void {
    const bytes = Buffer.alloc(8);
    bytes.writeBigInt64LE(BigInt(ticket));
    this.#tickets?.write(bytes);
  }

  kill(): void {
    this.#killed = true;
    this.#child.kill("SIGKILL");
  }

  listen(hear: (message: FromSqlProcess) => void, ended: (how: string) => void): void {
    const reader = new FrameReader();
    this.#messages?.on("data", (piece: Buffer) => {
      try {
        if (this.#killed) return;
        for (const message of reader.take(piece)) hear(message as FromSqlProcess);
      } catch (error) {
        this.#fault = error as Error;
        this.kill();
      }
    });
    let isOver = false;
    const end = (how: string): void => {
      if (!isOver) ended(how);
      isOver = true;
    };
    // After the exit, when what it wrote before was read.
    this.#child.on("close", (code, signal) => end(signal ?? (code === 0 ? "exit" : `exit code ${code}`)));
    if (this.#child.pid === undefined) this.#child.on("error", (error) => end(error.name));
    else if (this.#fault) this.kill();
  }
}
