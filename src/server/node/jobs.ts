/**
 * What a node does without being asked: it carries erasures on, delivers webhooks, looks after its own copies and after
 * deleted databases, and sweeps databases that are not in use.
 *
 * Always true: of what any node could do, it does what lies in its shards, and looks there at once when they become
 * its.
 */
import { StoreError } from "../../base/faults/errors.ts";
import type { Log } from "../../base/log.ts";
import type { World } from "../../base/world.ts";
import type { AuditLog } from "../../control/audit/audit-log.ts";
import type { CopyOwner, CopyRecords } from "../../control/databases/copy-records.ts";
import type { Databases } from "../../control/databases/databases.ts";
import { ErasureCoupons } from "../../control/databases/erasure-coupons.ts";
import type { Policies } from "../../control/databases/policies.ts";
import { WebhookRecords } from "../../control/databases/webhook-records.ts";
import type { WebhookSignatures } from "../../control/access/webhook-signatures.ts";
import type { Receipts } from "../../control/access/receipts.ts";
import type { EngineClient } from "../../engine/threads/client.ts";
import { registerCopies, unregisterCopies } from "../../engine/local/copies.ts";
import type { EnginePort } from "../../engine/api/engine-port.ts";
import type { Retention } from "../../engine/api/protocol.ts";
import { parseProfileDatabaseName } from "../../format/core/names.ts";
import { ReplicaRemover } from "../../service/jobs/replica-remover.ts";
import { IdleDatabaseSweeper } from "../../service/jobs/idle-database-sweeper.ts";
import type { BranchSignals } from "../../service/feed/branch-signals.ts";
import { WebhookDeliveries } from "../../service/webhooks/webhook-deliveries.ts";
import { Erasures } from "../../service/erasure/erasures.ts";
import { findWrittenVersions } from "../../format/core/versions.ts";
import type { NodeParts } from "../../service/handlers/node-parts.ts";
import { retentionBy } from "../../service/handlers/governance.ts";
import type { ObjectStore } from "../../store/port/object-store.ts";
import type { Cluster } from "../cluster/cluster.ts";
import type { Config } from "../config/config.ts";

export interface JobsOptions {
  readonly world: World;
  readonly log: Log;
  readonly store: ObjectStore;
  readonly engine: EnginePort;
  /** This node's own engine. */
  readonly local: EngineClient;
  readonly copies: CopyRecords;
  readonly databases: Databases;
  readonly policies: Policies;
  readonly receipts: Receipts;
  readonly signatures: WebhookSignatures;
  readonly signals: BranchSignals;
  readonly config: Pick<Config, "webhooks" | "webhookHosts" | "webhookRetrySecs">;
  readonly audit: AuditLog;
  readonly nodeId: string;
  readonly gcGraceMs: number;
  readonly storeLayout: number;
  /** The other nodes; undefined where it is alone. */
  readonly cluster: Pick<Cluster, "placement" | "shards"> | undefined;
}

/** The node's jobs. They end before the engine does. */
export class Jobs {
  readonly erasures: Erasures;
  readonly webhooks: WebhookDeliveries;
  readonly #webhookRecords: WebhookRecords;
  readonly #replicaRemover: ReplicaRemover;
  readonly #sweeps: IdleDatabaseSweeper;
  #isStarted = false;

