/**
 * A log that is begun before its database's first write.
 *
 * Why: with the first frame of a new log SQLite syncs the log's header and the folder's entry of it, both of which the
 * first write of a new database would wait for.
 *
 * Always true: the frame is a commit that changes nothing, so that the file is in the same state with it and without,
 * and whoever counts commits from the log's end finds those of writes where they are. Must not know: what the database
 * is for.
 */
import { assert } from "../../base/faults/assert.ts";
import { writeState } from "../../model/schema.ts";
import type { Opened } from "./opened-file.ts";

/** Begins the log of a database to which nothing was ever written; its reader goes on behind what that writes. */
export function prepareLog({ connection, log, state }: Pick<Opened, "connection" | "log" | "state">): void {
  assert(state.txid === 0 && log.offset === 0, "a log is prepared before the first write");
  connection.exec("BEGIN IMMEDIATE");
  try {
    // SQLite writes no page for a row that stays as it is: the row changes, and changes back.
    writeState(connection, { ...state, txid: 1 });
    writeState(connection, state);
    connection.exec("COMMIT");
  } catch (error) {
    connection.rollBack();
    throw error;
  }
  log.skip(1);
}
