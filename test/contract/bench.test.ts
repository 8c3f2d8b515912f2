/** The benches load in a tree as it is installed, without what only some of them need. */
import { execFileSync } from "node:child_process";
import { join } from "node:path";
import { expect, test } from "vitest";

test("a bench that nobody knows runs nothing, and everything else is there to be run", () => {
  const said = execFileSync(process.execPath, [join(import.meta.dirname, "../bench/main.ts"), "no-such-bench"], {
    encoding: "utf8",
    stdio: ["ignore", "pipe", "inherit"],
  });
  expect(said).toMatch(/cores/);
});
