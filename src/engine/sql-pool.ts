/**
 * The processes that run user SQL and commands that take long, seen from the main thread: which gets which, who waits, who is
 * stopped, who is killed. What runs is called a batch here, whichever it is.
 *
 * Always true: one batch a process; reads and writes each have their number of processes, so that neither holds up the
 * other; the next batch is that of the tenant who has used the processes least of late, and of writes, which are not taken
 * back, one place is kept from a tenant who uses much and has the others; reads that have run for longer than a slice never
 * hold all of theirs while a fresh one waits, so that however many endless SELECTs there are, of one database or of many, a
 * short one of anybody's is answered soon; whoever's time is over
 * is interrupted by its ticket, and its process killed when that does not end it; a call settles after its process has
 * answered or is gone, so that nobody then has the database's file open for it. Must not know: results, transaction ids.
 *
 * Whose batch is next is decided in `#take` and nowhere else.
 */
import { ServiceError } from "../base/errors.ts";
import { limits } from "../base/limits.ts";
import type { Log } from "../base/log.ts";
import type { Cancel, World } from "../base/world.ts";
import type { EngineAnswer } from "./protocol.ts";
import type { FromSqlProcess, ReadCall } from "./sql-messages.ts";
import type { SqlProcess } from "./sql-process.ts";
import type { WriteCall, SqlWriteReply } from "./sql-write.ts";
import { Usage } from "./usage.ts";

/** How many batches run at once. */
export interface SqlPlaces {
  readonly reads: number;
  readonly writes: number;
}

/** Whose batch it is, and of which database. */
export interface JobOwner {
  readonly uuid: string;
  readonly tenant: string;
}

interface Job {
  readonly kind: keyof SqlPlaces;
  readonly owner: JobOwner;
  readonly call: ReadCall | WriteCall;
  /** What ends when this engine thread does. */
  readonly lane: number | undefined;
  readonly settle: (end: JobEnd) => void;
}

/** What became of a batch. */
type JobEnd =
  | { readonly kind: "answered"; readonly message: FromSqlProcess }
  /** It has not begun, and never will. */
  | { readonly kind: "refused"; readonly refusal: ServiceError }
  /** Its process is gone. */
  | { readonly kind: "lost"; readonly refusal: ServiceError };

interface Waiting {
  readonly job: Job;
  /** Has run for a slice: begins, and begins again, only where a process stays free for fresh ones. */
  long: boolean;
  /** Its time is over or its caller gone. Noted, not reckoned anew: a timer may fire a moment before its time by the clock. */
  late: boolean;
  cancelTimer: Cancel;
}

interface Running {
  readonly waiting: Waiting;
  readonly begunMs: number;
  /** Of this very run: a process remembers the tickets of interrupts that came between two statements. */
  readonly ticket: number;
  /** Stopped to make room; it waits again and then starts from its beginning, which a read may. */
  preempted: boolean;
  /** Interrupted, and killed when that is not heard in time. */
  stopping: boolean;
  /** Killed by us. */
  killed: boolean;
  readonly cancels: Cancel[];
}

/** One process and those that come after it. */
interface Place {
  process: SqlProcess | undefined;
  isReady: boolean;
  running: Running | undefined;
  startedMs: number;
  pauseMs: number;
  /** Waits before it is started again. */
  isPaused: boolean;
  cancelStart: Cancel;
}

/** Processes that are ready beyond those that are wanted now, once user SQL is used at all. */
const spares = 1;

/** The longest time of a timer. */
const timerMsMax = 2 ** 31 - 1;

const tooLate = (): ServiceError => new ServiceError("request_timeout", `the statement did not finish in its time and was stopped: a batch that may write has ${limits.sqlWriteBudgetMs / 1_000} s, one that only reads the request's own time`);
const stopped = (): ServiceError => new ServiceError("unavailable", "the node is shutting down", { retryAfterSecs: 1 });