  constructor(options: JobsOptions) {
    const {
      world,
      log,
      store,
      engine,
      local,
      copies,
      databases,
      policies,
      receipts,
      audit,
      nodeId,
      gcGraceMs,
      storeLayout,
      cluster,
    } = options;
    const others = cluster && { shards: cluster.shards, nudge: (id: string) => cluster.placement.nudge(id) };
    const coupons = new ErasureCoupons({ store, world, log });
    this.erasures = new Erasures({
      world,
      log,
      engine,
      coupons,
      receipts,
      audit,
      gcGraceMs,
      couponVersion: findWrittenVersions(storeLayout).coupon,
      cluster: others && { shards: others.shards, copies, nudge: others.nudge },
    });
    this.#replicaRemover = new ReplicaRemover({
      world,
      log,
      engine,
      databases,
      cluster: others && { local, copies, nodeId, ...others },
    });
    this.#sweeps = new IdleDatabaseSweeper({
      world,
      log,
      store,
      engine,
      readRetention: (database) => readRetention(policies, database),
      shards: cluster?.shards,
    });
    this.#webhookRecords = new WebhookRecords({ store, world, log });
    this.webhooks = openWebhooks(options, this.#webhookRecords);
    cluster?.placement.whenNudged(() => {
      this.#replicaRemover.hurry();
      if (this.#isStarted) this.webhooks.hurry();
    });
    cluster?.shards.whenGained(() => this.#takeOver());
  }

  /** What calls of clients ask for. */
  get asked(): Pick<NodeParts, "erasures" | "webhooks" | "webhookRecords"> {
    return { erasures: this.erasures, webhooks: this.webhooks, webhookRecords: this.#webhookRecords };
  }

  /** Before the node serves: what was ordered of it while it was down. */
  async prepare(): Promise<void> {
    await this.#replicaRemover.start();
  }

  /** Once the node serves. */
  start(): void {
    this.#isStarted = true;
    this.erasures.start();
    this.#sweeps.start();
    this.webhooks.start();
  }

  /** The node that did these jobs is gone. */
  #takeOver(): void {
    this.#replicaRemover.hurry();
    if (!this.#isStarted) return;
    this.erasures.takeOver();
    this.#sweeps.takeOver();
    this.webhooks.hurry();
  }

  async close(): Promise<void> {
    await Promise.all([
      this.erasures.close(),
      this.#replicaRemover.close(),
      this.#sweeps.close(),
      this.webhooks.close(),
    ]);
  }
}

/** The webhooks that the node delivers. */
function openWebhooks(options: JobsOptions, records: WebhookRecords): WebhookDeliveries {
  const { world, log, engine, databases, policies, signatures, signals, config, cluster } = options;
  return new WebhookDeliveries({
    world,
    log,
    engine,
    signals,
    records,
    policies,
    signatures,
    wasDeleted: async (database, uuid) => {
      // A claim that is missing says nothing: it may have been lost.
      const { uuid: holder, deletedAtMs } = await databases.standing(database);
      return holder !== uuid && (holder !== undefined || deletedAtMs !== undefined);
    },
    isOn: config.webhooks === "on",
    hosts: config.webhookHosts ?? [],
    retrySecs: config.webhookRetrySecs,
    cluster: cluster && {
      shards: cluster.shards,
      follow: (uuid) => cluster.placement.follow(uuid),
      nudgeOthers: () => void cluster.placement.nudgeOthers(),
    },
  });
}

/** What the policy of the database removes now; undefined for a plain one. */
async function readRetention(policies: Policies, database: string): Promise<Retention | undefined> {
  const name = parseProfileDatabaseName(database);
  if (!name) return undefined;
  const retention = retentionBy(await policies.effective(name.namespace, name.profile));
  if (!retention) throw new StoreError("unavailable", "the policy of a database cannot be read");
  return retention;
}

/**
 * Lets the node in with what it has on its disk: that is registered where there are other nodes. Throws for one that
 * was said never to come back, whose copies no erasure waits for any more.
 */
export async function admitNode(
  records: CopyRecords,
  owner: CopyOwner,
  databasesDirectory: string,
  isAlone: boolean,
): Promise<void> {
  if (await records.isForgotten(owner.node)) {
    throw new Error(
      `this node (${owner.node}) was given up with \`palimpsest forget-node\`: what it has may have been ` +
        "erased since. Destroy its data directory and start it with an empty one.",
    );
  }
  if (isAlone) unregisterCopies(databasesDirectory);
  else await registerCopies({ records, owner, databasesDirectory });
}
