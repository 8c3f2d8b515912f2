/**
 * What policy removes: events that are too old, and what was superseded too long ago or too many times since.
 *
 * Always true: an active memory that is no event is never touched here, whatever its age; of each topic the newest
 * superseded memories stay. One turn looks at a bounded number of rows and says where the next one goes on, so that no
 * sweep holds a database for long. Must not know: where the bounds come from, when a sweep runs.
 */
import { limits } from "../../base/limits.ts";
import { removeMemories } from "./memory-removal.ts";
import type { MemoryRetention } from "../core/retention.ts";
import type { Tx, View } from "../core/transaction.ts";
import { supersededSql } from "../standing/states.ts";

/** Where the next turn on the same file goes on. Good for as long as the file is open, under any bounds. */
export interface AgingPosition {
  /** A memory, and before it no event: rows are numbered in the order of their times. */
  readonly event?: { readonly row: number; readonly id: string };
  /** The last topic that was looked at; absent when the round through all topics is over. */
  readonly topic?: { readonly topicKey: string; readonly type: string };
}

/** What one turn has done; `more` when there may be more to do now. */
export interface Aged {
  readonly position: AgingPosition;
  readonly more: boolean;
}

/**
 * Removes what is over the bounds, at most `rowsMax` memories for each bound. What is later than `latestMs` was stamped
 * under a wrong clock.
 */
export function ageMemories(
  tx: Tx,
  retention: MemoryRetention,
  { event, topic }: AgingPosition,
  rowsMax: number,
  latestMs: number = tx.nowMs,
): Aged {
  const { eventMaxAgeMs, supersededMaxAgeMs, supersededMaxCount } = retention;
  // One after the other, so that no row is removed twice.
  const events =
    eventMaxAgeMs === undefined
      ? undefined
      : removeOldEvents(tx, { untilMs: tx.nowMs - eventMaxAgeMs, latestMs }, event, rowsMax);
  const removed =
    supersededMaxAgeMs === undefined ? 0 : removeOldSuperseded(tx, tx.nowMs - supersededMaxAgeMs, rowsMax);
  const topics = supersededMaxCount === undefined ? undefined : removeExcess(tx, supersededMaxCount, topic, rowsMax);
  const position = { ...(events?.event && { event: events.event }), ...(topics?.topic && { topic: topics.topic }) };
  return { position, more: (events?.more ?? false) || removed >= rowsMax || topics?.topic !== undefined };
}

function remove(tx: Tx, rows: readonly { readonly row: number }[]): number {
  removeMemories(
    tx,
    rows.map(({ row }) => row),
    "expired",
  );
  return rows.length;
}

function removeOldEvents(
  tx: Tx,
  { untilMs, latestMs }: { readonly untilMs: number; readonly latestMs: number },
  from: AgingPosition["event"],
  rowsMax: number,
): { readonly event: AgingPosition["event"]; readonly more: boolean } {
  // The number of a memory that is gone may have been given again, with others below it.
  const stands =
    from &&
    tx.connection.get("SELECT 1 FROM __service_memory WHERE row = ? AND id = ?", from.row, from.id) !== undefined;
  const passed = tx.connection.all<{ row: number; id: string; type: string; created_at: number }>(
    "SELECT row, id, type, created_at FROM __service_memory WHERE row > ? ORDER BY row LIMIT ?",
    stands ? from.row : 0,
    limits.sweepLooksMax,
  );
  const young = passed.findIndex(({ created_at: createdAt }) => createdAt > untilMs && createdAt <= latestMs);
  const before = young < 0 ? passed : passed.slice(0, young);
  // A row of the future hides no other, and is as old at least as one behind it that is old.
  const old = before.slice(0, before.findLastIndex(({ created_at: createdAt }) => createdAt <= untilMs) + 1);
  const events = old.filter(({ type }) => type === "event").slice(0, rowsMax);
  remove(tx, events);
  const isFull = before.length >= limits.sweepLooksMax;
  const left = (isFull ? before : old).filter(({ type }, index) => type !== "event" || index >= old.length);
  const last = left.findLast(({ row }) => events.length < rowsMax || row < events.at(-1)!.row);
  return {
    event: last ? { row: last.row, id: last.id } : stands ? from : undefined,
    more: events.length >= rowsMax || isFull,
  };
}

