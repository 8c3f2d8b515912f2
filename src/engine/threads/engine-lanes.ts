/**
 * The engine threads of a node: started, started again when they are lost, and sent to.
 *
 * Always true: calls of one turn of the loop share one message; a lost thread is started again after a pause, only when
 * nothing writes a file for it any more, and then hears of the lease. Must not know: what is asked of a thread, who
 * waits for answers.
 */
import type { Log } from "../../base/log.ts";
import type { World } from "../../base/world.ts";
import { noAlarms, type AlarmCounts } from "../api/alarms.ts";
import type { LeaseSpan } from "../api/lease-expiry.ts";
import type { EngineCounters } from "../api/measures.ts";
import type { EngineCall, FromEngine, ToEngine } from "../api/protocol.ts";

/** What carries messages to one engine and back. */
export interface EngineLane {
  send(message: ToEngine): void;
  /** Called once, before anything is sent. */
  listen(hear: (message: FromEngine) => void, lost: (error: unknown) => void): void;
}

interface EngineLanesParts {
  readonly threads: number;
  /** Starts the engine of one lane; it is called again for an engine that was lost. */
  readonly spawn: (lane: number) => EngineLane;
  readonly world: World;
  readonly log: Log;
  /** Hears what engines say, but for what concerns their thread alone. */
  readonly heard: (lane: number, message: HeardMessage) => void;
  /** The engine of the lane is gone, and nothing that it was asked will be answered. */
  readonly lost: (lane: number) => void;
  /** Resolves when nothing writes a file for the lost engine any more. */
  readonly endWrites: (lane: number) => Promise<void> | undefined;
}

/** What an engine says beyond the part that looks after its thread. */
export type HeardMessage = Exclude<FromEngine, { kind: "alarms" | "closed" }>;

const restartPauseMsMin = 100;
const restartPauseMsMax = 10_000;
const noCounters: EngineCounters = {
  groups: 0,
  writes: 0,
  fsyncs: 0,
  manifestPuts: 0,
  bytesPut: 0,
  opened: 0,
  evicted: 0,
  stopped: 0,
};

/** The engine threads of one node. */
export class EngineLanes {
  readonly #parts: EngineLanesParts;
  readonly #lanes: EngineLane[];
  readonly #outgoing: EngineCall[][];
  readonly #closed: PromiseWithResolvers<EngineCounters>[];
  /** Lanes whose engine was lost and is not started again yet, by how long the next start waits. */
  readonly #down = new Set<number>();
  readonly #restartPauseMs: number[];
  /** What an operator must look at, by lane. */
  readonly #alarms: AlarmCounts[] = [];
  #lease: LeaseSpan | undefined;
  #ending = false;
  #flushing = false;

  constructor(parts: EngineLanesParts) {
    this.#parts = parts;
    this.#lanes = Array.from({ length: parts.threads }, (_, index) => this.#start(index));
    this.#outgoing = this.#lanes.map(() => []);
    this.#closed = this.#lanes.map(() => Promise.withResolvers<EngineCounters>());
    this.#restartPauseMs = this.#lanes.map(() => restartPauseMsMin);
  }

  /** How many there are. */
  get count(): number {
    return this.#lanes.length;
  }

  /** The engine of the lane; undefined while it is lost. */
  current(index: number): EngineLane | undefined {
    return this.#down.has(index) ? undefined : this.#lanes[index];
  }

  /** Sends the message, which may be lost with its thread. */
  send(index: number, message: ToEngine): void {
    this.#lanes[index]!.send(message);
  }

  /** Sends the call, together with the others of this turn. */
  post(index: number, call: EngineCall): void {
    this.#outgoing[index]!.push(call);
    if (this.#flushing) return;
    this.#flushing = true;
    this.#parts.world.soon(() => this.#flush());
  }

  /** Until when this node's leases surely hold; undefined when they are lost, and every database with them. */
  renewLease(until: LeaseSpan | undefined): void {
    this.#lease = until;
    // What was asked under the lease before must not come after its loss.
    this.#flush();
    for (const [index, lane] of this.#lanes.entries()) if (!this.#down.has(index)) lane.send({ kind: "lease", until });
  }

  /** What an operator must look at, as the engine threads have said last. */
  get alarms(): AlarmCounts {
    return this.#alarms.reduce(
      (sum, { quarantined, lost, wentBack }) => ({
        quarantined: sum.quarantined + quarantined,
        lost: sum.lost + lost,
        wentBack: sum.wentBack + wentBack,
      }),
      noAlarms,
    );
  }

  /** From now on an engine that is lost stays so. */
  startNone(): void {
    this.#ending = true;
  }

  /** Lets every engine answer what it owes and close its files. */
  close(): Promise<EngineCounters[]> {
    this.startNone();
    this.#flush();
    for (const [index, lane] of this.#lanes.entries()) {
      if (this.#down.has(index)) this.#closed[index]!.resolve(noCounters);
      else lane.send({ kind: "close" });
    }
    return Promise.all(this.#closed.map(({ promise }) => promise));
  }

  #start(index: number): EngineLane {
    // The new thread meets again what the one before it has met.
    this.#alarms[index] = noAlarms;
    const lane = this.#parts.spawn(index);
    lane.listen(
      (message) => this.#hear(index, message),
      (error) => this.#lost(index, error),
    );
    return lane;
  }

  #flush(): void {
    this.#flushing = false;
    for (const [index, lane] of this.#lanes.entries()) {
      const calls = this.#outgoing[index]!;
      if (calls.length === 0) continue;
      this.#outgoing[index] = [];
      lane.send({ kind: "calls", calls });
    }
  }

  #hear(index: number, message: FromEngine): void {
    switch (message.kind) {
      case "alarms":
        this.#alarms[index] = message.counts;
        return;
      case "closed":
        return this.#closed[index]!.resolve(message.counters);
      case "answers":
        // It works: if it is lost later, that is no failed start.
        this.#restartPauseMs[index] = restartPauseMsMin;
    }
    this.#parts.heard(index, message);
  }

  /** Nothing acknowledged is lost with a thread: it was on disk. A new thread opens the files again. */
  #lost(index: number, error: unknown): void {
    const { log, world, lost, endWrites } = this.#parts;
    log.error("an engine thread was lost and is started again", error, { lane: index });
    lost(index);
    if (this.#ending) return this.#closed[index]!.resolve(noCounters);
    // An engine that cannot start must not be started in a tight loop.
    const pauseMs = this.#restartPauseMs[index]!;
    this.#restartPauseMs[index] = Math.min(pauseMs * 2, restartPauseMsMax);
    this.#down.add(index);
    // What still writes a file for the lost thread must be gone before another one opens it.
    const ended = endWrites(index);
    world.after(pauseMs, async () => {
      await ended;
      if (this.#ending) return;
      this.#down.delete(index);
      this.#lanes[index] = this.#start(index);
      if (this.#lease) this.#lanes[index]!.send({ kind: "lease", until: this.#lease });
    });
  }
}
