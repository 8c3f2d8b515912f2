/**
 * Context blocks over the wires.
 *
 * Always true: a question is embedded as that of a recall; the tags go around the whole of what the engine gave, and
 * end in letters that depend on all of it.
 */
import type { GetContextRequest, MemoryService } from "../../../gen/palimpsest/v1/memory_pb.ts";
import type { Answer, Target } from "../../engine/api/protocol.ts";
import { checkContext, emptyContext, type ContextBody, type ContextInput } from "../../model/context-block.ts";
import { fence } from "../../model/context/block-text.ts";
import { engineOptions, seen, unborn, type Context, type ServiceHandlers } from "../call/context.ts";
import { present, toEmbedding } from "../call/data-messages.ts";
import type { Place } from "../embedding/backfill.ts";
import type { NodeParts } from "../handlers/node-parts.ts";
import { findProfileTarget, type ProfileAddress } from "../handlers/targets.ts";

function parseContext(request: GetContextRequest): ContextInput {
  const { query, embedding, maxTokens, format, sections, sessionId, now } = request;
  return {
    sections: sections.map(({ name, share, maxLines }) => ({ name, ...present({ share, maxLines }) })),
    ...present({
      query,
      embedding: toEmbedding(embedding),
      maxTokens,
      format,
      sessionId,
      nowMs: now === undefined ? undefined : Number(now),
    }),
  };
}

/** The block's body; that of a profile which does not exist has no lines. */
async function readBody(
  node: NodeParts,
  context: Context,
  { ns, profile }: ProfileAddress,
  target: Target | undefined,
  input: ContextInput,
): Promise<Answer<ContextBody>> {
  if (!target) return { ...unborn, value: emptyContext(input, node.world.nowMs()) };
  const asked = await withVector(node, context, { namespace: ns, profile, target }, input);
  return node.engine.read(target, "memory.context", asked, engineOptions(context));
}

/** What is asked, with the vector of its query where the block shows what a recall finds. */
async function withVector(node: NodeParts, context: Context, place: Place, input: ContextInput): Promise<ContextInput> {
  const { query, embedding, sections = [] } = input;
  const isSearched = sections.length === 0 || sections.some(({ name }) => name === "memories");
  if (!node.embedding || !isSearched) return input;
  return { ...input, ...(await node.embedding.recall(context, place, present({ query, embedding }))) };
}

export function contextHandlers(node: NodeParts): Pick<ServiceHandlers<typeof MemoryService>, "getContext"> {
  return {
    async getContext(request, context) {
      const input = parseContext(request);
      checkContext(input);
      const target = await findProfileTarget(node, context, request);
      const { value, txid } = seen(context, await readBody(node, context, request, target, input));
      const nonce = node.fences.nonce(target?.uuid, value.body);
      return {
        text: fence(nonce, value.body),
        tokens: value.tokens,
        nonce,
        sections: value.sections,
        now: BigInt(value.nowMs),
        txid,
        ...present({ embedding: value.embedding }),
      };
    },
  };
}
