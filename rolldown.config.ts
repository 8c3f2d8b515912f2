/**
 * The published package's code: each module that a process or a thread is started with, and what they share, in a few
 * files that a node loads in a fraction of the time of hundreds. What others have written is not copied in: npm
 * installs it.
 */
import { rmSync } from "node:fs";
import { defineConfig } from "rolldown";

const started = [
  "server/main",
  "engine/thread",
  "engine/segments/segment-thread",
  "engine/processes/sql-child",
  "engine/threads/ann-worker",
  "ai/local-child",
];

rmSync("dist", { recursive: true, force: true });

export default defineConfig({
  input: started.map((path) => `src/${path}.ts`),
  platform: "node",
  external: /^[^./]/,
  output: {
    dir: "dist/lib",
    format: "esm",
    sourcemap: true,
    entryFileNames: "[name].js",
    chunkFileNames: "[name]-[hash].js",
  },
});
