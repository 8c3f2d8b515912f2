/**
 * Nodes on virtual time over one store, of which one writes a database, and the erasures of each: as a cluster would
 * run them.
 */
import { generateKeyPairSync } from "node:crypto";
import { readdirSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { silentLog } from "../../src/base/log.ts";
import type { AuditEntry } from "../../src/control/audit/audit-entry.ts";
import { AuditLog } from "../../src/control/audit/audit-log.ts";
import { CopyRecords } from "../../src/control/databases/copy-records.ts";
import { Databases } from "../../src/control/databases/databases.ts";
import { ErasureCoupons } from "../../src/control/databases/erasure-coupons.ts";
import { Receipts } from "../../src/control/access/receipts.ts";
import { buildSigningKey } from "../../src/control/access/signing-key.ts";
import { EnginePort, type CallOptions, type PortCall } from "../../src/engine/api/engine-port.ts";
import type { ErasureCoupon } from "../../src/format/erasure/erasure-coupon.ts";
import type { Answer, EngineOptions, Target } from "../../src/engine/api/protocol.ts";
import { ReplicaRemover } from "../../src/service/jobs/replica-remover.ts";
import { Erasures, type Requested } from "../../src/service/erasure/erasures.ts";
import { shardsWhile } from "./all-shards.ts";
import { LeasedNode } from "./leased-node.ts";
import type { TimedEngine, VirtualTime } from "./timed-engine.ts";

const foreverMs = 1e12;
const keys = generateKeyPairSync("ed25519");

/** What a node does beside its engine. */
export interface ClusterMember {
  readonly node: LeasedNode;
  readonly erasures: Erasures;
  readonly replicaRemover: ReplicaRemover;
  readonly audited: AuditEntry[];
  /** What it has asked of the database's branches. */
  readonly acts: string[];
  /** Whether the database is in a shard of its own. */
  owns: boolean;
  /** Nodes that it has told of orders. */
  readonly nudged: string[];
  erase(memoryId: string, graceSecs?: number): Promise<Requested>;
  coupon(id: string): Promise<ErasureCoupon>;
  /** Ends what it does in order, as far as that is not the engine's. */
  stop(): Promise<void>;
}

/** Runs every call at the node that writes the database. */
class WriterPort extends EnginePort {
  readonly #writer: () => TimedEngine;
  readonly #acts: string[];

  constructor(writer: () => TimedEngine, acts: string[]) {
    super();
    this.#writer = writer;
    this.#acts = acts;
  }

  run(target: Target, call: PortCall, options: CallOptions): Promise<Answer> {
    if (call.kind === "branch") this.#acts.push(call.act.act);
    return this.#writer().client.run(target, call, options);
  }
}

/** A node's part of a cluster; calls for the database go to the node that writes it. */
export async function member(node: LeasedNode, writer: () => TimedEngine): Promise<ClusterMember> {
  const { world, time } = node;
  const { store } = time;
  const log = silentLog;
  const audited: AuditEntry[] = [];
  const coupons = new ErasureCoupons({ store, world, log });
  const readPolicy = async (): Promise<{ enabled: boolean; includeReads: boolean; retentionSecs: undefined }> => ({
    enabled: false,
    includeReads: false,
    retentionSecs: undefined,
  });
  const audit = new AuditLog({
    store,
    world,
    log,
    node: world.ulid(),
    flushMs: 1e9,
    readPolicy,
    heard: (entry) => void audited.push(entry),
  });
  const receipts = new Receipts(await buildSigningKey(keys.privateKey));
  const copies = new CopyRecords(store, world);
  const acts: string[] = [];
  const engine = new WriterPort(writer, acts);
  const nudged: string[] = [];
  const nudge = (id: string): void => void nudged.push(id);
  const shards = shardsWhile(() => made.owns);
  const made: ClusterMember = {
    node,
    owns: true,
    nudged,
    audited,
    acts,
    erasures: new Erasures({
      world,
      log,
      engine,
      coupons,
      receipts,
      audit,
      gcGraceMs: 0,
      cluster: { shards, copies, nudge },
    }),
    replicaRemover: new ReplicaRemover({
      world,
      log,
      engine,
      databases: new Databases(store, world),
      cluster: { local: node.client, copies, nodeId: node.name, shards, nudge },
    }),
    erase: (memoryId, graceSecs = 0) =>
      time.of(
        made.erasures.request({
          database: "acme--alice",
          target: node.at("main"),
          erase: { kind: "memory", memoryId },
          graceSecs,
          options: { deadlineMs: world.monotonicMs() + 5_000 },
        }),
      ),
    coupon: (id) => time.of(made.erasures.get(node.uuid, id, undefined)),
    stop: async () => {
      await time.of(Promise.all([made.erasures.close(), made.replicaRemover.close()]));
    },
  };
  return made;
}

/** A node that holds the database from now on, or only has its lease. */
export async function openNode(
  time: VirtualTime,
  name: string,
  leaseEpoch: number | undefined,
  options: Partial<EngineOptions> = {},
  directory?: string,
): Promise<LeasedNode> {
  const node = new LeasedNode(
    time,
    name,
    { gcGraceMs: 0, pitrMs: 1e12, idleCloseMs: 1e12, nodeName: `${name}-name`, ...options },
    directory,
  );
  await node.renew(foreverMs);
  if (leaseEpoch !== undefined) await time.of(node.holding(leaseEpoch));
  return node;
}

/** Takes in a memory that says this, and gives its id. */
export async function remember(node: TimedEngine, summary: string): Promise<string> {
  const { value } = await node.time.of(
    node.client.write(
      node.at("main"),
      "memory.ingest",
      { memories: [{ type: "fact", summary, content: "{}" }] },
      node.soon({ durable: true }),
    ),
  );
  return value.results[0]!.id;
}

/** Files on the node's disk that hold the text. */
export function residueOnDisk({ directory }: TimedEngine, text: string): string[] {
  return readdirSync(directory, { recursive: true, encoding: "utf8" }).filter((name) => {
    const path = join(directory, name);
    return statSync(path).isFile() && readFileSync(path).includes(text);
  });
}

/** Says whether the memory is there for whoever asks the node. */
export async function finds(node: TimedEngine, memoryId: string): Promise<boolean> {
  const { value } = await node.time.of(
    node.client.read(node.at("main"), "memory.held", { memoryIds: [memoryId] }, node.soon()),
  );
  return value.held.length > 0;
}
