/**
 * Listings of keys against a list in memory: bounds, both directions, pages, values; and batches against single calls.
 */
import fc from "fast-check";
import { afterEach, beforeEach, expect, test } from "vitest";
import { kvDeleteMany, kvGetMany, kvPutMany } from "../../../../src/model/kv/kv-batches.ts";
import { kvList } from "../../../../src/model/kv/kv-list.ts";
import { kvPut } from "../../../../src/model/kv/kv.ts";
import { ModelDatabase } from "../../../support/model-database.ts";

let database: ModelDatabase;

beforeEach(() => {
  database = new ModelDatabase();
});

afterEach(() => database.close());

const encoder = new TextEncoder();
// The letters whose order in UTF-8 is not that in UTF-16 are among them, and the last code points of their ranges.
const letter = fc.constantFrom("a", "b", "\ud7ff", "\ue000", "\uffff", "😀", "\u{10ffff}");
const key = fc.string({ unit: letter, minLength: 1, maxLength: 3 });
const bound = fc.option(fc.string({ unit: letter, maxLength: 2 }), { nil: undefined });

test("a listing gives what a list in memory gives, in both directions, whatever the bounds and the pages", () => {
  fc.assert(
    fc.property(
      fc.uniqueArray(key, { maxLength: 25 }),
      fc.record({ prefix: bound, start: bound, end: bound }),
      fc.constantFrom("asc", "desc"),
      fc.integer({ min: 1, max: 7 }),
      fc.constantFrom(undefined, "details", "values"),
      (keys, { prefix, start, end }, order, limit, include) => {
        database.write((tx) => tx.connection.exec("DELETE FROM __service_kv"));
        for (const one of keys) database.write((tx) => kvPut(tx, { ns: "n", key: one, value: encoder.encode(one) }));
        const compare = (a: string, b: string): number => Buffer.compare(Buffer.from(a), Buffer.from(b));
        const expected = keys
          .filter((one) => one.startsWith(prefix ?? ""))
          .filter((one) => start === undefined || compare(one, start) >= 0)
          .filter((one) => end === undefined || compare(one, end) < 0)
          .toSorted(compare);
        if (order === "desc") expected.reverse();
        const found: string[] = [];
        let cursor: string | undefined;
        do {
          const given = Object.fromEntries(
            Object.entries({ prefix, start, end, cursor, include }).filter(([, value]) => value !== undefined),
          );
          const page = kvList(database.view(), { ns: "n", order, limit, ...given });
          found.push(...page.keys);
          expect(page.entries?.map((entry) => entry.key)).toEqual(include && page.keys);
          for (const entry of page.entries ?? [])
            expect(entry.value && Buffer.from(entry.value).toString()).toEqual(
              include === "values" ? entry.key : undefined,
            );
          cursor = page.nextCursor;
        } while (cursor !== undefined);
        expect(found).toEqual(expected);
      },
    ),
    { numRuns: 300 },
  );
});

test("a batch leaves what single puts and deletes leave, and nothing where one item is refused", () => {
  const write = fc.record({
    key: fc.constantFrom("a", "b", "c"),
    value: fc.constantFrom("1", "2"),
    isPut: fc.boolean(),
  });
  const dump = (): unknown => database.connection.all("SELECT ns, key, value FROM __service_kv ORDER BY ns, key");
  fc.assert(
    fc.property(fc.array(fc.uniqueArray(write, { selector: ({ key: of }) => of, minLength: 1 })), (batches) => {
      database.write((tx) => tx.connection.exec("DELETE FROM __service_kv"));
      const expected = new Map<string, string>();
      for (const batch of batches) {
        const puts = batch.filter(({ isPut }) => isPut).map(({ key: of, value }) => ({ key: of, value }));
        const deletes = batch.filter(({ isPut }) => !isPut).map(({ key: of }) => ({ key: of }));
        for (const put of puts) expected.set(put.key, put.value);
        if (puts.length > 0)
          database.write((tx) =>
            kvPutMany(tx, { ns: "n", items: puts.map((put) => ({ ...put, value: encoder.encode(put.value) })) }),
          );
        const there = deletes.filter(({ key: of }) => expected.delete(of)).length;
        if (deletes.length > 0)
          expect(database.write((tx) => kvDeleteMany(tx, { ns: "n", items: deletes }))).toEqual({ deleted: there });
        const { entries, remaining } = kvGetMany(database.view(), { ns: "n", keys: ["c", "b", "a"] });
        expect(Object.fromEntries(entries.map((entry) => [entry.key, Buffer.from(entry.value!).toString()]))).toEqual(
          Object.fromEntries(expected),
        );
        expect(remaining).toEqual([]);
        const before = dump();
        expect(() =>
          database.write((tx) =>
            kvPutMany(tx, {
              ns: "n",
              items: [
                { key: "d", value: encoder.encode("x") },
                { key: "e", value: encoder.encode("x"), ifMatch: "*" },
              ],
            }),
          ),
        ).toThrow("under items[1].key");
        expect(dump()).toEqual(before);
      }
    }),
    { numRuns: 50 },
  );
});
