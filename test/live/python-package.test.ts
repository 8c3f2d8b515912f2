/** The Python client, both kinds of it, against a real node: every route, what it repeats, and that it can be built. */
import { execFile } from "node:child_process";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { beforeAll, describe, expect, test } from "vitest";
import { findUncalled } from "../support/called-routes.ts";
import { gateTool, inGate } from "../support/gate.ts";
import { startService, type Service } from "../support/service.ts";
import { temporaryDirectory } from "../support/temporary.ts";

const run = promisify(execFile);
const resolvePath = (relative: string): string => fileURLToPath(new URL(`../../${relative}`, import.meta.url));
const outputBytesMax = 16 * 1024 * 1024;

describe.skipIf(!inGate)("the Python client", () => {
  let service: Service;
  beforeAll(async () => {
    service = await startService();
    return () => service.close();
  });

  const python = async (script: string): Promise<string> => {
    const { stdout } = await run(gateTool("PALIMPSEST_PYTHON"), [resolvePath(script), service.address], {
      env: { ...process.env, PYTHONPATH: resolvePath("clients/python/src") },
      maxBuffer: outputBytesMax,
    });
    return stdout;
  };

  test("has a method for every route, of both kinds", async () => {
    const told = JSON.parse(await python("test/clients/python/every_route.py"));
    expect(findUncalled(told.paths, told.sync)).toEqual([]);
    expect(findUncalled(told.paths, told.async)).toEqual([]);
  });

  test("repeats what is safe and nothing else, and keeps what it has seen", async () => {
    expect((await python("test/clients/python/calls.py")).trim().split("\n")).toHaveLength(7);
  });

  test("follows the change feed, whatever happens to its streams", async () => {
    expect((await python("test/clients/python/watch.py")).trim().split("\n")).toHaveLength(6);
  });

  test("has types that are strict", async () => {
    const interpreter = gateTool("PALIMPSEST_PYTHON");
    const { stdout } = await run(interpreter, ["-m", "pyright", "--pythonpath", interpreter], {
      cwd: resolvePath("clients/python"),
    });
    expect(stdout).toMatch(/^0 errors, 0 warnings/m);
  });

  test("is built as a wheel, and that can be imported", async () => {
    const to = temporaryDirectory();
    const interpreter = gateTool("PALIMPSEST_PYTHON");
    await run(interpreter, ["-m", "pip", "install", "--quiet", "--target", to, resolvePath("clients/python")]);
    const { stdout } = await run(interpreter, ["-c", "import palimpsest; print(palimpsest.__file__)"], {
      env: { ...process.env, PYTHONPATH: to },
    });
    expect(stdout.trim().startsWith(to)).toBe(true);
  });
});
