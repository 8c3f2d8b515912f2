/**
 * Processes that run writing batches and are killed by a script: a writer for an inline engine, with the next process
 * started ahead.
 */
import { existsSync } from "node:fs";
import { join } from "node:path";
import { ServiceError } from "../../src/base/faults/errors.ts";
import { lockDirectory } from "../../src/sqlite/connection/directory-lock.ts";
import type { SqlProcess } from "../../src/engine/processes/sql-process.ts";
import { sqlProcess } from "../../src/engine/threads/thread-spawner.ts";
import type { FromSqlProcess } from "../../src/engine/processes/sql-messages.ts";
import type { SqlWriteEnd, SqlWriter, WriteCall } from "../../src/engine/process-calls/sql-write.ts";

interface Started {
  readonly process: SqlProcess;
  readonly ready: Promise<void>;
  readonly ended: Promise<string>;
  hear: ((message: FromSqlProcess) => void) | undefined;
}

export class MortalSql implements SqlWriter {
  readonly #directory: string;
  readonly #ahead: Started[] = [];
  /** When the next batch's process is killed, in ms after it was given; undefined: it lives. */
  killAfterMs: number | undefined;
  /** How long the last batch took that was answered. */
  lastMs = 0;
  /** The file that the last batch was for. */
  path = "";
  /** Called when a process was killed and is gone, before the engine hears of it. */
  lost: () => void = () => {};

  constructor(directory: string, ahead = 2) {
    this.#directory = directory;
    // As a node does at its start: it makes the file in which processes are seen.
    if (!existsSync(join(directory, "processes.lock.db"))) lockDirectory(directory).release();
    for (let count = 0; count < ahead; count++) this.#ahead.push(this.#start());
  }

  #start(): Started {
    const process = sqlProcess({ directory: this.#directory, environment: {} });
    const ready = Promise.withResolvers<void>();
    const ended = Promise.withResolvers<string>();
    const started: Started = { process, ready: ready.promise, ended: ended.promise, hear: undefined };
    process.listen((message) => (message.kind === "ready" ? ready.resolve() : started.hear?.(message)), ended.resolve);
    return started;
  }

  async run(call: WriteCall): Promise<SqlWriteEnd> {
    const started = this.#ahead[0]!;
    await started.ready;
    const startedMs = performance.now();
    this.path = call.path;
    const answered = new Promise<FromSqlProcess>((resolve) => (started.hear = resolve));
    started.process.send({ kind: "write", ...call });
    const killing =
      this.killAfterMs === undefined ? undefined : setTimeout(() => started.process.kill(), this.killAfterMs);
    const end = await Promise.race([answered, started.ended]);
    clearTimeout(killing);
    this.lastMs = performance.now() - startedMs;
    if (typeof end === "string") {
      this.#ahead.shift();
      this.#ahead.push(this.#start());
      this.lost();
      return { kind: "lost", code: "request_timeout", message: "killed by a test" };
    }
    if (end.kind !== "wrote") throw new Error("a write is answered as one");
    if (end.reply.kind === "done" || end.reply.kind === "ran") return end.reply;
    if (end.reply.kind === "fault")
      return {
        kind: "failed",
        error: Object.assign(new Error(end.reply.fault.message), { code: end.reply.fault.code }),
      };
    return { kind: "failed", error: new ServiceError(end.reply.code, end.reply.message) };
  }

  async close(): Promise<void> {
    for (const { process, ended } of this.#ahead.splice(0)) {
      process.kill();
      await ended;
    }
  }
}
