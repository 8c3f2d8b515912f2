/**
 * The one door to time, timers, chance and simulated death.
 *
 * Everything above asks a World, so that a seeded simulation can own them all. Only this file may name
 * Date.now, performance.now, setTimeout or the system's random source (test/tidy.test.ts holds it).
 */
import { randomBytes } from "node:crypto";
import { incrementBase32, monotonicFactory, type ULIDFactory } from "ulid";
import { TrustedTime } from "./trusted-time.ts";

/** Every place where a crash is interesting: between two durable steps of one operation. */
export const crashPoints = [
  "committed",
  "synced",
  "answered",
  "folded",
  "claimed",
  "image-put",
  "segment-put",
  "pack-put",
  "head-put",
  "head-landed",
  "catalog-put",
  "fork-head-put",
  "rewind-put",
  "rewind-landed",
  "restored",
  "patched",
  "set-aside",
  "condemned",
  "collected",
  "spare-noted",
  "spare-made",
  "spare-giving",
  "spare-given",
  "spare-removed",
] as const;

/** The name of a place where a crash is interesting. */
export type CrashPoint = (typeof crashPoints)[number];

/** Undoes a timer; harmless when it has already fired. */
export type Cancel = () => void;

export interface World {
  /**
   * What time it is, in Unix milliseconds: the best guess (base/trusted-time). May jump. What is removed for good goes
   * by `time.sureMs`.
   */
  nowMs(): number;
  /** What the machine's clock says, right or wrong: for callers that detect that it was moved. */
  wallMs(): number;
  /** What `nowMs` comes from, and how far it can be relied upon. */
  readonly time: TrustedTime;
  /** Milliseconds since an arbitrary start, the same for all threads of the process; never goes back. */
  monotonicMs(): number;
  /** Calls `act` once after `delayMs`. A pending timer does not keep the process alive. */
  after(delayMs: number, act: () => void): Cancel;
  /** Calls `act` once the events that are waiting now have been seen: the end of this turn of the loop. */
  soon(act: () => void): void;
  /** Unpredictable bytes. */
  randomBytes(count: number): Uint8Array;
  /** A ULID; each one sorts after the one before, also within a millisecond. */
  ulid(): string;
  /** Marks a place where a crash is interesting. Does nothing outside a simulation or a crash test. */
  crashPoint(name: CrashPoint): void;
}

/** Resolves after `delayMs` of the world's time. */
export function sleep(world: World, delayMs: number): Promise<void> {
  return new Promise((resolve) => {
    world.after(delayMs, resolve);
  });
}

/**
 * Resolves after `delayMs` of real time, or when the signal aborts, and keeps the process alive until then: for the
 * commands of a person, which have nothing else that does.
 */
export function pause(delayMs: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const end = (): void => {
      clearTimeout(timer);
      signal?.removeEventListener("abort", end);
      resolve();
    };
    const timer = setTimeout(end, delayMs);
    signal?.addEventListener("abort", end);
    if (signal?.aborted) end();
  });
}

/** Gives the other events of the loop their turn: between the pieces of work that would hold them up as a whole. */
export function turn(world: Pick<World, "soon">): Promise<void> {
  return new Promise((resolve) => world.soon(resolve));
}

/** The ULID that sorts right after the given one. */
export function ulidAfter(ulid: string): string {
  return incrementBase32(ulid);
}

const randomPoolBytes = 4_096;

/**
 * Random fractions, one byte of entropy each, drawn from a pool: a call of the system for every byte costs more than
 * the ULID.
 */
function pooledRandom(): () => number {
  let pool = randomBytes(randomPoolBytes);
  let used = 0;
  return () => {
    if (used === pool.length) {
      pool = randomBytes(randomPoolBytes);
      used = 0;
    }
    return pool[used++]! / 256;
  };
}

/** Not performance.now(): each thread counts that from its own start. */
function monotonicMs(): number {
  const [seconds, nanoseconds] = process.hrtime();
  return seconds * 1_000 + nanoseconds / 1e6;
}

/** The real clock, timers and random source. */
export function realWorld(crashPoint: (name: CrashPoint) => void = () => {}): World {
  const nextUlid: ULIDFactory = monotonicFactory(pooledRandom());
  const wallMs = (): number => Date.now();
  const time = new TrustedTime(wallMs, monotonicMs);
  return {
    nowMs: () => time.nowMs(),
    wallMs,
    time,
    monotonicMs,
    after(delayMs, act) {
      const timer = setTimeout(act, delayMs);
      timer.unref();
      return () => clearTimeout(timer);
    },
    soon(act) {
      setImmediate(act);
    },
    randomBytes: (count) => randomBytes(count),
    ulid: () => nextUlid(time.nowMs()),
    crashPoint,
  };
}
