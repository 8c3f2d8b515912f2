/** Changes of what is known beside a memory, over the wires: only the fields that a request gives. */
import type { MemoryService } from "../../../gen/palimpsest/v1/memory_pb.ts";
import { ServiceError } from "../../base/faults/errors.ts";
import { checkChange } from "../../model/memory/stored-memories.ts";
import { engineOptions, seen, type ServiceHandlers } from "../call/context.ts";
import { jsonText } from "../call/exact-json.ts";
import { present } from "../call/data-messages.ts";
import { memoryMessage } from "./memory-messages.ts";
import { readProfilePolicy } from "../handlers/governance.ts";
import { requireProfileTarget } from "../handlers/targets.ts";
import type { NodeParts } from "../handlers/node-parts.ts";

export function updateHandlers(node: NodeParts): Pick<ServiceHandlers<typeof MemoryService>, "updateMemory"> {
  return {
    async updateMemory(request, context) {
      const { id, pinned, keywords, ttl: ttlSecs, completed } = request;
      const change = present({ pinned, keywords, ttlSecs, completed, metadata: jsonText(request, "metadata") });
      checkChange(change);
      const { taskTtlMaxSecs } = await readProfilePolicy(node, request);
      const target = await requireProfileTarget(node, context, request);
      const input = { id, ...change, ...present({ taskTtlMaxSecs }) };
      const bytes = change.metadata?.length ?? 0;
      const { value } = seen(
        context,
        await node.engine.write(target, "memory.update", input, engineOptions(context, bytes)),
      );
      if (!value) throw new ServiceError("not_found", "no memory has this id");
      return memoryMessage(value);
    },
  };
}
