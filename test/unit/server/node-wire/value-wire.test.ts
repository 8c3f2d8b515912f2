/** Payloads as bytes: all that goes in comes out, the generated code reads the same, and nothing else is taken. */
import { isDeepStrictEqual } from "node:util";
import { create, fromBinary, toBinary } from "@bufbuild/protobuf";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { Constant, type Value, ValueSchema } from "../../../../gen/palimpsest/node/v1/node_pb.ts";
import { AssertionFault } from "../../../../src/base/faults/assert.ts";
import { ServiceError } from "../../../../src/base/faults/errors.ts";
import { limits } from "../../../../src/base/limits.ts";
import { decodeValue } from "../../../../src/server/node-wire/value-decoder.ts";
import { encodeValue } from "../../../../src/server/node-wire/value-encoder.ts";
import { peerFieldNameCharsMax } from "../../../../src/server/node-wire/value-wire.ts";

const name = fc
  .string({ unit: fc.integer({ min: 0x21, max: 0x7e }).map((code) => String.fromCharCode(code)), minLength: 1 })
  .filter(({ length }) => length <= peerFieldNameCharsMax);

/** Text with surrogates that stand alone, now and then. */
const anyText = fc.oneof(
  fc.string(),
  fc.string({ unit: "binary" }),
  fc.string({ unit: fc.constantFrom("a", "\ud83c", "\udf75", "\ufffd", "\ufeff", "\u0000", "é", "茶") }),
  fc.constantFrom("", "x".repeat(127), "x".repeat(128), "é".repeat(64), "x".repeat(16_384)),
);

const anyNumber = fc.oneof(
  fc.double(),
  fc.integer(),
  fc.maxSafeInteger(),
  fc.constantFrom(-0, NaN, Infinity, -Infinity, 2 ** 31, -(2 ** 31), 2 ** 31 - 1, -(2 ** 31) - 1, 5e-324),
);

const { anyValue } = fc.letrec((tie) => ({
  anyValue: fc.oneof(
    { maxDepth: 6, withCrossShrink: true },
    fc.constantFrom(undefined, null, true, false),
    anyNumber,
    anyText,
    fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n }),
    fc.uint8Array(),
    fc.float32Array(),
    fc.array(tie("anyValue")),
    fc
      .uniqueArray(fc.tuple(fc.oneof(name, fc.constantFrom("__proto__", "constructor")), tie("anyValue")), {
        selector: ([key]) => key,
      })
      .map((fields) => Object.fromEntries(fields)),
  ),
}));

/** The value as the message says it, to the letter of the proto file. */
function messageOf(value: unknown): Value {
  return create(ValueSchema, { kind: kindOf(value) });
}

function kindOf(value: unknown): Value["kind"] {
  if (value === undefined) return { case: undefined };
  if (value === null) return { case: "constant", value: Constant.NULL };
  if (typeof value === "boolean") return { case: "constant", value: value ? Constant.TRUE : Constant.FALSE };
  if (typeof value === "bigint") return { case: "bigInteger", value };
  if (typeof value === "number")
    return Number.isInteger(value) && !Object.is(value, -0) && Math.abs(value + 0.5) < 2 ** 31
      ? { case: "integer", value }
      : { case: "number", value };
  if (typeof value === "string")
    return value.isWellFormed()
      ? { case: "text", value }
      : { case: "utf16", value: new Uint8Array(Buffer.from(value, "utf16le")) };
  if (value instanceof Uint8Array) return { case: "bytes", value };
  if (value instanceof Float32Array)
    return { case: "vector", value: { $typeName: "palimpsest.node.v1.FloatVector", components: [...value] } };
  if (Array.isArray(value))
    return { case: "list", value: { $typeName: "palimpsest.node.v1.ValueList", items: value.map(messageOf) } };
  const fields = Object.entries(value).map(([key, member]) => ({
    $typeName: "palimpsest.node.v1.Field" as const,
    name: key,
    value: messageOf(member),
  }));
  return { case: "record", value: { $typeName: "palimpsest.node.v1.Record", fields } };
}

function catchRefusal(payload: Uint8Array): string {
  try {
    decodeValue(payload);
  } catch (error) {
    if (error instanceof ServiceError) return `${error.code}: ${error.message}`;
    throw error;
  }
  return "none";
}

const bytesOf = (hex: string): Uint8Array => new Uint8Array(Buffer.from(hex.replaceAll(" ", ""), "hex"));

