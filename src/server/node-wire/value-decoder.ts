/**
 * Reads payloads between nodes (value-wire).
 *
 * Always true: what is read is in the canonical form and within the bounds, or refused, whatever the bytes are; arrays
 * have memory of their own, as a view that is sent to a thread takes all of what it looks at with it. Must not know:
 * commands, streams, protocols.
 */
import { decodeUtf8 } from "../../base/bytes.ts";
import { limits } from "../../base/limits.ts";
import { malformed } from "./malformed-message.ts";
import { constants, findNameFault, fieldValueTag, isInteger, memberTag, tags, tooMany } from "./value-wire.ts";

/** The data that the bytes are. Throws a ServiceError when they are none. */
export function decodeValue(payload: Uint8Array): unknown {
  if (payload.length === 0) return undefined;
  return new Decoder(payload).decode();
}

/** Names of fields that were read, by a number that their bytes give. */
const namesByHash = new Map<number, string>();

/** Reads one payload. */
class Decoder {
  readonly #bytes: Buffer;
  #at = 0;
  #values = 0;

  constructor(payload: Uint8Array) {
    this.#bytes = Buffer.from(payload.buffer, payload.byteOffset, payload.byteLength);
  }

  decode(): unknown {
    return this.#value(this.#bytes.length, 0);
  }

