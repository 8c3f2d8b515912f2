/**
 * What a change costs: this tree beside an older build of its own history, both serving at once, loaded in turn.
 *
 * `npm run bench -- builds` compares with the first release; `npm run bench -- builds <commit>` with another one.
 */
import { join } from "node:path";
import { startNodeProcess, type NodeProcess } from "../support/node-process.ts";
import { buildEntry, releasedCommit } from "../support/released-build.ts";
import { load, median, openClient, type LoadResult, type Request } from "./raw-client.ts";
import { report } from "./report.ts";
import { ingestRequest, buildSentences } from "./writes.ts";

const rounds = 9;
const turnMs = 1_000;
/** Of each kind, before the clock runs. */
const warmMs = 1_000;
const steadyPerSec = 200;
const steadySecs = 10;

const sentences = buildSentences(4_096);
const sentence = (client: number, step: number): string => sentences[(step * 64 + client) % sentences.length]!;
/** Each value differs from the last one of its key: what changes nothing would not be written. */
const putRequest = (client: number, step: number, tag: string): Request => [
  "PUT",
  `/v1/db/bench--kv/kv/n/${client}-${step % 500}`,
  `${tag} ${step} ${sentence(client, step)}`,
  "text/plain",
];

interface Kind {
  readonly what: string;
  readonly clients: number;
  /** On nodes whose writes are answered once object storage has them. */
  readonly isDurable?: boolean;
  next(client: number, step: number, tag: string): Request;
}

const kinds: readonly Kind[] = [
  ...[1, 64].flatMap((clients) => [
    { what: "key-value put", clients, next: putRequest },
    { what: "key-value put, durable", clients, isDurable: true, next: putRequest },
    {
      what: "key-value get",
      clients,
      next: (client: number, step: number): Request => ["GET", `/v1/db/bench--kv/kv/n/${client}-${step % 5}`],
    },
    {
      what: "ingest of one memory",
      clients,
      next: (client: number, step: number, tag: string): Request =>
        ingestRequest(`ingest${clients}`, sentence(client, step), `${tag}-${client}-${step}`),
    },
  ]),
  ...[1, 8].map((clients) => ({
    what: "recall",
    clients,
    next: (client: number, step: number): Request => [
      "POST",
      "/v1/memory/bench/ingest1/recall",
      JSON.stringify({ query: sentence(client, step) }),
    ],
  })),
];

interface Build {
  readonly node: NodeProcess;
  readonly durableNode: NodeProcess;
  readonly rounds: LoadResult[][];
}

/** What nodes put to object storage for a write each, at the same steady rate of one client. */
async function bytesPutPerWrite(directory: string, entry: string | undefined): Promise<number> {
  const node = await startNodeProcess(directory, {}, entry);
  const client = await openClient("raw", node.port);
  const startedAt = performance.now();
  for (let step = 0; step < steadyPerSec * steadySecs; step++) {
    await client.send(...ingestRequest("steady", sentence(0, step), String(step)));
    await new Promise((resolve) =>
      setTimeout(resolve, Math.max(0, startedAt + (step * 1_000) / steadyPerSec - performance.now())),
    );
  }
  client.close();
  await node.end("SIGTERM");
  const closed = node
    .log()
    .split("\n")
    .filter((line) => line.includes('"engine closed"'))
    .map((line) => JSON.parse(line) as { writes: number; bytesPut: number });
  return closed.reduce((sum, { bytesPut }) => sum + bytesPut, 0) / closed.reduce((sum, { writes }) => sum + writes, 0);
}

export async function benchBuilds(directory: string, commit = releasedCommit): Promise<void> {
  const entries = [buildEntry(join(directory, "older"), commit), undefined];
  const builds: Build[] = [];
  for (const [index, entry] of entries.entries()) {
    const data = join(directory, `data-${index}`);
    builds.push({
      node: await startNodeProcess(data, {}, entry),
      durableNode: await startNodeProcess(`${data}-durable`, { SERVICE_DURABILITY: "durable" }, entry),
      rounds: [],
    });
  }
  // A profile's first memory makes its database.
  for (const { node, durableNode } of builds)
    for (const { port } of [node, durableNode])
      await load(port, 1, 1, () => ingestRequest("kv", sentences[0]!, "first"));
  let turn = 0;
  const runKind = (
    { node, durableNode }: Build,
    { clients, isDurable, next }: Kind,
    ms: number,
  ): Promise<LoadResult> => {
    const tag = String(turn++);
    return load((isDurable ? durableNode : node).port, clients, ms, (client, step) => next(client, step, tag));
  };
  for (const kind of kinds) for (const build of builds) await runKind(build, kind, warmMs);
  for (let round = 0; round < rounds; round++) {
    for (const build of builds) build.rounds.push([]);
    for (const kind of kinds)
      for (const build of round % 2 === 0 ? builds : builds.toReversed())
        build.rounds[round]!.push(await runKind(build, kind, turnMs));
  }
  for (const { node, durableNode } of builds) await Promise.all([node.end("SIGTERM"), durableNode.end("SIGTERM")]);
  const [older, current] = builds as [Build, Build];
  const [olderBytes, currentBytes] = [
    await bytesPutPerWrite(join(directory, "steady-0"), entries[0]),
    await bytesPutPerWrite(join(directory, "steady-1"), entries[1]),
  ];
  report(
    `This tree beside ${commit.slice(0, 7)}, ${rounds} rounds of ${turnMs} ms in turn; throughput as a ` +
      "share of the older build's",
    kinds.map(({ what, clients }, kind) => {
      const ratios = older.rounds
        .map((of, round) => current.rounds[round]![kind]!.perSecond / of[kind]!.perSecond)
        .sort((a, b) => a - b);
      const computeMedian = (read: (result: LoadResult) => number, build: Build): number =>
        median(build.rounds.map((of) => read(of[kind]!)));
      return {
        what: `${what}, ${clients} client${clients > 1 ? "s" : ""}`,
        perSecond: computeMedian(({ perSecond }) => perSecond, current),
        p50Ms: computeMedian(({ p50Ms }) => p50Ms, current),
        p99Ms: computeMedian(({ p99Ms }) => p99Ms, current),
        note:
          `**${median(ratios).toFixed(2)}** of it (${ratios[0]!.toFixed(2)} to ${ratios.at(-1)!.toFixed(2)}); its ` +
          `p50 ${computeMedian(({ p50Ms }) => p50Ms, older).toFixed(2)}, ` +
          `p99 ${computeMedian(({ p99Ms }) => p99Ms, older).toFixed(2)}`,
      };
    }),
  );
  console.log(
    `\nAt ${steadyPerSec} memories a second each puts ${currentBytes.toFixed(0)} bytes to object ` +
      `storage: ${(currentBytes / olderBytes).toFixed(2)} of the older build's ${olderBytes.toFixed(0)}.`,
  );
}
