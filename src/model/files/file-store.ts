/**
 * The tables of files: the present tree, the versions of each path, and their texts.
 *
 * Owns its tables, which are made when the first file is put: earlier files stay as they are and are still read.
 * Always true: a row of the tree is the newest version of its path and has a text; a text belongs to a version and goes
 * with the last one, so that a move copies none; nothing is both a file and a folder; a path keeps no more versions
 * than its bounds. Must not know: what a call asks, how words are ranked.
 */
import { utf8Length } from "../../base/bytes.ts";
import { ServiceError } from "../../base/faults/errors.ts";
import type { Connection, SqlParameter } from "../../sqlite/connection/connection.ts";
import { putSubject, subjectOf } from "../core/subjects.ts";
import { note } from "../core/change-notes.ts";
import type { Tx, View } from "../core/transaction.ts";
import { foldersOf, rangeBelow } from "./file-path.ts";
import { indexFile, unindexFile } from "./file-words.ts";

/** Versions that a path keeps, its present one included. */
export const fileVersionsMax = 100;
/** Bytes of the versions of a path before its newest: so much a purge of it writes at most. */
export const fileVersionsBytesMax = 16 * 1024 * 1024;

const schema = `
CREATE TABLE __service_file_text (row INTEGER PRIMARY KEY, text TEXT NOT NULL) STRICT;
CREATE TABLE __service_file_version (
  row INTEGER PRIMARY KEY,
  path TEXT NOT NULL,
  version INTEGER NOT NULL,
  change TEXT NOT NULL,
  other_path TEXT,
  txid INTEGER NOT NULL,
  written_at INTEGER NOT NULL,
  hash TEXT,
  size INTEGER,
  text INTEGER,
  UNIQUE (path, version)
) STRICT;
CREATE INDEX __service_file_version_text ON __service_file_version (text) WHERE text IS NOT NULL;
CREATE TABLE __service_file (path TEXT PRIMARY KEY, row INTEGER NOT NULL UNIQUE) STRICT, WITHOUT ROWID;
`;

/** What made a version. */
export type FileChange = "written" | "moved_here" | "moved_away" | "deleted";

/** A version as its row says it; hash, size and text are those of a file that is there. */
export interface VersionRow {
  readonly row: number;
  readonly path: string;
  readonly version: number;
  readonly change: FileChange;
  readonly otherPath: string | null;
  readonly txid: number;
  readonly writtenAt: number;
  readonly hash: string | null;
  readonly size: number | null;
  readonly text: number | null;
}

/** A version that has a text. */
export interface FileRow extends VersionRow {
  readonly hash: string;
  readonly size: number;
  readonly text: number;
}

const columns =
  "v.row, v.path, v.version, v.change, v.other_path AS otherPath, v.txid, v.written_at AS writtenAt, " +
  "v.hash, v.size, v.text";

/** Whether a file was ever put into the database. */
export function hasFiles(connection: Connection): boolean {
  return connection.hasTable("__service_file");
}

/** The file at the path. */
export function findFile({ connection }: View, path: string): FileRow | undefined {
  if (!hasFiles(connection)) return undefined;
  return connection.get<FileRow>(
    `SELECT ${columns} FROM __service_file AS f CROSS JOIN __service_file_version AS v ON v.row = f.row
     WHERE f.path = ?`,
    path,
  );
}

/** Files from a path on, `isAfter` those behind it only, before `end`, by path. */
export function filesFrom(
  { connection }: View,
  { from, isAfter, end, most }: { from: string; isAfter: boolean; end: string | undefined; most: number },
): readonly FileRow[] {
  if (!hasFiles(connection)) return [];
  const bounds: SqlParameter[] = end === undefined ? [from] : [from, end];
  return connection.all<FileRow>(
    `SELECT ${columns} FROM __service_file AS f CROSS JOIN __service_file_version AS v ON v.row = f.row
     WHERE f.path ${isAfter ? ">" : ">="} ?${end === undefined ? "" : " AND f.path < ?"} ORDER BY f.path LIMIT ?`,
    ...bounds,
    most,
  );
}

/** The file at the path, or the files below it; `most` at most. */
export function filesAt(view: View, path: string, most: number): readonly FileRow[] {
  const file = findFile(view, path);
  return file ? [file] : filesFrom(view, { ...rangeBelow(path), isAfter: false, most });
}

/** The kept versions of the path, newest first. */
export function versionsOf({ connection }: View, path: string): readonly VersionRow[] {
  if (!hasFiles(connection)) return [];
  return connection.all<VersionRow>(
    `SELECT ${columns} FROM __service_file_version AS v WHERE v.path = ? ORDER BY v.version DESC`,
    path,
  );
}

