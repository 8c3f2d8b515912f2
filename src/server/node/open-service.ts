/**
 * The service of a node: the handlers of all endpoints, with the models that they ask, behind the one pipeline that
 * every call passes.
 */
import { BranchService } from "../../../gen/palimpsest/v1/branch_pb.ts";
import { ChangeService } from "../../../gen/palimpsest/v1/change_pb.ts";
import { ControlService } from "../../../gen/palimpsest/v1/control_pb.ts";
import { DataService } from "../../../gen/palimpsest/v1/data_pb.ts";
import { FileService } from "../../../gen/palimpsest/v1/file_pb.ts";
import { MemoryService } from "../../../gen/palimpsest/v1/memory_pb.ts";
import { TransferService } from "../../../gen/palimpsest/v1/transfer_pb.ts";
import { WebhookService } from "../../../gen/palimpsest/v1/webhook_pb.ts";
import { auditCall } from "../../service/pipeline/audit.ts";
import { Authorization } from "../../service/pipeline/caller-check.ts";
import { branchHandlers } from "../../service/handlers/branch-service.ts";
import type { Embedding } from "../../service/embedding/embedding.ts";
import type { Dispatch } from "../../service/call/call.ts";
import { handlerEntries, type HandlerTable } from "../../service/call/context.ts";
import { controlHandlers } from "../../service/handlers/control-service.ts";
import { changeHandlers } from "../../service/changes/change-service.ts";
import { webhookHandlers } from "../../service/changes/webhook-service.ts";
import { dataHandlers } from "../../service/handlers/data-service.ts";
import { fileHandlers } from "../../service/handlers/file-service.ts";
import { memoryHandlers } from "../../service/memory/memory-service.ts";
import { transferHandlers } from "../../service/transfer/transfer-service.ts";
import type { NodeParts } from "../../service/handlers/node-parts.ts";
import { createPipeline } from "../../service/pipeline/pipeline.ts";
import type { Authentication } from "./authentication.ts";
import type { Instruments } from "../observability/instruments.ts";
import type { NodeBase } from "./node-base.ts";
import { openAssistants, openEmbedding } from "./open-models.ts";

/** Every endpoint of every service. */
function buildHandlers(node: NodeParts): HandlerTable {
  return new Map([
    ...handlerEntries(ControlService, controlHandlers(node)),
    ...handlerEntries(MemoryService, memoryHandlers(node)),
    ...handlerEntries(DataService, dataHandlers(node)),
    ...handlerEntries(FileService, fileHandlers(node)),
    ...handlerEntries(BranchService, branchHandlers(node)),
    ...handlerEntries(TransferService, transferHandlers(node)),
    ...handlerEntries(ChangeService, changeHandlers(node)),
    ...handlerEntries(WebhookService, webhookHandlers(node)),
  ]);
}

/** What every call passes through, and what makes vectors for it, if anything does. */
export interface Service {
  readonly dispatch: Dispatch;
  readonly embedding: Embedding | undefined;
}

/** Opens it. The stack ends what makes vectors before the engine. */
export async function openService(
  { config, world, log, stack }: NodeBase,
  parts: Omit<NodeParts, "embedding" | "assistants">,
  instruments: Instruments,
  { credentials }: Authentication,
): Promise<Service> {
  const { engine, policies, audit } = parts;
  const embedding = await openEmbedding(config, { world, log, engine, policies, audit }, stack);
  const node: NodeParts = { ...parts, embedding, assistants: await openAssistants(config, world, log) };
  const dispatch = createPipeline({
    handlers: buildHandlers(node),
    world,
    requestTimeoutMs: config.requestTimeoutSecs * 1_000,
    concurrency: instruments.concurrency,
    controlPerSecond: config.controlRate,
    callerPerSecond: config.credentialRate,
    callerConcurrency: config.credentialConcurrency,
    durability: config.durability,
    authorization: config.auth === "on" ? new Authorization(credentials, node.databases) : undefined,
    audit: (context, result) => auditCall(node, context, result),
  });
  return { dispatch, embedding };
}
