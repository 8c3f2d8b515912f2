/**
 * Files: texts under paths, put, read, edited, listed and searched.
 *
 * Always true: what a caller expects of a file is checked in the transaction that changes it; a write that changes
 * nothing makes no version. Must not know: HTTP, erasure.
 */
import { decodeUtf8, encodeUtf8 } from "../../base/bytes.ts";
import { invalid, ServiceError } from "../../base/faults/errors.ts";
import { limits } from "../../base/limits.ts";
import { checkText } from "../../format/core/names.ts";
import { checkExpected, hashOf, type Expected } from "../core/expected.ts";
import { putSubject, subjectOf } from "../core/subjects.ts";
import type { Tx, View } from "../core/transaction.ts";
import { applyEdits, checkFileText, type FileEdit } from "./file-edits.ts";
import { countLines, sliceLines } from "./file-lines.ts";
import { findPassage, type FilePassage } from "./file-passage.ts";
import { checkFilePath, checkFolder, rangeBelow } from "./file-path.ts";
import {
  checkPlace,
  filesFrom,
  findFile,
  hasFiles,
  readText,
  versionsOf,
  putText,
  type FileChange,
  type FileRow,
} from "./file-store.ts";
import { searchFileWords } from "./file-words.ts";

export const filesListDefault = 100;
const filesListMax = 1_000;
export const filesFoundDefault = 10;
export const filesFoundMax = 100;

export interface WrittenFile {
  readonly path: string;
  readonly version: number;
  readonly hash: string;
  readonly size: number;
  readonly created: boolean;
}

/** Refuses a file that is not what the caller expects. */
export function checkExpectedFile(file: FileRow | undefined, expected: Expected): void {
  checkExpected(file && (() => file.hash), expected, { one: "file", where: "at the path" });
}

export function putFile(
  tx: Tx,
  input: Expected & { readonly path: string; readonly text: string; readonly subject?: string },
): WrittenFile {
  const path = checkFilePath("path", input.path);
  checkFileText("text", input.text);
  const before = findFile(tx, path);
  checkExpectedFile(before, input);
  if (!before) checkPlace(tx, path);
  return store(tx, path, input.text, before, input.subject);
}

export function editFile(
  tx: Tx,
  input: Pick<Expected, "ifMatch"> & { readonly path: string; readonly edits: readonly FileEdit[] },
): WrittenFile {
  const path = checkFilePath("path", input.path);
  const before = findFile(tx, path);
  checkExpectedFile(before, input);
  if (!before) throw absent();
  return store(
    tx,
    path,
    applyEdits(readText(tx, before), input.edits, () => tx.connection.look()),
    before,
  );
}

function store(tx: Tx, path: string, text: string, before: FileRow | undefined, subject?: string): WrittenFile {
  const hash = hashOf(text);
  if (before?.hash === hash) putSubject(tx, { kind: "file", owner: before.row }, subject);
  const { version, size } = before?.hash === hash ? before : putText(tx, path, text, hash, subject);
  return { path, version, hash, size, created: before === undefined };
}

export interface ReadFile {
  readonly path: string;
  readonly text: string;
  readonly version: number;
  readonly hash: string;
  readonly size: number;
  readonly lines: number;
  readonly updatedAt: number;
  /** Whom the version is about; absent where that was not said. */
  readonly subject?: string;
}

interface GetInput {
  readonly path: string;
  readonly version?: number;
  readonly firstLine?: number;
  readonly lastLine?: number;
}

/** The file, or a version of it. Throws not_found. */
export function getFile(view: View, { path: given, version, firstLine = 1, lastLine }: GetInput): ReadFile {
  const path = checkFilePath("path", given);
  if (firstLine < 1 || (lastLine !== undefined && lastLine < firstLine))
    throw invalid("first_line must be from 1, and last_line not before it");
  const file = version === undefined ? findFile(view, path) : findVersion(view, path, version);
  if (!file) throw absent();
  const whole = readText(view, file);
  const subject = subjectOf(view, { kind: "file", owner: file.row });
  return {
    path,
    text: firstLine === 1 && lastLine === undefined ? whole : sliceLines(whole, firstLine, lastLine ?? Infinity),
    version: file.version,
    hash: file.hash,
    size: file.size,
    lines: countLines(whole),
    updatedAt: file.writtenAt,
    ...(subject !== undefined && { subject }),
  };
}

function findVersion(view: View, path: string, wanted: number): FileRow {
  const versions = versionsOf(view, path);
  const found = versions.find(({ version }) => version === wanted);
  if (found?.text === null) throw new ServiceError("not_found", `version ${wanted} has no text: the file was ended`);
  if (found) return found as FileRow;
  const kept = versions.length > 0 ? `; kept are ${versions.at(-1)!.version} to ${versions[0]!.version}` : "";
  throw new ServiceError("not_found", `version ${wanted} of the path is not kept${kept}`);
}

export function absent(): ServiceError {
  return new ServiceError("not_found", "there is no file at the path");
}

export interface ListedEntry {
  readonly path: string;
  readonly kind: "file" | "folder";
  readonly version?: number;
  readonly hash?: string;
  readonly size?: number;
  readonly updatedAt?: number;
}

