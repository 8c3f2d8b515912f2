/**
 * How a conversation is put into a profile, and how the answers of a recall name what was put in. Only the public REST
 * interface is used.
 */
import type { Conversation } from "./corpus.ts";

/** A call of the node that must succeed. */
export type Call = (method: string, path: string, body: unknown) => Promise<any>;

export type UnitName = "session" | "turn" | "transcript";

/** What evidence is named by. */
export type Level = "sessions" | "turns";

/** Distinct ids of what was found, best first, on each level that the unit can name. */
export type Found = { readonly [Name in Level]?: readonly string[] };

/** One way to keep a conversation. */
export interface Unit {
  readonly levels: readonly Level[];
  fill(call: Call, profile: string, conversation: Conversation): Promise<void>;
  ask(call: Call, profile: string, query: string, k: number, options: object): Promise<Found>;
}

const namespace = "eval";
const address = (profile: string): string => `/v1/memory/${namespace}/${profile}`;
const batchBytesMax = 4 * 1024 * 1024;

interface Draft {
  readonly type: "event";
  readonly summary: string;
  readonly content: unknown;
  readonly source?: string;
  readonly session_id: string;
}

async function ingest(call: Call, profile: string, memories: readonly Draft[]): Promise<void> {
  let batch: Draft[] = [];
  let bytes = 0;
  const send = async (): Promise<void> => {
    if (batch.length > 0) await call("POST", `${address(profile)}/memories`, { memories: batch });
    batch = [];
    bytes = 0;
  };
  for (const memory of memories) {
    const size = JSON.stringify(memory).length;
    if (batch.length === 500 || bytes + size > batchBytesMax) await send();
    batch.push(memory);
    bytes += size;
  }
  await send();
}

async function recall(call: Call, profile: string, body: object): Promise<any> {
  return call("POST", `${address(profile)}/recall`, body);
}

/** The gist of a long text, within the bound of a summary. */
function gist(text: string): string {
  return text.slice(0, 2_000) || "-";
}

/** The same whether memories or turns were found: both name their session, and in their content the turn. */
function foundTurns(
  found: readonly { readonly session_id: string; readonly content: { readonly id: string } }[],
): Found {
  return {
    turns: found.map(({ content }) => content.id),
    sessions: [...new Set(found.map(({ session_id: id }) => id))],
  };
}

const session: Unit = {
  levels: ["sessions"],
  async fill(call, profile, { sessions }) {
    await ingest(
      call,
      profile,
      sessions.map(({ id, date, turns }) => ({
        type: "event",
        summary: `Conversation of ${[...new Set(turns.map(({ speaker }) => speaker))].join(" and ")}, ${date}`,
        content: turns.map(({ speaker, text }) => `${speaker}: ${text}`),
        session_id: id,
      })),
    );
  },
  async ask(call, profile, query, k, options) {
    const { memories } = await recall(call, profile, { query, k, ...options });
    return { sessions: [...new Set<string>(memories.map((memory: { session_id: string }) => memory.session_id))] };
  },
};

const turn: Unit = {
  levels: ["turns", "sessions"],
  async fill(call, profile, { sessions }) {
    await ingest(
      call,
      profile,
      sessions.flatMap(({ id, date, turns }) =>
        turns.map((said) => ({
          type: "event",
          summary: gist(said.text),
          content: { date, ...(said.text.length > 2_000 ? { text: said.text } : {}), id: said.id },
          source: said.speaker || "-",
          session_id: id,
        })),
      ),
    );
  },
  async ask(call, profile, query, k, options) {
    const { memories } = await recall(call, profile, { query, k, ...options });
    return foundTurns(memories);
  },
};

const transcript: Unit = {
  levels: ["turns", "sessions"],
  async fill(call, profile, { sessions }) {
    // A profile is made by its first memory.
    await ingest(call, profile, [{ type: "event", summary: "-", content: null, session_id: "-" }]);
    for (const { id, date, turns } of sessions) {
      for (const said of turns)
        await call("POST", `/v1/db/${namespace}--${profile}/memory/${encodeURIComponent(id)}/turns`, {
          role: said.speaker || "-",
          content: { id: said.id, date, text: said.text },
        });
    }
  },
  async ask(call, profile, query, k, options) {
    const { turns } = await recall(call, profile, { query, k, search_turns: true, ...options });
    return foundTurns(turns);
  },
};

export const units: Readonly<Record<UnitName, Unit>> = { session, turn, transcript };
