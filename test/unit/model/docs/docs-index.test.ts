/** Which queries an index of documents serves, what stands in it, and that it changes no answer. */
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { createDocIndex, docIndexesMax } from "../../../../src/model/docs/docs-catalog.ts";
import { DocsCollection, refusal } from "../../../support/docs-collection.ts";
import type { PlainDoc } from "../../../support/docs-oracle.ts";

let things: DocsCollection;

beforeEach(() => {
  things = new DocsCollection();
});

afterEach(() => things.close());

/** The steps of SQLite's plan for the find of this filter, as one text: taken from the statement that really ran. */
function explainPlan(filter: PlainDoc, more: Parameters<DocsCollection["texts"]>[1] = {}): string {
  const { connection } = things.database;
  const ran: string[] = [];
  const prepared = connection.prepared.bind(connection);
  connection.prepared = (sql) => (ran.push(sql), prepared(sql));
  try {
    things.texts(filter, more);
  } finally {
    connection.prepared = prepared;
  }
  const statement = ran.find((sql) => sql.startsWith("SELECT d."))!;
  const names = new Set(Array.from(statement.matchAll(/\$([a-z0-9]+)/g), (match) => match[1]!));
  const steps = connection.raw
    .prepare(`EXPLAIN QUERY PLAN ${statement}`)
    .all(Object.fromEntries(Array.from(names, (name) => [name, "1"]))) as { detail: string }[];
  return steps.map((step) => step.detail).join("\n");
}

const rows = (table: string) =>
  things.database.connection.raw.prepare(`SELECT kind, value, doc FROM ${table}`).raw().all();

describe("docs-08: SQLite uses the index for", () => {
  beforeEach(() => {
    things.index("n", "o.k", "tags");
    things.insert(...Array.from({ length: 30 }, (_, n) => ({ n, o: { k: n % 5 }, tags: ["x", `t${n % 3}`] })));
  });

  const bySearch = "SEARCH d USING INTEGER PRIMARY KEY (rowid=?)";
  const cases: readonly (readonly [string, PlainDoc, string, number])[] = [
    ["equality", { n: 7 }, "SEARCH __service_docidx_1 USING PRIMARY KEY (kind=? AND value=?)", 1],
    ["a dot path", { "o.k": 2 }, "SEARCH __service_docidx_2 USING PRIMARY KEY (kind=? AND value=?)", 6],
    ["an element", { tags: "t1" }, "SEARCH __service_docidx_3 USING PRIMARY KEY (kind=? AND value=?)", 10],
    ["$in", { n: { $in: [3, 4, 99] } }, "SEARCH __service_docidx_1 USING PRIMARY KEY (kind=? AND value=?)", 2],
    ["one end of a range", { n: { $gt: 27 } }, "SEARCH __service_docidx_1 USING PRIMARY KEY (kind=? AND value>?)", 2],
    [
      "both ends of a range",
      { n: { $gte: 5, $lt: 8 } },
      "SEARCH __service_docidx_1 USING PRIMARY KEY (kind=? AND value>? AND value<?)",
      3,
    ],
    [
      "both ends in an $and",
      { $and: [{ n: { $lt: 8 } }, { n: { $gte: 5 } }] },
      "SEARCH __service_docidx_1 USING PRIMARY KEY (kind=? AND value>? AND value<?)",
      3,
    ],
    [
      "equality before range",
      { n: { $gte: 5, $lt: 25 }, "o.k": 2 },
      "SEARCH __service_docidx_2 USING PRIMARY KEY (kind=? AND value=?)",
      4,
    ],
    [
      "$or of indexed paths",
      { $or: [{ n: 1 }, { "o.k": { $lt: 1 } }] },
      "SEARCH __service_docidx_2 USING PRIMARY KEY (kind=? AND value<?)",
      7,
    ],
    ["null", { n: null }, "SEARCH __service_docidx_1 USING PRIMARY KEY (kind<?)", 0],
    ["$exists", { n: { $exists: true } }, "SEARCH __service_docidx_1 USING PRIMARY KEY (kind>?)", 30],
    ["a whole array", { tags: ["x", "t1"] }, "SEARCH __service_docidx_3 USING PRIMARY KEY (kind=?)", 10],
    ["_id", { _id: "x" }, "USING COVERING INDEX sqlite_autoindex___service_doc_1_1 (id=?)", 0],
  ];

  test.each(cases)("%s", (_, filter, step, count) => {
    const plan = explainPlan(filter);
    expect(plan).toContain(bySearch);
    expect(plan).toContain(step);
    expect(things.texts(filter)).toHaveLength(count);
  });

  test("the negative ones scan, because an index does not hold what is absent", () => {
    for (const filter of [
      { n: { $ne: 1 } },
      { n: { $nin: [1] } },
      { n: { $not: { $gt: 1 } } },
      { $or: [{ n: 1 }, { other: 1 }] },
    ]) {
      expect(explainPlan(filter)).not.toContain(bySearch);
    }
  });

  test("no sort is needed for the order of insertion, nor for the order of _id", () => {
    expect(explainPlan({ n: { $gt: 3 } })).not.toContain("ORDER BY");
    expect(explainPlan({}, { sort: [{ path: "_id", direction: -1 }] })).toContain("SCAN d USING COVERING INDEX");
  });
});

