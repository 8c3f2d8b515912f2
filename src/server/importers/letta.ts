/**
 * Agent files of Letta (`.af`): of several agents with their blocks, and of one agent as earlier versions wrote it.
 *
 * A block becomes a fact on the topic `block.<label>`, a message a turn of the agent's session.
 */
import { asList, asObject, asText, type ForeignRecords, type ForeignTurn, readTime } from "./foreign-records.ts";

export function importLetta(text: string, records: ForeignRecords): void {
  const whole = asObject(JSON.parse(text));
  const agents = Array.isArray(whole["agents"]) ? whole["agents"] : [whole];
  for (const block of [...asList(whole["blocks"]), ...asList(whole["core_memory"])])
    takeBlock(asObject(block), records);
  for (const given of agents) {
    const agent = asObject(given);
    const name = asText(agent["name"]) ?? asText(agent["id"]) ?? "agent";
    const turns = asList(agent["messages"]).flatMap((message) => readMessage(asObject(message), records));
    records.turns(`letta.${name}`, turns);
  }
  for (const name of ["tools", "mcp_servers", "sources", "groups", "skills"])
    for (let left = asList(whole[name]).length; left > 0; left--) records.skip(`${name}: not memories`);
}

function takeBlock(block: Readonly<Record<string, unknown>>, records: ForeignRecords): void {
  const [label, value] = [asText(block["label"]), asText(block["value"])];
  if (label === undefined || value === undefined) return records.skip("a block without a label or a value");
  records.memory({
    identity: `block ${asText(block["id"]) ?? label}`,
    type: "fact",
    topic: `block.${label}`,
    summary: value,
    content: { label, value, description: asText(block["description"]) },
    createdAt: readTime(block["created_at"]),
  });
}

function readMessage(message: Readonly<Record<string, unknown>>, records: ForeignRecords): readonly ForeignTurn[] {
  const { content } = message;
  const parts = Array.isArray(content) ? content.map((part) => asText(asObject(part)["text"]) ?? "") : [content];
  const said = parts.filter((part) => typeof part === "string" && part !== "").join("\n") || asText(message["text"]);
  const role = asText(message["role"]);
  if (said === undefined || role === undefined) {
    records.skip("a message without text");
    return [];
  }
  return [{ id: asText(message["id"]), role, content: said, createdAt: readTime(message["created_at"]) }];
}