/** Every version that is kept. */
export function allVersions({ connection }: View): Iterable<VersionRow> {
  if (!hasFiles(connection)) return [];
  return connection.prepared(`SELECT ${columns} FROM __service_file_version AS v`).iterate() as Iterable<VersionRow>;
}

/** Paths that have versions, the one itself and those below it; `most` at most. */
export function pathsWithVersions({ connection }: View, path: string, most: number): readonly string[] {
  if (!hasFiles(connection)) return [];
  const { from, end } = rangeBelow(path);
  return connection
    .all<{ path: string }>(
      `SELECT DISTINCT path FROM __service_file_version WHERE path = ?
       UNION ALL SELECT * FROM (SELECT DISTINCT path FROM __service_file_version WHERE path >= ? AND path < ?
         ORDER BY path LIMIT ?) LIMIT ?`,
      path,
      from,
      end!,
      most,
      most,
    )
    .map((row) => row.path);
}

/** The text of a version. */
export function readText({ connection }: View, { text }: FileRow, charsMax?: number): string {
  const wanted = charsMax === undefined ? "text" : `substr(text, 1, ${charsMax}) AS text`;
  return connection.get<{ text: string }>(`SELECT ${wanted} FROM __service_file_text WHERE row = ?`, text)!.text;
}

/** Refuses a path that runs through a file, or that is a folder. */
export function checkPlace(view: View, path: string): void {
  for (const folder of foldersOf(path))
    if (findFile(view, folder))
      throw new ServiceError("conflict", "a part of the path before its last is a file; nothing can be below a file");
  if (filesFrom(view, { ...rangeBelow(path), isAfter: false, most: 1 }).length > 0)
    throw new ServiceError("conflict", "there is a folder at the path; a file needs another name");
}

/** Makes the text the newest version of the path. The place must have been checked. */
export function putText(tx: Tx, path: string, text: string, textHash: string, subject?: string): FileRow {
  const { connection } = tx;
  if (!hasFiles(connection)) connection.exec(schema);
  const stored = Number(
    connection.get<{ row: number }>("INSERT INTO __service_file_text (text) VALUES (?) RETURNING row", text)!.row,
  );
  const entered = enter(tx, path, "written", undefined, { hash: textHash, size: utf8Length(text), text: stored });
  putSubject(tx, { kind: "file", owner: entered.row }, subject);
  return entered;
}

/** Gives a path the text of a file that was just taken away from another. */
export function putMoved(tx: Tx, path: string, from: FileRow): void {
  const { row } = enter(tx, path, "moved_here", from.path, from);
  // Of another's file that was in its way nothing goes on.
  putSubject(tx, { kind: "file", owner: row }, subjectOf(tx, { kind: "file", owner: from.row }) ?? "");
}

/** A version as it was written in another state: the rest of its row follows from it. */
export interface RestoredVersion extends Pick<VersionRow, "path" | "version" | "change" | "otherPath" | "writtenAt"> {
  readonly text: string | undefined;
  readonly subject: string | undefined;
}

/** Writes a version that is not there, or in the place of the one that is. The path must have been checked. */
export function restoreVersion(
  tx: Tx,
  { text, subject = "", ...version }: RestoredVersion,
  textHash: string | undefined,
): void {
  const { connection } = tx;
  if (!hasFiles(connection)) connection.exec(schema);
  const { path } = version;
  const before = findFile(tx, path);
  note(tx, "file", version.change, path);
  const replaced = versionsOf(tx, path).find((one) => one.version === version.version);
  if (replaced) removeVersion(tx, replaced);
  const stored =
    text === undefined
      ? null
      : connection.get<{ row: number }>("INSERT INTO __service_file_text (text) VALUES (?) RETURNING row", text)!.row;
  const { lastInsertRowid } = connection.run(
    `INSERT INTO __service_file_version (path, version, change, other_path, txid, written_at, hash, size, text)
     VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`,
    ...[path, version.version, version.change, version.otherPath, tx.txid, version.writtenAt],
    ...[textHash ?? null, text === undefined ? null : utf8Length(text), stored],
  );
  putSubject(tx, { kind: "file", owner: lastInsertRowid }, subject);
  const [newest] = versionsOf(tx, path);
  if (before?.row === newest?.row) return trim(tx, path);
  if (before) unindexFile(tx, before.row);
  connection.run("DELETE FROM __service_file WHERE path = ?", path);
  if (newest && newest.text !== null) {
    connection.run("INSERT INTO __service_file (path, row) VALUES (?, ?)", path, newest.row);
    indexFile(tx, newest.row, newest.size! + path.length);
  }
  trim(tx, path);
}

/** Ends the file; its versions stay. */
export function endFile(tx: Tx, file: FileRow, change: "moved_away" | "deleted", otherPath?: string): void {
  tx.connection.run("DELETE FROM __service_file WHERE path = ?", file.path);
  unindexFile(tx, file.row);
  const { row } = addVersion(tx, file.path, change, otherPath, undefined);
  inheritSubject(tx, row, file.row);
  note(tx, "file", change, file.path);
  trim(tx, file.path);
}

