/** The faults that an audit planted and no suite saw. */
import type { Mutant } from "./mutant.ts";

export const audited: readonly Mutant[] = [
  {
    name: "restored-file-not-synced",
    why: "A node answers from a file that a loss of power tears; its next start serves or ships garbage.",
    file: "engine/segments/restore.ts",
    find: ["      await source.disk.fdatasync(descriptor, temporary);"],
    replace: [],
    suites: [{ seeds: 40 }],
  },
  {
    name: "prove-log-does-nothing",
    why:
      "After a failed fsync the kernel takes lost pages for clean: the next fsync succeeds without them, and " +
      "answers are lost.",
    file: "sqlite/wal/wal.ts",
    find: ["  if (existsSync(path)) await placeFile(disk, path, readFileSync(path));"],
    replace: [],
    suites: [{ seeds: 40 }],
  },
  {
    name: "no-marker-on-roll-forward",
    why:
      "A node that was rolled forward believes that it knows all it ever acknowledged, and gives lost " +
      "transaction ids again.",
    file: "engine/opening/restored-file.ts",
    find: ["  const plan = ownPlan(manifest);", "  await markRestored(parts, path);"],
    replace: ["  const plan = ownPlan(manifest);"],
    suites: [{ seeds: 40 }],
  },
  {
    name: "answer-before-sync",
    why: "A loss of power takes back what was answered.",
    file: "engine/database/reply-gate.ts",
    find: ["    if (this.#synced.reached(txid)) return act();"],
    replace: ["    if (txid >= 0) return act();"],
    suites: [{ seeds: 40 }],
  },
  {
    name: "answer-before-sync-power-loss",
    why: "The same, for the test of power losses by itself.",
    file: "engine/database/reply-gate.ts",
    find: ["    if (this.#synced.reached(txid)) return act();"],
    replace: ["    if (txid >= 0) return act();"],
    suites: [{ file: "test/crash/power-loss.test.ts", named: "F20: no" }],
  },
];
