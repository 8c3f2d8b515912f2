/**
 * The reserved tables of every database, all named with the prefix that user SQL may not touch.
 *
 * Each data model owns its DDL; this file owns the one row that says how far the database has come. The transaction id
 * lives in the pages, so that the file alone tells its position, without any side file.
 */
import { StoreError } from "../base/faults/errors.ts";
import type { Connection } from "../sqlite/connection/connection.ts";
import { keepingFormat, schemaFormat, writerEpochIdBytes } from "./core/database-state.ts";
import { docsSchema } from "./docs/docs.ts";
import { kvSchema } from "./kv/kv.ts";
import { memorySchema } from "./memory/memory-schema.ts";
import { vectorsSchema } from "./vectors/vectors.ts";

export { readState, schemaFormat, decodeStatePage, writeState, type DatabaseState } from "./core/database-state.ts";

/** One row that never outgrows its page: the root page of the table is all of it, for as long as the file lives. */
const stateSchema = (format: number): string => `
  CREATE TABLE __service_state (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    format INTEGER NOT NULL,
    txid INTEGER NOT NULL,
    committed_at INTEGER NOT NULL,
    tenure BLOB CHECK (length(tenure) = ${writerEpochIdBytes})${format < keepingFormat ? "" : ",\n    changes BLOB"}
  ) STRICT;
  INSERT INTO __service_state (id, format, txid, committed_at, tenure) VALUES (1, ${format}, 0, 0, NULL);
`;

/** Creates every reserved table of the format, by default the newest, in an empty database, at transaction id 0. */
export function createSchema(connection: Connection, format: number = schemaFormat): void {
  const tables = [stateSchema(format), memorySchema(format), kvSchema, docsSchema, vectorsSchema];
  connection.exec(`BEGIN; ${tables.join(" ")} COMMIT;`);
}

/** The page that holds the state row, the same for the life of the file: every commit has an image of it. */
export function stateRootPage(connection: Connection): number {
  const row = connection.get<{ rootpage: number }>(
    "SELECT rootpage FROM sqlite_schema WHERE type = 'table' AND name = '__service_state'",
  );
  if (row === undefined) throw new StoreError("corrupt", "the database file has no state table");
  return row.rootpage;
}
