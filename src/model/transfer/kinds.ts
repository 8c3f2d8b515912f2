/**
 * Every kind of record, in the order of an export, and what becomes of every table of a database.
 *
 * Always true: each reserved table, and each of its columns, is either in a record or left out here with its reason;
 * test/contract/transfer-tables.test.ts compares this with the schema. Whoever adds a table or a column adds it to the
 * kind that it belongs to, or to `leftOut`.
 */
import { collectionRecords, docRecords } from "./doc-records.ts";
import { fileRecords } from "./file-records.ts";
import { kvRecords } from "./kv-records.ts";
import { memoryRecords } from "./memory-records.ts";
import type { RecordKind } from "./record.ts";
import { floorRecords, sessionRecords, turnRecords } from "./session-records.ts";
import { sqlLaterRecords, type SqlRecordKind, sqlRowRecords, sqlTableRecords } from "./sql-records.ts";
import { spaceRecords, vectorRecords } from "./vector-records.ts";

/**
 * What comes later may name what came before: vectors their space, documents their collection, memories the turns that
 * they were derived from; of sessions it is asked whether they are used.
 */
export const recordKinds: readonly RecordKind[] = [
  spaceRecords,
  turnRecords,
  memoryRecords,
  sessionRecords,
  floorRecords,
  fileRecords,
  kvRecords,
  collectionRecords,
  docRecords,
  vectorRecords,
  sqlTableRecords,
  sqlRowRecords,
  sqlLaterRecords,
];

const byName: ReadonlyMap<string, RecordKind> = new Map(recordKinds.map((kind) => [kind.kind, kind]));

/** The kind of the name. */
export function findKind(name: string): RecordKind | undefined {
  return byName.get(name);
}

/** The kind of the name, if its records are written by user SQL. */
export function findSqlKind(name: string): SqlRecordKind | undefined {
  const kind = byName.get(name);
  return kind && "toSql" in kind ? (kind as SqlRecordKind) : undefined;
}

/** Tables that no record holds, by the form of their names, and why. `#` stands for a number. */
export const leftOut: Readonly<Record<string, string>> = {
  __service_state: "how far the database itself has come",
  __service_memory_fingerprint: "an index; follows from the memories",
  "__service_docidx_#": "an index; follows from the documents",
  __service_memory_text: "words; follow from the memories",
  __service_turn_text: "words; follow from the turns",
  __service_file_words: "words; follow from the files",
  __service_turn_operation: "answers of calls that may be repeated, for a day",
  __service_idempotency: "answers of calls that may be repeated, for a day",
  __service_change: "which transactions of the branch changed what; another database has its own",
  __service_erasure: "notes of erasures of this database that are under way",
};
