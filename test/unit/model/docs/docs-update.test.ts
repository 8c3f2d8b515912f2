/** What an update makes of each document, what it counts as modified, and that one that is refused changes nothing. */
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { insertDocs, updateDocs, docBytesMax } from "../../../../src/model/docs/docs.ts";
import { DocsCollection, refusal } from "../../../support/docs-collection.ts";

let things: DocsCollection;

beforeEach(() => {
  things = new DocsCollection();
});

afterEach(() => things.close());

const collection = "things";
const put = (text: string) => things.database.write((tx) => insertDocs(tx, { collection, docs: [text] }));
const update = (text: string, multi = true) =>
  things.database.write((tx) => updateDocs(tx, { collection, filter: "{}", update: text, multi }));

test("docs-03: $set and $inc modify one, a missing field counts from 0, $push appends", () => {
  things.insert({ _id: "1", k: "a", n: 1 }, { _id: "2", k: "a" });
  expect(things.update({ k: "a" }, { $set: { seen: true }, $inc: { n: 5, m: 2 } })).toEqual({
    matched: 1,
    modified: 1,
  });
  expect(things.update({ _id: "2" }, { $push: { list: 1 } })).toEqual({ matched: 1, modified: 1 });
  expect(things.update({ _id: "2" }, { $push: { list: [2] } })).toEqual({ matched: 1, modified: 1 });
  expect(things.texts()).toEqual(['{"_id":"1","k":"a","n":6,"seen":true,"m":2}', '{"_id":"2","k":"a","list":[1,[2]]}']);
  expect(things.update({ k: "a" }, { $set: { k: "b" } }, true)).toEqual({ matched: 2, modified: 2 });
  expect(things.update({ k: "a" }, { $set: { k: "b" } }, true)).toEqual({ matched: 0, modified: 0 });
});

