/**
 * A question to a model, with the memories it may answer from, and the reading of its answer.
 *
 * Always true: memories go out as data in a fence, bounded and cut; of the sources that an answer names, only those
 * that the model was shown count. Must not know: how memories are found or stored.
 */
import { utf8Length } from "../base/bytes.ts";
import type { AssistantTask } from "./assistant.ts";
import { dataBlock, dataRule, fenced } from "./data-block.ts";

/** What a model may write for one question, and for one extraction: its thinking counts too. */
const askTokensMax = 8_192;
/** Content of one memory as a model sees it; a longer one is cut. */
export const askContentBytesMax = 16 * 1024;
/** All memories as a model sees them, about 60,000 tokens; the less relevant ones are left out. */
export const askMemoriesBytesMax = 256 * 1024;

/** A memory that an answer may be based on. */
export interface KnownMemory {
  readonly id: string;
  readonly type: string;
  readonly topicKey: string | null;
  readonly summary: string;
  /** JSON text. */
  readonly content: string;
  readonly source: string | null;
  readonly createdAt: number;
  readonly supersededBy: string | null;
}

/** A question ready to be asked. */
export interface PreparedQuestion<Memory extends KnownMemory> {
  readonly task: AssistantTask<Answer>;
  /** The memories that the model is shown. */
  readonly shown: readonly Memory[];
}

/** What a model said. */
interface Answer {
  /** Null when the memories do not hold it. */
  readonly answer: string | null;
  /** Ids of memories that the model was shown, in the order in which it named them. */
  readonly sources: readonly string[];
}

const instructions = [
  "You answer a question from the memories that an agent has kept. You are given two blocks, <memories> " +
    "and <question>.",
  dataRule,
  "Answer from the memories alone, never from what you know otherwise. Where they contradict each other " +
    "the newer one holds, and one that is superseded only says what was.",
  "Answer in the language of the question, in a few sentences at most. In `sources` name the id of every " +
    "memory that the answer rests on, and no other.",
  "When the memories do not hold the answer, `answer` is null and `sources` is empty.",
].join("\n");

const schema = {
  type: "object",
  properties: {
    answer: {
      anyOf: [{ type: "string" }, { type: "null" }],
      description: "The answer, or null when the memories do not hold it.",
    },
    sources: {
      type: "array",
      items: { type: "string" },
      description: "The ids of the memories that the answer rests on.",
    },
  },
  required: ["answer", "sources"],
  additionalProperties: false,
};

/** Takes the memories from the first for as long as they fit; at least one does. */
export function prepareQuestion<Memory extends KnownMemory>(
  question: string,
  memories: readonly Memory[],
  nowMs: number,
): PreparedQuestion<Memory> {
  const entries: string[] = [];
  let bytes = 0;
  for (const memory of memories) {
    const entry = fenced(encodeMemory(memory));
    bytes += utf8Length(entry);
    if (bytes > askMemoriesBytesMax && entries.length > 0) break;
    entries.push(entry);
  }
  const asked = fenced(JSON.stringify({ question, asked_at: formatTime(nowMs) }));
  const data = `${dataBlock("memories", `[${entries.join(",\n")}]`)}\n${dataBlock("question", asked)}`;
  const shown = memories.slice(0, entries.length);
  return {
    task: { instructions, data, schema, tokensMax: askTokensMax, read: (written) => readAnswer(written, shown) },
    shown,
  };
}

/** A memory as JSON. Its content is JSON text already, and every number in it keeps its digits. */
function encodeMemory({ id, type, topicKey, summary, content, source, createdAt, supersededBy }: KnownMemory): string {
  const isCut = content.length > askContentBytesMax;
  const known = JSON.stringify({
    id,
    type,
    created_at: formatTime(createdAt),
    ...(topicKey === null ? {} : { topic: topicKey }),
    ...(source === null ? {} : { said_by: source }),
    ...(supersededBy === null ? {} : { superseded: true }),
    summary,
    ...(isCut ? { content_begins: content.slice(0, askContentBytesMax).toWellFormed() } : {}),
  });
  return isCut || content === "null" ? known : `${known.slice(0, -1)},"content":${content}}`;
}

function formatTime(unixMs: number): string {
  return new Date(unixMs).toISOString();
}

function readAnswer(value: unknown, shown: readonly KnownMemory[]): Answer | undefined {
  const { answer, sources } = (value ?? {}) as { readonly answer?: unknown; readonly sources?: unknown };
  if ((typeof answer !== "string" && answer !== null) || !Array.isArray(sources)) return undefined;
  if (answer === null || answer.trim() === "") return { answer: null, sources: [] };
  const ids = new Set(shown.map(({ id }) => id));
  return {
    answer: answer.toWellFormed(),
    sources: [...new Set<unknown>(sources)].filter((id): id is string => typeof id === "string" && ids.has(id)),
  };
}
