/**
 * Recall over the wires, and the one way to recall for other calls.
 *
 * Always true: other calls find here what the recall call finds with the same words and filters.
 */
import type { MemoryService } from "../../../gen/palimpsest/v1/memory_pb.ts";
import type { MemoryRecord } from "../../model/memory/memory-record.ts";
import { checkRecall, type RecallInput } from "../../model/recall.ts";
import type { TurnRecord } from "../../model/transcript/transcript.ts";
import { engineOptions, seen, unborn, type Context, type ServiceHandlers } from "../call/context.ts";
import { toEmbedding, present, turnMessage } from "../call/data-messages.ts";
import { jsonText } from "../call/exact-json.ts";
import { memoryMessage } from "./memory-messages.ts";
import { findProfileTarget, type ProfileAddress } from "../handlers/targets.ts";
import type { NodeParts } from "../handlers/node-parts.ts";

/** What a recall found, and the state it saw. */
export interface Recalled {
  readonly memories: readonly MemoryRecord[];
  readonly turns: readonly TurnRecord[];
  /** Why the vector was not looked for. */
  readonly embedding?: string;
  readonly txid: bigint;
}

/** Recalls from a profile's memory; an unknown profile recalls nothing. Refuses what `checkRecall` refuses. */
export async function recallFrom(
  node: NodeParts,
  context: Context,
  address: ProfileAddress,
  input: RecallInput,
): Promise<Recalled> {
  checkRecall(input);
  const target = await findProfileTarget(node, context, address);
  if (!target) return { memories: [], turns: [], txid: seen(context, unborn).txid };
  const place = { namespace: address.ns, profile: address.profile, target };
  const asked = node.embedding ? await node.embedding.recall(context, place, input) : input;
  const { value, txid } = seen(context, await node.engine.read(target, "memory.recall", asked, engineOptions(context)));
  return { ...value, txid };
}

export function recallHandlers(node: NodeParts): Pick<ServiceHandlers<typeof MemoryService>, "recall"> {
  return {
    async recall(request, context) {
      const input: RecallInput = {
        includeSuperseded: request.includeSuperseded,
        includeTurns: request.includeTurns,
        searchTurns: request.searchTurns,
        explain: request.explain,
        ...present({
          query: request.query,
          embedding: toEmbedding(request.embedding),
          topicKey: request.topicKey,
          types: request.types?.values,
          sessionId: request.sessionId,
          source: request.source,
          filter: jsonText(request, "filter"),
          k: request.k,
          minScore: request.minScore && present({ keyword: request.minScore.keyword, vector: request.minScore.vector }),
        }),
      };
      const { memories, turns, embedding, txid } = await recallFrom(node, context, request, input);
      return { memories: memories.map(memoryMessage), turns: turns.map(turnMessage), txid, ...present({ embedding }) };
    },
  };
}
