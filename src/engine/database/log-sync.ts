/**
 * The fsyncs of one open database's log: one at a time, each for everything that was committed before it began. Those
 * of much data take turns with those of other databases: four at once, of 8 MiB each, let a small one wait for 30 ms,
 * and one after the other for 8 ms, at nine tenths of the throughput (ext4 on a virtual disk of 1.6 GB/s).
 */
import type { Semaphore } from "../../base/collections/semaphore.ts";
import type { WalFile } from "../../sqlite/wal/wal.ts";

/** An fsync of this much log takes turns with the others like it of its thread. */
const largeSyncBytes = 1024 * 1024;

export interface LogSyncOptions {
  readonly wal: WalFile;
  /** For those of much data, of all databases of a thread. */
  readonly largePermits: Semaphore;
  /** The newest commit. */
  readonly committedTxid: () => number;
  /** Everything up to here is on disk. May come before `start` returns. */
  readonly synced: (txid: number) => void;
  /** It is unknown what is on disk. Called after `start` has returned. */
  readonly failed: (error: unknown) => void;
  /** One has ended, and its outcome was told. */
  readonly ended: () => void;
}

export class LogSync {
  readonly #options: LogSyncOptions;
  #running = false;
  /** About how much commits have added to the log since the last one began. */
  #unsyncedBytes = 0;

  constructor(options: LogSyncOptions) {
    this.#options = options;
  }

  /** Whether one is under way. */
  get running(): boolean {
    return this.#running;
  }

  /** A commit has made the log longer by about this much. */
  grown(bytes: number): void {
    this.#unsyncedBytes += bytes;
  }

  /** Begins one unless one is under way. */
  start(): void {
    if (this.#running) return;
    this.#running = true;
    if (this.#unsyncedBytes < largeSyncBytes) return this.#sync();
    void this.#options.largePermits.run(() => new Promise<void>((resolve) => this.#sync(resolve)));
  }

  #sync(ended?: () => void): void {
    const { wal, committedTxid, synced, failed } = this.#options;
    const txid = committedTxid();
    this.#unsyncedBytes = 0;
    const end = (act: () => void): void => {
      this.#running = false;
      ended?.();
      act();
      this.#options.ended();
    };
    const syncing = wal.sync();
    if (syncing)
      syncing.then(
        () => end(() => synced(txid)),
        (error: unknown) => end(() => failed(error)),
      );
    else end(() => synced(txid));
  }
}
