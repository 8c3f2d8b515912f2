/**
 * Three nodes under load and trouble of every kind, for minutes: rounds of the chaos of the tests, each with a seed of
 * its own.
 */
import assert from "node:assert/strict";
import { runChaos } from "../support/cluster-chaos.ts";

/** A round ends with a look at everything, which takes the longer the more was written. */
const roundMs = 300_000;

/** Runs rounds until the time is over; throws at the first one that is found fault with. */
export async function soakCluster(durationMs: number, seed: number): Promise<void> {
  const startedMs = performance.now();
  for (let round = 0; ; round++) {
    const leftMs = durationMs - (performance.now() - startedMs);
    if (leftMs <= 0) return;
    console.log(`\n### Round ${round + 1}`);
    const { verdict, faults } = await runChaos({
      seed: seed + round * 1_000,
      durationMs: Math.min(leftMs, roundMs),
      say: (text) => console.log(text),
    });
    assert.deepEqual(verdict.violations, []);
    assert.deepEqual(faults, []);
  }
}
