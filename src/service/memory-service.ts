/** Typed memory over the wires: translates messages to commands and records to messages. */
import { create } from "@bufbuild/protobuf";
import { MemorySchema, type Memory, type MemoryInput as MemoryInputMessage, type MemoryService } from "../../gen/palimpsest/v1/memory_pb.ts";
import { invalid, ServiceError } from "../base/errors.ts";
import { limits } from "../base/limits.ts";
import { checkNamePart, checkSessionId } from "../format/names.ts";
import { checkMemories, type MemoryInput, type MemoryRecord } from "../model/memory.ts";
import { checkRecall, type RecallInput } from "../model/recall.ts";
import { engineOptions, seen, unborn, type NodeParts, type ServiceHandlers } from "./context.ts";
import { embeddingOf, present, turnMessage } from "./data-messages.ts";
import { erasureHandlers, forgetTracked } from "./erasure-service.ts";
import { jsonText, setJson } from "./exact-json.ts";
import { policyOfProfile, refuseDeniedEgress } from "./governance.ts";
import { profilePolicyHandlers } from "./policy-service.ts";
import { ensureProfileTarget, findProfileTarget, requireProfileTarget } from "./targets.ts";

function inputOf(message: MemoryInputMessage): MemoryInput {
  return {
    type: message.type,
    summary: message.summary,
    content: jsonText(message, "content") ?? "null",
    ...present({
      topicKey: message.topicKey,
      keywords: message.keywords,
      embedding: embeddingOf(message.embedding),
      sessionId: message.sessionId,
      source: message.source,
      ttlSecs: message.ttl,
    }),
  };
}

/** About how much an ingest adds to a commit group. */
function inputBytes(memories: readonly MemoryInput[]): number {
  let bytes = 0;
  for (const memory of memories) bytes += memory.content.length + memory.summary.length + (memory.embedding?.byteLength ?? 0) + 256;
  return bytes;
}

function memoryMessage(record: MemoryRecord): Memory {
  const message = create(MemorySchema, {
    id: record.id,
    type: record.type,
    summary: record.summary,
    createdAt: BigInt(record.createdAt),
    ...present({
      topicKey: record.topicKey ?? undefined,
      keywords: record.keywords ?? undefined,
      sessionId: record.sessionId ?? undefined,
      source: record.source ?? undefined,
      supersededBy: record.supersededBy ?? undefined,
      expiresAt: record.expiresAt === undefined ? undefined : BigInt(record.expiresAt),
      score: record.score,
      channels: record.channels && { values: record.channels },
      supersedes: record.supersedes && { values: record.supersedes },
      explain: record.explain,
    }),
  });
  setJson(message, "content", record.content);
  return message;
}

type MemoryHandlers = ServiceHandlers<typeof MemoryService>;

function recordHandlers(node: NodeParts): Pick<MemoryHandlers, "listProfiles" | "ingest" | "getMemory" | "forgetMemory"> {
  return {
    async listProfiles(request) {
      const namespace = checkNamePart("namespace", request.ns);
      const profiles = await node.databases.listProfiles(namespace);
      return { namespace, profiles: profiles.map(({ profile, createdAtMs }) => ({ profile, createdAt: BigInt(createdAtMs) })) };
    },

    async ingest(request, context) {
      if (request.memories.length === 0) throw invalid("memories must hold at least one memory");
      const memories = request.memories.map(inputOf);
      checkMemories(memories);
      const target = await ensureProfileTarget(node, context, request);
      const { taskTtlMaxSecs } = await policyOfProfile(node, request);
      const input = { memories, ...present({ taskTtlMaxSecs }) };
      const { value, txid } = seen(context, await node.engine.write(target, "memory.ingest", input, engineOptions(context, inputBytes(memories))));
      return { results: value.results.map(({ embedding, ...item }) => ({ ...item, ...present({ embedding: embedding === "stored" ? undefined : embedding }) })), txid };
    },

    async getMemory(request, context) {
      const target = await requireProfileTarget(node, context, request);
      const { value } = seen(context, await node.engine.read(target, "memory.get", { id: request.id }, engineOptions(context)));
      if (!value) throw new ServiceError("not_found", "no memory has this id");
      return memoryMessage(value);
    },

    async forgetMemory(request, context) {
      const policy = await policyOfProfile(node, request);
      if (policy.purgeOnForget) return forgetTracked(node, context, request, policy);
      // A plain forget is less than a policy that cannot be read may ask for.
      if (!policy.known) throw new ServiceError("unavailable", "whether a forget must be a tracked erasure is not known while the policy cannot be read", { retryAfterSecs: 1 });
      const target = await requireProfileTarget(node, context, request);
      const { value, txid } = seen(context, await node.engine.write(target, "memory.forget", { id: request.id }, engineOptions(context)));
      if (!value.forgotten) throw new ServiceError("not_found", "no memory has this id");
      return { txid };
    },
  };
}

function recallHandlers(node: NodeParts): Pick<MemoryHandlers, "recall" | "ask" | "extract"> {
  return {
    async recall(request, context) {
      const input: RecallInput = {
        includeSuperseded: request.includeSuperseded,
        includeTurns: request.includeTurns,
        explain: request.explain,
        ...present({
          query: request.query,
          embedding: embeddingOf(request.embedding),
          topicKey: request.topicKey,
          types: request.types?.values,
          sessionId: request.sessionId,
          source: request.source,
          k: request.k,
          minScore: request.minScore && present({ keyword: request.minScore.keyword, vector: request.minScore.vector }),
        }),
      };
      checkRecall(input);
      const target = await findProfileTarget(node, context, request);
      if (!target) return { memories: [], turns: [], txid: seen(context, unborn).txid };
      const { value, txid } = seen(context, await node.engine.read(target, "memory.recall", input, engineOptions(context)));
      return { memories: value.memories.map(memoryMessage), turns: value.turns.map(turnMessage), txid };
    },

    async ask(request) {
      refuseDeniedEgress(await policyOfProfile(node, request), "ask");
      throw new ServiceError("unconfigured", "ask needs SERVICE_ASSISTANT_API_KEY, which this node does not have");
    },

    async extract(request) {
      refuseDeniedEgress(await policyOfProfile(node, request), "extract");
      throw new ServiceError("unconfigured", "extract needs SERVICE_EXTRACT_API_KEY, which this node does not have");
    },
  };
}

function sessionHandlers(node: NodeParts): Pick<MemoryHandlers, "listSessions" | "endSession"> {
  return {
    async listSessions(request, context) {
      const target = await findProfileTarget(node, context, request);
      if (!target) return { sessions: [], txid: seen(context, unborn).txid };
      const { value, txid } = seen(context, await node.engine.read(target, "session.list", { limit: request.limit ?? limits.sessionsDefault }, engineOptions(context)));
      const sessions = value.sessions.map(({ id, createdAt, lastActiveAt }) => ({ id, createdAt: BigInt(createdAt), lastActiveAt: BigInt(lastActiveAt) }));
      return { sessions, txid };
    },

    async endSession(request, context) {
      const sessionId = checkSessionId(request.sid);
      const target = await findProfileTarget(node, context, request);
      // A session of a profile that never was has nothing to end.
      if (!target) return { txid: seen(context, unborn).txid };
      const { txid } = seen(context, await node.engine.write(target, "session.end", { sessionId, turns: request.turns }, engineOptions(context)));
      return { txid };
    },
  };
}

export function memoryHandlers(node: NodeParts): MemoryHandlers {
  return { ...recordHandlers(node), ...recallHandlers(node), ...sessionHandlers(node), ...profilePolicyHandlers(node), ...erasureHandlers(node) };
}
