/**
 * Seeded runs of an erasure under crashes and faults, and a look at everything that could still hold what was erased.
 */
import { expect, test } from "vitest";
import { simulateErasure } from "./erasing.ts";

const seeds = 8;
const minuteMs = 60_000;

test(
  `erasure-01, erasure-07: seeds 1 to ${seeds}: what is called clean is nowhere, after power loss too`,
  { timeout: 5 * minuteMs },
  async () => {
    const counts: Record<string, number> = {};
    for (let seed = 1; seed <= seeds; seed++) {
      const outcome = await simulateErasure(seed);
      if (outcome.failure) expect.fail(`seed ${seed}: ${outcome.failure.stack}\n${outcome.lines.join("\n")}`);
      for (const [what, count] of Object.entries({ ...outcome.counts, crashes: outcome.crashes }))
        counts[what] = (counts[what] ?? 0) + count;
    }
    expect(["looked", "crashes", "put answerLost", "get refused"].filter((what) => !counts[what])).toEqual([]);
  },
);
