/** Seeded runs of the whole engine under every fault at once, and planted bugs that such runs must see. */
import { expect, test } from "vitest";
import { plotOf, simulate, type Bugs, type Outcome } from "./simulation.ts";

/** As many as fit in half a minute; many more run apart, with `npm run sim`. */
const seeds = 60;
const minuteMs = 60_000;

function replay(seed: number): string {
  return `replay: npm run sim -- --seed ${seed} --trace`;
}

/** The first of these seeds whose run sees the planted bug. */
async function caught(bugs: Bugs, seedsMax: number): Promise<Outcome | undefined> {
  for (let seed = 1; seed <= seedsMax; seed++) {
    const outcome = await simulate(seed, { plot: plotOf(seed), bugs });
    if (outcome.failure) return outcome;
  }
  return undefined;
}

test(`seeds 1 to ${seeds}: nothing acknowledged is lost, every state read is a prefix, everything comes to rest`, { timeout: 5 * minuteMs }, async () => {
  const counts: Record<string, number> = {};
  for (let seed = 1; seed <= seeds; seed++) {
    const outcome = await simulate(seed, { plot: plotOf(seed) });
    if (outcome.failure) expect.fail(`seed ${seed}: ${outcome.failure.stack}\n${outcome.lines.join("\n")}\n${replay(seed)}`);
    for (const [what, count] of Object.entries(outcome.counts)) counts[what] = (counts[what] ?? 0) + count;
  }
  // A run in which nothing went wrong, or nothing went right, shows nothing.
  for (const what of ["write done", "write gone", "read done", "remove done"]) expect(counts[what], what).toBeGreaterThan(0);
});

test("the same seed gives the same trace", { timeout: minuteMs }, async () => {
  const [first, second] = [await simulate(7, { plot: plotOf(7) }), await simulate(7, { plot: plotOf(7) })];
  expect(second.traceHash).toBe(first.traceHash);
  expect((await simulate(8, { plot: plotOf(8) })).traceHash).not.toBe(first.traceHash);
});

test("planted: a disk that claims to sync and does not (F20)", { timeout: minuteMs }, async () => {
  const outcome = await caught({ diskLies: true }, 5);
  expect(outcome?.failure?.name).toBe("Violation");
});
