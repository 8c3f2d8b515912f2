/**
 * The bytes of a request's body, whole or not at all.
 *
 * Always true: no more than the cap of one body, and no more than limits.bodiesBytesMax of all together, is ever held;
 * a body that is refused is read on and thrown away for a while, because closing on a client that still sends makes
 * its system drop our answer unread, and then cut.
 */
import { ServiceError } from "../base/errors.ts";
import { limits } from "../base/limits.ts";
import type { WireRequest } from "./listener.ts";

/** The client went away before its request was whole: there is nobody to answer. */
export class ClientGone extends Error {
  override readonly name = "ClientGone";
}

/** Counts the bytes of all bodies that are being read. */
export class BodyRoom {
  readonly #bytesMax: number;
  #bytes = 0;

  constructor(bytesMax: number = limits.bodiesBytesMax) {
    this.#bytesMax = bytesMax;
  }

  /** Takes room, or says no. */
  take(bytes: number): boolean {
    if (this.#bytes + bytes > this.#bytesMax) return false;
    this.#bytes += bytes;
    return true;
  }

  give(bytes: number): void {
    this.#bytes -= bytes;
  }

  /** Bytes held now. */
  get bytes(): number {
    return this.#bytes;
  }
}

/**
 * Reads a body of at most `bytesMax` bytes. What is left of a refused one is the caller's to discard.
 * @throws ServiceError `payload_too_large`, `overloaded`; ClientGone.
 */
export function readBody(request: WireRequest, bytesMax: number, room: BodyRoom): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    const announced = Number(request.headers["content-length"] ?? 0);
    const chunks: Buffer[] = [];
    let bytes = 0;
    const settle = (): void => {
      room.give(bytes);
      request.off("data", onData);
      request.off("end", onEnd);
      request.off("close", onGone);
      request.off("error", onGone);
    };
    const refuse = (refusal: ServiceError): void => {
      settle();
      reject(refusal);
    };
    const onData = (chunk: Buffer): void => {
      if (bytes + chunk.length > bytesMax) return refuse(tooLarge(bytesMax));
      if (!room.take(chunk.length)) return refuse(new ServiceError("overloaded", "too many request bodies are being read"));
      bytes += chunk.length;
      chunks.push(chunk);
    };
    const onEnd = (): void => {
      settle();
      resolve(chunks.length === 1 ? chunks[0]! : Buffer.concat(chunks, bytes));
    };
    const onGone = (): void => {
      settle();
      reject(new ClientGone());
    };
    if (announced > bytesMax) return refuse(tooLarge(bytesMax));
    request.on("data", onData);
    request.on("end", onEnd);
    request.on("close", onGone);
    request.on("error", onGone);
  });
}

function tooLarge(bytesMax: number): ServiceError {
  return new ServiceError("payload_too_large", `the body is larger than the ${bytesMax} bytes that this route takes`);
}

/** Reads and forgets the rest of a refused request; cuts the connection when the rest is long. */
export function discardBody(request: WireRequest): void {
  let bytes = 0;
  request.on("data", (chunk: Buffer) => {
    bytes += chunk.length;
    if (bytes > limits.discardedBytesMax) request.destroy();
  });
  // The client may leave while we discard; it has no answer to miss.
  request.on("error", () => {});
  request.resume();
}
