/**
 * The bytes of a request's body, whole or not at all, for every wire.
 *
 * Always true: no more than the cap of one body, and no more than bodiesBytesMax of all together, is ever held, counted
 * as the bytes are after inflation and until their reader releases them; a body that is refused is read on and thrown
 * away for a while, because closing on a client that still sends makes its system drop our answer unread, and then cut.
 * Must not know: who sends it (asked before a body is read), what it means.
 */
import type { Readable } from "node:stream";
import { createGunzip } from "node:zlib";
import { invalid, ServiceError } from "../../base/faults/errors.ts";
import type { World } from "../../base/world.ts";
import { ClientGone } from "../../service/call/call.ts";
import type { WireRequest, WireResponse } from "./listener.ts";

/** All request bodies that are being read and decoded, on all wires together, inflated; more are shed. */
const bodiesBytesMax = 1024 * 1024 * 1024;
/** How much of a refused body is read and thrown away before its connection is cut, and for how long. */
export const discardedBytesMax = 64 * 1024 * 1024;
const discardMs = 5_000;
/** From this many of them, a chunk of up to 64 KiB is read in this many milliseconds: 25 MiB in a second. */
const discardsPerTick = 4;
const discardTickMs = 10;
/**
 * JSON shrinks by 10 to 50 times, repeated text by 200 times; gzip could do 1,000. Up to the first size there is no
 * check.
 */
const inflatedTimesMax = 256;
const inflatedFreeBytes = 1024 * 1024;
/** What one step of inflating makes at most, before it is counted. */
const inflateChunkBytes = 256 * 1024;

/** Counts the bytes of all bodies that are held. */
export class BodyRoom {
  readonly #bytesMax: number;
  #bytes = 0;

