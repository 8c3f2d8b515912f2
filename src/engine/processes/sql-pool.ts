/**
 * The processes that run user SQL and commands that take long, seen from the main thread: which gets which, who waits,
 * who is stopped, who is killed. Whatever runs is called a batch here.
 *
 * Always true:
 * - a process has one batch
 * - reads and writes each have their number of processes, so that neither holds up the other
 * - a caller whose time is over is stopped (engine/processes/sql-process-supervisor)
 * - a call settles after its process has answered or is gone, so that no process then has the database's file open for
 *   it
 *
 * engine/processes/sql-choice alone says whose batch is next.
 * Must not know: results, transaction ids.
 */
import { ServiceError } from "../../base/faults/errors.ts";
import { limits } from "../../base/limits.ts";
import type { Log } from "../../base/log.ts";
import type { World } from "../../base/world.ts";
import type { EngineAnswer } from "../api/protocol.ts";
import { ofKind, SqlChoice } from "./sql-choice.ts";
import type { Job, JobEnd, JobOwner, Running, SqlPlaces, Waiting } from "./sql-job.ts";
import type { FromSqlProcess, ReadCall } from "./sql-messages.ts";
import { SqlSlot } from "./sql-process-supervisor.ts";
import type { SqlProcess } from "./sql-process.ts";
import type { WriteCall, SqlWriteReply } from "../process-calls/sql-write.ts";

/** User SQL reads that wait for a process, per node. */
const sqlReadQueueMax = 1024;
/** Batches that write which wait for a process, per node; a database has one at most. */
const sqlWriteQueueMax = 1024;
/** A read that has run for this long leaves one process to those that have not. */
export const sqlSliceMs = 100;

/** Processes that are ready beyond those that are wanted now, once user SQL is used at all. */
const spares = 1;

/** The longest time of a timer. */
const timerMsMax = 2 ** 31 - 1;

const tooLate = (): ServiceError =>
  new ServiceError(
    "request_timeout",
    "the statement did not finish in its time and was stopped: a batch that may write " +
      `has ${limits.sqlWriteBudgetMs / 1_000} s, one that only reads the request's own time`,
  );
const stopped = (): ServiceError => new ServiceError("unavailable", "the node is shutting down", { retryAfterSecs: 1 });

/** Why a process that we did not kill may have ended under a batch. */
function buildLossError(how: string): ServiceError {
  if (how === "SIGKILL")
    return new ServiceError(
      "overloaded",
      "the process that ran the statement was killed, as a machine does that has no memory left",
      { retryAfterSecs: 1 },
    );
  return new ServiceError(
    "invalid_request",
    "the statement needs more memory than one statement may use, and its process ended",
  );
}

export interface SqlPoolOptions {
  readonly places: SqlPlaces;
  readonly start: () => SqlProcess;
  readonly world: World;
  readonly log: Log;
}

export class SqlPool {
  readonly #options: SqlPoolOptions;
  readonly #world: World;
  readonly #places: readonly SqlSlot[];
  readonly #choice: SqlChoice;
  readonly #queues: Record<keyof SqlPlaces, Waiting[]> = { reads: [], writes: [] };
  #closing: keyof SqlPlaces | "all" | undefined;
  #runs = 0;

  constructor(options: SqlPoolOptions) {
    this.#options = options;
    this.#world = options.world;
    this.#choice = new SqlChoice(options.places, options.world);
    const events = {
      ready: () => this.#assign(),
      answered: (running: Running, message: FromSqlProcess) => this.#answered(running, message),
      lost: (running: Running | undefined, how: string, isEnd: boolean) => this.#lost(running, how, isEnd),
      rested: () => {
        if (this.#closing !== "all") this.#assign();
      },
    };
    this.#places = Array.from(
      { length: options.places.reads + options.places.writes },
      () => new SqlSlot({ ...options, events }),
    );
  }

