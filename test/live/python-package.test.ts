/** The Python client, both kinds of it, against a real node: every route, what it repeats, and that it can be built. */
import { execFile } from "node:child_process";
import { existsSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { homedir } from "node:os";
import { delimiter, join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { findUncalled } from "../support/called-routes.ts";
import { readBlocks } from "../support/documents.ts";
import { gateTool, inGate } from "../support/gate.ts";
import { startService, type Service } from "../support/service.ts";
import { temporaryDirectory } from "../support/temporary.ts";

const run = promisify(execFile);
const resolvePath = (relative: string): string => fileURLToPath(new URL(`../../${relative}`, import.meta.url));
const outputBytesMax = 16 * 1024 * 1024;
/** The oldest Python that the client is for: `requires-python` of its pyproject.toml. */
const oldest = 10;

/** The second number of a version of Python 3; of another, none. */
function minorOf(version: string): number {
  return Number(/^3\.(\d+)/.exec(version)?.[1]);
}

/** The given Python, those of the path and those of pyenv that the client is for, by version. */
async function findPythons(given: string): Promise<ReadonlyMap<string, string>> {
  const versions = join(process.env["PYENV_ROOT"] ?? join(homedir(), ".pyenv"), "versions");
  const candidates = [
    given,
    ...process.env["PATH"]!.split(delimiter).flatMap((folder) =>
      [10, 11, 12, 13, 14].map((minor) => join(folder, `python3.${minor}`)),
    ),
    ...(existsSync(versions) ? readdirSync(versions) : []).map((name) => join(versions, name, "bin/python3")),
  ];
  const found = new Map<string, string>();
  for (const candidate of candidates.filter((path) => existsSync(path))) {
    // One that pyenv has switched off for the folder answers with an error.
    const version = await run(candidate, ["--version"]).then(
      ({ stdout }) => stdout.trim().replace("Python ", ""),
      () => undefined,
    );
    if (version !== undefined && minorOf(version) >= oldest && !found.has(version)) found.set(version, candidate);
  }
  return found;
}

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

  test("is built as a wheel that runs the program of its page on the oldest and newest Python at hand", async () => {
    const folder = temporaryDirectory();
    await run(gateTool("PALIMPSEST_PYTHON"), [
      ...["-m", "pip", "wheel", "--quiet", "--disable-pip-version-check", "--no-deps"],
      ...["--wheel-dir", folder, resolvePath("clients/python")],
    ]);
    const wheel = join(
      folder,
      readdirSync(folder).find((name) => name.endsWith(".whl"))!,
    );
    const program = join(folder, "program.py");
    writeFileSync(program, readBlocks("docs/start-python.md", "python").join("\n"));
    const pythons = [...(await findPythons(gateTool("PALIMPSEST_PYTHON")))].sort(([a], [b]) => minorOf(a) - minorOf(b));
    for (const [version, interpreter] of new Map([pythons[0]!, pythons.at(-1)!])) {
      const own = await startService();
      onTestFinished(() => own.close());
      writeFileSync(program, readFileSync(program, "utf8").replaceAll(/http:\/\/127\.0\.0\.1:\d+/g, own.address));
      const environment = join(folder, version);
      const python = join(environment, "bin/python");
      await run(interpreter, ["-m", "venv", environment]);
      await run(python, ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", wheel]);
      const { stdout } = await run(python, [program], { cwd: environment, maxBuffer: outputBytesMax });
      expect(stdout, `on Python ${version}`).toMatch(/prefers the light theme/);
    }
  }, 300_000);
});
