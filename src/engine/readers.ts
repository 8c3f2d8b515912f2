/**
 * The pool of reader threads, seen from the main thread: who runs, who waits, who is stopped.
 *
 * Always true: one batch a thread; one database never holds every thread while others wait for one, so that a hostile
 * SELECT delays nobody else's; whoever's time is over is interrupted by (handle, ticket), which can hit no other batch.
 */
import type { Worker } from "node:worker_threads";
import { ServiceError } from "../base/errors.ts";
import { limits } from "../base/limits.ts";
import type { Cancel, World } from "../base/world.ts";
import type { SqlBatch } from "../model/sql.ts";
import { interrupt } from "../sqlite/guard.ts";
import type { EngineAnswer, FromReader } from "./protocol.ts";

export interface ReadJob {
  readonly uuid: string;
  readonly path: string;
  readonly batch: SqlBatch;
  readonly ticket: number;
  readonly deadlineMs: number;
  /** Aborted when nobody waits for the answer any more. */
  readonly signal: AbortSignal | undefined;
}

interface Waiting {
  readonly job: ReadJob;
  readonly resolve: (answer: EngineAnswer) => void;
  readonly reject: (error: unknown) => void;
  cancelTimer: Cancel;
}

interface Lane {
  readonly worker: Worker;
  running: (Waiting & { handle?: number }) | undefined;
}

const tooLate = (): ServiceError => new ServiceError("request_timeout", "the statement did not finish in the request's time and was stopped");
/** After an interrupt a batch ends within microseconds; a thread that does not is replaced. */
const interruptGraceMs = 5_000;

export class Readers {
  readonly #world: World;
  readonly #spawn: () => Worker;
  readonly #lanes: Lane[] = [];
  #queue: Waiting[] = [];
  #closing = false;

  constructor(count: number, spawn: () => Worker, world: World) {
    this.#world = world;
    this.#spawn = spawn;
    for (let index = 0; index < count; index++) this.#lanes.push(this.#start());
  }

  /** Runs the batch on a free thread; rejects with request_timeout at the deadline, with overloaded when too many wait. */
  run(job: ReadJob): Promise<EngineAnswer> {
    if (this.#queue.length >= limits.sqlReadQueueMax) {
      return Promise.reject(new ServiceError("overloaded", "too many SQL reads wait for a thread", { retryAfterSecs: 1 }));
    }
    return new Promise((resolve, reject) => {
      const waiting: Waiting = { job, resolve, reject, cancelTimer: () => {} };
      waiting.cancelTimer = this.#world.after(Math.max(0, job.deadlineMs - this.#world.monotonicMs()), () => this.#late(waiting));
      job.signal?.addEventListener("abort", () => this.#late(waiting), { once: true });
      this.#queue.push(waiting);
      this.#assign();
    });
  }

  async close(): Promise<void> {
    this.#closing = true;
    await Promise.all(this.#lanes.map((lane) => lane.worker.terminate()));
  }

  #start(): Lane {
    const lane: Lane = { worker: this.#spawn(), running: undefined };
    lane.worker.on("message", (message: FromReader) => this.#hear(lane, message));
    lane.worker.on("error", (error) => this.#lost(lane, error));
    return lane;
  }

  /** Gives each free thread the first batch whose database does not already hold its share of threads. */
  #assign(): void {
    const share = Math.max(1, this.#lanes.length - 1);
    for (const lane of this.#lanes) {
      if (lane.running) continue;
      const index = this.#queue.findIndex(({ job }) => this.#runningFor(job.uuid) < share);
      if (index < 0) return;
      const [waiting] = this.#queue.splice(index, 1);
      lane.running = waiting!;
      const { path, batch, ticket } = waiting!.job;
      lane.worker.postMessage({ id: ticket, path, batch, ticket });
    }
  }

  #runningFor(uuid: string): number {
    return this.#lanes.filter((lane) => lane.running?.job.uuid === uuid).length;
  }

  #hear(lane: Lane, message: FromReader): void {
    const { running } = lane;
    if (!running) return;
    if (message.kind === "running") {
      running.handle = message.handle;
      // Its time may have ended while it was on its way to the thread.
      if (running.job.signal?.aborted || this.#world.monotonicMs() >= running.job.deadlineMs) interrupt(message.handle, message.ticket);
      return;
    }
    running.cancelTimer();
    lane.running = undefined;
    running.resolve(message.answer);
    this.#assign();
  }

  #late(waiting: Waiting): void {
    waiting.cancelTimer();
    const lane = this.#lanes.find(({ running }) => running === waiting);
    if (!lane) {
      this.#queue = this.#queue.filter((other) => other !== waiting);
      waiting.reject(tooLate());
      return;
    }
    const { running } = lane;
    if (running?.handle !== undefined) interrupt(running.handle, waiting.job.ticket);
    waiting.cancelTimer = this.#world.after(interruptGraceMs, () => {
      if (lane.running === waiting) void lane.worker.terminate().then(() => this.#lost(lane, tooLate()));
    });
  }

  /** A thread died under its batch: refuse the batch, put a new thread in its place. */
  #lost(lane: Lane, error: unknown): void {
    if (this.#closing) return;
    lane.running?.cancelTimer();
    lane.running?.reject(error);
    lane.running = undefined;
    const index = this.#lanes.indexOf(lane);
    if (index >= 0) this.#lanes[index] = this.#start();
    this.#assign();
  }
}