  /** The value whose message goes on to the end. */
  #value(end: number, depth: number): unknown {
    if (++this.#values > limits.peerValuesMax) throw tooMany();
    if (this.#at === end) return undefined;
    const value = this.#kind(end, depth);
    if (this.#at !== end) throw malformed("a value goes on where it should end");
    return value;
  }

  #kind(end: number, depth: number): unknown {
    const tag = this.#bytes[this.#at++]!;
    switch (tag) {
      case tags.constant:
        return decodeConstant(this.#varint(end));
      case tags.integer: {
        const zigzagged = this.#varint(end);
        return (zigzagged >>> 1) ^ -(zigzagged & 1);
      }
      case tags.number: {
        const number = this.#bytes.readDoubleLE(this.#take(8, end));
        if (isInteger(number)) throw malformed("a number that is not in its form");
        return number;
      }
      case tags.bigInteger:
        return this.#bytes.readBigInt64LE(this.#take(8, end));
      case tags.text:
        return this.#text(end);
      case tags.utf16:
        return this.#utf16(end);
      case tags.bytes: {
        const length = this.#varint(end);
        const start = this.#take(length, end);
        return new Uint8Array(this.#memory(start, start + length));
      }
      case tags.vector:
        return this.#vector(this.#inner(end));
      case tags.list:
        return this.#list(this.#inner(end), depth);
      case tags.record:
        return this.#record(this.#inner(end), depth);
      default:
        throw malformed(`a value of a kind that this node does not know (${tag >>> 3})`);
    }
  }

  #text(end: number): string {
    const length = this.#varint(end);
    const start = this.#take(length, end);
    const text = this.#bytes.toString("utf8", start, start + length);
    // The runtime reads what is no UTF-8 as this character.
    if (text.includes("\ufffd") && decodeUtf8(this.#bytes.subarray(start, start + length)) === undefined)
      throw malformed("a text that is no UTF-8");
    return text;
  }

  #utf16(end: number): string {
    const length = this.#varint(end);
    const start = this.#take(length, end);
    const text = this.#bytes.toString("utf16le", start, start + length);
    if (length % 2 === 1 || text.isWellFormed()) throw malformed("a text that is not in its form");
    return text;
  }

  #vector(end: number): Float32Array {
    if (this.#at === end) return new Float32Array(0);
    this.#expect(memberTag);
    const whole = this.#inner(end) === end;
    const start = this.#at;
    if (!whole || start === end || (end - start) % Float32Array.BYTES_PER_ELEMENT !== 0)
      throw malformed("a vector that is not whole");
    this.#at = end;
    return new Float32Array(this.#memory(start, end));
  }

  #list(end: number, depth: number): unknown[] {
    this.#requireShallow(depth);
    const list: unknown[] = [];
    while (this.#at < end) {
      this.#expect(memberTag);
      list.push(this.#value(this.#inner(end), depth + 1));
    }
    return list;
  }

  #record(end: number, depth: number): Record<string, unknown> {
    this.#requireShallow(depth);
    const record: Record<string, unknown> = {};
    while (this.#at < end) {
      this.#expect(memberTag);
      const fieldEnd = this.#inner(end);
      const name = this.#name(fieldEnd);
      if (name in record && Object.hasOwn(record, name)) throw malformed("a record that has a name twice");
      if (this.#at === fieldEnd) throw malformed("a field without a value");
      this.#expect(fieldValueTag);
      if (this.#inner(fieldEnd) !== fieldEnd) throw malformed("a field that goes on where it should end");
      const value = this.#value(fieldEnd, depth + 1);
      if (name === "__proto__") addField(record, name, value);
      else record[name] = value;
    }
    return record;
  }

  #name(end: number): string {
    if (this.#at === end) throw malformed("a field without a name");
    this.#expect(memberTag);
    const length = this.#varint(end);
    const start = this.#take(length, end);
    // FNV-1a.
    let hash = 0x811c9dc5;
    for (let at = start; at < this.#at; at++) hash = Math.imul(hash ^ this.#bytes[at]!, 0x01000193);
    const known = namesByHash.get(hash);
    if (known !== undefined && this.#isAt(start, known)) return known;
    const name = this.#bytes.toString("latin1", start, this.#at);
    const fault = findNameFault(name);
    if (fault !== undefined) throw malformed(fault);
    if (namesByHash.size < limits.peerFieldNamesKnownMax) namesByHash.set(hash, name);
    return name;
  }

  /** Whether the name lies between `start` and this place. */
  #isAt(start: number, name: string): boolean {
    if (this.#at - start !== name.length) return false;
    for (let index = 0; index < name.length; index++)
      if (this.#bytes[start + index] !== name.charCodeAt(index)) return false;
    return true;
  }

  #requireShallow(depth: number): void {
    if (depth >= limits.peerValueDepthMax) throw malformed(`values nested more than ${limits.peerValueDepthMax} deep`);
  }

  #expect(tag: number): void {
    if (this.#bytes[this.#at++] !== tag) throw malformed("a field that this node does not know");
  }

  /** Where what begins with its length here ends. */
  #inner(end: number): number {
    const length = this.#varint(end);
    if (length > end - this.#at) throw malformed("a value that is cut off");
    return this.#at + length;
  }

  /** Goes over this many bytes, and gives where they begin. */
  #take(length: number, end: number): number {
    const start = this.#at;
    if (length > end - start) throw malformed("a value that is cut off");
    this.#at = start + length;
    return start;
  }

  #varint(end: number): number {
    // As a rule.
    if (this.#at < end && this.#bytes[this.#at]! < 0x80) return this.#bytes[this.#at++]!;
    let number = 0;
    for (let shift = 0; shift < 35; shift += 7) {
      if (this.#at >= end) throw malformed("a value that is cut off");
      const byte = this.#bytes[this.#at++]!;
      number += (byte & 0x7f) * 2 ** shift;
      if (byte >= 0x80) continue;
      if (number > 0xffff_ffff || (byte === 0 && shift > 0)) break;
      return number;
    }
    throw malformed("a number that is not in its form");
  }

  /** A copy, which has its own memory. */
  #memory(start: number, end: number): ArrayBuffer {
    const { buffer, byteOffset } = this.#bytes;
    return (buffer as ArrayBuffer).slice(byteOffset + start, byteOffset + end);
  }
}

/** Setting a field of this name would do something else. */
function addField(record: Record<string, unknown>, name: string, value: unknown): void {
  Object.defineProperty(record, name, { value, writable: true, enumerable: true, configurable: true });
}

function decodeConstant(number: number): boolean | null {
  if (number === constants.null) return null;
  if (number === constants.false || number === constants.true) return number === constants.true;
  throw malformed("a constant that this node does not know");
}
