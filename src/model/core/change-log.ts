/**
 * The changes of a branch's transactions, kept in the branch itself: what each one touched, by kinds and names.
 *
 * The newest stand in the state row, whose page every commit writes anyway; when they have outgrown their room there,
 * they move to a table together, so that only one commit in dozens writes a page more. Owns that column and that table,
 * which is made when the first changes move.
 *
 * Always true:
 * - each commit of a file that keeps changes has one entry, of its own transaction; it says which transaction was the
 *   branch's state before, so that a reader sees by the chain alone whether it has missed one, or has seen one that was
 *   lost
 * - no entry holds content
 * - entries older than the point-in-time window go as new ones move to the table; the newest stay however old they are
 *
 * Must not know: who reads, fsync, object storage.
 */
import { ServiceError } from "../../base/faults/errors.ts";
import { decodeUtf8, encodeUtf8 } from "../../base/bytes.ts";
import type { Connection } from "../../sqlite/connection/connection.ts";
import { changeNotesMax, type ChangeNote } from "./change-notes.ts";
import { formatOf, keepingFormat, writeState, writeStateAndChanges, type DatabaseState } from "./database-state.ts";
import type { Tx, View } from "./transaction.ts";

/** Bytes of the newest entries, which the state row holds: it must stay within its page, and small in segments. */
export const newestChangesBytesMax = 1_024;
/** Bytes of the changes of one transaction; of more, some are left out, and the entry says so. */
const entryBytesMax = 256 * 1024;
/** Bytes of all that is kept of a branch, 1 KiB for some dozen writes; beyond it the oldest go. */
const changesBytesMax = 256 * 1024 * 1024;
/** Rows of the table that one commit removes at most: more than the one that it adds. */
const rowsSweptMax = 16;
/** Transactions and bytes of one reading. */
const changesPageMax = 256;
const changesPageBytesMax = 1024 * 1024;

const table = "__service_change";

/** `txid` and `at` are those of the last entry; `total` counts the bytes of all entries up to it. */
const schema = `
CREATE TABLE ${table} (
  txid INTEGER PRIMARY KEY,
  at INTEGER NOT NULL,
  total INTEGER NOT NULL,
  entries TEXT NOT NULL
) STRICT;
`;

/** What the state row says once a transaction is committed, and for how long its changes are kept. */
export interface Seal extends DatabaseState {
  readonly changesKeptMs: number;
}

/** What one transaction changed. */
export interface ChangeEntry {
  readonly txid: number;
  /** The branch's state before it; of a rewind, the state that it went back to. */
  readonly afterTxid: number;
  /** Unix ms. */
  readonly at: number;
  readonly changes: readonly ChangeNote[];
  /** Whether it changed more than is told. */
  readonly isPartial: boolean;
  /** Whether it put the branch back to the state `afterTxid`. */
  readonly isRewind: boolean;
}

/** An entry at rest, as JSON: the flags are 1 for a partial one, and 2 for a rewind. */
type StoredEntry = [txid: number, afterTxid: number, at: number, flags: number, changes: ChangeNote[]];
const partialFlag = 1;
const rewindFlag = 2;

/** Whether the file keeps changes. */
function keepsChanges(connection: Connection): boolean {
  return formatOf(connection) >= keepingFormat;
}

/** Records a transaction inside itself: its place, and what it changed. */
export function sealTransaction(
  connection: Connection,
  seal: Seal,
  notes: readonly string[],
  isRewind: boolean = false,
): void {
  if (!keepsChanges(connection)) return writeState(connection, seal);
  const { txid: afterTxid, changes } = connection.get<{ txid: number; changes: Uint8Array | null }>(
    "SELECT txid, changes FROM __service_state WHERE id = 1",
  )!;
  const newest = [...readLines(changes), encodeEntry(seal, afterTxid, notes, isRewind)].join("\n");
  const bytes = encodeUtf8(newest);
  const isFull = bytes.length > newestChangesBytesMax;
  if (isFull) moveToTable(connection, seal, newest, bytes.length);
  writeStateAndChanges(connection, seal, isFull ? null : bytes);
}

