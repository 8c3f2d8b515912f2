/** Seeded runs in which a manifest or a catalog is lost, rots, or goes back to what it was. */
import { describe, expect, test } from "vitest";
import { simulateLosses, type Meddling } from "./lost-objects.ts";

const seeds = 4;
const minuteMs = 60_000;

const meddlings = (["head", "catalog"] as const).flatMap((object) =>
  (["deleted", "rotten", "rolled back"] as const).map((how): Meddling => ({ object, how })),
);

describe.each(meddlings)("a $object that is $how (F36, F39, F40)", (meddling) => {
  test(
    `seeds 1 to ${seeds}: it is never taken for a new database; all is there when it is put back`,
    { timeout: 5 * minuteMs },
    async () => {
      const counts: Record<string, number> = {};
      for (let seed = 1; seed <= seeds; seed++) {
        const outcome = await simulateLosses(seed, meddling);
        if (outcome.failure) expect.fail(`seed ${seed}: ${outcome.failure.stack}\n${outcome.lines.join("\n")}`);
        for (const [what, count] of Object.entries(outcome.counts)) counts[what] = (counts[what] ?? 0) + count;
      }
      expect(
        [`${meddling.object} ${meddling.how}`, "write done", "write unavailable"].filter(
          (what) => !counts[what] && !(what === "write unavailable" && meddling.object === "catalog"),
        ),
      ).toEqual([]);
    },
  );
});
