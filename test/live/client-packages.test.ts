/**
 * The clients as a stranger gets them: the TypeScript package packed and installed into an empty folder, where the
 * programs of its README and of the documents are checked with TypeScript's strictest settings and run on each Node.js
 * at hand, on Bun and on Deno; and the Python programs, checked and run.
 *
 * The blocks of a document are one program, in the order in which they are printed.
 */
import { execFile } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import { promisify } from "node:util";
import { beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { readBlocks, root } from "../support/documents.ts";
import { gateTool, inGate } from "../support/gate.ts";
import { serviceEntry } from "../support/node-process.ts";
import { install, pack } from "../support/packed.ts";
import { startService, type Service } from "../support/service.ts";
import { temporaryDirectory } from "../support/temporary.ts";

const run = promisify(execFile);
const address = "http://127.0.0.1:8080";
const outputBytesMax = 16 * 1024 * 1024;

/** The oldest Node.js that the client is for, every other one of the path, and that of this test, by version. */
async function findNodes(): Promise<ReadonlyMap<string, string>> {
  const folders = process.env["PATH"]!.split(delimiter).map((folder) => join(folder, "node"));
  const found = new Map([[process.version, process.execPath]]);
  for (const program of [gateTool("PALIMPSEST_OLDER_NODE"), ...folders.filter((path) => existsSync(path))]) {
    const { stdout } = await run(program, ["--version"]);
    if (Number(/^v(\d+)/.exec(stdout)?.[1]) >= 20) found.set(stdout.trim(), program);
  }
  return found;
}

/** How each runtime at hand is told to run a program. */
function runtimeCommands(nodes: ReadonlyMap<string, string>): readonly (readonly [string, ...string[]])[] {
  // What Deno asks a person for: to speak to the node, and to see whether it may write in colours.
  const allowed = ["--allow-net=127.0.0.1", "--allow-env", "--node-modules-dir=manual"];
  return [
    ...[...nodes.values()].map((program): [string] => [program]),
    [gateTool("PALIMPSEST_BUN"), "run"],
    [gateTool("PALIMPSEST_DENO"), "run", ...allowed],
  ];
}

/** What a stranger's compiler refuses; nothing of ours is left out of the check. */
const settings = {
  compilerOptions: {
    target: "es2022",
    lib: ["es2022", "esnext.disposable", "dom", "dom.iterable", "dom.asynciterable"],
    module: "nodenext",
    types: [],
    strict: true,
    noUncheckedIndexedAccess: true,
    exactOptionalPropertyTypes: true,
    noPropertyAccessFromIndexSignature: true,
    noImplicitOverride: true,
    skipLibCheck: false,
    outDir: "out",
  },
  include: ["*.ts"],
};

describe.skipIf(!inGate)("the packed TypeScript client", () => {
  const folder = mkdtempSync(join(tmpdir(), "palimpsest-stranger-"));
  let nodes: ReadonlyMap<string, string>;
  beforeAll(async () => {
    nodes = await findNodes();
    const { archive, paths } = await pack(folder, "clients/typescript");
    expect(paths).toEqual(
      expect.arrayContaining(["dist/index.js", "dist/index.d.ts", "dist/local-keeper.js", "LICENSE"]),
    );
    expect(paths.filter((path) => /^(src|test)\/|[^d]\.ts$/.test(path))).toEqual([]);
    await install(folder, archive);
    writeFileSync(join(folder, "package.json"), JSON.stringify({ name: "stranger", private: true, type: "module" }));
    return () => rmSync(folder, { recursive: true, force: true });
  }, 300_000);

  const [readme, inTests] = readBlocks("clients/typescript/README.md", "ts") as [string, string];
  const programs: Readonly<Record<string, string>> = {
    readme,
    start: readBlocks("docs/start-typescript.md", "ts").join("\n"),
    local: inTests,
  };

  test("has types that hold in a strict project", async () => {
    for (const [name, text] of Object.entries(programs)) writeFileSync(join(folder, `${name}.ts`), text);
    writeFileSync(join(folder, "wrong.ts"), "");
    writeFileSync(join(folder, "tsconfig.json"), JSON.stringify(settings));
    const compiler = join(root, "node_modules/.bin/tsc");
    await run(compiler, ["-p", "."], { cwd: folder });
    // The check is one: what is wrong is refused.
    const wrong = 'import { Palimpsest } from "@palimpsest/client";\nnew Palimpsest({ url: 1 }).profile("a");\n';
    writeFileSync(join(folder, "wrong.ts"), wrong);
    await expect(run(compiler, ["-p", ".", "--noEmit"], { cwd: folder })).rejects.toMatchObject({
      stdout: expect.stringMatching(/wrong\.ts\(2,\d+\).*\n.*wrong\.ts\(2,\d+\)/),
    });
  });

  test("runs the programs of its README and of the documents on each Node.js at hand, on Bun and on Deno", async () => {
    expect([...nodes.keys()].map((version) => version.split(".")[0])).toEqual(expect.arrayContaining(["v20", "v24"]));
    for (const [at, [runtime, ...given]] of runtimeCommands(nodes).entries()) {
      const service = await startService();
      onTestFinished(() => service.close());
      for (const name of ["readme", "start"]) {
        const program = join(folder, "out", `${name}-${at}.js`);
        writeFileSync(
          program,
          readFileSync(join(folder, "out", `${name}.js`), "utf8").replaceAll(address, service.address),
        );
        const { stdout } = await run(runtime, [...given, program], { cwd: folder });
        expect(stdout, `${name} on ${runtime}`).toMatch(/(Alice|Bob) prefers the light theme/);
        expect(stdout, `${name} on ${runtime}`).toMatch(/changes|memory created|kind: ['"]memory['"]/);
      }
    }
  });

  test("starts a node for tests as the README says, by the command of the path", async () => {
    const tools = join(temporaryDirectory(), "bin");
    mkdirSync(tools);
    writeFileSync(join(tools, "palimpsest"), `#!/bin/sh\nexec "${process.execPath}" "${serviceEntry}" "$@"\n`, {
      mode: 0o755,
    });
    for (const runtime of nodes.values())
      await run(runtime, [join(folder, "out/local.js")], {
        cwd: folder,
        env: { ...process.env, PATH: [tools, process.env["PATH"]].join(delimiter) },
      });
  });
});

describe.skipIf(!inGate)("the programs in Python", () => {
  let service: Service;
  beforeAll(async () => {
    service = await startService();
    return () => service.close();
  });

  test.each(["clients/python/README.md", "docs/start-python.md", "docs/coming-from.md"])(
    "of %s pass pyright and run",
    async (path) => {
      const interpreter = gateTool("PALIMPSEST_PYTHON");
      const folder = temporaryDirectory();
      const program = join(folder, "program.py");
      const blocks = readBlocks(path, "python");
      expect(blocks.length).toBeGreaterThan(0);
      writeFileSync(program, blocks.join("\n").replaceAll(address, service.address));
      symlinkSync(join(root, "clients/python/src/palimpsest"), join(folder, "palimpsest"));
      const checked = await run(interpreter, ["-m", "pyright", "--pythonpath", interpreter, program], { cwd: folder });
      expect(checked.stdout).toMatch(/^0 errors/m);
      const { stdout } = await run(interpreter, [program], { cwd: folder, maxBuffer: outputBytesMax });
      expect(stdout).toMatch(/prefers the light theme|Ada keeps the lighthouse/);
    },
  );
});
