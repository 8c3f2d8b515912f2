/** Threads share no code that V8 compiles while they run, so that none can free what another runs. */
import { spawnSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { temporaryDirectory } from "../../../support/temporary.ts";

const threads = JSON.stringify(new URL("../../../../src/engine/threads/threads.ts", import.meta.url).href);
// A thread that calls JavaScript from WebAssembly, often enough for V8 to compile the call: `(module (import "a" "b"
// (func)) (func (export "c") call 0))`.
const busy = `
const bytes = Uint8Array.of(
  0, 97, 115, 109, 1, 0, 0, 0, 1, 4, 1, 96, 0, 0, 2, 7, 1, 1, 97, 1, 98, 0, 0, 3, 2, 1, 0, 7, 5, 1, 1, 99, 0, 1, 10, 6,
  1, 4, 0, 16, 0, 11,
);
const { exports } = new WebAssembly.Instance(new WebAssembly.Module(bytes), { a: { b() {} } });
for (let n = 0; n < 100000; n++) exports.c();
`;

/** What V8 compiled, of that kind, in a process whose second thread is started that way. */
function compiled(start: string): number {
  const directory = temporaryDirectory();
  const [entry, main, log] = ["busy.mjs", "main.mjs", "code.log"].map((name) => join(directory, name)) as [
    string,
    string,
    string,
  ];
  writeFileSync(entry, busy);
  writeFileSync(
    main,
    `import { Worker } from "node:worker_threads";\nimport { startThread } from ${threads};\nconst entry = ` +
      `new URL("./busy.mjs", import.meta.url);\n${start}.on("error", () => process.exit(2));\n`,
  );
  const { status, stderr } = spawnSync(
    process.execPath,
    ["--log-code", "--no-logfile-per-isolate", `--logfile=${log}`, main],
    { encoding: "utf8" },
  );
  expect([status, stderr]).toEqual([0, ""]);
  return readFileSync(log, "latin1").match(/,wasm-to-js/g)?.length ?? 0;
}

test("a thread's calls from WebAssembly to JavaScript are never compiled", () => {
  expect(compiled("new Worker(entry)")).toBeGreaterThan(0);
  expect(compiled("startThread(entry, {})")).toBe(0);
});
