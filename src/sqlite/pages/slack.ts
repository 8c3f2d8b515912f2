/**
 * Slack of a database file: bytes of its pages that no live cell owns, where deleted rows stay readable.
 *
 * SQLite leaves copies there when it moves cells, secure_delete or not, and a checkpoint carries them into the file.
 * Here they are zeroed in the file itself, after each WAL checkpoint.
 *
 * Always true, unless the file came with slack of unknown pages: every page of the file without slack, but for those
 * that are noted here. A page is noted before the log that wrote it can be cut or written over. A log that was
 * checkpointed and not cut puts slack back when it is read again after a crash; its file is there then, and all slack
 * counts as unknown.
 *
 * Why it is safe while connections are open: only bytes that SQLite never reads change, whichever state a reader looks
 * at; only the file's owning thread writes it, between transactions, and no checkpoint runs meanwhile. Closing a
 * descriptor of the file drops this process's locks on it, which guard only against other processes; the lock of the
 * data directory keeps those away. A page that is torn by a loss of power differs from itself in slack only.
 *
 * Must not know: what the pages hold, when the WAL is checkpointed, page caches (a cached page still has its old
 * slack).
 */
import { closeSync, fdatasyncSync, fstatSync, openSync, readSync } from "node:fs";
import { makeCanonical, pageBytes } from "../../format/history/pages.ts";
import { writeWhole, type Disk } from "../../base/disk.ts";

/** Pages of a database file that are looked through for slack in one go: a few milliseconds. */
const slackChunkBytes = 1024 * 1024;

/** Pages that are read in one go. */
const chunkPages = Math.floor(slackChunkBytes / pageBytes);

/** One for all files of a thread: no call leaves anything in them, and no two calls run at once. */
const chunk = Buffer.alloc(chunkPages * pageBytes);
const before = Buffer.alloc(pageBytes);

export class Slack {
  readonly #path: string;
  readonly #disk: Disk;
  /** Pages that may have slack in the file, now or after the next WAL checkpoint. */
  readonly #noted = new Set<number>();
  #unsynced = false;

  constructor(databasePath: string, disk: Disk) {
    this.#path = databasePath;
    this.#disk = disk;
  }

  /** The log has written these pages; some may be none of the file's. */
  note(pages: Iterable<number>): void {
    for (const page of pages) this.#noted.add(page);
  }

  /**
   * Zeroes the slack of every page that was noted. Call when the WAL has been checkpointed completely. Gives how many
   * pages had some.
   */
  zeroNoted(): number {
    if (this.#noted.size === 0) return 0;
    const pages = [...this.#noted].sort((a, b) => a - b);
    const zeroed = this.#within((descriptor, filePages) => {
      let count = 0;
      for (let from = 0; from < pages.length && pages[from]! <= filePages;) {
        let to = from + 1;
        while (to < pages.length && to - from < chunkPages && pages[to] === pages[from]! + to - from) to++;
        count += this.#zeroRun(descriptor, pages[from]!, to - from);
        from = to;
      }
      return count;
    });
    this.#noted.clear();
    this.#unsynced ||= zeroed > 0;
    return zeroed;
  }

  /**
   * Zeroes the slack of the pages from `first` on, a bounded number of them. Gives the next one, or undefined at the
   * file's end.
   */
  zeroFrom(first: number): { readonly next: number | undefined; readonly zeroed: number } {
    return this.#within((descriptor, filePages) => {
      const zeroed = this.#zeroRun(descriptor, first, chunkPages);
      this.#unsynced ||= zeroed > 0;
      return { next: first + chunkPages > filePages ? undefined : first + chunkPages, zeroed };
    });
  }

  /** Makes what was zeroed survive a loss of power, through the door of the disk. */
  async sync(): Promise<void> {
    const descriptor = openSync(this.#path, "r+");
    try {
      await this.#disk.fdatasync(descriptor, this.#path);
    } finally {
      closeSync(descriptor);
    }
  }

  /** The same at once, for a file that is about to be closed; nothing when there is nothing to sync. */
  syncNow(): void {
    if (!this.#unsynced) return;
    this.#within((descriptor) => fdatasyncSync(descriptor));
    this.#unsynced = false;
  }

  #within<Value>(act: (descriptor: number, filePages: number) => Value): Value {
    const descriptor = openSync(this.#path, "r+");
    try {
      return act(descriptor, Math.ceil(fstatSync(descriptor).size / pageBytes));
    } finally {
      closeSync(descriptor);
    }
  }

  /** Zeroes the slack of neighbouring pages; those beyond the file's end are left out. Gives how many had some. */
  #zeroRun(descriptor: number, first: number, count: number): number {
    const read = readSync(descriptor, chunk, 0, count * pageBytes, (first - 1) * pageBytes);
    let zeroed = 0;
    for (let at = 0; at + pageBytes <= read; at += pageBytes) {
      const page = chunk.subarray(at, at + pageBytes);
      page.copy(before);
      makeCanonical(page, first + at / pageBytes);
      if (page.equals(before)) continue;
      zeroed++;
      writeWhole(this.#disk, descriptor, this.#path, page, (first - 1) * pageBytes + at);
    }
    return zeroed;
  }
}
