/**
 * Conversations as ChatGPT and Claude export them (`conversations.json`).
 *
 * A conversation becomes a session and its turns, and an event that names it. Of ChatGPT's tree of messages the path to
 * the current one is taken; messages of other branches are counted.
 */
import { asList, asObject, asText, type ForeignRecords, type ForeignTurn, readTime } from "./foreign-records.ts";

type Fields = Readonly<Record<string, unknown>>;

export function importChatGpt(text: string, records: ForeignRecords): void {
  for (const given of asList(JSON.parse(text))) {
    const chat = asObject(given);
    const mapping = asObject(chat["mapping"]);
    const id = asText(chat["conversation_id"]) ?? asText(chat["id"]);
    if (id === undefined || Object.keys(mapping).length === 0) {
      records.skip("a conversation without an id or messages");
      continue;
    }
    const path = pathTo(mapping, asText(chat["current_node"]) ?? lastLeaf(mapping));
    const turns = path.flatMap((node) => readGptMessage(asObject(node["message"]), records));
    const others = Object.values(mapping).filter((node) => !path.includes(asObject(node))).length;
    for (let left = others; left > 0; left--) records.skip("a message of a branch that was left");
    take(`chatgpt.${id}`, asText(chat["title"]), readTime(chat["create_time"]), turns, records);
  }
}

/** The nodes from the root to one, each once. */
function pathTo(mapping: Fields, last: string | undefined): readonly Fields[] {
  const path: Fields[] = [];
  const seen = new Set<string>();
  for (let id = last; id !== undefined && !seen.has(id);) {
    seen.add(id);
    const node = mapping[id];
    if (typeof node !== "object" || node === null) break;
    path.unshift(node as Fields);
    id = asText((node as Fields)["parent"]);
  }
  return path;
}

function lastLeaf(mapping: Fields): string | undefined {
  return Object.keys(mapping).findLast((id) => asList(asObject(mapping[id])["children"]).length === 0);
}

function readGptMessage(message: Fields, records: ForeignRecords): readonly ForeignTurn[] {
  const content = asObject(message["content"]);
  const parts = asList(content["parts"]);
  const said = parts.flatMap((part) => asText(part) ?? asText(asObject(part)["text"]) ?? []).join("\n");
  const role = asText(asObject(message["author"])["role"]);
  if (said === "" || role === undefined) {
    if (Object.keys(message).length > 0) records.skip("a message without text");
    return [];
  }
  return [{ id: asText(message["id"]), role, content: said, createdAt: readTime(message["create_time"]) }];
}

export function importClaude(text: string, records: ForeignRecords): void {
  for (const given of asList(JSON.parse(text))) {
    const chat = asObject(given);
    const id = asText(chat["uuid"]);
    if (id === undefined || !Array.isArray(chat["chat_messages"])) {
      records.skip("a conversation without a uuid or chat_messages");
      continue;
    }
    const turns = chat["chat_messages"].flatMap((message) => readClaudeMessage(asObject(message), records));
    take(`claude.${id}`, asText(chat["name"]), readTime(chat["created_at"]), turns, records);
  }
}

function readClaudeMessage(message: Fields, records: ForeignRecords): readonly ForeignTurn[] {
  const blocks = asList(message["content"]).flatMap((block) => asText(asObject(block)["text"]) ?? []);
  const said = blocks.length > 0 ? blocks.join("\n") : asText(message["text"]);
  const sender = asText(message["sender"]);
  if (said === undefined || sender === undefined) {
    records.skip("a message without text");
    return [];
  }
  const role = sender === "human" ? "user" : sender;
  return [{ id: asText(message["uuid"]), role, content: said, createdAt: readTime(message["created_at"]) }];
}

function take(
  session: string,
  title: string | undefined,
  createdAt: number | undefined,
  turns: readonly ForeignTurn[],
  records: ForeignRecords,
): void {
  if (turns.length === 0) return records.skip("a conversation without text");
  records.memory({
    identity: `conversation ${session}`,
    type: "event",
    summary: `Conversation: ${title ?? "untitled"}`,
    content: { title, turns: turns.length },
    session,
    createdAt: createdAt ?? turns[0]!.createdAt,
  });
  records.turns(session, turns);
}
