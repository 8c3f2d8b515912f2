/**
 * What is said of a SQLite file of a data directory and of the log beside it.
 *
 * Always true: both are opened for reading only and never through SQLite, no lock is taken and nothing appears beside
 * them, so that a node which has the file open minds nothing. Of a file that a node writes meanwhile it is a moment's
 * state. Of pages only the header and the state row are looked at.
 */
import { closeSync, existsSync, fstatSync, openSync, readSync, statSync } from "node:fs";
import { StoreError } from "../../base/faults/errors.ts";
import { limits } from "../../base/limits.ts";
import { readFileState } from "../../engine/local/file-state.ts";
import { isUnreadable } from "../../format/core/versions.ts";
import { WalChanged, WalReader } from "../../sqlite/wal/wal-reader.ts";
import { hex, plain, size, time, type Account, type Fields } from "./account.ts";

const headerBytes = 100;
const pageBytesAt = 16;
const writeVersionAt = 18;
const pagesAt = 28;
/** The header's word for a page of 64 KiB, which two bytes cannot hold. */
const largestPage = 1;
const largestPageBytes = 65_536;
/** How the header calls a file that is written by way of a log. */
const withLog = 2;
const groupsAtOnce = 1024;

/** What can be told of the file; what is wrong with it stands in the account. Throws what the file system throws. */
export function buildFileAccount(path: string): Account {
  const { pageBytes, pages, writeVersion, bytes } = readHeader(path);
  const damage: string[] = [];
  if (bytes % pageBytes !== 0) damage.push(`it ends at byte ${bytes}, within a page of ${pageBytes} bytes`);
  if (pages * pageBytes > bytes)
    damage.push(`at byte ${pagesAt}: it says that it has ${pages} pages, and it ends at byte ${bytes}`);
  const attempt = (tell: () => Fields): Fields => {
    try {
      return tell();
    } catch (error) {
      if (!isUnreadable(error)) throw error;
      damage.push(error.message);
      return {};
    }
  };
  const fields = {
    bytes: size(bytes),
    page_bytes: size(pageBytes),
    pages: plain(pages),
    journal: plain(writeVersion === withLog ? "wal" : "rollback"),
    ...attempt(() => buildStateFields(path)),
    ...attempt(() => buildLogFields(path)),
  };
  return { fields, tables: {}, damage };
}

function readHeader(path: string): {
  readonly pageBytes: number;
  readonly pages: number;
  readonly writeVersion: number;
  readonly bytes: number;
} {
  const descriptor = openSync(path, "r");
  try {
    const header = Buffer.alloc(headerBytes);
    const { size: bytes } = fstatSync(descriptor);
    if (readSync(descriptor, header, 0, headerBytes, 0) < headerBytes)
      throw new StoreError("corrupt", `a database file cannot be read: it ends at byte ${bytes}, within its header`);
    const said = header.readUInt16BE(pageBytesAt);
    const pageBytes = said === largestPage ? largestPageBytes : said;
    if (pageBytes === 0) throw new StoreError("corrupt", `at byte ${pageBytesAt}: the file has pages of no bytes`);
    return { pageBytes, pages: header.readUInt32BE(pagesAt), writeVersion: header[writeVersionAt]!, bytes };
  } finally {
    closeSync(descriptor);
  }
}

/** The state row as the file and its log have it. */
function buildStateFields(path: string): Fields {
  const { state } = readFileState(path);
  return {
    txid: plain(state.txid),
    committed_at: time(state.committedAtMs),
    writer_epoch_id: hex(state.writerEpochId),
  };
}

/** What the log adds; it may have been moved into the file already. */
function buildLogFields(path: string): Fields {
  const logPath = `${path}-wal`;
  if (!existsSync(logPath)) return { log: plain(false) };
  const log = new WalReader(path);
  let groups = 0;
  let pages: number | undefined;
  let isChanging = false;
  try {
    for (;;) {
      const read = log.survey(groupsAtOnce, limits.walChunkBytes);
      if (read === "longer" || read.length === 0) break;
      groups += read.length;
      pages = read.at(-1)!.pages;
    }
  } catch (error) {
    // A node writes it just now: what was read so far was true.
    if (!(error instanceof WalChanged)) throw error;
    isChanging = true;
  } finally {
    log.close();
  }
  return {
    log: plain(true),
    log_bytes: size(statSync(logPath).size),
    log_groups: plain(groups),
    log_pages: plain(pages),
    log_is_changing: plain(isChanging),
  };
}
