/**
 * The pages of the documentation for frameworks of agents: their programs, checked and run with the real packages
 * against a node. No model is called.
 */
import { execFile } from "node:child_process";
import { mkdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { beforeAll, describe, expect, test } from "vitest";
import { parseBlocks, root } from "../support/documents.ts";
import { gateTool, inGate } from "../support/gate.ts";
import { connectMcp } from "../support/mcp-client.ts";
import { startService, type Service } from "../support/service.ts";
import { temporaryDirectory } from "../support/temporary.ts";

const run = promisify(execFile);

/** The blocks of a document in a language: one program. */
function programOf(path: string, language: string, address: string): string {
  const blocks = parseBlocks({ path, text: readFileSync(join(root, path), "utf8") });
  const texts = blocks.filter((block) => block.language === language).map(({ text }) => text);
  expect(texts.length).toBeGreaterThan(0);
  return texts.join("\n").replaceAll("http://127.0.0.1:8080", address);
}

describe.skipIf(!inGate)("pages for frameworks of agents", { timeout: 120_000 }, () => {
  let service: Service;
  beforeAll(async () => {
    service = await startService();
    return () => service.close();
  });

  /** Checks the program's types and runs it, and gives what it prints. */
  async function python(text: string): Promise<string> {
    const interpreter = gateTool("PALIMPSEST_AGENTS_PYTHON");
    const folder = temporaryDirectory();
    const program = join(folder, "program.py");
    writeFileSync(program, text);
    symlinkSync(join(root, "clients/python/src/palimpsest"), join(folder, "palimpsest"));
    const checked = await run(interpreter, ["-m", "pyright", "--pythonpath", interpreter, program], {
      cwd: folder,
    }).catch((error: unknown) => error as { stdout: string });
    expect(checked.stdout).toMatch(/^0 errors/m);
    return (await run(interpreter, [program], { cwd: folder })).stdout;
  }

  test("LangGraph: a store of items, a graph that searches it, and what was there before", async () => {
    const out = await python(programOf("docs/start-langgraph.md", "python", service.address));
    const [answer, dark, light] = out.trim().split("\n");
    expect(answer).toBe("Frida prefers the light theme");
    expect(dark).toMatch(/dark theme"} \d+$/);
    expect(light).toMatch(/light theme"} None$/);
  });

  test("OpenAI Agents SDK: the tools of a profile, and its context in the instructions", async () => {
    const out = await python(programOf("docs/start-agents.md", "python", service.address));
    expect(out).toContain("['remember', 'recall', 'list_memories', 'forget', 'history', 'context']");
    expect(out).toContain("Hugo prefers the light theme");
    expect(out).toMatch(/You help Hugo\.[^]*Answer Hugo in short sentences/);
  });

  test("Claude Agent SDK: the options name the server and tools that it has", async () => {
    const text = programOf("docs/start-agents.md", "py", service.address);
    const out = await python(`${text}\nimport json\nprint(json.dumps([options.mcp_servers, options.allowed_tools]))\n`);
    const [{ memory }, allowed] = JSON.parse(out);
    const { client } = await connectMcp(memory.url, "2025-11-25", { headers: memory.headers });
    const { tools } = await client.listTools();
    const offered = tools.map(({ name }) => `mcp__memory__${name}`);
    expect(offered).toEqual(expect.arrayContaining(allowed));
    expect(allowed).not.toContain("mcp__memory__forget");
  });

  test("any client of the protocol, in TypeScript", async () => {
    const folder = temporaryDirectory();
    symlinkSync(join(root, "node_modules"), join(folder, "node_modules"));
    mkdirSync(join(folder, "out"));
    writeFileSync(join(folder, "package.json"), JSON.stringify({ name: "page", private: true, type: "module" }));
    writeFileSync(join(folder, "program.ts"), programOf("docs/start-agents.md", "ts", service.address));
    const compilerOptions = {
      target: "es2022",
      module: "nodenext",
      strict: true,
      types: ["node"],
      outDir: "out",
      skipLibCheck: true,
    };
    writeFileSync(join(folder, "tsconfig.json"), JSON.stringify({ compilerOptions, include: ["*.ts"] }));
    await run(join(root, "node_modules/.bin/tsc"), ["-p", "."], { cwd: folder }).catch((error: unknown) => {
      throw new Error((error as { stdout: string }).stdout, { cause: error });
    });
    const { stdout } = await run(process.execPath, [join(folder, "out/program.js")], { cwd: folder });
    expect(stdout).toContain("Ida prefers the light theme");
  });
});
