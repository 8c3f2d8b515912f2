/**
 * Looks after the time of a node (base/trusted-time): sees that its clock was moved, tells an operator, and remembers
 * for the next start what time it was.
 *
 * The note is a hint: without one, or with one that cannot be read, the node begins with its own clock; one that is
 * some minutes old only makes what has expired wait. So it is replaced whole, but nothing waits for the disk.
 */
import { closeSync, openSync, readFileSync, renameSync } from "node:fs";
import { join } from "node:path";
import { realDisk, writeWhole } from "../../base/disk.ts";
import { getErrorCode } from "../../base/faults/errors.ts";
import { limits } from "../../base/limits.ts";
import type { Log } from "../../base/log.ts";
import type { TimeMemory } from "../../base/trusted-time.ts";
import type { Cancel, World } from "../../base/world.ts";
import type { ObjectStore } from "../../store/port/object-store.ts";
import { StoreTime } from "../../store/store-time.ts";

/** How often a node looks whether its clock was moved. */
export const clockLookMs = 1_000;
/** How often a node notes what time it is: the next start knows then how far its clock was moved meanwhile. */
export const clockNoteMs = 300_000;

export interface ClockKeeperOptions {
  readonly world: World;
  readonly log: Log;
  readonly store: ObjectStore;
  /** Whether the store has a clock of its own. */
  readonly hasClock: boolean;
  /** The node's data directory. */
  readonly directory: string;
}

export class ClockKeeper {
  readonly #options: ClockKeeperOptions;
  /** Of the note. */
  readonly #path: string;
  readonly #storeTime: StoreTime;
  #cancel: Cancel = () => {};
  #isTold = false;
  #notedAtMs: number;

  /** Goes on from what the last run has noted, and looks every second from now on. */
  constructor(options: ClockKeeperOptions) {
    this.#options = options;
    this.#path = join(options.directory, "time");
    this.#storeTime = new StoreTime(options.world, options.store);
    this.#notedAtMs = options.world.monotonicMs();
    const noted = options.hasClock ? undefined : readNote(this.#path);
    if (noted) options.world.time.resume(noted);
    this.#tick();
  }

  /** Looks no more, and notes what time it is. */
  [Symbol.dispose](): void {
    this.#cancel();
    this.#note();
  }

  /** Whether the machine's clock is so far off that it is not believed. */
  get isDoubted(): boolean {
    return Math.abs(this.#options.world.time.aheadMs) > limits.clockToldMs;
  }

  #tick(): void {
    const { world } = this.#options;
    this.#storeTime.tick();
    this.#tell();
    if (world.monotonicMs() - this.#notedAtMs >= clockNoteMs) this.#note();
    this.#cancel = world.after(clockLookMs, () => this.#tick());
  }

  #tell(): void {
    const { isDoubted } = this;
    if (isDoubted === this.#isTold) return;
    this.#isTold = isDoubted;
    const { world, log, hasClock } = this.#options;
    const aheadSecs = Math.round(world.time.aheadMs / 1_000);
    if (!isDoubted) log.info("this node's clock is believed again", { aheadSecs });
    else if (hasClock)
      log.warn("this node's clock is wrong, going by object storage's: the node goes by that one", { aheadSecs });
    else
      log.warn(
        "this node's clock was moved, or the node was down or suspended for long: what has expired is kept " +
          "until the clock has been steady for a while",
        { aheadSecs, steadySecs: limits.clockSteadyMs / 1_000 },
      );
  }

  #note(): void {
    const { world, log, hasClock } = this.#options;
    this.#notedAtMs = world.monotonicMs();
    if (hasClock) return;
    try {
      const descriptor = openSync(`${this.#path}.new`, "w", 0o600);
      try {
        writeWhole(realDisk, descriptor, this.#path, Buffer.from(JSON.stringify(world.time.memory)), 0);
      } finally {
        closeSync(descriptor);
      }
      renameSync(`${this.#path}.new`, this.#path);
    } catch (error) {
      log.warn("what time it is could not be noted for the next start; it is tried again", {
        code: getErrorCode(error),
      });
    }
  }
}

/** What the note says; undefined when there is none that says anything. */
function readNote(path: string): TimeMemory | undefined {
  try {
    const { monotonicMs, steadyMs, nowMs, toldMs, toldForMs } = JSON.parse(readFileSync(path, "utf8")) as TimeMemory;
    return [monotonicMs, steadyMs, nowMs, toldMs, toldForMs].every(Number.isFinite)
      ? { monotonicMs, steadyMs, nowMs, toldMs, toldForMs }
      : undefined;
  } catch {
    // A first start, or a disk that has worse to tell elsewhere.
    return undefined;
  }
}
