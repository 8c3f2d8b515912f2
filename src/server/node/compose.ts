/**
 * The node, put together: every part is made here once and handed what it needs.
 *
 * Owns the order of start and of stop: lock, store, engine, service, wires; and back. A part that fails to start stops
 * those before it.
 */
import type { Log } from "../../base/log.ts";
import { CopyRecords } from "../../control/databases/copy-records.ts";
import { openAuthentication } from "./authentication.ts";
import { IdleMemory } from "../../sqlite/idle-memory.ts";
import type { Config } from "../config/config.ts";
import { Instruments } from "../observability/instruments.ts";
import { admitNode, Jobs } from "./jobs.ts";
import { openBase } from "./node-base.ts";
import { announceName } from "./node-identity.ts";
import { openControl } from "./open-control.ts";
import { engineSettings, openEngine, type EngineSettings } from "./open-engine.ts";

/** A node that serves. */
export interface RunningNode {
  /** `http://host:port` as it is listening. */
  readonly address: string;
  /** Its identity, which its data directory keeps. */
  readonly nodeId: string;
  /** The same of the operators' own port, where there is one. */
  readonly adminAddress: string | undefined;
  /** Finishes what runs, closes every file, releases the data directory. */
  close(): Promise<void>;
}

/**
 * Starts the node; rejects with a message for the operator when it cannot. `given` overrides what an operator cannot
 * set: for measurements.
 */
export async function startNode(config: Config, log: Log, given: Partial<EngineSettings> = {}): Promise<RunningNode> {
  await using stack = new AsyncDisposableStack();
  // The data directory is locked, and object storage does what it must.
  const base = await openBase(config, log, stack);
  const { world, store } = base;
  // The signing key, and all that depends on it.
  const authentication = await openAuthentication(config, base.directory, store, world, log);
  // The node knows who it is, was not forgotten, and is known by its name.
  const settings = { ...(await engineSettings(base)), ...given };
  const { nodeId, gcGraceMs, unshippedMsMax } = settings;
  const copies = new CopyRecords(store, world);
  await admitNode(copies, { node: nodeId, name: config.nodeId }, settings.databasesDirectory, !settings.coordinated);
  const names = await announceName(base, nodeId);
  // From here on everything that works is counted.
  const instruments = await Instruments.open({ config, world, log, nodeId });
  stack.defer(() => instruments.close());
  const idleMemory = new IdleMemory(world);
  stack.defer(() => idleMemory.stop());
  // Threads that own databases, and links to the nodes that own the others.
  const nodeEngine = await openEngine(base, settings, authentication.clusterKey, instruments);
  const { local, cluster, signals } = nodeEngine;
  const engine = instruments.engine(cluster?.placement ?? local);
  // What answers calls is loaded while the engine's threads load what they are made of.
  const [{ openService }, { openWires }] = await Promise.all([import("./open-service.ts"), import("./open-wires.ts")]);
  // Which databases there are, what policies say of them, and the log of what is done to them.
  const control = openControl(base, nodeId, cluster, instruments, local.spares);
  // What the node was ordered to do while it was down is done before it serves.
  const { receipts, signatures, tokens, revocations, fences } = authentication;
  const places = { ...base, ...control, engine, local, copies, signals, cluster };
  const jobs = new Jobs({ ...places, receipts, signatures, nodeId, gcGraceMs });
  stack.defer(() => jobs.close());
  await jobs.prepare();
  // The handlers of all endpoints, and the pipeline before them.
  const node = { world, engine, ...control, ...jobs.asked, tokens, revocations, fences, names, signals };
  const service = await openService(base, node, instruments, authentication);
  // The ports are open, and calls of clients are answered.
  const wires = await openWires(base, {
    ...service,
    ...jobs.asked,
    engine: nodeEngine,
    audit: control.audit,
    authentication,
    instruments,
    unshippedMsMax,
  });
  const { address, adminAddress, readiness } = wires;
  // A node that listens on a free port tells the others which one it got.
  await cluster?.join(new URL(config.advertise).port === "0" ? address : config.advertise);
  readiness.joined = true;
  jobs.start();
  // What was opened is the running node's now.
  const parts = stack.move();
  const close = async (): Promise<void> => {
    wires.drain();
    // Other nodes go on with its databases while this one still answers its clients.
    await cluster?.placement.handOver();
    await parts.disposeAsync();
  };
  return { address, nodeId, adminAddress, close };
}
