/** The command's first file: every Node can read it, and one that is too old is told so in one line. */
import { spawnSync } from "node:child_process";
import { copyFileSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { temporaryDirectory } from "../support/temporary.ts";

const launcher = fileURLToPath(new URL("../../bin/palimpsest.cjs", import.meta.url));

test("a Node that is too old gets one plain line and the exit code of a failure", () => {
  const older = join(temporaryDirectory(), "older.cjs");
  writeFileSync(older, 'Object.defineProperty(process.versions, "node", { value: "20.11.1" });');
  const { status, stdout, stderr } = spawnSync(process.execPath, ["--require", older, launcher, "serve"], {
    encoding: "utf8",
  });
  expect([status, stdout]).toEqual([1, ""]);
  expect(stderr).toMatch(/^palimpsest needs Node 24 or later, and this is Node 20\.11\.1\. .*npm start.*\n$/);
});

test("a checkout whose packages were left out says in one line what brings them", () => {
  const checkout = temporaryDirectory();
  for (const folder of ["bin", "src/server"]) mkdirSync(join(checkout, folder), { recursive: true });
  copyFileSync(launcher, join(checkout, "bin/palimpsest.cjs"));
  writeFileSync(join(checkout, "src/server/main.ts"), 'import "no-such-package";\n');
  const { status, stderr } = spawnSync(process.execPath, [join(checkout, "bin/palimpsest.cjs")], { encoding: "utf8" });
  expect(status).toBe(1);
  expect(stderr).toBe(
    "palimpsest: Cannot find package 'no-such-package'. In a checkout, npm ci --include=dev brings it.\n",
  );
});

test("it holds nothing that an old Node could not read", () => {
  const code = readFileSync(launcher, "utf8").replaceAll(/"[^"]*"|\/\/.*/g, "");
  expect(code).not.toMatch(/=>|`|\?\.|\?\?|\b(?:const|let|class|async|await)\b|^import /m);
});

test("with a Node that will do, it is the command", () => {
  const { status, stdout } = spawnSync(process.execPath, [launcher, "--version"], { encoding: "utf8" });
  expect([status, stdout.trim()]).toEqual([0, "0.1.0"]);
});
