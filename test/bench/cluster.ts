/**
 * Three nodes on a real etcd and a real S3 server (PALIMPSEST_S3_SERVER): what forwarding a write costs, how far
 * replicas lag, and what three nodes write together. All of them share the cores of this machine with the load and the
 * servers.
 */
import { setTimeout as pause } from "node:timers/promises";
import { Cluster, clusterNeed, eventually, hasCluster, type ClusterNode } from "../support/cluster.ts";
import { cpuMsOf } from "./process-tree.ts";
import { load, median, quantile, RawClient, type LoadResult, type Request } from "./raw-client.ts";
import { report, type Row } from "./report.ts";

const warmMs = 2_000;
const roundMs = 3_000;
const rounds = 5;
const clients = 16;
const lagMs = 15_000;
const writesPerSecond = 200;
const putTo =
  (database: string) =>
  (client: number, step: number): Request => [
    "PUT",
    `/v1/db/${database}/kv/n/${client}-${step % 1_000}`,
    `value ${step}`,
    "text/plain",
  ];

async function ownedBy(node: ClusterNode, name: string): Promise<string> {
  await node.call("POST", "/v1/databases", { name });
  await eventually(20_000, async () => {
    const { status, text } = await node.call("PUT", `/v1/db/${name}/kv/n/first`, "value", {
      "content-type": "text/plain",
      "service-durability": "durable",
    });
    if (status !== 200) throw new Error(text);
  });
  return name;
}

interface Cost extends LoadResult {
  /** Of both nodes, for one write. */
  readonly cpuMs: number;
}

/** The same writes through the owner and through another node, in turn; the rounds with the median costs speak. */
async function forwarding([owner, other]: readonly [ClusterNode, ClusterNode]): Promise<Row[]> {
  const next = putTo(await ownedBy(owner, "forwarding"));
  const costs: Record<"local" | "forwarded", Cost[]> = { local: [], forwarded: [] };
  for (const node of [owner, other]) await load(node.port, clients, warmMs, next);
  for (let round = 0; round < rounds; round++) {
    for (const [what, node] of [
      ["local", owner],
      ["forwarded", other],
    ] as const) {
      const before = cpuMsOf([owner.pid, other.pid]);
      const result = await load(node.port, clients, roundMs, next);
      costs[what].push({ ...result, cpuMs: (cpuMsOf([owner.pid, other.pid]) - before) / result.requests });
    }
  }
  const ratios = costs.forwarded.map(({ cpuMs }, round) => cpuMs / costs.local[round]!.cpuMs);
  return (["local", "forwarded"] as const).map((what) => {
    const middle = costs[what].toSorted((a, b) => a.cpuMs - b.cpuMs)[Math.floor(rounds / 2)]!;
    const note =
      `${middle.cpuMs.toFixed(3)} ms of both nodes' processors a ` +
      `write${what === "forwarded" ? `, ${median(ratios).toFixed(2)} times a local one (target at most 2)` : ""}`;
    return { what: `kv put, ${clients} raw clients, ${what}`, ...middle, note };
  });
}

/** From a write's acknowledgement until a plain read at another node shows it. */
async function lag([owner, other]: readonly [ClusterNode, ClusterNode]): Promise<Row> {
  const name = await ownedBy(owner, "lag");
  const path = `/v1/db/${name}/kv/lag/step`;
  const acknowledgedMs = new Map<number, number>();
  const [writer, reader] = [await RawClient.open(owner.port), await RawClient.open(other.port)];
  const startedMs = performance.now();
  let isOver = false;
  const writing = (async () => {
    for (let step = 1; performance.now() - startedMs < lagMs; step++) {
      await pause(Math.max(0, startedMs + (step * 1_000) / writesPerSecond - performance.now()));
      const { status, body } = await writer.send("PUT", path, String(step), "text/plain");
      if (status !== 200) throw new Error(body);
      acknowledgedMs.set(step, performance.now());
    }
    // The last ones have their time to be seen.
    await pause(3_000);
    isOver = true;
  })();
  const lags: number[] = [];
  let seen = 0;
  while (!isOver) {
    const { status, body } = await reader.send("GET", path);
    const nowMs = performance.now();
    // What was written before the first look is no lag.
    if (status === 200 && seen === 0) seen = Number(body);
    while (status === 200 && seen < Number(body)) {
      const atMs = acknowledgedMs.get(++seen);
      // A write may be seen before its answer has come.
      lags.push(atMs === undefined ? 0 : nowMs - atMs);
    }
    await pause(5);
  }
  await writing;
  for (const client of [writer, reader]) client.close();
  lags.sort((a, b) => a - b);
  const unseen = acknowledgedMs.size - seen;
  return {
    what: `replica lag at ${writesPerSecond} writes/s`,
    perSecond: acknowledgedMs.size / (lagMs / 1_000),
    p50Ms: quantile(lags, 0.5),
    p99Ms: quantile(lags, 0.99),
    note: `from the answer to a plain read elsewhere (target p99 below 1000 ms); never seen: ${unseen}`,
  };
}

/** As many clients on one node with three databases, and on three nodes with one each. */
async function aggregate(nodes: readonly ClusterNode[]): Promise<Row[]> {
  const [one] = nodes as readonly [ClusterNode];
  const together: string[] = [];
  const apart: string[] = [];
  for (const [index, node] of nodes.entries()) {
    together.push(await ownedBy(one, `together-${index}`));
    apart.push(await ownedBy(node, `apart-${index}`));
  }
  const run = async (
    targets: readonly ClusterNode[],
    databases: readonly string[],
    durationMs: number,
  ): Promise<LoadResult> => {
    const results = await Promise.all(
      databases.map((database, index) =>
        load(targets[index % targets.length]!.port, clients, durationMs, putTo(database)),
      ),
    );
    return {
      perSecond: results.reduce((sum, { perSecond }) => sum + perSecond, 0),
      p50Ms: median(results.map(({ p50Ms }) => p50Ms)),
      p99Ms: Math.max(...results.map(({ p99Ms }) => p99Ms)),
      requests: 0,
    };
  };
  await run([one], together, warmMs);
  await run(nodes, apart, warmMs);
  const pairs: { readonly alone: LoadResult; readonly all: LoadResult }[] = [];
  for (let round = 0; round < rounds; round++)
    pairs.push({ alone: await run([one], together, roundMs), all: await run(nodes, apart, roundMs) });
  const ratio = ({ alone, all }: (typeof pairs)[number]): number => all.perSecond / alone.perSecond;
  const middle = pairs.toSorted((a, b) => ratio(a) - ratio(b))[Math.floor(rounds / 2)]!;
  return [
    { what: `kv put, ${clients * 3} raw clients, 3 databases on one node`, ...middle.alone },
    {
      what: `kv put, ${clients * 3} raw clients, one database on each of 3 nodes`,
      ...middle.all,
      note: `${ratio(middle).toFixed(2)} times one node, on the same cores`,
    },
  ];
}

export async function benchCluster(): Promise<void> {
  if (!hasCluster) {
    console.log(`\nNo figures of a cluster${clusterNeed}`);
    return;
  }
  const cluster = await Cluster.start({ linked: false, variables: { SERVICE_LOG_LEVEL: "warn" } });
  try {
    const [a, b] = cluster.nodes as [ClusterNode, ClusterNode];
    report(`A cluster of three (median of ${rounds} rounds after a warm-up)`, [
      ...(await forwarding([a, b])),
      await lag([a, b]),
      ...(await aggregate(cluster.nodes)),
    ]);
  } finally {
    await cluster.end();
  }
}
