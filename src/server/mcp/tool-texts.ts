/**
 * What models are told: of memories, of what became of a call, and how to mend one that was refused.
 *
 * Always true: what was stored stands in a fence that it cannot close (ai/data-block), and a text has a bound, whatever
 * is stored. Must not know: the protocol, how a tool works.
 */
import { dataBlock, fenced } from "../../ai/data-block.ts";
import { computeRetryAfterSecs } from "../wire/refusal.ts";
import type { ErrorCode, ServiceError } from "../../base/faults/errors.ts";
import type { JsonObject } from "./visit.ts";

/** Characters of a list in one text: some 15,000 tokens. */
const textCharsMax = 64 * 1024;
/** Characters of a memory's content in a text; the structured answer has all of it. */
const contentCharsMax = 1_000;

/** A record of the service in the names that tools use, without what is not there. */
export function toolRecord(record: JsonObject): JsonObject {
  const entries = Object.entries(record).flatMap(([name, value]) =>
    value === null && name !== "content" ? [] : [[toolNames[name] ?? name, value] as const],
  );
  return Object.fromEntries(entries);
}

/** Shorter names than those of the service. */
const toolNames: Readonly<Record<string, string>> = { topic_key: "topic", session_id: "session" };

/** Records of the service as data for a model: a line of JSON each, up to a bound. */
export function listAsData(name: string, records: readonly JsonObject[]): string {
  const lines: string[] = [];
  let chars = 0;
  for (const record of records) {
    const line = fenced(JSON.stringify(shorten(record)));
    chars += line.length + 1;
    if (chars > textCharsMax) break;
    lines.push(line);
  }
  const left = records.length - lines.length;
  const note = left === 0 ? "" : `\n${left} more are in the structured answer.`;
  return dataBlock(name, lines.join("\n")) + note;
}

function shorten(record: JsonObject): JsonObject {
  if (!("content" in record)) return record;
  const { content, ...others } = record;
  if (content === null) return others;
  const text = JSON.stringify(content);
  if (text.length <= contentCharsMax) return record;
  return { ...others, content_begins: text.slice(0, contentCharsMax), content_chars: text.length };
}

/** "1 memory", "2 memories". */
export function count(number: number, one: string, many: string): string {
  return `${number} ${number === 1 ? one : many}`;
}

/** What a model is told of a refusal: the stable code, what is wrong, and what may help. */
export function tellRefusal(refusal: ServiceError): string {
  const seconds = computeRetryAfterSecs(refusal);
  const advice = seconds === undefined ? advices[refusal.code] : `Try again after ${seconds} s.`;
  return `${refusal.code}: ${inToolNames(refusal.message)}.${advice === undefined ? "" : ` ${advice}`}`;
}

const advices: Partial<Record<ErrorCode, string>> = {
  invalid_request: "Mend the arguments and call again.",
  not_found: "Look it up with recall or list_memories first; it may have been forgotten.",
  branch_not_found: "The address of this server names a branch that is not there; tell the user.",
  forbidden: "The token of this server does not allow it; tell the user, and do not try again.",
  conflict: "Look at what is stored now before you decide again.",
  payload_too_large: "Store less at once: a summary here, and the rest in several memories.",
  unconfigured: "This server does not have it; do without.",
  request_timeout: "Ask for less, or try again once.",
};

/** The fields of the service's requests, by the names of the arguments that they came from. */
function inToolNames(message: string): string {
  return message
    .replaceAll("memories[0].", "")
    .replaceAll("topic_key", "topic")
    .replaceAll("session_id", "session")
    .replaceAll("memory_id", "id")
    .replaceAll("Service-At", "as_of")
    .replace(/\.$/, "");
}
