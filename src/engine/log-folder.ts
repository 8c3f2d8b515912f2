/**
 * When the log of one open database is folded into its file: a policy over sqlite/wal.
 *
 * Always true: it is never folded while it holds groups that object storage lacks (the caller says so), because the log
 * is what they would be shipped from; a fold never waits for a reader.
 */
import { limits } from "../base/limits.ts";
import type { World } from "../base/world.ts";
import type { Connection } from "../sqlite/connection.ts";
import { isDiskFull } from "../sqlite/group.ts";
import type { WalFile } from "../sqlite/wal.ts";

export type FoldOutcome = "cut" | "held-up" | "disk-full";

export class LogFolder {
  readonly #wal: WalFile;
  readonly #connection: Connection;
  readonly #world: World;
  readonly #stepBytes: number;
  /** Length of the log after the last round: asking the file for every write would cost a call of the system each. */
  #bytes: number;
  /** The log is folded in when it has this many bytes; raised when a reader stood in the way. */
  #dueBytes: number;
  /** Writers are held up when it has this many bytes and is not folded in all the same. */
  #pressingBytes: number;
  #holdEndsMs = -Infinity;
  #triedMs = -Infinity;

  constructor(wal: WalFile, connection: Connection, world: World, stepBytes: number) {
    this.#wal = wal;
    this.#connection = connection;
    this.#world = world;
    this.#stepBytes = stepBytes;
    this.#dueBytes = stepBytes;
    this.#pressingBytes = 2 * stepBytes;
    this.#bytes = wal.bytes();
  }

  get bytes(): number {
    return this.#bytes;
  }

  /** Looks at the log again and gives by how much it has grown. */
  measure(): number {
    const before = this.#bytes;
    this.#bytes = this.#wal.bytes();
    return Math.max(0, this.#bytes - before);
  }

  get due(): boolean {
    return this.#bytes >= this.#dueBytes || (this.full && this.#world.monotonicMs() - this.#triedMs >= limits.checkpointRetryMs);
  }

  /** Whether writers wait for a moment, so that the log is shipped to its end and can be folded in. */
  get holding(): boolean {
    return this.#world.monotonicMs() < this.#holdEndsMs;
  }

  /** Holds writers up if the fold is long overdue, and says whether that began now; `ended` is called when they have waited enough. */
  hold(ended: () => void): boolean {
    if (this.#bytes < this.#pressingBytes || this.holding) return false;
    // A store that hangs must not stop writers for longer, nor again before the log is twice as long.
    this.#pressingBytes = 2 * this.#bytes;
    this.#holdEndsMs = this.#world.monotonicMs() + limits.foldHoldMsMax;
    this.#world.after(limits.foldHoldMsMax, ended);
    return true;
  }

  /** Writers go on. */
  release(): void {
    this.#holdEndsMs = -Infinity;
  }

  /** So long that writes are shed until it is folded in. */
  get full(): boolean {
    return this.#bytes > limits.walBytesMax;
  }

  /** Folds the log in. `held-up`: a reader stood in the way; frames may have moved, none is lost. Throws what storage threw. */
  fold(): FoldOutcome {
    this.#triedMs = this.#world.monotonicMs();
    try {
      const cut = this.#wal.checkpoint(this.#connection);
      if (cut) this.#bytes = 0;
      return cut ? "cut" : "held-up";
    } catch (error) {
      // A full disk leaves the log whole, and it goes on growing within its bound.
      if (!isDiskFull(error)) throw error;
      return "disk-full";
    } finally {
      this.#dueBytes = this.#bytes + this.#stepBytes;
      this.#pressingBytes = this.#dueBytes + this.#stepBytes;
    }
  }
}
