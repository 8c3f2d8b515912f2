/**
 * Extract: a model proposes memories from raw turns, and what passes the rules of an ingest is ingested.
 *
 * Always true:
 * - what is written came through the same checks as a client's own memories
 * - a proposal that breaks a rule is left out and counted
 * - a dry run writes nothing, and a profile is not created for turns that yield nothing
 */
import type { ExtractRequest, MemoryService } from "../../../gen/palimpsest/v1/memory_pb.ts";
import { prepareExtraction, type Proposal, type Proposals, type SpokenTurn } from "../../ai/extraction.ts";
import { utf8Length } from "../../base/bytes.ts";
import { invalid, ServiceError } from "../../base/faults/errors.ts";
import { limits } from "../../base/limits.ts";
import { checkText } from "../../format/core/names.ts";
import { checkMemories, type MemoryInput } from "../../model/memory/memory-ingest.ts";
import { consult, requireAssistant } from "./assistants.ts";
import { engineOptions, seen, unborn, type Context, type ServiceHandlers } from "../call/context.ts";
import { present } from "../call/data-messages.ts";
import { jsonText, parseExact } from "../call/exact-json.ts";
import { ingestInto } from "./ingest.ts";
import { inputMessage } from "./memory-messages.ts";
import { parseProposed } from "./review.ts";
import { findProfileTarget } from "../handlers/targets.ts";
import type { NodeParts } from "../handlers/node-parts.ts";

/** The JSON of the turns of one extraction: about 60,000 tokens. */
export const extractTurnsBytesMax = 256 * 1024;

/** The turns of a request. Refuses what is no turn, and more than one extraction takes. */
function parseTurns(request: ExtractRequest): SpokenTurn[] {
  const text = jsonText(request, "turns") ?? "[]";
  if (utf8Length(text) > extractTurnsBytesMax)
    throw invalid(`turns must be at most ${extractTurnsBytesMax} bytes of JSON; extract from a conversation in parts`);
  const turns = parseExact(text) as readonly Readonly<Record<string, unknown>>[];
  // Behind the policy, which has the first word.
  if (turns.length === 0) throw invalid("turns must hold at least one turn");
  return turns.map((turn, at) => {
    const { role, content } = turn;
    if (typeof role !== "string") throw invalid(`turns[${at}].role must be a string`);
    checkText(`turns[${at}].role`, role, limits.roleBytesMax);
    if (content === undefined) throw invalid(`turns[${at}].content is required`);
    return { role, content: JSON.stringify(content) };
  });
}

/** What the memories of a request carry. */
type Provenance = Pick<MemoryInput, "sessionId" | "source" | "proposed">;

function parseProvenance({ sessionId, source, status }: ExtractRequest): Provenance {
  return present({ sessionId, source, proposed: parseProposed("status", status) });
}

function toMemoryInput({ type, summary, topicKey, keywords, detail }: Proposal, provenance: Provenance): MemoryInput {
  return {
    type,
    summary,
    content: detail === undefined ? "null" : JSON.stringify(detail),
    ...present({ topicKey, keywords }),
    ...provenance,
  };
}

/** Whether the memory passes the rules of an ingest. */
function isSound(memory: MemoryInput): boolean {
  try {
    checkMemories([memory]);
    return true;
  } catch (error) {
    if (error instanceof ServiceError && error.code === "invalid_request") return false;
    throw error;
  }
}

/** The outcome of an extraction. */
interface Extraction {
  readonly memories: readonly MemoryInput[];
  /** Turns that no memory was found in. */
  readonly emptyTurns: number;
  /** Proposals that broke a rule. */
  readonly dropped: number;
}

function buildExtraction({ proposals, misfits }: Proposals, turnCount: number, provenance: Provenance): Extraction {
  const sound = proposals
    .map((proposal) => ({ proposal, memory: toMemoryInput(proposal, provenance) }))
    .filter(({ memory }) => isSound(memory))
    .slice(0, limits.ingestItemsMax);
  const yielding = new Set(sound.flatMap(({ proposal }) => proposal.turns));
  return {
    memories: sound.map(({ memory }) => memory),
    emptyTurns: turnCount - yielding.size,
    dropped: misfits + proposals.length - sound.length,
  };
}

/** The state of the profile's branch, so that one that cannot be written is known before a model is paid. */
async function probeState(node: NodeParts, context: Context, request: ExtractRequest): Promise<void> {
  const target = await findProfileTarget(node, context, request);
  seen(context, target ? await node.engine.read(target, "session.list", { limit: 1 }, engineOptions(context)) : unborn);
}

export function extractHandlers(node: NodeParts): Pick<ServiceHandlers<typeof MemoryService>, "extract"> {
  return {
    async extract(request, context) {
      const assistant = await requireAssistant(node, context, request, "extract");
      const turns = parseTurns(request);
      const provenance = parseProvenance(request);
      await probeState(node, context, request);
      const proposed = await consult(node, context, assistant, {
        task: prepareExtraction(turns),
        inputItems: turns.length,
        outputItems: ({ proposals, misfits }) => proposals.length + misfits,
      });
      const { memories, emptyTurns, dropped } = buildExtraction(proposed, turns.length, provenance);
      const counts = { turns: turns.length, emptyTurns, ...present({ dropped: dropped === 0 ? undefined : dropped }) };
      if (request.dryRun) return { proposed: { values: memories.map(inputMessage) }, ...counts };
      if (memories.length === 0) return { results: { values: [] }, txid: BigInt(context.txid ?? 0), ...counts };
      const { results, txid } = await ingestInto(node, context, request, memories);
      return { results: { values: results }, txid, ...counts };
    },
  };
}
