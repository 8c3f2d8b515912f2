/**
 * When the WAL of one open database is checkpointed into its file, and how the file is kept free of deleted data: a
 * policy over sqlite/wal/wal and sqlite/pages/slack.
 *
 * Always true:
 * - no WAL checkpoint runs while the log holds groups that object storage lacks (the caller says so), because they
 *   would be shipped from it
 * - a WAL checkpoint never waits for a reader
 * - what it writes into the file has no slack when it is done
 * - a crash leaves the log's file, checkpointed or not, and the next opening then takes the slack of all pages for
 *   unknown
 * - the log's file is removed only when the file is proven to have no slack, on disk
 *
 * A WAL checkpoint leaves the log's old frames to be written over (sqlite/wal/wal says why). It cuts them off when they
 * take too much room, when deleted data must go, and at the close.
 */
import { StoreError } from "../../base/faults/errors.ts";
import { limits } from "../../base/limits.ts";
import type { World } from "../../base/world.ts";
import type { Connection } from "../../sqlite/connection/connection.ts";
import { isDiskFull } from "../../sqlite/group.ts";
import { Slack } from "../../sqlite/pages/slack.ts";
import { tooMuchWritten } from "../../sqlite/sql-authorizer.ts";
import { frameBytes, headerBytes } from "../../sqlite/wal/wal-frames.ts";
import type { Disk } from "../../base/disk.ts";
import type { CheckpointMode, WalFile } from "../../sqlite/wal/wal.ts";
import type { Opened } from "../opening/opened-file.ts";

/**
 * While other tenants wait for the thread, which checkpoints 1 MiB in about 2 ms, it is this part of that (ingests of
 * all are 10 % slower for it).
 */
const sharedFoldPart = 0.25;
/** A log's file stays after a WAL checkpoint, to be written over, while it is no longer than this many times that. */
export const logSpareSteps = 3;
/** A checkpointed log is written over this often before it is cut. */
const foldsUncutMax = 16;
/** What a group of one small write takes of the log, about. */
const smallGroupLogBytes = 32 * 1024;
/**
 * A long read can keep the log from being checkpointed; beyond this, writes are shed until it ends. It is noticed late,
 * after a few groups have been written over old frames (engine/database/wal-checkpointer), which is less than three
 * checkpoints' worth.
 */
export const walBytesMax = 512 * 1024 * 1024;

export type WalCheckpointOutcome = "folded" | "held-up" | "disk-full";

export class WalCheckpointer {
  readonly #wal: WalFile;
  readonly #connection: Connection;
  readonly #log: Opened["log"];
  readonly #slack: Slack;
  readonly #world: World;
  readonly #stepBytes: number;
  /** Whether others wait for the thread. */
  readonly #isShared: () => boolean;
  /** A log's file of this length may stay after a WAL checkpoint: a busy writer's log is hardly ever longer. */
  readonly #spareBytes: number;
  /** From this page on there may be slack that is not noted; undefined when there is none. */
  #unknownFrom: number | undefined;
  /** The frames of the log at the last look. */
  #frames: number;
  #moved: number;
  /**
   * The frames whose pages are noted, a few at each look: all at once, before a WAL checkpoint, would hold the thread
   * for 8 ms.
   */
  #noted = 0;
  /** Of these, the number at the last WAL checkpoint. */
  #checkpointedFrames = 0;
  /** How often it was checkpointed since it was last cut. */
  #checkpointsUncut = 0;
  /** The log is checkpointed when it has this many bytes; raised when a reader held it up. */
  #dueBytes: number;
  /** Writers are held up when it has this many bytes and is still not checkpointed. */
  #pressingBytes: number;
  #unseenBytes = 0;
  /** After this much the log is looked at: eight small groups' worth. */
  readonly #lookBytes: number;
  /** The length of the log's file when it was last written, or checkpointed. */
  #fileBytes: number;
  #holdEndsMs = -Infinity;
  #triedMs = -Infinity;

  constructor(
    wal: WalFile,
    opened: Pick<Opened, "connection" | "log" | "slackUnknown">,
    world: World,
    disk: Disk,
    stepBytes: number,
    isShared = (): boolean => false,
  ) {
    this.#wal = wal;
    this.#isShared = isShared;
    this.#connection = opened.connection;
    this.#log = opened.log;
    this.#slack = new Slack(opened.connection.path, disk);
    this.#unknownFrom = opened.slackUnknown ? 1 : undefined;
    this.#world = world;
    this.#stepBytes = stepBytes;
    this.#spareBytes = logSpareSteps * stepBytes;
    this.#lookBytes = stepBytes / 64;
    this.#dueBytes = stepBytes;
    this.#pressingBytes = 2 * stepBytes;
    const { frames, moved } = wal.extent(opened.connection);
    this.#frames = frames;
    this.#moved = moved;
    this.#fileBytes = wal.fileBytes();
  }

