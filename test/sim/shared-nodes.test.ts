/** Seeded runs of several nodes that share databases, and planted bugs that such runs must see. */
import { describe, expect, test } from "vitest";
import { simulateShared, type SharedBugs } from "./shared-simulation.ts";
import type { Outcome } from "./trial.ts";

/** Few, as each is half a minute of three nodes; many more run apart, with `npm run sim -- --shared`. */
const seeds = 12;
const minuteMs = 60_000;

/** The first of these seeds whose run sees the planted bug. */
async function caught(bugs: SharedBugs, seedsMax: number): Promise<Outcome | undefined> {
  for (let seed = 1; seed <= seedsMax; seed++) {
    const outcome = await simulateShared(seed, { bugs });
    if (outcome.failure) return outcome;
  }
  return undefined;
}

test(
  `seeds 1 to ${seeds}: durable answers survive; one node at a time extends one history (F46-F55)`,
  { timeout: 10 * minuteMs },
  async () => {
    const counts: Record<string, number> = {};
    for (let seed = 1; seed <= seeds; seed++) {
      const outcome = await simulateShared(seed);
      if (outcome.failure)
        expect.fail(
          `seed ${seed}: ${outcome.failure.stack}\n${outcome.lines.join("\n")}\nreplay: npm run sim -- --shared ` +
            `--seed ${seed} --trace`,
        );
      for (const [what, count] of Object.entries(outcome.counts)) counts[what] = (counts[what] ?? 0) + count;
    }
    // A run in which nothing went wrong, or nothing went right, shows nothing.
    const met = [
      "write done",
      "read done",
      "copy done",
      "write unavailable",
      "crash",
      "paused",
      "suspended",
      "clock jumps",
      "cut off from the leases",
      "lease revoked",
      "leases lost",
      "stopped",
      "standard lost",
    ];
    expect(met.filter((what) => !counts[what])).toEqual([]);
  },
);

test("the same seed gives the same trace", { timeout: minuteMs }, async () => {
  const [first, second] = [await simulateShared(3), await simulateShared(3)];
  expect(second.traceHash).toBe(first.traceHash);
});

describe("a planted bug is seen within a few seeds", () => {
  test.each<[string, SharedBugs]>([
    ["an engine that takes its lease to last for ever (F47, F48)", { leasesNeverEnd: true }],
    ["a store that ignores the conditions of manifests (F34)", { ignoresConditions: "of manifests" }],
  ])("%s", { timeout: 5 * minuteMs }, async (_name, bugs) => {
    expect((await caught(bugs, 12))?.failure?.name).toBe("Violation");
  });
});
