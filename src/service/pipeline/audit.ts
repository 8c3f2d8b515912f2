/**
 * From a call that is over to the event that tells of it.
 *
 * Owns which endpoints are recorded and under which action. Always true: of what a client sent, an event holds only
 * names and ids that have the form of names and ids. Calls that concern no namespace make no event.
 */
import type { Message } from "@bufbuild/protobuf";
import type { CreateBranchRequest } from "../../../gen/palimpsest/v1/branch_pb.ts";
import type { UndoRequest, UndoResponse } from "../../../gen/palimpsest/v1/change_pb.ts";
import type {
  MintNamespaceTokenRequest,
  RevokeNamespaceTokenRequest,
  TokenResponse,
} from "../../../gen/palimpsest/v1/control_pb.ts";
import type {
  AppendTurnsResponse,
  DeleteDocsResponse,
  DeleteTurnsResponse,
  DeleteValuesResponse,
  DeleteVectorsResponse,
  ExecuteSqlResponse,
  InsertDocsResponse,
  PutValuesResponse,
  ReplaceTurnsResponse,
  UpdateDocsResponse,
  UpsertVectorsResponse,
} from "../../../gen/palimpsest/v1/data_pb.ts";
import type { DeleteFilesResponse, MoveFilesResponse } from "../../../gen/palimpsest/v1/file_pb.ts";
import type {
  CalibrateRequest,
  ErasureCoupon,
  ExtractRequest,
  ExtractResponse,
  ForgetMemoriesResponse,
  ForgetMemoryRequest,
  GetContextResponse,
  GetHistoryResponse,
  GetMemoryRequest,
  IngestResponse,
  ListMemoriesResponse,
  RecallResponse,
  ReviewMemoryRequest,
  ReviewMemoryResponse,
  UpdateMemoryRequest,
} from "../../../gen/palimpsest/v1/memory_pb.ts";
import type { DeleteWebhookRequest, RedeliverWebhookResponse, Webhook } from "../../../gen/palimpsest/v1/webhook_pb.ts";
import type { ExportRequest, ImportRequest } from "../../../gen/palimpsest/v1/transfer_pb.ts";
import type { AuditEntry } from "../../control/audit/audit-entry.ts";
import type { AuditAction } from "../../format/audit/audit-actions.ts";
import { isAuditResource, isRecordId, type AuditGrant } from "../../format/audit/audit-event.ts";
import { isUlid } from "../../format/core/ids.ts";
import {
  isBranchName,
  isDatabaseName,
  isNamePart,
  mainBranch,
  parseProfileDatabaseName,
} from "../../format/core/names.ts";
import type { Context } from "../call/context.ts";
import type { Outcome } from "./pipeline.ts";
import type { NodeParts } from "../handlers/node-parts.ts";

/** What an endpoint's event says beyond who, where and how it ended. */
interface Witness {
  readonly action: AuditAction;
  /** The action of what left the node, and of a policy's refusal to let it. */
  readonly egress?: AuditAction;
  /** Whether it changes a database, so that the event has its transaction id. */
  readonly writes?: true;
  readonly resource?: (request: Message) => string;
  /** The resource, where only the answer tells it. */
  readonly made?: (answer: Message) => string;
  readonly count?: (answer: Message) => number | undefined;
  /** The token that is concerned; the answer is there on success only. */
  readonly grant?: (request: Message, answer: Message | undefined) => AuditGrant | undefined;
  /** Whether a success has neither changed nor given anything that is to be recorded. */
  readonly isIdle?: (request: Message, context: Context) => boolean;
}

const memoryId = (request: Message): string =>
  toRecordId((request as ForgetMemoryRequest | GetMemoryRequest | UpdateMemoryRequest).id);
const getDatabaseName = (request: Message): string => (request as Message & { readonly db: string }).db;

const webhookId = (request: Message): string => toRecordId((request as DeleteWebhookRequest).id);

/** The memory that is concerned, where it is one. */
function onlyId({ ids }: ReviewMemoryRequest): string {
  return ids.length === 1 ? toRecordId(ids[0]!) : "";
}

function toRecordId(id: string): string {
  return isRecordId(id) ? id : "";
}

