/**
 * Hard deletion: a target resolved and removed in one transaction, with everything that was derived from it.
 *
 * Always true: after the commit no row of any table has anything of what was erased, except the journal, which holds
 * ids and keyed hashes until the erasure is settled; the same coupon again gives the same answer and changes nothing.
 * Must not know: pages, history, when an erasure is complete.
 */
import { hash } from "node:crypto";
import { invalid, ServiceError } from "../base/faults/errors.ts";
import { limits } from "../base/limits.ts";
import type { Traces } from "../format/erasure/erasure-coupon.ts";
import type { ErasedKinds, ErasureTarget, RecordTarget } from "../format/erasure/erasure-receipt.ts";
import { forgetChanges } from "./core/change-log.ts";
import { note, type ChangeNote } from "./core/change-notes.ts";
import { removeAnswers } from "./core/idempotency.ts";
import { findRecords, isRecordTarget, removeRecords } from "./erasure-records.ts";
import { removeEmptySession, turnsOf } from "./erasure-subject.ts";
import type { KnownRecord } from "./erasure-windows.ts";
import { ErasedWindows, type ErasedRow } from "./erasure-traces.ts";
import { reindexMemory } from "./memory/keyword.ts";
import { removeMemories } from "./memory/memory-removal.ts";
import { removeSession } from "./core/session-row.ts";
import { ownersOf } from "./core/subjects.ts";
import type { Tx, View } from "./core/transaction.ts";
import { linksTo, removeLinks, type FoundLink, type LinkTarget } from "./standing/links.ts";
import { erasedMemoryId } from "./standing/states.ts";
import { eraseTurns } from "./transcript/turn-removal.ts";

/** What was erased. `found` is false when what was named is unknown: then nothing was changed. */
export interface Erased {
  readonly found: boolean;
  readonly memoryIds: readonly string[];
  /** Keyed hashes of the records that were erased by their names, in hex. */
  readonly records?: readonly string[];
  /** Of a subject, how many records of each kind, by the names on the wire. */
  readonly kinds?: ErasedKinds;
  /** How many memories stay that were derived from what was erased, and say so no more. */
  readonly derived?: number;
  readonly traces: Traces;
}

const journalSchema =
  "CREATE TABLE IF NOT EXISTS __service_erasure (coupon TEXT NOT NULL PRIMARY KEY, result TEXT NOT NULL) " +
  "STRICT, WITHOUT ROWID";

/** What an erasure has done, as the journal keeps it. The key is not in it: it would outlive the coupon in history. */
interface JournalEntry {
  readonly keyHash: string;
  readonly memoryIds: readonly string[];
  readonly records?: readonly string[];
  readonly kinds?: ErasedKinds;
  readonly derived?: number;
  /** Base64. */
  readonly windows: string;
  readonly windowsTotal: number;
}

/**
 * Erases the target. Refuses one of more memories or records than one transaction removes, and a coupon that was used
 * with another key.
 */
export function erase(
  tx: Tx,
  input: { readonly couponId: string; readonly target: ErasureTarget; readonly traceKey: Uint8Array },
): Erased {
  const { couponId, target, traceKey } = input;
  const before = journalled(tx, couponId, traceKey);
  if (before) return before;
  const windows = new ErasedWindows(tx);
  const outcome =
    target.kind === "subject"
      ? eraseSubject(tx, target, traceKey, windows)
      : isRecordTarget(target)
        ? eraseRecords(tx, target, traceKey, windows)
        : eraseMemories(tx, target, windows);
  if (!outcome)
    return { found: false, memoryIds: [], traces: { key: traceKey, windows: new Uint8Array(), windowsTotal: 0 } };
  const { noted = [], ...removed } = outcome;
  clearStatistics(tx);
  removeAnswers(tx);
  forgetChanges(tx, namesErased(tx, target, removed.memoryIds, noted));
  note(tx, "erasure", "erased", couponId);
  const traces = windows.traces(traceKey);
  journal(tx, couponId, {
    ...removed,
    keyHash: hashKey(traceKey),
    windows: Buffer.from(traces.windows).toString("base64"),
    windowsTotal: traces.windowsTotal,
  });
  // Matrices and indexes keep what is removed from them until they are made anew.
  tx.afterCommit(() => tx.vectors.evictAll());
  return { found: true, ...removed, traces };
}

