import { defineConfig } from "vitest/config";

export default defineConfig({
  test: {
    include: ["test/**/*.test.ts"],
    pool: "forks",
    // Most files wait for processes of their own or for a disk: a worker for every core, though one is the default on
    // two.
    maxWorkers: "100%",
    // For what hangs, not for what is slow: on a machine with much else to do the start of a process alone takes many
    // seconds.
    testTimeout: 180_000,
    hookTimeout: 180_000,
  },
});
