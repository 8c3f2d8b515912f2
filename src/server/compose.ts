/**
 * The node, put together: every part is made here once and handed what it needs.
 *
 * Owns the order of start and of stop: lock, store, engine, service, wires; and back. A part that fails to start stops
 * those before it.
 */
import { existsSync, mkdirSync, readFileSync, rmSync } from "node:fs";
import { totalmem } from "node:os";
import { join, resolve } from "node:path";
import { BranchService } from "../../gen/palimpsest/v1/branch_pb.ts";
import { ControlService } from "../../gen/palimpsest/v1/control_pb.ts";
import { DataService } from "../../gen/palimpsest/v1/data_pb.ts";
import { MemoryService } from "../../gen/palimpsest/v1/memory_pb.ts";
import { isSelfHosted } from "../ai/hosts.ts";
import { bytesOf } from "../base/bytes.ts";
import { placeFile, realDisk } from "../base/disk.ts";
import { StoreError } from "../base/errors.ts";
import { limits } from "../base/limits.ts";
import type { Log } from "../base/log.ts";
import { realWorld, type World } from "../base/world.ts";
import type { AuditPolicy } from "../control/audit-entry.ts";
import { AuditLog, type AuditLogOptions } from "../control/audit-log.ts";
import { Databases } from "../control/databases.ts";
import { CopyRecords } from "../control/copy-records.ts";
import { owns } from "../control/owned-pages.ts";
import type { Credentials } from "../control/credentials.ts";
import type { Revocations } from "../control/revocations.ts";
import { NodeNames } from "../control/node-names.ts";
import { Policies } from "../control/policies.ts";
import { refuseBackup } from "../engine/backup.ts";
import { EngineClient } from "../engine/client.ts";
import { engineLane, sqlProcess } from "../engine/lanes.ts";
import type { EngineOptions } from "../engine/protocol.ts";
import type { SqlProcess } from "../engine/sql-process.ts";
import { SqlPool } from "../engine/sql-pool.ts";
import { tellTenants } from "../sqlite/slices.ts";
import { Authorization } from "../service/authorization.ts";
import { auditCall } from "../service/audit.ts";
import type { Dispatch } from "../service/call.ts";
import { branchHandlers } from "../service/branch-service.ts";
import { Embedding, type EmbeddingOptions } from "../service/embedding.ts";
import { handlerEntries, type HandlerTable } from "../service/context.ts";
import { controlHandlers } from "../service/control-service.ts";
import { dataHandlers } from "../service/data-service.ts";
import { memoryHandlers } from "../service/memory-service.ts";
import { endpoints } from "../service/methods.ts";
import { createPipeline } from "../service/pipeline.ts";
import { lockDirectory } from "../sqlite/directory-lock.ts";
import { SqlGuard } from "../sqlite/guard.ts";
import { MeasuredStore } from "../store/measured-store.ts";
import type { ObjectStore } from "../store/object-store.ts";
import { openStore } from "../store/open-store.ts";
import { proveStore } from "../store/probe.ts";
import { claimStoreFormat } from "../store/store-format.ts";
import type { Assistants, NodeParts } from "../service/node-parts.ts";
import { openAuthentication, operatorsOnly } from "./authentication.ts";
import { BodyRoom } from "./body.ts";
import { ClockKeeper } from "./clock-keeper.ts";
import { Cluster, type ClusterOptions } from "./cluster.ts";
import { spillTo, sqlEnvironment, type Config } from "./config.ts";
import { claimDataFormat } from "./data-format.ts";
import { createDoors, type Doors, type DoorsOptions } from "./doors.ts";
import { Instruments } from "./instruments.ts";
import { admitNode, Jobs } from "./jobs.ts";
import { NodeReadiness } from "./node-readiness.ts";
import { openapiDocument } from "./openapi.ts";
import { packageVersion } from "./package-version.ts";
import type { Page } from "./rest.ts";
import { createListener, type ListenerRoom, type TlsFiles } from "./listener.ts";
import type { Endpoint } from "./setting-kinds.ts";
import { StoreHealth } from "./store-health.ts";

/** What a node is called that nobody has named. */
const defaultNodeName = /^node-\d+$/;

/** A node that serves. */
export interface RunningNode {
  /** `http://host:port` as it is listening. */
  readonly address: string;
  /** Its identity, which its data directory keeps. */
  readonly nodeId: string;
  /** The same of the operators' own port, where there is one. */
  readonly adminAddress: string | undefined;
  /** Finishes what runs, closes every file, lets go of the data directory. */
  close(): Promise<void>;
}

/** Soft limit of open descriptors; what the platform does not tell is taken as the common least. */
function descriptorsMax(): number {
  const report = process.report.getReport() as { userLimits?: { open_files?: { soft?: unknown } } };
  const soft = Number(report.userLimits?.open_files?.soft);
  return Number.isFinite(soft) && soft > 0 ? soft : 1024;
}

