/**
 * The published package's code: each module that a process or a thread is started with, and what they share, in a few
 * files that a node loads in a fraction of the time of hundreds. What others have written in JavaScript is in them, as
 * far as it is used, with its licences beside it: installed as packages it is twice as large. What is compiled for a
 * platform, npm installs.
 */
import { rmSync } from "node:fs";
import { defineConfig } from "rolldown";
import license from "rollup-plugin-license";
import manifest from "./package.json" with { type: "json" };

const started = [
  "server/main",
  "engine/thread",
  "engine/segments/segment-thread",
  "engine/processes/sql-child",
  "engine/threads/ann-worker",
  "ai/local-child",
];

/** Licences under which others' code may be copied into an Apache-2.0 package with a notice. */
const allowed = "(MIT OR Apache-2.0 OR ISC OR BSD-3-Clause OR BSD-2-Clause OR 0BSD OR Unlicense)";

rmSync("dist", { recursive: true, force: true });

export default defineConfig({
  input: started.map((path) => `src/${path}.ts`),
  platform: "node",
  external: Object.keys({ ...manifest.dependencies, ...manifest.optionalDependencies }),
  plugins: [
    license({
      thirdParty: {
        allow: { test: allowed, failOnUnlicensed: true, failOnViolation: true },
        output: { file: "dist/THIRD-PARTY-LICENSES.txt" },
      },
    }),
  ],
  output: {
    dir: "dist/lib",
    format: "esm",
    sourcemap: true,
    entryFileNames: "[name].js",
    chunkFileNames: "[name]-[hash].js",
  },
});
