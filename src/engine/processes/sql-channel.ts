/**
 * The end of the pipe in a process that runs user SQL: it waits for one message, and answers it, and has nothing else
 * to do.
 *
 * Why blocking: between a message and its answer there is no turn of the loop, which would cost more than the pipe.
 */
import { readSync, writeSync } from "node:fs";
import { encodeFrame, FrameReader } from "./sql-frames.ts";

const chunkBytes = 64 * 1024;

export class SqlChannel {
  readonly #descriptor: number;
  readonly #reader = new FrameReader();
  readonly #messages: unknown[] = [];

  constructor(descriptor: number) {
    this.#descriptor = descriptor;
  }

  /** The next message; undefined when the other side is gone. */
  receive(): unknown {
    while (this.#messages.length === 0) {
      const piece = Buffer.allocUnsafe(chunkBytes);
      const bytes = readSync(this.#descriptor, piece);
      if (bytes === 0) return undefined;
      this.#messages.push(...this.#reader.take(piece.subarray(0, bytes)));
    }
    return this.#messages.shift();
  }

  send(message: unknown): void {
    const frame = encodeFrame(message);
    for (let sent = 0; sent < frame.length;) sent += writeSync(this.#descriptor, frame, sent);
  }
}
