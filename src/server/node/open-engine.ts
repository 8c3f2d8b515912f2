/**
 * The engine of a node, as its configuration wants it: threads, processes for SQL, and the node's place among the
 * others.
 *
 * Always true: folders for databases and scratch are there before a thread starts, and nothing of an earlier run is
 * left in the scratch. Must not know: who calls the engine.
 */
import { mkdirSync, rmSync } from "node:fs";
import { totalmem } from "node:os";
import { join } from "node:path";
import { EngineClient } from "../../engine/threads/client.ts";
import type { EngineLane } from "../../engine/threads/engine-lanes.ts";
import { engineLane, sqlProcess } from "../../engine/threads/thread-spawner.ts";
import type { EngineOptions } from "../../engine/api/protocol.ts";
import { SqlPool } from "../../engine/processes/sql-pool.ts";
import type { SqlProcess } from "../../engine/processes/sql-process.ts";
import { findWrittenVersions } from "../../format/core/versions.ts";
import { SqlGuard } from "../../sqlite/sql-authorizer.ts";
import { tellTenants } from "../../sqlite/slices.ts";
import { BranchSignals } from "../../service/feed/branch-signals.ts";
import type { Cluster } from "../cluster/cluster.ts";
import { spillTo, sqlEnvironment } from "../config/config.ts";
import type { Instruments } from "../observability/instruments.ts";
import { descriptorsMax, hotHandlesAllowed } from "../config/machine-capacity.ts";
import type { NodeBase } from "./node-base.ts";
import { nodeIdentity } from "./node-identity.ts";

export const walCheckpointBytes = 16 * 1024 * 1024;
/** Processes that run batches which write, at most, beside those for reads. */
const sqlWritersMax = 2;

/** What all engine threads of a node are started with. */
export type EngineSettings = Omit<EngineOptions, "lane" | "isRestarted">;

/** What the configuration and the machine say of the engine. Makes the folders that it needs. */
export async function engineSettings({
  config,
  directory,
  storeLayout,
  world,
  log,
}: NodeBase): Promise<EngineSettings> {
  const scratchDirectory = join(directory, "scratch");
  // What a crash left there is of no use any more and may hold tenants' rows.
  rmSync(scratchDirectory, { recursive: true, force: true });
  const databasesDirectory = join(directory, "db");
  for (const path of [scratchDirectory, databasesDirectory]) mkdirSync(path, { recursive: true, mode: 0o700 });
  spillTo(scratchDirectory);
  const hotHandlesMax = hotHandlesAllowed(config.hotHandlesMax, descriptorsMax(), totalmem(), config.engineThreads);
  log.info("hot handles", { asked: config.hotHandlesMax, perThread: hotHandlesMax, threads: config.engineThreads });
  return {
    lanes: config.engineThreads,
    databasesDirectory,
    scratchDirectory,
    hotHandlesMax,
    writeQueueDepth: config.writeQueueDepth,
    idleCloseMs: config.idleCloseSecs * 1_000,
    store: config.objectStore,
    nodeId: await nodeIdentity(directory, world),
    nodeName: config.nodeId,
    coordinated: config.coordination !== undefined,
    shipping: true,
    written: findWrittenVersions(storeLayout),
    pitrMs: config.pitrSecs * 1_000,
    gcGraceMs: config.gcGraceSecs * 1_000,
    unshippedMsMax: config.unshippedSecsMax * 1_000,
    unshippedBytesMax: config.unshippedBytesMax,
    logCheckpointBytes: walCheckpointBytes,
    acceptRollback: config.acceptRollback,
    spareDatabases: config.spareDatabases,
    pastBytesMax: config.pastBytesMax,
  };
}

/** This process's engine, and the node's place among the others where there are any. */
export interface NodeEngine {
  readonly local: EngineClient;
  readonly cluster: Cluster | undefined;
  /** Tells of databases that may have changed. */
  readonly signals: BranchSignals;
  readonly hasSql: boolean;
}

/** Starts the engine. The stack ends the links first, then the engine, and the lease last. */
export async function openEngine(
  { config, directory, store, world, log, stack }: NodeBase,
  settings: EngineSettings,
  clusterKey: string,
  instruments: Instruments,
): Promise<NodeEngine> {
  const guard = SqlGuard.available();
  if (!guard.ok) log.warn("SQL is not available on this node", { missing: guard.missing });
  else if (guard.passedOver.length > 0)
    log.warn("a SQL guard that is installed is not used", { why: guard.passedOver.join("; ") });
  const environment = sqlEnvironment(settings.scratchDirectory);
  const start = (): SqlProcess => sqlProcess({ directory, environment });
  const sql = guard.ok
    ? new SqlPool({ places: { reads: config.readerThreads, writes: sqlWritersMax }, start, world, log })
    : undefined;
  let cluster: Cluster | undefined;
  stack.defer(() => cluster?.leave());
  const started = new Set<number>();
  const startLane = (lane: number): EngineLane => {
    const isRestarted = started.has(lane);
    started.add(lane);
    return engineLane({ ...settings, time: world.time.memory, lane, isRestarted });
  };
  const local = new EngineClient(config.engineThreads, startLane, sql, world, log, tellTenants);
  stack.defer(async () => {
    for (const counters of await local.close()) log.info("engine closed", { ...counters });
  });
  if (config.coordination) {
    // A node by itself has no use for it, and starts without.
    const { Cluster } = await import("../cluster/cluster.ts");
    cluster = await Cluster.open({
      endpoints: config.coordination,
      nodeId: settings.nodeId,
      engine: local,
      directory,
      store,
      clusterKey,
      instruments,
      world,
      log,
    });
  }
  stack.defer(() => cluster?.disconnect());
  const signals = new BranchSignals(world);
  local.whenMoved((uuid) => signals.moved(uuid));
  return { local, cluster, signals, hasSql: guard.ok };
}
