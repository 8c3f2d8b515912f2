/**
 * A node dies at each crash point; what it left, or what object storage holds without it, is everything it promised.
 */
import { describe, expect, test } from "vitest";
import { crashPoints, type CrashPoint } from "../../src/base/world.ts";
import { playStory, type CrashPlan } from "../support/crash-story.ts";
import { seeded } from "../support/random.ts";

const minuteMs = 60_000;
const isLong = process.env["PALIMPSEST_LONG"] === "1";
/** Each seed is another order of events; the long run also takes every occurrence of every point. */
const seeds = isLong ? [1, 2, 3, 4, 5] : [1];
const fates = ["kill", "power", "loss"] as const;

/** Which cases of the failure matrix a death at the point is. */
const cases: Partial<Record<CrashPoint, string>> = {
  committed: "F02",
  synced: "F03",
  answered: "F20",
  "segment-put": "F04",
  "head-landed": "F05",
  "pack-put": "F71",
  "image-put": "F71",
  "rewind-put": "F69",
  "rewind-landed": "F69",
  "spare-noted": "F97",
  "spare-made": "F97",
  "spare-giving": "F97",
  "spare-given": "F97",
  "spare-removed": "F97",
};
const named = crashPoints.map((point) => [cases[point] === undefined ? "" : `${cases[point]}: `, point] as const);

/** How often a story reaches each point. */
async function reachedIn(seed: number): Promise<ReadonlyMap<CrashPoint, number>> {
  const { failure, reached, crashes, lines } = await playStory(seed);
  if (failure) expect.fail(`seed ${seed}, without a crash: ${failure.stack}\n${lines.join("\n")}`);
  expect(crashes).toBe(0);
  return reached;
}

/** Which of a point's occurrences to die at: the first one and another, in the long run all of them. */
function occurrences(times: number, random: () => number): number[] {
  if (isLong) return Array.from({ length: times }, (_, index) => index + 1);
  return [...new Set([1, 1 + Math.floor(random() * times)])];
}

async function expectSurvival(seed: number, plan: CrashPlan): Promise<void> {
  const { failure, crashes, lines } = await playStory(seed, plan);
  const told = `seed ${seed}, ${JSON.stringify(plan)}`;
  if (failure) expect.fail(`${told}: ${failure.stack}\n${lines.join("\n")}`);
  expect(crashes, told).toBeGreaterThanOrEqual(1);
}

describe.each(seeds)("the story of seed %i", (seed) => {
  let reached: ReadonlyMap<CrashPoint, number> = new Map();

  test("it passes every crash point there is", { timeout: 5 * minuteMs }, async () => {
    reached = await reachedIn(seed);
    expect(crashPoints.filter((point) => !reached.has(point))).toEqual([]);
  });

  test.each(named)(
    "%swhoever dies at `%s` leaves every acknowledged write, and object storage holds every durable one",
    { timeout: isLong ? 60 * minuteMs : 5 * minuteMs },
    async (_, point) => {
      const random = seeded(seed * 1_000 + crashPoints.indexOf(point));
      for (const nth of occurrences(reached.get(point) ?? 1, random)) {
        // With the power goes what was answered too early.
        for (const fate of isLong || point === "answered" ? fates : (["kill", "loss"] as const))
          await expectSurvival(seed, { point, nth, fate });
      }
    },
  );

  test("it dies again in the middle of coming back", { timeout: isLong ? 60 * minuteMs : 5 * minuteMs }, async () => {
    const random = seeded(seed);
    let twice = 0;
    for (let round = 0; round < (isLong ? 200 : 10); round++) {
      const point = crashPoints[Math.floor(random() * crashPoints.length)]!;
      const nth = 1 + Math.floor(random() * (reached.get(point) ?? 1));
      const plan: CrashPlan = {
        point,
        nth,
        fate: fates[round % fates.length]!,
        againAt: 1 + Math.floor(random() * 12),
      };
      const { failure, crashes, lines } = await playStory(seed, plan);
      if (failure) expect.fail(`seed ${seed}, ${JSON.stringify(plan)}: ${failure.stack}\n${lines.join("\n")}`);
      if (crashes === 2) twice++;
    }
    expect(twice).toBeGreaterThan(0);
  });
});

describe("planted faults are seen", () => {
  test("a disk that claims to sync and does not", { timeout: 5 * minuteMs }, async () => {
    const ends = await Promise.all(
      [1, 2, 3].map((seed) => playStory(seed, { point: "head-put", nth: 12, fate: "power" }, { diskLies: true })),
    );
    expect(ends.map(({ failure }) => failure?.name)).toContain("Violation");
  });

  test("a store that acknowledges a put and drops it", { timeout: 5 * minuteMs }, async () => {
    const { failure } = await playStory(1, { point: "synced", nth: 60, fate: "loss" }, { lies: 0.1 });
    expect(failure).toBeDefined();
  });
});
