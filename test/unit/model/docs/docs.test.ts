/** Documents as they are inserted, found and deleted: their ids, their exact text, pages and order, and refusals. */
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { limits } from "../../../../src/base/limits.ts";
import { deleteDocs, insertDocs, updateDocs, docBytesMax } from "../../../../src/model/docs/docs.ts";
import { createDocIndex } from "../../../../src/model/docs/docs-catalog.ts";
import { findDocs, docsResultBytesMax } from "../../../../src/model/docs/docs-find.ts";
import { DocsCollection, refusal } from "../../../support/docs-collection.ts";
import type { PlainDoc } from "../../../support/docs-oracle.ts";

let things: DocsCollection;

beforeEach(() => {
  things = new DocsCollection();
});

afterEach(() => things.close());

const tables = () =>
  things.database.connection
    .all<{ name: string }>("SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name")
    .map((row) => row.name);
const insertTexts = (...docs: string[]) =>
  things.database.write((tx) => insertDocs(tx, { collection: things.collection, docs }));

describe("insert and find", () => {
  test("docs-01: equality, $gt with sort and limit, $or with $in and $gte, $exists", () => {
    things.insert(
      { name: "ann", age: 30, city: "Oslo" },
      { name: "bob", age: 25 },
      { name: "cid", age: 41, city: "Rome" },
    );
    expect(things.find("name", { name: "ann" })).toEqual(["ann"]);
    expect(things.find("name", { age: { $gt: 26 } }, { sort: [{ path: "age", direction: -1 }], limit: 1 })).toEqual([
      "cid",
    ]);
    expect(things.find("name", { $or: [{ name: { $in: ["bob", "zoe"] } }, { age: { $gte: 41 } }] })).toEqual([
      "bob",
      "cid",
    ]);
    expect(things.find("name", { city: { $exists: true } })).toEqual(["ann", "cid"]);
    expect(things.find("name", { city: { $exists: false } })).toEqual(["bob"]);
  });

  test("docs-02: an unknown collection is empty, and nothing about it is made", () => {
    const before = tables();
    const { database, collection } = things;
    expect(findDocs(database.view(), { collection }).docs).toEqual([]);
    expect(things.writes(() => things.update({}, { $set: { a: 1 } }, true))).toBe(false);
    expect(things.writes(() => things.delete({}, true))).toBe(false);
    expect(things.update({}, { $set: { a: 1 } })).toEqual({ matched: 0, modified: 0 });
    expect(things.delete({})).toBe(0);
    expect(tables()).toEqual(before);
  });

  test("bad input is refused for an unknown collection too", () => {
    expect(refusal(() => things.texts({ a: { $near: 1 } }))).toMatch(/^invalid_request: filter\.a\.\$near /);
    expect(refusal(() => things.update({}, { a: 1 }))).toMatch(/^invalid_request: update /);
    expect(refusal(() => things.delete({ $nor: [] }))).toMatch(/^invalid_request: filter\.\$nor /);
  });

  test("an _id is kept, or given: one that sorts after those before", () => {
    const ids = things.insert({ _id: "mine", a: 1 }, { a: 2 }, {}, { a: 4 });
    expect(ids[0]).toBe("mine");
    expect(ids.slice(1)).toEqual(ids.slice(1).toSorted());
    expect(things.find("_id")).toEqual(ids);
    expect(things.texts({ _id: ids[2]! })).toEqual([`{"_id":"${ids[2]}"}`]);
  });

  test("a taken _id fails the whole batch, also within the batch", () => {
    things.insert({ _id: "one" });
    expect(refusal(() => things.insert({ _id: "two" }, { _id: "one" }))).toBe(
      "already_exists: docs[1]._id is already the _id of a document in this collection",
    );
    expect(refusal(() => things.insert({ _id: "two" }, { _id: "two" }))).toMatch(/^already_exists: docs\[1\]\._id/);
    expect(things.find("_id")).toEqual(["one"]);
  });

  test("a failed first insert makes no collection", () => {
    expect(refusal(() => things.insert({ _id: "x" }, { _id: "x" }))).toMatch(/^already_exists/);
    expect(tables()).not.toContain("__service_doc_1");
    things.insert({ _id: "x" });
    expect(things.find("_id")).toEqual(["x"]);
  });

  test("names that differ only in case or punctuation are different collections", () => {
    const { database } = things;
    const names = ["Users", "users", "a-b", "a_b", "USERS"];
    for (const collection of names)
      database.write((tx) => insertDocs(tx, { collection, docs: [JSON.stringify({ _id: "x", in: collection })] }));
    for (const collection of names)
      expect(findDocs(database.view(), { collection }).docs).toEqual([JSON.stringify({ _id: "x", in: collection })]);
  });

  test("numbers come back as they were written", () => {
    const texts = [
      '{"_id":"1","n":9007199254740993}',
      '{"_id":"2","n":-9223372036854775808}',
      '{"_id":"3","n":123456789012345678901234567890}',
      '{"_id":"4","n":1.0}',
      '{"_id":"5","n":-0}',
      '{"_id":"6","n":1E400}',
    ];
    insertTexts(...texts);
    expect(things.texts()).toEqual(texts);
    expect(things.find("_id", { n: 2n ** 53n + 1n })).toEqual(["1"]);
    expect(things.find("_id", { n: 2n ** 53n })).toEqual([]);
    expect(things.find("_id", { n: { $gt: 2n ** 53n, $lt: 2n ** 53n + 2n } })).toEqual(["1"]);
    expect(things.find("_id", { n: 0 })).toEqual(["5"]);
    expect(things.find("_id", { n: 1 })).toEqual(["4"]);
  });

  test("spaces and repeated fields do not survive; the last of the repeated ones does", () => {
    insertTexts('{ "_id": "x", "a": 1, "a": [ 2, 3.50 ] }');
    expect(things.texts()).toEqual(['{"_id":"x","a":[2,3.50]}']);
    expect(things.find("_id", { a: 1 })).toEqual([]);
    expect(things.find("_id", { a: 3.5 })).toEqual(["x"]);
  });

  test("__proto__ is a field like any other", () => {
    insertTexts('{"_id":"x","__proto__":{"admin":true}}', '{"_id":"y"}');
    expect(things.texts({ _id: "x" })).toEqual(['{"_id":"x","__proto__":{"admin":true}}']);
    expect(
      findDocs(things.database.view(), { collection: "things", filter: '{"__proto__.admin":true}' }).docs,
    ).toHaveLength(1);
    things.database.write((tx) =>
      updateDocs(tx, { collection: "things", filter: "{}", update: '{"$set":{"__proto__.polluted":1}}', multi: true }),
    );
    expect(({} as Record<string, unknown>)["polluted"]).toBeUndefined();
    expect(things.texts()).toEqual([
      '{"_id":"x","__proto__":{"admin":true,"polluted":1}}',
      '{"_id":"y","__proto__":{"polluted":1}}',
    ]);
  });

  test("field names with dots, dollars inside, quotes and nothing are stored as they are", () => {
    const text = '{"_id":"x","a.b":1,"":2,"in":{"$x":3},"q\\"\\\\":4}';
    insertTexts(text);
    expect(things.texts()).toEqual([text]);
    expect(things.find("_id", { "a.b": 1 })).toEqual([]);
    expect(things.find("_id", { 'q"\\': 4 })).toEqual(["x"]);
    expect(things.find("_id", { in: { $eq: { $x: 3 } } })).toEqual(["x"]);
  });

  test.each([
    ["[]", "docs[0] must be an object"],
    ["null", "docs[0] must be an object"],
    ["1", "docs[0] must be an object"],
    ["{", "docs[0] must be valid JSON"],
    ['{"$set":1}', "docs[0] has a field whose name starts with $"],
    ['{"_id":1}', "docs[0]._id must be a string"],
    ['{"_id":null}', "docs[0]._id must be a string"],
    ['{"_id":""}', "docs[0]._id must be 1 to 512 bytes"],
    [`{"_id":"${"x".repeat(513)}"}`, "docs[0]._id must be 1 to 512 bytes"],
    ['{"a":"\\ud800"}', "docs[0] has a string with half a surrogate pair"],
    ['{"\\udc00":1}', "docs[0] has a field name with half a surrogate pair"],
    [`{"a":${"[".repeat(64)}${"]".repeat(64)}}`, "docs[0] is nested too deep"],
    [`{"a":${"[".repeat(300_000)}${"]".repeat(300_000)}}`, "docs[0] is nested too deep"],
    [JSON.stringify({ a: "x".repeat(docBytesMax) }), `docs[0] must be at most ${docBytesMax} bytes of JSON`],
  ])("refuses the document %.40s", (text, message) => {
    expect(refusal(() => insertTexts(text))).toContain(`invalid_request: ${message}`);
    expect(tables()).not.toContain("__service_doc_1");
  });

  test("accepts what is just within the bounds", () => {
    insertTexts(`{"a":${"[".repeat(63)}${"]".repeat(63)}}`, JSON.stringify({ _id: "x".repeat(512), a: "\0" }));
    expect(things.find("a", { a: "\0" })).toEqual(["\0"]);
    expect(refusal(() => insertTexts())).toBe("invalid_request: docs must hold 1 to 1000 documents");
    expect(refusal(() => insertTexts(...Array.from({ length: 1001 }, () => "{}")))).toBe(
      "invalid_request: docs must hold 1 to 1000 documents",
    );
    expect(insertTexts(...Array.from({ length: 1000 }, () => "{}")).ids).toHaveLength(1000);
  });

  test.each(["", "a b", "a.b", "ü", "x".repeat(65)])(
    "refuses the collection name %j on every command",
    (collection) => {
      const { database } = things;
      const acts = [
        () => findDocs(database.view(), { collection }),
        () => database.write((tx) => insertDocs(tx, { collection, docs: ["{}"] })),
        () =>
          database.write((tx) => updateDocs(tx, { collection, filter: "{}", update: '{"$set":{"a":1}}', multi: true })),
        () => database.write((tx) => deleteDocs(tx, { collection, filter: "{}", multi: true })),
        () => database.write((tx) => createDocIndex(tx, { collection, path: "a" })),
      ];
      for (const act of acts) expect(refusal(act)).toMatch(/^invalid_request: collection must be/);
    },
  );

  test("a database has a bounded number of collections", () => {
    const { database } = things;
    for (let index = 0; index < limits.collectionsMax; index++) {
      database.connection.run("INSERT INTO __service_doc_collections (name) VALUES (?)", `c${index}`);
    }
    expect(refusal(() => things.insert({}))).toBe(
      "invalid_request: the database already has 1000 collections, the most allowed",
    );
    expect(refusal(() => things.index("a"))).toMatch(/^invalid_request: the database already has/);
  });

  test("user text in a filter is a value, never SQL", () => {
    things.insert({ _id: "x", a: "'; DROP TABLE __service_doc_1; --" });
    expect(things.find("_id", { a: "'; DROP TABLE __service_doc_1; --" })).toEqual(["x"]);
    expect(things.find("_id", { "a') OR 1=1 --": 1 })).toEqual([]);
    expect(things.find("_id", { '"]) OR 1 --': { $exists: true } })).toEqual([]);
    expect(things.find("_id", {}, { sort: [{ path: 'a") DESC; --', direction: 1 }] })).toEqual(["x"]);
  });
});

