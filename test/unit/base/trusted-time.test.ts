/** What time it is, under clocks that are wrong. */
import { describe, expect, test } from "vitest";
import { limits } from "../../../src/base/limits.ts";
import { TrustedTime, clockSlackMs, clockJumpMsMax } from "../../../src/base/trusted-time.ts";

const startMs = Date.UTC(2030, 0, 1);
const hourMs = 3_600_000;
const dayMs = 24 * hourMs;
const yearMs = 365 * dayMs;

/** Two clocks that a test turns, and the truth. */
class Clocks {
  trueMs = startMs;
  monotonicMs = 5_000;
  wallAheadMs: number;
  storeAheadMs = 0;
  readonly time: TrustedTime;

  constructor(wallAheadMs = 0) {
    this.wallAheadMs = wallAheadMs;
    this.time = new TrustedTime(
      () => this.trueMs + this.wallAheadMs,
      () => this.monotonicMs,
    );
  }

  /** Lets time pass, with a look each minute, and says by how much the two answers are off. */
  pass(ms: number): this {
    for (let left = ms; left > 0; left -= 60_000) {
      const stepMs = Math.min(60_000, left);
      this.trueMs += stepMs;
      this.monotonicMs += stepMs;
      this.time.look();
    }
    return this;
  }

  suspend(ms: number): void {
    this.trueMs += ms;
  }

  /** An answer of the store, `roundMs` after its request. */
  /** Another process on the same clocks. */
  restarted(): Clocks {
    const next = new Clocks(this.wallAheadMs);
    Object.assign(next, { trueMs: this.trueMs, monotonicMs: 77 });
    const time = new TrustedTime(
      () => next.trueMs + next.wallAheadMs,
      () => next.monotonicMs,
    );
    time.resume(this.time.memory);
    return Object.assign(next, { time });
  }

  answer(roundMs = 80): void {
    const sentMs = this.monotonicMs;
    const told = Math.floor((this.trueMs + this.storeAheadMs + roundMs / 2) / 1_000) * 1_000;
    this.trueMs += roundMs;
    this.monotonicMs += roundMs;
    this.time.heard(told, sentMs);
  }

  get off(): { readonly now: number; readonly sure: number } {
    return { now: this.time.nowMs() - this.trueMs, sure: this.time.sureMs() - this.trueMs };
  }
}

