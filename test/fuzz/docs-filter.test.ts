/** Filters, sorts and indexes over random documents, held against a matcher that does without SQL. */
import fc from "fast-check";
import { describe, expect, onTestFinished, test } from "vitest";
import { deleteDocs, insertDocs, updateDocs } from "../../src/model/docs/docs.ts";
import { createDocIndex } from "../../src/model/docs/docs-catalog.ts";
import { findDocs } from "../../src/model/docs/docs-find.ts";
import { matches, plainText, sorted, type Plain, type PlainDoc } from "../support/docs-oracle.ts";
import { ModelDatabase } from "../support/model-database.ts";

const collection = "things";

/** Few values and few names, so that filters and documents meet often. */
const scalar: fc.Arbitrary<Plain> = fc.constantFrom<Plain>(
  null,
  true,
  false,
  0,
  1,
  2,
  -1,
  1.5,
  1e300,
  5e-324,
  2 ** 53,
  2n ** 53n + 1n,
  2n ** 63n - 1n,
  -(2n ** 63n),
  2n ** 53n,
  "",
  "a",
  "b",
  "1",
  "ä",
  "😀",
  "\uffff",
  'q"\\',
  "\0",
);
const fieldName = fc.constantFrom("a", "b", "0", "1", "c d", "__proto__", 'x"y', "\\");
const own = (entries: readonly (readonly [string, Plain])[]): PlainDoc => {
  const doc: PlainDoc = {};
  for (const [field, value] of entries)
    Object.defineProperty(doc, field, { value, enumerable: true, configurable: true, writable: true });
  return doc;
};
const { value: valueArbitrary } = fc.letrec<{ value: Plain }>((tie) => ({
  value: fc.oneof(
    { maxDepth: 3, withCrossShrink: true },
    { arbitrary: scalar, weight: 3 },
    { arbitrary: fc.array(tie("value"), { maxLength: 3 }), weight: 2 },
    { arbitrary: fc.array(fc.tuple(fieldName, tie("value")), { maxLength: 3 }).map(own), weight: 2 },
  ),
}));
const docArbitrary = fc.array(fc.tuple(fieldName, valueArbitrary), { maxLength: 4 }).map(own);

const path = fc.array(fieldName, { minLength: 1, maxLength: 3 }).map((parts) => parts.join("."));
const operator: fc.Arbitrary<[string, Plain]> = fc.oneof(
  fc.tuple(fc.constantFrom("$eq", "$ne"), valueArbitrary),
  fc.tuple(fc.constantFrom("$gt", "$gte", "$lt", "$lte"), scalar),
  fc.tuple(fc.constantFrom("$in", "$nin"), fc.array(valueArbitrary, { maxLength: 4 })),
  fc.tuple(fc.constant("$exists"), fc.boolean()),
  fc.tuple(fc.constantFrom("$gt", "$gte", "$lt", "$lte"), valueArbitrary),
  fc.tuple(fc.constant("$size"), fc.integer({ min: 0, max: 3 })),
  fc.tuple(fc.constant("$type"), fc.constantFrom("null", "number", "string", "object", "array", "bool")),
  fc.tuple(fc.constant("$type"), fc.constant<Plain>(["array", "bool"])),
  fc.tuple(fc.constant("$regex"), fc.constantFrom("a", "^[ab]$", "1|ä", "\\W", "^$", ".", "a*")),
  fc.tuple(fc.constant("$all"), fc.array(valueArbitrary, { maxLength: 2 })),
);
/** Within `$elemMatch`, `$not` is of a value. */
const withoutNot = (filter: PlainDoc): PlainDoc => own(Object.entries(filter).filter(([key]) => key !== "$not"));
const { filter: filterArbitrary } = fc.letrec<{ condition: PlainDoc; filter: PlainDoc }>((tie) => ({
  condition: fc
    .uniqueArray(
      fc.oneof(
        { maxDepth: 2 },
        { arbitrary: operator, weight: 5 },
        fc.tuple(fc.constant("$not"), tie("condition")),
        fc.tuple(fc.constant("$elemMatch"), fc.oneof(tie("condition"), tie("filter").map(withoutNot))),
        fc.tuple(
          fc.constant("$all"),
          fc.array(
            tie("condition").map((value): Plain => ({ $elemMatch: value })),
            { maxLength: 2 },
          ),
        ),
      ),
      {
        minLength: 1,
        maxLength: 3,
        selector: ([name]) => name,
      },
    )
    .map(own),
  filter: fc
    .array(
      fc.oneof(
        { maxDepth: 2 },
        { arbitrary: fc.tuple(path, tie("condition")), weight: 4 },
        { arbitrary: fc.tuple(path, valueArbitrary), weight: 2 },
        fc.tuple(fc.constantFrom("$and", "$or", "$nor"), fc.array(tie("filter"), { minLength: 1, maxLength: 3 })),
        fc.tuple(fc.constant("$not"), tie("filter")),
      ),
      { maxLength: 3 },
    )
    .map(own),
}));

