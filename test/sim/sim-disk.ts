/**
 * The disk under one process of a node: it takes its time, it may be full, it may fail, and power may go.
 *
 * What is asked of a Disk passes through here, what SQLite does by itself through the VFS for tests; both draw their
 * faults from the seed. What the folder below has of it when the power goes, its ledger says (support/disk-ledger).
 */
import { fstatSync } from "node:fs";
import { realDisk, type Disk } from "../../src/base/disk.ts";
import type { DiskLedger } from "../support/disk-ledger.ts";
import { faultVfs, type VfsFault } from "../support/fault-vfs.ts";
import { stream, type Scheduler } from "./scheduler.ts";
import type { SimWorld } from "./sim-world.ts";

/** How much of each fault; chances are per operation, 0 to 1. */
export interface DiskDose {
  readonly fsyncMsMax: number;
  /** Chance that an fsync takes up to two seconds. */
  readonly slow: number;
  /** Chance that an fsync fails; what it was to sync is then lost for this file, whatever a later fsync says. */
  readonly failing: number;
  /** Chance that a write finds the disk full, with some of it written or none. */
  readonly full: number;
  /** Chance that a write fails. */
  readonly writeFails: number;
  /** Chance that a read fails. */
  readonly readFails: number;
}

export const soundDisk: DiskDose = { fsyncMsMax: 2, slow: 0, failing: 0, full: 0, writeFails: 0, readFails: 0 };

const slowMsMax = 2_000;

/** What the disk says when it fails: nothing but a simulated fault may end in it. */
const simulated = "simulated";

export class SimDisk implements Disk {
  readonly ledger: DiskLedger;
  readonly #scheduler: Scheduler;
  readonly #world: SimWorld;
  readonly #random: () => number;
  readonly #dose: () => DiskDose;
  /** Planted bug: success is claimed and nothing is synced. */
  readonly #lies: boolean;
  /** An engine starts on a sound disk: one that cannot even make its empty database is started again until it can. */
  #isHurt = false;
  /** Called after an fsync of ours has failed. */
  failed: () => void = () => {};

  constructor(
    ledger: DiskLedger,
    scheduler: Scheduler,
    world: SimWorld,
    seed: number,
    dose: () => DiskDose,
    lies: boolean,
  ) {
    this.ledger = ledger;
    this.#scheduler = scheduler;
    this.#world = world;
    this.#random = stream(seed, `disk ${world.name}`);
    this.#dose = dose;
    this.#lies = lies;
    this.#takeDose(soundDisk);
    ledger.onRead = () => {
      const { readFails } = this.#now;
      if (readFails > 0 && this.#random() < readFails) throw this.#failure("EIO", "a read fails");
    };
  }

  /** From here on operations fail as the dose says now. */
  takeDose(): void {
    this.#isHurt = true;
    this.#takeDose(this.#dose());
  }

  get #now(): DiskDose {
    return this.#isHurt ? this.#dose() : soundDisk;
  }

  #takeDose({ failing, full, writeFails, readFails }: DiskDose): void {
    const chances: Readonly<Record<VfsFault, number>> = {
      readFails,
      writeFull: full / 2,
      writeShort: full / 2,
      writeFails,
      cutFails: writeFails,
      syncFails: failing,
    };
    for (const [fault, chance] of Object.entries(chances))
      faultVfs().chance(this.ledger.vfsFolder, fault as VfsFault, chance);
  }

  write(descriptor: number, path: string, bytes: Uint8Array, position: number): number {
    const { full, writeFails } = this.#now;
    if (writeFails > 0 && this.#random() < writeFails) throw this.#failure("EIO", "a write fails");
    if (full === 0 || this.#random() >= full) return realDisk.write(descriptor, path, bytes, position);
    const taken = Math.floor(this.#random() * bytes.length);
    if (taken === 0 || this.#random() < 0.5) throw this.#failure("ENOSPC", "the disk is full");
    this.#scheduler.note(this.#world.name, "the disk takes a part");
    return realDisk.write(descriptor, path, bytes.subarray(0, taken), position);
  }

  fdatasync(descriptor: number, _path: string): Promise<void> {
    const { ino } = fstatSync(descriptor);
    const mark = this.ledger.mark();
    const fails = this.#random() < this.#dose().failing;
    return this.#takesTime(fails ? "fsync fails" : "fsync", () => {
      if (fails) {
        this.ledger.syncFailed(ino, mark);
        this.failed();
        throw this.#failure("EIO", "an fsync fails");
      }
      if (!this.#lies) this.ledger.synced(ino, mark);
    });
  }

  syncDirectory(path: string): Promise<void> {
    const mark = this.ledger.mark();
    return this.#takesTime("fsync of a directory", () => {
      if (!this.#lies) this.ledger.folderSynced(path, mark);
    });
  }

  #failure(code: string, what: string): Error {
    this.#scheduler.note(this.#world.name, what);
    return Object.assign(new Error(`${simulated}: ${what}`), { code });
  }

  #takesTime(what: string, act: () => void): Promise<void> {
    const { fsyncMsMax, slow } = this.#dose();
    const delayMs = this.#random() * (this.#random() < slow ? slowMsMax : fsyncMsMax);
    return new Promise((resolve, reject) => {
      this.#scheduler.at(delayMs, this.#world, what, () => {
        try {
          act();
          resolve();
        } catch (error) {
          reject(error as Error);
        }
      });
    });
  }
}
