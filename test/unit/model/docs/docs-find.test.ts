/** Counts, groups, and the lists of collections and indexes. */
import fc from "fast-check";
import { afterEach, beforeEach, expect, test } from "vitest";
import { dropDocIndex, listDocCollections, listDocIndexes } from "../../../../src/model/docs/docs-catalog.ts";
import { countDocs, groupDocs } from "../../../../src/model/docs/docs-find.ts";
import { DocsCollection, refusal } from "../../../support/docs-collection.ts";
import { plainText, type Plain, type PlainDoc } from "../../../support/docs-oracle.ts";

let things: DocsCollection;

beforeEach(() => {
  things = new DocsCollection();
});

afterEach(() => things.close());

const collection = "things";
const count = (filter: PlainDoc, limit?: number) =>
  countDocs(things.database.view(), { collection, filter: plainText(filter), ...(limit && { limit }) });
const group = (path: string, filter: PlainDoc = {}, limit = 1000) =>
  groupDocs(things.database.view(), { collection, path, filter: plainText(filter), limit });

test("a count stops at its limit and says so", () => {
  things.insert(...Array.from({ length: 20 }, (_, n) => ({ n })));
  expect(count({})).toEqual({ count: 20, more: false });
  expect(count({ n: { $lt: 5 } })).toEqual({ count: 5, more: false });
  expect(count({}, 20)).toEqual({ count: 20, more: false });
  expect(count({}, 19)).toEqual({ count: 19, more: true });
  things.index("n");
  expect(count({ n: { $in: [1, 2, 30] } })).toEqual({ count: 2, more: false });
  expect(countDocs(things.database.view(), { collection: "none" })).toEqual({ count: 0, more: false });
  expect(refusal(() => count({}, 1_000_001))).toContain("limit must be a whole number from 1 to 1000000");
});

test("a group counts a document once for each value, the commonest first", () => {
  things.insert({ t: ["a", "b", "a"] }, { t: "a" }, { t: [] }, {}, { t: null }, { t: 1.0 }, { t: { x: 1, y: 2 } });
  expect(group("t")).toEqual({
    groups: [
      { value: "null", count: 2 },
      { value: '"a"', count: 2 },
      { value: "1", count: 1 },
      { value: '"b"', count: 1 },
      { value: '{"x":1,"y":2}', count: 1 },
    ],
    distinct: 5,
  });
  expect(group("t", { t: "b" }, 1)).toEqual({ groups: [{ value: '"a"', count: 1 }], distinct: 2 });
  expect(refusal(() => group("", {}))).toContain("path must be a path");
});

test("each group has as many documents as match its value", () => {
  const scalar: fc.Arbitrary<Plain> = fc.constantFrom<Plain>(null, true, 0, 1, "", "a", 2n ** 60n);
  const value = fc.oneof(scalar, fc.array(scalar, { maxLength: 3 }), fc.record({ b: fc.array(scalar) }));
  const docs = fc.array(fc.record({ a: fc.oneof(value, fc.array(value, { maxLength: 3 })) }, { requiredKeys: [] }), {
    minLength: 1,
    maxLength: 30,
  });
  fc.assert(
    fc.property(docs, fc.constantFrom("a", "a.b", "a.0", "a.0.b"), (all, path) => {
      things.close();
      things = new DocsCollection();
      things.insert(...all);
      for (const { value: text, count: n } of group(path).groups)
        // An array equals one in an array as well as a whole one, and only the first is grouped by.
        if (!text.startsWith("["))
          expect(countDocs(things.database.view(), { collection, filter: `{"${path}":${text}}` }).count, text).toBe(n);
    }),
    { numRuns: 40 },
  );
});

test("indexes are listed and dropped, and filters give what they gave", () => {
  const view = () => things.database.view();
  const drop = (path: string) => things.database.write((tx) => dropDocIndex(tx, { collection, path })).dropped;
  things.index("a", "b.c");
  things.insert({ _id: "1", a: [1, 2] }, { _id: "2", a: 2 });
  const tables = () =>
    things.database.connection.all(
      "SELECT name FROM sqlite_schema WHERE name LIKE '\\_\\_service_docidx_%' ESCAPE '\\'",
    );
  expect(listDocIndexes(view(), { collection }).indexes).toEqual([
    { path: "a", multikey: true },
    { path: "b.c", multikey: false },
  ]);
  expect(tables()).toHaveLength(2);
  expect(drop("a")).toBe(true);
  expect(things.writes(() => expect(drop("a")).toBe(false))).toBe(false);
  expect(tables()).toHaveLength(1);
  expect(things.find("_id", { a: 2 })).toEqual(["1", "2"]);
  things.index("a");
  expect(things.find("_id", { a: 2 })).toEqual(["1", "2"]);
  expect(listDocIndexes(view(), { collection }).indexes.map(({ path }) => path)).toEqual(["b.c", "a"]);
  expect(listDocIndexes(view(), { collection: "none" })).toEqual({ indexes: [] });
  expect(refusal(() => drop("_id"))).toContain("path must not be _id");
});

test("collections are listed by name, page by page", () => {
  const view = things.database.view();
  expect(listDocCollections(view, {})).toEqual({ collections: [] });
  things.insert({}, {});
  things.index("a");
  const other = { name: "things", count: 2, indexes: 1 };
  expect(listDocCollections(view, {})).toEqual({ collections: [other] });
  expect(listDocCollections(view, { after: "s", limit: 1 })).toEqual({ collections: [other] });
  expect(listDocCollections(view, { after: "things" })).toEqual({ collections: [] });
  expect(refusal(() => listDocCollections(view, { limit: 0 }))).toContain("limit must be a whole number");
});