function open(): ModelDatabase {
  const database = new ModelDatabase();
  onTestFinished(() => database.close());
  return database;
}

/** The numbers of the documents that a find gives: each test document carries its own in `_id`. */
const found = (database: ModelDatabase, filter: PlainDoc, sort: { path: string; direction: number }[] = []): string[] =>
  findDocs(database.view(), { collection, filter: plainText(filter), sort, limit: 1000 }).docs.map(
    (text) => (JSON.parse(text) as { _id: string })._id,
  );

const numbered = (docs: readonly PlainDoc[]): PlainDoc[] =>
  docs.map((doc, index) => own([["_id", String(index).padStart(4, "0")], ...Object.entries(doc)]));
const insert = (database: ModelDatabase, docs: readonly PlainDoc[]) =>
  database.write((tx) => insertDocs(tx, { collection, docs: docs.map(plainText) }));

const indexedPaths = ["a", "b", "a.b", "a.0", "0.a.1", 'x"y', "__proto__.a", "a.b.0", "1"];

/** Every entry of every index, to be compared with that of an index which was made after the fact. */
function entriesByPath(database: ModelDatabase): Map<string, unknown> {
  const indexes = database.connection.all<{ doc_index: number; path: string }>(
    "SELECT doc_index, path FROM __service_doc_indexes",
  );
  return new Map(
    indexes.map(({ doc_index, path: indexed }) => [
      indexed,
      database.connection.raw.prepare(`SELECT * FROM __service_docidx_${doc_index}`).safeIntegers().all(),
    ]),
  );
}

