/**
 * Files as records: every version that is kept, in the order in which they were written.
 *
 * Always true: the present tree follows from the versions, as a file is the newest version of its path that has a text.
 * The transaction that made a version is not exported: it means nothing in another database.
 */
import { invalid, ServiceError } from "../../base/faults/errors.ts";
import { hashOf } from "../core/expected.ts";
import { subjectColumn, subjectOf } from "../core/subjects.ts";
import type { View } from "../core/transaction.ts";
import { checkFileText } from "../files/file-edits.ts";
import { checkFilePath } from "../files/file-path.ts";
import {
  checkPlace,
  type FileChange,
  findFile,
  hasFiles,
  type RestoredVersion,
  restoreVersion,
  versionsOf,
} from "../files/file-store.ts";
import { isErasedPath, isErasedSubject } from "./erased.ts";
import { formLine, plain, readSubject, type RecordKind } from "./record.ts";

interface FileRow extends Omit<RestoredVersion, "text" | "subject"> {
  readonly row: number;
  readonly text: string | null;
  readonly subject: string | null;
}

const changes: readonly FileChange[] = ["written", "moved_here", "moved_away", "deleted"];

export const fileRecords: RecordKind<RestoredVersion> = {
  kind: "file",
  tables: {
    __service_file_version: {
      exported: ["path", "version", "change", "other_path", "written_at"],
      derived: {
        ...{ row: "given anew", txid: "the importing transaction's", hash: "the text's", size: "the text's" },
        text: "the record's own",
      },
    },
    __service_file_text: { exported: ["text"], derived: { row: "given anew" } },
    __service_file: { exported: ["path"], derived: { row: "the newest version of the path" } },
  },

  *rows(view, after) {
    const { connection } = view;
    if (!hasFiles(connection)) return;
    const rows = connection
      .prepared(
        `SELECT v.row, v.path, v.version, v.change, v.other_path AS otherPath, v.written_at AS writtenAt, t.text,
           ${subjectColumn(view, "file", "v.row")} AS subject
         FROM __service_file_version AS v LEFT JOIN __service_file_text AS t ON t.row = v.text
         WHERE v.row > ? ORDER BY v.row`,
      )
      .iterate(after?.[0] ?? 0) as Iterable<FileRow>;
    for (const { row, path, version, change, otherPath, writtenAt, text, subject } of rows)
      yield {
        position: [row],
        line: formLine("file", {
          path: plain(path),
          version: plain(version),
          change: plain(change),
          other_path: plain(otherPath),
          written_at: plain(writtenAt),
          subject: plain(subject),
          text: plain(text),
        }),
      };
  },

  read(fields) {
    const path = checkFilePath("path", fields.text("path", 4_096));
    const version = fields.count("version");
    const change = fields.oneOf("change", changes);
    const other = fields.maybeText("other_path", 4_096);
    const text = fields.maybeAnyText("text");
    if (version < 1) throw invalid("version must be at least 1");
    if ((text !== undefined) !== (change === "written" || change === "moved_here"))
      throw invalid("a version that was written or moved here has a text, and no other has");
    if (text !== undefined) checkFileText("text", text);
    const otherPath = other === undefined ? null : checkFilePath("other_path", other);
    const [writtenAt, subject] = [fields.time("written_at"), readSubject(fields)];
    return { path, version, change, otherPath, writtenAt, subject, text };
  },

  find(view, { path, version, change, otherPath, writtenAt, subject, text }) {
    const there = versionsOf(view, path).find((one) => one.version === version);
    const textHash = text === undefined ? null : hashOf(text);
    if (!there) return isFree(view, path) ? "absent" : "blocked";
    const isSame =
      there.change === change &&
      there.otherPath === otherPath &&
      there.writtenAt === writtenAt &&
      there.hash === textHash &&
      subjectOf(view, { kind: "file", owner: there.row }) === subject;
    return isSame ? "same" : isFree(view, path) ? "different" : "blocked";
  },

  write(tx, record) {
    restoreVersion(tx, record, record.text === undefined ? undefined : hashOf(record.text));
  },

  isErased: (_view, { path, writtenAt, subject }, erased) =>
    isErasedSubject(erased, subject, writtenAt) || isErasedPath(erased, path, writtenAt),

  withoutErased(_view, record, erased) {
    const { otherPath, writtenAt } = record;
    const isNamed = otherPath !== null && isErasedPath(erased, otherPath, writtenAt);
    return isNamed ? { ...record, otherPath: null } : record;
  },
};

/** Whether a file may be at the path. */
function isFree(view: View, path: string): boolean {
  if (findFile(view, path)) return true;
  try {
    checkPlace(view, path);
    return true;
  } catch (error) {
    if (error instanceof ServiceError && error.code === "conflict") return false;
    throw error;
  }
}
