/** Writes over REST: ingest and key-value put, by clients and databases, beside bare echo and raw SQLite. */
import { join } from "node:path";
import { startNodeProcess, type NodeProcess } from "../support/node-process.ts";
import { fsyncMs, RawIngests, rawCommitMs, startEcho } from "./floors.ts";
import { load, median, openClient, quantile, type ClientKind, type LoadResult, type Request } from "./raw-client.ts";
import { report, type Row } from "./report.ts";
import { texts } from "./words.ts";

const warmMs = 3_000;
const roundMs = 2_000;
const rounds = 5;
/** So many that the log has been folded in once: from then on it is written over. */
const loneWarmCalls = 2_500;
const loneCalls = 2_000;
/** What one ingest takes of the log, about. */
const ingestLogBytes = 28 * 1024;

export function ingestRequest(profile: string, sentence: string, tag: string): Request {
  const memories = [
    { type: "event", summary: `${sentence} ${tag}`, content: { text: sentence, tag }, session_id: "bench" },
  ];
  return ["POST", `/v1/memory/bench/${profile}/memories`, JSON.stringify({ memories })];
}

/** Texts made before the clock runs, so that the load generator does not pay for them. */
export function buildSentences(count: number): string[] {
  const source = texts(1);
  return Array.from({ length: count }, () => source.sentence(12));
}

/** Groups and fsyncs of a node, as its log says at the end. */
function readCounters(node: NodeProcess): { writes: number; fsyncs: number } {
  const totals = { writes: 0, fsyncs: 0 };
  for (const line of node.log().split("\n")) {
    if (!line.includes('"engine closed"')) continue;
    const counters = JSON.parse(line) as typeof totals;
    totals.writes += counters.writes;
    totals.fsyncs += counters.fsyncs;
  }
  return totals;
}

interface Measured {
  readonly service: LoadResult;
  readonly echo: LoadResult;
  /** Of the service to the echo, throughput, pair by pair. */
  readonly ratio: number;
}

/** Echo and service in turn after a warm-up; the round with the median ratio speaks. */
async function paired(
  servicePort: number,
  echoPort: number,
  clients: number,
  kind: ClientKind,
  next: (client: number, step: number) => Request,
): Promise<Measured> {
  const [, , body = "{}"] = next(0, 0);
  const echoBody = body.startsWith("{") ? body : JSON.stringify(body);
  let step = 0;
  const fresh = (client: number): Request => next(client, step++);
  await load(servicePort, clients, warmMs, fresh, kind);
  await load(echoPort, clients, warmMs / 3, () => ["POST", "/", echoBody], kind);
  const pairs: Measured[] = [];
  for (let round = 0; round < rounds; round++) {
    const echo = await load(echoPort, clients, roundMs, () => ["POST", "/", echoBody], kind);
    const service = await load(servicePort, clients, roundMs, fresh, kind);
    pairs.push({ service, echo, ratio: service.perSecond / echo.perSecond });
  }
  return pairs.sort((a, b) => a.ratio - b.ratio)[Math.floor(rounds / 2)]!;
}

export async function benchWrites(directory: string): Promise<void> {
  const sentences = buildSentences(4_096);
  const sentence = (client: number, step: number): string => sentences[(client * 61 + step) % sentences.length]!;
  const echo = await startEcho();
  const rows: Row[] = [];
  for (const [clients, kind] of [
    [1, "node"],
    [16, "node"],
    [64, "fetch"],
    [64, "node"],
    [64, "raw"],
  ] as const) {
    const node = await startNodeProcess(join(directory, `writes-${clients}-${kind}`));
    const commitBefore = rawCommitMs(directory, sentences);
    const {
      service,
      echo: floor,
      ratio,
    } = await paired(node.port, echo.port, clients, kind, (client, step) =>
      ingestRequest("one", sentence(client, step), `${client}-${step}`),
    );
    await node.end("SIGTERM");
    const { writes, fsyncs } = readCounters(node);
    rows.push({
      what: `bare echo, ${clients} ${kind} clients`,
      perSecond: floor.perSecond,
      p50Ms: floor.p50Ms,
      p99Ms: floor.p99Ms,
    });
    let note = `${(writes / fsyncs).toFixed(1)} writes per fsync`;
    if (clients === 1) {
      const commit = median([commitBefore, rawCommitMs(directory, sentences)]);
      note +=
        `; p50 is ${(service.p50Ms / (commit + floor.p50Ms)).toFixed(2)} times raw commit with fdatasync ` +
        `(${commit.toFixed(2)} ms) + echo`;
    }
    rows.push({ what: `ingest, ${clients} ${kind} clients, 1 database`, ...service, ofEcho: ratio, note });
    const other = await startNodeProcess(join(directory, `kv-${clients}-${kind}`));
    await other.call("POST", "/v1/databases", { name: "kv" });
    const put = await paired(other.port, echo.port, clients, kind, (client, step) => [
      "PUT",
      `/v1/db/kv/kv/n/${client}-${step % 1000}`,
      sentence(client, step),
      "text/plain",
    ]);
    await other.end("SIGTERM");
    rows.push({ what: `kv put, ${clients} ${kind} clients, 1 database`, ...put.service, ofEcho: put.ratio });
  }
  for (const databases of [64, 256]) {
    const node = await startNodeProcess(join(directory, `many-${databases}`));
    const { service, ratio } = await paired(node.port, echo.port, databases, "node", (client, step) =>
      ingestRequest(`p${client}`, sentence(client, step), `${client}-${step}`),
    );
    await node.end("SIGTERM");
    rows.push({ what: `ingest, 1 node client each on ${databases} databases`, ...service, ofEcho: ratio });
  }
  echo.stop();
  console.log(`disk: median fdatasync of a 4 KiB append ${fsyncMs(directory).toFixed(3)} ms`);
  report("Writes over REST (median of 5 paired rounds after a warm-up)", rows);
}