/** The node's identity, made once per data directory: heads say who claimed them, and a copy of a disk is told by it. */
async function nodeIdentity(directory: string, world: World): Promise<string> {
  const path = join(directory, "node-id");
  // Whole or not at all, and kept: a node that forgets its name does not know its own writes again.
  if (!existsSync(path)) await placeFile(realDisk, path, bytesOf(world.ulid()));
  return readFileSync(path, "utf8").trim();
}

async function engineOptions(config: Config, directory: string, world: World, log: Log): Promise<Omit<EngineOptions, "lane">> {
  const scratchDirectory = join(directory, "scratch");
  // What a crash left there is of no use to anybody and may hold somebody's rows.
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
    pitrMs: config.pitrSecs * 1_000,
    gcGraceMs: config.gcGraceSecs * 1_000,
    unshippedMsMax: config.unshippedSecsMax * 1_000,
    unshippedBytesMax: config.unshippedBytesMax,
    logCheckpointBytes: limits.walCheckpointBytes,
    acceptRollback: config.acceptRollback,
  };
}

function handlersOf(node: NodeParts): HandlerTable {
  return new Map([
    ...handlerEntries(ControlService, controlHandlers(node)),
    ...handlerEntries(MemoryService, memoryHandlers(node)),
    ...handlerEntries(DataService, dataHandlers(node)),
    ...handlerEntries(BranchService, branchHandlers(node)),
  ]);
}

/** The models that write, of those uses that have a key. */
async function assistantsOf(config: Config, world: World, log: Log): Promise<Assistants> {
  const { assistantKey, extractKey } = config;
  if (assistantKey === undefined && extractKey === undefined) return {};
  // The client of the protocol takes time to load, which no other node should spend.
  const { Assistant } = await import("../ai/assistant.ts");
  const shared = { selfHostedHosts: config.embedSelfHostedHosts ?? [], world, log };
  return {
    ...(assistantKey === undefined ? {} : { ask: new Assistant({ ...shared, apiKey: assistantKey, model: config.assistantModel, baseAddress: config.assistantBaseAddress }) }),
    ...(extractKey === undefined ? {} : { extract: new Assistant({ ...shared, apiKey: extractKey, model: config.extractModel, baseAddress: config.extractBaseAddress }) }),
  };
}

/** What makes vectors, where there is a key for it; the stack ends it before the engine. */
async function embeddingOf(config: Config, parts: Omit<EmbeddingOptions, "embedder" | "selfHosted">, stack: AsyncDisposableStack): Promise<Embedding | undefined> {
  const { embedKey: apiKey, embedProvider: provider, embedModel: model, embedBaseAddress: baseAddress } = config;
  if (apiKey === undefined) return undefined;
  // The client of the protocol takes half a second to load, which no other node should spend.
  const { ModelEmbedder } = await import("../ai/embedder.ts");
  const embedder = new ModelEmbedder({ provider, apiKey, model, baseAddress, world: parts.world });
  const embedding = new Embedding({ ...parts, embedder, selfHosted: isSelfHosted(embedder.endpointHost, config.embedSelfHostedHosts ?? []) });
  stack.defer(() => embedding.close());
  return embedding;
}

/** The node's audit log, swept from now on; the stack stores what is left in it. */
function openAudit(options: Omit<AuditLogOptions, "policyOf">, policies: Policies, stack: AsyncDisposableStack): AuditLog {
  const policyOf = async (namespace: string): Promise<AuditPolicy> => {
    const policy = await policies.effective(namespace);
    if (!policy.known) throw new StoreError("unavailable", "the policy of a namespace cannot be read");
    return policy.audit;
  };
  const audit = new AuditLog({ ...options, policyOf });
  stack.defer(() => audit.close());
  audit.keepSwept();
  return audit;
}

/** This process's engine, and the node's place among the others where there are any. The stack ends the links first, then the engine, and the lease last. */
async function openEngine(config: Config, options: Omit<EngineOptions, "lane">, parts: Omit<ClusterOptions, "endpoints" | "nodeId" | "engine">, stack: AsyncDisposableStack): Promise<{ readonly local: EngineClient; readonly cluster: Cluster | undefined; readonly hasSql: boolean }> {
  const { world, log } = parts;
  const guard = SqlGuard.available();
  if (!guard.ok) log.warn("SQL is not available on this node", { missing: guard.missing });
  const environment = sqlEnvironment(options.scratchDirectory);
  const start = (): SqlProcess => sqlProcess({ directory: parts.directory, environment });
  const sql = guard.ok ? new SqlPool({ places: { reads: config.readerThreads, writes: limits.sqlWritersMax }, start, world, log }) : undefined;
  let cluster: Cluster | undefined;
  stack.defer(() => cluster?.leave());
  const local = new EngineClient(config.engineThreads, (lane) => engineLane({ ...options, time: world.time.memory, lane }), sql, world, log, tellTenants);
  stack.defer(async () => {
    for (const counters of await local.close()) log.info("engine closed", { ...counters });
  });
  if (config.coordination) cluster = await Cluster.open({ ...parts, endpoints: config.coordination, nodeId: options.nodeId, engine: local });
  stack.defer(() => cluster?.disconnect());
  return { local, cluster, hasSql: guard.ok };
}