function toMintedGrant(request: Message, answer: Message | undefined): AuditGrant | undefined {
  const { db, ns } = request as Message & Addressed;
  const { scope } = request as MintNamespaceTokenRequest;
  const { jti, expiresIn } = (answer ?? {}) as Partial<TokenResponse>;
  return jti === undefined ? undefined : { jti, scope, expiresInSecs: expiresIn, database: db, namespace: ns };
}

function toRevokedGrant(request: Message): AuditGrant | undefined {
  const { db, ns } = request as Message & Addressed;
  const { jti } = request as RevokeNamespaceTokenRequest;
  if (!isUlid(jti) || (db !== undefined && !isDatabaseName(db))) return undefined;
  return { jti, database: db, namespace: ns };
}

const witnesses: ReadonlyMap<string, Witness> = new Map<string, Witness>([
  [
    "MemoryService.Ingest",
    { action: "memory.ingest", writes: true, count: (answer) => (answer as IngestResponse).results.length },
  ],
  [
    "MemoryService.Extract",
    {
      action: "memory.extract",
      egress: "ai.extract",
      writes: true,
      count: (answer) => (answer as ExtractResponse).results?.values.length,
      isIdle: (request) => (request as ExtractRequest).dryRun,
    },
  ],
  ["MemoryService.UpdateMemory", { action: "memory.update", writes: true, resource: memoryId, count: () => 1 }],
  [
    "MemoryService.ReviewMemory",
    {
      action: "memory.review",
      writes: true,
      resource: (request) => onlyId(request as ReviewMemoryRequest),
      count: (answer) => (answer as ReviewMemoryResponse).results.filter(({ status }) => status !== "unknown").length,
    },
  ],
  ["MemoryService.ForgetMemory", { action: "memory.forget", writes: true, resource: memoryId, count: () => 1 }],
  [
    "MemoryService.ForgetMemories",
    { action: "memory.forget", writes: true, count: (answer) => (answer as ForgetMemoriesResponse).forgotten },
  ],
  ["MemoryService.EndSession", { action: "memory.session_end", writes: true }],
  [
    "MemoryService.CreateErasure",
    {
      action: "erasure.requested",
      writes: true,
      made: (answer) => (answer as ErasureCoupon).id,
      count: (answer) => ((answer as ErasureCoupon).records ?? 0) + (answer as ErasureCoupon).memoryIds.length,
    },
  ],
  ["MemoryService.Recall", { action: "memory.recall", count: (answer) => (answer as RecallResponse).memories.length }],
  [
    "MemoryService.ListMemories",
    { action: "memory.list", count: (answer) => (answer as ListMemoriesResponse).memories.length },
  ],
  [
    "MemoryService.GetHistory",
    { action: "memory.history", count: (answer) => (answer as GetHistoryResponse).states.length },
  ],
  ["MemoryService.GetMemory", { action: "memory.get", resource: memoryId, count: () => 1 }],
  [
    "MemoryService.Ask",
    { action: "memory.ask", egress: "ai.ask", count: (answer) => (answer as RecallResponse).memories.length },
  ],
  [
    "MemoryService.GetContext",
    {
      action: "memory.context",
      count: (answer) => (answer as GetContextResponse).sections.reduce((sum, { ids }) => sum + ids.length, 0),
    },
  ],
  [
    "MemoryService.Calibrate",
    {
      action: "policy.update",
      writes: true,
      resource: () => "embedder",
      isIdle: (request) => (request as CalibrateRequest).dryRun,
    },
  ],
  ["MemoryService.PutProfilePolicy", { action: "policy.update", resource: () => "profile" }],
  ["ControlService.PutNamespacePolicy", { action: "policy.update", resource: () => "namespace" }],
  ["ControlService.MintDatabaseToken", { action: "token.mint", resource: getDatabaseName, grant: toMintedGrant }],
  ["ControlService.MintNamespaceToken", { action: "token.mint", grant: toMintedGrant }],
  ["ControlService.RevokeDatabaseToken", { action: "token.revoke", resource: getDatabaseName, grant: toRevokedGrant }],
  ["ControlService.RevokeNamespaceToken", { action: "token.revoke", grant: toRevokedGrant }],
  ["ControlService.DeleteDatabase", { action: "db.delete", resource: getDatabaseName }],
  ["BranchService.CreateBranch", { action: "branch.create", writes: true }],
  ["BranchService.DeleteBranch", { action: "branch.delete", writes: true }],
  ["BranchService.RewindBranch", { action: "branch.rewind", writes: true }],
  ["ChangeService.Watch", { action: "changes.watch" }],
  ["WebhookService.CreateWebhook", { action: "webhook.create", made: (answer) => (answer as Webhook).id }],
  ["WebhookService.UpdateWebhook", { action: "webhook.update", resource: webhookId }],
  ["WebhookService.DeleteWebhook", { action: "webhook.delete", resource: webhookId }],
  ["WebhookService.TestWebhook", { action: "webhook.test", resource: webhookId }],
  [
    "WebhookService.RedeliverWebhook",
    {
      action: "webhook.redeliver",
      resource: webhookId,
      count: (answer) => (answer as RedeliverWebhookResponse).count,
    },
  ],
  [
    "ChangeService.Undo",
    {
      action: "branch.undo",
      writes: true,
      count: (answer) => (answer as UndoResponse).changes.length,
      isIdle: (request) => (request as UndoRequest).dryRun,
    },
  ],
  ["BranchService.CreateCheckpoint", { action: "branch.checkpoint", writes: true }],
  ["BranchService.DeleteCheckpoint", { action: "branch.checkpoint_delete", writes: true }],
  [
    "DataService.ExecuteSql",
    {
      action: "sql.write",
      writes: true,
      isIdle: (_, { mutates }) => !mutates,
      count: (answer) =>
        Number((answer as ExecuteSqlResponse).results.reduce((sum, { rowsAffected }) => sum + rowsAffected, 0n)),
    },
  ],
  ["DataService.PutValue", { action: "kv.put", writes: true, count: () => 1 }],
  ["DataService.DeleteValue", { action: "kv.delete", writes: true, count: () => 1 }],
  [
    "DataService.PutValues",
    { action: "kv.put", writes: true, count: (answer) => (answer as PutValuesResponse).hashes.length },
  ],
  [
    "DataService.DeleteValues",
    { action: "kv.delete", writes: true, count: (answer) => (answer as DeleteValuesResponse).deleted },
  ],
  [
    "DataService.InsertDocs",
    { action: "docs.insert", writes: true, count: (answer) => (answer as InsertDocsResponse).ids.length },
  ],
  [
    "DataService.UpdateDocs",
    { action: "docs.update", writes: true, count: (answer) => changedDocs(answer as UpdateDocsResponse) },
  ],
  [
    "DataService.DeleteDocs",
    { action: "docs.delete", writes: true, count: (answer) => (answer as DeleteDocsResponse).deleted },
  ],
  ["DataService.PutDoc", { action: "docs.put", writes: true, count: () => 1 }],
  ["DataService.DeleteDoc", { action: "docs.delete", writes: true, count: () => 1 }],
  ["DataService.CreateDocIndex", { action: "docs.index", writes: true }],
  ["DataService.DropDocIndex", { action: "docs.unindex", writes: true }],
  ["DataService.UpsertVector", { action: "vectors.upsert", writes: true, count: () => 1 }],
  [
    "DataService.UpsertVectors",
    { action: "vectors.upsert", writes: true, count: (answer) => (answer as UpsertVectorsResponse).upserted },
  ],
  ["DataService.DeleteVector", { action: "vectors.delete", writes: true, count: () => 1 }],
  [
    "DataService.DeleteVectors",
    { action: "vectors.delete", writes: true, count: (answer) => (answer as DeleteVectorsResponse).deleted },
  ],
  ["FileService.PutFile", { action: "files.put", writes: true, count: () => 1 }],
  ["FileService.EditFile", { action: "files.edit", writes: true, count: () => 1 }],
  [
    "FileService.MoveFiles",
    { action: "files.move", writes: true, count: (answer) => (answer as MoveFilesResponse).moved },
  ],
  [
    "FileService.DeleteFiles",
    { action: "files.delete", writes: true, count: (answer) => (answer as DeleteFilesResponse).deleted },
  ],
  // An export is told once, with its first part.
  [
    "TransferService.Export",
    { action: "db.export", isIdle: (request) => (request as ExportRequest).cursor !== undefined },
  ],
  [
    "TransferService.Import",
    { action: "db.import", writes: true, isIdle: (request) => (request as ImportRequest).dryRun === true },
  ],
  ["DataService.AppendTurn", { action: "turns.append", writes: true, count: () => 1 }],
  [
    "DataService.AppendTurns",
    {
      action: "turns.append",
      writes: true,
      count: (answer) => (answer as AppendTurnsResponse).turns.filter(({ status }) => status === "created").length,
    },
  ],
  [
    "DataService.DeleteTurns",
    { action: "turns.delete", writes: true, count: (answer) => (answer as DeleteTurnsResponse).deleted },
  ],
  [
    "DataService.ReplaceTurns",
    { action: "turns.replace", writes: true, count: (answer) => (answer as ReplaceTurnsResponse).turns.length },
  ],
]);

