/** JSON keeps its exact text on its way through a message, and means the same on both wires. */
import { create, fromBinary, fromJson, type JsonValue, toBinary, toJson } from "@bufbuild/protobuf";
import { ListValueSchema, ValueSchema } from "@bufbuild/protobuf/wkt";
import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
  FindDocsRequestSchema,
  InsertDocsRequestSchema,
  SqlResultSchema,
} from "../../../../gen/palimpsest/v1/data_pb.ts";
import { MemoryInputSchema } from "../../../../gen/palimpsest/v1/memory_pb.ts";
import type { ServiceError } from "../../../../src/base/faults/errors.ts";
import { limits } from "../../../../src/base/limits.ts";
import { inspectJson, jsonText, parseExact, setJson } from "../../../../src/service/call/exact-json.ts";

const nested = (levels: number): string => "[".repeat(levels) + "]".repeat(levels);
const input = (text: string) => {
  const message = create(MemoryInputSchema, { type: "fact" });
  setJson(message, "content", text);
  return message;
};

describe("parseExact", () => {
  test.each([
    "9007199254740993",
    "-9007199254740993",
    "9223372036854775807",
    "18446744073709551616",
    "100000000000000000000000",
    "1e400",
    "-1e400",
    '{"id":9223372036854775807,"list":[1,9007199254740993,"9007199254740993"],"__proto__":{"x":12345678901234567890}}',
  ])("keeps every digit of %s", (text) => {
    expect(JSON.stringify(parseExact(text))).toBe(text);
  });

  test("gives every other value as JSON.parse does", () => {
    fc.assert(
      fc.property(fc.json(), (text) => {
        expect(JSON.stringify(parseExact(text))).toBe(JSON.stringify(JSON.parse(text)));
      }),
    );
  });

  test("keeps integers of any length, wherever they stand", () => {
    const integers = fc.bigInt({ min: -(10n ** 30n), max: 10n ** 30n });
    fc.assert(
      fc.property(fc.array(integers), fc.string(), (numbers, key) => {
        const text = `{${JSON.stringify(key)}:[${numbers.join(",")}]}`;
        expect(JSON.stringify(parseExact(text))).toBe(text);
      }),
    );
  });

  test("refuses what is not JSON", () => {
    for (const text of ["", "{", "01", "1.", "NaN", "\u{feff}1"]) expect(() => parseExact(text)).toThrow(SyntaxError);
  });
});

describe("inspectJson", () => {
  test("finds large numbers and depth, and recurses no deeper than asked", () => {
    expect(inspectJson(JSON.parse(nested(64)), 64)).toBe("plain");
    expect(inspectJson(JSON.parse(nested(65)), 64)).toBe("too_deep");
    expect(inspectJson(JSON.parse(nested(200_000)), 64)).toBe("too_deep");
    expect(inspectJson({ a: [1, { b: 2 ** 53 }] }, 64)).toBe("large_number");
    expect(inspectJson([2 ** 53, JSON.parse(nested(64))], 64)).toBe("too_deep");
    expect(inspectJson(Number.POSITIVE_INFINITY, 64)).toBe("large_number");
    expect(inspectJson([Number.MAX_SAFE_INTEGER, "x", null, true, 0.1], 1)).toBe("plain");
  });
});

