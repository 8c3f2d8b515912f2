/**
 * The disk under one process of a node: fsyncs take their time and may fail, and power may go.
 *
 * Always true: it knows how far each file was synced, because the engine syncs through it; what SQLite syncs by itself
 * (a log's header and entry, everything around a checkpoint) is taken as synced. `carry` copies a data directory as the
 * disk may hold it after the process was killed, or after the power went: what was synced is there; a log beyond that is
 * cut, zeroed in blocks, or there by luck; a file that was never synced is torn; a name that was never synced is gone.
 */
import { copyFileSync, fstatSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { headerBytes } from "../../src/sqlite/wal-reader.ts";
import { realDisk, type Disk } from "../../src/base/disk.ts";
import { extentOf, generationOf } from "../support/log-extent.ts";
import { stream, type Scheduler } from "./scheduler.ts";
import type { SimWorld } from "./sim-world.ts";

export interface DiskDose {
  readonly fsyncMsMax: number;
  /** Chance that an fsync takes up to two seconds. */
  readonly slow: number;
  /** Chance that an fsync fails; what it was to sync is then lost for this file, whatever a later fsync says. */
  readonly failing: number;
}

export const soundDisk: DiskDose = { fsyncMsMax: 2, slow: 0, failing: 0 };

const sectorBytes = 512;
const slowMsMax = 2_000;

export class SimDisk implements Disk {
  readonly write = realDisk.write;
  readonly #scheduler: Scheduler;
  readonly #world: SimWorld;
  readonly #random: () => number;
  readonly #dose: () => DiskDose;
  /** Planted bug: success is claimed and nothing is synced. */
  readonly #lies: boolean;
  /** How many bytes of a log are synced, by its salts: a log that is proven anew is a copy with the same ones. */
  readonly #logs = new Map<string, number>();
  /** Files that were synced, by inode, as they are renamed. */
  readonly #files = new Set<number>();
  /** Logs of which an fsync has failed: the kernel counts the lost pages as clean. */
  readonly #holed = new Map<number, string>();
  /** Names of each directory that a sync of it has seen. */
  readonly #names = new Map<string, ReadonlySet<string>>();

  constructor(scheduler: Scheduler, world: SimWorld, seed: number, dose: () => DiskDose, lies: boolean) {
    this.#scheduler = scheduler;
    this.#world = world;
    this.#random = stream(seed, `disk ${world.name}`);
    this.#dose = dose;
    this.#lies = lies;
  }

  fdatasync(descriptor: number, path: string): Promise<void> {
    const { ino } = fstatSync(descriptor);
    const log = path.endsWith("-wal") ? readFileSync(path) : undefined;
    const generation = log && generationOf(log);
    const end = log ? extentOf(log) : 0;
    const fails = this.#random() < this.#dose().failing;
    return this.#takesTime(fails ? "fsync fails" : "fsync", () => {
      if (fails) {
        if (generation !== undefined) this.#holed.set(ino, generation);
        throw Object.assign(new Error("simulated: fsync failed"), { code: "EIO" });
      }
      if (this.#lies) return;
      if (generation === undefined) this.#files.add(ino);
      else if (this.#holed.get(ino) !== generation) this.#logs.set(generation, Math.max(end, this.#logs.get(generation) ?? 0));
    });
  }

  syncDirectory(path: string): Promise<void> {
    const names = new Set(readdirSync(path));
    return this.#takesTime("fsync of a directory", () => {
      // Two of them may be under way, and the one that began first may end last.
      if (!this.#lies) this.#names.set(path, new Set([...(this.#names.get(path) ?? []), ...names]));
    });
  }

  /** What stands in the directory now is on disk: whoever prepared it has seen to that. */
  trust(path: string): void {
    this.#names.set(path, new Set(readdirSync(path)));
  }

  /** Copies `from`, which this disk served, to `to`, which `next` will serve. */
  carry(from: string, to: string, next: SimDisk, powerLost: boolean): void {
    mkdirSync(to, { recursive: true });
    const synced = this.#names.get(from);
    if (synced && !powerLost) next.#names.set(to, synced);
    for (const entry of readdirSync(from, { withFileTypes: true }).toSorted((a, b) => (a.name < b.name ? -1 : 1))) {
      const [source, copy] = [join(from, entry.name), join(to, entry.name)];
      const isSafe = entry.name.endsWith("-wal") || synced?.has(entry.name);
      if (powerLost && !isSafe && this.#random() < 0.5) continue;
      if (entry.isDirectory()) this.carry(source, copy, next, powerLost);
      else if (!(powerLost && entry.name.endsWith("-shm") && this.#random() < 0.5)) this.#carryFile(source, copy, next, powerLost);
    }
    // What is there after a power loss has been read from the disk.
    if (powerLost) next.trust(to);
  }

  #carryFile(source: string, copy: string, next: SimDisk, powerLost: boolean): void {
    copyFileSync(source, copy);
    const was = statSync(source).ino;
    const is = statSync(copy).ino;
    if (source.endsWith("-wal")) {
      const bytes = readFileSync(copy);
      const generation = generationOf(bytes);
      const synced = this.#logs.get(generation);
      // SQLite itself syncs the header of a new log; nothing beyond it is certain until we sync.
      if (powerLost) this.#tearFrom(copy, synced ?? Math.min(bytes.length, headerBytes));
      if (powerLost) next.#logs.set(generation, extentOf(readFileSync(copy)));
      else if (synced !== undefined) next.#logs.set(generation, synced);
    } else if (powerLost && source.endsWith(".tmp") && !this.#files.has(was)) {
      this.#tearFrom(copy, 0);
    }
    if (powerLost || this.#files.has(was)) next.#files.add(is);
    const holed = this.#holed.get(was);
    if (holed !== undefined && !powerLost) next.#holed.set(is, holed);
  }

  #tearFrom(path: string, safe: number): void {
    const bytes = readFileSync(path);
    const fate = this.#random();
    let end = bytes.length;
    if (fate < 0.4) end = safe + Math.floor(this.#random() * (bytes.length - safe + 1));
    else if (fate < 0.8) for (let at = safe; at < bytes.length; at += sectorBytes) if (this.#random() < 0.5) bytes.fill(0, at, Math.min(at + sectorBytes, bytes.length));
    writeFileSync(path, bytes.subarray(0, end));
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