  /**
   * Runs the batch on a read-only connection; rejects with request_timeout at the deadline or when the caller stops
   * waiting, with overloaded when too many wait.
   */
  read(owner: JobOwner, call: ReadCall, deadlineMs: number, signal: AbortSignal | undefined): Promise<EngineAnswer> {
    if (this.#queues.reads.length >= sqlReadQueueMax)
      return Promise.reject(
        new ServiceError("overloaded", "too many SQL reads wait for a process", { retryAfterSecs: 1 }),
      );
    return new Promise((resolve, reject) => {
      const complete = (end: JobEnd): void => {
        if (end.kind !== "answered") reject(end.refusal);
        else if (end.message.kind === "read") resolve(end.message.answer);
      };
      const waiting = this.#queue(
        { kind: "reads", owner, call, lane: undefined, complete },
        deadlineMs - this.#world.monotonicMs(),
      );
      if (signal?.aborted) this.#late(waiting);
      signal?.addEventListener("abort", () => this.#late(waiting), { once: true });
    });
  }

  /**
   * Runs the batch on a connection that writes, for the database of an engine thread, which commits nothing there
   * meanwhile. Never rejects.
   */
  write(owner: JobOwner, lane: number, call: WriteCall, leftMs: number): Promise<SqlWriteReply> {
    return new Promise((resolve) => {
      const complete = (end: JobEnd): void => {
        if (end.kind === "answered") return end.message.kind === "wrote" ? resolve(end.message.reply) : undefined;
        const { code, message } = end.refusal;
        resolve({ kind: end.kind, code, message });
      };
      if (this.#queues.writes.length >= sqlWriteQueueMax)
        return complete({
          kind: "refused",
          refusal: new ServiceError("overloaded", "too many SQL writes wait for a process", { retryAfterSecs: 1 }),
        });
      this.#queue({ kind: "writes", owner, call, lane, complete }, leftMs);
    });
  }

  /**
   * Ends what runs and waits for an engine thread that is gone; resolves when nothing of it touches a file any more.
   */
  async endWrites(lane: number): Promise<void> {
    this.#refuse(
      "writes",
      new ServiceError("unavailable", "the engine thread was lost", { retryAfterSecs: 1 }),
      (job) => job.lane === lane,
    );
    const ends = this.#places.flatMap((place) => (place.running?.waiting.job.lane === lane ? [place.end()] : []));
    await Promise.all(ends);
  }

  /** Takes no more reads and ends those that run; writes go on. */
  async closeReads(): Promise<void> {
    this.#closing = "reads";
    this.#refuse("reads", stopped(), () => true);
    await Promise.all(
      this.#places.flatMap((place) => (place.running?.waiting.job.kind === "reads" ? [place.end()] : [])),
    );
  }

  /** Refuses who waits, kills what runs, ends the processes. */
  async close(): Promise<void> {
    this.#closing = "all";
    this.#refuse("reads", stopped(), () => true);
    this.#refuse("writes", stopped(), () => true);
    await Promise.all(this.#places.map((place) => place.end()));
  }

  #queue(job: Job, leftMs: number): Waiting {
    const waiting: Waiting = { job, long: false, late: false, cancelTimer: () => {} };
    if (this.#closing === "all" || this.#closing === job.kind) {
      job.complete({ kind: "refused", refusal: stopped() });
      return waiting;
    }
    waiting.cancelTimer = this.#world.after(Math.min(Math.max(0, leftMs), timerMsMax), () => this.#late(waiting));
    this.#queues[job.kind].push(waiting);
    this.#assign();
    return waiting;
  }

  #refuse(kind: keyof SqlPlaces, refusal: ServiceError, isMeant: (job: Job) => boolean): void {
    const waiting = this.#queues[kind];
    this.#queues[kind] = waiting.filter(({ job }) => !isMeant(job));
    for (const { job, cancelTimer } of waiting.filter((one) => isMeant(one.job))) {
      cancelTimer();
      job.complete({ kind: "refused", refusal });
    }
  }