  /** How much of the log is to be checkpointed. */
  get bytes(): number {
    return (this.#frames - this.#checkpointedFrames) * frameBytes;
  }

  /** About how much commits since the last look have added to the log. */
  get unseenBytes(): number {
    return this.#unseenBytes;
  }

  /**
   * This many bytes were given to be written, and committed. Gives by how much the log was seen to grow, commits before
   * included. It is looked at when it may have grown by much: asking SQLite takes half as long as a small commit (0.06
   * ms when it is done now and then, measured once). The length of the file costs next to nothing, and tells of what a
   * short command makes of a large database, unless it fits over old frames; those are few enough.
   */
  written(bytes: number): number {
    const fileBytes = this.#wal.fileBytes();
    this.#unseenBytes += fileBytes > this.#fileBytes ? fileBytes - this.#fileBytes : bytes + smallGroupLogBytes;
    this.#fileBytes = fileBytes;
    if (this.#unseenBytes < this.#lookBytes) return 0;
    const grown = this.#look();
    try {
      this.#note();
    } catch {
      // What cannot be read now is read again before the WAL checkpoint, which fails by it; the commit holds.
    }
    return grown;
  }

  /** Gives by how much the log has grown since the last look. */
  #look(): number {
    this.#unseenBytes = 0;
    const { frames, moved } = this.#wal.extent(this.#connection);
    // Only a log that is begun anew has fewer frames than before, or fewer that were moved.
    if (frames < this.#frames || moved < this.#moved) this.#frames = this.#checkpointedFrames = this.#noted = 0;
    const grown = frames - this.#frames;
    this.#frames = frames;
    this.#moved = moved;
    return grown * frameBytes;
  }

  /** Notes which pages the log has written since it was last noted. */
  #note(): void {
    this.#slack.note(this.#wal.pageNumbers(this.#noted, this.#frames));
    this.#noted = this.#frames;
  }

  /**
   * How long the log's file may become by the transaction that begins now. What fits over old frames does not make it
   * longer, so that a transaction may write that much more: less than three checkpoints' worth.
   */
  roomEnd(): number {
    const end = (): number =>
      headerBytes + this.#frames * frameBytes + this.#unseenBytes + limits.transactionLogBytesMax;
    // What transactions that wrote too much have left, while the WAL cannot be checkpointed.
    if (this.#fileBytes > end()) {
      this.#look();
      this.#wal.cutBehind(this.#frames);
      this.#fileBytes = this.#wal.fileBytes();
    }
    return end();
  }

  /** Throws invalid_request when the open transaction has made the log's file longer than that. */
  requireRoom(roomEnd: number): void {
    if (this.#wal.fileBytes() > roomEnd) throw tooMuchWritten();
  }

  /**
   * Removes from the disk what a transaction that was cut short has left behind the log's end: read again after a crash
   * it could be taken for a commit. Call between transactions. Throws what storage threw, and when the log's index is
   * inconsistent, which the next opening makes anew.
   */
  async cutLoose(): Promise<void> {
    this.#look();
    // A process that was killed in the few instructions in which it begins the log anew.
    if (this.#moved > this.#frames)
      throw new StoreError("corrupt", "the index of a log was left half made by a process that was killed");
    this.#wal.cutBehind(this.#frames);
    this.#fileBytes = this.#wal.fileBytes();
    await this.#wal.sync();
  }

  /** What was rolled back makes the file grow for nothing. */
  rolledBack(): void {
    this.#fileBytes = this.#wal.fileBytes();
  }

  get due(): boolean {
    const early = (1 - sharedFoldPart) * this.#stepBytes;
    if (this.bytes >= this.#dueBytes - early && (this.bytes >= this.#dueBytes || this.#isShared())) return true;
    return (this.full || this.#isWide) && this.#world.monotonicMs() - this.#triedMs >= limits.checkpointRetryMs;
  }

  /** Whether the log's file is far longer than what it holds. */
  get #isWide(): boolean {
    return this.#fileBytes - this.#frames * frameBytes > this.#spareBytes;
  }

  /** Whether writers wait for a moment, so that the log is shipped to its end and can be checkpointed. */
  get holding(): boolean {
    return this.#world.monotonicMs() < this.#holdEndsMs;
  }

  /**
   * Holds writers up if the WAL checkpoint is long overdue, and says whether that began now; `ended` is called when
   * they have waited enough.
   */
  hold(ended: () => void): boolean {
    if (this.bytes < this.#pressingBytes || this.holding) return false;
    // A store that hangs must not stop writers for longer, nor again before the log is twice as long.
    this.#pressingBytes = 2 * this.bytes;
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

  /** So long that writes are shed until it is checkpointed. */
  get full(): boolean {
    return this.bytes > walBytesMax;
  }

  /**
   * Checkpoints the WAL and takes the slack out of what that wrote. `held-up`: a reader was in the way; frames may have
   * moved, none is lost. Throws what storage threw.
   */
  checkpointWal(): WalCheckpointOutcome {
    // Now and then even so: what was deleted must not stay in the tail of a log that was once longer.
    const cuts = this.#wal.fileBytes() > this.#spareBytes || this.#checkpointsUncut >= foldsUncutMax;
    return this.#checkpointWal(cuts ? "truncate" : "restart");
  }

  /**
   * Goes through the whole file when the slack of its pages is unknown, in short steps, for as long as `goesOn` says
   * so; the next call goes on from there. What commits write meanwhile is in the log, and a WAL checkpoint zeroes the
   * slack of what it writes.
   */
  async learn(goesOn: () => boolean): Promise<void> {
    while (this.#unknownFrom !== undefined && goesOn()) {
      this.#unknownFrom = this.#slack.zeroFrom(this.#unknownFrom).next;
      await new Promise<void>((resolve) => this.#world.soon(resolve));
    }
  }

  /**
   * Checkpoints the WAL and forgets every cached page, in one step: nothing that was deleted is in the file, in the
   * log, or comes back with a cached page that is written again. False when that is not possible now.
   */
  checkpointAndEvict(): boolean {
    if (this.#unknownFrom !== undefined || this.#checkpointWal("truncate") !== "folded") return false;
    this.#connection.raw.pragma("shrink_memory");
    return true;
  }

  /** Makes what was zeroed, and that the log was cut, survive a loss of power. */
  async sync(): Promise<void> {
    await this.#slack.sync();
    await this.#wal.sync();
  }

  /**
   * Closes the connection. The log's file is removed if the log can be checkpointed and the file is known to have no
   * slack, else it stays; `report` is told why a log could not be checkpointed.
   */
  close(report: (error: unknown) => void): void {
    const isClean = this.#isClean(report);
    if (!isClean || this.#unknownFrom !== undefined) return this.#wal.closeKeeping(this.#connection);
    this.#wal.close();
    this.#connection.close();
  }

  #checkpointWal(mode: CheckpointMode): WalCheckpointOutcome {
    this.#triedMs = this.#world.monotonicMs();
    try {
      // Before: a log that is begun anew over its old frames does not say any more what it had written.
      this.#look();
      this.#note();
      const isWhole = this.#wal.checkpoint(this.#connection, mode);
      this.#world.crashPoint("folded");
      this.#look();
      if (isWhole && mode === "truncate") this.#log.restarted();
      else this.#log.mayRestart();
      if (!isWhole) return "held-up";
      this.#checkpointedFrames = this.#frames;
      this.#checkpointsUncut = mode === "restart" ? this.#checkpointsUncut + 1 : 0;
      this.#slack.zeroNoted();
      return "folded";
    } catch (error) {
      // A full disk leaves the log whole, and it goes on growing within its bound.
      if (!isDiskFull(error)) throw error;
      this.#log.mayRestart();
      return "disk-full";
    } finally {
      this.#fileBytes = this.#wal.fileBytes();
      this.#dueBytes = this.bytes + this.#stepBytes;
      this.#pressingBytes = this.#dueBytes + this.#stepBytes;
    }
  }

  #isClean(report: (error: unknown) => void): boolean {
    try {
      if (this.#wal.fileBytes() > 0 && this.#checkpointWal("truncate") !== "folded") return false;
      this.#slack.syncNow();
      return true;
    } catch (error) {
      // The log stays and holds everything; it is checkpointed at another time.
      report(error);
      return false;
    }
  }
}
