/** Listing memories over the wires, and forgetting many at once. */
import type {
  ForgetMemoriesRequest,
  ListMemoriesRequest,
  MemoryService,
} from "../../../gen/palimpsest/v1/memory_pb.ts";
import { ServiceError } from "../../base/faults/errors.ts";
import { checkDeletion, checkList, type ListInput } from "../../model/memory/memory-list.ts";
import type { LinkTarget } from "../../model/standing/links.ts";
import { engineOptions, seen, unborn, type ServiceHandlers } from "../call/context.ts";
import { present } from "../call/data-messages.ts";
import { jsonText } from "../call/exact-json.ts";
import { readProfilePolicy, refuseUnknownForget } from "../handlers/governance.ts";
import { memoryMessage, toNumber } from "./memory-messages.ts";
import { findProfileTarget, requireProfileTarget } from "../handlers/targets.ts";
import type { NodeParts } from "../handlers/node-parts.ts";

type ListHandlers = Pick<ServiceHandlers<typeof MemoryService>, "listMemories" | "forgetMemories">;

function parseTarget(request: ListMemoriesRequest | ForgetMemoriesRequest): LinkTarget | undefined {
  const { derivedFromMemory: memoryId, derivedFromSession: sessionId, derivedFromSeq } = request;
  const seq = toNumber(derivedFromSeq);
  return (memoryId ?? sessionId ?? seq) === undefined ? undefined : present({ memoryId, sessionId, seq });
}

/** What both requests have in common. */
function parseConditions(request: ListMemoriesRequest | ForgetMemoriesRequest): ListInput {
  const { since, until } = request;
  return {
    includeSuperseded: request.includeSuperseded,
    includeCompleted: request.includeCompleted,
    ...present({
      topicKey: request.topicKey,
      sessionId: request.sessionId,
      source: request.source,
      subject: request.subject,
      createdFromMs: since === undefined ? undefined : Number(since),
      createdToMs: until === undefined ? undefined : Number(until),
      states: request.status?.split(","),
      validAtMs: toNumber(request.validAt),
      derivedFrom: parseTarget(request),
      limit: request.limit,
      cursor: request.cursor,
    }),
  };
}

export function memoryListHandlers(node: NodeParts): ListHandlers {
  return {
    async listMemories(request, context) {
      const input = {
        ...parseConditions(request),
        ...present({ types: request.types?.split(","), filter: request.filter, order: request.order }),
      };
      checkList(input);
      const target = await findProfileTarget(node, context, request);
      if (!target) return { memories: [], txid: seen(context, unborn).txid };
      const { value, txid } = seen(
        context,
        await node.engine.read(target, "memory.list", input, engineOptions(context)),
      );
      return { memories: value.memories.map(memoryMessage), ...present({ nextCursor: value.nextCursor }), txid };
    },

    async forgetMemories(request, context) {
      const input = {
        ...parseConditions(request),
        ...present({ types: request.types?.values, filter: jsonText(request, "filter") }),
      };
      checkDeletion(input);
      const policy = await readProfilePolicy(node, request);
      // A coupon names one memory, topic or session: a filter's matches are none of them, and a thousand coupons would
      // each search the whole history.
      if (policy.purgeOnForget)
        throw new ServiceError(
          "conflict",
          "erasure.purge_on_forget makes every forget a tracked erasure, which many at once cannot be: forget " +
            "the memories one by one, or erase a topic or a session",
        );
      refuseUnknownForget(policy);
      const target = await requireProfileTarget(node, context, request);
      const { value, txid } = seen(
        context,
        await node.engine.write(target, "memory.forget_many", input, engineOptions(context)),
      );
      return { forgotten: value.ids.length, ids: value.ids, ...present({ nextCursor: value.nextCursor }), txid };
    },
  };
}
