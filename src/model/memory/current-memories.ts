/**
 * Which memory holds now, of those that were superseded.
 *
 * Always true: at most one memory of a topic and type is active (the schema holds it), so a chain of supersessions has
 * one end, or none where that was forgotten. Must not know: why a superseded memory is shown.
 */
import type { View } from "../core/transaction.ts";
import { activeOnly } from "../standing/states.ts";
import { presence } from "./memory-presence.ts";

/** By row, for the superseded ones, the id of the active memory of the same topic and type, as far as there is one. */
export function currentIds(view: View, rows: readonly number[]): ReadonlyMap<number, string> {
  const present = presence(view, activeOnly);
  const found = view.connection.all<{ row: number; id: string }>(
    `SELECT old.row, m.id FROM json_each(?) AS asked
     CROSS JOIN __service_memory AS old ON old.row = asked.value
     CROSS JOIN __service_memory AS m ON m.topic_key = old.topic_key AND m.type = old.type
     WHERE old.superseded_by IS NOT NULL AND m.topic_key IS NOT NULL AND ${present.sql}`,
    JSON.stringify(rows),
    ...present.params,
  );
  return new Map(found.map(({ row, id }) => [row, id]));
}
