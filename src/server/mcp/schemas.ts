/**
 * Pieces of JSON Schema that several tools say their arguments and answers with.
 *
 * Always true: they say what is there; more may be in an answer, as fields are added to the service. Must not know:
 * how an answer is made.
 */
import type { ArgumentSchema } from "./tool.ts";
import type { JsonObject } from "./visit.ts";

const memoryTypes = ["fact", "event", "instruction", "task"] as const;

export const text = (description: string): JsonObject => ({ type: "string", description });
export const whole = (description: string): JsonObject => ({ type: "integer", description });
export const listOf = (items: JsonObject, description: string): JsonObject => ({ type: "array", items, description });

export const typeArgument: ArgumentSchema = {
  type: "string",
  enum: memoryTypes,
  description:
    "fact: what is true until something else is. event: what happened. instruction: how to behave. task: what is to " +
    "be done, and goes by itself.",
};
export const typesArgument: ArgumentSchema = {
  type: "array",
  items: { type: "string", enum: memoryTypes },
  description: "Memories of these types only.",
};
export const topicTypeArgument: ArgumentSchema = {
  type: "string",
  enum: ["fact", "instruction"],
  default: "fact",
  description: "Whether the topic is one of facts or of instructions: each has its own.",
};
export const topicArgument: ArgumentSchema = {
  type: "string",
  description: "What it is about, in one stable key such as user.theme.",
};

export const cursor = text("Give it as cursor to get what follows; absent at the end.");
export const txid = whole("The transaction id of the state that was read or made.");

export const memory: JsonObject = {
  type: "object",
  properties: {
    id: text("The memory's id."),
    type: { type: "string", enum: memoryTypes },
    topic: text("Its topic, if it has one."),
    summary: text("Its one-line gist."),
    content: { description: "What it says in full: any JSON." },
    session: text("The session that it came from."),
    source: text("The client that stored it."),
    created_at: whole("When it was stored, in Unix milliseconds."),
    superseded_by: text("The memory that replaced it; absent while it holds."),
    score: { type: "number", description: "Its relevance, within one answer." },
  },
  required: ["id", "type", "summary"],
};
