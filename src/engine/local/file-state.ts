/**
 * The state row of a database file that must not be touched: read from its pages and from its log, without SQLite.
 *
 * Always true: the files are opened for reading only, no lock is taken and nothing appears beside them, so that a node
 * that has the file open is not disturbed. Of a file that is being written it is a moment's state.
 */
import { closeSync, fstatSync, openSync, readSync } from "node:fs";
import { StoreError } from "../../base/faults/errors.ts";
import { limits } from "../../base/limits.ts";
import { pageBytes } from "../../format/history/pages.ts";
import { decodeStatePage, type DatabaseState } from "../../model/schema.ts";
import { WalChanged, WalReader } from "../../sqlite/wal/wal-reader.ts";

/** The state table is the first that an empty database is given, and nothing ever moves its page (model/schema). */
const statePage = 2;

/** A file and its log, as they lie there. */
export interface FileState {
  /** With what the log adds. */
  readonly state: DatabaseState;
  /** Whole commits that the log holds; they may have been checkpointed into the file. */
  readonly loggedCommits: number;
  readonly bytes: number;
}

/** Throws StoreError("corrupt") for a file that is no database of ours. */
export function readFileState(path: string): FileState {
  const descriptor = openSync(path, "r");
  try {
    const page = new Uint8Array(pageBytes);
    const read = readSync(descriptor, page, 0, pageBytes, (statePage - 1) * pageBytes);
    if (read !== pageBytes) throw new StoreError("corrupt", "the file is too short for a database");
    const { size: bytes } = fstatSync(descriptor);
    const logged = findNewestStatePage(path);
    // What was checkpointed may be newer than a log that is written over from its start.
    const inFile = decodeStatePage(page);
    const inLog = logged.page && decodeStatePage(logged.page);
    return { state: inLog && inLog.txid > inFile.txid ? inLog : inFile, loggedCommits: logged.commits, bytes };
  } finally {
    closeSync(descriptor);
  }
}

/** The newest image of the state page in the log, and how many commits there are. */
function findNewestStatePage(path: string): { readonly page: Uint8Array | undefined; readonly commits: number } {
  const log = new WalReader(path);
  let page: Uint8Array | undefined;
  let commits = 0;
  try {
    for (let read = log.read(1, limits.walChunkBytes); read.length > 0; read = log.read(1, limits.walChunkBytes)) {
      commits += read.length;
      page = read.at(-1)!.images.find((image) => image.page === statePage)?.bytes ?? page;
    }
  } catch (error) {
    // A writer is at work just now: what was read so far was true.
    if (!(error instanceof WalChanged)) throw error;
  } finally {
    log.close();
  }
  return { page, commits };
}
