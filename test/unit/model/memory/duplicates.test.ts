/** When two memories say the same: one canonical text for equal contents, and what a fingerprint is made of. */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { parseJson } from "../../../../src/model/core/docs-json.ts";
import { canonicalText, fingerprint, type Identity } from "../../../../src/model/memory/duplicates.ts";

const canonical = (text: string): string => canonicalText(parseJson("content", text).value);

describe("canonical JSON", () => {
  test.each([
    ['{"a":1,"b":[true,null]}', '{ "b" : [ true , null ], "a" : 1 }'],
    ["1", "1.0"],
    ["1", "10e-1"],
    ["0", "-0.00e7"],
    ["100", "1e2"],
    ["100000000000000000000", "1E+20"],
    ["9007199254740993", "9007199254740993.0"],
    ["0.5", "5e-1"],
    ["-1.50", "-15E-1"],
    ['"\\u00e9"', '"é"'],
    ['{"x":1,"x":2}', '{"x":2}'],
  ])("memory-28: %s and %s are one value", (left, right) => {
    expect(canonical(left)).toBe(canonical(right));
  });

  test.each([
    ["9007199254740992", "9007199254740993"],
    ["0.1", "0.1000000000000000055511151231257827"],
    ["1e400", "1e401"],
    ["1", '"1"'],
    ["-1", "1"],
    ["[1,2]", "[2,1]"],
    ["[[1],2]", "[[1,2]]"],
    ["{}", "[]"],
    ["null", "false"],
    ['{"a":{"b":1}}', '{"a":1,"b":{}}'],
    ['{"__proto__":1}', "{}"],
    ["123456789012345", "1234567890123450"],
  ])("memory-28: %s and %s are two values", (left, right) => {
    expect(canonical(left)).not.toBe(canonical(right));
  });

  test("any two values have the same canonical text exactly when they are equal", () => {
    const value = fc.jsonValue({ maxDepth: 3 });
    fc.assert(
      fc.property(value, value, (left, right) => {
        const equal =
          canonicalText(parseJson("left", JSON.stringify(left)).value) ===
          canonicalText(parseJson("right", JSON.stringify(right)).value);
        expect(equal).toBe(JSON.stringify(sorted(left)) === JSON.stringify(sorted(right)));
      }),
    );
  });

  test("any number is the same however its point is moved", () => {
    fc.assert(
      fc.property(
        fc.bigInt({ min: -(10n ** 30n), max: 10n ** 30n }).filter((whole) => whole !== 0n),
        fc.integer({ min: 0, max: 40 }),
        (whole, places) => {
          expect(canonical(`${whole}${"0".repeat(places)}e-${places}`)).toBe(canonical(String(whole)));
        },
      ),
    );
  });
});

/** The value with the fields of every object in order; numbers as JSON writes them. */
function sorted(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(sorted);
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(
    Object.entries(value)
      .sort(([left], [right]) => (left < right ? -1 : 1))
      .map(([field, inner]) => [` ${field}`, sorted(inner)]),
  );
}

describe("fingerprint", () => {
  const base: Identity = { type: "fact", topicKey: "t", summary: "s", content: {}, sessionId: "s-1" };
  const hex = (identity: Partial<Identity>): string =>
    Buffer.from(fingerprint({ ...base, ...identity })).toString("hex");

  test("memory-28: type, topic, summary and content each make a difference; the session does for tasks only", () => {
    expect(hex({})).toHaveLength(64);
    const changes: readonly Partial<Identity>[] = [
      { type: "instruction" },
      { topicKey: "u" },
      { topicKey: undefined },
      { summary: "S" },
      { content: [] },
    ];
    for (const change of changes) expect(hex(change)).not.toBe(hex({}));
    expect(hex({ sessionId: "s-2" })).toBe(hex({}));
    expect(hex({ type: "task", sessionId: "s-2" })).not.toBe(hex({ type: "task" }));
    expect(hex({ type: "task", sessionId: undefined })).not.toBe(hex({ type: "task" }));
  });

  test("memory-28: the parts cannot flow into one another", () => {
    expect(hex({ topicKey: "a", summary: "bc" })).not.toBe(hex({ topicKey: "ab", summary: "c" }));
    expect(hex({ topicKey: undefined, summary: "null" })).not.toBe(hex({ topicKey: "null", summary: "null" }));
  });
});
