/**
 * The language of documents held against a second implementation of MongoDB's, mingo: random documents, filters and
 * sorts must give the same wherever mingo does what MongoDB documents. Where it departs is listed, and checked too.
 */
import fc from "fast-check";
import { find } from "mingo";
import { describe, expect, test } from "vitest";
import { DocsCollection } from "../support/docs-collection.ts";
import { plainText, type Plain, type PlainDoc } from "../support/docs-oracle.ts";

const scalar: fc.Arbitrary<Plain> = fc.constantFrom<Plain>(null, true, false, 0, 1, 2, -1.5, "", "a", "b", "ab", "1");
const ordered = scalar.filter((operand) => operand !== null);
const name = fc.constantFrom("a", "b", "c", "0", "1");
const fromEntries = (entries: readonly (readonly [string, Plain])[]): PlainDoc => Object.fromEntries(entries);

const { value, object } = fc.letrec<{ value: Plain; object: PlainDoc }>((tie) => ({
  value: fc.oneof(
    { maxDepth: 3, withCrossShrink: true },
    { arbitrary: scalar, weight: 4 },
    { arbitrary: fc.array(tie("value"), { maxLength: 3 }), weight: 2 },
    { arbitrary: fc.array(tie("object"), { minLength: 1, maxLength: 3 }), weight: 2 },
    { arbitrary: tie("object"), weight: 2 },
  ),
  object: fc.array(fc.tuple(name, tie("value")), { maxLength: 4 }).map(fromEntries),
}));

const path = fc.array(name, { minLength: 1, maxLength: 3 }).map((parts) => parts.join("."));
const operator: fc.Arbitrary<[string, Plain]> = fc.oneof(
  fc.tuple(fc.constantFrom("$eq", "$ne"), value),
  fc.tuple(fc.constantFrom("$gt", "$gte", "$lt", "$lte"), ordered),
  fc.tuple(fc.constantFrom("$in", "$nin"), fc.array(value, { maxLength: 3 })),
  fc.tuple(fc.constant("$all"), fc.array(ordered, { minLength: 1, maxLength: 2 })),
  fc.tuple(fc.constant("$exists"), fc.boolean()),
  fc.tuple(fc.constant("$size"), fc.integer({ min: 0, max: 3 })),
  fc.tuple(fc.constant("$type"), fc.constantFrom("null", "number", "string", "object", "array", "bool")),
  fc.tuple(fc.constant("$regex"), fc.constantFrom("a", "^[ab]$", "^$", "b|^a")),
  fc.tuple(
    fc.constant("$elemMatch"),
    fc.tuple(name, ordered).map(([field, operand]): Plain => ({ [field]: operand })),
  ),
  fc.tuple(
    fc.constant("$elemMatch"),
    fc.tuple(ordered, ordered).map(([low, high]): Plain => ({ $gte: low, $lte: high })),
  ),
);
const { filter } = fc.letrec<{ filter: PlainDoc; condition: PlainDoc }>((tie) => ({
  condition: fc.oneof(
    { maxDepth: 2 },
    { arbitrary: operator.map((entry) => fromEntries([entry])), weight: 6 },
    tie("condition").map((inner): PlainDoc => ({ $not: inner })),
  ),
  filter: fc.oneof(
    { maxDepth: 2 },
    { arbitrary: fc.tuple(path, tie("condition")).map((entry) => fromEntries([entry])), weight: 5 },
    {
      arbitrary: fc.tuple(path, value).map((entry) => fromEntries([entry])),
      weight: 2,
    },
    fc
      .tuple(fc.constantFrom("$and", "$or", "$nor"), fc.array(tie("filter"), { minLength: 1, maxLength: 3 }))
      .map((entry) => fromEntries([entry])),
  ),
}));

const isDoc = (at: Plain | undefined): at is PlainDoc => typeof at === "object" && at !== null && !Array.isArray(at);

const member = (at: Plain | undefined, field: string): Plain | undefined =>
  isDoc(at) && Object.hasOwn(at, field) ? at[field] : undefined;

interface Ends {
  /** What is at the path's end; undefined where nothing is. */
  readonly values: readonly (Plain | undefined)[];
  /** Whether an array was on the way. */
  readonly passed: boolean;
}

/** Where the path ends; undefined where mingo goes another way than MongoDB. */
function follow(at: Plain | undefined, [field, ...rest]: readonly string[]): Ends | undefined {
  const found = member(at, field!);
  if (rest.length === 0 || (!Array.isArray(found) && !isDoc(found)))
    return { values: [rest.length === 0 ? found : undefined], passed: false };
  if (!Array.isArray(found)) return follow(found, rest);
  if (found.length === 0 || /^\d+$/.test(rest[0]!)) return undefined;
  const inner = found.map((one) => follow(one, rest));
  const values = inner.flatMap((one) => one?.values);
  return values.includes(undefined) ? undefined : { values, passed: true };
}

/** Whether the list of departures says something of this document and filter. */
function departs(doc: PlainDoc, query: PlainDoc): boolean {
  return Object.entries(query).some(([key, operand]) => {
    if (key.startsWith("$")) return (operand as PlainDoc[]).some((inner) => departs(doc, inner));
    const reached = follow(doc, key.split("."));
    if (!reached) return true;
    let condition = operand;
    while (isDoc(condition) && Object.hasOwn(condition, "$not")) condition = condition["$not"]!;
    const [name] = isDoc(condition) ? Object.keys(condition) : [];
    if (reached.passed && (Array.isArray(condition) || ["$elemMatch", "$size", "$type"].includes(name!))) return true;
    return reached.values.some((found) => {
      if (!Array.isArray(found)) return name === "$all";
      if (found.length === 0 || found.some((one) => Array.isArray(one)) || reached.passed) return true;
      if (name === "$in" || name === "$nin")
        return ((condition as PlainDoc)[name] as Plain[]).some((one) => Array.isArray(one));
      return name === "$type" || (name === "$elemMatch" && !found.every(isDoc));
    });
  });
}

