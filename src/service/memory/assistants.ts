/**
 * The models that write, and how a call reaches one of them.
 *
 * Always true: policy is asked before the call learns whether there is a model, and both before anything is sent; what
 * was sent or refused is left on the call's context for the audit stream, in sizes only.
 */
import type { Assistant, AssistantTask } from "../../ai/assistant.ts";
import { utf8Length } from "../../base/bytes.ts";
import { ServiceError, type ErrorCode } from "../../base/faults/errors.ts";
import type { AuditEgress, AuditOutcome } from "../../format/audit/audit-event.ts";
import type { Context, EgressTold } from "../call/context.ts";
import { readProfilePolicy, refuseDeniedEgress } from "../handlers/governance.ts";
import type { AssistantUse, NodeParts } from "../handlers/node-parts.ts";

const keyVariables = { ask: "SERVICE_ASSISTANT_API_KEY", extract: "SERVICE_EXTRACT_API_KEY" } as const;

/** The model for this use. Throws forbidden when policy keeps text from it, unconfigured when there is none. */
export async function requireAssistant(
  node: NodeParts,
  context: Context,
  address: { readonly ns: string; readonly profile: string },
  use: AssistantUse,
): Promise<Assistant> {
  const policy = await readProfilePolicy(node, address);
  const assistant = node.assistants[use];
  try {
    refuseDeniedEgress(policy, use, assistant?.identity.selfHosted);
  } catch (error) {
    if (assistant && error instanceof ServiceError && error.code === "forbidden")
      context.egress = told(assistant, "denied", { errorCode: error.code });
    throw error;
  }
  if (!assistant)
    throw new ServiceError("unconfigured", `${use} needs ${keyVariables[use]}, which this node does not have`);
  return assistant;
}

/**
 * Asks the model, for as long as the call may take. `inputItems` are the records that go out with the task,
 * `outputItems` tells how many came back.
 */
export async function consult<Value>(
  node: NodeParts,
  context: Context,
  assistant: Assistant,
  {
    task,
    inputItems,
    outputItems,
  }: {
    readonly task: AssistantTask<Value>;
    readonly inputItems: number;
    readonly outputItems: (value: Value) => number;
  },
): Promise<Value> {
  const startMs = node.world.monotonicMs();
  const sizes = (): Partial<AuditEgress> => ({
    inputItems,
    inputBytes: utf8Length(task.data),
    durationMs: Math.round(node.world.monotonicMs() - startMs),
  });
  try {
    const value = await assistant.write(task, { deadlineMs: context.deadlineMs, signal: context.call.signal });
    context.egress = told(assistant, "ok", { sizes: { ...sizes(), outputItems: outputItems(value) } });
    return value;
  } catch (error) {
    const errorCode = error instanceof ServiceError ? error.code : "internal";
    // Nothing is sent for a call that finds no room.
    if (errorCode !== "overloaded") context.egress = told(assistant, "error", { sizes: sizes(), errorCode });
    throw error;
  }
}

function told(
  { identity }: Assistant,
  outcome: AuditOutcome,
  { sizes, errorCode }: { readonly sizes?: Partial<AuditEgress>; readonly errorCode?: ErrorCode },
): EgressTold {
  return {
    outcome,
    egress: { ...identity, inputItems: 0, inputBytes: 0, outputItems: 0, durationMs: 0, ...sizes },
    errorCode,
  };
}
