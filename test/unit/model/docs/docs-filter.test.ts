/** What a filter over documents means, how deep and wide it may be, and where a refusal says that it is wrong. */
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { limits } from "../../../../src/base/limits.ts";
import { findDocs } from "../../../../src/model/docs/docs-find.ts";
import { parseFilter } from "../../../../src/model/docs/docs-filter.ts";
import { Bindings, filterSql, prepareQueries } from "../../../../src/model/docs/docs-query.ts";
import { DocsCollection, refusal } from "../../../support/docs-collection.ts";
import type { Plain, PlainDoc } from "../../../support/docs-oracle.ts";

let things: DocsCollection;

beforeEach(() => {
  things = new DocsCollection();
});

afterEach(() => things.close());

/** Names each document after its place in this list. */
function insert(...values: readonly PlainDoc[]): void {
  things.insert(...values.map((value, index) => ({ _id: String(index), ...value })));
}

const ids = (filter: PlainDoc) => things.find("_id", filter).join("");

describe("meaning", () => {
  const cases: readonly (readonly [string, readonly PlainDoc[], PlainDoc, string])[] = [
    ["$eq is equality", [{ a: 1 }, { a: "1" }, {}], { a: { $eq: 1 } }, "0"],
    ["$ne matches a missing field", [{ a: 1 }, { a: 2 }, {}, { a: null }], { a: { $ne: 1 } }, "123"],
    ["$nin matches a missing field", [{ a: 1 }, { a: 2 }, { a: 3 }, {}], { a: { $nin: [1, 2] } }, "23"],
    ["$nin of null does not", [{ a: 1 }, { a: null }, {}], { a: { $nin: [null] } }, "0"],
    ["null is null or missing", [{ a: null }, {}, { a: 0 }, { a: [null] }, { a: [] }], { a: null }, "013"],
    ["$exists true also for null", [{ a: null }, {}, { a: [] }], { a: { $exists: true } }, "02"],
    ["$exists false", [{ a: null }, {}, { a: [] }], { a: { $exists: false } }, "1"],
    ["$in of nothing", [{ a: 1 }, {}], { a: { $in: [] } }, ""],
    ["$nin of nothing", [{ a: 1 }, {}], { a: { $nin: [] } }, "01"],
    [
      "$in of mixed types",
      [{ a: 1 }, { a: "1" }, { a: true }, { a: { b: 1 } }, {}],
      { a: { $in: ["1", true, null, { b: 1 }] } },
      "1234",
    ],
    ["an array matches by element", [{ a: [1, 2] }, { a: 2 }, { a: [3] }, { a: [[2]] }], { a: 2 }, "01"],
    ["an array matches as a whole", [{ a: [1, 2] }, { a: [2, 1] }, { a: [[1, 2]] }], { a: [1, 2] }, "02"],
    ["two ends may hold for two elements", [{ a: [1, 9] }, { a: [1] }, { a: 5 }], { a: { $gt: 4, $lt: 6 } }, "02"],
    ["$ne holds for no element", [{ a: [1, 2] }, { a: [2] }], { a: { $ne: 1 } }, "1"],
    [
      "numbers compare with numbers only",
      [{ a: 5 }, { a: "9" }, { a: true }, { a: null }, { a: { b: 9 } }],
      { a: { $gt: 4 } },
      "0",
    ],
    [
      "texts with texts, bytewise",
      [{ a: 5 }, { a: "b" }, { a: "Z" }, { a: "é" }, { a: "\uffff" }, { a: "😀" }],
      { a: { $gt: "a" } },
      "1345",
    ],
    ["booleans with booleans", [{ a: 1 }, { a: true }, { a: false }], { a: { $gte: false } }, "12"],
    ["true is not 1", [{ a: 1 }, { a: true }], { a: 1 }, "0"],
    [
      "1 equals 1.0 inside objects too",
      [{ a: { x: [1, 2n ** 53n + 1n] } }, { a: { x: [1.5] } }],
      { a: { x: [1.0, 2n ** 53n + 1n] } },
      "0",
    ],
    [
      "objects are equal in any order of fields, and only whole",
      [{ a: { x: 1, y: 2 } }, { a: { y: 2, x: 1 } }, { a: { x: 1 } }, { a: { x: 1, y: 2, z: 3 } }],
      { a: { y: 2, x: 1 } },
      "01",
    ],
    ["{} equals an empty object", [{ a: {} }, { a: { b: 1 } }, { a: [] }, {}], { a: {} }, "0"],
    ["$gte null is equality with null", [{ a: null }, {}, { a: 0 }], { a: { $gte: null } }, "01"],
    ["nothing is greater than null", [{ a: null }, {}, { a: 0 }], { a: { $gt: null } }, ""],
    ["a dot path goes into objects", [{ a: { b: { c: 1 } } }, { a: { b: 1 } }, { a: 1 }], { "a.b.c": 1 }, "0"],
    [
      "and into objects in arrays",
      [{ a: [{ b: 1 }, { b: 2 }] }, { a: [{ b: [2] }] }, { a: [[{ b: 2 }]] }],
      { "a.b": 2 },
      "01",
    ],
    [
      "a number picks an element",
      [{ a: [5, 6] }, { a: [6, 5] }, { a: { 1: 6 } }, { a: [{ 1: 6 }] }],
      { "a.1": 6 },
      "023",
    ],
    ["a picked array counts only as a whole", [{ a: [[1, 2]] }, { a: [1] }], { "a.0": 1 }, "1"],
    ["a picked array can be picked from", [{ a: [[1, 2]] }, { a: [[2, 1]] }], { "a.0.1": 2 }, "0"],
    [
      "null reaches elements without the field",
      [{ a: [{ b: 1 }, {}] }, { a: [{ b: 1 }] }, { a: [1] }, { a: 1 }, {}],
      { "a.b": null },
      "034",
    ],
    ["$not holds where the field is missing", [{ a: 5 }, { a: 1 }, {}], { a: { $not: { $gt: 3 } } }, "12"],
    ["$not over a filter", [{ a: 1, b: 1 }, { a: 1 }, {}], { $not: { a: 1, b: 1 } }, "12"],
    [
      "fields beside $or are a conjunction",
      [
        { a: 1, b: 1 },
        { a: 2, b: 1 },
        { a: 1, b: 2 },
      ],
      { b: 1, $or: [{ a: 1 }, { a: 3 }] },
      "0",
    ],
    [
      "$or of equalities on one path is a list",
      [{ a: 1 }, { a: [2] }, { a: { x: 1 } }, {}, { a: 3 }],
      { $or: [{ a: 1 }, { a: 2 }, { b: 5 }, { a: null }, { a: { $in: [{ x: 1 }] } }] },
      "0123",
    ],
    ["$and of contradictions", [{ a: 1 }], { $and: [{ a: 1 }, { a: 2 }] }, ""],
    ["a number in an array in an array picks, too", [{ a: [[5, [6]]] }, { a: [[6, 5]] }], { "a.0.1": 5 }, "1"],
    ["what a number picked counts only as a whole", [{ a: [[5, [6]]] }], { "a.0.1": 6 }, ""],
    ["a picked array is gone through by name", [{ a: [[{ b: 1 }, 2]] }, { a: [{ b: 1 }] }], { "a.0.b": 1 }, "01"],
    ["a position past the end is not missing", [{ a: [] }, { a: [1] }, { a: 1 }, {}], { "a.1": null }, "23"],
    ["nor is one in an array in an array", [{ a: [[1]] }, { a: [{}] }], { "a.0.1": null }, "1"],
    ["an empty array is not null", [{ a: [] }, { a: [[]] }, { a: [null] }, {}], { a: null }, "23"],
    [
      "an empty array is not missing further in",
      [{ a: [] }, { a: [[]] }, { a: [null] }, { a: [{}] }],
      { "a.b": null },
      "3",
    ],
    [
      "not null holds of arrays without objects",
      [{ a: [] }, { a: [1] }, { a: [{}] }, { a: 4 }],
      { "a.b": { $ne: null } },
      "01",
    ],
    ["$lte null is equality with null", [{ a: null }, {}, { a: 0 }, { a: [null] }], { a: { $lte: null } }, "013"],
    ["nothing is less than null", [{ a: null }, {}, { a: 0 }], { a: { $lt: null } }, ""],
    ["$not of $gte null", [{ a: null }, {}, { a: 0 }, { a: [] }], { a: { $not: { $gte: null } } }, "23"],
    [
      "arrays compare member by member",
      [{ a: [1, 3] }, { a: [1] }, { a: [[1, 3]] }, { a: 9 }],
      { a: { $gt: [1, 2] } },
      "02",
    ],
    [
      "objects compare by their fields",
      [{ a: { x: 1 } }, { a: { x: 3 } }, { a: { x: 2, y: 0 } }],
      { a: { $gte: { x: 2 } } },
      "12",
    ],
    ["$all of values", [{ a: [1, 2, 3] }, { a: [1, 3] }, { a: 1 }, { a: [] }], { a: { $all: [1, 2] } }, "0"],
    ["$all of one value is equality", [{ a: [1, 2] }, { a: 1 }, {}], { a: { $all: [1] } }, "01"],
    ["$all of nothing", [{ a: [] }, { a: 1 }], { a: { $all: [] } }, ""],
    [
      "$all of $elemMatch",
      [{ a: [{ b: 1 }, { b: 5 }] }, { a: [{ b: 1 }] }],
      { a: { $all: [{ $elemMatch: { b: 1 } }, { $elemMatch: { b: { $gt: 4 } } }] } },
      "0",
    ],
    [
      "$size is of the array itself",
      [{ a: [1, 2] }, { a: [[1, 2]] }, { a: [] }, { a: "ab" }, {}],
      { a: { $size: 2 } },
      "0",
    ],
    ["$size of what a number picked", [{ a: [[1, 2]] }, { a: [1, 2] }], { "a.0": { $size: 2 } }, "0"],
    ["$size 0", [{ a: [] }, {}, { a: null }], { a: { $size: 0 } }, "0"],
    ["$type by element", [{ a: [1, "x"] }, { a: "x" }, { a: 1 }, {}], { a: { $type: "string" } }, "01"],
    ["$type array", [{ a: [] }, { a: 1 }, { a: [[1]] }], { a: { $type: "array" } }, "02"],
    ["$type null is not missing", [{ a: null }, {}, { a: [null] }], { a: { $type: "null" } }, "02"],
    ["$type of a list", [{ a: true }, { a: 1.5 }, { a: "x" }], { a: { $type: ["bool", "number"] } }, "01"],
    [
      "$regex anywhere in a text",
      [{ a: "xabc" }, { a: "b" }, { a: 1 }, {}, { a: ["no", "ab"] }],
      { a: { $regex: "ab+" } },
      "04",
    ],
    [
      "$regex with $options",
      [{ a: "one\nTWO" }, { a: "two" }, { a: "one" }],
      { a: { $regex: "^two$", $options: "im" } },
      "01",
    ],
    [
      "$regex i of other alphabets",
      [{ a: "ÄRGER" }, { a: "ПРИВЕТ" }, { a: "x" }],
      { a: { $regex: "ärger|привет", $options: "i" } },
      "01",
    ],
    ["$not of $regex", [{ a: "x" }, { a: "y" }, {}, { a: 1 }], { a: { $not: { $regex: "x" } } }, "123"],
    ["$nor", [{ a: 1 }, { b: 1 }, {}], { $nor: [{ a: 1 }, { b: 1 }] }, "2"],
    [
      "$elemMatch holds for one element",
      [{ a: [{ b: 1, c: 1 }] }, { a: [{ b: 1 }, { c: 1 }] }, { a: { b: 1, c: 1 } }],
      { a: { $elemMatch: { b: 1, c: 1 } } },
      "0",
    ],
    [
      "$elemMatch of operators",
      [{ a: [1, 9] }, { a: [5] }, { a: 5 }, { a: [[5]] }],
      { a: { $elemMatch: { $gt: 4, $lt: 6 } } },
      "1",
    ],
    [
      "$elemMatch with $or",
      [{ a: [{ b: 1 }] }, { a: [{ c: 2 }] }, { a: [{ b: 2 }] }],
      { a: { $elemMatch: { $or: [{ b: 1 }, { c: 2 }] } } },
      "01",
    ],
    [
      "$elemMatch with $or beside a field",
      [{ a: [{ b: 1, d: 1 }] }, { a: [{ b: 1 }] }],
      { a: { $elemMatch: { d: 1, $or: [{ b: 1 }] } } },
      "0",
    ],
    [
      "$elemMatch in $elemMatch",
      [{ a: [{ b: [{ c: 1 }, { c: 2 }] }] }, { a: [{ b: [{ c: 3 }] }] }],
      { a: { $elemMatch: { b: { $elemMatch: { c: 2 } } } } },
      "0",
    ],
    [
      "$elemMatch of arrays in arrays",
      [{ a: [[1, 5], [2]] }, { a: [[1]] }, { a: [5] }],
      { a: { $elemMatch: { $elemMatch: { $gt: 4 } } } },
      "0",
    ],
    [
      "$elemMatch takes an array for a document of positions",
      [{ a: [[1, 2]] }, { a: [[2, 1]] }],
      { a: { $elemMatch: { 0: 1 } } },
      "0",
    ],
    ["$elemMatch of $ne", [{ a: [1, 1] }, { a: [1, 2] }, { a: [] }, {}], { a: { $elemMatch: { $ne: 1 } } }, "1"],
    ["$not of $elemMatch", [{ a: [1] }, { a: [2] }, {}], { a: { $not: { $elemMatch: { $eq: 1 } } } }, "12"],
    ["operators inside a value are values", [{ a: { b: { $gt: 1 } } }, { a: { b: 2 } }], { a: { b: { $gt: 1 } } }, "0"],
  ];

  test.each(cases)("%s", (_, docs, filter, expected) => {
    insert(...docs);
    expect(ids(filter)).toBe(expected);
    things.index("a", "a.b", "a.0", "b");
    expect(ids(filter)).toBe(expected);
  });

  test("an _id is found by value, list and range", () => {
    insert({}, {}, {}, {});
    expect(ids({ _id: "2" })).toBe("2");
    expect(ids({ _id: { $in: ["3", "0", "9", 1] } })).toBe("03");
    expect(ids({ _id: { $gt: "1" } })).toBe("23");
    expect(ids({ _id: 1 })).toBe("");
    expect(ids({ _id: { $ne: "1" } })).toBe("023");
  });
});