describe("filters", () => {
  test("docs-08: agree with a naive matcher, without and with indexes", () => {
    const database = open();
    fc.assert(
      fc.property(
        fc.array(docArbitrary, { minLength: 60, maxLength: 120 }),
        fc.array(filterArbitrary, { minLength: 25, maxLength: 25 }),
        fc.boolean(),
        (plain, filters, indexFirst) => {
          const docs = numbered(plain);
          // The same table all the time: making one costs more than a hundred filters.
          database.connection.exec("BEGIN");
          try {
            const tx = {
              ...database.view(),
              txid: 1,
              newId: () => "unused",
              notes: [],
              atGroupEnd() {},
              afterCommit() {},
            };
            const expected = filters.map((filter) =>
              docs.filter((doc) => matches(doc, filter)).map((doc) => doc["_id"]),
            );
            if (!indexFirst) {
              insertDocs(tx, { collection, docs: docs.map(plainText) });
              filters.forEach((filter, index) =>
                expect(found(database, filter), plainText(filter)).toEqual(expected[index]),
              );
            }
            for (const indexed of indexedPaths) createDocIndex(tx, { collection, path: indexed });
            if (indexFirst) insertDocs(tx, { collection, docs: docs.map(plainText) });
            filters.forEach((filter, index) =>
              expect(found(database, filter), plainText(filter)).toEqual(expected[index]),
            );
          } finally {
            database.connection.exec("ROLLBACK");
          }
        },
      ),
      { numRuns: 60 },
    );
  });

  test("sorts agree with a naive sort, also by several keys", () => {
    fc.assert(
      fc.property(
        fc.array(docArbitrary, { maxLength: 30 }),
        fc.array(fc.record({ path, direction: fc.constantFrom(1, -1) }), { minLength: 1, maxLength: 3 }),
        (plain, keys) => {
          const docs = numbered(plain);
          const database = new ModelDatabase();
          try {
            if (docs.length > 0) insert(database, docs);
            expect(found(database, {}, keys)).toEqual(sorted(docs, keys).map((doc) => doc["_id"]));
          } finally {
            database.close();
          }
        },
      ),
      { numRuns: 150 },
    );
  });

  test("doubles that SQLite and JavaScript read differently from text find their own documents", () => {
    const database = open();
    database.write((tx) => createDocIndex(tx, { collection, path: "x" }));
    fc.assert(
      fc.property(
        fc.uniqueArray(fc.double({ noNaN: true, noDefaultInfinity: true }), { minLength: 100, maxLength: 400 }),
        (values) => {
          database.write((tx) => deleteDocs(tx, { collection, filter: "{}", multi: true }));
          insert(database, numbered(values.map((x) => ({ x, y: x }))));
          for (const [index, x] of values.entries()) {
            expect(found(database, { x })).toContain(String(index).padStart(4, "0"));
            expect(found(database, { y: { $gte: x, $lte: x } })).toContain(String(index).padStart(4, "0"));
          }
        },
      ),
      { numRuns: 5 },
    );
  });
});

describe("indexes", () => {
  const value = valueArbitrary.map(plainText);
  type Step =
    | { kind: "insert"; doc: PlainDoc }
    | { kind: "update"; filter: PlainDoc; operator: string; at: string; value: string; multi: boolean }
    | { kind: "delete"; filter: PlainDoc; multi: boolean };
  const step: fc.Arbitrary<Step> = fc.oneof(
    fc.record({ kind: fc.constant("insert" as const), doc: docArbitrary }),
    fc.record({
      kind: fc.constant("update" as const),
      filter: filterArbitrary,
      operator: fc.constantFrom("$set", "$push", "$unset"),
      at: path,
      value,
      multi: fc.boolean(),
    }),
    fc.record({ kind: fc.constant("delete" as const), filter: filterArbitrary, multi: fc.boolean() }),
  );

  test("docs-09: after any writes hold what an index made afterwards would hold", () => {
    fc.assert(
      fc.property(fc.array(step, { minLength: 10, maxLength: 40 }), (steps) => {
        const early = new ModelDatabase();
        const late = new ModelDatabase();
        try {
          for (const indexed of indexedPaths) early.write((tx) => createDocIndex(tx, { collection, path: indexed }));
          for (const database of [early, late]) for (const one of steps) run(database, one);
          for (const indexed of indexedPaths) late.write((tx) => createDocIndex(tx, { collection, path: indexed }));
          expect(entriesByPath(early)).toEqual(entriesByPath(late));
          expect(found(early, {})).toEqual(found(late, {}));
        } finally {
          early.close();
          late.close();
        }
      }),
      { numRuns: 60 },
    );
  });

  /** A refused step (a path through a scalar) leaves nothing behind, on either side. */
  function run(database: ModelDatabase, one: Step): void {
    database.group<unknown>((tx) => {
      if (one.kind === "insert") return insertDocs(tx, { collection, docs: [plainText(one.doc)] });
      if (one.kind === "delete") return deleteDocs(tx, { collection, filter: plainText(one.filter), multi: one.multi });
      const update = `{${JSON.stringify(one.operator)}:{${JSON.stringify(one.at)}:${one.value}}}`;
      return updateDocs(tx, { collection, filter: plainText(one.filter), update, multi: one.multi });
    });
  }
});
