/**
 * What each node of a fleet asks and how late it does its work, by the number of nodes: the real code of one node, on
 * virtual time, with ten million databases that a formula lists (test/support/fleet). And what looks cost in CPU.
 */
import { Rendezvous } from "../../src/service/placement/rendezvous.ts";
import { ShardOwners } from "../../src/service/placement/shards.ts";
import { listDue } from "../../src/control/databases/expiry-index.ts";
import { shardsCount } from "../../src/format/core/shards.ts";
import { MemoryStore } from "../../src/store/memory-store.ts";
import { buildNodes, startFleetNode } from "../support/fleet.ts";
import type { FleetOptions, Requests } from "../support/fleet-store.ts";
import { report } from "./report.ts";

const hourMs = 3_600_000;
const databases = 10_000_000;
/**
 * Each database has something due once a day; one in a thousand is erased from each day; a thousand are deleted, and a
 * dead node has a copy of each.
 */
const load = { duePerHour: Math.round(databases / 24), erasures: databases / 1_000, deleted: 1_000, sweepMs: 300 };

function table(title: string, columns: readonly string[], rows: readonly (readonly (string | number)[])[]): void {
  console.log(
    `\n### ${title}\n\n| ${columns.join(" | ")} |\n|${columns.map((_, at) => (at === 0 ? "---" : "---:")).join("|")}|`,
  );
  for (const row of rows) console.log(`| ${row.join(" | ")} |`);
}

const perHour = ({ list, get, put, delete: removed, etcd }: Requests, hours: number): number[] =>
  [list, get, put, removed, etcd].map((count) => Math.round(count / hours));

function quantile(values: readonly number[], part: number): string {
  if (values.length === 0) return "none";
  const sorted = values.toSorted((a, b) => a - b);
  return (sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * part))]! / 1_000).toFixed(0);
}

async function idle(nodes: number): Promise<(string | number)[]> {
  const node = await startFleetNode({ nodes });
  await node.pass(24 * hourMs);
  const row = [nodes, ...perHour(node.requests, 24), node.requests.list, node.requests.get];
  await node.close();
  return row;
}

async function loaded(
  nodes: number,
  hours: number,
  options: Omit<FleetOptions, "nodes">,
): Promise<(string | number)[]> {
  const node = await startFleetNode({ nodes, ...options });
  // What is there when the node begins is found by its first looks.
  await node.pass(hourMs / 4);
  node.reset();
  node.store.foundAfterMs.length = 0;
  node.store.sweptAfterMs.length = 0;
  await node.pass(hours * hourMs);
  const owned = Array.from({ length: shardsCount }, (_, shard) => shard).filter((shard) =>
    node.shards.has(shard),
  ).length;
  const { sweptAfterMs, foundAfterMs } = node.store;
  const row = [
    nodes,
    nodes === 1 ? shardsCount : owned,
    ...perHour(node.requests, hours),
    Math.round(sweptAfterMs.length / hours),
    `${quantile(sweptAfterMs, 0.5)} / ${quantile(sweptAfterMs, 1)}`,
    `${quantile(foundAfterMs, 0.5)} / ${quantile(foundAfterMs, 1)}`,
  ];
  await node.close();
  return row;
}

/** The best of some rounds, in microseconds. */
async function cpuUs(act: () => unknown, rounds: number): Promise<string> {
  let best = Infinity;
  for (let round = 0; round < rounds; round++) {
    const startedMs = performance.now();
    await act();
    best = Math.min(best, (performance.now() - startedMs) * 1_000);
  }
  return best < 100 ? best.toFixed(1) : best.toFixed(0);
}

async function cpu(): Promise<void> {
  const nodes = buildNodes(1_000);
  const order = new Rendezvous(nodes);
  const owners = new ShardOwners();
  owners.share(nodes);
  const fewer = nodes.slice(1);
  const store = new MemoryStore();
  for (let index = 0; index < 1_000; index++)
    await store.put(
      `due/2030010100/${index.toString(16).padStart(8, "0")}-0000-4000-8000-000000000000/main`,
      new Uint8Array(0),
      { kind: "absent" },
    );
  const own = new Set(owners.ownedBy(nodes[0]!.id));
  const shards = {
    has: (shard: number) => own.has(shard),
    from: (shard: number) => [...own].find((one) => one >= shard),
  };
  let turn = 0;
  const nextUuid = (): string => `${(turn++).toString(16).padStart(8, "0")}-0000-4000-8000-000000000000`;
  report("CPU at 1,000 nodes, the best of some rounds", [
    {
      what: "the preferred node of a database",
      note: `${await cpuUs(() => order.first(nextUuid()), 20_000)} µs`,
    },
    {
      what: `all owners of ${shardsCount} shards, from nothing`,
      note: `${await cpuUs(() => new ShardOwners().share(nodes), 5)} µs`,
    },
    {
      what: "the same when a node goes, and when it comes back",
      note: `${await cpuUs(() => (owners.share(fewer), owners.share(nodes)), 20)} µs for both`,
    },
    {
      what: "ids of all nodes hashed anew, when the list has changed",
      note: `${await cpuUs(() => new Rendezvous(nodes), 50)} µs`,
    },
    {
      what: "a page of 1,000 entries of what is due, listing in memory included",
      note: `${await cpuUs(() => listDue(store, Date.UTC(2031, 0, 1), undefined, shards), 100)} µs`,
    },
  ]);
}

export async function benchScale(): Promise<void> {
  const idleRows: (string | number)[][] = [];
  for (const nodes of [1, 3, 10, 100, 1_000]) idleRows.push(await idle(nodes));
  table(
    "An idle node, requests an hour by the number of nodes",
    ["nodes", "LIST", "GET", "PUT", "DELETE", "etcd", "LIST a day", "GET a day"],
    idleRows,
  );
  const loadedRows: (string | number)[][] = [];
  // Few nodes sweep without a pause: half an hour shows how fast. Of many, each finds so little that it takes a day.
  for (const [nodes, hours] of [
    [1, 0.5],
    [3, 0.5],
    [10, 0.5],
    [100, 3],
    [1_000, 24],
  ] as const)
    loadedRows.push(await loaded(nodes, hours, load));
  table(
    `${databases.toLocaleString("en")} databases: ${load.duePerHour} due each ` +
      `hour, ${load.erasures} unfinished erasures, ${load.deleted} deleted with a copy on a dead node; one ` +
      "node's requests an hour",
    [
      "nodes",
      "own shards",
      "LIST",
      "GET",
      "PUT",
      "DELETE",
      "etcd",
      "swept",
      "due to swept, s (half / all)",
      "marker to looked at, s (half / all)",
    ],
    loadedRows,
  );
  await cpu();
}