describe("what one update makes of one document", () => {
  test.each([
    ["$set a field", '{"a":1}', '{"$set":{"a":2,"b":{"c":3}}}', '{"a":2,"b":{"c":3}}'],
    ["$set makes the objects on the way", "{}", '{"$set":{"a.b.c":1}}', '{"a":{"b":{"c":1}}}'],
    ["$set of a number's name makes an object", "{}", '{"$set":{"a.0":1}}', '{"a":{"0":1}}'],
    ["$set an element", '{"a":[1,2]}', '{"$set":{"a.1":9}}', '{"a":[1,9]}'],
    ["$set inside an element", '{"a":[{"b":1}]}', '{"$set":{"a.0.b":9,"a.0.c":8}}', '{"a":[{"b":9,"c":8}]}'],
    ["$set past the end fills with null", '{"a":[1]}', '{"$set":{"a.3.b":2}}', '{"a":[1,null,null,{"b":2}]}'],
    ["$set null", '{"a":1}', '{"$set":{"a":null}}', '{"a":null}'],
    [
      "$set keeps a number's digits",
      '{"a":1}',
      '{"$set":{"a":9007199254740993,"b":1.50}}',
      '{"a":9007199254740993,"b":1.50}',
    ],
    [
      "$unset a field, whatever the operand",
      '{"a":1,"b":{"c":2,"d":3}}',
      '{"$unset":{"a":"","b.c":true}}',
      '{"b":{"d":3}}',
    ],
    ["$unset an element leaves null", '{"a":[1,2]}', '{"$unset":{"a.0":1}}', '{"a":[null,2]}'],
    ["$unset of nothing", '{"a":[1],"b":2}', '{"$unset":{"a.5":1,"a.x":1,"b.c":1,"d.e":1}}', '{"a":[1],"b":2}'],
    ["$inc beyond 53 bits", '{"a":9007199254740993}', '{"$inc":{"a":1}}', '{"a":9007199254740994}'],
    ["$inc to the last integer", '{"a":9223372036854775806}', '{"$inc":{"a":1}}', '{"a":9223372036854775807}'],
    ["$inc below zero", '{"a":-9223372036854775807}', '{"$inc":{"a":-1}}', '{"a":-9223372036854775808}'],
    ["$inc with fractions", '{"a":1}', '{"$inc":{"a":0.5,"b":-2.5}}', '{"a":1.5,"b":-2.5}'],
    ["$inc in an element", '{"a":[1,{"n":2}]}', '{"$inc":{"a.0":1,"a.1.n":1,"a.2":7}}', '{"a":[2,{"n":3},7]}'],
    ["$push makes the array and the way to it", "{}", '{"$push":{"a.b":{"c":1}}}', '{"a":{"b":[{"c":1}]}}'],
    ["$push null", '{"a":[]}', '{"$push":{"a":null}}', '{"a":[null]}'],
    ["$push into an array in an array", '{"a":[[1]]}', '{"$push":{"a.0":2}}', '{"a":[[1,2]]}'],
    [
      "operators together",
      '{"a":1,"b":2}',
      '{"$set":{"c":3},"$unset":{"b":1},"$inc":{"a":1},"$push":{"d":4}}',
      '{"a":2,"c":3,"d":[4]}',
    ],
    ["a path that begins like another", '{"a":1}', '{"$set":{"a":2,"ab":3,"a-b":4}}', '{"a":2,"ab":3,"a-b":4}'],
    ["operators of nothing", '{"a":1}', '{"$set":{}}', '{"a":1}'],
  ])("%s", (_, before, text, after) => {
    const [id] = put(before).ids;
    const changed = before !== after;
    expect(things.writes(() => expect(update(text)).toEqual({ matched: 1, modified: changed ? 1 : 0 }))).toBe(changed);
    expect(things.texts()).toEqual([`{"_id":"${id}"${after === "{}" ? "" : ","}${after.slice(1)}`]);
  });

  test("modified counts the documents that really changed, and the others are not written", () => {
    things.insert({ a: 1 }, { a: 2 }, { a: 1, 10: "ten" });
    expect(things.update({}, { $set: { a: 1 } }, true)).toEqual({ matched: 3, modified: 1 });
    expect(
      things.writes(() => expect(things.update({}, { $set: { a: 1 } }, true)).toEqual({ matched: 3, modified: 0 })),
    ).toBe(false);
  });

  test("an update of what it looks for visits each document once", () => {
    things.index("n");
    things.insert(...Array.from({ length: 50 }, (_, n) => ({ n })));
    expect(things.update({ n: { $gte: 0 } }, { $inc: { n: 10 } }, true)).toEqual({ matched: 50, modified: 50 });
    expect(things.find("n")).toEqual(Array.from({ length: 50 }, (_, n) => n + 10));
  });
});

