/** Writes over REST: ingest and key-value put, by clients and databases, beside bare echo and raw SQLite. */
import { join } from "node:path";
import { startNodeProcess, type NodeProcess } from "../support/node-process.ts";
import { fsyncMs, rawCommitMs, startEcho } from "./floors.ts";
import { load, median, type LoadResult, type Request } from "./raw-client.ts";
import { report, type Row } from "./report.ts";
import { texts } from "./words.ts";

const durationMs = 4_000;

function ingestRequest(namespace: string, profile: string, sentence: string, tag: string): Request {
  const memories = [{ type: "event", summary: `${sentence} ${tag}`, content: { text: sentence, tag }, session_id: "bench" }];
  return ["POST", `/v1/memory/${namespace}/${profile}/memories`, JSON.stringify({ memories })];
}

/** Bodies made before the clock runs, so that the load generator does not pay for them. */
function bodies(count: number): string[] {
  const source = texts(1);
  return Array.from({ length: count }, () => source.sentence(12));
}

function rowOf(what: string, result: LoadResult, echo: LoadResult): Row {
  return { what, perSecond: result.perSecond, p50Ms: result.p50Ms, p99Ms: result.p99Ms, ofEcho: result.perSecond / echo.perSecond };
}

/** Groups and fsyncs of a node so far, as its log says at the end. */
export function countersOf(node: NodeProcess): { groups: number; writes: number; fsyncs: number } {
  const totals = { groups: 0, writes: 0, fsyncs: 0 };
  for (const line of node.log().split("\n")) {
    if (!line.includes('"engine closed"')) continue;
    const counters = JSON.parse(line) as typeof totals;
    for (const name of ["groups", "writes", "fsyncs"] as const) totals[name] += counters[name];
  }
  return totals;
}

export async function benchWrites(directory: string): Promise<void> {
  const sentences = bodies(4_096);
  const echo = await startEcho();
  const fsync = fsyncMs(directory);
  const commit = rawCommitMs(directory);
  console.log(`disk: median fdatasync of a 4 KiB append ${fsync.toFixed(3)} ms; raw commit of one ingest with fdatasync ${commit.toFixed(3)} ms`);
  const rows: Row[] = [];
  for (const clients of [1, 16, 64]) {
    const sample = ingestRequest("bench", "one", sentences[0]!, "0");
    const floor = await load(echo.port, clients, durationMs, () => ["POST", "/", sample[2]]);
    rows.push({ what: `bare echo, ${clients} clients`, perSecond: floor.perSecond, p50Ms: floor.p50Ms, p99Ms: floor.p99Ms, ofEcho: 1 });
    const node = await startNodeProcess(join(directory, `writes-${clients}`), { SERVICE_CONTROL_RATE: "100000" });
    await node.call("POST", "/v1/databases", { name: "kv" });
    const ingest = await load(node.port, clients, durationMs, (client, step) => ingestRequest("bench", "one", sentences[(client * 61 + step) % sentences.length]!, `${client}-${step}`));
    await node.end("SIGTERM");
    const { writes, fsyncs } = countersOf(node);
    rows.push({ ...rowOf(`ingest, ${clients} clients, 1 database`, ingest, floor), note: `${(writes / fsyncs).toFixed(1)} writes per fsync` });
    if (clients === 1) rows.at(-1)!.note += `; p50 / (raw commit + echo p50) = ${(ingest.p50Ms / (commit + floor.p50Ms)).toFixed(2)} (target 1.5)`;
    const other = await startNodeProcess(join(directory, `kv-${clients}`), { SERVICE_CONTROL_RATE: "100000" });
    await other.call("POST", "/v1/databases", { name: "kv" });
    const put = await load(other.port, clients, durationMs, (client, step) => ["PUT", `/v1/db/kv/kv/n/${client}-${step % 1000}`, sentences[step % sentences.length]!, "text/plain"]);
    await other.end("SIGTERM");
    rows.push(rowOf(`kv put, ${clients} clients, 1 database`, put, floor));
  }
  for (const databases of [64, 256]) {
    const node = await startNodeProcess(join(directory, `many-${databases}`), { SERVICE_CONTROL_RATE: "100000" });
    for (let index = 0; index < databases; index++) await node.call("POST", `/v1/memory/bench/p${index}/memories`, { memories: [{ type: "event", summary: "first", content: null }] });
    const floor = await load(echo.port, databases, durationMs, () => ["POST", "/", ingestRequest("bench", "one", sentences[0]!, "0")[2]]);
    const ingest = await load(node.port, databases, durationMs, (client, step) => ingestRequest("bench", `p${client}`, sentences[(client * 61 + step) % sentences.length]!, `${client}-${step}`));
    await node.end("SIGTERM");
    rows.push(rowOf(`ingest, 1 client each on ${databases} databases`, ingest, floor));
  }
  echo.stop();
  report("Writes over REST", rows);
}

/** The same engine with its fdatasync awaited and with one that blocks the thread, no HTTP, one client per database. */
export async function benchFsync(directory: string): Promise<void> {
  const { fdatasyncSync } = await import("node:fs");
  const { openInlineEngine } = await import("../support/inline-engine.ts");
  const { realDisk } = await import("../../src/sqlite/wal.ts");
  const blocking = { fdatasync: async (descriptor: number) => fdatasyncSync(descriptor) };
  const sentences = bodies(1_024);
  const rows: Row[] = [];
  for (const databases of [1, 64, 256]) {
    const figures: Record<string, number[]> = { awaited: [], blocking: [] };
    for (let round = 0; round < 3; round++) {
      for (const [name, disk] of [["awaited", realDisk], ["blocking", blocking]] as const) {
        const { client, soon } = openInlineEngine(join(directory, `fsync-${name}-${databases}-${round}`), { disk, options: { hotHandlesMax: 1_000 } });
        let writes = 0;
        const clients = databases === 1 ? 64 : databases;
        const startedAt = performance.now();
        await Promise.all(Array.from({ length: clients }, async (_, index) => {
          const target = { uuid: `db-${databases === 1 ? 0 : index}`, branch: "main" };
          for (let step = 0; performance.now() - startedAt < durationMs / 2; step++, writes++) {
            const text = sentences[(index * 61 + step) % sentences.length]!;
            await client.write(target, "memory.ingest", { memories: [{ type: "event", summary: `${text} ${index}-${step}`, content: `{"n":${step}}` }] }, soon());
          }
        }));
        figures[name]!.push(writes / ((performance.now() - startedAt) / 1_000));
        await client.close();
      }
    }
    const [awaited, blocked] = [median(figures["awaited"]!), median(figures["blocking"]!)];
    rows.push({ what: `${databases} databases, fsync awaited`, perSecond: awaited, note: `${(awaited / blocked).toFixed(2)} times blocking (${blocked.toFixed(0)}/s)` });
  }
  report("Awaited against blocking fsync (median of 3, engine in process, no HTTP)", rows);
}
