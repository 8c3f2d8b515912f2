/** What update operators, upserts and projections do, case by case, and what they refuse. */
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { DocsCollection, refusal } from "../../../support/docs-collection.ts";
import type { Plain, PlainDoc } from "../../../support/docs-oracle.ts";

let things: DocsCollection;

beforeEach(() => {
  things = new DocsCollection();
});

afterEach(() => things.close());

const docs = (): unknown[] => things.texts().map((text) => JSON.parse(text) as unknown);

describe("operators", () => {
  const cases: readonly (readonly [PlainDoc, PlainDoc, PlainDoc])[] = [
    [{ a: 3 }, { $mul: { a: 4, b: 2 } }, { a: 12, b: 0 }],
    [{ a: 2 }, { $mul: { a: 1.5 } }, { a: 3 }],
    [{ a: 5, b: 5 }, { $min: { a: 3, b: 9, c: 1 } }, { a: 3, b: 5, c: 1 }],
    [{ a: 5, b: 5 }, { $max: { a: 3, b: 9, c: 1 } }, { a: 5, b: 9, c: 1 }],
    [{ a: 5, b: null }, { $max: { a: "x", b: 0 } }, { a: "x", b: 0 }],
    [{ a: 1, b: { c: 2 } }, { $rename: { a: "x.y", "b.c": "z", none: "q" } }, { b: {}, x: { y: 1 }, z: 2 }],
    [{ a: 1 }, { $setOnInsert: { a: 2 } }, { a: 1 }],
    [{ a: [1] }, { $push: { a: { $each: [2, 3] }, b: { $each: [] } } }, { a: [1, 2, 3], b: [] }],
    [{ a: [1, 2] }, { $push: { a: { $each: [9], $position: 1 } } }, { a: [1, 9, 2] }],
    [{ a: [1, 2] }, { $push: { a: { $each: [9], $position: -1 } } }, { a: [1, 9, 2] }],
    [{ a: [3, 1] }, { $push: { a: { $each: [2], $sort: 1, $slice: 2 } } }, { a: [1, 2] }],
    [{ a: [3, 1] }, { $push: { a: { $each: [2], $slice: -2 } } }, { a: [1, 2] }],
    [
      {
        a: [
          { n: 2, m: 1 },
          { n: 1, m: 2 },
        ],
      },
      { $push: { a: { $each: [{ n: 2, m: 0 }], $sort: { n: -1, m: 1 } } } },
      {
        a: [
          { n: 2, m: 0 },
          { n: 2, m: 1 },
          { n: 1, m: 2 },
        ],
      },
    ],
    [{ a: [1, { x: 1, y: 2 }] }, { $addToSet: { a: { y: 2, x: 1 }, b: 1 } }, { a: [1, { x: 1, y: 2 }], b: [1] }],
    [{ a: [1] }, { $addToSet: { a: { $each: [1, 2, 2] } } }, { a: [1, 2] }],
    [{ a: [1, 2, 3], b: [1, 2] }, { $pop: { a: 1, b: -1, c: 1 } }, { a: [1, 2], b: [2] }],
    [{ a: [1, 5, 9, "x"] }, { $pull: { a: { $gte: 5 }, none: 1 } }, { a: [1, "x"] }],
    [{ a: [1, 2, 1] }, { $pull: { a: 1 } }, { a: [2] }],
    [{ a: [{ b: 1, c: 1 }, { b: 1 }, 1] }, { $pull: { a: { b: 1, c: 1 } } }, { a: [{ b: 1 }, 1] }],
    [{ a: [{ b: [1, 5] }, { b: [2] }] }, { $pull: { a: { b: { $elemMatch: { $gt: 4 } } } } }, { a: [{ b: [2] }] }],
    [{ a: [[1], [2]] }, { $pull: { a: [1] } }, { a: [[2]] }],
    [{ a: ["ab", "c"] }, { $pull: { a: { $regex: "^a" } } }, { a: ["c"] }],
    [{ a: [1, 2, [3], 1] }, { $pullAll: { a: [1, [3]] } }, { a: [2] }],
  ];

  test.each(cases)("%j with %j is %j", (before, update, after) => {
    things.index("a", "b", "x.y");
    things.insert({ _id: "1", ...before });
    things.update({}, update);
    expect(docs()).toEqual([{ _id: "1", ...after }]);
  });

  test.each<[PlainDoc, PlainDoc, string]>([
    [{ a: "x" }, { $mul: { a: 2 } }, "update.$mul.a cannot be multiplied"],
    [{ a: 2 ** 40 }, { $mul: { a: 2 ** 40 } }, "update.$mul.a goes beyond 64-bit integers"],
    [{ a: 1 }, { $mul: { a: "x" } }, "update.$mul.a must be a number"],
    [{ a: 1 }, { $rename: { a: 5 } }, "update.$rename.a must be the path"],
    [{ a: 1 }, { $rename: { a: "_id" } }, "update.$rename.a cannot be _id"],
    [{ a: 1 }, { $rename: { a: "a.b" } }, "update changes a twice"],
    [{ a: [1] }, { $rename: { "a.0": "b" } }, "update.$rename.a.0 cannot be renamed"],
    [{ a: 1 }, { $push: { a: 1 } }, "update.$push.a needs an array"],
    [{ a: 1 }, { $addToSet: { a: 1 } }, "update.$addToSet.a needs an array"],
    [{ a: 1 }, { $pop: { a: 1 } }, "update.$pop.a needs an array"],
    [{ a: [] }, { $pop: { a: 2 } }, "update.$pop.a must be 1"],
    [{ a: 1 }, { $pull: { a: 1 } }, "update.$pull.a needs an array"],
    [{ a: [] }, { $pull: { a: { $x: 1 } } }, "update.$pull.a.$x is not an operator of a field"],
    [{ a: [] }, { $pullAll: { a: 1 } }, "update.$pullAll.a must be an array"],
    [{ a: [] }, { $push: { a: { $each: 1 } } }, "update.$push.a must be a value, or $each with an array"],
    [{ a: [] }, { $push: { a: { $each: [], $x: 1 } } }, "update.$push.a must be a value, or $each with an array"],
    [{ a: [] }, { $push: { a: { $each: [], $slice: 1.5 } } }, "update.$push.a.$slice must be a whole number"],
    [{ a: [] }, { $push: { a: { $each: [], $sort: 2 } } }, "update.$push.a.$sort must be 1 or -1"],
  ])("%j with %j is refused", (before, update, message) => {
    things.insert({ _id: "1", ...before });
    expect(refusal(() => things.update({}, update))).toContain(`invalid_request: ${message}`);
    expect(docs()).toEqual([{ _id: "1", ...before }]);
  });

  test("what one update puts into many documents is not shared between them", () => {
    things.insert({ _id: "1" }, { _id: "2" });
    things.update({}, { $push: { a: { deep: [] } } }, true);
    things.update({ _id: "1" }, { $push: { "a.0.deep": 1 } });
    expect(docs()).toEqual([
      { _id: "1", a: [{ deep: [1] }] },
      { _id: "2", a: [{ deep: [] }] },
    ]);
  });
});

