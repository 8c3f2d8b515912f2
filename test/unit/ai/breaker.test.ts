/** When a provider that fails is left alone, and how it is asked whether it is back. */
import { expect, test } from "vitest";
import { Breaker, breakerFailures, breakerOpenMs, breakerOpenMsMax } from "../../../src/ai/breaker.ts";
import { realWorld, type World } from "../../../src/base/world.ts";

/** A clock that the test moves. */
function stoppedWorld(): World & { pass(ms: number): void } {
  let nowMs = 0;
  return { ...realWorld(), monotonicMs: () => nowMs, pass: (ms) => void (nowMs += ms) };
}

function fail(breaker: Breaker, times: number): void {
  for (let time = 0; time < times; time++) breaker.enter()?.("failed");
}

test("it opens after so many failures in a row, and an answer between them begins the count anew", () => {
  const breaker = new Breaker(stoppedWorld());
  fail(breaker, breakerFailures - 1);
  breaker.enter()!("answered");
  fail(breaker, breakerFailures - 1);
  expect(breaker.passes).toBe(true);
  fail(breaker, 1);
  expect(breaker.passes).toBe(false);
  expect(breaker.enter()).toBeUndefined();
});

test("what ran out of a time that was too short counts neither way", () => {
  const breaker = new Breaker(stoppedWorld());
  fail(breaker, breakerFailures - 1);
  for (let time = 0; time < 10; time++) breaker.enter()!("unknown");
  expect(breaker.passes).toBe(true);
  fail(breaker, 1);
  expect(breaker.passes).toBe(false);
});

test("one probe at a time passes after the rest; failed it doubles the rest, answered it ends it", () => {
  // The rest has a bound.
  const world = stoppedWorld();
  const breaker = new Breaker(world);
  fail(breaker, breakerFailures);
  for (let restMs: number = breakerOpenMs; ; restMs = Math.min(breakerOpenMsMax, restMs * 2)) {
    world.pass(restMs - 1);
    expect(breaker.enter(), `before ${restMs} are over`).toBeUndefined();
    world.pass(1);
    const leave = breaker.enter()!;
    expect(breaker.enter(), "beside a probe").toBeUndefined();
    leave("failed");
    if (restMs === breakerOpenMsMax) break;
  }
  world.pass(breakerOpenMsMax);
  breaker.enter()!("unknown");
  expect(breaker.passes, "a probe that told nothing leaves room for another").toBe(true);
  breaker.enter()!("answered");
  fail(breaker, breakerFailures - 1);
  expect(breaker.passes).toBe(true);
});

test("what was let in before it opened does not lengthen the rest", () => {
  const world = stoppedWorld();
  const breaker = new Breaker(world);
  const early = Array.from({ length: 50 }, () => breaker.enter()!);
  for (const leave of early) leave("failed");
  world.pass(breakerOpenMs);
  expect(breaker.passes).toBe(true);
});
