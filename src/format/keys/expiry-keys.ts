/**
 * The keys of what is due (`due/`): which branch has something that has expired by which hour.
 *
 * Always true: the hour comes first, so that a listing gives what is due first; an entry is nothing but its key.
 */
import { ulidText, uuidText } from "../core/ids.ts";
import { mainBranch } from "../core/names.ts";

/** The folder of what is due. */
export const duePrefix = "due/";

const dueKeyPattern = new RegExp(`^${duePrefix}(\\d{10})/(${uuidText})/(${mainBranch}|${ulidText})$`);
const hourMs = 3_600_000;

/** A branch with something due. */
export interface DuePlace {
  /** Unix milliseconds: the first full hour at which all of it has expired. */
  readonly atMs: number;
  readonly uuid: string;
  readonly branchId: string;
}

/** The first full hour that is not before the time: `2026013117` in UTC. */
function dueHour(atMs: number): string {
  return new Date(Math.ceil(atMs / hourMs) * hourMs)
    .toISOString()
    .slice(0, "2026-01-31T17".length)
    .replaceAll(/[-T]/g, "");
}

/** The entry of a branch with something due at `atMs`; all times of one hour give one key. */
export function dueKey({ atMs, uuid, branchId }: DuePlace): string {
  return `${duePrefix}${dueHour(atMs)}/${uuid}/${branchId}`;
}

/** Where the uuid begins in the key of an entry of what is due: behind the hour. */
export const dueUuidAt = duePrefix.length + "2026013117/".length;

/** What sorts after every entry that is due at that time, and before all others. */
export function dueKeysUntil(nowMs: number): string {
  return `${duePrefix}${dueHour(Math.floor(nowMs / hourMs) * hourMs)}~`;
}

/** What the key says is due, or undefined for a foreign object. */
export function parseDueKey(key: string): DuePlace | undefined {
  const [, hour, uuid, branchId] = dueKeyPattern.exec(key) ?? [];
  if (hour === undefined || uuid === undefined || branchId === undefined) return undefined;
  const atMs = Date.parse(`${hour.slice(0, 4)}-${hour.slice(4, 6)}-${hour.slice(6, 8)}T${hour.slice(8, 10)}:00:00Z`);
  return Number.isNaN(atMs) ? undefined : { atMs, uuid, branchId };
}