interface ListInput {
  readonly folder: string;
  readonly recursive: boolean;
  readonly limit: number;
  readonly cursor?: string;
}

/** The entries of a folder, or all files below it. A folder in it is found by one look, and skipped by another. */
export function listFiles(
  view: View,
  { folder: given, recursive, limit, cursor }: ListInput,
): { readonly entries: readonly ListedEntry[]; readonly nextCursor?: string } {
  const folder = checkFolder(given);
  if (!Number.isInteger(limit) || limit < 1)
    throw invalid(`limit must be a whole number from 1; at most ${filesListMax} entries are on a page`);
  const page = Math.min(limit, filesListMax);
  const range = rangeBelow(folder);
  const after = cursor === undefined ? undefined : decodeCursor(cursor, range.from);
  const entries = recursive ? listAll(view, range, after, page + 1) : listLevel(view, range, after, page + 1);
  if (entries.length <= page) return { entries };
  const last = entries[page - 1]!;
  const place = last.kind === "folder" ? `${last.path}/` : last.path;
  return { entries: entries.slice(0, page), nextCursor: Buffer.from(encodeUtf8(place)).toString("base64url") };
}

type Range = ReturnType<typeof rangeBelow>;

function listAll(view: View, { from, end }: Range, after: string | undefined, most: number): readonly ListedEntry[] {
  return filesFrom(view, { from: after ?? from, isAfter: after !== undefined, end, most }).map(listed);
}

function listLevel(view: View, { from, end }: Range, after: string | undefined, most: number): readonly ListedEntry[] {
  const entries: ListedEntry[] = [];
  // A folder's name in a cursor ends with a slash: what is below it was listed with it.
  let place = after?.endsWith("/") ? skip(after) : { from: after ?? from, isAfter: after !== undefined };
  while (entries.length < most) {
    const [file] = filesFrom(view, { ...place, end, most: 1 });
    if (!file) break;
    const slash = file.path.indexOf("/", from.length);
    if (slash < 0) {
      entries.push(listed(file));
      place = { from: file.path, isAfter: true };
    } else {
      entries.push({ path: file.path.slice(0, slash), kind: "folder" });
      place = skip(file.path.slice(0, slash + 1));
    }
  }
  return entries;
}

/** Behind everything below a folder, which is given with its slash. */
function skip(folder: string): { readonly from: string; readonly isAfter: false } {
  return { from: rangeBelow(folder.slice(0, -1)).end!, isAfter: false };
}

function listed({ path, version, hash, size, writtenAt }: FileRow): ListedEntry {
  return { path, kind: "file", version, hash, size, updatedAt: writtenAt };
}

function decodeCursor(cursor: string, from: string): string {
  const bytes = Buffer.from(cursor, "base64url");
  const place = decodeUtf8(bytes);
  if (place === undefined || place === "" || bytes.toString("base64url") !== cursor || !place.startsWith(from))
    throw invalid("cursor must be one that a listing of this folder gave");
  return place;
}

export interface ListedVersion {
  readonly version: number;
  readonly change: FileChange;
  readonly otherPath?: string;
  readonly writtenTxid: number;
  readonly writtenAt: number;
  readonly hash?: string;
  readonly size?: number;
}

/** The kept versions of a path, newest first. */
export function listFileVersions(
  view: View,
  input: { readonly path: string },
): { readonly versions: readonly ListedVersion[] } {
  const versions = versionsOf(view, checkFilePath("path", input.path));
  return {
    versions: versions.map(({ version, change, otherPath, txid, writtenAt, hash, size }) => ({
      version,
      change,
      ...(otherPath === null ? {} : { otherPath }),
      writtenTxid: txid,
      writtenAt,
      ...(hash === null ? {} : { hash, size: size! }),
    })),
  };
}

export interface FoundFile {
  readonly path: string;
  readonly score: number;
  readonly hash: string;
  readonly passage?: FilePassage;
}

/** The files that the query is about, best first. */
export function searchFiles(
  view: View,
  input: { readonly query: string; readonly folder: string; readonly k: number },
): { readonly hits: readonly FoundFile[] } {
  const { connection } = view;
  const folder = checkFolder(input.folder);
  const query = checkText("query", input.query, limits.recallQueryBytesMax);
  if (!Number.isInteger(input.k) || input.k < 1 || input.k > filesFoundMax)
    throw invalid(`k must be a whole number from 1 to ${filesFoundMax}`);
  if (!hasFiles(connection)) return { hits: [] };
  const { hits, matchedTerms } = searchFileWords(view, { query, folder, want: input.k, coverageMin: undefined });
  return {
    hits: hits.map(({ row, score }) => {
      connection.look();
      const { path } = connection.get<{ path: string }>("SELECT path FROM __service_file_version WHERE row = ?", row)!;
      const file = findFile(view, path)!;
      const passage = findPassage(readText(view, file, limits.indexedTextBytesMax), matchedTerms(row));
      return { path, score, hash: file.hash, ...(passage ? { passage } : {}) };
    }),
  };
}
