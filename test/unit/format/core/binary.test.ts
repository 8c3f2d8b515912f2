/** Values of every kind are read as they were written, and a reader refuses bytes that are none. */
import * as fc from "fast-check";
import { expect, test } from "vitest";
import { AssertionFault } from "../../../../src/base/faults/assert.ts";
import { ByteReader, ByteWriter } from "../../../../src/format/core/binary.ts";

const corrupt = expect.objectContaining({
  kind: "corrupt",
  message: expect.stringMatching(/^a thing cannot be read: /),
});

function written(write: (writer: ByteWriter) => void): Uint8Array {
  const writer = new ByteWriter();
  write(writer);
  return writer.finish();
}

function read<Value>(bytes: Uint8Array, take: (reader: ByteReader) => Value): Value {
  const reader = new ByteReader(bytes, "a thing");
  const value = take(reader);
  reader.end();
  return value;
}

test("values of every kind come back in the order in which they were written", () => {
  fc.assert(
    fc.property(
      fc.nat(0xff),
      fc.nat(0xffff_ffff),
      fc.maxSafeNat(),
      fc.uint8Array({ minLength: 5, maxLength: 5 }),
      fc.uint8Array({ maxLength: 700 }),
      fc.string({ unit: "grapheme" }),
      fc.uuid(),
      fc.array(fc.maxSafeNat(), { maxLength: 300 }),
      fc.boolean(),
      fc.option(fc.maxSafeNat(), { nil: undefined }),
      (u8, u32, varint, fixed, bytes, text, uuid, list, flag, optional) => {
        const at = written((writer) => {
          writer.u8(u8);
          writer.u32(u32);
          writer.varint(varint);
          writer.fixed(fixed, 5);
          writer.bytes(bytes, 700);
          writer.text(text, 1_000);
          writer.uuid(uuid);
          writer.list(list, 300, (item) => writer.varint(item));
          writer.flag(flag);
          writer.optional(optional, (value) => writer.varint(value));
        });
        const back = read(at, (reader) => [
          reader.u8(),
          reader.u32(),
          reader.varint(),
          reader.fixed(5),
          reader.bytes(700),
          reader.text(1_000),
          reader.uuid(),
          reader.list(300, () => reader.varint()),
          reader.flag(),
          reader.optional(() => reader.varint()),
        ]);
        expect(back).toEqual([u8, u32, varint, fixed, bytes, text, uuid, list, flag, optional]);
      },
    ),
  );
});

test("a varint takes seven bits a byte", () => {
  for (const [value, bytes] of [
    [0, [0]],
    [0x7f, [0x7f]],
    [0x80, [0x80, 1]],
    [0x3fff, [0xff, 0x7f]],
    [2 ** 53 - 1, [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x0f]],
  ] as const) {
    expect([...written((writer) => writer.varint(value))]).toEqual(bytes);
    expect(read(Uint8Array.from(bytes), (reader) => reader.varint())).toBe(value);
  }
});

test.each([
  ["a varint beyond 2^53 - 1", [0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x10]],
  ["a varint of nine bytes", [0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x01]],
  ["a varint that never ends", Array<number>(40).fill(0xff)],
  ["a varint that could be shorter", [0x81, 0x00]],
  ["a varint cut short", [0x81]],
])("%s is corrupt", (_name, bytes) => {
  expect(() => read(Uint8Array.from(bytes), (reader) => reader.varint())).toThrow(corrupt);
});

test.each<[string, number[], (reader: ByteReader) => unknown]>([
  ["a byte of none", [], (reader) => reader.u8()],
  ["four bytes of three", [1, 2, 3], (reader) => reader.u32()],
  ["fixed bytes beyond the end", [1, 2], (reader) => reader.fixed(3)],
  ["bytes beyond the end", [3, 1, 2], (reader) => reader.bytes(10)],
  ["bytes beyond their bound", [3, 1, 2, 3], (reader) => reader.bytes(2)],
  ["text that is not UTF-8", [2, 0xc3, 0x28], (reader) => reader.text(10)],
  ["text beyond its bound", [3, 97, 97, 97], (reader) => reader.text(2)],
  ["a list beyond its bound", [3, 1, 2, 3], (reader) => reader.list(2, () => reader.u8())],
  ["a list cut short", [3, 1, 2], (reader) => reader.list(9, () => reader.u8())],
  ["a flag of 2", [2, 1], (reader) => reader.optional(() => reader.u8())],
  ["a uuid cut short", [1, 2, 3], (reader) => reader.uuid()],
  ["bytes after the end", [1, 2], (reader) => reader.u8()],
])("%s: refused as corrupt", (_name, bytes, take) => {
  expect(() => read(Uint8Array.from(bytes), take)).toThrow(corrupt);
});

test.each<[string, (writer: ByteWriter) => void]>([
  ["a byte of 256", (writer) => writer.u8(256)],
  ["four bytes of 2^32", (writer) => writer.u32(2 ** 32)],
  ["a negative number", (writer) => writer.varint(-1)],
  ["a fraction", (writer) => writer.varint(0.5)],
  ["a number beyond 2^53 - 1", (writer) => writer.varint(2 ** 53)],
  ["bytes of another length", (writer) => writer.fixed(new Uint8Array(3), 4)],
  ["bytes beyond their bound", (writer) => writer.bytes(new Uint8Array(3), 2)],
  ["text beyond its bound in UTF-8", (writer) => writer.text("äää", 5)],
  ["text with half a character", (writer) => writer.text("\ud800", 5)],
  ["an upper-case uuid", (writer) => writer.uuid("0F8FAD5B-D9CB-469F-A165-70867728950E")],
  ["a list beyond its bound", (writer) => writer.list([1, 2, 3], 2, () => {})],
])("writing %s is a bug", (_name, write) => {
  expect(() => written(write)).toThrow(AssertionFault);
});

test("what a reader gives does not change with the bytes it read", () => {
  const bytes = Buffer.from([2, 7, 8]);
  const value = new ByteReader(bytes, "a thing").bytes(2);
  bytes.fill(0);
  expect([...value]).toEqual([7, 8]);
});