/** What is known of what was erased. */
interface Removed extends Pick<Erased, "memoryIds" | "records" | "kinds" | "derived"> {
  /** The names by which changes of a subject's records were noted. */
  readonly noted?: readonly KnownRecord["noted"][];
}

/** Tells the changes that name what the erasure takes. */
function namesErased(
  view: View,
  target: ErasureTarget,
  memoryIds: readonly string[],
  noted: readonly KnownRecord["noted"][],
): (change: ChangeNote) => boolean {
  const memories = new Set(memoryIds);
  const ofSubject = new Set(noted.map((names) => JSON.stringify(names)));
  const isTarget = (names: readonly (string | number)[], ...wanted: readonly (string | number)[]): boolean =>
    wanted.every((name, at) => names[at] === name);
  return ([kind, , ...names]) => {
    if (kind === "memory") return memories.has(names[0] as string);
    switch (target.kind) {
      case "session":
        return (kind === "session" || (kind === "turn" && target.turns)) && isTarget(names, target.sessionId);
      case "turn":
        return kind === "turn" && isTarget(names, target.sessionId, target.seq);
      case "path":
        return kind === "file" && (names[0] === target.path || String(names[0]).startsWith(`${target.path}/`));
      case "key":
        return kind === "kv" && isTarget(names, target.ns, target.key);
      case "document":
        return kind === "doc" && isTarget(names, target.collection, target.id);
      case "vector":
        return kind === "vector" && isTarget(names, target.collection, target.id);
      case "subject":
        // A session of which nothing was left has gone with it.
        if (kind === "session") return !hasSession(view, String(names[0]));
        return ofSubject.has(JSON.stringify([kind, ...names]));
      default:
        return false;
    }
  };
}

function hasSession({ connection }: View, id: string): boolean {
  return connection.get("SELECT 1 FROM __service_session WHERE id = ?", id) !== undefined;
}

/** Removes the memories of the target, and its session; undefined when there is nothing. */
function eraseMemories(
  tx: Tx,
  target: Exclude<ErasureTarget, RecordTarget>,
  windows: ErasedWindows,
): Removed | undefined {
  const rows = selectRows(tx, target);
  if (target.kind !== "session" && rows.length === 0) return undefined;
  if (rows.length > limits.erasureMemoriesMax)
    throw invalid(
      `the target has more than ${limits.erasureMemoriesMax} memories; erase it in parts, some of its ` +
        "memories by their ids first",
    );
  if (target.kind === "session" && target.turns) windows.addTurns(target.sessionId);
  const links = takeLinks(tx, windows, [
    ...rows.map(({ id }) => ({ memoryId: id })),
    ...(target.kind === "session" ? [{ sessionId: target.sessionId }] : []),
  ]);
  const memoryIds = eraseRows(tx, rows, windows);
  if (target.kind === "session") eraseSession(tx, target.sessionId, target.turns);
  return { memoryIds, derived: removeLinks(tx, links) };
}

/** The links to what goes, with their windows; to be removed when it has gone. */
function takeLinks(tx: Tx, windows: ErasedWindows, targets: readonly LinkTarget[]): readonly FoundLink[] {
  const links = targets.flatMap((target) => linksTo(tx, target));
  windows.addLinks(links);
  return links;
}

/** Removes these memories, and gives their ids. */
function eraseRows(tx: Tx, rows: readonly ErasedRow[], windows: ErasedWindows): readonly string[] {
  for (const row of rows) windows.addMemory(row);
  removeMemories(
    tx,
    rows.map(({ row }) => row),
    "forgotten",
  );
  const memoryIds = rows.map(({ id }) => id);
  for (const id of memoryIds)
    tx.connection.run("UPDATE __service_memory SET superseded_by = ? WHERE superseded_by = ?", erasedMemoryId, id);
  return memoryIds;
}

