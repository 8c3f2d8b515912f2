/**
 * Recall over the wires, and the one way to recall for other calls.
 *
 * Always true: other calls find here what the recall call finds with the same words and filters.
 */
import type { MessageInitShape } from "@bufbuild/protobuf";
import type { MemoryService, NearMissSchema, RecallRequest } from "../../../gen/palimpsest/v1/memory_pb.ts";
import { checkRecall, type RecallAnswer, type RecallInput } from "../../model/recall.ts";
import type { NearMiss } from "../../model/recall-misses.ts";
import { engineOptions, seen, unborn, type Context, type ServiceHandlers } from "../call/context.ts";
import { toEmbedding, present, turnMessage } from "../call/data-messages.ts";
import { jsonText } from "../call/exact-json.ts";
import { memoryMessage } from "./memory-messages.ts";
import { findProfileTarget, type ProfileAddress } from "../handlers/targets.ts";
import type { NodeParts } from "../handlers/node-parts.ts";

/** What a recall found, and the state it saw. */
export interface Recalled extends RecallAnswer {
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
  if (!target) return { memories: [], turns: [], emptyReason: "nothing_stored", txid: seen(context, unborn).txid };
  const place = { namespace: address.ns, profile: address.profile, target };
  const asked = node.embedding ? await node.embedding.recall(context, place, input) : input;
  const { value, txid } = seen(context, await node.engine.read(target, "memory.recall", asked, engineOptions(context)));
  return { ...value, txid };
}

function parseRecall(request: RecallRequest): RecallInput {
  const { since, until, minScore, kPerType } = request;
  return {
    includeSuperseded: request.includeSuperseded,
    includeCompleted: request.includeCompleted,
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
      subject: request.subject,
      createdFromMs: since === undefined ? undefined : Number(since),
      createdToMs: until === undefined ? undefined : Number(until),
      filter: jsonText(request, "filter"),
      k: request.k,
      kPerType:
        kPerType &&
        present({
          fact: kPerType.fact,
          event: kPerType.event,
          instruction: kPerType.instruction,
          task: kPerType.task,
        }),
      preferSessionId: request.preferSessionId,
      minScore: minScore && present({ keyword: minScore.keyword, vector: minScore.vector }),
    }),
  };
}

export function recallHandlers(node: NodeParts): Pick<ServiceHandlers<typeof MemoryService>, "recall"> {
  return {
    async recall(request, context) {
      const answer = await recallFrom(node, context, request, parseRecall(request));
      const { memories, turns, embedding, emptyReason, nearMisses, txid } = answer;
      return {
        memories: memories.map(memoryMessage),
        turns: turns.map(turnMessage),
        txid,
        ...present({ embedding, emptyReason, nearMisses: nearMisses && { values: nearMisses.map(missMessage) } }),
      };
    },
  };
}

function missMessage({ id, reasons, matchedTerms }: NearMiss): MessageInitShape<typeof NearMissSchema> {
  return { id, reasons: reasons.map((bar) => ({ ...bar })), matchedTerms: [...matchedTerms] };
}