/** `{$not: {$not: … {a: 1}}}` */
function nested(depth: number, wrap: (inner: PlainDoc) => PlainDoc, leaf: PlainDoc): PlainDoc {
  let filter = leaf;
  for (let level = 0; level < depth; level++) filter = wrap(filter);
  return filter;
}

describe("bounds", () => {
  const shapes: readonly (readonly [string, (depth: number) => PlainDoc])[] = [
    ["$not over filters", (depth) => nested(depth, (inner) => ({ $not: inner }), { a: 1 })],
    ["$not over operators", (depth) => ({ a: nested(depth, (inner) => ({ $not: inner }), { $eq: 1 }) })],
    ["$and", (depth) => nested(depth, (inner) => ({ $and: [inner, { a: { $exists: true } }] }), { a: 1 })],
    ["$or in turn with $not", (depth) => nested(depth / 2, (inner) => ({ $or: [{ $not: inner }] }), { a: 1 })],
  ];

  test.each(shapes)("docs-10: %s nests to 32 and no further", (_, shape) => {
    insert({ a: 1 }, { a: 2 });
    expect(["0", "1"]).toContain(ids(shape(30)));
    expect(["0", "1"]).toContain(ids(shape(32)));
    for (const depth of [34, 60, 200])
      expect(refusal(() => ids(shape(depth)))).toMatch(
        /^invalid_request: filter (nests \$and, \$or, .* and \$elemMatch more than 32 deep|is nested too deep)/,
      );
  });

  test("docs-10: depth 31 accepted", () => {
    insert({ a: 1 }, { a: 2 });
    expect(ids(nested(31, (inner) => ({ $not: inner }), { a: 1 }))).toBe("1");
    expect(ids({ a: nested(31, (inner) => ({ $not: inner }), { $eq: 1 }) })).toBe("1");
  });

  test("docs-10: $in takes 1000 values and no more", () => {
    insert({ a: 1 }, { a: 5000 });
    const list = (count: number): Plain[] => Array.from({ length: count }, (_, index) => index);
    expect(ids({ a: { $in: list(1000) } })).toBe("0");
    expect(ids({ a: { $nin: list(1000) } })).toBe("1");
    expect(refusal(() => ids({ a: { $in: list(1001) } }))).toBe(
      "invalid_request: filter.a.$in must have at most 1000 values, not 1001",
    );
    expect(refusal(() => ids({ a: { $nin: list(1001) } }))).toMatch(
      /^invalid_request: filter\.a\.\$nin must have at most 1000/,
    );
  });

  test("the widest and deepest filters within the bounds are within SQLite's own", () => {
    insert({ a: 1, x: [{ y: 1 }] });
    things.index("a");
    const wide = (count: number, make: (index: number) => PlainDoc) => ({
      $or: Array.from({ length: count }, (_, index) => make(index)),
    });
    expect(ids(wide(990, (index) => ({ [`f${index}`]: index })))).toBe("");
    expect(ids(wide(490, (index) => ({ [`x.f${index}`]: { $ne: index } })))).toBe("0");
    expect(ids(wide(900, (index) => ({ a: index })))).toBe("0");
    expect(ids(wide(900, (index) => ({ a: { $lt: index } })))).toBe("0");
    const lists = Array.from(
      { length: 1000 },
      (_, index) => [index % 3, `s${index}`, index % 2 === 0, null, [index], { index }][index % 6]!,
    );
    expect(ids(wide(300, (index) => ({ [`f${index}`]: { $nin: lists } })))).toBe("");
    const long = Array.from({ length: 64 }, (_, index) => `p${index}`).join(".");
    expect(ids(wide(14, (index) => ({ [long]: { $gt: index } })))).toBe("");
    // Widest at the bottom of the deepest.
    expect(
      ids(
        nested(
          14,
          (inner) => ({ $and: [{ $not: inner }, { a: 1 }] }),
          wide(900, (index) => ({ a: { $lt: index } })),
        ),
      ),
    ).toBe("0");
    expect(ids(wide(380, (index) => ({ "x.y": { $elemMatch: { [`f${index}`]: 1 } } })))).toBe("");
    expect(ids(wide(480, (index) => ({ x: { $elemMatch: { y: index } } })))).toBe("0");
    const elements = (depth: number, leaf: PlainDoc): PlainDoc =>
      nested(depth, (inner) => ({ x: { $elemMatch: inner } }), leaf);
    for (const leaf of [{ y: 1 }, { "y.z.0.q": { $regex: "x" } }, wide(600, (index) => ({ y: { $lt: index } }))]) {
      expect(ids(nested(10, (inner) => ({ $and: [{ $not: inner }, { a: 1 }] }), elements(8, leaf)))).toBe("");
      expect(
        ids(
          elements(
            8,
            nested(10, (inner) => ({ $or: [{ $nor: [inner] }, { a: 1 }] }), leaf),
          ),
        ),
      ).toBe("");
    }
    const values = nested(6, (inner) => ({ $elemMatch: nested(3, (one) => ({ $not: one }), inner) }), { $gt: 1 });
    expect(ids({ x: { $elemMatch: { $not: { $not: { $not: values } } } } })).toBe("0");
    expect(refusal(() => ids(elements(9, { y: 1 })))).toBe("invalid_request: filter nests $elemMatch more than 8 deep");
    expect(refusal(() => ids(wide(1001, (index) => ({ a: index }))))).toMatch(/^invalid_request: filter is too large/);
    expect(refusal(() => ids(wide(40, (index) => ({ [long]: { $gt: index } }))))).toMatch(
      /^invalid_request: filter is too large/,
    );
    expect(refusal(() => ids({ $and: Array.from({ length: 5000 }, () => ({})) }))).toMatch(
      /^invalid_request: filter is too large/,
    );
  });
});

