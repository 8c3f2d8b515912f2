/**
 * A fleet of any size as one of its nodes sees it, on virtual time: the real code that finds and divides work, over
 * object storage whose listings come from a formula and a coordination store that counts. So ten million databases take
 * no room.
 *
 * Real: shards and the list of nodes, placement with its leases held, erasures, the replica purger, sweeps, the audit
 * log's sweeps, the looks at object storage. A model: the engine, which takes its time and says that it is done; the
 * other nodes, of which only their names are there, and what they would forward to this node, which is what it
 * forwards to them.
 */
import { generateKeyPairSync } from "node:crypto";
import { silentLog } from "../../src/base/log.ts";
import { limits } from "../../src/base/limits.ts";
import { AuditLog } from "../../src/control/audit/audit-log.ts";
import { CopyRecords } from "../../src/control/databases/copy-records.ts";
import { Databases } from "../../src/control/databases/databases.ts";
import { WebhookSignatures } from "../../src/control/access/webhook-signatures.ts";
import { BranchSignals } from "../../src/service/feed/branch-signals.ts";
import { Receipts } from "../../src/control/access/receipts.ts";
import { buildSigningKey } from "../../src/control/access/signing-key.ts";
import type { EngineClient } from "../../src/engine/threads/client.ts";
import type { PortCall } from "../../src/engine/api/engine-port.ts";
import type { Answer, Target } from "../../src/engine/api/protocol.ts";
import { newestLayout } from "../../src/format/core/versions.ts";
import { computeShard } from "../../src/format/core/shards.ts";
import { Jobs } from "../../src/server/node/jobs.ts";
import { StoreReach } from "../../src/server/observability/store-reach.ts";
import type { Policies } from "../../src/control/databases/policies.ts";
import { Placement } from "../../src/service/placement/placement.ts";
import { Shards } from "../../src/service/placement/shards.ts";
import type { EtcdClient, EtcdEntry, EtcdOutcome, EtcdStep } from "../../src/store/etcd/etcd-client.ts";
import { EtcdMembers } from "../../src/store/etcd/etcd-members.ts";
import { LeaseKeys, nodeText } from "../../src/store/etcd/lease-records.ts";
import type { Acquisition, Holder, Holding, Leases, LiveNode } from "../../src/store/port/leases.ts";
import type { ObjectStore } from "../../src/store/port/object-store.ts";
import { Scheduler } from "../sim/scheduler.ts";
import { SimWorld } from "../sim/sim-world.ts";
import { leaseRenewMs } from "../../src/store/etcd/etcd-leases.ts";
import { type FleetOptions, uuidAt, type Requests, FleetStore } from "./fleet-store.ts";

const none = (): Requests => ({ list: 0, get: 0, put: 0, delete: 0, etcd: 0 });

/** What etcd would answer of the nodes. */
class FleetEtcd {
  readonly #requests: Requests;
  readonly #prefix: string;
  #entries: readonly EtcdEntry[] = [];
  #revision = 0n;

  constructor(requests: Requests, prefix: string, nodes: readonly LiveNode[]) {
    this.#requests = requests;
    this.#prefix = prefix;
    this.set(nodes);
  }

