/**
 * Memories of mem0: the export of its platform, and points of its vector store (`payload` with `data`) as JSON.
 *
 * A memory becomes a fact without a topic; its run is the session, its agent or app the source, its categories
 * keywords.
 */
import { asList, asObject, asText, type ForeignRecords, readTime } from "./foreign-records.ts";

export function importMem0(text: string, records: ForeignRecords): void {
  const whole: unknown = JSON.parse(text);
  for (const given of listIn(whole)) {
    const point = asObject(given);
    const payload = asObject(point["payload"]);
    const one = Object.keys(payload).length > 0 ? { ...payload, id: point["id"] } : point;
    const said = asText(one["memory"]) ?? asText(one["data"]);
    const id = asText(one["id"]) ?? (typeof one["id"] === "number" ? String(one["id"]) : undefined);
    if (said === undefined || id === undefined) {
      records.skip("a memory without its text or id");
      continue;
    }
    const categories = asList(one["categories"]).filter((name) => typeof name === "string");
    records.memory({
      identity: id,
      type: "fact",
      summary: said,
      content: { memory: said },
      keywords: categories.join(" "),
      session: asText(one["run_id"]),
      source: asText(one["agent_id"]) ?? asText(one["app_id"]) ?? asText(one["actor_id"]),
      metadata: { ...asObject(one["metadata"]), mem0_id: id, user_id: asText(one["user_id"]) },
      createdAt: readTime(one["created_at"]),
    });
  }
}

/** The list, wherever an export, a page or a scroll has it. */
function listIn(whole: unknown): readonly unknown[] {
  if (Array.isArray(whole)) return whole;
  const one = asObject(whole);
  for (const place of [one["memories"], one["results"], one["points"], asObject(one["result"])["points"]])
    if (Array.isArray(place)) return place;
  return [];
}