  get #running(): readonly Running[] {
    return this.#places.flatMap(({ running }) => (running ? [running] : []));
  }

  /**
   * Gives each free process a batch; starts one when a batch has none; takes one back for a fresh read when long ones
   * hold all of theirs.
   */
  #assign(): void {
    for (let place = this.#free(); place; place = this.#free()) {
      const waiting = this.#choice.next(this.#queues, this.#running);
      if (!waiting) break;
      const queue = this.#queues[waiting.job.kind];
      queue.splice(queue.indexOf(waiting), 1);
      this.#begin(place, waiting);
    }
    this.#startWanted();
    this.#makeRoom();
  }

  /** Every batch that may begin has a process, and one is ready for the next: a process takes long to start. */
  #startWanted(): void {
    const running = this.#running;
    const mayBegin = (kind: keyof SqlPlaces): number =>
      Math.min(this.#queues[kind].length, this.#options.places[kind] - ofKind(kind, running).length);
    const wanted = mayBegin("reads") + mayBegin("writes") + spares;
    for (
      let spare = this.#places.filter(({ isSpare }) => isSpare).length;
      spare < wanted && this.#closing !== "all";
      spare++
    ) {
      const place = this.#places.find(({ isEmpty }) => isEmpty);
      if (!place) return;
      place.start();
    }
  }

  #free(): SqlSlot | undefined {
    return this.#places.find(({ isFree }) => isFree);
  }

  #begin(place: SqlSlot, waiting: Waiting): void {
    const { kind, call } = waiting.job;
    const cancels = [];
    if (kind === "reads") {
      cancels.push(
        this.#world.after(sqlSliceMs, () => {
          waiting.long = true;
          this.#makeRoom();
        }),
      );
    } else if ("batch" in call) {
      // A command of ours may take as long as its caller waits.
      cancels.push(this.#world.after(limits.sqlWriteBudgetMs, () => this.#late(waiting)));
    }
    place.begin(waiting, ++this.#runs, cancels);
  }

  /** Stops a long read when long ones hold every place of reads and a fresh one waits. */
  #makeRoom(): void {
    const last = this.#choice.toMakeRoom(this.#queues.reads, this.#running);
    if (!last) return;
    last.preempted = true;
    this.#findPlace(last.waiting)?.stop();
  }

  #findPlace(waiting: Waiting): SqlSlot | undefined {
    return this.#places.find(({ running }) => running?.waiting === waiting);
  }

  #late(waiting: Waiting): void {
    waiting.late = true;
    waiting.cancelTimer();
    const { job } = waiting;
    const queue = this.#queues[job.kind];
    const index = queue.indexOf(waiting);
    if (index >= 0) {
      queue.splice(index, 1);
      return job.complete({
        kind: "refused",
        refusal: new ServiceError("request_timeout", "the request's time was over before its statement began"),
      });
    }
    this.#findPlace(waiting)?.stop();
  }

  #answered(running: Running, message: FromSqlProcess): void {
    this.#choice.charge(running);
    const { waiting } = running;
    const isInterrupted = message.kind === "read" && message.answer.refusal?.code === "request_timeout";
    if (running.preempted && !waiting.late && isInterrupted) this.#queueAgain(waiting);
    else this.#complete(waiting, { kind: "answered", message });
    this.#assign();
  }

  /** A process has ended: its batch is told so, unless it was only to make room, and another takes its place. */
  #lost(running: Running | undefined, how: string, isEnd: boolean): void {
    if (running) {
      this.#choice.charge(running);
      const { waiting, preempted, killed } = running;
      if (preempted && !waiting.late && killed && !isEnd) this.#queueAgain(waiting);
      else
        this.#complete(waiting, {
          kind: "lost",
          refusal: isEnd ? stopped() : killed ? tooLate() : buildLossError(how),
        });
    }
    if (this.#closing !== "all") this.#assign();
  }

  #queueAgain(waiting: Waiting): void {
    if (this.#closing) return this.#complete(waiting, { kind: "lost", refusal: stopped() });
    this.#queues.reads.push(waiting);
  }

  #complete(waiting: Waiting, end: JobEnd): void {
    waiting.cancelTimer();
    waiting.job.complete(end);
  }
}
