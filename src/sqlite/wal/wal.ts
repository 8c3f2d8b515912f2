/**
 * The write-ahead log as a file: our own fsync of it, its extent, its checkpoint.
 *
 * SQLite runs with synchronous=NORMAL, so a commit is written but not synced; the engine syncs the `-wal` file here,
 * through libuv and off the thread, and answers only then. SQLite itself still syncs the log's header and directory
 * entry when the log is created or restarted, and everything around a checkpoint.
 *
 * A log that is restarted is written over its old frames. That is cheaper to sync than one that was cut and grows
 * again: overwriting changes nothing but the file's data, growing also what the file system's journal must hold (0.10
 * against 0.14 ms for 28 KiB on ext4, `npm run bench -- lone`; every other fsync of that file system waits for the same
 * journal).
 *
 * The descriptor is opened after the first write and closed before the handle: SQLite deletes the log when the last
 * connection closes. Opening and closing the log takes no lock away (none is held on it); the main database file must
 * not be opened like this while a connection lives, because POSIX drops a process's locks at the first close
 * (sqlite/pages/slack says why it still may).
 */
import { closeSync, existsSync, fstatSync, openSync, readFileSync, readSync, truncateSync } from "node:fs";
import { assert } from "../../base/faults/assert.ts";
import { placeFile, type Disk } from "../../base/disk.ts";
import { Connection } from "../connection/connection.ts";
import { frameBytes, headerBytes } from "./wal-frames.ts";

/** A frame begins with its page's number. */
const pageNumberBytes = 4;

/** How much there is in a log, in frames. */
export interface LogExtent {
  readonly frames: number;
  /**
   * Of these, from the first on, this many are in the database file already; back at nothing when the log is restarted.
   */
  readonly moved: number;
}

/**
 * What a checkpoint leaves of the log: `restart`, a file that is written over from its start; `truncate`, an empty one.
 */
export type CheckpointMode = "restart" | "truncate";

export class WalFile {
  readonly #path: string;
  readonly #disk: Disk;
  #descriptor: number | undefined;

  constructor(databasePath: string, disk: Disk) {
    this.#path = `${databasePath}-wal`;
    this.#disk = disk;
  }

  /** What the log holds now, whatever its file holds beyond that. Call between transactions. */
  extent(connection: Connection): LogExtent {
    const row = connection.get<{ log: number; checkpointed: number }>("PRAGMA wal_checkpoint(NOOP)")!;
    return { frames: Math.max(0, row.log), moved: Math.max(0, row.checkpointed) };
  }

  /** Length of the log's file now, old frames and all; 0 before the first write. */
  fileBytes(): number {
    const descriptor = this.#open();
    return descriptor === undefined ? 0 : fstatSync(descriptor).size;
  }

  /**
   * Cuts off what is behind the log's first `frames` frames, which are all it holds: no reader needs that, whatever
   * state it looks at. Call between transactions.
   */
  cutBehind(frames: number): void {
    truncateSync(this.#path, frames === 0 ? 0 : headerBytes + frames * frameBytes);
  }

  /**
   * The page of each of the log's frames from the one of that index to the one before `to`: what a WAL checkpoint of
   * them can write into the database file.
   */
  *pageNumbers(from: number, to: number): Generator<number> {
    const descriptor = this.#open();
    if (descriptor === undefined) return;
    const number = Buffer.alloc(pageNumberBytes);
    for (let frame = from; frame < to; frame++) {
      if (readSync(descriptor, number, 0, pageNumberBytes, headerBytes + frame * frameBytes) < pageNumberBytes) return;
      const page = number.readUInt32BE();
      if (page > 0) yield page;
    }
  }

  /**
   * Makes what the log holds at the time of the call, or that it was cut, survive a power loss; undefined when it does
   * already.
   */
  sync(): Promise<void> | undefined {
    try {
      const descriptor = this.#open();
      assert(descriptor !== undefined, "a log is synced only after a write");
      return this.#disk.fdatasync(descriptor, this.#path);
    } catch (error) {
      return Promise.reject(error as Error);
    }
  }

  /**
   * Moves every frame into the database file, so that the next commit begins the log anew. False when a reader was in
   * the way: try again later, nothing is lost. Never waits.
   */
  checkpoint(connection: Connection, mode: CheckpointMode): boolean {
    assert(!connection.inTransaction, "a checkpoint runs between transactions");
    const [row] = connection.withoutWaiting(() => connection.raw.pragma(`wal_checkpoint(${mode})`)) as {
      busy: number;
      log: number;
      checkpointed: number;
    }[];
    if (row?.busy !== 0) return false;
    assert(row.log === row.checkpointed, "a checkpoint that nobody stood in the way of moves the whole log");
    assert(mode === "restart" || this.fileBytes() === 0, "a truncating checkpoint leaves no log");
    return true;
  }

  /**
   * Closes the connection and leaves the log where it is: neither checkpointed into the database file nor deleted. A
   * log that is found beside a file says that it was not closed in order, so that pages may have slack that is not
   * noted.
   */
  closeKeeping(connection: Connection): void {
    this.close();
    let keeper: Connection | undefined;
    try {
      // While a read-only connection is the last one, closing the writer neither checkpoints nor deletes the log.
      keeper = new Connection(connection.path, { readonly: true, pageCacheKiB: 64 });
      keeper.get("SELECT count(*) FROM sqlite_schema");
    } finally {
      connection.close();
      keeper?.close();
    }
  }

  /** Releases the file; call before the connection is closed. */
  close(): void {
    if (this.#descriptor !== undefined) closeSync(this.#descriptor);
    this.#descriptor = undefined;
  }

  #open(): number | undefined {
    if (this.#descriptor !== undefined) return this.#descriptor;
    try {
      this.#descriptor = openSync(this.#path, "r");
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "ENOENT") throw error;
    }
    return this.#descriptor;
  }
}

/**
 * Proves the log of a closed database again, after an fsync of it failed. The kernel then counts its pages as clean, so
 * another fsync would succeed without them; written into a new file they are dirty once more, and its fsync says the
 * truth. Nothing is cut: a WAL checkpoint may have moved any frame, and the log may hold what an earlier process
 * acknowledged. Frames that the disk has really lost fail their checksums, and the log ends there. May be tried again.
 */
export async function proveLog(databasePath: string, disk: Disk): Promise<void> {
  const path = `${databasePath}-wal`;
  if (existsSync(path)) await placeFile(disk, path, readFileSync(path));
}
