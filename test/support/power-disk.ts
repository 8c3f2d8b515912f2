/**
 * A disk that can lose power, under a real engine: syncs take a few turns of the loop, and `lose` copies its folder as
 * a disk may hold it after the power went.
 */
import { fstatSync } from "node:fs";
import { realDisk, type Disk } from "../../src/base/disk.ts";
import { DiskLedger } from "./disk-ledger.ts";

/** Long enough for an answer that does not wait for the sync to be heard before it. */
const syncTurns = 4;

export class PowerDisk implements Disk {
  readonly write = realDisk.write;
  /** Whether fsyncs fail: what they were to sync is then lost with the power, until it is written again. */
  isFailing = false;
  readonly #ledger: DiskLedger;
  readonly #syncs: boolean;

  /** `syncs: false` is the negative control: the fdatasync is taken out and success is claimed all the same. */
  constructor(folder: string, syncs: boolean) {
    this.#ledger = new DiskLedger(folder);
    this.#syncs = syncs;
  }

  async fdatasync(descriptor: number): Promise<void> {
    const { ino } = fstatSync(descriptor);
    const mark = this.#ledger.mark();
    await turns(syncTurns);
    if (this.isFailing) {
      this.#ledger.syncFailed(ino, mark);
      throw Object.assign(new Error("i/o error"), { code: "EIO" });
    }
    if (this.#syncs) this.#ledger.synced(ino, mark);
  }

  async syncDirectory(path: string): Promise<void> {
    const mark = this.#ledger.mark();
    await turns(syncTurns);
    if (this.#syncs) this.#ledger.folderSynced(path, mark);
  }

  /** Syncs that went over bytes of older ones. */
  get overwriting(): number {
    return this.#ledger.overwriting;
  }

  /** Copies the folder to `to`, which is not there, as it may be found after a power loss now. */
  lose(to: string, random: () => number): void {
    this.#ledger.lose(to, random);
  }

  close(): void {
    this.#ledger.close();
  }
}

async function turns(count: number): Promise<void> {
  for (let turn = 0; turn < count; turn++) await new Promise((resolve) => setImmediate(resolve));
}