function encodeEntry({ txid, committedAtMs }: Seal, afterTxid: number, notes: readonly string[], isRewind: boolean) {
  let chars = 0;
  const told = notes.slice(0, changeNotesMax);
  const beyond = told.findIndex((one) => (chars += 3 * one.length) > entryBytesMax);
  const kept = beyond < 0 ? told : told.slice(0, beyond);
  const flags = (kept.length < notes.length ? partialFlag : 0) | (isRewind ? rewindFlag : 0);
  return `[${txid},${afterTxid},${committedAtMs},${flags},[${kept.join(",")}]]`;
}

function moveToTable(connection: Connection, seal: Seal, entries: string, bytes: number): void {
  if (!connection.hasTable(table)) connection.exec(schema);
  const { total: before } = connection.get<{ total: number }>(
    `SELECT coalesce((SELECT total FROM ${table} ORDER BY txid DESC LIMIT 1), 0) AS total`,
  )!;
  const total = before + bytes;
  connection.run(
    `INSERT INTO ${table} (txid, at, total, entries) VALUES (?, ?, ?, ?)`,
    seal.txid,
    seal.committedAtMs,
    total,
    entries,
  );
  connection.run(
    `DELETE FROM ${table} WHERE txid IN (SELECT txid FROM ${table} ORDER BY txid LIMIT ?) AND (at < ? OR total <= ?)`,
    rowsSweptMax,
    seal.committedAtMs - seal.changesKeptMs,
    total - changesBytesMax,
  );
}

function readLines(entries: Uint8Array | string | null): readonly string[] {
  const text = entries instanceof Uint8Array ? decodeUtf8(entries)! : (entries ?? "");
  return text === "" ? [] : text.split("\n");
}

function decodeEntry(line: string): ChangeEntry {
  const [txid, afterTxid, at, flags, changes] = JSON.parse(line) as StoredEntry;
  return {
    txid,
    afterTxid,
    at,
    changes,
    isPartial: (flags & partialFlag) !== 0,
    isRewind: (flags & rewindFlag) !== 0,
  };
}

/** A reading of changes: in order, and the transaction to go on after. */
export interface ChangesPage {
  readonly entries: readonly ChangeEntry[];
  readonly position: number;
  /** Whether there are more now. */
  readonly more: boolean;
}

/**
 * What the transactions after this one changed, oldest first; without it, where the branch stands now. `limit` above
 * the most allowed is cut to it. Throws unconfigured where the file keeps no changes, conflict where those that follow
 * are not kept any more, or the branch never had that state.
 */
export function listChanges(view: View, input: { readonly after?: number; readonly limit?: number }): ChangesPage {
  const { connection } = view;
  if (!keepsChanges(connection)) throw keepsNone(connection);
  const { txid, changes } = connection.get<{ txid: number; changes: Uint8Array | null }>(
    "SELECT txid, changes FROM __service_state WHERE id = 1",
  )!;
  const { after } = input;
  if (after === undefined || after >= txid) return { entries: [], position: after ?? txid, more: false };
  const limit = Math.min(input.limit ?? changesPageMax, changesPageMax);
  const entries: ChangeEntry[] = [];
  let position = after;
  let bytes = 0;
  for (const line of linesAfter(view, after, changes)) {
    const entry = decodeEntry(line);
    if (entry.txid <= after) continue;
    bytes += line.length;
    if (entries.length === limit || (bytes > changesPageBytesMax && entries.length > 0))
      return { entries, position, more: true };
    checkChain(position, entry);
    entries.push(entry);
    position = entry.txid;
  }
  return { entries, position, more: false };
}

/** What the transaction changed; undefined where that is not kept, or it is none of the branch's. */
export function findChange(view: View, txid: number): ChangeEntry | undefined {
  const { connection } = view;
  if (!keepsChanges(connection)) throw keepsNone(connection);
  for (const line of linesAfter(view, txid - 1, newestChanges(connection))) {
    const entry = decodeEntry(line);
    if (entry.txid >= txid) return entry.txid === txid ? entry : undefined;
  }
  return undefined;
}