/** Fields of requests that say what a call is about; which of them a request has, its endpoint knows. */
interface Addressed {
  readonly ns?: string;
  readonly profile?: string;
  readonly db?: string;
  readonly branch?: string | undefined;
}

type Place = Pick<AuditEntry, "namespace" | "profile" | "branch">;

/** Where the call happened; undefined when no namespace is concerned, or none that can exist. */
function findPlace({ call }: Context): Place | undefined {
  const { ns, profile, db, branch } = call.message as Message & Addressed;
  if (db !== undefined) return findDatabasePlace(call, db, branch);
  if (ns === undefined || !isNamePart(ns)) return undefined;
  if (profile === undefined || !isNamePart(profile)) return { namespace: ns };
  if (call.endpoint.name === "MemoryService.PutProfilePolicy") return { namespace: ns, profile };
  const said = branch ?? call.headers.branch ?? mainBranch;
  return { namespace: ns, profile, branch: isBranchName(said) ? said : undefined };
}

/** Of a call of the control plane a database is named alone; of the others with its branch, said here or there. */
function findDatabasePlace(
  { endpoint, message, headers }: Context["call"],
  db: string,
  branch: string | undefined,
): Place | undefined {
  const [name = "", inSpec] = db.split("@");
  const profile = parseProfileDatabaseName(name);
  if (!profile || endpoint.rule.control) return db === name ? profile : undefined;
  const said =
    endpoint.name === "BranchService.CreateBranch"
      ? (message as CreateBranchRequest).name
      : (inSpec ?? branch ?? headers.branch ?? mainBranch);
  return { ...profile, branch: isBranchName(said) ? said : undefined };
}

