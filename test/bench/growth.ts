/**
 * One profile as it grows: what a lone ingest costs, what it adds to the disk and to object storage, and how long a
 * recall takes. The smallest size is the floor of the others.
 */
import { join } from "node:path";
import { startNodeProcess, type NodeProcess } from "../support/node-process.ts";
import { cpuMsOf, diskBytesOf } from "./process-tree.ts";
import { median, openClient, quantile, type Request } from "./raw-client.ts";
import { texts, type Texts } from "./words.ts";

const sizesDefault = [10_000, 100_000, 1_000_000];
/** Memories of one call while the profile grows. */
const batch = 1_000;
const lone = 2_000;
const recalls = 200;
/** What is made beside the ingest, base images too, is made when object storage has not grown for so long, */
const settledMs = 8_000;
/** or after this time. */
const settleMsMax = 300_000;

const path = "/v1/memory/bench/g";

function memory(source: Texts): object {
  return { type: "event", summary: source.sentence(12), content: { text: source.sentence(20) } };
}

async function grow(node: NodeProcess, source: Texts, count: number): Promise<void> {
  for (let from = 0; from < count; from += batch) {
    const memories = Array.from({ length: Math.min(batch, count - from) }, () => memory(source));
    const { status, text } = await node.call("POST", `${path}/memories`, { memories });
    if (status !== 201) throw new Error(text);
  }
}

/** Waits until the folder does not grow any more. */
async function settle(folder: string): Promise<void> {
  const untilMs = performance.now() + settleMsMax;
  for (let before = -1; performance.now() < untilMs;) {
    const bytes = diskBytesOf(folder);
    if (bytes === before) return;
    before = bytes;
    await new Promise((resolve) => setTimeout(resolve, settledMs));
  }
}

/** The times of calls made one after the other, sorted. */
async function times(port: number, calls: readonly Request[]): Promise<readonly number[]> {
  const client = await openClient("node", port);
  const ms: number[] = [];
  for (const call of calls) {
    const sentAt = performance.now();
    const { status, body } = await client.send(...call);
    if (status >= 300) throw new Error(body);
    ms.push(performance.now() - sentAt);
  }
  client.close();
  return ms.sort((a, b) => a - b);
}

/** `numbers` are the sizes, ascending. */
export async function benchGrowth(directory: string, numbers: readonly number[] = []): Promise<void> {
  const data = join(directory, "growth");
  const source = texts(1);
  const node = await startNodeProcess(data, { SERVICE_MAX_BODY_BYTES: String(64 * 1024 * 1024) });
  const roots = [node.child.pid!];
  const objects = (): number => diskBytesOf(join(data, "objects"));
  console.log(
    "\n### One profile as it grows\n\n" +
      "| memories | ingest, CPU us | of the first | p50 ms | p99 ms | objects, KiB | recall, p50 ms | p99 ms |\n" +
      "|---:|---:|---:|---:|---:|---:|---:|---:|",
  );
  let held = 0;
  let first: number | undefined;
  for (const size of numbers.length > 0 ? numbers : sizesDefault) {
    await grow(node, source, size - held);
    await settle(join(data, "objects"));
    const [cpuBefore, putBefore] = [cpuMsOf(roots), objects()];
    const ingests = Array.from({ length: lone }, (): Request => {
      return ["POST", `${path}/memories`, JSON.stringify({ memories: [memory(source)] })];
    });
    const ingested = await times(node.port, ingests);
    const cpuUs = ((cpuMsOf(roots) - cpuBefore) * 1_000) / lone;
    await settle(join(data, "objects"));
    const putKib = (objects() - putBefore) / 1_024 / lone;
    held = size + lone;
    const asked = Array.from({ length: recalls }, (): Request => {
      return ["POST", `${path}/recall`, JSON.stringify({ query: source.sentence(6), k: 8 })];
    });
    const recalled = await times(node.port, asked);
    first ??= cpuUs;
    const row = [
      cpuUs.toFixed(0),
      (cpuUs / first).toFixed(2),
      median(ingested).toFixed(2),
      quantile(ingested, 0.99).toFixed(1),
      putKib.toFixed(2),
      median(recalled).toFixed(1),
      quantile(recalled, 0.99).toFixed(1),
    ];
    console.log(`| ${size.toLocaleString("en")} | ${row.join(" | ")} |`);
  }
  await node.end("SIGTERM");
}