/** Why a process that nobody has killed may have ended under a batch. */
function lossOf(how: string): ServiceError {
  if (how === "SIGKILL") return new ServiceError("overloaded", "the process that ran the statement was killed, as a machine does that has no memory left", { retryAfterSecs: 1 });
  return new ServiceError("invalid_request", "the statement needs more memory than one statement may use, and its process ended");
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
  readonly #places: Place[];
  readonly #queues: Record<keyof SqlPlaces, Waiting[]> = { reads: [], writes: [] };
  /** Who waits for the end of a process. */
  readonly #ends = new Map<SqlProcess, (() => void)[]>();
  #closing: keyof SqlPlaces | "all" | undefined;
  #runs = 0;
  readonly #usage: Usage;

  constructor(options: SqlPoolOptions) {
    this.#options = options;
    this.#world = options.world;
    this.#usage = new Usage(options.world);
    this.#places = Array.from({ length: options.places.reads + options.places.writes }, () => {
      return { process: undefined, isReady: false, running: undefined, startedMs: 0, pauseMs: 0, isPaused: false, cancelStart: () => {} };
    });
  }

  /** Runs the batch on a read-only connection; rejects with request_timeout at the deadline or when nobody waits any more, with overloaded when too many wait. */
  read(owner: JobOwner, call: ReadCall, deadlineMs: number, signal: AbortSignal | undefined): Promise<EngineAnswer> {
    if (this.#queues.reads.length >= limits.sqlReadQueueMax) return Promise.reject(new ServiceError("overloaded", "too many SQL reads wait for a process", { retryAfterSecs: 1 }));
    return new Promise((resolve, reject) => {
      const settle = (end: JobEnd): void => {
        if (end.kind !== "answered") reject(end.refusal);
        else if (end.message.kind === "read") resolve(end.message.answer);
      };
      const waiting = this.#queue({ kind: "reads", owner, call, lane: undefined, settle }, deadlineMs - this.#world.monotonicMs());
      if (signal?.aborted) this.#late(waiting);
      signal?.addEventListener("abort", () => this.#late(waiting), { once: true });
    });
  }

  /** Runs the batch on a connection that writes, for the database of an engine thread, which commits nothing there meanwhile. Never rejects. */
  write(owner: JobOwner, lane: number, call: WriteCall, leftMs: number): Promise<SqlWriteReply> {
    return new Promise((resolve) => {
      const settle = (end: JobEnd): void => {
        if (end.kind === "answered") return end.message.kind === "wrote" ? resolve(end.message.reply) : undefined;
        const { code, message } = end.refusal;
        resolve({ kind: end.kind, code, message });
      };
      if (this.#queues.writes.length >= limits.sqlWriteQueueMax) return settle({ kind: "refused", refusal: new ServiceError("overloaded", "too many SQL writes wait for a process", { retryAfterSecs: 1 }) });
      this.#queue({ kind: "writes", owner, call, lane, settle }, leftMs);
    });
  }

  /** Ends what runs and waits for an engine thread that is gone; resolves when nothing of it touches a file any more. */
  async endWrites(lane: number): Promise<void> {
    this.#refuse("writes", new ServiceError("unavailable", "the engine thread was lost", { retryAfterSecs: 1 }), (job) => job.lane === lane);
    const ends = this.#places.flatMap((place) => (place.running?.waiting.job.lane === lane ? [this.#endOf(place)] : []));
    await Promise.all(ends);
  }

  /** Takes no more reads and ends those that run; writes go on. */
  async closeReads(): Promise<void> {
    this.#closing = "reads";
    this.#refuse("reads", stopped(), () => true);
    await Promise.all(this.#places.flatMap((place) => (place.running?.waiting.job.kind === "reads" ? [this.#endOf(place)] : [])));
  }

  /** Refuses who waits, kills what runs, ends the processes. */
  async close(): Promise<void> {
    this.#closing = "all";
    this.#refuse("reads", stopped(), () => true);
    this.#refuse("writes", stopped(), () => true);
    await Promise.all(this.#places.map((place) => this.#endOf(place)));
  }

  /** Kills the place's process; resolves when it is gone. */
  #endOf(place: Place): Promise<void> {
    const { process, running } = place;
    place.cancelStart();
    if (!process) return Promise.resolve();
    if (running) running.killed = true;
    return new Promise((resolve) => {
      this.#ends.set(process, [...(this.#ends.get(process) ?? []), resolve]);
      process.kill();
    });
  }

  #queue(job: Job, leftMs: number): Waiting {
    const waiting: Waiting = { job, long: false, late: false, cancelTimer: () => {} };
    if (this.#closing === "all" || this.#closing === job.kind) {
      job.settle({ kind: "refused", refusal: stopped() });
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
      job.settle({ kind: "refused", refusal });
    }
  }

  #runningOf(kind: keyof SqlPlaces): Running[] {
    return this.#places.flatMap(({ running }) => (running?.waiting.job.kind === kind ? [running] : []));
  }

  /** Gives each free process a batch; starts one when a batch has none; takes one back for a fresh read when long ones hold all of theirs. */
  #assign(): void {
    for (let place = this.#free(); place; place = this.#free()) {
      const waiting = this.#take();
      if (!waiting) break;
      this.#begin(place, waiting);
    }
    this.#startWanted();
    this.#makeRoom();
  }

  /** Whoever may begin has a process, and one is ready for who comes next: a process takes long to start. */
  #startWanted(): void {
    const mayBegin = (kind: keyof SqlPlaces): number => Math.min(this.#queues[kind].length, this.#options.places[kind] - this.#runningOf(kind).length);
    const wanted = mayBegin("reads") + mayBegin("writes") + spares;
    for (let idle = this.#places.filter(({ process, running }) => process && !running).length; idle < wanted && this.#closing !== "all"; idle++) {
      if (!this.#startOne()) return;
    }
  }

  #free(): Place | undefined {
    return this.#places.find(({ process, isReady, running }) => process && isReady && !running);
  }

  /**
   * The next batch of those that have a place of their kind: writes first, which hold a database up; of the reads fresh ones
   * first; among equals that of the tenant who has used least, and one whose database has no process now.
   */
  #take(): Waiting | undefined {
    const { reads, writes } = this.#options.places;
    const writing = this.#runningOf("writes");
    if (writing.length < writes) {
      const isLast = writes > 1 && writing.length === writes - 1;
      const taken = this.#takeFrom("writes", this.#queues.writes.filter(({ job }) => !isLast || !this.#hasEnough(job.owner.tenant, writing)));
      if (taken) return taken;
    }
    const running = this.#runningOf("reads");
    if (running.length >= reads) return undefined;
    const mayBeLong = running.filter(({ waiting }) => waiting.long).length < Math.max(1, reads - 1);
    const fresh = this.#queues.reads.filter((waiting) => !waiting.long);
    return this.#takeFrom("reads", fresh.length > 0 || !mayBeLong ? fresh : this.#queues.reads);
  }

  #takeFrom(kind: keyof SqlPlaces, eligible: readonly Waiting[]): Waiting | undefined {
    if (eligible.length === 0) return undefined;
    const used = new Map<string, number>();
    for (const { job } of eligible) if (!used.has(job.owner.tenant)) used.set(job.owner.tenant, this.#usedBy(job.owner.tenant));
    const least = Math.min(...used.values());
    const theirs = eligible.filter(({ job }) => used.get(job.owner.tenant) === least);
    const busy = new Set(this.#runningOf(kind).map(({ waiting }) => waiting.job.owner.uuid));
    const taken = theirs.find(({ job }) => !busy.has(job.owner.uuid)) ?? theirs[0]!;
    this.#queues[kind].splice(this.#queues[kind].indexOf(taken), 1);
    return taken;
  }

  /** What the tenant has used of late, what runs now included. */
  #usedBy(tenant: string): number {
    const nowMs = this.#world.monotonicMs();
    return this.#places.reduce((sum, { running }) => sum + (running?.waiting.job.owner.tenant === tenant ? nowMs - running.begunMs : 0), this.#usage.of(tenant));
  }

  /** Whether the tenant has a place, and keeps it busy for long. */
  #hasEnough(tenant: string, running: readonly Running[]): boolean {
    return running.some(({ waiting }) => waiting.job.owner.tenant === tenant) && this.#usedBy(tenant) > limits.sqlUsageMuchMs;
  }

  #begin(place: Place, waiting: Waiting): void {
    const { kind, call } = waiting.job;
    const ticket = ++this.#runs;
    const running: Running = { waiting, begunMs: this.#world.monotonicMs(), ticket, preempted: false, stopping: false, killed: false, cancels: [] };
    place.running = running;
    if (kind === "reads") {
      running.cancels.push(this.#world.after(limits.sqlSliceMs, () => {
        waiting.long = true;
        this.#makeRoom();
      }));
      place.process!.send({ kind: "read", ...(call as ReadCall), ticket });
    } else {
      // A command of ours may take as long as its caller waits.
      if ("batch" in call) running.cancels.push(this.#world.after(limits.sqlWriteBudgetMs, () => this.#late(waiting)));
      place.process!.send({ kind: "write", ...(call as WriteCall), ticket });
    }
  }

  #charge({ waiting, begunMs }: Running): void {
    this.#usage.add(waiting.job.owner.tenant, this.#world.monotonicMs() - begunMs);
  }

  /** Stops a long read when long ones hold every place of reads and a fresh one waits: the youngest of the tenant who has used most. */
  #makeRoom(): void {
    const { reads } = this.#options.places;
    if (reads < 2 || this.#queues.reads.every(({ long }) => long)) return;
    const running = this.#runningOf("reads");
    if (running.length < reads || !running.every(({ waiting, preempted }) => waiting.long && !preempted)) return;
    const used = (one: Running): number => this.#usedBy(one.waiting.job.owner.tenant);
    const last = running.toSorted((left, right) => used(right) - used(left) || right.waiting.job.call.ticket - left.waiting.job.call.ticket)[0]!;
    last.preempted = true;
    this.#stop(last);
  }

  /** Interrupts the batch, and kills its process when that does not end it. */
  #stop(running: Running): void {
    const place = this.#places.find((one) => one.running === running);
    if (!place || running.stopping) return;
    running.stopping = true;
    place.process!.interrupt(running.ticket);
    running.cancels.push(this.#world.after(limits.sqlKillGraceMs, () => {
      running.killed = true;
      place.process!.kill();
    }));
  }

  #late(waiting: Waiting): void {
    waiting.late = true;
    waiting.cancelTimer();
    const { job } = waiting;
    const queue = this.#queues[job.kind];
    const index = queue.indexOf(waiting);
    if (index >= 0) {
      queue.splice(index, 1);
      return job.settle({ kind: "refused", refusal: new ServiceError("request_timeout", "the request's time was over before its statement began") });
    }
    const running = this.#places.find((place) => place.running?.waiting === waiting)?.running;
    if (running) this.#stop(running);
  }

  /** Says no when every place has a process, or pauses. */
  #startOne(): boolean {
    const place = this.#places.find(({ process, isPaused }) => !process && !isPaused);
    if (!place) return false;
    const process = this.#options.start();
    Object.assign(place, { process, isReady: false, startedMs: this.#world.monotonicMs() });
    place.cancelStart = this.#world.after(limits.sqlStartMsMax, () => process.kill());
    process.listen((message) => this.#hear(place, message), (how) => this.#lost(place, how));
    return true;
  }

  #hear(place: Place, message: FromSqlProcess): void {
    const { running } = place;
    if (message.kind === "ready") {
      place.cancelStart();
      place.isReady = true;
      return this.#assign();
    }
    if (!running || running.killed) return;
    place.running = undefined;
    this.#charge(running);
    for (const cancel of running.cancels) cancel();
    const { waiting } = running;
    const isInterrupted = message.kind === "read" && message.answer.refusal?.code === "request_timeout";
    if (running.preempted && !waiting.late && isInterrupted) this.#queueAgain(waiting);
    else this.#settle(waiting, { kind: "answered", message });
    this.#assign();
  }

  /** A process has ended: its batch is told so, unless it was only to make room, and another takes its place. */
  #lost(place: Place, how: string): void {
    const { running, process } = place;
    place.cancelStart();
    Object.assign(place, { process: undefined, isReady: false, running: undefined });
    const ended = this.#ends.get(process!);
    this.#ends.delete(process!);
    if (!ended) this.#pause(place, how);
    if (running) {
      this.#charge(running);
      for (const cancel of running.cancels) cancel();
      const { waiting, preempted, killed } = running;
      if (preempted && !waiting.late && killed && !ended) this.#queueAgain(waiting);
      else this.#settle(waiting, { kind: "lost", refusal: ended ? stopped() : killed ? tooLate() : lossOf(how) });
    }
    for (const resolve of ended ?? []) resolve();
    if (this.#closing !== "all") this.#assign();
  }

  /** However many processes end by force, they are not started faster than that. */
  #pause(place: Place, how: string): void {
    const livedMs = this.#world.monotonicMs() - place.startedMs;
    const isCalm = livedMs >= limits.sqlCalmMs;
    const pauseMs = isCalm ? 0 : place.pauseMs;
    place.pauseMs = Math.min(limits.sqlRestartMsMax, Math.max(limits.sqlRestartMsMin, 2 * pauseMs));
    this.#options.log.warn("a process that runs user SQL ended and is replaced", { how, livedMs: Math.round(livedMs), pauseMs });
    if (pauseMs === 0) return;
    place.isPaused = true;
    this.#world.after(pauseMs, () => {
      place.isPaused = false;
      if (this.#closing !== "all") this.#assign();
    });
  }

  #queueAgain(waiting: Waiting): void {
    if (this.#closing) return this.#settle(waiting, { kind: "lost", refusal: stopped() });
    this.#queues.reads.push(waiting);
  }

  #settle(waiting: Waiting, end: JobEnd): void {
    waiting.cancelTimer();
    waiting.job.settle(end);
  }
}