describe("refused updates", () => {
  test.each([
    ["", "update must be valid JSON"],
    ["[]", "update must be an object of operators"],
    ["{}", "update must be an object of operators"],
    ['{"a":1}', "update may hold only the operators $set, $setOnInsert, $unset, $inc,"],
    ['{"$set":{"a":1},"b":2}', "update may hold only the operators"],
    ['{"$bit":{"a":{"or":1}}}', "update may hold only the operators"],
    ['{"$set":1}', "update.$set must be an object"],
    ['{"$set":[]}', "update.$set must be an object"],
    ['{"$set":{"_id":"x"}}', "update.$set._id cannot be changed: _id is immutable"],
    ['{"$unset":{"_id":""}}', "update.$unset._id cannot be changed"],
    ['{"$set":{"_id.a":1}}', "update.$set._id.a cannot be changed"],
    ['{"$set":{"":1}}', "a path in update.$set must be a path"],
    ['{"$set":{"a.$[]":1}}', "a path in update.$set must be a path"],
    ['{"$set":{"$a":1}}', "a path in update.$set must be a path"],
    ['{"$inc":{"a":"1"}}', "update.$inc.a must be a number"],
    ['{"$inc":{"a":null}}', "update.$inc.a must be a number"],
    ['{"$push":{"a":{"$each":1}}}', "update.$push.a must be a value, or $each"],
    ['{"$set":{"a":1},"$inc":{"a":1}}', "update changes a twice"],
    ['{"$set":{"a":1,"a.b":2}}', "update changes a twice, or both it and something inside it"],
    ['{"$set":{"a.b":1,"a-b":1,"a.b.c":2}}', "update changes a.b twice"],
    ['{"$set":{"a":"\\ud800"}}', "update has a string with half a surrogate pair"],
  ])("%.60s, whether or not anything matches", (text, message) => {
    expect(refusal(() => update(text))).toContain(`invalid_request: ${message}`);
    put('{"n":1}');
    expect(refusal(() => update(text))).toContain(`invalid_request: ${message}`);
  });

  test.each([
    ["$inc of a text", '{"a":"x"}', '{"$inc":{"a":1}}', "update.$inc.a cannot be incremented"],
    ["$inc of null", '{"a":null}', '{"$inc":{"a":1}}', "update.$inc.a cannot be incremented"],
    ["$inc of an array", '{"a":[1]}', '{"$inc":{"a":1}}', "update.$inc.a cannot be incremented"],
    [
      "$inc over the last integer",
      '{"a":9223372036854775807}',
      '{"$inc":{"a":1}}',
      "update.$inc.a goes beyond 64-bit integers",
    ],
    [
      "$inc under the first integer",
      '{"a":-9223372036854775808}',
      '{"$inc":{"a":-1}}',
      "update.$inc.a goes beyond 64-bit integers",
    ],
    [
      "$inc of more than 64 bits",
      '{"a":18446744073709551616}',
      '{"$inc":{"a":1}}',
      "update.$inc.a goes beyond 64-bit integers",
    ],
    ["$inc to infinity", '{"a":1.7e308}', '{"$inc":{"a":1.7e308}}', "update.$inc.a goes beyond the largest number"],
    ["$push to a text", '{"a":"x"}', '{"$push":{"a":1}}', "update.$push.a needs an array"],
    ["$push to null", '{"a":null}', '{"$push":{"a":1}}', "update.$push.a needs an array"],
    [
      "$set through a number",
      '{"a":1}',
      '{"$set":{"a.b":1}}',
      'update.$set.a.b cannot be reached: "b" would be inside a value that is neither',
    ],
    ["$set through null", '{"a":null}', '{"$set":{"a.b":1}}', "update.$set.a.b cannot be reached"],
    [
      "$set through a number of many digits",
      '{"a":9007199254740993}',
      '{"$set":{"a.rawJSON":1}}',
      "update.$set.a.rawJSON cannot be reached",
    ],
    [
      "$set a name in an array",
      '{"a":[1]}',
      '{"$set":{"a.b":1}}',
      'update.$set.a.b cannot be reached: "b" would be inside an array',
    ],
    [
      "$set far past the end",
      '{"a":[1]}',
      '{"$set":{"a.100000000":1}}',
      "update.$set.a.100000000 lies more than 1000 past the end",
    ],
    [
      "a document that gets too deep",
      `{"a":${"[".repeat(63)}${"]".repeat(63)}}`,
      `{"$set":{"a${".0".repeat(62)}":{"b":{}}}}`,
      "the updated document is nested too deep",
    ],
    [
      "a document that gets too large",
      JSON.stringify({ a: "x".repeat(docBytesMax - 100) }),
      JSON.stringify({ $set: { b: "x".repeat(100) } }),
      "the updated document must be at most",
    ],
  ])("%s, and nothing of the command stays", (_, doc, text, message) => {
    put('{"_id":"first"}');
    put(doc);
    const before = things.texts();
    expect(refusal(() => update(text))).toContain(`invalid_request: ${message}`);
    expect(things.texts()).toEqual(before);
  });
});
