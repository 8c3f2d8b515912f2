/** Resident memory: per open database after real use, after 2,000 were touched once each, and after load and a rest. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
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

export async function benchMemory(directory: string): Promise<void> {
  const databases = 2_000;
  const node = await startNodeProcess(join(directory, "memory"), { SERVICE_IDLE_CLOSE_SECS: "10" });
  // The wires and the first database take their memory first.
  for (let index = 0; index < 20; index++) await touch(node, `warm${index}`);
  await load(node.port, 8, 1_000, () => ["GET", "/health"]);
  const rows: Row[] = [{ what: "20 databases open", note: `${residentMiB(node).toFixed(0)} MiB resident` }];
  const before = residentMiB(node);
  for (let index = 0; index < 200; index++) await touch(node, `p${index}`);
  rows.push({
    what: "200 more, each after a write and a recall",
    note: `${(((residentMiB(node) - before) * 1024) / 200).toFixed(0)} KiB each`,
  });
  for (let from = 200; from < databases; from += 20)
    await Promise.all(Array.from({ length: 20 }, (_, offset) => touch(node, `p${from + offset}`)));
  rows.push({
    what: `${databases} touched, at once afterwards`,
    note: `${residentMiB(node).toFixed(0)} MiB resident (target below 1024 at the end)`,
  });
  await pause(45_000);
  rows.push({ what: "after the idle close", note: `${residentMiB(node).toFixed(0)} MiB resident` });
  await node.end("SIGTERM");
  rows.push(...(await loadAndRest(join(directory, "rest"))));
  report("Resident memory", rows);
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
