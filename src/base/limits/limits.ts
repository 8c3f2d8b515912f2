/**
 * Every bound of the service, with its unit and its reason. A list, queue, loop or string without a line here is a
 * defect. Bounds that an operator may move are variables (server/config/config) whose defaults stand here. Each topic
 * has a file of its own beside this one; all of them are read through `limits`.
 */
import { clockLimits } from "./clock-limits.ts";
import { clusterLimits } from "./cluster-limits.ts";
import { coordinationLimits } from "./coordination-limits.ts";
import { credentialLimits } from "./credential-limits.ts";
import { engineLimits } from "./engine-limits.ts";
import { erasureLimits } from "./erasure-limits.ts";
import { formatLimits } from "./format-limits.ts";
import { governanceLimits } from "./governance-limits.ts";
import { modelLimits } from "./model-limits.ts";
import { operationsLimits } from "./operations-limits.ts";
import { recordLimits } from "./record-limits.ts";
import { rescueLimits } from "./rescue-limits.ts";
import { settingLimits } from "./setting-limits.ts";
import { shippingLimits } from "./shipping-limits.ts";
import { sqlLimits } from "./sql-limits.ts";
import { storeLimits } from "./store-limits.ts";
import { compactionLimits } from "./compaction-limits.ts";
import { vectorLimits } from "./vector-limits.ts";
import { wireLimits } from "./wire-limits.ts";

export const limits = {
  // Names (interface: Names)
  nameCharsMax: 64,
  kvKeyBytesMax: 512,
  sessionIdBytesMax: 128,
  sourceBytesMax: 256,
  topicKeyBytesMax: 512,
  roleBytesMax: 64,

  // JSON
  jsonDepthMax: 64,
  /**
   * Messages within messages in the binary form: a level of JSON is up to three of google.protobuf.Value's, and what
   * holds it a few.
   */
  messageDepthMax: 256,

  // What callers store
  ...recordLimits,
  ...vectorLimits,
  ...sqlLimits,

  // Branches
  branchTtlSecsMax: 10 * 365 * 86_400,

  // Control plane
  databasesListMax: 100_000,
  /** Name claims a node remembers for a few seconds; the least recently used go first. */
  claimsCachedMax: 100_000,

  // Wires, and the variables of a node
  ...wireLimits,
  ...settingLimits,

  // Policies, credentials, audit, erasure
  ...governanceLimits,
  ...credentialLimits,
  ...erasureLimits,

  // Engine, object storage and what lies in it
  ...engineLimits,
  ...formatLimits,
  ...shippingLimits,
  ...compactionLimits,
  ...storeLimits,

  // Outside models (ai/)
  ...modelLimits,

  // Metrics and traces (server/)
  ...operationsLimits,

  // Nodes of a cluster
  ...clockLimits,
  ...coordinationLimits,
  ...clusterLimits,

  // Tools for the worst day
  ...rescueLimits,
} as const;
