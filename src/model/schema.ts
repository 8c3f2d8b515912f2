/**
 * The reserved tables of every database, all named with the prefix that user SQL may not touch.
 *
 * Each data model owns its DDL; this file owns the one row that says how far the database has come. The transaction id
 * lives in the pages, so that whoever has the file knows its position without any side file.
 */
import { StoreError } from "../base/errors.ts";
import type { Connection } from "../sqlite/connection.ts";
import { docsSchema } from "./docs.ts";
import { kvSchema } from "./kv.ts";
import { memorySchema } from "./memory-schema.ts";
import { vectorsSchema } from "./vectors.ts";

/** Raised when a table changes; a newer file than the program knows is refused, never guessed at. */
export const schemaFormat = 1;

const stateSchema = `
  CREATE TABLE __service_state (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    format INTEGER NOT NULL,
    txid INTEGER NOT NULL,
    committed_at INTEGER NOT NULL
  ) STRICT;
  INSERT INTO __service_state (id, format, txid, committed_at) VALUES (1, ${schemaFormat}, 0, 0);
`;

/** Creates every reserved table in an empty database, at transaction id 0. */
export function createSchema(connection: Connection): void {
  connection.exec(`BEGIN; ${stateSchema} ${memorySchema} ${kvSchema} ${docsSchema} ${vectorsSchema} COMMIT;`);
}

export interface DatabaseState {
  readonly txid: number;
  /** Unix ms of the last commit; commit times never go back, whatever the clock does. */
  readonly committedAtMs: number;
}

/** Where the database stands. Throws StoreError("corrupt") when the file is not one of ours, or too new. */
export function readState(connection: Connection): DatabaseState {
  const row = connection.get<{ format: number; txid: number; committed_at: number }>(
    "SELECT format, txid, committed_at FROM __service_state WHERE id = 1",
  );
  if (row === undefined) throw new StoreError("corrupt", "the database file has no state row");
  if (row.format !== schemaFormat) {
    throw new StoreError("corrupt", `the database file has format ${row.format}; this build reads ${schemaFormat}`);
  }
  return { txid: row.txid, committedAtMs: row.committed_at };
}

/** Records the group's transaction id inside the group's own transaction. */
export function writeState(connection: Connection, state: DatabaseState): void {
  connection.run("UPDATE __service_state SET txid = ?, committed_at = ? WHERE id = 1", state.txid, state.committedAtMs);
}