/** Removes all versions of the path, and the file itself. Gives how many versions there were. */
export function purgePath(tx: Tx, path: string): number {
  const file = findFile(tx, path);
  if (file) {
    tx.connection.run("DELETE FROM __service_file WHERE path = ?", path);
    unindexFile(tx, file.row);
  }
  const versions = versionsOf(tx, path);
  for (const version of versions) removeVersion(tx, version);
  if (versions.length > 0) note(tx, "file", "purged", path);
  return versions.length;
}

/** Takes the path out of versions of others, which were moved from it or to it. */
export function unnamePath(tx: Tx, path: string): void {
  tx.connection.run("UPDATE __service_file_version SET other_path = NULL WHERE other_path = ?", path);
}

type Held = Pick<FileRow, "hash" | "size" | "text">;

function enter(tx: Tx, path: string, change: FileChange, otherPath: string | undefined, held: Held): FileRow {
  const before = findFile(tx, path);
  const entered = addVersion(tx, path, change, otherPath, held) as FileRow;
  if (before) inheritSubject(tx, entered.row, before.row);
  note(tx, "file", change, path);
  tx.connection.run(
    "INSERT INTO __service_file (path, row) VALUES (?, ?) ON CONFLICT (path) DO UPDATE SET row = excluded.row",
    path,
    entered.row,
  );
  if (before) unindexFile(tx, before.row);
  indexFile(tx, entered.row, held.size + path.length);
  trim(tx, path);
  return entered;
}

function addVersion(
  tx: Tx,
  path: string,
  change: FileChange,
  otherPath: string | undefined,
  held: Held | undefined,
): VersionRow {
  return tx.connection.get<VersionRow>(
    `INSERT INTO __service_file_version AS v (path, version, change, other_path, txid, written_at, hash, size, text)
     VALUES (?, 1 + coalesce((SELECT max(version) FROM __service_file_version WHERE path = ?), 0),
       ?, ?, ?, ?, ?, ?, ?) RETURNING ${columns.replaceAll("v.", "")}`,
    path,
    path,
    change,
    otherPath ?? null,
    tx.txid,
    tx.nowMs,
    held?.hash ?? null,
    held?.size ?? null,
    held?.text ?? null,
  )!;
}

/** A version is about whom the one before it is about. */
function inheritSubject(tx: Tx, row: number, from: number): void {
  putSubject(tx, { kind: "file", owner: row }, subjectOf(tx, { kind: "file", owner: from }));
}

/** Removes these versions, and the files whose text they are; a path without any others is named nowhere afterwards. */
export function removeVersions(tx: Tx, versions: readonly VersionRow[]): void {
  for (const version of versions) {
    const { changes } = tx.connection.run("DELETE FROM __service_file WHERE row = ?", version.row);
    if (changes > 0) unindexFile(tx, version.row);
    removeVersion(tx, version);
    if (versionsOf(tx, version.path).length === 0) unnamePath(tx, version.path);
  }
}

/** The versions of the rows in the JSON list. */
export function versionsAt({ connection }: View, rows: string): readonly VersionRow[] {
  return connection.all<VersionRow>(
    `SELECT ${columns} FROM json_each(?) AS asked CROSS JOIN __service_file_version AS v ON v.row = asked.value
     ORDER BY v.path, v.version`,
    rows,
  );
}

/** Lets the oldest versions go that are beyond the bounds. */
function trim(tx: Tx, path: string): void {
  let bytes = 0;
  versionsOf(tx, path).forEach((version, at) => {
    if (at > 0) bytes += version.size ?? 0;
    if (at >= fileVersionsMax || bytes > fileVersionsBytesMax) removeVersion(tx, version);
  });
}

function removeVersion({ connection }: Tx, { row, text }: VersionRow): void {
  connection.run("DELETE FROM __service_file_version WHERE row = ?", row);
  if (text !== null)
    connection.run(
      "DELETE FROM __service_file_text WHERE row = ? AND NOT EXISTS " +
        "(SELECT 1 FROM __service_file_version AS v WHERE v.text = ?)",
      text,
      text,
    );
}

/** SQL that finds what belongs to no file or version; undefined while no file was ever put. */
export function strayFiles(connection: Connection): string | undefined {
  if (!hasFiles(connection)) return undefined;
  return `SELECT 1 FROM __service_file_text WHERE row NOT IN
      (SELECT text FROM __service_file_version WHERE text IS NOT NULL)
    UNION ALL SELECT 1 FROM __service_file WHERE row NOT IN (SELECT row FROM __service_file_version)
    LIMIT 1`;
}
