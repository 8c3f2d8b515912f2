/**
 * What an engine thread and the main thread tell each other of one permit, in memory that they share.
 *
 * Always true: both levels only rise; a permit that is revoked, or closed, stays so.
 */

/** Offsets, in words of their own kind. */
const at = { revoked: 0, closed: 1, synced: 1, durable: 2 } as const;
const bytes = 24;

export class PermitWords {
  /** The memory itself, as it crosses to the other thread. */
  readonly shared: SharedArrayBuffer;
  readonly #flags: Int32Array<SharedArrayBuffer>;
  readonly #levels: BigInt64Array<SharedArrayBuffer>;

  constructor(shared = new SharedArrayBuffer(bytes)) {
    this.shared = shared;
    this.#flags = new Int32Array(shared);
    this.#levels = new BigInt64Array(shared);
  }

  /** The newest transaction id that a crash cannot take back. */
  get syncedTxid(): number {
    return Number(Atomics.load(this.#levels, at.synced));
  }

  /** How far object storage covers the branch. */
  get durableTxid(): number {
    return Number(Atomics.load(this.#levels, at.durable));
  }

  raise(syncedTxid: number, durableTxid: number): void {
    Atomics.store(this.#levels, at.synced, BigInt(syncedTxid));
    Atomics.store(this.#levels, at.durable, BigInt(durableTxid));
  }

  /** Whether nothing may be answered by it any more. */
  get isRevoked(): boolean {
    return Atomics.load(this.#flags, at.revoked) !== 0;
  }

  revoke(): void {
    Atomics.store(this.#flags, at.revoked, 1);
  }

  /** Whether the main thread has no connection to the file any more, and will make none. */
  get isClosed(): boolean {
    return Atomics.load(this.#flags, at.closed) !== 0;
  }

  /** The main thread's word that its connection is closed. */
  close(): void {
    Atomics.store(this.#flags, at.closed, 1);
    Atomics.notify(this.#flags, at.closed);
  }

  /** Blocks the thread until that word is there. Says no when it has not come in time. */
  waitUntilClosed(patienceMs: number): boolean {
    return this.isClosed || Atomics.wait(this.#flags, at.closed, 0, patienceMs) !== "timed-out";
  }
}