describe("what goes in comes out", () => {
  test("data of every kind, to the last bit", () => {
    fc.assert(
      fc.property(anyValue, (value) => {
        const read = decodeValue(encodeValue(value));
        expect(isDeepStrictEqual(read, value)).toBe(true);
        // Vectors may hold any bits, of which the comparison sees only that they are no number.
        expect(Buffer.compare(encodeValue(read), encodeValue(value))).toBe(0);
      }),
      { numRuns: 2_000 },
    );
  });

  test("the bytes are the message of the proto file, written and read by generated code", () => {
    fc.assert(
      fc.property(anyValue, (value) => {
        const bytes = encodeValue(value);
        expect(Buffer.compare(bytes, toBinary(ValueSchema, messageOf(value)))).toBe(0);
        expect(Buffer.compare(toBinary(ValueSchema, fromBinary(ValueSchema, bytes)), bytes)).toBe(0);
      }),
      { numRuns: 500 },
    );
  });

  test.each([
    [undefined, ""],
    [null, "0801"],
    [false, "0802"],
    [true, "0803"],
    [0, "1000"],
    [-1, "1001"],
    [2 ** 31 - 1, "10 feffffff0f"],
    [-(2 ** 31), "10 ffffffff0f"],
    [2 ** 31, "19 000000000000e041"],
    [-0, "19 0000000000000080"],
    [2n ** 63n - 1n, "21 ffffffffffffff7f"],
    ["é", "2a02c3a9"],
    ["\ud800", "320200d8"],
    [Uint8Array.of(7), "3a0107"],
    [new Uint8Array(0), "3a00"],
    [Float32Array.of(1), "4206 0a04 0000803f"],
    [new Float32Array(0), "4200"],
    [[1, undefined], "4a06 0a021002 0a00"],
    [[], "4a00"],
    [{ a: null, b: undefined }, "5210 0a07 0a0161 12020801 0a05 0a0162 1200"],
    [{}, "5200"],
  ])("%s is written as it always was", (value, hex) => {
    expect([...encodeValue(value)]).toEqual([...bytesOf(hex)]);
    expect(decodeValue(bytesOf(hex))).toStrictEqual(value);
  });

  test("values larger than the memory that is kept for writing, in and between small ones", () => {
    for (const bytes of [65_000, 65_536, 70_000, 3 * 1024 * 1024]) {
      const large = new Uint8Array(bytes).map((_, at) => at);
      const value = { before: "b", large, vector: new Float32Array(bytes), text: "é".repeat(bytes), after: [1, 2] };
      expect(isDeepStrictEqual(decodeValue(encodeValue(value)), value)).toBe(true);
    }
  });

  test("a payload is not changed by the next one", () => {
    const [first, second] = [encodeValue({ a: "first" }), encodeValue({ a: "second" })];
    expect([decodeValue(first), decodeValue(second)]).toEqual([{ a: "first" }, { a: "second" }]);
  });

  test("arrays that are read have memory of their own, and a Buffer is read as bytes", () => {
    const value = {
      vectors: [Float32Array.of(1), Float32Array.of(2)],
      bytes: Buffer.from("abc"),
      part: bytesOf("0102"),
    };
    const read = decodeValue(encodeValue(value)) as typeof value;
    expect(read.bytes).toStrictEqual(Uint8Array.of(97, 98, 99));
    for (const array of [...read.vectors, read.bytes, read.part])
      expect(array.buffer.byteLength).toBe(array.byteLength);
  });

  test("more names than are known again", () => {
    for (let at = 0; at < 2 * limits.peerFieldNamesKnownMax; at++) {
      const value = { [`name-${at}`]: at, other: 1 };
      expect(decodeValue(encodeValue(value))).toStrictEqual(value);
    }
  });
});

