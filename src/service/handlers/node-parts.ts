/** What a handler is made with, whatever its call. */
import type { World } from "../../base/world.ts";
import type { Databases } from "../../control/databases/databases.ts";
import type { ProfileDirectory } from "../../control/databases/profile-directory.ts";
import type { EnginePort } from "../../engine/api/engine-port.ts";
import type { Tokens } from "../../control/access/tokens.ts";
import type { Fences } from "../../control/access/fences.ts";
import type { Revocations } from "../../control/access/revocations.ts";
import type { NodeNames } from "../../control/databases/node-names.ts";
import type { Policies } from "../../control/databases/policies.ts";
import type { AuditLog } from "../../control/audit/audit-log.ts";
import type { Assistant } from "../../ai/assistant.ts";
import type { BranchSignals } from "../feed/branch-signals.ts";
import type { WebhookRecords } from "../../control/databases/webhook-records.ts";
import type { WebhookDeliveries } from "../webhooks/webhook-deliveries.ts";
import type { Erasures } from "../erasure/erasures.ts";
import type { Embedding } from "../embedding/embedding.ts";

/** What handlers work with: the node's parts below the service. */
export interface NodeParts {
  readonly world: World;
  readonly databases: Databases;
  readonly profiles: ProfileDirectory;
  readonly engine: EnginePort;
  readonly tokens: Tokens;
  readonly revocations: Revocations;
  readonly names: NodeNames;
  readonly policies: Policies;
  readonly audit: AuditLog;
  /** What tags of context blocks end in. */
  readonly fences: Fences;
  readonly erasures: Erasures;
  readonly webhookRecords: WebhookRecords;
  /** Those that this node delivers. */
  readonly webhooks: WebhookDeliveries;
  /** Tells that a database may have changed. */
  readonly signals: BranchSignals;
  /** What makes vectors for text; undefined on a node without an embedder. */
  readonly embedding: Embedding | undefined;
  /** The models that write, by their use; those that the node is configured with. */
  readonly assistants: Assistants;
}

export type Assistants = Readonly<Partial<Record<AssistantUse, Assistant>>>;

/** What a model that writes is used for, under the names that policy gives them. */
export type AssistantUse = "ask" | "extract";