describe("a field of any JSON", () => {
  test("gives back the text that was set, and the proto form of it on reading", () => {
    const message = input('{"id":9223372036854775807,"a":[1,null,true,"x"]}');
    expect(jsonText(message, "content")).toBe('{"id":9223372036854775807,"a":[1,null,true,"x"]}');
    expect(toJson(ValueSchema, message.content!)).toEqual({ id: 2 ** 63, a: [1, null, true, "x"] });
    expect(message.content).toBe(message.content);
  });

  test("survives the binary and the JSON wire as doubles", () => {
    const message = input('{"n":1.5,"list":[{"deep":[]}],"":null}');
    const there = fromBinary(MemoryInputSchema, toBinary(MemoryInputSchema, message));
    expect(jsonText(there, "content")).toBe('{"n":1.5,"list":[{"deep":[]}],"":null}');
    const again = fromJson(MemoryInputSchema, toJson(MemoryInputSchema, message));
    expect(jsonText(again, "content")).toBe('{"n":1.5,"list":[{"deep":[]}],"":null}');
  });

  test("is the same JSON on both wires, whatever it is", () => {
    fc.assert(
      fc.property(fc.jsonValue(), (value) => {
        // Compared after one trip through text, which has no -0 and no undefined.
        const json = JSON.parse(JSON.stringify(value)) as JsonValue;
        const message = input(JSON.stringify(json));
        const there = fromBinary(MemoryInputSchema, toBinary(MemoryInputSchema, message));
        expect(JSON.parse(jsonText(there, "content")!)).toEqual(JSON.parse(JSON.stringify(json)));
      }),
    );
  });

  test("an object, a list of objects and a list of rows", () => {
    const find = create(FindDocsRequestSchema);
    expect(jsonText(find, "filter")).toBeUndefined();
    setJson(find, "filter", '{"__proto__":{"a":1}}');
    expect(jsonText(fromBinary(FindDocsRequestSchema, toBinary(FindDocsRequestSchema, find)), "filter")).toBe(
      '{"__proto__":{"a":1}}',
    );
    const insert = create(InsertDocsRequestSchema);
    expect(jsonText(insert, "docs")).toBe("[]");
    setJson(insert, "docs", '[{"a":12345678901234567890},{}]');
    expect(insert.docs).toEqual([{ a: 12345678901234567890 }, {}]);
    expect(jsonText(fromBinary(InsertDocsRequestSchema, toBinary(InsertDocsRequestSchema, insert)), "docs")).toBe(
      '[{"a":12345678901234567000},{}]',
    );
    const result = create(SqlResultSchema);
    setJson(result, "rows", '[[1,"a",null],[]]');
    expect(result.rows.map((row) => toJson(ListValueSchema, row))).toEqual([[1, "a", null], []]);
    expect(jsonText(fromBinary(SqlResultSchema, toBinary(SqlResultSchema, result)), "rows")).toBe('[[1,"a",null],[]]');
  });

  test("null is a value, absence is not", () => {
    expect(jsonText(input("null"), "content")).toBe("null");
    expect(jsonText(create(MemoryInputSchema), "content")).toBeUndefined();
  });

  test("a value assigned later replaces the text; a copy is whole", () => {
    const message = input('{"a":1}');
    const copy = { ...message };
    expect(jsonText(copy, "content")).toBe('{"a":1}');
    message.content = fromJson(ValueSchema, 2);
    expect(jsonText(message, "content")).toBe("2");
    expect(jsonText(copy, "content")).toBe('{"a":1}');
    setJson(message, "content", "3");
    expect(jsonText(message, "content")).toBe("3");
  });

  test("what the proto form cannot hold becomes what it can", () => {
    const message = input('["\\ud800", 1e400, -1e400]');
    expect(toJson(ValueSchema, message.content!)).toEqual(["\u{fffd}", Number.MAX_VALUE, -Number.MAX_VALUE]);
    expect(() => toBinary(MemoryInputSchema, message)).not.toThrow();
  });

  test("a proto form without JSON is refused by name", () => {
    const value = (kind: object) => create(MemoryInputSchema, { content: { kind: kind as never } });
    const bad: [object, RegExp][] = [
      [{ case: "numberValue", value: Number.NaN }, /^content holds a number/],
      [{ case: undefined }, /^content holds a google.protobuf.Value without a kind/],
      [
        fromJson(ValueSchema, JSON.parse(nested(limits.jsonDepthMax + 1)) as JsonValue).kind,
        /^content is nested deeper than 64 levels/,
      ],
    ];
    for (const [kind, message] of bad) {
      expect(() => jsonText(value(kind), "content")).toThrow(
        expect.objectContaining({ code: "invalid_request", message: expect.stringMatching(message) }) as ServiceError,
      );
    }
    const docs = create(InsertDocsRequestSchema, { docs: [{ n: Number.POSITIVE_INFINITY }] });
    expect(() => jsonText(docs, "docs")).toThrow(/^docs holds a number/);
    expect(
      jsonText(value(fromJson(ValueSchema, JSON.parse(nested(limits.jsonDepthMax)) as JsonValue).kind), "content"),
    ).toBe(nested(limits.jsonDepthMax));
  });

  test("a field of another type is a bug, not an input", () => {
    expect(() => setJson(create(MemoryInputSchema), "summary", "1")).toThrow(/invariant/);
  });
});
