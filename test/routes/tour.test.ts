/**
 * The tour of README.md and the recipes of the documents that continue it, run by a shell as they are printed against a
 * real node: with authentication off, and with it on as the README says to switch it on.
 *
 * Every block marked `sh` is run; those marked `bash` (they start something, or need what is not here) are not.
 */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { execFile } from "node:child_process";
import Database from "better-sqlite3";
import { describe, expect, onTestFinished, test } from "vitest";
import { parseBlocks, root } from "../support/documents.ts";
import { shellIn } from "../support/documented.ts";
import { startNodeProcess } from "../support/node-process.ts";
import { temporaryDirectory } from "../support/temporary.ts";

/** The documents whose blocks continue the tour, in the order in which they are run. */
const continuations = [
  "docs/concepts.md",
  "docs/memories.md",
  "docs/recall.md",
  "docs/context.md",
  "docs/mcp.md",
  "docs/files.md",
  "docs/documents.md",
  "docs/keys.md",
  "docs/facets.md",
  "docs/feed.md",
  "docs/writes.md",
  "docs/past.md",
  "docs/transfer.md",
  "docs/erasure.md",
];
/** Those that need authentication. */
const withAuthentication = ["docs/security.md"];

const address = "http://127.0.0.1:8080";

function readRecipes(path: string): string[] {
  const document = { path, text: readFileSync(join(root, path), "utf8") };
  return parseBlocks(document)
    .filter(({ language }) => language === "sh")
    .map(({ text }) => text);
}

const tour = readRecipes("README.md");
const [setup, ...steps] = tour;
const starting = steps.find((block) => block.includes("npm start"))!;
const minting = steps.find((block) => block.includes("token mint"))!;
const calls = steps.filter((block) => block !== starting && block !== minting);

/** The blocks as one script, at the node's address, which ends at the first call that is refused. */
function buildScript(blocks: readonly string[], port: number): string {
  const script = blocks.map((block) => `echo "--- next"\n${block}\n`).join("");
  return (
    "set -e\n" +
    script
      .replaceAll(address, `http://127.0.0.1:${port}`)
      .replaceAll("curl -s ", "curl -sS --fail-with-body ")
      // In a checkout it is a function, in the shell of these tests a program of that name.
      .replaceAll(/^palimpsest\(\) .*$/gm, "")
  );
}

/** Runs the README's command that starts a node with authentication; gives the variables that it starts one with. */
async function readVariables(folder: string, command: string): Promise<Record<string, string>> {
  const printed = await new Promise<string>((resolve, reject) => {
    execFile("sh", ["-ec", command.replace("npm start", "env")], { cwd: folder }, (error, out) =>
      error ? reject(error) : resolve(out),
    );
  });
  const all = printed.split("\n").map((line) => line.split(/=(.*)/s) as [string, string]);
  return Object.fromEntries(all.filter(([name]) => name.startsWith("SERVICE_")));
}

async function followed(variables: Record<string, string>, folder: string, blocks: readonly string[]): Promise<string> {
  const node = await startNodeProcess(join(folder, "data"), variables);
  onTestFinished(() => node.end("SIGKILL"));
  const { code, out } = await shellIn(folder)(buildScript(blocks, node.port), {});
  expect(code, out).toBe(0);
  return out;
}

/** What the tour promises. */
function expectTold(out: string, folder: string): void {
  for (const told of [
    '"status":"created"',
    /"superseded":\["mem_/,
    "Frankfurt",
    '"memories":[]',
    '"rows":[[',
    '"title":"plan"',
    "de-DE",
    '"content":"hello"',
    '"name":"experiment"',
    '"rewound_to"',
    '"matched_terms"',
    '"nonce":"',
    /- \[mem_\w{26} 0 min, pinned\] Answer in short sentences/,
    '"distance"',
    '"status":"pending"',
  ])
    expect(out).toMatch(told);
  const restored = new Database(join(folder, "alice.db"), { readonly: true });
  expect(restored.prepare("SELECT place FROM visits").pluck().all()).toEqual(["Frankfurt"]);
  restored.close();
}

describe("the tour", () => {
  test("runs as it is printed with authentication off", async () => {
    const folder = temporaryDirectory();
    const blocks = [setup!, ...calls, ...continuations.flatMap(readRecipes)];
    expectTold(await followed({}, folder, blocks), folder);
  });

  test("runs as it is printed with authentication on, and the recipes that need it", async () => {
    const folder = temporaryDirectory();
    const variables = await readVariables(folder, starting);
    expect(variables).toMatchObject({ SERVICE_AUTH: "on", SERVICE_SINGLE_NODE: "1" });
    const blocks = [setup!, minting, ...calls, ...[...continuations, ...withAuthentication].flatMap(readRecipes)];
    const out = await followed(variables, folder, blocks);
    expectTold(out, folder);
    expect(out).toMatch('"jti":"');
    expect(out).toMatch('"action":"policy.update"');
  });

  test("has blocks of each kind", () => {
    expect(calls.length).toBeGreaterThanOrEqual(3);
    for (const path of [...continuations, ...withAuthentication])
      expect(readRecipes(path).length, path).toBeGreaterThan(0);
  });
});
