/**
 * How long a backup, a second one and a restore of a fleet take: `node test/bench/rescue.ts [databases] [MiB each]`.
 *
 * One process, stores in directories of the temporary folder; figures are of the machine that it runs on.
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Readable } from "node:stream";
import { silentLog } from "../../src/base/log.ts";
import { startNode } from "../../src/server/node/compose.ts";
import { runCommandLine } from "../../src/server/cli/command-line.ts";
import type { Surroundings } from "../../src/server/cli/surroundings.ts";
import { readConfig } from "../../src/server/config/config.ts";
import { callRest } from "../support/node-process.ts";

const [databases = 100, mebibytes = 1] = process.argv.slice(2).map(Number);
const directory = mkdtempSync(join(tmpdir(), "palimpsest-rescue-"));
const url = (name: string): string => `file://${join(directory, name)}`;

async function command(...words: string[]): Promise<void> {
  const startedMs = performance.now();
  const quiet = { write: (): boolean => true };
  const around = {
    argv: ["node", "palimpsest", ...words],
    env: {},
    pid: 1,
    stdin: Readable.from([""]),
    stdout: quiet,
    stderr: quiet,
    on() {},
    off() {},
    exit() {},
  };
  const code = await runCommandLine(around as unknown as Surroundings);
  const what = words
    .slice(0, 2)
    .join(" ")
    .replace(/--object-store|--data-dir/, "")
    .trim();
  const isProven = words.includes("--verify") || words.includes("--deep");
  const secs = ((performance.now() - startedMs) / 1_000).toFixed(2);
  process.stdout.write(`${what.padEnd(16)} ${isProven ? "all proven" : "          "} exit ${code} in ${secs} s\n`);
}

const reading = readConfig(
  { SERVICE_DATA_DIR: directory, SERVICE_LISTEN: "127.0.0.1:0", SERVICE_CONTROL_RATE: "100000" },
  { pid: 1, cores: 2 },
);
if (!("config" in reading)) throw new Error(reading.problems.join("; "));
const node = await startNode(reading.config, silentLog);
const port = Number(new URL(node.address).port);
for (let n = 0; n < databases; n++) {
  const name = `d${n}`;
  await callRest(port, "POST", "/v1/databases", { name });
  for (let part = 0; part < mebibytes; part++) {
    const q =
      part === 0 ? "CREATE TABLE t AS SELECT randomblob(1000000) AS b" : "INSERT INTO t VALUES (randomblob(1000000))";
    const { status, text } = await callRest(
      port,
      "POST",
      `/v1/db/${name}/sql`,
      { stmts: [{ q }] },
      { "service-durability": "durable" },
    );
    if (status !== 200) throw new Error(text);
  }
}
await node.close();
process.stdout.write(`${databases} databases of ${mebibytes} MB\n`);
const live = url("objects");
await command("backup", "--object-store", live, "--to", url("backup"));
await command("backup", "--object-store", live, "--to", url("backup"));
await command("backup", "--object-store", live, "--to", url("backup"), "--verify", "restore");
await command("restore", "--all", "--object-store", url("backup"), "--to", url("fresh"));
await command("doctor", "--object-store", live);
await command("doctor", "--object-store", live, "--deep");
rmSync(directory, { recursive: true });
