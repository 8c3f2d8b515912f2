/**
 * The tool that gives memories up: one, all of a topic, or all of a session; from what is recalled, or from all that
 * was ever stored.
 *
 * Always true: nothing but one forgotten memory goes without `confirm`. An erasure is the service's own, with its grace
 * and its receipt. Must not know: the protocol's library.
 */
import { invalid } from "../../base/faults/errors.ts";
import { listOf, text, topicTypeArgument, txid, whole } from "./schemas.ts";
import type { Tool, ToolAnswer } from "./tool.ts";
import { count } from "./tool-texts.ts";
import { type JsonObject, ofProfile, type ServiceAnswer, type Visit } from "./visit.ts";

/** Calls of a thousand memories each; who forgets more is told to go on. */
const forgetCallsMax = 10;
/** Ids in the answer; the count is of all. */
const idsMax = 100;

export const forget: Tool = {
  name: "forget",
  title: "Forget",
  description:
    "Delete memories for good: one by id, or all of a topic or of a session. Use it when the user asks for it; to " +
    "correct a fact, remember the right one on its topic instead. Mode erase also removes it from all history and " +
    "backups, with a signed receipt, and cannot be rewound. All but forgetting one memory needs confirm: true; ask " +
    "the user first.",
  takes: {
    id: { type: "string", description: "One memory." },
    topic: { type: "string", description: "All memories of this topic, and what they replaced." },
    session: { type: "string", description: "All memories of this session." },
    mode: { type: "string", enum: ["forget", "erase"], default: "forget", description: "How thoroughly." },
    type: { ...topicTypeArgument, description: `With topic and mode erase. ${topicTypeArgument.description}` },
    confirm: { type: "boolean", description: "That the user wants it." },
  },
  required: [],
  gives: {
    forgotten: whole("How many memories went."),
    ids: listOf({ type: "string" }, "Their ids; the first hundred."),
    more: { type: "boolean", description: "There are more: call again." },
    erasure_id: text("The erasure that this began."),
    state: text("Of an erasure: how far it is."),
    txid,
  },
  always: [],
  effect: "destroys",
  isIdempotent: true,
  async run({ id, topic, session, mode = "forget", type, confirm }, visit) {
    const targets = { memory_id: id, topic_key: topic, session_id: session };
    const given = Object.entries(targets).filter(([, value]) => value !== undefined);
    if (given.length !== 1) throw invalid("forget needs exactly one of id, topic and session");
    const isErasure = mode === "erase";
    if (confirm !== true && (isErasure || id === undefined)) {
      const what = isErasure ? "erases for good, from all history" : "forgets all memories of it";
      throw invalid(`this ${what}: ask the user, and call again with confirm: true`);
    }
    const target = Object.fromEntries(given);
    if (isErasure) return erase(visit, topic === undefined ? target : { ...target, type: type ?? "fact" });
    return id === undefined ? forgetAll(visit, target) : forgetOne(visit, id as string);
  },
};

async function forgetOne(visit: Visit, id: string): Promise<ToolAnswer> {
  const { body } = await visit.call("MemoryService.ForgetMemory", { ...ofProfile(visit), id });
  return { structured: { forgotten: 1, ids: [id], ...body }, text: `Forgot ${id}.` };
}

/** What ForgetMemories gives. */
interface Forgotten {
  readonly forgotten: number;
  readonly ids: readonly string[];
  readonly next_cursor: string | null;
  readonly txid: number;
}

async function forgetAll(visit: Visit, target: JsonObject): Promise<ToolAnswer> {
  const ids: string[] = [];
  let forgotten = 0;
  let cursor: string | null = null;
  let txid = 0;
  for (let calls = 0; calls === 0 || (cursor !== null && calls < forgetCallsMax); calls++) {
    const { body }: ServiceAnswer<Forgotten> = await visit.call("MemoryService.ForgetMemories", {
      ...ofProfile(visit),
      ...target,
      include_superseded: true,
      include_completed: true,
      ...(cursor !== null && { cursor }),
    });
    forgotten += body.forgotten;
    ids.push(...body.ids.slice(0, idsMax - ids.length));
    cursor = body.next_cursor;
    txid = body.txid;
  }
  const more = cursor !== null;
  const told = `Forgot ${count(forgotten, "memory", "memories")}${more ? "; there are more: call again" : ""}.`;
  return { structured: { forgotten, ids, more, txid }, text: told };
}

async function erase(visit: Visit, target: JsonObject): Promise<ToolAnswer> {
  const { body } = await visit.call("MemoryService.CreateErasure", { ...ofProfile(visit), ...target });
  const { id, state } = body;
  return {
    structured: { erasure_id: id, state },
    text: `Erased; erasure ${String(id)} is ${String(state)}, and gives a receipt when all history is clean.`,
  };
}
