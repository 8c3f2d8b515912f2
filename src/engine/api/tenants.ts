/** The tenant of a database, where time is shared out: its namespace, or itself where it has none. */
import { profileSeparator } from "../../format/core/names.ts";
import type { Target } from "./protocol.ts";

/** The tenant of the target; its database when the name is not known. */
export function getTenant({ uuid, database }: Pick<Target, "uuid" | "database">): string {
  if (database === undefined) return uuid;
  const at = database.indexOf(profileSeparator);
  return at < 0 ? database : database.slice(0, at);
}