describe("F42: one clock", () => {
  test("it is gone by as long as it goes on", () => {
    const clocks = new Clocks().pass(3 * dayMs);
    expect(clocks.off).toEqual({ now: 0, sure: 0 });
    expect(clocks.time.aheadMs).toBe(0);
  });

  test.each([10 * 60_000, 4 * dayMs, 8 * yearMs])(
    "ahead by %d ms for two minutes: nothing is sure that has not come",
    (aheadMs) => {
      const clocks = new Clocks().pass(hourMs);
      clocks.wallAheadMs = aheadMs;
      for (let minute = 0; minute < 2; minute++) {
        clocks.pass(60_000);
        expect(clocks.off.sure).toBe(0);
        // A machine may have slept for days, not for years.
        expect(clocks.off.now).toBe(aheadMs > clockJumpMsMax ? 0 : aheadMs);
        expect(clocks.time.aheadMs).toBe(aheadMs);
      }
      clocks.wallAheadMs = 0;
      expect(clocks.pass(60_000).off).toEqual({ now: 0, sure: 0 });
    },
  );

  test("behind by years for two minutes: what is written stays right, nothing is removed", () => {
    const clocks = new Clocks().pass(hourMs);
    clocks.wallAheadMs = -8 * yearMs;
    expect(clocks.pass(120_000).off).toEqual({ now: 0, sure: -8 * yearMs });
    clocks.wallAheadMs = 0;
    expect(clocks.pass(60_000).off).toEqual({ now: 0, sure: 0 });
  });

  test("a machine that was suspended: the time is right at once, and sure after the while", () => {
    const clocks = new Clocks().pass(hourMs);
    clocks.suspend(8 * hourMs);
    expect(clocks.pass(60_000).off).toEqual({ now: 0, sure: -8 * hourMs });
    clocks.pass(limits.clockSteadyMs - 120_000);
    expect(clocks.off.sure).toBe(-8 * hourMs);
    clocks.pass(180_000);
    expect(clocks.off).toEqual({ now: 0, sure: 0 });
  });

  test("a step of seconds needs nobody; a fast clock is not sure of what it did not say an hour ago", () => {
    const clocks = new Clocks().pass(2 * hourMs);
    clocks.wallAheadMs = 3_000;
    expect(clocks.pass(60_000).off).toEqual({ now: 3_000, sure: 0 });
    expect(clocks.pass(limits.clockSteadyMs + 60_000).off.sure).toBe(3_000);
    clocks.wallAheadMs = -3_000;
    expect(clocks.pass(60_000).off).toEqual({ now: -3_000, sure: -3_000 });
    const said: number[] = [];
    for (let step = 0; step < 300; step++) {
      clocks.wallAheadMs += 50_000;
      clocks.pass(60_000);
      said.push(clocks.wallAheadMs);
      expect(clocks.off.sure).toBeLessThanOrEqual(Math.max(3_000, said.at(-60) ?? 0));
    }
  });

  test("a machine suspended every few minutes is late by an hour or two of waking, over restarts too", () => {
    let clocks = new Clocks();
    let asleepMs = 0;
    for (let nap = 0; nap < 100; nap++) {
      clocks.suspend(10 * hourMs);
      asleepMs += 10 * hourMs;
      if (nap % 3 === 0) clocks = clocks.restarted();
      clocks.pass(10 * 60_000);
      expect(clocks.off.now).toBe(0);
      expect(clocks.off.sure).toBeGreaterThanOrEqual(-13 * 10 * hourMs);
    }
    expect(asleepMs).toBeGreaterThan(clockJumpMsMax);
    expect(clocks.pass(2 * limits.clockSteadyMs).off.sure).toBe(0);
  });

  test("a clock that tells the same for an hour is believed, whatever it tells: there is no other", () => {
    const clocks = new Clocks().pass(hourMs);
    clocks.wallAheadMs = -8 * yearMs;
    clocks.pass(limits.clockSteadyMs + 120_000);
    expect(clocks.off).toEqual({ now: -8 * yearMs, sure: -8 * yearMs });
    clocks.wallAheadMs = 0;
    clocks.pass(limits.clockSteadyMs + 120_000);
    expect(clocks.off).toEqual({ now: 0, sure: 0 });
  });

  test("a start: the time of the last run is gone on from", () => {
    const { memory } = new Clocks().time;
    const ahead = new Clocks(8 * yearMs);
    ahead.time.resume(memory);
    expect(ahead.off).toEqual({ now: 0, sure: 0 });
    const behind = new Clocks(-20 * yearMs);
    behind.time.resume(memory);
    expect(behind.off).toEqual({ now: 0, sure: -20 * yearMs });
    // What it leaves to the next is not what its clock has told.
    expect(behind.time.memory.steadyMs).toBe(startMs);
    const down = new Clocks(3 * dayMs);
    down.trueMs += 3 * dayMs;
    down.wallAheadMs = 0;
    down.time.resume(memory);
    expect(down.off).toEqual({ now: 0, sure: -3 * dayMs });
    down.pass(limits.clockSteadyMs + 120_000);
    expect(down.off.sure).toBe(0);
    const soon = new Clocks();
    soon.trueMs += limits.clockToldMs / 2;
    soon.time.resume(memory);
    expect(soon.off).toEqual({ now: 0, sure: 0 });
  });
});

