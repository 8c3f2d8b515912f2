/** What was held on a topic, over the wires. */
import type { MessageInitShape } from "@bufbuild/protobuf";
import type { MemoryService, MemoryStateSchema } from "../../../gen/palimpsest/v1/memory_pb.ts";
import { ServiceError } from "../../base/faults/errors.ts";
import { checkHistory, type HeldState } from "../../model/lineage/topic-history.ts";
import { engineOptions, seen, unborn, type ServiceHandlers } from "../call/context.ts";
import { present } from "../call/data-messages.ts";
import { toBigInt } from "./memory-messages.ts";
import { findProfileTarget, requireProfileTarget } from "../handlers/targets.ts";
import type { NodeParts } from "../handlers/node-parts.ts";

function stateMessage(state: HeldState): MessageInitShape<typeof MemoryStateSchema> {
  const { activeFrom, supersededAt, completedAt, validFrom, validUntil, ...said } = state;
  return {
    ...said,
    activeFrom: BigInt(activeFrom),
    ...present({
      supersededAt: toBigInt(supersededAt),
      completedAt: toBigInt(completedAt),
      validFrom: toBigInt(validFrom),
      validUntil: toBigInt(validUntil),
    }),
  };
}

export function historyHandlers(node: NodeParts): Pick<ServiceHandlers<typeof MemoryService>, "getHistory"> {
  return {
    async getHistory(request, context) {
      const { topicKey, type, id, limit, cursor } = request;
      const input = present({ topicKey, type, id, limit, cursor });
      checkHistory(input);
      const target =
        id === undefined
          ? await findProfileTarget(node, context, request)
          : await requireProfileTarget(node, context, request);
      if (!target) return { states: [], txid: seen(context, unborn).txid };
      const { value, txid } = seen(
        context,
        await node.engine.read(target, "memory.history", input, engineOptions(context)),
      );
      if (!value) throw new ServiceError("not_found", "no memory has this id");
      return { states: value.states.map(stateMessage), ...present({ nextCursor: value.nextCursor }), txid };
    },
  };
}