describe("upserts", () => {
  test("a document is made of equalities and the update, and found from then on", () => {
    const update = { $inc: { n: 1 }, $setOnInsert: { first: true } };
    const filter = { _id: "x", "a.b": 2, $and: [{ c: { $eq: [1] } }, { d: { $all: [5] } }], e: { $gt: 1 }, f: null };
    expect(things.upsert(filter, update)).toBe("x");
    expect(docs()).toEqual([{ _id: "x", a: { b: 2 }, c: [1], d: 5, f: null, n: 1, first: true }]);
    expect(things.upsert({ _id: "x" }, update)).toBeUndefined();
    expect(docs()).toMatchObject([{ n: 2 }]);
  });

  test("without an _id it gets one, and an index holds it", () => {
    things.index("k");
    const id = things.upsert({ k: "v" }, { $set: { n: 1 } })!;
    expect(id).toBeTypeOf("string");
    expect(things.find("_id", { k: "v" })).toEqual([id]);
    expect(things.upsert({ k: "v" }, { $set: { n: 2 } })).toBeUndefined();
  });

  test.each<[PlainDoc, string]>([
    [{ a: 1, "a.b": 2 }, "filter says what equals a twice"],
    [{ $and: [{ a: 1 }, { a: 2 }] }, "filter says what equals a twice"],
    [{ _id: 5 }, "_id must be a string"],
  ])("%j is refused", (filter, message) => {
    expect(refusal(() => things.upsert(filter, { $set: { n: 1 } }))).toContain(message);
    expect(docs()).toEqual([]);
  });
});

describe("projections", () => {
  const doc: PlainDoc = { _id: "1", a: { b: 1, c: [{ d: 1, e: 2 }, 5, [{ d: 3, e: 4 }]] }, x: [1], y: null };
  test.each<[PlainDoc, Plain]>([
    [{}, doc],
    [{ y: 1 }, { _id: "1", y: null }],
    [{ _id: 0, y: true }, { y: null }],
    [{ _id: 1 }, { _id: "1" }],
    [{ _id: 0 }, { a: doc["a"]!, x: [1], y: null }],
    [{ "a.c.d": 1 }, { _id: "1", a: { c: [{ d: 1 }, [{ d: 3 }]] } }],
    [{ a: { c: { d: 1 } } }, { _id: "1", a: { c: [{ d: 1 }, [{ d: 3 }]] } }],
    [
      { "a.c.d": 0, x: 0, y: 0 },
      { _id: "1", a: { b: 1, c: [{ e: 2 }, 5, [{ e: 4 }]] } },
    ],
    [
      { "x.q": 1, "y.q": 1, none: 1 },
      { _id: "1", x: [] },
    ],
    [{ "x.0": 0 }, doc],
    [
      { a: 0, _id: true },
      { _id: "1", x: [1], y: null },
    ],
  ])("%j", (projection, expected) => {
    things.insert(doc, {});
    expect(JSON.parse(things.texts({ _id: "1" }, { projection })[0]!)).toEqual(expected);
    expect(JSON.parse(things.texts({}, { projection, sort: [{ path: "y", direction: 1 }] })[0]!)).toEqual(expected);
  });

  test.each<[PlainDoc, string]>([
    [{ a: 1, b: 0 }, "projection mixes fields"],
    [{ a: 1, "a.b": 1 }, "projection names a.b twice, or both it and something inside it"],
    [{ "a.b": 1, a: 1 }, "projection names a twice"],
    [{ a: 2 }, "projection.a must be 1 or true, 0 or false"],
    [{ a: {} }, "projection.a must be 1 or true"],
    [{ a: { $slice: 1 } }, "a path in projection must be a path"],
  ])("%j is refused", (projection, message) => {
    expect(refusal(() => things.texts({}, { projection }))).toContain(`invalid_request: ${message}`);
  });

  test("digits stay", () => {
    things.insert({ _id: "1", n: 2n ** 63n - 1n, m: 1 });
    expect(things.texts({}, { projection: { n: 1 } })).toEqual(['{"_id":"1","n":9223372036854775807}']);
  });
});
