/** Seeded runs of the whole engine under every fault at once, and planted bugs that such runs must see. */
import { describe, expect, test } from "vitest";
import { simulate } from "./simulation.ts";
import type { Outcome } from "./trial.ts";
import { drawPlot, type Bugs } from "./plot.ts";

/** As many as fit in half a minute; many more run apart, with `npm run sim`. */
const seeds = 40;
const minuteMs = 60_000;

/** The first of these seeds whose run sees the planted bug. */
async function caught(bugs: Bugs, seedsMax: number): Promise<Outcome | undefined> {
  for (let seed = 1; seed <= seedsMax; seed++) {
    const outcome = await simulate(seed, { plot: drawPlot(seed), bugs });
    if (outcome.failure) return outcome;
  }
  return undefined;
}

describe("F02-F05, F21-F23, F29-F31, F33, F35, F38, F42, F46, F58, F66, F67, F69", () => {
  test(
    `seeds 1 to ${seeds}: nothing acknowledged is lost, and every state is a prefix of the history`,
    { timeout: 5 * minuteMs },
    async () => {
      const counts: Record<string, number> = {};
      for (let seed = 1; seed <= seeds; seed++) {
        const outcome = await simulate(seed, { plot: drawPlot(seed) });
        if (outcome.failure)
          expect.fail(
            `seed ${seed}: ${outcome.failure.stack}\n${outcome.lines.join("\n")}\nreplay: npm run sim -- ` +
              `--seed ${seed} --trace`,
          );
        for (const [what, count] of Object.entries(outcome.counts)) counts[what] = (counts[what] ?? 0) + count;
      }
      // A run in which nothing went wrong, or nothing went right, shows nothing.
      const met = [
        "write done",
        "read done",
        "remove done",
        "sync done",
        "fork done",
        "rewind done",
        "checkpoint done",
        "delete done",
        "write gone",
        "put answerLost",
        "put requestLost",
        "put late",
        "put refused",
        "get damaged",
      ];
      expect(met.filter((what) => !counts[what])).toEqual([]);
    },
  );
});

test(
  "transactions that are undone go as a whole, once, through every fault (seeds 1 to 8)",
  { timeout: 5 * minuteMs },
  async () => {
    let undone = 0;
    for (let seed = 1; seed <= 8; seed++) {
      const outcome = await simulate(seed, { plot: { ...drawPlot(seed), undos: 0.7 } });
      if (outcome.failure) expect.fail(`seed ${seed}: ${outcome.failure.stack}\n${outcome.lines.join("\n")}`);
      undone += outcome.counts["undo done"] ?? 0;
    }
    expect(undone).toBeGreaterThan(20);
  },
);

test("the same seed gives the same trace", { timeout: minuteMs }, async () => {
  const [first, second] = [await simulate(7, { plot: drawPlot(7) }), await simulate(7, { plot: drawPlot(7) })];
  expect(second.traceHash).toBe(first.traceHash);
  expect((await simulate(8, { plot: drawPlot(8) })).traceHash).not.toBe(first.traceHash);
});

describe("a planted bug is seen within a few seeds", () => {
  test.each<[string, Bugs]>([
    ["a disk that claims to sync and does not, and loses power (F20)", { diskLies: true }],
    ["a store that ignores conditions (F34)", { ignoresConditions: "of all" }],
    ["a store that acknowledges a put that it has dropped", { lies: 0.02 }],
  ])("%s", { timeout: minuteMs }, async (_name, bugs) => {
    expect((await caught(bugs, 6))?.failure?.name).toBe("Violation");
  });
});
