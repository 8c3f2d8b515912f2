/**
 * Calls or answers on their way through one stream: many share a message, and a large one goes in pieces between the
 * others, so that it neither holds them up nor makes the link look dead.
 *
 * Always true: the pieces of a payload leave in their order and before what they belong to; what has begun to leave
 * leaves entirely. Must not know what a payload is.
 */
import { create } from "@bufbuild/protobuf";
import { type Piece, PieceSchema } from "../../../gen/palimpsest/node/v1/node_pb.ts";
import { ServiceError } from "../../base/faults/errors.ts";
import { limits } from "../../base/limits.ts";

/** About how much is in one message between nodes. */
const peerMessageBytes = 1024 * 1024;
/** Larger inputs and values go in pieces of this size, so that others get their turn. */
export const peerPieceBytes = 256 * 1024;

/** A call or an answer, as its message. */
export interface Parcel {
  readonly id: number;
  payload: Uint8Array;
}

/** What goes into one message. */
export interface Load<Item> {
  readonly pieces: Piece[];
  readonly parcels: Item[];
}

/** What is counted for a parcel beside its payload. */
const labelBytes = 256;

/** Parcels that wait to be sent. */
export class Outbox<Item extends Parcel> {
  #small: Item[] = [];
  /** Sent one after the other; the first one may have begun. */
  readonly #large: Item[] = [];
  #hasBegun = false;
  #bytes = 0;

  /** Payloads that wait. */
  get bytes(): number {
    return this.#bytes;
  }

  get isEmpty(): boolean {
    return this.#small.length === 0 && this.#large.length === 0;
  }

  put(parcel: Item): void {
    this.#bytes += parcel.payload.length;
    (parcel.payload.length > peerPieceBytes ? this.#large : this.#small).push(parcel);
  }

  /** Takes as much as one message may hold, without what is not wanted any more. */
  take(isWanted: (parcel: Item) => boolean): Load<Item> {
    const load: Load<Item> = { pieces: [], parcels: [] };
    let room = peerMessageBytes;
    let count = 0;
    for (; count < this.#small.length && room > 0; count++) {
      const parcel = this.#small[count]!;
      this.#bytes -= parcel.payload.length;
      if (!isWanted(parcel)) continue;
      room -= parcel.payload.length + labelBytes;
      load.parcels.push(parcel);
    }
    // All of them, as a rule.
    this.#small = count === this.#small.length ? [] : this.#small.slice(count);
    this.#takeLarge(load, isWanted);
    return load;
  }

  #takeLarge({ pieces, parcels }: Load<Item>, isWanted: (parcel: Item) => boolean): void {
    let parcel = this.#large[0];
    while (parcel && !this.#hasBegun && !isWanted(parcel)) {
      this.#bytes -= parcel.payload.length;
      this.#large.shift();
      parcel = this.#large[0];
    }
    if (!parcel) return;
    const { id, payload } = parcel;
    this.#hasBegun = payload.length > peerPieceBytes;
    this.#bytes -= Math.min(payload.length, peerPieceBytes);
    if (this.#hasBegun) {
      pieces.push(create(PieceSchema, { id, payload: payload.subarray(0, peerPieceBytes) }));
      parcel.payload = payload.subarray(peerPieceBytes);
    } else {
      parcels.push(parcel);
      this.#large.shift();
    }
  }
}

/** Puts payloads that came in pieces together again. */
export class Inbox {
  readonly #pieces = new Map<number, Uint8Array[]>();
  #bytes = 0;

  /** Keeps a piece until the rest has come. Throws when too much waits. */
  add({ id, payload }: Piece): void {
    this.#bytes += payload.length;
    if (this.#bytes > limits.peerBytesMax)
      throw new ServiceError("payload_too_large", "too many pieces of payloads without their rest");
    const pieces = this.#pieces.get(id);
    if (pieces) pieces.push(payload);
    else this.#pieces.set(id, [payload]);
  }

  /** The payload of a parcel that has come. */
  whole({ id, payload }: Parcel): Uint8Array {
    const pieces = this.#pieces.get(id);
    if (!pieces) return payload;
    this.#pieces.delete(id);
    for (const piece of pieces) this.#bytes -= piece.length;
    return Buffer.concat([...pieces, payload]);
  }
}
