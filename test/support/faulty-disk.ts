/**
 * A disk under a real process that fills up, turns read-only, fails or is slow, as a test says while the process runs.
 *
 * No root and no file system of its own: a library in C (faulty-disk.c) stands between the process and its C library
 * for everything below one directory, and reads from a shared block of memory what to do.
 */
import { execFileSync, spawnSync } from "node:child_process";
import { closeSync, mkdirSync, openSync, readSync, writeFileSync, writeSync } from "node:fs";
import { join } from "node:path";

/** What the disk does; all of it is off on a sound one. */
export interface DiskTrouble {
  /** So many bytes more are taken, and then none: the last write is cut. */
  readonly roomBytes?: number;
  readonly isReadOnly?: boolean;
  readonly writesFail?: boolean;
  readonly syncsFail?: boolean;
  /** What every write and fsync takes longer. */
  readonly delayMs?: number;
}

/** What has passed through the disk. */
export interface DiskCounts {
  readonly refused: number;
  /** Writes of which a part was taken. */
  readonly cut: number;
  readonly writes: number;
  readonly syncs: number;
  readonly names: number;
}

const controlBytes = 72;

/** Whether such a disk can be had here: it takes a C compiler and a system that loads libraries first. */
export const canFaultDisks = process.platform === "linux" && spawnSync("cc", ["--version"]).status === 0;

export class FaultyDisk {
  /** For the process whose disk it is to be. */
  readonly variables: Readonly<Record<string, string>>;
  readonly #descriptor: number;

  /** Files below `root` are on the disk; the library and its control block lie in `folder`, which is elsewhere. */
  constructor(root: string, folder: string) {
    mkdirSync(root, { recursive: true });
    const [library, control] = [join(folder, "faulty-disk.so"), join(folder, "control")];
    execFileSync("cc", [
      "-O1",
      "-shared",
      "-fPIC",
      "-w",
      "-o",
      library,
      join(import.meta.dirname, "faulty-disk.c"),
      "-ldl",
    ]);
    writeFileSync(control, Buffer.alloc(controlBytes));
    this.#descriptor = openSync(control, "r+");
    this.variables = { LD_PRELOAD: library, FAULTY_DISK_ROOT: root, FAULTY_DISK_CONTROL: control };
  }

  set(trouble: DiskTrouble): void {
    const block = Buffer.alloc(32);
    block.writeInt32LE(trouble.roomBytes === undefined ? 0 : 1, 0);
    block.writeInt32LE(trouble.isReadOnly ? 1 : 0, 4);
    block.writeInt32LE(trouble.writesFail ? 1 : 0, 8);
    block.writeInt32LE(trouble.syncsFail ? 1 : 0, 12);
    block.writeInt32LE(Math.round((trouble.delayMs ?? 0) * 1_000), 16);
    block.writeBigInt64LE(BigInt(trouble.roomBytes ?? 0), 24);
    writeSync(this.#descriptor, block, 0, block.length, 0);
  }

  heal(): void {
    this.set({});
  }

  get counts(): DiskCounts {
    const block = Buffer.alloc(controlBytes);
    readSync(this.#descriptor, block, 0, controlBytes, 0);
    const [refused, cut, writes, syncs, names] = [32, 40, 48, 56, 64].map((at) => Number(block.readBigInt64LE(at)));
    return { refused: refused!, cut: cut!, writes: writes!, syncs: syncs!, names: names! };
  }

  close(): void {
    closeSync(this.#descriptor);
  }
}
