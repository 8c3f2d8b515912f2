/**
 * Proof that this node gets on: its disk keeps a byte, and every engine thread answers.
 *
 * A node whose disk or engine hangs could renew its lease for ever and serve nothing, so the lease is renewed only
 * after such a proof. The caller bounds the time and asks for one proof at a time: a disk that hangs keeps one open.
 */
import { open, type FileHandle } from "node:fs/promises";
import { join } from "node:path";
import { StoreError } from "../../base/faults/errors.ts";
import { limits } from "../../base/limits.ts";
import type { World } from "../../base/world.ts";
import type { EngineClient } from "../../engine/threads/client.ts";

export class Progress {
  readonly #engine: EngineClient;
  readonly #world: World;
  readonly #file: FileHandle;
  #turn = 0;

  private constructor(engine: EngineClient, world: World, file: FileHandle) {
    this.#engine = engine;
    this.#world = world;
    this.#file = file;
  }

  /** Opens the file that takes the bytes. */
  static async open(directory: string, engine: EngineClient, world: World): Promise<Progress> {
    return new Progress(engine, world, await open(join(directory, "progress"), "w", 0o600));
  }

  /** Resolves when disk and engines have just done something; rejects when they cannot. */
  async prove(): Promise<void> {
    const deadlineMs = this.#world.monotonicMs() + limits.leaseProgressMs;
    await Promise.all([this.#write(), this.#engine.ping({ deadlineMs })]);
  }

  async #write(): Promise<void> {
    const { bytesWritten } = await this.#file.write(Uint8Array.of(this.#turn++ % 256), 0, 1, 0);
    if (bytesWritten !== 1) throw new StoreError("unavailable", "the disk takes no byte");
    await this.#file.datasync();
  }

  async close(): Promise<void> {
    await this.#file.close();
  }
}
