/** The world of one process of a node: virtual time and seeded chance, until the process dies. */
import { monotonicFactory, type ULIDFactory } from "ulid";
import { TrustedTime } from "../../src/base/trusted-time.ts";
import type { Cancel, World } from "../../src/base/world.ts";
import { stream, type Owner, type Scheduler } from "./scheduler.ts";

/** Where every wall clock begins. */
const startMs = Date.UTC(2030, 0, 1);

export class SimWorld implements World, Owner {
  readonly name: string;
  fate: Owner["fate"] = "alive";
  /** How far this node's wall clock is off. */
  skewMs: number;
  /** How long the machine was suspended, which its monotonic clock does not see. */
  suspendedMs = 0;
  /** Looked at wherever the engine says that a crash is interesting; it may kill this world then and there. */
  atCrashPoint: (name: string) => void = () => {};
  readonly time: TrustedTime;
  readonly #scheduler: Scheduler;
  readonly #random: () => number;
  readonly #nextUlid: ULIDFactory;
  /** What `soon` was given keeps its order, as it does in a loop of Node. */
  readonly #soon: (act: () => void) => void;

  constructor(scheduler: Scheduler, seed: number, name: string, skewMs = 0) {
    this.#scheduler = scheduler;
    this.skewMs = skewMs;
    this.name = name;
    this.time = new TrustedTime(
      () => this.wallMs(),
      () => this.monotonicMs(),
    );
    this.#random = stream(seed, `world ${name}`);
    this.#nextUlid = monotonicFactory(this.#random);
    this.#soon = scheduler.channel(this, "soon", () => 0);
  }

  nowMs(): number {
    return this.time.nowMs();
  }

  wallMs(): number {
    return Math.floor(startMs + this.#scheduler.nowMs + this.skewMs);
  }

  monotonicMs(): number {
    return this.#scheduler.nowMs - this.suspendedMs;
  }

  after(delayMs: number, act: () => void): Cancel {
    return this.#scheduler.at(delayMs, this, "timer", act);
  }

  soon(act: () => void): void {
    this.#soon(act);
  }

  randomBytes(count: number): Uint8Array {
    return Uint8Array.from({ length: count }, () => Math.floor(this.#random() * 256));
  }

  ulid(): string {
    return this.#nextUlid(this.nowMs());
  }

  crashPoint(name: string): void {
    if (this.fate !== "alive") return;
    this.#scheduler.note(this.name, `at ${name}`);
    this.atCrashPoint(name);
  }

  pause(): void {
    if (this.fate === "alive") this.fate = "paused";
  }

  resume(): void {
    if (this.fate !== "paused") return;
    this.fate = "alive";
    this.#scheduler.release(this);
  }

  /** Nothing of this process ever happens again. */
  kill(): void {
    this.fate = "dead";
  }
}