function run(docs: readonly PlainDoc[], act: (collection: DocsCollection) => void): void {
  const collection = new DocsCollection();
  try {
    collection.insert(...docs);
    act(collection);
  } finally {
    collection.close();
  }
}

const numbered = (docs: readonly PlainDoc[]): PlainDoc[] => docs.map((doc, at) => ({ _id: String(at), ...doc }));
const found = (docs: readonly PlainDoc[], query: PlainDoc): string[] =>
  find(docs as never, query as never)
    .all()
    .map((doc) => (doc as { _id: string })._id);

test("filters find the same documents, without and with indexes", () => {
  let compared = 0;
  fc.assert(
    fc.property(
      fc.array(object, { minLength: 30, maxLength: 30 }),
      fc.array(filter, { minLength: 40, maxLength: 40 }),
      (plain, filters) => {
        const docs = numbered(plain);
        run(docs, (collection) => {
          const compare = (): void => {
            for (const one of filters) {
              const alike = docs.filter((doc) => !departs(doc, one));
              const ids = new Set(alike.map((doc) => doc["_id"]));
              compared += alike.length;
              expect(
                collection.find("_id", one).filter((id) => ids.has(id as string)),
                plainText(one),
              ).toEqual(found(alike, one));
            }
          };
          compare();
          collection.index("a", "b", "a.b", "a.0", "c.a");
          compare();
        });
      },
    ),
    { numRuns: 30, endOnFailure: true },
  );
  expect(compared, "most of what is made is compared").toBeGreaterThan(0.7 * 30 * 40 * 30 * 2);
});

test("sorts give the same order, of values of any type and of several keys", () => {
  const docs = fc.array(fc.array(fc.tuple(name, scalar), { maxLength: 5 }).map(fromEntries), {
    minLength: 2,
    maxLength: 30,
  });
  const keys = fc
    .uniqueArray(fc.tuple(name, fc.constantFrom(1 as const, -1 as const)), {
      selector: ([field]) => field,
      minLength: 1,
      maxLength: 3,
      // An object puts the names of numbers first.
    })
    .filter((all) => all.length < 2 || !all.some(([field]) => /\d/.test(field)));
  fc.assert(
    fc.property(docs, keys, (plain, sort) => {
      const all = numbered(plain);
      run(all, (collection) => {
        const theirs = find(all as never, {})
          .sort(Object.fromEntries(sort))
          .all();
        expect(
          collection.find("_id", {}, { sort: sort.map(([field, direction]) => ({ path: field, direction })) }),
          JSON.stringify(sort),
        ).toEqual(theirs.map((doc) => (doc as { _id: string })._id));
      });
    }),
    { numRuns: 100, endOnFailure: true },
  );
});

/** What MongoDB does, and mingo does not: a document, a filter, whether MongoDB finds it, and by what. */
const departures: readonly (readonly [reason: string, PlainDoc, PlainDoc, boolean])[] = [
  ["$gte and $lte of null hold where the field is missing, as $eq does", {}, { a: { $gte: null } }, true],
  ["$gte and $lte of null hold where the field is missing, as $eq does", {}, { a: { $lte: null } }, true],
  ["$all is the conjunction of equalities, of a single value too", { a: 1 }, { a: { $all: [1] } }, true],
  ["$all is the conjunction of equalities, of null too", {}, { a: { $all: [null] } }, true],
  ["elements that are no objects lead nowhere, not to an empty array", { a: [1] }, { "a.b": { $size: 0 } }, false],
  ["elements that are no objects lead nowhere", { a: [1] }, { "a.b": [] }, false],
  ["elements that are no objects lead nowhere", { a: [] }, { "a.b.0": { $exists: true } }, false],
  ["a position past the end leads nowhere, not to null", { a: [] }, { "a.0": null }, false],
  ["an object of the array without the field has it missing", { a: [{}] }, { "a.b": null }, true],
  ["an object of the array without the field is no array", { a: [{}] }, { "a.b": { $size: 0 } }, false],
  ["a number is a field name within objects of an array, too", { a: [1, { 0: 5 }] }, { "a.0": 5 }, true],
  ["arrays in arrays are entered by numbers only", { a: [["x"]] }, { a: { $regex: "x" } }, false],
  ["arrays in arrays are entered by numbers only", { a: [[1]] }, { "a.b": { $lt: 2 } }, false],
  ["a list of values may hold an array, which an array equals as a whole", { a: [] }, { a: { $in: [[]] } }, true],
  ["$type is asked of the elements too", { a: [0] }, { a: { $type: "number" } }, true],
  [
    "$elemMatch of fields is asked of elements that are documents",
    { a: ["x"] },
    { a: { $elemMatch: { b: "x" } } },
    false,
  ],
  ["an array is compared with an array as a whole", { a: ["b"] }, { a: { $lte: ["b"] } }, true],
];

describe("departures of mingo from MongoDB", () => {
  test.each(departures)("%s: %j %j", (_, doc, query, isFound) => {
    run(numbered([doc]), (collection) => expect(collection.find("_id", query)).toEqual(isFound ? ["0"] : []));
    expect(found(numbered([doc]), query), "mingo has changed: take it off the list").toEqual(isFound ? [] : ["0"]);
  });
});
