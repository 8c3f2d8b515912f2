/**
 * One virtual clock and one ready queue for everything that happens in a simulation.
 *
 * Always true: what happens next is decided by the seed alone. Each step takes one of the events that are due, runs it,
 * and waits until nothing is left that could go on without another event; when nothing is due, time jumps. Every event
 * goes into the trace, so that two runs of one seed can be compared.
 */
import { createHash, type Hash } from "node:crypto";
import { seeded } from "../support/random.ts";

/** Whoever events happen to: what is due for a paused one waits, what is due for a dead one never happens. */
export interface Owner {
  readonly name: string;
  readonly fate: "alive" | "paused" | "dead";
}

interface SimEvent {
  dueMs: number;
  readonly order: number;
  readonly owner: Owner;
  readonly what: string;
  readonly act: () => void;
  cancelled: boolean;
}

/** Whoever is outside all nodes: the store, the supervisor, the clients. */
export const outside: Owner = { name: "-", fate: "alive" };

/** What one event costs in virtual time, so that a loop without a timer still sees the clock move. */
const stepMs = 0.01;

/** A generator of its own for each part of a run, so that one part's draws do not move another's. */
export function stream(seed: number, part: string): () => number {
  return seeded(createHash("sha256").update(`${seed}/${part}`).digest().readUInt32LE(0));
}

export class Scheduler {
  nowMs = 0;
  steps = 0;
  /** The last lines of the trace; all of them when they are kept. */
  readonly lines: string[] = [];
  readonly #linesMax: number;
  readonly #random: () => number;
  readonly #later = new EventHeap();
  readonly #due: SimEvent[] = [];
  readonly #held = new Map<Owner, SimEvent[]>();
  readonly #hash: Hash = createHash("sha256");
  #order = 0;

  constructor(seed: number, linesMax: number) {
    this.#random = stream(seed, "scheduler");
    this.#linesMax = linesMax;
  }

  /** Calls `act` once after `delayMs` of virtual time, if its owner is alive then. */
  at(delayMs: number, owner: Owner, what: string, act: () => void): () => void {
    const event: SimEvent = {
      dueMs: this.nowMs + Math.max(0, delayMs),
      order: this.#order++,
      owner,
      what,
      act,
      cancelled: false,
    };
    this.#later.push(event);
    return () => {
      event.cancelled = true;
    };
  }

  /** A line of messages from one place to another: each takes its time, none overtakes another. */
  channel(owner: Owner, what: string, delayMs: () => number): (act: () => void) => void {
    const waiting: (() => void)[] = [];
    let lastDueMs = 0;
    return (act) => {
      waiting.push(act);
      lastDueMs = Math.max(lastDueMs, this.nowMs + delayMs());
      this.at(lastDueMs - this.nowMs, owner, what, () => waiting.shift()!());
    };
  }

  sleep(delayMs: number): Promise<void> {
    return new Promise((resolve) => {
      this.at(delayMs, outside, "sleep", resolve);
    });
  }

  /** Lets what waited for a paused owner happen now. */
  release(owner: Owner): void {
    for (const event of this.#held.get(owner) ?? []) {
      event.dueMs = this.nowMs;
      this.#later.push(event);
    }
    this.#held.delete(owner);
  }

  /** Notes something that happened within an event. */
  note(name: string, what: string): void {
    const line = `${this.nowMs.toFixed(3)} ${name} ${what}`;
    this.#hash.update(line).update("\n");
    this.lines.push(line);
    if (this.lines.length > this.#linesMax * 2) this.lines.splice(0, this.lines.length - this.#linesMax);
  }

  /** Names everything that has happened so far. */
  get traceHash(): string {
    return this.#hash.copy().digest("hex").slice(0, 16);
  }

  /** Runs until `done` says so; false when virtual time reached `untilMs` first. */
  async run(done: () => boolean, untilMs: number): Promise<boolean> {
    await settled();
    while (!done()) {
      const event = this.#next(untilMs);
      if (!event) return false;
      if (event.cancelled || event.owner.fate === "dead") continue;
      if (event.owner.fate === "paused") {
        const held = this.#held.get(event.owner) ?? [];
        held.push(event);
        this.#held.set(event.owner, held);
        continue;
      }
      this.steps++;
      this.nowMs += stepMs;
      this.note(event.owner.name, event.what);
      event.act();
      await settled();
    }
    return true;
  }

  #next(untilMs: number): SimEvent | undefined {
    const first = this.#later.top;
    if (this.#due.length === 0) {
      if (!first || first.dueMs > untilMs) return undefined;
      this.nowMs = Math.max(this.nowMs, first.dueMs);
    }
    while (this.#later.top && this.#later.top.dueMs <= this.nowMs) this.#due.push(this.#later.pop());
    const index = Math.floor(this.#random() * this.#due.length);
    const event = this.#due[index]!;
    const last = this.#due.pop()!;
    if (last !== event) this.#due[index] = last;
    return event;
  }
}

/** Resolves when nothing can go on by itself: every promise has run on, and no file operation is under way. */
async function settled(): Promise<void> {
  do {
    await new Promise((resolve) => setImmediate(resolve));
  } while (process.getActiveResourcesInfo().some((resource) => resource.startsWith("FSReq")));
}

/** Events by due time, then by the order in which they were made. */
class EventHeap {
  readonly #events: SimEvent[] = [];

  get top(): SimEvent | undefined {
    return this.#events[0];
  }

  push(event: SimEvent): void {
    const events = this.#events;
    let at = events.push(event) - 1;
    while (at > 0) {
      const parent = (at - 1) >> 1;
      if (!isBefore(event, events[parent]!)) break;
      events[at] = events[parent]!;
      at = parent;
    }
    events[at] = event;
  }

  /** Takes the first; call when there is one. */
  pop(): SimEvent {
    const events = this.#events;
    const first = events[0]!;
    const last = events.pop()!;
    if (events.length > 0) {
      let at = 0;
      for (;;) {
        let child = 2 * at + 1;
        if (child >= events.length) break;
        if (child + 1 < events.length && isBefore(events[child + 1]!, events[child]!)) child++;
        if (!isBefore(events[child]!, last)) break;
        events[at] = events[child]!;
        at = child;
      }
      events[at] = last;
    }
    return first;
  }
}

function isBefore(a: SimEvent, b: SimEvent): boolean {
  return a.dueMs < b.dueMs || (a.dueMs === b.dueMs && a.order < b.order);
}