  /** These live from now on. */
  set(nodes: readonly LiveNode[]): void {
    this.#revision++;
    this.#entries = nodes.map((node) => ({
      key: this.#prefix + node.id,
      value: Buffer.from(nodeText(node)),
      revision: this.#revision,
    }));
  }

  async transact(_conditions: unknown, steps: readonly EtcdStep[]): Promise<EtcdOutcome> {
    this.#requests.etcd++;
    const read = steps.map(({ request }) => {
      if (request?.case !== "requestRange") throw new Error("nodes are only read");
      const { key = new Uint8Array(0), rangeEnd, limit = 0n } = request.value;
      const from = Buffer.from(key).toString();
      if (!rangeEnd) return [{ key: from, value: Buffer.from("x"), revision: this.#revision }];
      return this.#entries.filter(({ key: one }) => one >= from).slice(0, Number(limit));
    });
    return { succeeded: true, read, counts: read.map((_, at) => (at === 0 ? 1 : this.#entries.length)) };
  }
}

/** Leases of one node and of what the others forward to it, each call counted as the requests that it is. */
class FleetLeases implements Leases {
  readonly #requests: Requests;
  readonly #members: EtcdMembers;
  readonly #holders = new Map<string, Holder>();
  #leaseEpoch = 0;
  #node: LiveNode | undefined;

  constructor(requests: Requests, members: EtcdMembers) {
    this.#requests = requests;
    this.#members = members;
  }

  async join(node: LiveNode): Promise<void> {
    this.#node = node;
  }

  async announce(): Promise<void> {}

  async acquire(uuid: string): Promise<Acquisition> {
    this.#requests.etcd++;
    const leaseEpoch = ++this.#leaseEpoch;
    this.#holders.set(uuid, { nodeId: this.#node!.id, address: this.#node!.address, leaseEpoch });
    return { kind: "acquired", leaseEpoch };
  }

  async holding(uuid: string): Promise<Holding> {
    this.#requests.etcd++;
    return { holder: this.#holders.get(uuid) };
  }

  async release(uuid: string): Promise<void> {
    this.#requests.etcd += 2;
    this.#holders.delete(uuid);
  }

  async forget(uuid: string): Promise<void> {
    this.#requests.etcd++;
    this.#holders.delete(uuid);
  }

  nodes(): Promise<readonly LiveNode[]> {
    return this.#members.nodes();
  }

  async leave(): Promise<void> {}
}

export interface FleetNode {
  readonly requests: Requests;
  readonly store: FleetStore;
  readonly shards: Shards;
  readonly jobs: Jobs;
  readonly etcd: FleetEtcd;
  readonly world: SimWorld;
  /** Calls that the engine has answered, by what they were. */
  readonly engineCalls: Map<string, number>;
  /** What is counted from here on. */
  reset(): void;
  pass(ms: number): Promise<void>;
  close(): Promise<void>;
}

export function buildNodes(count: number): readonly LiveNode[] {
  return Array.from({ length: count }, (_, index) => ({
    id: `01HZXK${String(index).padStart(20, "0")}`,
    address: `http://10.0.${index >> 8}.${index & 255}:8080`,
    reachesStore: true,
    sharesJobs: true,
  }));
}

/** One node among so many that do the same, as it comes up. */
export async function startFleetNode(options: FleetOptions): Promise<FleetNode> {
  const scheduler = new Scheduler(1, 0);
  const world = new SimWorld(scheduler, 1, "node");
  const requests = none();
  const store = new FleetStore(options, world, requests);
  const keys = new LeaseKeys("palimpsest/");
  const etcd = new FleetEtcd(requests, keys.nodes, buildNodes(options.nodes));
  const members = new EtcdMembers({ client: etcd as unknown as EtcdClient, keys, world, log: silentLog });
  const leases = new FleetLeases(requests, members);
  const node = buildNodes(1)[0]!;
  const engineCalls = new Map<string, number>();
  const local = buildEngine(world, options.sweepMs ?? 300, engineCalls);
  const peers = {
    forward: (_: string, call: never): Promise<Answer> => placement.serve(call),
    follow() {},
    nudge() {},
    close: async () => {},
  };
  const placement: Placement = new Placement({
    local,
    leases,
    peers,
    world,
    log: silentLog,
    nodeId: node.id,
    isUnwritten: async () => false,
  });
  const renew = (): void =>
    void placement.leaseEvents.renewed({ monotonicMs: world.monotonicMs() + 8_000, wallMs: world.nowMs() + 8_000 });
  await leases.join(node);
  renew();
  // What is renewed counts as one request each time.
  const keepRenewing = (): void => void world.after(leaseRenewMs, () => (requests.etcd++, renew(), keepRenewing()));
  const shards = new Shards({ world, nodeId: node.id, nodes: () => leases.nodes() });
  const isAlone = options.nodes === 1;
  if (!isAlone) {
    store.isOurs = (shard) => shards.has(shard);
    keepRenewing();
  }
  const copies = new CopyRecords(store, world);
  const audit = new AuditLog({
    store,
    world,
    log: silentLog,
    node: node.id,
    flushMs: 60_000,
    readPolicy: async () => ({ enabled: true, includeReads: false, retentionSecs: 86_400 }),
    ...(!isAlone && { tends: async (namespace: string) => shards.has(computeShard(`audit/${namespace}`)) }),
  });
  const key = await buildSigningKey(generateKeyPairSync("ed25519").privateKey);
  const receipts = new Receipts(key);
  const jobs = new Jobs({
    world,
    log: silentLog,
    store,
    engine: isAlone ? local : placement,
    local,
    copies,
    databases: new Databases(store, world),
    policies: {} as Policies,
    receipts,
    signatures: new WebhookSignatures(key),
    signals: new BranchSignals(world),
    config: { webhooks: "on", webhookHosts: undefined, webhookRetrySecs: [5] },
    audit,
    nodeId: node.id,
    gcGraceMs: 600_000,
    storeLayout: newestLayout,
    cluster: isAlone ? undefined : ({ placement, shards } as never),
  });
  const reach = new StoreReach({
    store,
    world,
    isNeeded: () => world.monotonicMs() - placement.usedMs < limits.storeReachIdleMs,
    looked: () => {},
  });
  const of = async <Value>(promise: Promise<Value>): Promise<Value> => {
    let isSettled = false;
    const end = (): void => void (isSettled = true);
    promise.then(end, end);
    await scheduler.run(() => isSettled, Infinity);
    return promise;
  };
  await of(putDeleted(store, copies, options.deleted ?? 0));
  await of(jobs.prepare());
  if (!isAlone) {
    await of(shards.start());
    void reach.keepLooking();
  }
  jobs.start();
  audit.keepSwept();
  return {
    requests,
    store,
    shards,
    jobs,
    etcd,
    world,
    engineCalls,
    reset: () => void Object.assign(requests, none()),
    pass: (ms) => of(scheduler.sleep(ms)),
    close: async () => {
      reach.close();
      await of(Promise.all([jobs.close(), shards.close(), audit.close()]));
    },
  };
}

/** An engine that answers when the time is over that a cold database takes. */
function buildEngine(world: SimWorld, tookMs: number, calls: Map<string, number>): EngineClient {
  const run = async (_: Target, call: PortCall): Promise<Answer> => {
    const name = call.kind === "branch" ? call.act.act : call.kind;
    calls.set(name, (calls.get(name) ?? 0) + 1);
    await new Promise<void>((resolve) => void world.after(tookMs, resolve));
    return { value: undefined, txid: 1, durableTxid: 1 };
  };
  const engine = {
    run,
    tell() {},
    renewLease() {},
    hint() {},
    followed() {},
    hold: async () => {},
    releaseDatabase: async () => {},
    purgeCopies: async () => true,
    branch: (target: Target, act: never) => run(target, { kind: "branch", act }),
    drop: (target: Target) => run(target, { kind: "drop" }),
  };
  return engine as unknown as EngineClient;
}

async function putDeleted(store: ObjectStore, copies: CopyRecords, count: number): Promise<void> {
  for (let index = 0; index < count; index++) {
    const uuid = uuidAt(index, count);
    await store.put(`purges/${uuid}`, Buffer.from(`acme--${index}`), { kind: "absent" });
    await copies.register(uuid, { node: "dead", name: "dead" });
  }
}