/** Records a call that is over in the audit stream, if it is one to be recorded. */
export function auditCall({ audit }: NodeParts, context: Context, result: Outcome): void {
  const { call, identity } = context;
  const witness = witnesses.get(call.endpoint.name);
  const place = witness && findPlace(context);
  if (witness === undefined || place === undefined) return;
  const isOk = result.outcome === "ok";
  const { egress } = context;
  if (egress !== undefined && witness.egress !== undefined)
    audit.record({ ...place, identity, action: witness.egress, ...egress });
  // What policy has refused is told as egress only: nothing else happened.
  if (egress?.outcome === "denied") return;
  if (isOk && witness.isIdle?.(call.message, context)) return;
  const deniedByPolicy = result.outcome === "denied" && context.admitted && egress === undefined;
  const resource = witness.resource?.(call.message) ?? (isOk ? witness.made?.(result.message) : undefined) ?? "";
  audit.record({
    ...place,
    identity,
    action: (deniedByPolicy ? witness.egress : undefined) ?? witness.action,
    resource: isAuditResource(resource) ? resource : undefined,
    outcome: result.outcome,
    txid: isOk && witness.writes ? context.txid : undefined,
    count: isOk ? witness.count?.(result.message) : undefined,
    errorCode: isOk ? undefined : result.code,
    grant: witness.grant?.(call.message, isOk ? result.message : undefined),
  });
  // A forget or a rejection that the policy turned into an erasure is recorded as both.
  if ((witness.action === "memory.forget" || witness.action === "memory.review") && context.erasureId !== undefined) {
    audit.record({
      ...place,
      identity,
      action: "erasure.requested",
      resource: context.erasureId,
      outcome: "ok",
      txid: context.txid,
      count: 1,
    });
  }
}

/** Documents that an update changed or made. */
function changedDocs({ modified, upsertedId }: UpdateDocsResponse): number {
  return modified + (upsertedId === undefined ? 0 : 1);
}
