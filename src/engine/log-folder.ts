/**
 * When the log of one open database is folded into its file, and that the file keeps nothing but what is live: a policy
 * over sqlite/wal and sqlite/slack.
 *
 * Always true: it is never folded while it holds groups that object storage lacks (the caller says so), because the log
 * is what they would be shipped from; a fold never waits for a reader. What a fold writes into the file has no slack when
 * the fold is done; a crash before that leaves the log's file, cut or not, and whoever opens the database then takes the
 * slack of all its pages for unknown. The log's file goes only when the file is proven to have no slack, on disk.
 */
import { limits } from "../base/limits.ts";
import type { World } from "../base/world.ts";
import type { Connection } from "../sqlite/connection.ts";
import { isDiskFull } from "../sqlite/group.ts";
import { Slack } from "../sqlite/slack.ts";
import type { Disk, WalFile } from "../sqlite/wal.ts";
import type { Opened } from "./opening.ts";

export type FoldOutcome = "cut" | "held-up" | "disk-full";

export class LogFolder {
  readonly #wal: WalFile;
  readonly #connection: Connection;
  readonly #log: Opened["log"];
  readonly #slack: Slack;
  readonly #world: World;
  readonly #stepBytes: number;
  /** From this page on there may be slack that nobody has noted; undefined when there is none. */
  #unknownFrom: number | undefined;
  /** Length of the log after the last round: asking the file for every write would cost a call of the system each. */
  #bytes: number;
  /** The log is folded in when it has this many bytes; raised when a reader stood in the way. */
  #dueBytes: number;
  /** Writers are held up when it has this many bytes and is not folded in all the same. */
  #pressingBytes: number;
  #holdEndsMs = -Infinity;
  #triedMs = -Infinity;

  constructor(wal: WalFile, opened: Pick<Opened, "connection" | "log" | "slackUnknown">, world: World, stepBytes: number) {
    this.#wal = wal;
    this.#connection = opened.connection;
    this.#log = opened.log;
    this.#slack = new Slack(opened.connection.path);
    this.#unknownFrom = opened.slackUnknown ? 1 : undefined;
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
    this.holdNow(ended);
    return true;
  }

  /** Holds writers up for a moment, however short the log is. */
  holdNow(ended: () => void): void {
    this.#holdEndsMs = this.#world.monotonicMs() + limits.foldHoldMsMax;
    this.#world.after(limits.foldHoldMsMax, ended);
  }

  /** Writers go on. */
  release(): void {
    this.#holdEndsMs = -Infinity;
  }

  /** So long that writes are shed until it is folded in. */
  get full(): boolean {
    return this.#bytes > limits.walBytesMax;
  }

  /**
   * Folds the log in and takes the slack out of what it wrote. `held-up`: a reader stood in the way; frames may have
   * moved, none is lost. Throws what storage threw.
   */
  fold(): FoldOutcome {
    this.#triedMs = this.#world.monotonicMs();
    try {
      // Before: a log that is begun anew over its old frames does not say any more what it had written.
      this.#slack.note(this.#wal.pageNumbers());
      const cut = this.#wal.checkpoint(this.#connection);
      this.#world.crashPoint("folded");
      if (!cut) {
        this.#log.mayRestart();
        return "held-up";
      }
      this.#bytes = 0;
      this.#log.restarted();
      this.#slack.zeroNoted();
      return "cut";
    } catch (error) {
      // A full disk leaves the log whole, and it goes on growing within its bound.
      if (!isDiskFull(error)) throw error;
      this.#log.mayRestart();
      return "disk-full";
    } finally {
      this.#dueBytes = this.#bytes + this.#stepBytes;
      this.#pressingBytes = this.#dueBytes + this.#stepBytes;
    }
  }

  /**
   * Goes through the whole file when the slack of its pages is unknown, in short steps, for as long as `goesOn` says so;
   * the next call goes on from there. What commits write meanwhile is in the log, and a fold zeroes what it writes.
   */
  async learn(goesOn: () => boolean): Promise<void> {
    while (this.#unknownFrom !== undefined && goesOn()) {
      this.#unknownFrom = this.#slack.zeroFrom(this.#unknownFrom).next;
      await new Promise<void>((resolve) => this.#world.soon(resolve));
    }
  }

  /**
   * Folds the log in and forgets every page that is cached, in one step: nothing that was deleted is in the file, in the
   * log, or comes back with a cached page that is written again. False when that cannot be had now.
   */
  purge(): boolean {
    if (this.#unknownFrom !== undefined || this.fold() !== "cut") return false;
    this.#connection.raw.pragma("shrink_memory");
    return true;
  }

  /** Makes what was zeroed, and that the log was cut, survive a loss of power. */
  async sync(disk: Disk): Promise<void> {
    await this.#slack.sync(disk);
    await this.#wal.sync();
  }

  /**
   * Closes the connection. The log's file goes if the log can be folded in and the file is known to have no slack, else it
   * stays; `report` is told why a log could not be folded in.
   */
  close(report: (error: unknown) => void): void {
    const isClean = this.#isClean(report);
    if (!isClean || this.#unknownFrom !== undefined) return this.#wal.closeKeeping(this.#connection);
    this.#wal.close();
    this.#connection.close();
  }

  #isClean(report: (error: unknown) => void): boolean {
    try {
      if (this.#wal.bytes() > 0 && this.fold() !== "cut") return false;
      this.#slack.syncNow();
      return true;
    } catch (error) {
      // The log stays and holds everything; it is folded in at another time.
      report(error);
      return false;
    }
  }
}
