/** A process for user SQL by itself, asked as the pool asks it, with a database file to work on. */
import { join } from "node:path";
import { onTestFinished } from "vitest";
import { sqlProcess } from "../../src/engine/threads/thread-spawner.ts";
import type { FromSqlProcess, ToSqlProcess } from "../../src/engine/processes/sql-messages.ts";
import type { SqlProcess } from "../../src/engine/processes/sql-process.ts";
import { createSchema, readState } from "../../src/model/schema.ts";
import type { SqlBatch } from "../../src/model/sql/sql.ts";
import { Connection } from "../../src/sqlite/connection/connection.ts";
import { lockDirectory } from "../../src/sqlite/connection/directory-lock.ts";
import { temporaryDirectory } from "./temporary.ts";

export interface Reply {
  /** Rows as JSON text of each statement, or the refusal; `ended` when the process is gone. */
  readonly rows?: readonly string[];
  readonly refusal?: { readonly code: string; readonly message: string };
  readonly ended?: string;
  readonly ms: number;
}

let tickets = 1;

export class ProcessUnderTest {
  readonly directory = temporaryDirectory();
  readonly path = join(this.directory, "one.db");
  /** The owner's connection, as an engine thread holds it. */
  readonly owner: Connection;
  #process: SqlProcess | undefined;
  #hear: ((message: FromSqlProcess) => void) | undefined;
  #ended: Promise<string> = Promise.resolve("");

  constructor() {
    lockDirectory(this.directory).release();
    this.owner = new Connection(this.path, { readonly: false, pageCacheKiB: 1_024, busyMs: 250 });
    createSchema(this.owner);
    onTestFinished(async () => {
      await this.kill();
      this.owner.close();
    });
  }

  get pid(): number {
    return this.#process!.pid!;
  }

  /** The number of the process, which is started when there is none. */
  async pidStarted(): Promise<number> {
    if (!this.#process) await this.start();
    return this.pid;
  }

  async start(): Promise<void> {
    const process = (this.#process = sqlProcess({
      directory: this.directory,
      environment: { SQLITE_TMPDIR: this.directory },
    }));
    const ended = Promise.withResolvers<string>();
    this.#ended = ended.promise;
    const ready = new Promise<void>((resolve) =>
      process.listen((message) => (message.kind === "ready" ? resolve() : this.#hear?.(message)), ended.resolve),
    );
    await Promise.race([ready, this.#ended.then((how) => Promise.reject(new Error(`the process ended with ${how}`)))]);
  }

  /** Runs the statements; the process is interrupted after `interruptMs`, and killed after `killMs` more. */
  async run(
    kind: "read" | "write",
    texts: readonly (readonly [text: string, ...params: unknown[]])[],
    interruptMs?: number,
    killMs = 200,
  ): Promise<Reply> {
    if (!this.#process) await this.start();
    const process = this.#process!;
    const ticket = tickets++;
    const batch: SqlBatch = {
      statements: texts.map(([text, ...params]) => ({ text, paramsJson: JSON.stringify(params) })),
      atomic: true,
      mayWrite: true,
    };
    const seal = { txid: readState(this.owner).txid + 1, committedAtMs: 1, writerEpochId: undefined, changesKeptMs: 1 };
    const message: ToSqlProcess =
      kind === "read"
        ? { kind, path: this.path, batch, ticket }
        : { kind, path: this.path, batch, ticket, seal, logBytesMax: 2 ** 27 };
    const startedMs = performance.now();
    const answered = new Promise<FromSqlProcess>((resolve) => (this.#hear = resolve));
    process.send(message);
    const timers =
      interruptMs === undefined
        ? []
        : [
            setTimeout(() => process.interrupt(ticket), interruptMs),
            setTimeout(() => process.kill(), interruptMs + killMs),
          ];
    const answer = await Promise.race([answered, this.#ended]);
    for (const timer of timers) clearTimeout(timer);
    const ms = performance.now() - startedMs;
    if (typeof answer === "string") {
      this.#process = undefined;
      return { ended: answer, ms };
    }
    if (answer.kind === "read") {
      const { value, refusal, fault } = answer.answer;
      if (refusal || fault) return { refusal: refusal ?? { code: "fault", message: fault!.message }, ms };
      const outcome = value as { readonly kind: string; readonly results?: readonly { readonly rowsJson: string }[] };
      return outcome.results
        ? { rows: outcome.results.map(({ rowsJson }) => rowsJson), ms }
        : { refusal: { code: outcome.kind, message: "" }, ms };
    }
    if (answer.kind !== "wrote") throw new Error("a process is ready once");
    if (answer.reply.kind === "ran") throw new Error("no command was given");
    if (answer.reply.kind === "done") {
      const results = answer.reply.results as readonly { readonly rowsJson: string }[];
      return { rows: results.map(({ rowsJson }) => rowsJson), ms };
    }
    return {
      refusal: answer.reply.kind === "refused" ? answer.reply : { code: "fault", message: answer.reply.fault.message },
      ms,
    };
  }

  async kill(): Promise<void> {
    this.#process?.kill();
    await this.#ended;
    this.#process = undefined;
  }
}
