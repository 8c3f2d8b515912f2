/** When databases are gone through for vectors that are missing. */
import { expect, onTestFinished, test } from "vitest";
import { silentLog } from "../../../../src/base/log.ts";
import {
  Backfill,
  type BackfillOptions,
  type Place,
  type Step,
  type Stepped,
  backfillPauseMs,
  backfillRetryMs,
} from "../../../../src/service/embedding/backfill.ts";
import { hastyWorld } from "../../../support/hasty-world.ts";

const factor = 20;

function buildPlace(name: string): Place {
  return { namespace: "acme", profile: name, target: { uuid: name, branch: "main", retention: { pitrMs: 1 } } };
}

function stepped(more: Partial<Stepped> = {}): Stepped {
  return { filled: 1, left: 0, failure: undefined, next: undefined, txid: 1, durableTxid: 1, ...more };
}

interface Recorded {
  readonly backfill: Backfill;
  /** Every step as `profile kind after`. */
  readonly steps: string[];
}

function record(
  step: (step: Step, at: number) => Stepped | Promise<Stepped>,
  more: Partial<BackfillOptions> = {},
): Recorded {
  const steps: string[] = [];
  const backfill = new Backfill({
    world: hastyWorld(factor),
    log: silentLog,
    isAwake: () => true,
    permits: () => Promise.resolve(true),
    step: async (asked) => {
      expect(asked.place.target, "retention of another time is not handed on").not.toHaveProperty("retention");
      steps.push(`${asked.place.profile} ${asked.kind} ${asked.after}`);
      return step(asked, steps.length);
    },
    ...more,
  });
  onTestFinished(() => backfill.close());
  return { backfill, steps };
}

function pause(worldMs: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, worldMs / factor + 20));
}

test("a database in use is gone through once, both kinds, step by step; a later one comes after it", async () => {
  const { backfill, steps } = record(({ kind, after }) =>
    stepped(kind === "memory" && after < 20 ? { next: after + 10 } : {}),
  );
  backfill.note(buildPlace("a"));
  backfill.note(buildPlace("a"));
  backfill.note(buildPlace("b"));
  const expected = ["a", "b"].flatMap((name) => [
    `${name} memory 0`,
    `${name} memory 10`,
    `${name} memory 20`,
    `${name} turn 0`,
  ]);
  await expect.poll(() => steps).toEqual(expected);
  backfill.note(buildPlace("a"));
  await pause(10 * backfillPauseMs);
  expect(steps).toEqual(expected);
});

test("what is missed brings a database back, also while it is being gone through", async () => {
  const { backfill, steps } = record((_, at) => {
    if (at === 1) backfill.missed(buildPlace("a"));
    return stepped();
  });
  backfill.note(buildPlace("a"));
  await expect.poll(() => steps).toEqual(["a memory 0", "a turn 0", "a memory 0", "a turn 0"]);
});

test("where the embedder fails it is tried again after a rest, and begins with the other databases", async () => {
  const { backfill, steps } = record(({ place }, at) =>
    stepped(place.profile === "a" && at === 1 ? { failure: "unavailable" } : {}),
  );
  backfill.note(buildPlace("a"));
  backfill.note(buildPlace("b"));
  await expect.poll(() => steps).toEqual(["a memory 0", "b memory 0", "b turn 0", "a memory 0", "a turn 0"]);
});

test("nothing is done while the embedder rests, where policy forbids it, and after the end", async () => {
  let awake = false;
  const { backfill, steps } = record(() => stepped(), {
    isAwake: () => awake,
    permits: ({ profile }) => Promise.resolve(profile !== "forbidden"),
  });
  backfill.note(buildPlace("a"));
  await pause(3 * backfillRetryMs);
  expect(steps).toEqual([]);
  awake = true;
  backfill.note(buildPlace("forbidden"));
  await expect.poll(() => steps).toEqual(["a memory 0", "a turn 0"]);
  backfill.close();
  backfill.note(buildPlace("b"));
  await pause(10 * backfillPauseMs);
  expect(steps).toEqual(["a memory 0", "a turn 0"]);
});

test("a step that is refused ends the pass, and the next use of the database brings it back", async () => {
  const { backfill, steps } = record((_, at) => (at === 1 ? Promise.reject(new Error("gone")) : stepped()));
  backfill.note(buildPlace("a"));
  await expect.poll(() => steps).toEqual(["a memory 0"]);
  await pause(10 * backfillPauseMs);
  expect(steps).toEqual(["a memory 0"]);
  backfill.note(buildPlace("a"));
  await expect.poll(() => steps).toEqual(["a memory 0", "a memory 0", "a turn 0"]);
});
