/**
 * Three nodes, clients at all of them, and trouble of every kind: what was acknowledged is kept, and nobody is told
 * what does not hold.
 *
 * `PALIMPSEST_CHAOS_SECS` sets how long, `PALIMPSEST_SEED` which trouble. With `PALIMPSEST_CHAOS_PLANT=1` the nodes run
 * without fencing, and the checker must find that out.
 */
import { describe, expect, onTestFinished, test } from "vitest";
import { clusterNeed, hasCluster } from "../support/cluster.ts";
import { runChaos } from "../support/cluster-chaos.ts";
import { fencingRemoved, plantTree } from "../support/planted-tree.ts";

const durationMs = Number(process.env["PALIMPSEST_CHAOS_SECS"] ?? 120) * 1_000;
const seed = Number(process.env["PALIMPSEST_SEED"] ?? Math.floor(Math.random() * 2 ** 31));
const isPlanted = process.env["PALIMPSEST_CHAOS_PLANT"] === "1";

describe.skipIf(!hasCluster)(`chaos in a cluster of three${clusterNeed}`, () => {
  test(
    `F46, F49, F50, F55, F56: ${durationMs / 1_000} s of trouble (seed ${seed})${isPlanted ? ", without fencing" : ""}`,
    { timeout: durationMs + 240_000 },
    async () => {
      const tree = isPlanted ? plantTree(fencingRemoved) : undefined;
      onTestFinished(() => tree?.remove());
      const running = runChaos({ seed, durationMs, entry: tree?.entry, say: (text) => console.log(text) });
      if (tree) {
        // What two writers make of one history may be no database at all: then already the last look fails.
        const found = await running.then(
          ({ verdict }) => verdict.violations,
          (error: unknown) => [String(error)],
        );
        console.log(found.length, "violations");
        expect(found).not.toEqual([]);
        return;
      }
      const { verdict, faults } = await running;
      expect(verdict.counts.acknowledged, "something was written").toBeGreaterThan(durationMs / 1_000);
      expect(verdict.violations).toEqual([]);
      expect(faults).toEqual([]);
    },
  );
});
