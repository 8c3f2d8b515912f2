/**
 * Ask: what was recalled goes to a model that answers from it.
 *
 * Always true: nothing relevant is a null answer for which no model is called; what an answer cites was shown to the
 * model and is in `memories`. An answer that cites none of them is still given, with empty sources: null would say,
 * wrongly, that nothing relevant was found, and the empty sources show that the answer has no grounds.
 */
import type { MemoryService } from "../../../gen/palimpsest/v1/memory_pb.ts";
import { prepareQuestion } from "../../ai/answering.ts";
import { invalid } from "../../base/faults/errors.ts";
import { consult, requireAssistant } from "./assistants.ts";
import type { ServiceHandlers } from "../call/context.ts";
import { present } from "../call/data-messages.ts";
import { memoryMessage } from "./memory-messages.ts";
import { recallFrom } from "./recall.ts";
import type { NodeParts } from "../handlers/node-parts.ts";

export function askHandlers(node: NodeParts): Pick<ServiceHandlers<typeof MemoryService>, "ask"> {
  return {
    async ask(request, context) {
      const assistant = await requireAssistant(node, context, request, "ask");
      const { question, types, sessionId, source, k, includeSuperseded } = request;
      if (question.trim() === "") throw invalid("question must not be blank");
      const { memories, txid } = await recallFrom(node, context, request, {
        query: question,
        includeSuperseded,
        ...present({ types: types?.values, sessionId, source, k }),
      });
      if (memories.length === 0) return { sources: [], memories: [], txid };
      const { task, shown } = prepareQuestion(question, memories, node.world.nowMs());
      const { answer, sources } = await consult(node, context, assistant, {
        task,
        inputItems: shown.length,
        outputItems: (given) => (given.answer === null ? 0 : 1),
      });
      return {
        ...present({ answer: answer ?? undefined }),
        sources: [...sources],
        memories: shown.map(memoryMessage),
        txid,
      };
    },
  };
}