describe("F42: two clocks", () => {
  function withStore(wallAheadMs = 0): Clocks {
    const clocks = new Clocks(wallAheadMs);
    clocks.time.awaitStore();
    return clocks;
  }

  test("nothing is sure before the store's first word, which is asked for", () => {
    const clocks = withStore();
    expect(clocks.time.sureMs()).toBe(0);
    expect(clocks.time.look()).toBe(true);
    clocks.answer();
    expect(clocks.off).toEqual({ now: 0, sure: 0 });
    expect(clocks.time.look()).toBe(false);
  });

  test.each([4 * dayMs, 8 * yearMs, -8 * yearMs])(
    "the machine's is off by %d ms, from the start and for good: the store's is gone by",
    (aheadMs) => {
      const clocks = withStore(aheadMs);
      clocks.answer();
      for (const off of [clocks.off, clocks.pass(dayMs).off]) {
        expect(Math.abs(off.now)).toBeLessThanOrEqual(600);
        expect(Math.abs(off.sure)).toBeLessThanOrEqual(600);
      }
      expect(Math.round(clocks.time.aheadMs / 10_000)).toBe(aheadMs / 10_000);
    },
  );

  test("the machine's is moved: the store is asked at once, and what is sure stays what it was", () => {
    const clocks = withStore();
    clocks.answer();
    clocks.wallAheadMs = 4 * dayMs;
    expect(clocks.off.sure).toBe(0);
    expect(clocks.time.look()).toBe(true);
    clocks.answer();
    expect(clocks.time.look()).toBe(false);
    expect(clocks.off).toEqual({ now: 0, sure: 0 });
  });

  test("a machine that was suspended: the next answer sets all right", () => {
    const clocks = withStore();
    clocks.answer();
    clocks.suspend(8 * hourMs);
    expect(clocks.off.sure).toBe(-8 * hourMs);
    expect(clocks.time.look()).toBe(true);
    clocks.answer();
    expect(clocks.off).toEqual({ now: 0, sure: 0 });
  });

  test("the store's is wrong for a while: the machine's does not follow", () => {
    const clocks = withStore();
    clocks.answer();
    clocks.storeAheadMs = 4 * dayMs;
    for (let minute = 0; minute < 5; minute++) {
      clocks.pass(60_000);
      clocks.answer();
      expect(clocks.off).toEqual({ now: 0, sure: 0 });
    }
    clocks.storeAheadMs = 0;
    clocks.answer();
    expect(clocks.off).toEqual({ now: 0, sure: 0 });
  });

  test("answers that took long, or come from another world, say nothing", () => {
    const clocks = withStore();
    clocks.answer();
    clocks.time.heard(startMs + dayMs, clocks.monotonicMs - 2 * clockSlackMs);
    clocks.time.heard(startMs + dayMs, clocks.monotonicMs + 2 * clockSlackMs);
    clocks.time.heard(startMs + dayMs, Number.NaN);
    expect(clocks.off).toEqual({ now: 0, sure: 0 });
  });

  test("another thread goes on from what this one knows", () => {
    const clocks = withStore(4 * dayMs);
    clocks.answer();
    const other = new TrustedTime(
      () => clocks.trueMs + clocks.wallAheadMs,
      () => clocks.monotonicMs,
    );
    other.awaitStore();
    const { memory } = clocks.time;
    clocks.pass(hourMs);
    other.join(memory);
    expect(other.nowMs()).toBe(clocks.time.nowMs());
    expect(other.sureMs()).toBe(clocks.time.sureMs());
  });
});

test("F42: what was written under a clock that was ahead is taken for now, and what was not stays", () => {
  const clocks = new Clocks().pass(hourMs);
  const { trueMs, time } = clocks;
  expect(time.believable(trueMs - yearMs)).toBe(trueMs - yearMs);
  expect(time.believable(trueMs + 30_000)).toBe(trueMs + 30_000);
  expect(time.believable(trueMs + 4 * dayMs)).toBe(trueMs);
  // The clock is behind: what is right is not taken for wrong.
  clocks.wallAheadMs = -8 * yearMs;
  expect(time.believable(trueMs)).toBe(trueMs);
});