/** Whether a transaction after this one, or the one that is under way, has erased something. */
export function hasErasureAfter(tx: Tx, txid: number): boolean {
  const { connection, notes } = tx;
  // Names are JSON text within an entry, so nothing else in one looks like it.
  const isErasure = (line: string): boolean => line.includes('["erasure",');
  const isLater = (lines: readonly string[]): boolean =>
    lines.some((line) => isErasure(line) && decodeEntry(line).txid > txid);
  if (notes.some(isErasure) || isLater(readLines(newestChanges(connection)))) return true;
  if (!connection.hasTable(table)) return false;
  const rows = connection.prepared(
    `SELECT entries FROM ${table} WHERE txid > ? AND instr(entries, '["erasure",') > 0 ORDER BY txid DESC`,
  );
  for (const { entries } of rows.iterate(txid) as Iterable<{ entries: string }>)
    if (isLater(readLines(entries))) return true;
  return false;
}

function newestChanges(connection: Connection): Uint8Array | null {
  return connection.get<{ changes: Uint8Array | null }>("SELECT changes FROM __service_state WHERE id = 1")!.changes;
}

function keepsNone(connection: Connection): ServiceError {
  return new ServiceError(
    "unconfigured",
    `the database's file is of format ${formatOf(connection)}, which keeps no changes: databases that are made in ` +
      "a store of layout 3 do",
  );
}

/** The entries that may be later than the transaction, and those beside them. */
function* linesAfter({ connection }: View, after: number, newest: Uint8Array | null): Generator<string> {
  for (let last = after; connection.hasTable(table);) {
    const row = connection.get<{ txid: number; entries: string }>(
      `SELECT txid, entries FROM ${table} WHERE txid > ? ORDER BY txid LIMIT 1`,
      last,
    );
    if (!row) break;
    yield* readLines(row.entries);
    last = row.txid;
  }
  yield* readLines(newest);
}

function checkChain(position: number, { afterTxid, isRewind }: ChangeEntry): void {
  if (afterTxid === position || (isRewind && afterTxid < position)) return;
  if (afterTxid > position)
    throw new ServiceError(
      "conflict",
      `what followed transaction ${position} is not kept any more: read the state anew, and go on after ` +
        `transaction ${afterTxid} or a later one`,
    );
  throw new ServiceError(
    "conflict",
    `transaction ${position} is not a state of the branch: it was lost before object storage had it. Read the state ` +
      `anew, and go on after transaction ${afterTxid}`,
  );
}

/** Takes what is erased out of all entries, and out of the transaction's own notes; entries themselves stay. */
export function forgetChanges(tx: Tx, isErased: (change: ChangeNote) => boolean): void {
  const { connection, notes } = tx;
  notes.splice(0, notes.length, ...notes.filter((text) => !isErased(JSON.parse(text) as ChangeNote)));
  if (!keepsChanges(connection)) return;
  const without = (lines: readonly string[]): string | undefined => {
    let found = false;
    const kept = lines.map((line) => {
      connection.look();
      const entry = JSON.parse(line) as StoredEntry;
      const changes = entry[4].filter((change) => !isErased(change));
      if (changes.length === entry[4].length) return line;
      found = true;
      return JSON.stringify([...entry.slice(0, 4), changes]);
    });
    return found ? kept.join("\n") : undefined;
  };
  const { changes } = connection.get<{ changes: Uint8Array | null }>(
    "SELECT changes FROM __service_state WHERE id = 1",
  )!;
  const newest = without(readLines(changes));
  if (newest !== undefined) connection.run("UPDATE __service_state SET changes = ? WHERE id = 1", encodeUtf8(newest));
  if (!connection.hasTable(table)) return;
  for (let last = 0; ;) {
    const row = connection.get<{ txid: number; entries: string }>(
      `SELECT txid, entries FROM ${table} WHERE txid > ? ORDER BY txid LIMIT 1`,
      last,
    );
    if (!row) return;
    const entries = without(readLines(row.entries));
    if (entries !== undefined) connection.run(`UPDATE ${table} SET entries = ? WHERE txid = ?`, entries, row.txid);
    last = row.txid;
  }
}
