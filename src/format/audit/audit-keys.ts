/**
 * The keys of audit streams (`audit/`): one object for each flush of one node, by namespace, day and first event.
 *
 * Always true: keys of a namespace sort by the time of their first event, so that a window is read by listing.
 */
import { ulidText, ulidTime } from "../core/ids.ts";

/** The folder of all audit streams. */
export const auditPrefix = "audit/";

const auditKeyPattern = new RegExp(
  `^${auditPrefix}([a-z0-9_-]+)/(\\d{4}-\\d{2}-\\d{2})/(${ulidText})-(${ulidText})\\.jsonl$`,
);

/** The folder of a namespace's audit stream. */
export function auditStreamPrefix(namespace: string): string {
  return `${auditPrefix}${namespace}/`;
}

/** The day of a time, in UTC, as `2026-01-31`. */
export function formatDay(atMs: number): string {
  return new Date(atMs).toISOString().slice(0, "2026-01-31".length);
}

/** One flush of a node into a namespace's audit stream. Keys sort by the time of their first event. */
export interface AuditKey {
  readonly namespace: string;
  /** Of all its events, in UTC. */
  readonly day: string;
  /** The id of its first event. */
  readonly firstId: string;
  /** The identity of the node. */
  readonly node: string;
}

/** The key of one flush. */
export function auditKey({ namespace, day, firstId, node }: AuditKey): string {
  return `${auditStreamPrefix(namespace)}${day}/${firstId}-${node}.jsonl`;
}

/** What sorts after every object whose first event happened before `atMs`, and before all others. */
export function auditKeyAt(namespace: string, atMs: number): string {
  return `${auditStreamPrefix(namespace)}${formatDay(atMs)}/${ulidTime(atMs)}`;
}

/** The parts of a key, or undefined for a foreign object. */
export function parseAuditKey(key: string): AuditKey | undefined {
  const [, namespace, day, firstId, node] = auditKeyPattern.exec(key) ?? [];
  if (namespace === undefined || day === undefined || firstId === undefined || node === undefined) return undefined;
  return { namespace, day, firstId, node };
}
