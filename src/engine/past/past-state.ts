/**
 * One earlier state of a branch as a file of its own, open for reading.
 *
 * Always true: the file is nobody's to write, and holds the state whose transaction id it was opened for; it is removed
 * with everything beside it when it is closed. Must not know: how it was restored, for how long it is kept.
 */
import { rmSync } from "node:fs";
import { StoreError } from "../../base/faults/errors.ts";
import { limits } from "../../base/limits.ts";
import { runRead, type ReadKind } from "../../model/commands.ts";
import { readState } from "../../model/core/database-state.ts";
import type { MemoryRetention } from "../../model/core/retention.ts";
import { VectorCache, type VectorPool } from "../../model/index/vector-index.ts";
import { Connection } from "../../sqlite/connection/connection.ts";
import type { Slices } from "../../sqlite/slices.ts";

export interface PastStateParts {
  readonly vectorPool: VectorPool;
  /** How long reads may hold the thread; undefined where no process could run them instead. */
  readonly slices: Slices | undefined;
}

/** What a read sees beside the file. */
export interface PastSight {
  readonly nowMs: number;
  readonly retention: MemoryRetention | undefined;
}

export class PastState {
  readonly #connection: Connection;
  readonly #vectors: VectorCache;
  readonly #slices: Slices | undefined;
  readonly path: string;
  readonly txid: number;
  readonly committedAtMs: number;

  /** Opens the restored file. Throws StoreError("corrupt") when it is not of that transaction id. */
  constructor(path: string, txid: number, { vectorPool, slices }: PastStateParts) {
    this.path = path;
    this.#slices = slices;
    this.#vectors = new VectorCache(vectorPool);
    this.#connection = new Connection(path, { readonly: true, pageCacheKiB: limits.pageCacheKiB });
    try {
      slices?.attach(this.#connection);
      const state = readState(this.#connection);
      if (state.txid !== txid) throw new StoreError("corrupt", "a restored file is not the state that was asked for");
      [this.txid, this.committedAtMs] = [state.txid, state.committedAtMs];
    } catch (error) {
      this.#connection.close();
      throw error;
    }
  }

  /** Runs the read. One that takes longer than its slice throws what isSliceOver knows. */
  read(command: ReadKind, input: unknown, sight: PastSight): unknown {
    const view = { ...sight, connection: this.#connection, vectors: this.#vectors };
    const run = (): unknown => runRead(command, view, input);
    return this.#slices ? this.#slices.run(this.#connection, run) : run();
  }

  /** Closes the file and removes it. What was being made of its vectors is gone too once the result resolves. */
  async close(): Promise<void> {
    this.#vectors.evictAll();
    try {
      this.#connection.close();
    } finally {
      removePastFile(this.path);
    }
    await this.#vectors.forgotten();
  }
}

/** Removes a restored file and what SQLite or an unfinished restore has put beside it. */
export function removePastFile(path: string): void {
  for (const suffix of ["", "-wal", "-shm", ".restoring"]) rmSync(`${path}${suffix}`, { force: true });
}
