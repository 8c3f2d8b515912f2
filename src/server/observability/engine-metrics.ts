/**
 * The metrics of the engine threads: a row for each number that every thread counts.
 *
 * Always true: a thread that did not answer has one sample alone: that it is not up. Must not know: how threads are
 * asked.
 */
import type { EngineMeasures } from "../../engine/api/measures.ts";
import { Family, histogram } from "./metric-family.ts";

/** What the threads have counted, by thread; undefined for one that did not answer. */
type Engines = readonly (EngineMeasures | undefined)[];

type EngineRow = readonly [
  type: "counter" | "gauge",
  name: string,
  help: string,
  read: (engine: EngineMeasures) => number,
];

const engineRows: readonly EngineRow[] = [
  ["counter", "write_groups_total", "Commit groups that changed something", ({ counters }) => counters.groups],
  ["counter", "writes_total", "Writes in these groups", ({ counters }) => counters.writes],
  [
    "gauge",
    "write_queue_waiting",
    "Writes that wait for their group, over all open databases",
    ({ backlogs }) => backlogs.writes,
  ],
  [
    "gauge",
    "write_queue_waiting_max",
    "Writes that wait in the database where most do",
    ({ backlogs }) => backlogs.writesMax,
  ],
  ["gauge", "unshipped_txids", "Transactions that object storage does not cover yet", ({ backlogs }) => backlogs.txids],
  ["gauge", "unshipped_bytes", "Bytes of log of these, about", ({ backlogs }) => backlogs.bytes],
  ["gauge", "unshipped_age_seconds", "Age of the oldest of these", ({ backlogs }) => backlogs.ms / 1_000],
  [
    "counter",
    "heads_landed_total",
    "Manifests of branches that were put by compare-and-set",
    ({ counters }) => counters.manifestPuts,
  ],
  ["counter", "shipped_bytes_total", "Bytes put as page data and manifests", ({ counters }) => counters.bytesPut],
  ["counter", "packs_total", "Packs of small objects that were made", ({ packs }) => packs],
  ["counter", "rebases_total", "Base images that were made", ({ rebases }) => rebases],
  [
    "gauge",
    "upkeep_owed",
    "Open branches whose history waits to be packed, because that failed or there is much of it",
    ({ compactionsOwed }) => compactionsOwed,
  ],
  [
    "gauge",
    "line_objects_max",
    "Objects that the longest timeline of an open branch is in; from 960 on its writes are refused",
    ({ timelineRefsMax }) => timelineRefsMax,
  ],
  ["counter", "collections_total", "Rounds of garbage collection", ({ collections }) => collections],
  ["gauge", "databases_open", "Open branches of databases", ({ backlogs }) => backlogs.databases],
  ["counter", "databases_opened_total", "Branches that were opened", ({ counters }) => counters.opened],
  [
    "counter",
    "slices_over_total",
    "Commands, or groups of them, that took longer than their time slice while another tenant waited, and " +
      "were run by a process",
    ({ counters }) => counters.stopped,
  ],
  [
    "counter",
    "databases_evicted_total",
    "Branches that were closed to make room for others",
    ({ counters }) => counters.evicted,
  ],
  ["gauge", "replicas_open", "Open copies of branches that another node writes", ({ replicas }) => replicas.open],
  [
    "gauge",
    "replica_lag_txids_max",
    "Transactions by which the copy that lags most is behind the manifest that was last seen",
    ({ replicas }) => replicas.lagTxidsMax,
  ],
  [
    "gauge",
    "replica_looked_seconds_max",
    "Time since the copy that was looked after least recently was compared with its manifest",
    ({ replicas }) => replicas.lookedMsMax / 1_000,
  ],
  ["gauge", "past_states", "Earlier states that are kept restored to be read", ({ past }) => past.states],
  ["gauge", "past_bytes", "Bytes of these on the disk", ({ past }) => past.bytes],
  ["counter", "past_restores_total", "Earlier states that were restored to be read", ({ past }) => past.restored],
  [
    "gauge",
    "quarantined_files",
    "Files of branches that were set aside under quarantine/",
    ({ alarms }) => alarms.quarantined,
  ],
  [
    "gauge",
    "storage_lost",
    "Branches and databases of which object storage has lost the manifest or the catalog, as far as they were used",
    ({ alarms }) => alarms.lost,
  ],
  [
    "gauge",
    "storage_put_back",
    "Branches and databases that object storage has in an older state than this node has seen, as far as " +
      "they were used",
    ({ alarms }) => alarms.wentBack,
  ],
  [
    "gauge",
    "vector_cache_bytes",
    "Vectors and their indexes that are held in memory",
    ({ vectorBytes }) => vectorBytes,
  ],
];

const formatThread = (index: number): string => `engine-${index}`;

/** Those engines that have answered, with the name of their thread. */
export function answered(engines: Engines): readonly (readonly [thread: string, engine: EngineMeasures])[] {
  return engines.flatMap((engine, index) => (engine ? [[formatThread(index), engine] as const] : []));
}

/** The metrics of the engine threads. */
export function engineFamilies(all: Engines): readonly Family[] {
  const engines = answered(all);
  const up = all.map((engine, index) => ({ labels: { thread: formatThread(index) }, value: engine ? 1 : 0 }));
  return [
    new Family("gauge", "engine_up", "Whether an engine thread has answered within a second", up),
    ...engineRows.map(
      ([type, name, help, read]) =>
        new Family(
          type,
          name,
          help,
          engines.map(([thread, engine]) => ({ labels: { thread }, value: read(engine) })),
        ),
    ),
    new Family(
      "histogram",
      "disk_sync_seconds",
      "Time of an fsync of a log",
      engines.flatMap(([thread, { syncs }]) => histogram("disk_sync_seconds", { thread }, syncs)),
    ),
  ];
}
