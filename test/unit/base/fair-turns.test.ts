/** Whose act is next: on a clock that only the acts move. */
import { expect, test } from "vitest";
import { FairTurns, turnHearMs } from "../../../src/base/fair-turns.ts";

function setup() {
  let nowMs = 0;
  const later: (() => void)[] = [];
  const turns = new FairTurns({ monotonicMs: () => nowMs, soon: (act) => void later.push(act) });
  const order: string[] = [];
  const act = (name: string, tookMs: number) => (): void => {
    order.push(name);
    nowMs += tookMs;
  };
  /** The turns of the loop that follow. */
  const run = (): void => {
    while (later.length > 0) later.shift()!();
  };
  return { turns, order, act, run, step: () => later.shift()!() };
}

test("an act runs at once when nobody is before it, and one tenant's acts in their order", () => {
  const { turns, order, act, run } = setup();
  turns.take("a", act("a1", 0));
  expect(order).toEqual(["a1"]);
  turns.take("a", () => {
    for (const name of ["a2", "a3", "a4"]) turns.take("a", act(name, 0));
    expect(order).toEqual(["a1"]);
  });
  run();
  expect(order).toEqual(["a1", "a2", "a3", "a4"]);
});

test("others' events are heard between acts that take long", () => {
  const { turns, order, act, run } = setup();
  turns.take("a", () => {
    for (const name of ["a1", "a2"]) turns.take("a", act(name, turnHearMs));
    act("a0", turnHearMs)();
  });
  expect(order).toEqual(["a0"]);
  turns.take("b", act("b1", 0));
  expect(order).toEqual(["a0"]);
  run();
  expect(order).toEqual(["a0", "b1", "a1", "a2"]);
});

test("whoever has had more than his share waits until the others have had theirs", () => {
  const { turns, order, act, run } = setup();
  turns.take("x", () => {
    for (let n = 0; n < 40; n++) turns.take("long", act("L", 20));
    for (let n = 0; n < 400; n++) turns.take("short", act("s", 1));
  });
  run();
  // Of the first 200 ms each has had about a half.
  const half = order.slice(
    0,
    order.findIndex((_, at) => order.slice(0, at).reduce((sum, name) => sum + (name === "L" ? 20 : 1), 0) >= 200),
  );
  const long = half.filter((name) => name === "L").length * 20;
  expect(long).toBeGreaterThanOrEqual(80);
  expect(long).toBeLessThanOrEqual(120);
  expect(order).toHaveLength(440);
});

test("a tenant who comes now and then is served before those who are always here", () => {
  const { turns, order, act, run, step } = setup();
  turns.take("x", () => {
    for (let n = 0; n < 100; n++) turns.take(`busy ${n % 10}`, act(`busy`, 5));
  });
  // Each has been here once.
  while (order.length < 10) step();
  turns.take("calm", act("calm", 1));
  const before = order.length;
  run();
  expect(order.indexOf("calm")).toBe(before);
  expect(order).toHaveLength(101);
});

test("an act that throws takes nobody's turn away", () => {
  const { turns, order, act, run } = setup();
  expect(() =>
    turns.take("a", () => {
      turns.take("b", act("b", 0));
      throw new Error("a bug");
    }),
  ).toThrow("a bug");
  run();
  expect(order).toEqual(["b"]);
});