/** Removes every record of the subject, memories and all others; undefined when there are none. */
function eraseSubject(
  tx: Tx,
  target: Extract<RecordTarget, { kind: "subject" }>,
  key: Uint8Array,
  windows: ErasedWindows,
): Removed | undefined {
  const { subject } = target;
  const found = findRecords(tx, target, key);
  const memories = memoriesOf(tx, subject);
  if (found.length + memories.length === 0) return undefined;
  if (found.length + memories.length > limits.erasureMemoriesMax)
    throw invalid(
      `the subject has more than ${limits.erasureMemoriesMax} records; erase some of them by their names first`,
    );
  for (const [sessionId, turns] of Map.groupBy(turnsOf(tx, subject), (turn) => turn.sessionId))
    windows.addTurns(
      sessionId,
      turns.map(({ seq }) => seq),
    );
  for (const record of found) windows.addRecord(record);
  const sessions = sessionsOf(tx, memories);
  const links = takeLinks(tx, windows, [
    ...memories.map(({ id }) => ({ memoryId: id })),
    ...turnsOf(tx, subject).map(({ sessionId, seq }) => ({ sessionId, seq })),
  ]);
  const memoryIds = eraseRows(tx, memories, windows);
  removeRecords(tx, target);
  for (const sessionId of sessions) removeEmptySession(tx, sessionId);
  const kinds: Record<string, number> = memories.length > 0 ? { memories: memories.length } : {};
  for (const { counted } of found) kinds[counted!] = (kinds[counted!] ?? 0) + 1;
  return {
    memoryIds,
    records: found.map(({ id }) => id),
    kinds,
    noted: found.map((record) => record.noted),
    derived: removeLinks(tx, links),
  };
}

/** The subject's memories, expired or not. */
function memoriesOf(view: View, subject: string): readonly ErasedRow[] {
  const owners = ownersOf(view, subject, limits.erasureMemoriesMax + 1).filter(({ kind }) => kind === "memory");
  return view.connection.all(
    `SELECT m.row, m.id, m.type FROM json_each(?) AS asked CROSS JOIN __service_memory AS m ON m.row = asked.value
     ORDER BY m.row`,
    JSON.stringify(owners.map(({ owner }) => owner)),
  );
}

/** The sessions in which these memories were said. */
function sessionsOf(view: View, memories: readonly ErasedRow[]): readonly string[] {
  return view.connection
    .all<{ sessionId: string }>(
      `SELECT DISTINCT p.session_id AS sessionId FROM json_each(?) AS asked
       CROSS JOIN __service_memory_provenance AS p ON p.memory = asked.value WHERE p.session_id <> ''`,
      JSON.stringify(memories.map(({ row }) => row)),
    )
    .map(({ sessionId }) => sessionId);
}

/** Removes the records of the target; undefined when there are none. */
function eraseRecords(tx: Tx, target: RecordTarget, key: Uint8Array, windows: ErasedWindows): Removed | undefined {
  const found = findRecords(tx, target, key);
  if (found.length === 0) return undefined;
  if (target.kind === "turn") windows.addTurns(target.sessionId, [target.seq]);
  const turns = target.kind === "turn" ? [{ sessionId: target.sessionId, seq: target.seq }] : [];
  const links = takeLinks(tx, windows, turns);
  for (const record of found) windows.addRecord(record);
  removeRecords(tx, target);
  return { memoryIds: [], records: found.map(({ id }) => id), derived: removeLinks(tx, links) };
}

/** Which of these memories exist as rows, expired or not. */
export function heldMemories(
  view: View,
  input: { readonly memoryIds: readonly string[] },
): { readonly held: readonly string[] } {
  const held = view.connection.all<{ id: string }>(
    "SELECT m.id FROM json_each(?) AS asked CROSS JOIN __service_memory AS m ON m.id = asked.value ORDER BY asked.key",
    JSON.stringify(input.memoryIds),
  );
  return { held: held.map(({ id }) => id) };
}

/** The erasure is over, whatever came of it: its answer will not be asked for again. */
export function deleteErasureNotes(tx: Tx, input: { readonly couponId: string }): Record<string, never> {
  if (tx.connection.hasTable("__service_erasure"))
    tx.connection.run("DELETE FROM __service_erasure WHERE coupon = ?", input.couponId);
  return {};
}

/**
 * The memories that go with the target, one more than allowed at most. What has expired is still there until a sweep
 * comes by.
 */
