/**
 * Ingest with vectors: by the size of the collection, and while an approximate index of it is built. One client, one
 * memory a call.
 */
import { join } from "node:path";
import { limits } from "../../src/base/limits.ts";
import { startNodeProcess, type NodeProcess } from "../support/node-process.ts";
import { load } from "./raw-client.ts";
import { report, type Row } from "./report.ts";
import { texts } from "./words.ts";

const dimension = 256;
const windowMs = 4_000;
const path = "/v1/memory/bench/vectors";

interface Bench {
  readonly node: NodeProcess;
  readonly memory: () => object;
  readonly vector: () => readonly number[];
  stored: number;
}

async function fill(bench: Bench, size: number): Promise<void> {
  while (bench.stored < size) {
    const count = Math.min(500, size - bench.stored);
    const { status, text } = await bench.node.call("POST", `${path}/memories`, {
      memories: Array.from({ length: count }, bench.memory),
    });
    if (status !== 201) throw new Error(text);
    bench.stored += count;
  }
}

/** Whether a recall by vector is answered from an approximate index. It also begins the build, where one is due. */
async function isApproximate({ node, vector }: Bench): Promise<boolean> {
  const { json } = await node.call("POST", `${path}/recall`, {
    embedding: vector(),
    k: 1,
    explain: true,
    min_score: { vector: -1 },
  });
  return json.memories[0].explain.channels[0].approximate === true;
}

async function ingest(
  bench: Bench,
  forMs: number,
): Promise<{ readonly perSecond: number; readonly p50Ms: number; readonly p99Ms: number }> {
  let calls = 0;
  const measured = await load(bench.node.port, 1, forMs, () => {
    calls++;
    return ["POST", `${path}/memories`, JSON.stringify({ memories: [bench.memory()] })];
  });
  bench.stored += calls;
  return measured;
}

export async function benchVectors(directory: string): Promise<void> {
  const node = await startNodeProcess(join(directory, "vectors"), { SERVICE_MAX_BODY_BYTES: String(64 * 1024 * 1024) });
  const source = texts(1);
  const vector = (): readonly number[] => source.vector(dimension);
  const bench: Bench = {
    node,
    vector,
    stored: 0,
    memory: () => ({ type: "event", summary: source.sentence(12), content: null, embedding: vector() }),
  };
  const rows: Row[] = [];
  let before = { perSecond: 0, p50Ms: 0, p99Ms: 0 };
  await ingest(bench, windowMs);
  for (const size of [1_000, 10_000, limits.exactVectorsMax - 4_000]) {
    await fill(bench, size);
    await isApproximate(bench);
    before = await ingest(bench, windowMs);
    rows.push({ what: `ingest beside ${size} vectors`, ...before });
  }
  await fill(bench, limits.exactVectorsMax + 500);
  const startedAt = performance.now();
  if (await isApproximate(bench)) throw new Error("the index was there before it was asked for");
  // Windows of ingest until the index answers: each is in the build but for its end.
  const during: { perSecond: number; p50Ms: number; p99Ms: number }[] = [];
  do during.push(await ingest(bench, windowMs));
  while (!(await isApproximate(bench)) && performance.now() - startedAt < 300_000);
  const whole = during.length > 1 ? during.slice(0, -1) : during;
  const mean = (of: (one: (typeof during)[number]) => number): number =>
    whole.reduce((sum, one) => sum + of(one), 0) / whole.length;
  const p99Ms = mean((one) => one.p99Ms);
  const note =
    `p99 ${(p99Ms / before.p99Ms).toFixed(2)} times that before (target 2), in ${whole.length} windows ` +
    `of ${windowMs / 1_000} s; built in about ${((performance.now() - startedAt) / 1_000).toFixed(0)} s`;
  rows.push({
    what: `while the index of ${limits.exactVectorsMax + 500} is built`,
    perSecond: mean((one) => one.perSecond),
    p50Ms: mean((one) => one.p50Ms),
    p99Ms,
    note,
  });
  rows.push({ what: "afterwards", ...(await ingest(bench, windowMs)) });
  await node.end("SIGTERM");
  report(`Ingest with vectors of ${dimension} dimensions`, rows);
}