/**
 * Ids of superseders sort by the time at which they superseded; clocks that disagree may delay a removal, never hasten
 * it.
 */
function removeOldSuperseded(tx: Tx, untilMs: number, rowsMax: number): number {
  const first = tx.connection.all<{ row: number; superseded_at: number }>(
    `SELECT row, superseded_at FROM __service_memory AS m WHERE superseded_by IS NOT NULL AND ${supersededSql("m")}
     ORDER BY superseded_by LIMIT ?`,
    rowsMax,
  );
  return remove(
    tx,
    first.filter(({ superseded_at: supersededAt }) => supersededAt <= untilMs),
  );
}

/**
 * Looks, without removing anything, whether one of the topics after `topic` has more superseded memories than it may.
 * One look passes a bounded number of topics; `topic` of the answer is where the next one goes on, absent at the end.
 */
export function findExcess(
  view: View,
  { countMax, topic: from }: { readonly countMax: number } & Pick<AgingPosition, "topic">,
): { readonly found: boolean } & Pick<AgingPosition, "topic"> {
  const topics = topicsAfter(view, from, limits.sweepLooksMax);
  if (topics.some((one) => countExcess(view, one, countMax) > 0)) return { found: true };
  const last = topics.at(-1);
  return {
    found: false,
    ...(last && topics.length >= limits.sweepLooksMax && { topic: { topicKey: last.topicKey, type: last.type } }),
  };
}

interface Topic {
  readonly topicKey: string;
  readonly type: string;
  /** In whatever state. */
  readonly members: number;
}

/** How many superseded memories the topic has beyond that many. */
function countExcess(view: View, { topicKey, type, members }: Topic, countMax: number): number {
  if (members <= countMax) return 0;
  const { n } = view.connection.get<{ n: number }>(
    `SELECT count(*) AS n FROM __service_memory AS m WHERE topic_key = ? AND type = ? AND ${supersededSql("m")}`,
    topicKey,
    type,
  )!;
  return Math.max(0, n - countMax);
}

function topicsAfter({ connection }: View, from: AgingPosition["topic"], most: number): readonly Topic[] {
  return connection.all<Topic>(
    `SELECT topic_key AS topicKey, type, count(*) AS members FROM __service_memory
     WHERE topic_key IS NOT NULL AND (topic_key, type) > (?, ?) GROUP BY topic_key, type
       ORDER BY topic_key, type LIMIT ?`,
    from?.topicKey ?? "",
    from?.type ?? "",
    most,
  );
}

/**
 * Looks at the topics after `from`, at most `rowsMax` of them. Of the superseded memories of a topic the oldest go.
 */
function removeExcess(
  tx: Tx,
  countMax: number,
  from: AgingPosition["topic"],
  rowsMax: number,
): Pick<AgingPosition, "topic"> {
  const topics = topicsAfter(tx, from, rowsMax);
  let removed = 0;
  let passed = from;
  for (const one of topics) {
    const { topicKey, type } = one;
    const excess = Math.min(countExcess(tx, one, countMax), rowsMax - removed);
    if (excess > 0)
      removed += remove(
        tx,
        tx.connection.all<{ row: number }>(
          `SELECT row FROM __service_memory AS m WHERE topic_key = ? AND type = ? AND ${supersededSql("m")}
           ORDER BY row LIMIT ?`,
          topicKey,
          type,
          excess,
        ),
      );
    // This topic may have more: the next turn looks at it again.
    if (removed >= rowsMax) return passed ? { topic: passed } : { topic: { topicKey: "", type: "" } };
    passed = { topicKey, type };
  }
  return topics.length >= rowsMax && passed ? { topic: passed } : {};
}
