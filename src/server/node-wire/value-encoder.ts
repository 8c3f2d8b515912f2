/**
 * Writes payloads between nodes (value-wire).
 *
 * Always true: what is written reads back the same, to the last bit; what a payload cannot hold is a fault of ours, and
 * what is more than the other node takes is refused before it leaves. Must not know: commands, streams, protocols.
 */
import { assert } from "../../base/faults/assert.ts";
import { limits } from "../../base/limits.ts";
import { constants, findNameFault, fieldValueTag, isInteger, memberTag, tags, tooMany } from "./value-wire.ts";

const nothing = new Uint8Array(0);

/** The data as bytes; none for undefined. Throws a ServiceError when there is too much of it. */
export function encodeValue(value: unknown): Uint8Array {
  return value === undefined ? nothing : new Encoder().encode(value);
}

function varintBytes(number: number): number {
  if (number < 0x80) return 1;
  if (number < 0x4000) return 2;
  if (number < 0x20_0000) return 3;
  return number < 0x1000_0000 ? 4 : 5;
}

function zigzag(integer: number): number {
  return ((integer << 1) ^ (integer >> 31)) >>> 0;
}

/** Names of fields that were written, each with its bytes: a payload has few, and many times. */
const framesOfNames = new Map<string, Uint8Array>();

/** A name in its field, with what comes before it. */
function encodeName(name: string): Uint8Array {
  const known = framesOfNames.get(name);
  if (known) return known;
  const fault = findNameFault(name);
  assert(fault === undefined, `no payload holds ${fault}`);
  const frame = Uint8Array.of(memberTag, name.length, ...Buffer.from(name, "latin1"));
  if (framesOfNames.size < limits.peerFieldNamesKnownMax) framesOfNames.set(name, frame);
  return frame;
}

/** Where payloads are written first, one after the other; most find room in it. */
const draft = Buffer.allocUnsafeSlow(64 * 1024);

/**
 * Writes one payload from its end to its beginning: a message follows its length, which is known when all of it is
 * written.
 */
class Encoder {
  #bytes = draft;
  /** Where what is written begins. */
  #at = draft.length;
  #values = 0;

  encode(value: unknown): Uint8Array {
    this.#write(value, 0);
    const written = this.#bytes.subarray(this.#at);
    return this.#bytes === draft ? Buffer.from(written) : written;
  }

  #write(value: unknown, depth: number): void {
    if (++this.#values > limits.peerValuesMax) throw tooMany();
    switch (typeof value) {
      case "undefined":
        return;
      case "boolean":
        return this.#frame(tags.constant, value ? constants.true : constants.false);
      case "number":
        if (isInteger(value)) this.#frame(tags.integer, zigzag(value));
        else this.#writeFixed(tags.number, (bytes, start) => bytes.writeDoubleLE(value, start));
        return;
      case "bigint":
        assert(BigInt.asIntN(64, value) === value, "a big integer of a payload has 64 bits");
        return this.#writeFixed(tags.bigInteger, (bytes, start) => bytes.writeBigInt64LE(value, start));
      case "string":
        return this.#writeText(value);
      case "object":
        if (value === null) this.#frame(tags.constant, constants.null);
        else this.#writeObject(value, depth);
        return;
      default:
        throw new TypeError(`a payload cannot hold a ${typeof value}`);
    }
  }

  #writeText(text: string): void {
    const length = Buffer.byteLength(text);
    // What is no longer than its characters is ASCII.
    if (length === text.length || text.isWellFormed()) {
      const start = this.#before(length);
      this.#bytes.write(text, start, "utf8");
      this.#frame(tags.text, length);
    } else {
      const start = this.#before(2 * text.length);
      this.#bytes.write(text, start, "utf16le");
      this.#frame(tags.utf16, 2 * text.length);
    }
  }

  #writeObject(value: object, depth: number): void {
    if (value instanceof Uint8Array) {
      this.#writeBytes(value);
      return this.#frame(tags.bytes, value.length);
    }
    if (value instanceof Float32Array) return this.#writeVector(value);
    assert(depth < limits.peerValueDepthMax, "a payload nests no deeper than it may");
    const end = this.#length;
    if (Array.isArray(value)) {
      // An item that is missing is one that is undefined.
      for (let index = value.length - 1; index >= 0; index--) this.#writeMember(memberTag, value[index], depth);
      return this.#frame(tags.list, this.#length - end);
    }
    const prototype: unknown = Object.getPrototypeOf(value);
    if (prototype !== Object.prototype && prototype !== null)
      throw new TypeError(`a payload cannot hold a ${value.constructor.name}`);
    const names = Object.keys(value);
    for (let index = names.length - 1; index >= 0; index--) {
      const name = names[index]!;
      const fieldEnd = this.#length;
      this.#writeMember(fieldValueTag, (value as Readonly<Record<string, unknown>>)[name], depth);
      this.#writeName(encodeName(name));
      this.#frame(memberTag, this.#length - fieldEnd);
    }
    this.#frame(tags.record, this.#length - end);
  }

  /** A value inside another. */
  #writeMember(tag: number, value: unknown, depth: number): void {
    const end = this.#length;
    this.#write(value, depth + 1);
    this.#frame(tag, this.#length - end);
  }

  #writeVector({ buffer, byteOffset, byteLength }: Float32Array): void {
    const end = this.#length;
    if (byteLength > 0) {
      this.#writeBytes(new Uint8Array(buffer, byteOffset, byteLength));
      this.#frame(memberTag, byteLength);
    }
    this.#frame(tags.vector, this.#length - end);
  }

  #writeBytes(given: Uint8Array): void {
    const start = this.#before(given.length);
    this.#bytes.set(given, start);
  }

  #writeName(frame: Uint8Array): void {
    const start = this.#before(frame.length);
    const bytes = this.#bytes;
    for (let index = 0; index < frame.length; index++) bytes[start + index] = frame[index]!;
  }

  /** Eight bytes behind their tag. */
  #writeFixed(tag: number, write: (bytes: Buffer, start: number) => void): void {
    const start = this.#before(9);
    this.#bytes[start] = tag;
    write(this.#bytes, start + 1);
  }

  /** A number, or the length of what is written behind it. */
  #frame(tag: number, number: number): void {
    let at = this.#before(1 + varintBytes(number));
    const bytes = this.#bytes;
    bytes[at++] = tag;
    for (; number >= 0x80; number >>>= 7) bytes[at++] = (number & 0x7f) | 0x80;
    bytes[at] = number;
  }

  /** How much is written. */
  get #length(): number {
    return this.#bytes.length - this.#at;
  }

  /** Makes room for this many bytes before what is written, maybe in other memory, and gives where they begin. */
  #before(length: number): number {
    if (length > this.#at) {
      const written = this.#bytes.subarray(this.#at);
      const larger = Buffer.allocUnsafeSlow(Math.max(2 * this.#bytes.length, written.length + length + draft.length));
      larger.set(written, larger.length - written.length);
      this.#bytes = larger;
      this.#at = larger.length - written.length;
    }
    return (this.#at -= length);
  }
}