function selectRows(view: View, target: Exclude<ErasureTarget, RecordTarget>): readonly ErasedRow[] {
  const { connection } = view;
  const most = limits.erasureMemoriesMax + 1;
  switch (target.kind) {
    case "memory":
      return connection.all("SELECT row, id, type FROM __service_memory WHERE id = ?", target.memoryId);
    case "topic":
      return connection.all(
        "SELECT row, id, type FROM __service_memory WHERE topic_key = ? AND type = ? ORDER BY row LIMIT ?",
        target.topicKey,
        target.type,
        most,
      );
    case "session":
      // A task's fingerprint holds its session, so no other session can have a part in it.
      return connection.all(
        `SELECT m.row, m.id, m.type
         FROM (SELECT memory FROM __service_memory_provenance WHERE session_id = ?
           UNION SELECT row FROM __service_memory WHERE session_id = ? AND type = 'task') AS said
         CROSS JOIN __service_memory AS m ON m.row = said.memory
         WHERE m.type = 'task' OR NOT (m.session_id IS NULL AND m.source IS NULL
           OR EXISTS (SELECT 1 FROM __service_memory_provenance AS other
             WHERE other.memory = m.row AND other.session_id <> ?))
         ORDER BY m.row LIMIT ?`,
        target.sessionId,
        target.sessionId,
        target.sessionId,
        most,
      );
  }
}

/** Takes the session out of the memories that stay, and the session itself. */
function eraseSession(tx: Tx, sessionId: string, turns: boolean): void {
  const { connection } = tx;
  const stay = connection.all<{ memory: number }>(
    "SELECT DISTINCT memory FROM __service_memory_provenance WHERE session_id = ?",
    sessionId,
  );
  connection.run("DELETE FROM __service_memory_provenance WHERE session_id = ?", sessionId);
  for (const { memory } of stay) adopt(tx, memory, sessionId);
  removeSession(tx, sessionId);
  if (turns) eraseTurns(tx, sessionId);
}

/**
 * A memory that first came from the session is said to come from another one that said it too. Which of them was first
 * is not known.
 */
function adopt(tx: Tx, row: number, sessionId: string): void {
  const { connection } = tx;
  const other = connection.get<{ session: string | null; source: string | null }>(
    "SELECT nullif(session_id, '') AS session, nullif(source, '') AS source FROM " +
      "__service_memory_provenance WHERE memory = ? ORDER BY session_id, source LIMIT 1",
    row,
  );
  // It says itself that it came from no session.
  if (!other) return;
  const { changes } = connection.run(
    "UPDATE __service_memory SET session_id = ?, source = ? WHERE row = ? AND session_id = ?",
    other.session,
    other.source,
    row,
    sessionId,
  );
  if (changes === 0) return;
  // The source is one of its words.
  reindexMemory(tx, row);
}

/** Samples of indexed values are values too. Nothing of ours makes them; a file from elsewhere may have some. */
function clearStatistics(tx: Tx): void {
  for (const table of ["sqlite_stat1", "sqlite_stat4"])
    if (tx.connection.hasTable(table)) tx.connection.exec(`DELETE FROM ${table}`);
}

function hashKey(key: Uint8Array): string {
  return hash("sha256", key, "hex");
}

function journalled(view: View, couponId: string, traceKey: Uint8Array): Erased | undefined {
  if (!view.connection.hasTable("__service_erasure")) return undefined;
  const row = view.connection.get<{ result: string }>(
    "SELECT result FROM __service_erasure WHERE coupon = ?",
    couponId,
  );
  if (!row) return undefined;
  const { keyHash, memoryIds, records, kinds, derived, windows, windowsTotal } = JSON.parse(row.result) as JournalEntry;
  // Traces of one key are of no use under another: the search would find nothing and prove nothing.
  if (keyHash !== hashKey(traceKey)) throw new ServiceError("conflict", "the erasure was carried out with another key");
  return {
    found: true,
    memoryIds,
    ...(records && { records }),
    ...(kinds && { kinds }),
    ...(derived !== undefined && { derived }),
    traces: { key: traceKey, windows: new Uint8Array(Buffer.from(windows, "base64")), windowsTotal },
  };
}

function journal(tx: Tx, couponId: string, entry: JournalEntry): void {
  tx.connection.exec(journalSchema);
  tx.connection.run("INSERT INTO __service_erasure (coupon, result) VALUES (?, ?)", couponId, JSON.stringify(entry));
}
