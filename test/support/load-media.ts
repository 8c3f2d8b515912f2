/** The data models that a load goes through, and how each is written and read over either wire. */
import type { Seen } from "./history-checker.ts";
import type { Reply, Wire } from "./wires.ts";

/** One way to add a value to a stream, and to see all of a stream in one go. */
export interface Medium {
  readonly name: string;
  /** Gives the value's place in the stream, where there is one. */
  write(
    wire: Wire,
    database: string,
    stream: string,
    value: string,
    headers: Record<string, string>,
  ): Promise<{ readonly reply: Reply; readonly place?: number }>;
  read(
    wire: Wire,
    database: string,
    stream: string,
    headers: Record<string, string>,
  ): Promise<{ readonly reply: Reply; readonly seen: readonly Seen[] }>;
}

/** More values than a stream ever gets. */
const streamMax = 1_000;

const kv: Medium = {
  name: "kv",
  async write(wire, db, ns, key, headers) {
    return { reply: await wire.call("DataService.PutValue", { db, ns, key, value: Buffer.from(key) }, headers) };
  },
  async read(wire, db, ns, headers) {
    const reply = await wire.call("DataService.ListKeys", { db, ns, limit: streamMax }, headers);
    return { reply, seen: (reply.body?.keys ?? []).map((value: string) => ({ value })) };
  },
};

const turns: Medium = {
  name: "turns",
  async write(wire, db, session, content, headers) {
    const reply = await wire.call("DataService.AppendTurn", { db, session, role: "user", content }, headers);
    return { reply, place: reply.body?.seq };
  },
  async read(wire, db, session, headers) {
    const reply = await wire.call("DataService.ListTurns", { db, session, last: streamMax }, headers);
    return {
      reply,
      seen: (reply.body?.turns ?? []).map(({ content, seq }: { content: string; seq: number }) => ({
        value: content,
        place: seq,
      })),
    };
  },
};

export const namespace = "load";

const memories: Medium = {
  name: "memories",
  async write(wire, db, session_id, summary, headers) {
    const profile = db.slice(namespace.length + 2);
    return {
      reply: await wire.call(
        "MemoryService.Ingest",
        { ns: namespace, profile, memories: [{ type: "event", summary, content: null, session_id }] },
        headers,
      ),
    };
  },
  async read(wire, db, session_id, headers) {
    const profile = db.slice(namespace.length + 2);
    const reply = await wire.call(
      "MemoryService.ListMemories",
      { ns: namespace, profile, session_id, limit: streamMax, order: "asc" },
      headers,
    );
    return {
      reply,
      seen: (reply.body?.memories ?? []).map(({ summary }: { summary: string }) => ({ value: summary })),
    };
  },
};

/** What a database of the load can be written with. */
export function listMedia(database: string): readonly Medium[] {
  return database.startsWith(`${namespace}--`) ? [kv, turns, memories] : [kv, turns];
}

export function findMedium(stream: string): Medium {
  return [kv, turns, memories].find(({ name }) => stream.startsWith(`${name}-`))!;
}
