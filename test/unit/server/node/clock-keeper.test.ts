/** What a node remembers of the time between its runs, and what it tells of a clock that is wrong. */
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { limits } from "../../../../src/base/limits.ts";
import type { Log } from "../../../../src/base/log.ts";
import type { TimeMemory } from "../../../../src/base/trusted-time.ts";
import { ClockKeeper, clockLookMs, clockNoteMs } from "../../../../src/server/node/clock-keeper.ts";
import { MemoryStore } from "../../../../src/store/memory-store.ts";
import { temporaryDirectory } from "../../../support/temporary.ts";
import { VirtualTime } from "../../../support/timed-engine.ts";

const dayMs = 86_400_000;
const yearMs = 365 * dayMs;

/** Runs of one node, each a process with a clock of its own. */
class Runs {
  readonly time = new VirtualTime();
  readonly directory = temporaryDirectory();
  readonly said: string[] = [];

  begin(skewMs = 0) {
    const world = this.time.world(skewMs);
    const log: Log = {
      info: (message) => this.said.push(`info ${message.slice(0, 24)}`),
      warn: (message) => this.said.push(`warn ${message.slice(0, 24)}`),
      error: () => {},
    };
    const keeper = new ClockKeeper({
      world,
      log,
      store: new MemoryStore(world),
      hasClock: false,
      directory: this.directory,
    });
    const end = (): void => {
      keeper[Symbol.dispose]();
      world.kill();
    };
    return { world, keeper, end, sureOff: () => world.time.sureMs() - this.trueMs };
  }

  get trueMs(): number {
    return Math.floor(Date.UTC(2030, 0, 1) + this.time.scheduler.nowMs);
  }
}

test("F42: a node that starts with its clock ahead goes on from what time it was, and tells its doubt", async () => {
  const runs = new Runs();
  const first = runs.begin();
  await runs.time.pass(10_000);
  expect(first.sureOff()).toBe(0);
  first.end();
  const second = runs.begin(4 * dayMs);
  await runs.time.pass(120_000);
  expect(second.keeper.isDoubted).toBe(true);
  expect(second.sureOff()).toBe(0);
  second.world.skewMs = 0;
  await runs.time.pass(5_000);
  expect(second.keeper.isDoubted).toBe(false);
  expect(runs.said).toEqual(["warn this node's clock was mo", "info this node's clock is bel"]);
  second.end();
  // And one that died meanwhile, with a clock that is years behind.
  const third = runs.begin(-20 * yearMs);
  await runs.time.pass(5_000);
  expect(Math.abs(third.world.nowMs() - runs.trueMs)).toBeLessThan(10_000);
  third.end();
});

test("F42: a node that was down for a week is right about the time at once, and sure after the while", async () => {
  const runs = new Runs();
  runs.begin().end();
  await runs.time.pass(7 * dayMs);
  const { world, keeper, sureOff, end } = runs.begin();
  expect(world.nowMs()).toBe(runs.trueMs);
  await runs.time.pass(limits.clockSteadyMs / 2);
  expect([sureOff(), keeper.isDoubted]).toEqual([-7 * dayMs, true]);
  await runs.time.pass(limits.clockSteadyMs / 2 + 2_000);
  expect(sureOff()).toBeGreaterThanOrEqual(-1);
  expect(keeper.isDoubted).toBe(false);
  end();
});

test.each(["", "soon", "-5", "null", "{}", '{"steadyMs":"1","nowMs":1,"toldMs":1,"toldForMs":1}'])(
  "a note that says %j says nothing",
  (text) => {
    const runs = new Runs();
    writeFileSync(join(runs.directory, "time"), text);
    const { sureOff, end } = runs.begin();
    expect(sureOff()).toBe(0);
    end();
    expect(JSON.parse(readFileSync(join(runs.directory, "time"), "utf8"))).toMatchObject({
      steadyMs: expect.closeTo(runs.trueMs, -1),
      nowMs: runs.trueMs,
    });
  },
);

test("a node that is killed has noted the time some minutes before", async () => {
  const runs = new Runs();
  const { world } = runs.begin();
  await runs.time.pass(3 * clockNoteMs);
  world.kill();
  const { steadyMs } = JSON.parse(readFileSync(join(runs.directory, "time"), "utf8")) as TimeMemory;
  expect(runs.trueMs - steadyMs).toBeLessThanOrEqual(clockNoteMs + clockLookMs);
});