  constructor(bytesMax: number = bodiesBytesMax) {
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

/** A whole body. Its bytes count in the room until it is disposed of, which must happen once. */
export interface HeldBody extends Disposable {
  readonly bytes: Buffer;
}

/** Chunks that are kept one by one before they are joined. */
const looseChunksMax = 512;

/** Chunks on their way to a body, counted as they come. */
class Gathering {
  readonly #room: BodyRoom;
  readonly #bytesMax: number;
  readonly #chunks: Buffer[] = [];
  #bytes = 0;
  /** Chunks since they were last joined. */
  #loose = 0;

  constructor(room: BodyRoom, bytesMax: number) {
    this.#room = room;
    this.#bytesMax = bytesMax;
  }

  get bytes(): number {
    return this.#bytes;
  }

  /** Adds a chunk, or says why it must not be held. */
  add(chunk: Buffer): ServiceError | undefined {
    if (this.#bytes + chunk.length > this.#bytesMax) return tooLarge(this.#bytesMax);
    if (!this.#room.take(chunk.length)) return new ServiceError("overloaded", "too many request bodies are being read");
    this.#bytes += chunk.length;
    this.#chunks.push(chunk);
    // A body that comes byte by byte would take a hundred times its size, were every chunk kept as it came.
    if (++this.#loose === looseChunksMax) this.#chunks.push(Buffer.concat(this.#chunks.splice(-this.#loose)));
    if (this.#loose === looseChunksMax) this.#loose = 0;
    return undefined;
  }

  releaseRoom(): void {
    this.#room.give(this.#bytes);
    this.#bytes = 0;
  }

  whole(): HeldBody {
    const bytes = this.#chunks.length === 1 ? this.#chunks[0]! : Buffer.concat(this.#chunks, this.#bytes);
    return { bytes, [Symbol.dispose]: () => this.releaseRoom() };
  }
}

/**
 * Reads a body of at most `bytesMax` bytes. What is left of a refused one is the caller's to discard.
 * @throws ServiceError `payload_too_large`, `overloaded`; ClientGone.
 */
export function readBody(request: WireRequest, bytesMax: number, room: BodyRoom): Promise<HeldBody> {
  return new Promise((resolve, reject) => {
    const source = getSource(request);
    const announced = Number(request.headers["content-length"] ?? 0);
    const gathering = new Gathering(room, bytesMax);
    const stopListening = (): void => {
      source.off("data", onData);
      source.off("end", onEnd);
      source.off("close", onGone);
      source.off("error", onGone);
    };
    const refuse = (refusal: Error): void => {
      stopListening();
      gathering.releaseRoom();
      reject(refusal);
    };
    const onData = (chunk: Buffer): void => {
      const refusal = gathering.add(chunk);
      if (refusal) refuse(refusal);
    };
    const onEnd = (): void => {
      // A stream of HTTP/2 that its client takes back ends too.
      if ("stream" in request && request.stream.aborted) return onGone();
      stopListening();
      resolve(gathering.whole());
    };
    const onGone = (): void => refuse(new ClientGone());
    if (announced > bytesMax) return refuse(tooLarge(bytesMax));
    // Nothing will tell of the end of one that has ended already: of HTTP/2 one without a body has.
    if (source.destroyed) return onGone();
    if (source.readableEnded) return onEnd();
    source.on("data", onData);
    source.on("end", onEnd);
    source.on("close", onGone);
    source.on("error", onGone);
  });
}

/**
 * What the bytes of a request come by. A request of HTTP/2 is a stream of its own over the one that they come by, and
 * reading that costs as much again.
 */
function getSource(request: WireRequest): Readable {
  return "stream" in request ? request.stream : request;
}

/**
 * Inflates gzip, in the thread pool and piece by piece, each counted in the room before the next is made.
 * @throws ServiceError `payload_too_large` for more than `bytesMax`, or for more than a client's own compression of
 * honest content can give; `overloaded`; `invalid_request`.
 */
export function inflate(compressed: Uint8Array, bytesMax: number, room: BodyRoom): Promise<HeldBody> {
  return new Promise((resolve, reject) => {
    const gathering = new Gathering(room, bytesMax);
    const gunzip = createGunzip({ chunkSize: inflateChunkBytes });
    const inflatedMax = Math.max(inflatedFreeBytes, compressed.length * inflatedTimesMax);
    const refuse = (refusal: ServiceError): void => {
      gunzip.destroy();
      gathering.releaseRoom();
      reject(refusal);
    };
    gunzip.on("data", (chunk: Buffer) => {
      const refusal = gathering.add(chunk) ?? (gathering.bytes > inflatedMax ? tooDense() : undefined);
      if (refusal) refuse(refusal);
    });
    gunzip.on("error", () => refuse(invalid("the body is not gzip, though its encoding says so")));
    gunzip.on("end", () => resolve(gathering.whole()));
    // An empty message has no header of gzip.
    if (compressed.length === 0) gunzip.end();
    else gunzip.end(compressed);
  });
}

function tooLarge(bytesMax: number): ServiceError {
  return new ServiceError("payload_too_large", `the body is larger than the ${bytesMax} bytes that this route takes`);
}

function tooDense(): ServiceError {
  return new ServiceError(
    "payload_too_large",
    `the body inflates to more than ${inflatedTimesMax} times its size: send it without compression`,
  );
}

/**
 * Reads and forgets the rest of refused requests, all of them together slowly enough to cost no other caller; cuts a
 * connection when its rest is long or takes long.
 */
export class Discards {
  readonly #world: Pick<World, "after">;
  readonly #taken = new WeakSet<Readable>();
  /**
   * Those that wait for their turn to be read from, the longest first. Each is a connection or stream, whose number is
   * bounded.
   */
  readonly #waiting = new Set<Readable>();
  #ticks = false;

  constructor(world: Pick<World, "after">) {
    this.#world = world;
  }

  /** Takes over what is left of a request once its answer is out. */
  takeAfter(request: WireRequest, response: WireResponse): void {
    response.once("finish", () => this.take(request));
  }

  /** Takes over what is left of a request that is answered. */
  take(request: WireRequest): void {
    const source = getSource(request);
    // Node itself ends an answered stream of HTTP/2 of which nothing was read.
    if (request.complete || source.readableEnded || (source !== request && source.readableFlowing === null)) return;
    if (this.#taken.has(source)) return;
    this.#taken.add(source);
    let bytes = 0;
    const cut = (): void => endRequest(request);
    const cancel = this.#world.after(discardMs, cut);
    const stopWaiting = (): void => {
      cancel();
      this.#waiting.delete(source);
    };
    source.once("close", stopWaiting);
    source.once("end", stopWaiting);
    // The client may leave while we discard; it has no answer to miss.
    source.on("error", () => {});
    source.on("data", (chunk: Buffer) => {
      bytes += chunk.length;
      if (bytes > discardedBytesMax) return cut();
      source.pause();
      this.#wait(source);
    });
    source.pause();
    this.#wait(source);
  }

  #wait(source: Readable): void {
    this.#waiting.add(source);
    if (this.#ticks) return;
    this.#ticks = true;
    this.#world.after(discardTickMs, () => {
      this.#ticks = false;
      // One chunk of each.
      for (const one of [...this.#waiting].slice(0, discardsPerTick)) {
        this.#waiting.delete(one);
        one.resume();
      }
      const [next] = this.#waiting;
      if (next) this.#wait(next);
    });
  }
}

/** Ends a request that is answered, with what is left of it: its connection, or of HTTP/2 its stream alone. */
function endRequest(request: WireRequest): void {
  // To destroy a request of HTTP/2 leaves its stream open, and its client sending (tried).
  if ("stream" in request) request.stream.close();
  else request.destroy();
}
