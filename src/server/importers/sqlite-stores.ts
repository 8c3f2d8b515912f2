/**
 * SQLite files of other programs: the store of LangGraph, and the history that mem0 keeps beside its vectors.
 *
 * An item of a store becomes a fact on the topic `lg:<prefix>/<key>`. Of a memory's history the last text is active, if
 * the memory was not deleted, and those before it are superseded. Checkpoints of LangGraph are counted: they are
 * serialised state of a graph, which its own saver reads.
 */
import { Connection } from "../../sqlite/connection/connection.ts";
import { asText, type ForeignRecords, readTime } from "./foreign-records.ts";

function opened(path: string, table: string, read: (connection: Connection) => void): void {
  const connection = new Connection(path, { readonly: true, pageCacheKiB: 2_048 });
  try {
    if (!connection.hasTable(table)) throw new Error(`the file has no table ${table}`);
    read(connection);
  } finally {
    connection.close();
  }
}

type Row = Readonly<Record<string, unknown>>;

export function importLangGraph(path: string, records: ForeignRecords): void {
  opened(path, "store", (connection) => {
    for (const row of connection.all<Row>("SELECT * FROM store")) item(row, records);
    for (const table of ["checkpoints", "writes", "checkpoint_blobs", "checkpoint_writes"]) {
      if (!connection.hasTable(table)) continue;
      const { n } = connection.get<{ n: number }>(`SELECT count(*) AS n FROM ${table}`)!;
      for (let left = Math.min(n, 1_000_000); left > 0; left--) records.skip(`${table}: state of a graph, no memory`);
    }
  });
}

function item(row: Row, records: ForeignRecords): void {
  const [prefix, key] = [asText(row["prefix"]) ?? "", asText(row["key"])];
  const value = parsed(row["value"]);
  if (key === undefined || value === undefined) return records.skip("an item without a key or a JSON value");
  const createdAt = readTime(row["created_at"]);
  const expiresAt = readTime(row["expires_at"]);
  if (expiresAt !== undefined) return records.skip("an item that expires");
  const text = typeof value === "string" ? value : JSON.stringify(value);
  records.memory({
    identity: JSON.stringify([prefix, key]),
    type: "fact",
    topic: `lg:${prefix}/${key}`,
    summary: `${key}: ${text}`,
    content: value,
    metadata: { ns: prefix.split("."), key },
    createdAt,
  });
}

function parsed(value: unknown): unknown {
  const text = value instanceof Uint8Array ? Buffer.from(value).toString("utf8") : value;
  if (typeof text !== "string") return undefined;
  try {
    return JSON.parse(text) as unknown;
  } catch {
    // Counted by the caller.
    return undefined;
  }
}

export function importMem0History(path: string, records: ForeignRecords): void {
  opened(path, "history", (connection) => {
    const rows = connection.all<Row>("SELECT * FROM history ORDER BY memory_id, created_at, rowid");
    for (const [id, events] of Map.groupBy(rows, (row) => asText(row["memory_id"]))) {
      if (id === undefined) records.skip("a history without the id of its memory");
      else takeHistory(id, events, records);
    }
  });
}

function takeHistory(id: string, events: readonly Row[], records: ForeignRecords): void {
  const last = events.at(-1)!;
  const isGone = last["event"] === "DELETE" || last["is_deleted"] === 1;
  const texts = events.filter((event) => asText(event["new_memory"]) !== undefined && event["event"] !== "DELETE");
  if (isGone) return records.skip("a memory that was deleted");
  if (texts.length === 0) return records.skip("a memory without text");
  texts.forEach((event, at) => {
    const next = texts[at + 1];
    const identity = (place: number): string => (place === texts.length - 1 ? id : `${id} ${place}`);
    const timeOf = (one: Row): number | undefined => readTime(one["updated_at"]) ?? readTime(one["created_at"]);
    records.memory({
      identity: identity(at),
      type: "fact",
      summary: asText(event["new_memory"])!,
      content: { memory: event["new_memory"] },
      source: asText(event["actor_id"]),
      metadata: { mem0_id: id },
      createdAt: timeOf(event),
      supersededBy: next && { identity: identity(at + 1), at: timeOf(next) ?? 0 },
    });
  });
}
