/** docs/cli.md: its blocks as they are printed, against a real node; completion scripts, as the shells read them. */
import { execFile, spawnSync } from "node:child_process";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, onTestFinished, test } from "vitest";
import { palimpsest } from "../support/command-runs.ts";
import { parseBlocks, root } from "../support/documents.ts";
import { shellIn } from "../support/documented.ts";
import { startNodeProcess } from "../support/node-process.ts";
import { temporaryDirectory } from "../support/temporary.ts";

const document = { path: "docs/cli.md", text: readFileSync(join(root, "docs/cli.md"), "utf8") };

test("its blocks run", { timeout: 600_000 }, async () => {
  const blocks = parseBlocks(document).flatMap(({ language, text }) => (language === "sh" ? [text] : []));
  expect(blocks.length).toBeGreaterThan(5);
  const folder = temporaryDirectory();
  const node = await startNodeProcess(join(folder, "data"));
  onTestFinished(() => node.end("SIGKILL"));
  const env = { HOME: folder, PALIMPSEST_ADDRESS: `http://127.0.0.1:${node.port}` };
  const { code, out } = await shellIn(folder)(`set -e\n${blocks.join("\n")}`, env);
  expect(code, out).toBe(0);
  expect(out).toContain("Alice prefers the dark theme");
  expect(out).toContain("city   year\nTokyo  2026\n");
});

test("it names every command of a person", async () => {
  const { personCommandNames } = await import("../../src/server/cli/command-line.ts");
  for (const name of personCommandNames.filter((one) => one !== "tokens"))
    expect(document.text, name).toContain(`palimpsest ${name}`);
});

describe("completion", () => {
  const scriptOf = async (shell: string): Promise<string> => (await palimpsest(["completion", shell])).out;

  test.each(["bash", "zsh", "fish"])("%s reads its script", async (shell) => {
    const script = await scriptOf(shell);
    expect(script).toContain("checkpoint");
    const file = join(temporaryDirectory(), "completion");
    writeFileSync(file, script);
    const read = spawnSync(shell, ["-n", file], { encoding: "utf8" });
    // Not every machine has the other two.
    if (shell !== "bash" && (read.error as NodeJS.ErrnoException | undefined)?.code === "ENOENT") return;
    expect([read.status, read.stderr]).toEqual([0, ""]);
  });

  test.each([
    ["palimpsest rem", ["remember"]],
    ["palimpsest branch cr", ["create"]],
    ["palimpsest branch create --t", ["--token-file", "--timeout", "--table", "--ttl"]],
    ["palimpsest remember --type f", ["fact"]],
    ["palimpsest completion z", []],
    ["palimpsest remember words --top", ["--topic"]],
  ])("bash completes %j", async (line, expected) => {
    const file = join(temporaryDirectory(), "completion");
    writeFileSync(file, await scriptOf("bash"));
    const words = line.split(" ");
    const given = words.map((word) => `'${word}'`).join(" ");
    const script =
      `. ${file}; COMP_WORDS=(${given}); COMP_CWORD=${words.length - 1}; _palimpsest; ` +
      'printf "%s\\n" "${COMPREPLY[@]}"';
    const out = await new Promise<string>((resolve) => execFile("bash", ["-c", script], (_, text) => resolve(text)));
    expect(
      out
        .split("\n")
        .filter((word) => word !== "")
        .toSorted(),
    ).toEqual([...expected].toSorted());
    expect(existsSync(file)).toBe(true);
  });
});