/** What every call passes through. */
function dispatchOf(config: Config, node: NodeParts, instruments: Instruments, authorization: Authorization | undefined): Dispatch {
  return createPipeline({
    handlers: handlersOf(node),
    world: node.world,
    requestTimeoutMs: config.requestTimeoutSecs * 1_000,
    concurrency: instruments.concurrency,
    controlPerSecond: config.controlRate,
    callerPerSecond: config.credentialRate,
    callerConcurrency: config.credentialConcurrency,
    durability: config.durability,
    authorization,
    audit: (context, result) => auditCall(node, context, result),
  });
}

/** Starts the node; rejects with a message for the operator when it cannot. `given` overrides what an operator cannot set: for measurements. */
export async function startNode(config: Config, log: Log, given: Partial<EngineOptions> = {}): Promise<RunningNode> {
  const world = realWorld();
  const directory = resolve(config.dataDirectory);
  mkdirSync(directory, { recursive: true, mode: 0o700 });
  await using stack = new AsyncDisposableStack();
  const lock = lockDirectory(directory);
  stack.defer(() => lock.release());
  const store = new MeasuredStore(await openStore(config.objectStore, world), world);
  await refuseBackup(store);
  // What the other stores promise is code of ours and tested; a server that speaks S3 may be anybody's.
  if (config.objectStore.kind === "s3") await proveStore(store, world);
  const clock = stack.use(new ClockKeeper({ world, log, store, hasClock: config.objectStore.kind === "s3", directory }));
  const build = packageVersion();
  await claimDataFormat(directory, build);
  await claimStoreFormat(store, build);
  const { tokens, revocations, credentials, receipts, clusterKey, keySetPage } = await openAuthentication(config, directory, store, world, log);
  const options = { ...(await engineOptions(config, directory, world, log)), ...given };
  const copies = new CopyRecords(store, world);
  await admitNode(copies, { node: options.nodeId, name: config.nodeId }, options.databasesDirectory, !options.coordinated);
  const names = await nameNode({ store, world, log }, options.nodeId, config.nodeId);
  const instruments = await Instruments.open({ config, world, log, nodeId: options.nodeId });
  stack.defer(() => instruments.close());
  const { local, cluster, hasSql } = await openEngine(config, options, { directory, store, clusterKey, instruments, world, log }, stack);
  const engine = instruments.engine(cluster?.placement ?? local);
  const databases = new Databases(store, world);
  const policies = new Policies({ store, world, log, cacheMs: config.policyCacheSecs * 1_000, nodePitrSecs: config.pitrSecs });
  const audit = openAudit({ store, world, log, node: options.nodeId, flushMs: config.auditFlushMs, tends: cluster && (async (namespace) => owns(cluster.shards, `audit/${namespace}`)), heard: (entry) => instruments.egress.note(entry) }, policies, stack);
  const jobs = new Jobs({ world, log, store, engine, local, copies, databases, policies, receipts, audit, nodeId: options.nodeId, gcGraceMs: options.gcGraceMs, cluster });
  stack.defer(() => jobs.close());
  await jobs.prepare();
  const embedding = await embeddingOf(config, { world, log, engine, policies, audit }, stack);
  const node: NodeParts = { world, databases, engine, tokens, revocations, names, policies, audit, erasures: jobs.erasures, embedding, assistants: await assistantsOf(config, world, log) };
  const authOn = config.auth === "on";
  const dispatch = dispatchOf(config, node, instruments, authOn ? new Authorization(credentials, databases) : undefined);
  const storeHealth = new StoreHealth({ store, world, durability: config.durability, unshippedMsMax: options.unshippedMsMax });
  const readiness = new NodeReadiness({ storeHealth, hasSql, clock, engine: local, leases: cluster?.placement });
  const wires = {
    dispatch,
    isReady: () => readiness.now,
    look: () => storeHealth.look(),
    world,
    log,
    dataBodyBytesMax: config.dataBodyBytesMax,
    databaseHostSuffix: config.databaseHostSuffix, ...openTo(config),
    pages: new Map([["/.well-known/jwks.json", keySetPage]]),
    operatorPages: new Map([["/openapi.json", openapiPage()], ["/metrics", instruments.page({ engine: local, store, audit, leases: cluster?.placement, time: world.time })]]),
    visits: instruments.visits,
    ...(authOn && askingCallers(credentials, revocations)),
  };
  const doors = [createDoors({ ...wires, admitOperator: authOn ? operatorsOnly(credentials) : undefined, nodeDoor: cluster?.door }), createDoors(wires)] as const;
  const address = await listen(config, config.listen, doors[0], wires, stack);
  const adminAddress = config.adminListen && (await listen(config, config.adminListen, doors[1], wires, stack));
  // Who listens on a free port tells the others which one he got.
  await cluster?.join(new URL(config.advertise).port === "0" ? address : config.advertise);
  readiness.joined = true;
  jobs.start();
  const parts = stack.move();
  return {
    address,
    nodeId: options.nodeId,
    adminAddress,
    close: async () => {
      readiness.draining = true;
      for (const door of doors) door.drain();
      // Other nodes go on with its databases while this one still answers its clients.
      await cluster?.placement.handOver();
      await parts.disposeAsync();
    },
  };
}