describe("pages and order", () => {
  const ascending = (path: string) => [{ path, direction: 1 }];

  test("without a sort in the order of insertion, 100 at most unless asked, 1000 at most", () => {
    for (let batch = 0; batch < 2; batch++)
      things.insert(...Array.from({ length: 600 }, (_, index) => ({ n: batch * 600 + index })));
    expect(things.find("n")).toEqual(Array.from({ length: 100 }, (_, index) => index));
    expect(things.find("n", {}, { limit: 3, skip: 500 })).toEqual([500, 501, 502]);
    expect(things.texts({}, { limit: 10_000_000 })).toHaveLength(1000);
    expect(things.find("n", { n: { $gte: 1190 } }, { skip: 8 })).toEqual([1198, 1199]);
    expect(things.texts({}, { skip: 1200 })).toEqual([]);
  });

  test("types sort one after the other: empty arrays, null, numbers, texts, objects, arrays, booleans", () => {
    const values = [false, true, [["x"]], { b: 1 }, { a: 2 }, "b", "", "B", "ä", 10, 9.5, 2n ** 63n - 1n, -3, null];
    things.insert(
      ...values.map((value, index) => ({ _id: String(index).padStart(2, "0"), value })),
      { _id: "none" },
      { _id: "[]", value: [] },
    );
    const expected = ["[]", "13", "none", "12", "10", "09", "11", "06", "07", "05", "08", "04", "03", "02", "00", "01"];
    expect(things.find("_id", {}, { sort: ascending("value") })).toEqual(expected);
    const descending = expected.toReversed().join().replace("none,13", "13,none").split(",");
    expect(things.find("_id", {}, { sort: [{ path: "value", direction: -1 }] }), "null and missing tie").toEqual(
      descending,
    );
  });

  test("several keys count in the order given; ties keep the order of insertion", () => {
    things.insert(
      { _id: "1", a: 2, b: 1 },
      { _id: "2", a: 1, b: 1 },
      { _id: "3", a: 2, b: 2 },
      { _id: "4", a: 1, b: 1 },
    );
    expect(
      things.find(
        "_id",
        {},
        {
          sort: [
            { path: "a", direction: 1 },
            { path: "b", direction: -1 },
          ],
        },
      ),
    ).toEqual(["2", "4", "3", "1"]);
    expect(
      things.find(
        "_id",
        {},
        {
          sort: [
            { path: "b", direction: -1 },
            { path: "a", direction: 1 },
          ],
        },
      ),
    ).toEqual(["3", "2", "4", "1"]);
    expect(things.find("_id", {}, { sort: [{ path: "_id", direction: -1 }], limit: 2 })).toEqual(["4", "3"]);
  });

  test("an array sorts by its least element, descending by its greatest", () => {
    things.insert(
      { _id: "5", a: 5 },
      { _id: "1..9", a: [9, 1] },
      { _id: "none", a: [] },
      { _id: "deep", a: [{ b: 3 }] },
    );
    expect(things.find("_id", {}, { sort: ascending("a") })).toEqual(["none", "1..9", "5", "deep"]);
    expect(things.find("_id", {}, { sort: [{ path: "a", direction: -1 }] })).toEqual(["deep", "1..9", "5", "none"]);
    expect(things.find("_id", {}, { sort: [{ path: "a.b", direction: -1 }], limit: 1 })).toEqual(["deep"]);
  });

  test.each([
    [{ limit: 0 }, "limit must be a whole number from 1; at most 1000 documents are given"],
    [{ limit: 1.5 }, "limit must be"],
    [{ skip: -1 }, "skip must be an integer from 0 to 1000000"],
    [{ skip: 1_000_001 }, "skip must be"],
    [{ sort: [{ path: "a", direction: 2 }] }, "sort.a must be 1 (ascending) or -1 (descending)"],
    [{ sort: [{ path: "a..b", direction: 1 }] }, "a field name in sort must be a path"],
    [{ sort: [{ path: "$a", direction: 1 }] }, "a field name in sort must be a path"],
    [
      { sort: Array.from({ length: 17 }, (_, index) => ({ path: `a${index}`, direction: 1 })) },
      "sort must have at most 16 keys",
    ],
  ])("refuses %j", (more, message) => {
    expect(refusal(() => things.texts({}, more))).toContain(`invalid_request: ${message}`);
  });

  test("a page that is too large in bytes is refused, not truncated", () => {
    const doc = { a: "x".repeat(docBytesMax - 100) };
    for (let count = 0; count < 33; count++) things.insert(doc);
    expect(refusal(() => things.texts())).toBe(
      `invalid_request: the documents found are larger than ${docsResultBytesMax} bytes together; ask ` +
        "for fewer with limit",
    );
    expect(things.texts({}, { limit: 32 })).toHaveLength(32);
    expect(refusal(() => things.texts({}, { sort: [{ path: "a", direction: 1 }] }))).toMatch(/larger than/);
  });
});

