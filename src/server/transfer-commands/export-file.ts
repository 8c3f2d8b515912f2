/**
 * The file that an export is written to: compressed as its name says, and there under its name only when it is whole.
 *
 * Always true: what was begun lies beside, under the name with `.part`, and is durable before it takes its place; a
 * failure leaves neither. Must not know: what is written.
 */
import { once } from "node:events";
import { closeSync, openSync, renameSync, rmSync } from "node:fs";
import { dirname } from "node:path";
import type { Transform } from "node:stream";
import { createGzip, createZstdCompress } from "node:zlib";
import { realDisk, writeWhole } from "../../base/disk.ts";

export class ExportFile {
  readonly #path: string;
  readonly #draft: string;
  readonly #descriptor: number;
  readonly #packer: Transform | undefined;
  #position = 0;
  #fault: Error | undefined;

  constructor(path: string) {
    this.#path = path;
    this.#draft = `${path}.part`;
    this.#descriptor = openSync(this.#draft, "w", 0o600);
    this.#packer = path.endsWith(".gz") ? createGzip() : path.endsWith(".zst") ? createZstdCompress() : undefined;
    this.#packer?.on("data", (bytes: Uint8Array) => this.#take(bytes));
  }

  /** Adds the text at the end. */
  async add(text: string): Promise<void> {
    const bytes = Buffer.from(text);
    if (!this.#packer) this.#put(bytes);
    else if (!this.#packer.write(bytes)) await once(this.#packer, "drain");
    this.#check();
  }

  /** Puts the file in its place. */
  async finish(): Promise<void> {
    if (this.#packer) {
      const ended = once(this.#packer, "end");
      this.#packer.end();
      await ended;
    }
    this.#check();
    await realDisk.fdatasync(this.#descriptor, this.#draft);
    closeSync(this.#descriptor);
    renameSync(this.#draft, this.#path);
    await realDisk.syncDirectory(dirname(this.#path));
  }

  /** Removes what was begun. */
  discard(): void {
    closeSync(this.#descriptor);
    rmSync(this.#draft, { force: true });
  }

  #put(bytes: Uint8Array): void {
    writeWhole(realDisk, this.#descriptor, this.#draft, bytes, this.#position);
    this.#position += bytes.length;
  }

  /** What is compressed comes by an event: its fault waits for whoever adds or finishes. */
  #take(bytes: Uint8Array): void {
    try {
      if (this.#fault === undefined) this.#put(bytes);
    } catch (error) {
      this.#fault = error as Error;
    }
  }

  #check(): void {
    if (this.#fault !== undefined) throw this.#fault;
  }
}
