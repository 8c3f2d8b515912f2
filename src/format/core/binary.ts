/**
 * Numbers, bytes and text in a row: what every binary format at rest is made of.
 *
 * Fixed integers are little-endian. A varint holds 0 to 2^53 - 1, seven bits a byte, lowest first, the top bit set in
 * all bytes but the last, and never longer than it must be. Bytes and text carry their length before them as a varint.
 * Always true: a reader never looks beyond its bytes, gives copies, and answers anything that breaks a rule with
 * StoreError("corrupt"); a writer takes a value that breaks one for a bug of ours. Must not know: any format.
 */
import { assert } from "../../base/faults/assert.ts";
import { decodeUtf8, encodeUtf8, toHex } from "../../base/bytes.ts";
import { StoreError } from "../../base/faults/errors.ts";

const initialBytes = 256;
const uuidPattern = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/;

/** Whether the text is a lower-case UUID. */
export function isUuid(text: string): boolean {
  return uuidPattern.test(text);
}

/** Writes values one after the other into a buffer that grows. */
export class ByteWriter {
  #buffer = Buffer.alloc(initialBytes);
  #length = 0;

  /** A copy of everything written so far. */
  finish(): Uint8Array {
    return new Uint8Array(this.#buffer.subarray(0, this.#length));
  }

  /** One byte. */
  u8(value: number): void {
    assert(Number.isInteger(value) && value >= 0 && value <= 0xff, "a byte holds 0 to 255");
    const at = this.#grow(1);
    this.#buffer[at] = value;
  }

  /** Four bytes. */
  u32(value: number): void {
    assert(Number.isInteger(value) && value >= 0 && value <= 0xffff_ffff, "four bytes hold 0 to 2^32 - 1");
    const at = this.#grow(4);
    this.#buffer.writeUInt32LE(value, at);
  }

  /** A whole number from 0 to 2^53 - 1. */
  varint(value: number): void {
    assert(Number.isSafeInteger(value) && value >= 0, "a varint holds 0 to 2^53 - 1");
    let rest = value;
    while (rest >= 0x80) {
      this.u8((rest % 0x80) + 0x80);
      rest = Math.floor(rest / 0x80);
    }
    this.u8(rest);
  }

  /** Bytes whose number the format fixes. */
  fixed(bytes: Uint8Array, count: number): void {
    assert(bytes.length === count, `${count} bytes, as the format says`);
    const at = this.#grow(count);
    this.#buffer.set(bytes, at);
  }

  /** At most `bytesMax` bytes. */
  bytes(bytes: Uint8Array, bytesMax: number): void {
    assert(bytes.length <= bytesMax, `at most ${bytesMax} bytes`);
    this.varint(bytes.length);
    this.fixed(bytes, bytes.length);
  }

  /** Text of at most `bytesMax` bytes in UTF-8. */
  text(text: string, bytesMax: number): void {
    assert(text.isWellFormed(), "text that UTF-8 can say");
    this.bytes(encodeUtf8(text), bytesMax);
  }

  /** A lower-case UUID, in 16 bytes. */
  uuid(uuid: string): void {
    assert(isUuid(uuid), "a lower-case UUID");
    this.fixed(Buffer.from(uuid.replaceAll("-", ""), "hex"), 16);
  }

  /** At most `itemsMax` items, their number first. */
  list<Item>(items: Iterable<Item> & ArrayLike<Item>, itemsMax: number, write: (item: Item) => void): void {
    assert(items.length <= itemsMax, `at most ${itemsMax} items`);
    this.varint(items.length);
    for (const item of items) write(item);
  }

  /** One byte: 0 for no, 1 for yes. */
  flag(value: boolean): void {
    this.u8(value ? 1 : 0);
  }

  /** A flag that says whether there is a value, and the value. */
  optional<Value>(value: Value | undefined, write: (value: Value) => void): void {
    this.flag(value !== undefined);
    if (value !== undefined) write(value);
  }

  /** Makes room for `count` more bytes; gives where they go. */
  #grow(count: number): number {
    const at = this.#length;
    this.#length += count;
    if (this.#length > this.#buffer.length) {
      const larger = Buffer.alloc(Math.max(this.#length, this.#buffer.length * 2));
      larger.set(this.#buffer.subarray(0, at));
      this.#buffer = larger;
    }
    return at;
  }
}

/** Reads what a ByteWriter wrote, in the same order. */
export class ByteReader {
  readonly #bytes: Uint8Array;
  readonly #what: string;
  #at = 0;

  /** `what` names the bytes in errors, such as `a manifest`. */
  constructor(bytes: Uint8Array, what: string) {
    this.#bytes = bytes;
    this.#what = what;
  }

  /** Refuses the bytes for a rule that they break. */
  fail(rule: string): never {
    throw new StoreError("corrupt", `${this.#what} cannot be read: ${rule}`);
  }

  /** Refuses the bytes unless the rule holds. */
  require(holds: boolean, rule: string): void {
    if (!holds) this.fail(rule);
  }

  /** How many bytes are left. */
  get left(): number {
    return this.#bytes.length - this.#at;
  }

  /** Refuses bytes after the last value. */
  end(): void {
    this.require(this.left === 0, "it goes on after its end");
  }

  u8(): number {
    return this.#bytes[this.#take(1)]!;
  }

  u32(): number {
    const at = this.#take(4);
    return (
      this.#bytes[at]! +
      this.#bytes[at + 1]! * 0x100 +
      this.#bytes[at + 2]! * 0x1_0000 +
      this.#bytes[at + 3]! * 0x100_0000
    );
  }

  varint(): number {
    let value = 0;
    for (let scale = 1; ; scale *= 0x80) {
      const byte = this.u8();
      value += (byte % 0x80) * scale;
      // 2^49 is the scale of the eighth byte, and eight bytes hold 2^53 - 1.
      this.require(Number.isSafeInteger(value) && scale <= 2 ** 49, "a number is larger than 2^53 - 1");
      if (byte >= 0x80) continue;
      this.require(byte !== 0 || scale === 1, "a number is longer than it must be");
      return value;
    }
  }

  fixed(count: number): Uint8Array {
    const at = this.#take(count);
    return new Uint8Array(this.#bytes.subarray(at, at + count));
  }

  bytes(bytesMax: number): Uint8Array {
    const count = this.varint();
    this.require(count <= bytesMax, `a value has more than ${bytesMax} bytes`);
    return this.fixed(count);
  }

  text(bytesMax: number): string {
    return decodeUtf8(this.bytes(bytesMax)) ?? this.fail("a text is not UTF-8");
  }

  uuid(): string {
    const hex = toHex(this.fixed(16));
    return [hex.slice(0, 8), hex.slice(8, 12), hex.slice(12, 16), hex.slice(16, 20), hex.slice(20)].join("-");
  }

  list<Item>(itemsMax: number, read: () => Item): Item[] {
    const count = this.varint();
    this.require(count <= itemsMax, `a list has more than ${itemsMax} items`);
    const items: Item[] = [];
    while (items.length < count) items.push(read());
    return items;
  }

  flag(): boolean {
    const flag = this.u8();
    this.require(flag <= 1, "a flag is neither 0 nor 1");
    return flag === 1;
  }

  optional<Value>(read: () => Value): Value | undefined {
    return this.flag() ? read() : undefined;
  }

  /** Steps over `count` bytes; gives where they begin. */
  #take(count: number): number {
    const at = this.#at;
    this.require(count <= this.left, "it ends too early");
    this.#at += count;
    return at;
  }
}
