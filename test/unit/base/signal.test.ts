/** Those who wait for something that happens now and then. */
import { expect, test } from "vitest";
import { Signal } from "../../../src/base/signal.ts";
import { realWorld } from "../../../src/base/world.ts";

const world = realWorld();

test("everybody who waits hears of the next time, and nobody of the one before", async () => {
  const signal = new Signal();
  signal.raise();
  let heard = 0;
  const waiting = [signal.next(world), signal.next(world)].map((next) => next.then(() => heard++));
  expect(await Promise.race([...waiting, new Promise((resolve) => setTimeout(resolve, 20, "none"))])).toBe("none");
  signal.raise();
  await Promise.all(waiting);
  expect(heard).toBe(2);
});

test("who waits goes on in a turn of its own", async () => {
  const signal = new Signal();
  const order: string[] = [];
  const waiting = signal.next(world).then(() => order.push("waiter"));
  signal.raise();
  void Promise.resolve()
    .then(() => order.push("first"))
    .then(() => order.push("second"));
  await waiting;
  expect(order).toEqual(["first", "second", "waiter"]);
});

test("who waits until a time goes on then, and those who wait on are not forgotten", async () => {
  const signal = new Signal();
  let isPatientOver = false;
  const patient = signal.next(world).then(() => (isPatientOver = true));
  await signal.next(world, world.monotonicMs() + 10);
  expect(isPatientOver).toBe(false);
  signal.raise();
  await patient;
  expect(signal.isAwaited).toBe(false);
});
