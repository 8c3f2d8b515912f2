/** Typed memory over the wires: translates messages to commands and records to messages. */
import type { MessageInitShape } from "@bufbuild/protobuf";
import type { MemoryService, SessionSchema } from "../../../gen/palimpsest/v1/memory_pb.ts";
import { invalid, ServiceError } from "../../base/faults/errors.ts";
import { limits } from "../../base/limits.ts";
import { checkSessionList, type SessionRecord } from "../../model/transcript/sessions.ts";
import { askHandlers } from "./ask.ts";
import { calibrateHandlers } from "./calibrate.ts";
import { contextHandlers } from "./context.ts";
import { engineOptions, seen, unborn, type ServiceHandlers } from "../call/context.ts";
import { present } from "../call/data-messages.ts";
import { erasureHandlers, eraseTracked } from "../handlers/erasure-service.ts";
import { extractHandlers } from "./extract.ts";
import { readProfilePolicy, refuseUnknownForget } from "../handlers/governance.ts";
import { historyHandlers } from "./history.ts";
import { memoryListHandlers } from "./memory-list-service.ts";
import { ingestInto } from "./ingest.ts";
import { parseMemoryInput, memoryMessage } from "./memory-messages.ts";
import { profilePolicyHandlers } from "../handlers/policy-service.ts";
import { recallHandlers } from "./recall.ts";
import { reviewHandlers } from "./review.ts";
import { reembedHandlers } from "./reembed.ts";
import { updateHandlers } from "./update.ts";
import { listProfiles } from "./profile-list.ts";
import { findProfileTarget, requireProfileTarget } from "../handlers/targets.ts";
import type { NodeParts } from "../handlers/node-parts.ts";

type MemoryHandlers = ServiceHandlers<typeof MemoryService>;

function recordHandlers(
  node: NodeParts,
): Pick<MemoryHandlers, "listProfiles" | "ingest" | "getMemory" | "forgetMemory"> {
  return {
    listProfiles: (request) => listProfiles(node, request),

    async ingest(request, context) {
      if (request.memories.length === 0) throw invalid("memories must hold at least one memory");
      return ingestInto(
        node,
        context,
        request,
        request.memories.map((memory, at) => parseMemoryInput(`memories[${at}]`, memory)),
      );
    },

    async getMemory(request, context) {
      const target = await requireProfileTarget(node, context, request);
      const { value } = seen(
        context,
        await node.engine.read(target, "memory.get", { id: request.id }, engineOptions(context)),
      );
      if (!value) throw new ServiceError("not_found", "no memory has this id");
      return memoryMessage(value);
    },

    async forgetMemory(request, context) {
      const policy = await readProfilePolicy(node, request);
      if (policy.purgeOnForget) return eraseTracked(node, context, request, policy);
      refuseUnknownForget(policy);
      const target = await requireProfileTarget(node, context, request);
      const { value, txid } = seen(
        context,
        await node.engine.write(target, "memory.forget", { id: request.id }, engineOptions(context)),
      );
      if (!value.forgotten) throw new ServiceError("not_found", "no memory has this id");
      return { txid };
    },
  };
}

function sessionMessage(session: SessionRecord): MessageInitShape<typeof SessionSchema> {
  const { id, createdAt, lastActiveAt, turns, firstTurnAt, lastTurnAt } = session;
  return {
    id,
    createdAt: BigInt(createdAt),
    lastActiveAt: BigInt(lastActiveAt),
    ...present({
      turns: turns === undefined ? undefined : BigInt(turns),
      firstTurnAt: firstTurnAt === undefined ? undefined : BigInt(firstTurnAt),
      lastTurnAt: lastTurnAt === undefined ? undefined : BigInt(lastTurnAt),
    }),
  };
}

function sessionHandlers(node: NodeParts): Pick<MemoryHandlers, "listSessions" | "endSession"> {
  return {
    async listSessions(request, context) {
      const input = {
        limit: request.limit ?? limits.sessionsDefault,
        ...present({ cursor: request.cursor, includeTurns: request.includeTurns || undefined }),
      };
      checkSessionList(input);
      const target = await findProfileTarget(node, context, request);
      if (!target) return { sessions: [], txid: seen(context, unborn).txid };
      const { value, txid } = seen(
        context,
        await node.engine.read(target, "session.list", input, engineOptions(context)),
      );
      return { sessions: value.sessions.map(sessionMessage), ...present({ nextCursor: value.nextCursor }), txid };
    },

    async endSession(request, context) {
      const sessionId = request.sid;
      const target = await findProfileTarget(node, context, request);
      // A session of a profile that never existed has nothing to end.
      if (!target) return { txid: seen(context, unborn).txid };
      const { txid } = seen(
        context,
        await node.engine.write(target, "session.end", { sessionId, turns: request.turns }, engineOptions(context)),
      );
      return { txid };
    },
  };
}

export function memoryHandlers(node: NodeParts): MemoryHandlers {
  return {
    ...recordHandlers(node),
    ...memoryListHandlers(node),
    ...historyHandlers(node),
    ...updateHandlers(node),
    ...reviewHandlers(node),
    ...recallHandlers(node),
    ...contextHandlers(node),
    ...askHandlers(node),
    ...extractHandlers(node),
    ...sessionHandlers(node),
    ...profilePolicyHandlers(node),
    ...reembedHandlers(node),
    ...calibrateHandlers(node),
    ...erasureHandlers(node),
  };
}
