/**
 * Messages between the node and a process that runs user SQL, as bytes on a pipe: a length, then the structured clone.
 *
 * Always true: neither side takes a message that is longer than it may be. Must not know: what the messages mean.
 */
import { deserialize, serialize } from "node:v8";

/** One message between the node and such a process: the largest results, two bytes to a character. */
const sqlMessageBytesMax = 64 * 1024 * 1024;

const lengthBytes = 4;

/** The message as it travels. Throws RangeError when it is longer than it may be. */
export function encodeFrame(message: unknown): Buffer {
  const body = serialize(message);
  if (body.length > sqlMessageBytesMax) throw new RangeError("a message between processes is too long");
  const frame = Buffer.allocUnsafe(lengthBytes + body.length);
  frame.writeUInt32LE(body.length);
  body.copy(frame, lengthBytes);
  return frame;
}

/** Puts messages together again from the pieces in which a pipe hands them out. */
export class FrameReader {
  #pieces: Buffer[] = [];
  #bytes = 0;

  /** The messages that the piece completes. Throws RangeError for one that is longer than it may be. */
  *take(piece: Buffer): Generator<unknown> {
    this.#pieces.push(piece);
    this.#bytes += piece.length;
    while (this.#bytes >= lengthBytes) {
      if (this.#pieces[0]!.length < lengthBytes) this.#join();
      const length = this.#pieces[0]!.readUInt32LE();
      if (length > sqlMessageBytesMax) throw new RangeError("a message between processes is too long");
      if (this.#bytes < lengthBytes + length) return;
      this.#join();
      const [whole] = this.#pieces;
      const rest = whole!.subarray(lengthBytes + length);
      this.#pieces = rest.length > 0 ? [rest] : [];
      this.#bytes = rest.length;
      yield deserialize(whole!.subarray(lengthBytes, lengthBytes + length));
    }
  }

  #join(): void {
    if (this.#pieces.length > 1) this.#pieces = [Buffer.concat(this.#pieces)];
  }
}
