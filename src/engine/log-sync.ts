/** The fsyncs of one open database's log: one at a time, each for everything that was committed before it began. */
import type { WalFile } from "../sqlite/wal.ts";

export interface LogSyncOptions {
  readonly wal: WalFile;
  /** The newest commit. */
  readonly committedTxid: () => number;
  /** Everything up to here is on disk. May come before `start` returns. */
  readonly synced: (txid: number) => void;
  /** Nobody knows what is on disk. Comes after `start` has returned. */
  readonly failed: (error: unknown) => void;
}

export class LogSync {
  readonly #options: LogSyncOptions;
  #running = false;

  constructor(options: LogSyncOptions) {
    this.#options = options;
  }

  /** Whether one is under way. */
  get running(): boolean {
    return this.#running;
  }

  /** Begins one unless one is under way. */
  start(): void {
    if (this.#running) return;
    this.#running = true;
    const { wal, committedTxid, synced, failed } = this.#options;
    const txid = committedTxid();
    const end = (act: () => void): void => {
      this.#running = false;
      act();
    };
    const syncing = wal.sync();
    if (syncing) syncing.then(() => end(() => synced(txid)), (error: unknown) => end(() => failed(error)));
    else end(() => synced(txid));
  }
}