/**
 * One client's ingest beside what it is made of, call by call: an ingest, an echo, a raw commit with its fsync. A loop
 * of nothing but echoes, or commits, keeps caches warm and cores awake that a client's own pace lets go; here all three
 * meet the same machine.
 */
export async function benchLone(directory: string): Promise<void> {
  const sentences = buildSentences(4_096);
  const echo = await startEcho();
  const rows: Row[] = [];
  for (const [what, entry] of [
    ["ingest, 1 client", undefined],
    ["ingest, 1 client, nothing is shipped", join(import.meta.dirname, "unshipped-node.ts")],
  ] as const) {
    const node = await startNodeProcess(join(directory, `lone-${rows.length}`), {}, entry);
    const raw = new RawIngests(directory, sentences);
    const [toNode, toEcho] = [await openClient("node", node.port), await openClient("node", echo.port)];
    const timed = async (client: typeof toNode, [method, path, body]: Request): Promise<number> => {
      const sentAt = performance.now();
      const { status } = await client.send(method, path, body);
      if (status >= 300) throw new Error(`status ${status}`);
      return performance.now() - sentAt;
    };
    const times = { ingest: [] as number[], echo: [] as number[], commit: [] as number[] };
    for (let step = 0; step < loneWarmCalls + loneCalls; step++) {
      const request = ingestRequest("one", sentences[step % sentences.length]!, String(step));
      const ingest = await timed(toNode, request);
      const echoed = await timed(toEcho, ["POST", "/", request[2]]);
      const commit = raw.nextMs();
      if (step < loneWarmCalls) continue;
      times.ingest.push(ingest);
      times.echo.push(echoed);
      times.commit.push(commit);
    }
    for (const client of [toNode, toEcho]) client.close();
    raw.close();
    await node.end("SIGTERM");
    const [ingest, echoed, commit] = [median(times.ingest), median(times.echo), median(times.commit)];
    const p99Ms = quantile(
      times.ingest.sort((a, b) => a - b),
      0.99,
    );
    rows.push({
      what,
      p50Ms: ingest,
      p99Ms,
      note:
        `${(ingest / (echoed + commit)).toFixed(2)} times echo (${echoed.toFixed(2)} ms) + raw commit with ` +
        `fdatasync (${commit.toFixed(2)} ms)`,
    });
  }
  echo.stop();
  const [appended, over] = (["append", "overwrite"] as const).map((mode) =>
    fsyncMs(directory, ingestLogBytes, mode).toFixed(3),
  );
  console.log(
    `disk: median fdatasync of ${ingestLogBytes / 1024} KiB, appended ${appended} ms, written over old ones ${over} ms`,
  );
  report(`One client, call by call beside its floors (median of ${loneCalls} calls)`, rows);
}

/** The same engine with its fdatasync awaited and with one that blocks the thread, no HTTP, one client per database. */
export async function benchFsync(directory: string): Promise<void> {
  const { fdatasyncSync } = await import("node:fs");
  const { openInlineEngine, uuidOf } = await import("../support/inline-engine.ts");
  const { realDisk } = await import("../../src/base/disk.ts");
  const blocking = { ...realDisk, fdatasync: async (descriptor: number) => fdatasyncSync(descriptor) };
  const sentences = buildSentences(1_024);
  const rows: Row[] = [];
  for (const databases of [1, 64, 256]) {
    const figures: Record<string, number[]> = { awaited: [], blocking: [] };
    for (let round = 0; round < 3; round++) {
      for (const [name, disk] of [
        ["awaited", realDisk],
        ["blocking", blocking],
      ] as const) {
        const { client, soon } = openInlineEngine(join(directory, `fsync-${name}-${databases}-${round}`), {
          disk,
          options: { hotHandlesMax: 1_000 },
        });
        let writes = 0;
        const clients = databases === 1 ? 64 : databases;
        const startedAt = performance.now();
        await Promise.all(
          Array.from({ length: clients }, async (_, index) => {
            const target = { uuid: uuidOf(databases === 1 ? 0 : index), branch: "main" };
            for (let step = 0; performance.now() - startedAt < roundMs; step++, writes++) {
              const text = sentences[(index * 61 + step) % sentences.length]!;
              await client.write(
                target,
                "memory.ingest",
                { memories: [{ type: "event", summary: `${text} ${index}-${step}`, content: `{"n":${step}}` }] },
                soon(),
              );
            }
          }),
        );
        figures[name]!.push(writes / ((performance.now() - startedAt) / 1_000));
        await client.close();
      }
    }
    const [awaited, blocked] = [median(figures["awaited"]!), median(figures["blocking"]!)];
    rows.push({
      what: `${databases} databases, fsync awaited`,
      perSecond: awaited,
      note: `${(awaited / blocked).toFixed(2)} times blocking (${blocked.toFixed(0)}/s)`,
    });
  }
  report("Awaited against blocking fsync (median of 3, engine in process, no HTTP)", rows);
}
