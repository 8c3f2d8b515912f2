/**
 * One process of the pool and those that come after it: started, given one batch at a time, stopped, replaced.
 *
 * Always true: a batch that is to be stopped is interrupted by its ticket, and its process killed when that does not
 * end it; however many processes end by force, they are not started faster than a pause allows. Must not know: whose
 * batch it is, what becomes of a batch whose process is gone.
 */
import type { Log } from "../../base/log.ts";
import type { Cancel, World } from "../../base/world.ts";
import type { Running, Waiting } from "./sql-job.ts";
import type { FromSqlProcess, ReadCall } from "./sql-messages.ts";
import type { SqlProcess } from "./sql-process.ts";
import type { WriteCall } from "../process-calls/sql-write.ts";

/** A process that has not ended its batch this long after it was interrupted is killed. */
const sqlKillGraceMs = 200;
/** A process of the pool that is not ready by then is abandoned. */
const sqlStartMsMax = 30_000;
/** Pause before a process that ended by force is replaced: none for the first, then from here doubled with each, */
const sqlRestartMsMin = 50;
/** up to here, */
const sqlRestartMsMax = 1_000;
/** and none again for one that has lived for this long. */
const sqlCalmMs = 10_000;

/** What the pool hears from a place. */
interface SqlPlaceEvents {
  /** A process is there and takes batches. */
  ready(): void;
  /** The run is over, as its process says. */
  answered(running: Running, message: FromSqlProcess): void;
  /** A process has ended, with what ran in it. `isEnd`: the pool wanted it to. */
  lost(running: Running | undefined, how: string, isEnd: boolean): void;
  /** The place may be given a process again. */
  rested(): void;
}

/** What a place is made with. */
export interface SqlSlotParts {
  readonly start: () => SqlProcess;
  readonly world: World;
  readonly log: Log;
  readonly events: SqlPlaceEvents;
}

/** A place for one process at a time. */
export class SqlSlot {
  readonly #parts: SqlSlotParts;
  #process: SqlProcess | undefined;
  #isReady = false;
  #running: Running | undefined;
  #startedMs = 0;
  #pauseMs = 0;
  /** Waits before it is started again. */
  #isPaused = false;
  #cancelStart: Cancel = () => {};
  /** The callers that wait for the end of the process. */
  #ends: (() => void)[] = [];

  constructor(parts: SqlSlotParts) {
    this.#parts = parts;
  }

  /** What runs here. */
  get running(): Running | undefined {
    return this.#running;
  }

  /** Whether a batch can begin here at once. */
  get isFree(): boolean {
    return this.#process !== undefined && this.#isReady && !this.#running;
  }

  /** Whether there is a process, maybe one that is starting still, without a batch. */
  get isSpare(): boolean {
    return this.#process !== undefined && !this.#running;
  }

  /** Whether a process may be started here. */
  get isEmpty(): boolean {
    return !this.#process && !this.#isPaused;
  }

  /** Gives the place a process. */
  start(): void {
    const { start, world } = this.#parts;
    const process = start();
    this.#process = process;
    this.#isReady = false;
    this.#startedMs = world.monotonicMs();
    this.#cancelStart = world.after(sqlStartMsMax, () => process.kill());
    process.listen(
      (message) => this.#hear(message),
      (how) => this.#lost(how),
    );
  }

  /** Begins the batch in a free place. `ticket` names this very run; `cancels` are called when it is over. */
  begin(waiting: Waiting, ticket: number, cancels: Cancel[]): void {
    const { kind, call } = waiting.job;
    this.#running = {
      waiting,
      begunMs: this.#parts.world.monotonicMs(),
      ticket,
      preempted: false,
      stopping: false,
      killed: false,
      cancels,
    };
    if (kind === "reads") this.#process!.send({ kind: "read", ...(call as ReadCall), ticket });
    else this.#process!.send({ kind: "write", ...(call as WriteCall), ticket });
  }

  /** Interrupts the batch, and kills its process when that does not end it. */
  stop(): void {
    const running = this.#running;
    if (!running || running.stopping) return;
    running.stopping = true;
    this.#process!.interrupt(running.ticket);
    running.cancels.push(
      this.#parts.world.after(sqlKillGraceMs, () => {
        running.killed = true;
        this.#process!.kill();
      }),
    );
  }

  /** Kills the process; resolves when it is gone. */
  end(): Promise<void> {
    const process = this.#process;
    this.#cancelStart();
    if (!process) return Promise.resolve();
    if (this.#running) this.#running.killed = true;
    return new Promise((resolve) => {
      this.#ends.push(resolve);
      process.kill();
    });
  }

  #hear(message: FromSqlProcess): void {
    const running = this.#running;
    const { events } = this.#parts;
    if (message.kind === "ready") {
      this.#cancelStart();
      this.#isReady = true;
      return events.ready();
    }
    if (!running || running.killed) return;
    this.#running = undefined;
    for (const cancel of running.cancels) cancel();
    events.answered(running, message);
  }

  #lost(how: string): void {
    const running = this.#running;
    const ends = this.#ends;
    this.#cancelStart();
    this.#process = undefined;
    this.#isReady = false;
    this.#running = undefined;
    this.#ends = [];
    const isEnd = ends.length > 0;
    if (!isEnd) this.#pause(how);
    for (const cancel of running?.cancels ?? []) cancel();
    this.#parts.events.lost(running, how, isEnd);
    for (const resolve of ends) resolve();
  }

  /** However many processes end by force, they are not started faster than that. */
  #pause(how: string): void {
    const { world, log, events } = this.#parts;
    const livedMs = world.monotonicMs() - this.#startedMs;
    const isCalm = livedMs >= sqlCalmMs;
    const pauseMs = isCalm ? 0 : this.#pauseMs;
    this.#pauseMs = Math.min(sqlRestartMsMax, Math.max(sqlRestartMsMin, 2 * pauseMs));
    log.warn("a process that runs user SQL ended and is replaced", { how, livedMs: Math.round(livedMs), pauseMs });
    if (pauseMs === 0) return;
    this.#isPaused = true;
    world.after(pauseMs, () => {
      this.#isPaused = false;
      events.rested();
    });
  }
}
