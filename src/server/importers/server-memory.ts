/**
 * The file of the MCP memory server: JSON lines of entities and relations.
 *
 * An entity becomes a fact on the topic `entity.<name>` with its observations, a relation one on the topic that its
 * three names make.
 */
import { asObject, asText, type ForeignRecords } from "./foreign-records.ts";

export function importServerMemory(text: string, records: ForeignRecords): void {
  for (const line of text.split("\n")) {
    if (line.trim() === "") continue;
    const one = asObject(parsed(line));
    if (one["type"] === "entity") entity(one, records);
    else if (one["type"] === "relation") relation(one, records);
    else records.skip(Object.keys(one).length === 0 ? "a line that is no JSON object" : "a line of an unknown type");
  }
}

function entity(one: Readonly<Record<string, unknown>>, records: ForeignRecords): void {
  const name = asText(one["name"]);
  if (name === undefined) return records.skip("an entity without a name");
  const { observations } = one;
  const said = (Array.isArray(observations) ? observations : []).filter((text) => typeof text === "string");
  const kind = asText(one["entityType"]);
  records.memory({
    identity: `entity ${name}`,
    type: "fact",
    topic: `entity.${name}`,
    summary: `${name}${kind === undefined ? "" : ` (${kind})`}${said.length > 0 ? `: ${said.join("; ")}` : ""}`,
    content: { name, entity_type: kind, observations: said },
    createdAt: undefined,
  });
}

function relation(one: Readonly<Record<string, unknown>>, records: ForeignRecords): void {
  const [from, to, kind] = [asText(one["from"]), asText(one["to"]), asText(one["relationType"])];
  if (from === undefined || to === undefined || kind === undefined)
    return records.skip("a relation without from, to or relationType");
  records.memory({
    identity: `relation ${JSON.stringify([from, kind, to])}`,
    type: "fact",
    topic: `relation.${from}.${kind}.${to}`,
    summary: `${from} ${kind} ${to}`,
    content: { from, relation_type: kind, to },
    createdAt: undefined,
  });
}

function parsed(line: string): unknown {
  try {
    return JSON.parse(line);
  } catch {
    // Counted by the caller as what is no object.
    return undefined;
  }
}