describe("what no node sends is refused, and nothing else happens", () => {
  const sample = encodeValue({
    memories: [{ id: "é", embedding: Float32Array.of(1, 2), score: 0.5, n: 70_000, lone: "\ud800" }],
    bytes: new Uint8Array(200),
    big: 7n,
    absent: undefined,
  });

  test("every beginning of a payload", () => {
    for (let length = 1; length < sample.length; length++)
      expect(catchRefusal(sample.subarray(0, length))).toMatch(
        /^invalid_request: a message of another node is malformed/,
      );
  });

  test("bytes of chance, and payloads with some of their bytes changed: read as something else, or refused", () => {
    fc.assert(
      fc.property(fc.uint8Array({ minLength: 1, maxLength: 64 }), (payload) => {
        catchRefusal(payload);
      }),
      { numRuns: 5_000 },
    );
    fc.assert(
      fc.property(
        fc.array(fc.tuple(fc.nat(sample.length - 1), fc.nat(255)), { minLength: 1, maxLength: 4 }),
        (changes) => {
          const changed = Uint8Array.from(sample);
          for (const [at, byte] of changes) changed[at] = byte;
          // What is taken has one form alone, but for the order of names that are numbers.
          if (catchRefusal(changed) === "none") expect(encodeValue(decodeValue(changed)).length).toBe(changed.length);
        },
      ),
      { numRuns: 5_000 },
    );
  });

  test.each([
    ["an unknown kind", "5a00", "a kind that this node does not know (11)"],
    ["a known kind in another form", "1d00000000", "a kind that this node does not know"],
    ["a second kind behind the first", "0801 0802", "goes on where it should end"],
    ["an unknown constant", "0804", "constant"],
    ["a constant of nothing", "0800", "constant"],
    ["a number that is an integer", "19 000000000000f03f", "form"],
    ["a length in more bytes than it needs", "3a 8000", "form"],
    ["an integer beyond 32 bits", "10 ffffffff1f", "form"],
    ["a length without an end", "3a ffffffffffff", "form"],
    ["a length beyond the end", "3a ffffffff07", "cut off"],
    ["text that is no UTF-8", "2a01ff", "UTF-8"],
    ["text that is half a surrogate in UTF-8", "2a03eda080", "UTF-8"],
    ["well-formed text as UTF-16", "32026100", "form"],
    ["half a character of UTF-16", "320300d800", "form"],
    ["a vector of a part of a number", "4205 0a03 000000", "not whole"],
    ["a vector that is empty and says so", "4202 0a00", "not whole"],
    ["a vector with more behind it", "4208 0a04 0000803f 0a00", "not whole"],
    ["an item of another kind", "4a02 1200", "a field that this node does not know"],
    ["a field without a name", "5204 0a02 1200", "a field that this node does not know"],
    ["a field without a value", "5205 0a03 0a0161", "without a value"],
    ["an empty field", "5202 0a00", "without a name"],
    ["an empty name", "5206 0a04 0a00 1200", "name"],
    ["a name with a space", "5207 0a05 0a0120 1200", "name"],
    ["a name beyond ASCII", "5208 0a06 0a02c3a9 1200", "name"],
    ["a name twice", "520e 0a05 0a0161 1200 0a05 0a0161 1200", "twice"],
    ["a field that goes on", "5209 0a07 0a0161 1200 1200", "goes on"],
    ["a name that is too long", `5249 0a47 0a43${"61".repeat(67)} 1200`, "name"],
  ])("%s", (_, hex, why) => {
    const payload = bytesOf(hex);
    expect(catchRefusal(payload)).toContain(why);
  });

  test("nesting without end, and more values than a payload may have", () => {
    const nested = (depth: number): Uint8Array => {
      let payload = Buffer.alloc(0);
      for (let level = 0; level < depth; level++) {
        const item = Buffer.concat([Buffer.of(0x0a), varint(payload.length), payload]);
        payload = Buffer.concat([Buffer.of(0x4a), varint(item.length), item]);
      }
      return payload;
    };
    expect(catchRefusal(nested(limits.peerValueDepthMax))).toBe("none");
    expect(catchRefusal(nested(limits.peerValueDepthMax + 1))).toContain("deep");
    expect(catchRefusal(nested(5_000))).toContain("deep");
    const items = Buffer.alloc(2 * limits.peerValuesMax, "0a00", "hex");
    expect(catchRefusal(Buffer.concat([Buffer.of(0x4a), varint(items.length), items]))).toContain("payload_too_large");
  });

  function varint(number: number): Buffer {
    const bytes: number[] = [];
    for (; number >= 0x80; number = Math.floor(number / 0x80)) bytes.push((number % 0x80) | 0x80);
    return Buffer.of(...bytes, number);
  }
});

describe("what a payload cannot hold is not written", () => {
  test("other kinds of values are faults of ours", () => {
    for (const value of [
      new Map(),
      new Set(),
      new Date(0),
      () => 1,
      Symbol("s"),
      new Float64Array(1),
      /x/,
      new Error(),
    ])
      expect(() => encodeValue([value])).toThrow(/a payload cannot hold a/);
    for (const value of [2n ** 63n, -(2n ** 63n) - 1n, { "": 1 }, { é: 1 }, { ["x".repeat(65)]: 1 }])
      expect(() => encodeValue(value)).toThrow(AssertionFault);
    const endless: unknown[] = [];
    endless.push(endless);
    expect(() => encodeValue(endless)).toThrow(AssertionFault);
  });

  test("more values than the other node takes are refused before they leave", () => {
    expect(() => encodeValue(new Array(limits.peerValuesMax).fill(1))).toThrow(
      expect.objectContaining({ code: "payload_too_large" }),
    );
  });
});
