import { defineConfig } from "vitest/config";
import { changeTests, longTests, quickTests, slowUnitTests } from "./test/support/test-sets.ts";

export default defineConfig({
  test: {
    pool: "forks",
    // Most files wait for processes of their own or for a disk: a worker for every core, though one is the default on
    // two.
    maxWorkers: "100%",
    // For what hangs, not for what is slow: on a machine with much else to do the start of a process alone takes many
    // seconds.
    testTimeout: 180_000,
    hookTimeout: 180_000,
    // Each file is in one of them (test/support/test-sets.ts): without a choice all run.
    projects: [
      { extends: true, test: { name: "quick", include: quickTests, exclude: [...slowUnitTests, ...longTests] } },
      { extends: true, test: { name: "change", include: changeTests, exclude: longTests } },
      { extends: true, test: { name: "long", include: longTests } },
    ],
  },
});