describe("delete", () => {
  test("docs-03: one, or with multi all that match", () => {
    things.insert({ n: 1, k: "a" }, { n: 2, k: "a" }, { n: 3, k: "b" }, { n: 4, k: "a" });
    expect(things.delete({ k: "a" })).toBe(1);
    expect(things.find("n")).toEqual([2, 3, 4]);
    expect(things.delete({ k: "a" }, true)).toBe(2);
    expect(things.writes(() => expect(things.delete({ k: "a" }, true)).toBe(0))).toBe(false);
    expect(things.find("n")).toEqual([3]);
  });

  test("everything, and the ids are free again", () => {
    things.insert({ _id: "a" }, { _id: "b" });
    expect(things.delete({}, true)).toBe(2);
    expect(things.insert({ _id: "a" })).toEqual(["a"]);
  });
});

test("a command that fails in a group leaves its neighbours alone", () => {
  const { database, collection } = things;
  const docs = (...list: PlainDoc[]) => list.map((doc) => JSON.stringify(doc));
  const outcomes = database.group<unknown>(
    (tx) => insertDocs(tx, { collection, docs: docs({ _id: "a", n: 1 }) }),
    (tx) => insertDocs(tx, { collection, docs: docs({ _id: "b" }, { _id: "a" }) }),
    (tx) => createDocIndex(tx, { collection, path: "n" }),
    (tx) => updateDocs(tx, { collection, filter: "{}", update: '{"$inc":{"n":1}}', multi: true }),
  );
  expect(outcomes.map((outcome) => outcome.kind)).toEqual(["done", "failed", "done", "done"]);
  expect(things.texts({ n: 2 })).toEqual(['{"_id":"a","n":2}']);
  expect(things.texts()).toHaveLength(1);
});
