/**
 * The control plane of a node: which databases there are, what policies say, and the audit log that policies ask for.
 */
import { StoreError } from "../../base/faults/errors.ts";
import type { AuditPolicy } from "../../control/audit/audit-entry.ts";
import { AuditLog } from "../../control/audit/audit-log.ts";
import { Databases, type SpareDatabases } from "../../control/databases/databases.ts";
import { ProfileDirectory } from "../../control/databases/profile-directory.ts";
import { owns } from "../../control/databases/owned-pages.ts";
import { Policies } from "../../control/databases/policies.ts";
import type { Cluster } from "../cluster/cluster.ts";
import type { Instruments } from "../observability/instruments.ts";
import type { NodeBase } from "./node-base.ts";

/** The parts of the control plane that every call may need. */
export interface Control {
  readonly databases: Databases;
  readonly profiles: ProfileDirectory;
  readonly policies: Policies;
  readonly audit: AuditLog;
}

/** Opens it; the audit log is swept from now on, and the stack stores what is left in it. */
export function openControl(
  { config, store, world, log, stack }: NodeBase,
  nodeId: string,
  cluster: Cluster | undefined,
  instruments: Instruments,
  spares: SpareDatabases,
): Control {
  const databases = new Databases(store, world, spares);
  const policies = new Policies({
    store,
    world,
    log,
    cacheMs: config.policyCacheSecs * 1_000,
    nodePitrSecs: config.pitrSecs,
  });
  const audit = new AuditLog({
    store,
    world,
    log,
    node: nodeId,
    flushMs: config.auditFlushMs,
    readPolicy: (namespace) => readAuditPolicy(policies, namespace),
    tends: cluster && (async (namespace) => owns(cluster.shards, `audit/${namespace}`)),
    heard: (entry) => instruments.egress.note(entry),
  });
  stack.defer(() => audit.close());
  audit.keepSwept();
  return { databases, profiles: new ProfileDirectory(store, databases), policies, audit };
}

async function readAuditPolicy(policies: Policies, namespace: string): Promise<AuditPolicy> {
  const policy = await policies.effective(namespace);
  if (!policy.known) throw new StoreError("unavailable", "the policy of a namespace cannot be read");
  return policy.audit;
}
