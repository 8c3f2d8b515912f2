/**
 * Resident memory: of an open database beside a bare connection to one, of ten thousand that were touched and two
 * thousand that are used, and after load and a rest.
 */
import { execFile } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { promisify } from "node:util";
import { startNodeProcess, type NodeProcess } from "../support/node-process.ts";
import { load } from "./raw-client.ts";
import { report, type Row } from "./report.ts";

function residentMiB(node: NodeProcess): number {
  const line = /VmRSS:\s+(\d+) kB/.exec(readFileSync(`/proc/${node.child.pid}/status`, "utf8"));
  return Number(line?.[1]) / 1024;
}

async function touch(node: NodeProcess, profile: string): Promise<void> {
  const memories = [
    {
      type: "fact",
      topic_key: "colour",
      summary: "the colour is blue",
      content: { colour: "blue" },
      embedding: [1, 0, 0],
    },
  ];
  const ingest = await node.call("POST", `/v1/memory/bench/${profile}/memories`, { memories });
  const recall = await node.call("POST", `/v1/memory/bench/${profile}/recall`, {
    query: "colour",
    embedding: [1, 0, 0],
  });
  if (ingest.status !== 201 || recall.json.memories.length !== 1)
    throw new Error(`touching failed: ${ingest.text} ${recall.text}`);
}

const perDatabase = (fromMiB: number, toMiB: number, databases: number): string =>
  `${(((toMiB - fromMiB) * 1024) / databases).toFixed(0)} KiB each`;

export async function benchMemory(directory: string): Promise<void> {
  const rows: Row[] = [...(await bareSqlite(directory)), ...(await touched(join(directory, "memory")))];
  rows.push(...(await loadAndRest(join(directory, "rest"))));
  report("Resident memory", rows);
}

/** What SQLite takes by itself for each of as many connections to empty databases of the service. */
async function bareSqlite(directory: string): Promise<Row[]> {
  const databases = 500;
  const script = join(import.meta.dirname, "bare-connections.ts");
  const { stdout } = await promisify(execFile)(process.execPath, ["--expose-gc", script, directory, String(databases)]);
  return [{ what: `${databases} bare connections to databases of the same schema`, note: `${stdout.trim()} KiB each` }];
}

/** Ten thousand databases, of which two thousand go on being used. */
async function touched(directory: string): Promise<Row[]> {
  const [all, hot, atOnce] = [10_000, 2_000, 20];
  const node = await startNodeProcess(directory, { SERVICE_LOG_LEVEL: "warn" });
  // The wires and the first database take their memory first.
  for (let index = 0; index < 20; index++) await touch(node, `warm${index}`);
  await load(node.port, 8, 1_000, () => ["GET", "/health"]);
  const before = residentMiB(node);
  const rows: Row[] = [{ what: "20 databases open", note: `${before.toFixed(0)} MiB resident` }];
  const tell = (what: string, databases: number): void => {
    const now = residentMiB(node);
    rows.push({ what, note: `${now.toFixed(0)} MiB resident, ${perDatabase(before, now, databases)}` });
  };
  const touchAll = async (count: number): Promise<void> => {
    for (let from = 0; from < count; from += atOnce)
      await Promise.all(Array.from({ length: atOnce }, (_, offset) => touch(node, `p${from + offset}`)));
  };
  await touchAll(200);
  tell("200 more, each after a write and a recall", 200);
  await pause(5_000);
  tell("the same, five seconds later", 200);
  await touchAll(all);
  await touchAll(hot);
  tell(`${all} touched, then ${hot} of them again: per hot one`, hot);
  for (const untilMs = performance.now() + 60_000; performance.now() < untilMs;) await touchAll(hot);
  tell(`${hot} used over and over for a minute: per hot one`, hot);
  await pause(60_000);
  rows.push({ what: "after a minute without calls", note: `${residentMiB(node).toFixed(0)} MiB resident` });
  await node.end("SIGTERM");
  return rows;
}

/** A node at its start, after twenty seconds of load, and after a minute without calls. */
async function loadAndRest(directory: string): Promise<Row[]> {
  const node = await startNodeProcess(directory);
  await pause(3_000);
  const startMiB = residentMiB(node);
  const { requests } = await load(node.port, 32, 20_000, (client, step) => [
    "POST",
    `/v1/memory/bench/p${(client + step) % 20}/memories`,
    JSON.stringify({ memories: [{ type: "fact", summary: `note ${step}`, content: `of ${client} in step ${step}` }] }),
  ]);
  const loadedMiB = residentMiB(node);
  await pause(60_000);
  const restedMiB = residentMiB(node);
  await node.end("SIGTERM");
  const told = (what: string, mebibytes: number): Row => ({
    what,
    note: `${mebibytes.toFixed(0)} MiB resident, ${(mebibytes / startMiB).toFixed(2)} times the start`,
  });
  return [
    told("at the start", startMiB),
    told(`after ${requests} ingests of 32 clients`, loadedMiB),
    told("after a minute's rest (target 1.5)", restedMiB),
  ];
}
