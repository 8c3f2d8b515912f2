/**
 * `npm run mutants [-- --only NAME ...] [--jobs N]`: plants each fault in a private copy of the tree, runs the suites
 * that should see it, and says which test did. What was found goes into docs/mutants.md; a fault that survives fails
 * the run.
 */
import { spawn } from "node:child_process";
import { cpSync, existsSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { parseArgs } from "node:util";
import { mutants } from "./mutants.ts";
import type { Mutant, Suite } from "./mutant.ts";

const root = resolve(import.meta.dirname, "../..");
const suiteMsMax = 20 * 60_000;

/** What a suite says of a tree: which test fails first, or undefined. */
type Verdict = string | undefined;

interface Outcome {
  readonly mutant: Mutant;
  readonly caughtBy: Verdict;
  readonly secs: number;
}

/** Whole lines, as they stand in a file. */
function formatLines(lines: readonly string[]): string {
  return lines.map((line) => `${line}\n`).join("");
}

/** How often the mutant's text stands in the tree; it fits only where that is once. */
function countTimes({ file, find }: Mutant): number {
  return readFileSync(join(root, "src", file), "utf8").split(formatLines(find)).length - 1;
}

/** A copy of the tree, to be broken. */
function copyTree(): string {
  const copy = mkdtempSync(join(tmpdir(), "palimpsest-mutant-"));
  for (const name of [
    "src",
    "gen",
    "test",
    "native",
    "proto",
    "package.json",
    "package-lock.json",
    "tsconfig.json",
    "vitest.config.ts",
    "README.md",
    "docs",
  ]) {
    if (existsSync(join(root, name))) cpSync(join(root, name), join(copy, name), { recursive: true });
  }
  symlinkSync(join(root, "node_modules"), join(copy, "node_modules"));
  return copy;
}

function run(
  tree: string,
  command: string,
  args: readonly string[],
): Promise<{ readonly code: number | null; readonly output: string }> {
  return new Promise((done, failed) => {
    const child = spawn(command, args, {
      cwd: tree,
      stdio: ["ignore", "pipe", "pipe"],
      env: { ...process.env, PATH: `${join(root, "node_modules/.bin")}:${process.env["PATH"] ?? ""}` },
    });
    let output = "";
    for (const stream of [child.stdout, child.stderr])
      stream.on("data", (bytes: Buffer) => (output += bytes.toString()));
    const timer = setTimeout(() => child.kill("SIGKILL"), suiteMsMax);
    child.on("error", failed);
    child.on("close", (code) => {
      clearTimeout(timer);
      done({ code, output });
    });
  });
}

async function look(tree: string, suite: Suite): Promise<Verdict> {
  if ("seeds" in suite) {
    const { code, output } = await run(tree, process.execPath, [
      "test/sim/main.ts",
      "--seeds",
      String(suite.seeds),
      ...(suite.shared ? ["--shared"] : []),
    ]);
    if (code === 0) return undefined;
    const seed = /^seed (\d+): FAILED/m.exec(output)?.[1];
    if (seed === undefined) throw new Error(`the simulator did not run: ${output.slice(-2_000)}`);
    const what = /^(?:Violation|[A-Z]\w*Error\b).*$/m.exec(output)?.[0] ?? "";
    return `simulator${suite.shared ? " of several nodes" : ""}, seed ${seed}: ${what
      .replace(/^Violation: \w+@[^:]+: /, "")
      .replaceAll("|", "/")
      .slice(0, 120)}`;
  }
  const report = join(tree, "report.json");
  rmSync(report, { force: true });
  const { output } = await run(tree, process.execPath, [
    join(tree, "node_modules/vitest/vitest.mjs"),
    "run",
    suite.file,
    "--bail=1",
    "--reporter=json",
    `--outputFile=${report}`,
    ...(suite.named === undefined ? [] : ["-t", suite.named]),
  ]);
  if (!existsSync(report)) throw new Error(`${suite.file} did not run: ${output.slice(-2_000)}`);
  const { testResults, numPassedTests } = JSON.parse(readFileSync(report, "utf8")) as {
    numPassedTests: number;
    testResults: { status: string; assertionResults: { status: string; fullName: string }[] }[];
  };
  const failed = testResults
    .flatMap(({ assertionResults }) => assertionResults)
    .find(({ status }) => status === "failed");
  if (failed) return `${suite.file}: ${failed.fullName.replaceAll("|", "/")}`;
  if (testResults.some(({ status }) => status === "failed")) return `${suite.file}: it cannot be run`;
  if (numPassedTests === 0) throw new Error(`${suite.file} has no test ${suite.named ?? ""}`);
  return undefined;
}

async function judge(tree: string, mutant: Mutant): Promise<Outcome> {
  const path = join(tree, "src", mutant.file);
  const sound = readFileSync(path, "utf8");
  const beganMs = performance.now();
  let caughtBy: Verdict;
  writeFileSync(
    path,
    sound.replace(formatLines(mutant.find), () => formatLines(mutant.replace)),
  );
  try {
    for (const suite of mutant.suites) if ((caughtBy = await look(tree, suite)) !== undefined) break;
  } finally {
    writeFileSync(path, sound);
  }
  const secs = (performance.now() - beganMs) / 1_000;
  const [what, by] = caughtBy === undefined ? ["SURVIVED", ""] : ["caught", `: ${caughtBy}`];
  console.log(`${what} ${mutant.name} (${secs.toFixed(1)} s)${by}`);
  return { mutant, caughtBy, secs };
}

const document = join(root, "docs/mutants.md");

/** The rows that the document has, by their mutants. */
function rowsBefore(): ReadonlyMap<string, string> {
  if (!existsSync(document)) return new Map();
  return new Map(
    readFileSync(document, "utf8")
      .split("\n")
      .flatMap((timeline) => {
        const name = /^\| (\S+) \| `src\//.exec(timeline)?.[1];
        return name === undefined ? [] : [[name, timeline] as const];
      }),
  );
}

function formatRow({ mutant, caughtBy, secs }: Outcome): string {
  return (
    `| ${mutant.name} | \`src/${mutant.file}\` ` +
    `| ${mutant.why} | ${caughtBy ?? "**survived**"} | ${secs.toFixed(0)} |`
  );
}

/** Those that were not judged now keep the row that they had. */
function table(outcomes: ReadonlyMap<Mutant, Outcome>): string {
  const before = rowsBefore();
  const rows = mutants.flatMap((mutant) => {
    const outcome = outcomes.get(mutant);
    return outcome ? [formatRow(outcome)] : (before.get(mutant.name) ?? []);
  });
  return [
    "# Planted faults",
    "",
    "Each row is a fault that was planted in a copy of the tree, and the first test that saw it. This file " +
      "is written by",
    "`npm run mutants`, which runs outside the gate; `test/mutants/` has the faults. A fault that survives " +
      "is a missing test.",
    "",
    "| fault | where | why it matters | first test that sees it | seconds |",
    "|---|---|---|---|---|",
    ...rows,
    "",
  ].join("\n");
}

const { values } = parseArgs({ options: { only: { type: "string", multiple: true }, jobs: { type: "string" } } });
const chosen = values.only ? mutants.filter(({ name }) => values.only!.some((only) => name.includes(only))) : mutants;
if (chosen.length === 0) throw new Error("there is no such mutant");
const stale = mutants.filter((mutant) => countTimes(mutant) !== 1);
if (stale.length > 0)
  throw new Error(
    "these faults do not fit the tree any " +
      `more: ${stale.map((mutant) => `${mutant.name} (${countTimes(mutant)} times in src/${mutant.file})`).join(", ")}`,
  );
const waiting = [...chosen];
const outcomes = new Map<Mutant, Outcome>();
await Promise.all(
  Array.from({ length: Number(values.jobs ?? 1) }, async () => {
    const tree = copyTree();
    try {
      for (let mutant = waiting.shift(); mutant; mutant = waiting.shift())
        outcomes.set(mutant, await judge(tree, mutant));
    } finally {
      rmSync(tree, { recursive: true, force: true });
    }
  }),
);
const judged = chosen.map((mutant) => outcomes.get(mutant)!);
writeFileSync(document, table(outcomes));
const survived = judged.filter(({ caughtBy }) => caughtBy === undefined).length;
console.log(`${judged.length - survived} of ${judged.length} planted faults are seen`);
if (survived > 0) process.exitCode = 1;