test("once a document has two entries, both ends of a range may be met by different ones", () => {
  things.index("n");
  things.insert({ _id: "in", n: 5 }, { _id: "out", n: 9 });
  expect(explainPlan({ n: { $gt: 4, $lt: 6 } })).toContain("(kind=? AND value>? AND value<?)");
  things.insert({ _id: "both", n: [1, 9] });
  expect(explainPlan({ n: { $gt: 4, $lt: 6 } })).not.toContain("value>? AND value<?");
  expect(things.find("_id", { n: { $gt: 4, $lt: 6 } })).toEqual(["in", "both"]);
});

test("docs-04: an index made over what is there answers the same", () => {
  things.insert({ n: 1 }, { n: [2, 3] }, { n: null }, {}, { n: "1" });
  const filters: PlainDoc[] = [
    { n: 1 },
    { n: 3 },
    { n: null },
    { n: { $gte: 2 } },
    { n: { $exists: false } },
    { n: { $in: ["1", null] } },
  ];
  const before = filters.map((filter) => things.texts(filter));
  things.index("n");
  expect(filters.map((filter) => things.texts(filter))).toEqual(before);
});

test("docs-09: updates move documents between entries; a delete by an indexed filter counts 1", () => {
  things.index("status", "deep.tags");
  things.insert({ _id: "1", status: "open", deep: { tags: ["a", "b"] } }, { _id: "2", status: "open" });
  expect(
    things.update({ status: "open", "deep.tags": "b" }, { $set: { status: "done" }, $push: { "deep.tags": "c" } }),
  ).toEqual({ matched: 1, modified: 1 });
  expect(things.find("_id", { status: "open" })).toEqual(["2"]);
  expect(things.find("_id", { status: "done", "deep.tags": "c" })).toEqual(["1"]);
  expect(things.update({ _id: "1" }, { $unset: { "deep.tags": 1 } })).toEqual({ matched: 1, modified: 1 });
  expect(things.find("_id", { "deep.tags": "c" })).toEqual([]);
  expect(things.delete({ status: "done" })).toBe(1);
  expect(things.delete({ status: "done" })).toBe(0);
  expect(things.delete({}, true)).toBe(1);
  expect(rows("__service_docidx_1")).toEqual([]);
  expect(rows("__service_docidx_2")).toEqual([]);
});

test("an index holds values by kind, elements of arrays, and marks for the rest", () => {
  things.index("v");
  things.insert({ v: 1 }, { v: "1" }, { v: true }, { v: null }, {}, { v: { a: 1 } }, { v: [2, 2, [3]] }, { v: [] });
  expect(rows("__service_docidx_1")).toEqual([
    [0, 0, 5],
    [1, 0, 4],
    [2, 1, 1],
    [2, 2, 7],
    [3, "1", 2],
    [4, 0, 6],
    [5, 0, 7],
    [5, 0, 8],
    [6, 1, 3],
  ]);
});

test("the same index again, or one on _id, changes nothing", () => {
  things.index("a");
  for (const path of ["a", "_id"]) {
    expect(
      things.writes(() =>
        expect(things.database.write((tx) => createDocIndex(tx, { collection: "things", path }))).toEqual({
          indexed: path,
        }),
      ),
    ).toBe(false);
  }
});

test("an index makes its collection; there are 32 at most, and their paths are checked", () => {
  for (let index = 0; index < docIndexesMax; index++) things.index(`p${index}`);
  things.insert({ p0: 1, p31: [1, 2] });
  expect(things.texts({ p31: 2, p0: 1 })).toHaveLength(1);
  expect(refusal(() => things.index("one-more"))).toBe(
    "invalid_request: the collection already has 32 indexes, the most allowed",
  );
  for (const path of ["", "a.", ".a", "$a", "a.$b", "x".repeat(257), "\ud800"])
    expect(refusal(() => things.index(path))).toMatch(/^invalid_request: path must be a path of/);
});