describe("refusals name the place", () => {
  test.each<[string, string]>([
    ["", "filter must be valid JSON"],
    ["[]", "filter must be an object"],
    ['"a"', "filter must be an object"],
    ['{"$where":"1"}', "filter.$where is not an operator that can stand here; these can: $and, $or, $nor, $not"],
    ['{"$gt":1}', "filter.$gt is not an operator that can stand here"],
    ['{"a":{"$where":"x"}}', "filter.a.$where is not an operator of a field; these are: $eq,"],
    ['{"a":{"$regex":5}}', "filter.a.$regex must be a string"],
    ['{"a":{"$regex":"x","$options":5}}', "the $options beside filter.a.$regex must be a string"],
    ['{"a":{"$options":"i"}}', "filter.a.$options needs a $regex beside it"],
    ['{"a":{"$regex":"x","$options":"ix"}}', "filter.a.$regex has the options i, m, s, each once"],
    ['{"a":{"$regex":"x","$options":"ii"}}', "filter.a.$regex has the options i, m, s, each once"],
    ['{"a":{"$regex":"(secret"}}', "filter.a.$regex must be a regular expression of RE2: there are no back"],
    ['{"a":{"$regex":"(a)\\\\1"}}', "filter.a.$regex must be a regular expression of RE2"],
    ['{"a":{"$regex":"(?=a)"}}', "filter.a.$regex must be a regular expression of RE2"],
    [`{"a":{"$regex":"${"x".repeat(1001)}"}}`, "filter.a.$regex must be at most 1000 characters"],
    ['{"a":{"$regex":"a{900}b{900}"}}', "filter.a.$regex is too large"],
    [`{"$and":[${Array(17).fill('{"a":{"$regex":"x"}}').join()}]}`, "filter has more than 16 $regex"],
    ['{"a":{"$size":-1}}', "filter.a.$size must be a whole number from 0"],
    ['{"a":{"$size":1.5}}', "filter.a.$size must be a whole number from 0"],
    ['{"a":{"$type":"double"}}', "filter.a.$type must be one of null, number, string, object, array, bool, or an"],
    ['{"a":{"$type":[]}}', "filter.a.$type must be one of"],
    ['{"a":{"$all":1}}', "filter.a.$all must be an array"],
    ['{"a":{"$all":[{"$gt":1}]}}', "filter.a.$all[0] must be a value or an $elemMatch"],
    ['{"a":{"$elemMatch":1}}', "filter.a.$elemMatch must be an object"],
    ['{"a":{"$elemMatch":{"$gt":1,"b":1}}}', "filter.a.$elemMatch.$gt is not an operator that can stand here"],
    ['{"a":{"$elemMatch":{"b":{"$x":1}}}}', "filter.a.$elemMatch.b.$x is not an operator of a field"],
    ['{"$nor":[]}', "filter.$nor must be an array of at least one filter"],
    ['{"a":{"$and":[]}}', "filter.a.$and is not an operator of a field"],
    ['{"a":{"$__proto__":1}}', "filter.a.$__proto__ is not an operator of a field"],
    ['{"a":{"$gt":1,"b":2}}', "filter.a mixes operators and fields"],
    ['{"a":{"$not":{"$gt":1,"b":2}}}', "filter.a.$not mixes operators and fields"],
    ['{"a":{"$not":5}}', "filter.a.$not must be an object of operators"],
    ['{"a":{"$not":{}}}', "filter.a.$not must be an object of operators"],
    ['{"a":{"$in":1}}', "filter.a.$in must be an array"],
    ['{"a":{"$nin":{}}}', "filter.a.$nin must be an array"],
    ['{"a":{"$exists":1}}', "filter.a.$exists must be true or false"],
    ['{"$and":[]}', "filter.$and must be an array of at least one filter"],
    ['{"$or":{}}', "filter.$or must be an array of at least one filter"],
    ['{"$or":[{"a":1},2]}', "filter.$or[1] must be an object"],
    ['{"$not":[]}', "filter.$not must be an object"],
    ['{"$and":[{"$or":[{"b.c":{"$x":1}}]}]}', "filter.$and[0].$or[0].b.c.$x is not an operator of a field"],
    ['{"":1}', "a field name in filter must be a path"],
    ['{"a..b":1}', "a field name in filter must be a path"],
    ['{"a.":1}', "a field name in filter must be a path"],
    ['{"a.$b":1}', "a field name in filter must be a path"],
    [`{"${"x".repeat(257)}":1}`, "a field name in filter must be a path"],
    [`{"${"x.".repeat(64)}x":1}`, "a field name in filter must be a path"],
    ['{"a":"\\ud800"}', "filter has a string with half a surrogate pair"],
    ['{"\\ud800":1}', "filter has a field name with half a surrogate pair"],
  ])("%.60s", (filter, message) => {
    expect(refusal(() => findDocs(things.database.view(), { collection: "things", filter }))).toContain(
      `invalid_request: ${message}`,
    );
  });

  test("a refusal never repeats a long name", () => {
    const message = refusal(() =>
      findDocs(things.database.view(), { collection: "things", filter: `{"$${"x".repeat(100_000)}":1}` }),
    );
    expect(message.length).toBeLessThan(300);
  });

  test("a path may be 256 characters or 64 names long", () => {
    insert({ a: 1 });
    expect(ids({ ["x".repeat(limits.pathCharsMax)]: null })).toBe("0");
    expect(ids({ [Array.from({ length: limits.jsonDepthMax }, () => "x").join(".")]: null })).toBe("0");
  });
});

test("a filter works over a column of another table, beside parameters of the caller", () => {
  const { connection } = things.database;
  connection.exec(
    "CREATE TABLE memory (id INTEGER PRIMARY KEY, meta TEXT); INSERT INTO memory (meta) VALUES " +
      `('{"tags":["a"],"o":[{"p":1}]}'), ('{"tags":["b"]}'), ('{}')`,
  );
  prepareQueries(connection);
  const bindings = new Bindings();
  const condition = filterSql(
    parseFilter("filter", '{"$or":[{"tags":"a","o.p":1},{"tags":null}]}'),
    "m.meta",
    bindings,
  );
  const rows = connection
    .prepared(`SELECT id FROM memory AS m WHERE id >= ? AND ${condition} ORDER BY id`)
    .all(1, bindings.values);
  expect(rows).toEqual([{ id: 1 }, { id: 3 }]);
});
