/** Canonical JSON is that of RFC 8785, the same for equal values. */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { AssertionFault } from "../../../../src/base/faults/assert.ts";
import { canonicalJson } from "../../../../src/format/core/canonical-json.ts";

describe("canonical JSON", () => {
  test("is what RFC 8785 gives for its examples", () => {
    // Section 3.2.2 and 3.2.3.
    const primitives =
      String.raw`{"numbers":[333333333.33333329,1E30,4.50,2e-3,0.000000000000000000000000001],` +
      String.raw`"string":"\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/","literals":[null,true,false]}`;
    expect(canonicalJson(JSON.parse(primitives))).toBe(
      String.raw`{"literals":[null,true,false],"numbers":[333333333.3333333,1e+30,4.5,0.002,1e-27],` +
        String.raw`"string":"€$\u000f\nA'B\"\\\\\"/"}`,
    );
    const names =
      String.raw`{"\u20ac":"Euro Sign","\r":"Carriage Return","\ufb33":"Hebrew Letter Dalet With Dagesh","1":"One",` +
      String.raw`"\ud83d\ude00":"Emoji: Grinning Face","\u0080":"Control",` +
      String.raw`"\u00f6":"Latin Small Letter O With Diaeresis"}`;
    expect(Object.values(JSON.parse(canonicalJson(JSON.parse(names))) as object).toSorted()).toEqual(
      Object.values(JSON.parse(names) as object).toSorted(),
    );
    const order = [...canonicalJson(JSON.parse(names)).matchAll(/:"([^"]*)"/g)].map(([, value]) => value);
    expect(order).toEqual([
      "Carriage Return",
      "One",
      "Control",
      "Latin Small Letter O With Diaeresis",
      "Euro Sign",
      "Emoji: Grinning Face",
      "Hebrew Letter Dalet With Dagesh",
    ]);
  });

  test("spells the edges of doubles as appendix B of RFC 8785 does", () => {
    const bits: [string, string][] = [
      ["0000000000000000", "0"],
      ["8000000000000000", "0"],
      ["0000000000000001", "5e-324"],
      ["7fefffffffffffff", "1.7976931348623157e+308"],
      ["4340000000000000", "9007199254740992"],
      ["4430000000000000", "295147905179352830000"],
      ["44b52d02c7e14af5", "9.999999999999997e+22"],
      ["44b52d02c7e14af6", "1e+23"],
      ["444b1ae4d6e2ef4f", "999999999999999900000"],
      ["444b1ae4d6e2ef50", "1e+21"],
      ["3eb0c6f7a0b5ed8c", "9.999999999999997e-7"],
      ["3eb0c6f7a0b5ed8d", "0.000001"],
      ["becbf647612f3696", "-0.0000033333333333333333"],
    ];
    for (const [hex, text] of bits) expect(canonicalJson(Buffer.from(hex, "hex").readDoubleBE()), hex).toBe(text);
  });

  test("is the same for equal values in whatever order they were written, and means the same", () => {
    const shuffled = (value: unknown): unknown => {
      if (Array.isArray(value)) return value.map(shuffled);
      if (typeof value !== "object" || value === null) return value;
      return Object.fromEntries(
        Object.entries(value)
          .toReversed()
          .map(([name, member]) => [name, shuffled(member)]),
      );
    };
    fc.assert(
      fc.property(fc.jsonValue({ stringUnit: "binary", maxDepth: 3 }), (value) => {
        const text = canonicalJson(value);
        expect(canonicalJson(shuffled(value))).toBe(text);
        expect(JSON.parse(text)).toEqual(JSON.parse(JSON.stringify(value)));
      }),
    );
  });

  test("keeps a member that is named as a prototype is", () => {
    expect(canonicalJson(JSON.parse('{"b":1,"__proto__":2}'))).toBe('{"__proto__":2,"b":1}');
  });

  test.each([[NaN], [Infinity], [undefined], [1n], ["\ud800"], [{ "\udc00": 1 }], [[undefined]]])(
    "does not exist of %o",
    (value) => {
      expect(() => canonicalJson(value)).toThrow(AssertionFault);
    },
  );
});
