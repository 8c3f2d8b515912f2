/**
 * What the first write of a new name costs before its answer: time, fsyncs of all threads, puts into object storage. On
 * a node that keeps databases made ahead, and on one that makes each when it is asked for, in turn.
 */
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { startNodeProcess, type NodeProcess } from "../support/node-process.ts";
import { findOnPath } from "./peers/launched.ts";
import { countSyncs } from "./peers/syncs.ts";
import { median } from "./raw-client.ts";
import { report, type Row } from "./report.ts";

const rounds = 40;
/** Within it a node has made anew what a first write took, and has shipped that. */
const calmMs = 400;

async function firstWrite(node: NodeProcess, profile: string): Promise<number> {
  const memories = [{ type: "fact", topic_key: "colour", summary: "the colour is blue", content: { colour: "blue" } }];
  const fromMs = performance.now();
  const { status, text } = await node.call("POST", `/v1/memory/bench/${profile}/memories`, { memories });
  if (status !== 201) throw new Error(`the first write was answered with ${status}: ${text}`);
  return performance.now() - fromMs;
}

/** Puts that the node has asked its store for. */
async function readPuts(node: NodeProcess): Promise<number> {
  const { text } = await node.call("GET", "/metrics");
  const lines = text.split("\n").filter((line) => line.startsWith("palimpsest_store_requests_total{"));
  return lines
    .filter((line) => line.includes(`operation="put"`))
    .reduce((sum, line) => sum + Number(line.slice(line.lastIndexOf(" "))), 0);
}

async function measure(directory: string, spares: number): Promise<Row> {
  const node = await startNodeProcess(directory, { SERVICE_SPARE_DATABASES: String(spares) });
  const tookMs: number[] = [];
  for (let round = 0; round < rounds; round++) {
    await pause(calmMs);
    tookMs.push(await firstWrite(node, `p${round}`));
  }
  // Standard writes are shipped a second later: until then no other put is under way.
  await pause(3_000);
  const before = await readPuts(node);
  await firstWrite(node, "counted");
  const puts = (await readPuts(node)) - before;
  await pause(3_000);
  const strace = findOnPath("strace");
  const counts =
    strace === undefined
      ? undefined
      : await countSyncs(strace, [node.child.pid!], join(directory, "syncs"), async () => {
          await firstWrite(node, "traced");
        });
  await node.end("SIGTERM");
  const sorted = tookMs.toSorted((a, b) => a - b);
  return {
    what: spares > 0 ? `${spares} databases made ahead` : "made when it is asked for",
    p50Ms: median(tookMs),
    p99Ms: sorted[Math.floor(sorted.length * 0.99)]!,
    note:
      `${counts === undefined ? "no strace: fsyncs not counted" : `${counts.fsync + counts.fdatasync} fsyncs`}, ` +
      `${puts} puts before the answer`,
  };
}

export async function benchTenants(directory: string): Promise<void> {
  const rows: Row[] = [];
  for (const spares of [8, 0]) rows.push(await measure(join(directory, `spares-${spares}`), spares));
  report("The first write of a new name", rows);
}