/** Writes down which name the node goes by, and tells of another identity that has it: the old disk of this one, or a node that lives. */
async function nameNode({ store, world, log }: { readonly store: ObjectStore; readonly world: World; readonly log: Log }, node: string, name: string): Promise<NodeNames> {
  const names = new NodeNames(store, world);
  log.info("node", { node, name });
  try {
    await names.announce(node, name);
    const others = defaultNodeName.test(name) ? [] : (await names.named(name)).filter((other) => other !== node);
    if (others.length > 0) log.warn("another identity goes by this node's name: a node whose disk was lost, or one that lives and needs another name", { name, others: others.slice(0, limits.namesakesToldMax).join(" ") });
  } catch (error) {
    if (!(error instanceof StoreError)) throw error;
    log.warn("the node's name was not written down: audit and receipts show its identity alone", { reason: error.kind });
  }
  return names;
}

/** Who is asked for a credential, and asked again when one was revoked. */
function askingCallers(credentials: Credentials, revocations: Revocations): Pick<DoorsOptions, "identify" | "isRevoked"> {
  return {
    identify: (credential) => credentials.known(credential) ?? credentials.identify(credential),
    isRevoked: (identity) => !revocations.isFresh || revocations.has(identity),
  };
}

/** By which names and from which pages the node is called, and the room for what is sent to it, on all its ports. */
function openTo({ advertise, listen: { host }, adminListen, allowedOrigins = [] }: Config): Pick<DoorsOptions, "hostNames" | "allowedOrigins" | "room"> {
  // What the node was told to be reached by is no stranger's name.
  return { hostNames: [new URL(advertise).hostname, host, ...(adminListen ? [adminListen.host] : [])], allowedOrigins, room: new BodyRoom() };
}

/** Opens one port; the stack closes it. Gives its address as it is listening. */
async function listen(config: Config, endpoint: Endpoint, onRequest: Doors, { world, log }: { readonly world: World; readonly log: Log }, stack: AsyncDisposableStack): Promise<string> {
  const tls = tlsOf(config);
  const listener = createListener({ ...endpoint, tls, onRequest, world, log, room: connectionsAllowed(descriptorsMax()) });
  stack.defer(() => listener.close());
  const { address, port, family } = await listener.listen();
  return `${tls ? "https" : "http"}://${family === "IPv6" ? `[${address}]` : address}:${port}`;
}

/** The document never changes while the node runs, so it is written once. */
function openapiPage(): Page {
  const body = JSON.stringify(openapiDocument(endpoints));
  return { answer: () => ({ status: 200, contentType: "application/json", body }) };
}

function tlsOf(config: Config): TlsFiles | undefined {
  const { tlsCertificatePath, tlsKeyPath } = config;
  if (tlsCertificatePath === undefined || tlsKeyPath === undefined) return undefined;
  return { cert: readFileSync(tlsCertificatePath), key: readFileSync(tlsKeyPath) };
}

/** Connections of one port: what open databases leave of the descriptors, but for a part that is the store's. */
function connectionsAllowed(descriptorsMax: number): ListenerRoom {
  const connectionsMax = Math.max(16, Math.min(limits.connectionsMax, Math.floor(descriptorsMax * 0.15)));
  return { connectionsMax, connectionsPerAddressMax: Math.ceil(connectionsMax * limits.connectionsShareMax) };
}

/** Handles a thread may hold: five descriptors each (file, log, its index, and the log again for our fsync and our reading) with a fifth left for sockets and the store, and memory's share. */
function hotHandlesAllowed(asked: number, descriptorsMax: number, memoryBytes: number, threads: number): number {
  const byDescriptors = Math.floor((descriptorsMax * 0.8) / 5);
  const byMemory = Math.floor((memoryBytes * 0.5) / limits.hotHandleBytes);
  return Math.max(1, Math.floor(Math.min(asked, byDescriptors, byMemory) / threads));
}
