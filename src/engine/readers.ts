/**
 * The pool of reader threads, seen from the main thread: who runs, who waits, who is stopped.
 *
 * Always true: one batch a thread; batches that have run for longer than a slice never hold every thread while a fresh
 * one waits, so that however many endless SELECTs there are, of one database or of many, a short one of anybody's is
 * answered soon; whoever's time is over is interrupted by (handle, ticket), which can hit no other batch.
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
  /** Has run for a slice: begins, and begins again, only where a thread stays free for fresh ones. */
  long: boolean;
  /** Its time is over or its caller gone. Noted, not reckoned anew: a timer may fire a moment before its time by the clock. */
  late: boolean;
  cancelTimer: Cancel;
}

interface Running {
  readonly waiting: Waiting;
  /** Names the reader's connection to interrupts, once it has begun. */
  handle: number | undefined;
  /** Stopped to make room; it waits again and then starts from its beginning, which a read may. */
  preempted: boolean;
  cancelSlice: Cancel;
}

interface Lane {
  readonly worker: Worker;
  running: Running | undefined;
}

const tooLate = (): ServiceError => new ServiceError("request_timeout", "the statement did not finish in the request's time and was stopped");
/** After an interrupt a batch ends at SQLite's next step; a thread that has not by then is replaced. */
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
      const waiting: Waiting = { job, resolve, reject, long: false, late: job.signal?.aborted ?? false, cancelTimer: () => {} };
      waiting.cancelTimer = this.#world.after(Math.max(0, job.deadlineMs - this.#world.monotonicMs()), () => this.#late(waiting));
      job.signal?.addEventListener("abort", () => this.#late(waiting), { once: true });
      this.#queue.push(waiting);
      this.#assign();
    });
  }

  /** Refuses who waits, stops what runs, ends the threads. */
  async close(): Promise<void> {
    this.#closing = true;
    const stopped = new ServiceError("unavailable", "the node is shutting down", { retryAfterSecs: 1 });
    for (const waiting of this.#queue.splice(0)) {
      waiting.cancelTimer();
      waiting.reject(stopped);
    }
    for (const { running } of this.#lanes) {
      if (!running) continue;
      if (running.handle !== undefined) interrupt(running.handle, running.waiting.job.ticket);
      running.waiting.cancelTimer();
      running.cancelSlice();
      running.waiting.reject(stopped);
    }
    await Promise.all(this.#lanes.map((lane) => lane.worker.terminate()));
  }

  #start(): Lane {
    const lane: Lane = { worker: this.#spawn(), running: undefined };
    lane.worker.on("message", (message: FromReader) => this.#hear(lane, message));
    lane.worker.on("error", (error) => this.#lost(lane, error));
    return lane;
  }

  /** Gives each free thread a batch; when none is free and all are held by long ones, takes one back for a fresh one. */
  #assign(): void {
    if (this.#closing) return;
    for (const lane of this.#lanes) {
      if (lane.running) continue;
      const waiting = this.#take();
      if (!waiting) return;
      lane.running = { waiting, handle: undefined, preempted: false, cancelSlice: () => {} };
      const { path, batch, ticket } = waiting.job;
      lane.worker.postMessage({ id: ticket, path, batch, ticket });
    }
    this.#makeRoom();
  }

  /** The next batch: fresh ones first, and among equals one whose database has no thread now. */
  #take(): Waiting | undefined {
    const long = this.#lanes.filter(({ running }) => running?.waiting.long).length;
    const mayBeLong = long < Math.max(1, this.#lanes.length - 1);
    const busy = new Set(this.#lanes.map(({ running }) => running?.waiting.job.uuid));
    const fresh = this.#queue.filter((waiting) => !waiting.long);
    const eligible = fresh.length > 0 || !mayBeLong ? fresh : this.#queue;
    const taken = eligible.find(({ job }) => !busy.has(job.uuid)) ?? eligible[0];
    if (taken) this.#queue.splice(this.#queue.indexOf(taken), 1);
    return taken;
  }

  /** Stops the youngest long batch when long ones hold every thread and a fresh one waits. */
  #makeRoom(): void {
    if (this.#lanes.length < 2 || this.#queue.every(({ long }) => long)) return;
    if (!this.#lanes.every(({ running }) => running?.waiting.long && !running.preempted)) return;
    const last = this.#lanes.map(({ running }) => running!).reduce((left, right) => (right.waiting.job.ticket > left.waiting.job.ticket ? right : left));
    last.preempted = true;
    if (last.handle !== undefined) interrupt(last.handle, last.waiting.job.ticket);
  }

  #hear(lane: Lane, message: FromReader): void {
    const { running } = lane;
    if (!running) return;
    const { waiting } = running;
    if (message.kind === "running") {
      running.handle = message.handle;
      running.cancelSlice = this.#world.after(limits.sqlSliceMs, () => {
        waiting.long = true;
        this.#makeRoom();
      });
      // Its time may have ended, or its thread been wanted, while it was on its way.
      if (waiting.late || running.preempted) interrupt(message.handle, message.ticket);
      return;
    }
    running.cancelSlice();
    lane.running = undefined;
    if (running.preempted && !waiting.late && message.answer.refusal?.code === "request_timeout") {
      this.#queue.push(waiting);
    } else {
      waiting.cancelTimer();
      waiting.resolve(message.answer);
    }
    this.#assign();
  }

  #late(waiting: Waiting): void {
    waiting.late = true;
    waiting.cancelTimer();
    const lane = this.#lanes.find(({ running }) => running?.waiting === waiting);
    if (!lane) {
      this.#queue = this.#queue.filter((other) => other !== waiting);
      waiting.reject(tooLate());
      return;
    }
    const { running } = lane;
    if (running?.handle !== undefined) interrupt(running.handle, waiting.job.ticket);
    waiting.cancelTimer = this.#world.after(interruptGraceMs, () => {
      if (lane.running?.waiting !== waiting) return;
      // It may be deep in a native call: a new thread takes its place now, the old one ends when the call does.
      void lane.worker.terminate();
      this.#lost(lane, tooLate());
    });
  }

  /** A thread died under its batch: refuse the batch, put a new thread in its place. */
  #lost(lane: Lane, error: unknown): void {
    if (this.#closing) return;
    lane.running?.cancelSlice();
    lane.running?.waiting.cancelTimer();
    lane.running?.waiting.reject(error);
    lane.running = undefined;
    const index = this.#lanes.indexOf(lane);
    // A thread that was replaced may still report its own end.
    if (index < 0) return;
    this.#lanes[index] = this.#start();
    this.#assign();
  }
}
