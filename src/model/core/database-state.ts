/**
 * How far a database is, by its one state row: read and written by SQL, or read from the image of its page.
 *
 * Always true: what is handed out is a state of this build's format. Must not know: the data models' tables, so that a
 * thread without any data model can read it.
 */
import { assert } from "../../base/faults/assert.ts";
import { StoreError } from "../../base/faults/errors.ts";
import { formats, requireVersion } from "../../format/core/versions.ts";
import type { Connection } from "../../sqlite/connection/connection.ts";
import { readSingleRow, type StoredValue } from "../../sqlite/pages/record.ts";

/**
 * The newest. Raised when a table changes; a newer file than the program knows is refused, never guessed at. Files are
 * made in the format that the store's layout says (format/core/versions).
 */
export const schemaFormat = Math.max(...formats.database.writes);

/**
 * From this format on memories are indexed in batches, and what a memory says of its own origin is not said twice
 * (model/memory).
 */
const batchedFormat = 2;

/** From this format on the row also holds the newest changes (model/core/change-log). */
export const keepingFormat = 3;

/** Length of a claim's id. */
export const writerEpochIdBytes = 16;

export interface DatabaseState {
  readonly txid: number;
  /** Unix ms of the last commit; commit times never go back, whatever the clock does. */
  readonly committedAtMs: number;
  /**
   * The id of the writer epoch under which the commit was made, 16 bytes; undefined until a writer has claimed the
   * branch. At rest the column is called `tenure`.
   */
  readonly writerEpochId: Uint8Array | undefined;
}

function isCount(value: unknown): value is number {
  return Number.isSafeInteger(value) && (value as number) >= 0;
}

/** The row as a state, however it was read. */
function decodeState(
  format: StoredValue,
  txid: StoredValue,
  committedAtMs: StoredValue,
  writerEpochId: StoredValue,
): DatabaseState {
  requireVersion(formats.database, format);
  if (!isCount(txid) || !isCount(committedAtMs))
    throw new StoreError("corrupt", "the state row has no transaction id or no time");
  if (writerEpochId === null) return { txid, committedAtMs, writerEpochId: undefined };
  if (!(writerEpochId instanceof Uint8Array) || writerEpochId.length !== writerEpochIdBytes)
    throw new StoreError("corrupt", "the state row has no sound writer epoch");
  return { txid, committedAtMs, writerEpochId: new Uint8Array(writerEpochId) };
}

/**
 * The state that the database is in. Throws StoreError("corrupt") when the file is not one of ours, NewerFormat when it
 * is too new.
 */
export function readState(connection: Connection): DatabaseState {
  const row = connection.get<{ format: number; txid: number; committed_at: number; tenure: Uint8Array | null }>(
    "SELECT format, txid, committed_at, tenure FROM __service_state WHERE id = 1",
  );
  if (row === undefined) throw new StoreError("corrupt", "the database file has no state row");
  return decodeState(row.format, row.txid, row.committed_at, row.tenure);
}

const known = new WeakMap<Connection, number>();

/** The format of the file, which never changes while it is open. */
export function formatOf(connection: Connection): number {
  let format = known.get(connection);
  if (format === undefined) {
    ({ format } = connection.get<{ format: number }>("SELECT format FROM __service_state WHERE id = 1")!);
    known.set(connection, format);
  }
  return format;
}

/** Whether the file is of a format that indexes in batches. */
export function isBatched(connection: Connection): boolean {
  return formatOf(connection) >= batchedFormat;
}

/** Records the group's transaction id inside the group's own transaction; what is kept of changes stays as it is. */
export function writeState(connection: Connection, state: DatabaseState): void {
  connection.run(
    "UPDATE __service_state SET txid = ?, committed_at = ?, tenure = ? WHERE id = 1",
    ...stateColumns(state),
  );
}

/** The same of a file that keeps changes, with the newest of them. */
export function writeStateAndChanges(connection: Connection, state: DatabaseState, changes: Uint8Array | null): void {
  connection.run(
    "UPDATE __service_state SET txid = ?, committed_at = ?, tenure = ?, changes = ? WHERE id = 1",
    ...stateColumns(state),
    changes,
  );
}

function stateColumns({ txid, committedAtMs, writerEpochId }: DatabaseState) {
  assert(isCount(txid) && isCount(committedAtMs), "a state is a count of commits and a time");
  return [txid, committedAtMs, writerEpochId ?? null] as const;
}

/**
 * The state in an image of that page: what `readState` says of the database as it was then. Throws
 * StoreError("corrupt").
 */
export function decodeStatePage(page: Uint8Array): DatabaseState {
  const { rowid, values } = readSingleRow(page);
  const [id, format, txid, committedAtMs, writerEpochId, ...more] = values;
  const columnsMore = typeof format === "number" && format >= keepingFormat ? 1 : 0;
  if (rowid !== 1 || id !== null || writerEpochId === undefined || more.length !== columnsMore)
    throw new StoreError("corrupt", "the page does not hold the state row");
  return decodeState(format!, txid!, committedAtMs!, writerEpochId);
}
