/**
 * A disk that can lose power. It remembers how far each log was synced; `lose` copies a data directory as a disk might
 * hold it after the power went: what was synced is there, what was not is cut, zeroed in blocks, or there by luck.
 */
import { cpSync, existsSync, ftruncateSync, openSync, closeSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { headerBytes } from "../../src/sqlite/wal-reader.ts";
import { realDisk, type Disk } from "../../src/base/disk.ts";
import { extentOf, generationOf } from "./log-extent.ts";

interface Synced {
  readonly generation: string;
  readonly bytes: number;
}

const sectorBytes = 512;

export class PowerDisk implements Disk {
  readonly write = realDisk.write;
  readonly #synced = new Map<string, Synced>();
  readonly #syncs: boolean;
  /** Syncs of logs that were being written over the frames of older ones. */
  overwriting = 0;

  /** `syncs: false` is the negative control: the fdatasync is taken out and success is claimed all the same. */
  constructor(syncs: boolean) {
    this.#syncs = syncs;
  }

  async fdatasync(_descriptor: number, path: string): Promise<void> {
    // New database files are synced too; only logs can be torn here.
    if (!path.endsWith("-wal")) return;
    const log = readFileSync(path);
    const synced = { generation: generationOf(log), bytes: extentOf(log) };
    if (synced.bytes < log.length) this.overwriting++;
    await new Promise((resolve) => setImmediate(resolve));
    if (this.#syncs) this.#synced.set(path, synced);
  }

  async syncDirectory(): Promise<void> {
    // What is lost here is what logs hold: names of files are kept.
  }

  /** Copies `from` to `to` as it may be found after a power loss now. */
  lose(from: string, to: string, random: () => number): void {
    rmSync(to, { recursive: true, force: true });
    cpSync(from, to, { recursive: true });
    for (const name of readdirSync(to, { recursive: true, encoding: "utf8" })) {
      if (name.endsWith("-shm") && random() < 0.5) rmSync(join(to, name));
      if (name.endsWith("-wal")) this.#tear(join(from, name), join(to, name), random);
    }
  }

  #tear(original: string, copy: string, random: () => number): void {
    if (!existsSync(copy)) return;
    const bytes = readFileSync(copy);
    const synced = this.#synced.get(original);
    // SQLite itself syncs the header of a new log; nothing beyond it is certain until we sync.
    const safe = synced && synced.generation === generationOf(bytes) ? synced.bytes : Math.min(bytes.length, headerBytes);
    const fate = random();
    let end = bytes.length;
    if (fate < 0.4) end = safe + Math.floor(random() * (bytes.length - safe + 1));
    else if (fate < 0.8) for (let at = safe; at < bytes.length; at += sectorBytes) if (random() < 0.5) bytes.fill(0, at, Math.min(at + sectorBytes, bytes.length));
    writeFileSync(copy, bytes);
    const descriptor = openSync(copy, "r+");
    ftruncateSync(descriptor, end);
    closeSync(descriptor);
  }
}
