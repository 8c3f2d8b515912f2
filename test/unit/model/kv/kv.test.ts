/** Keys and values: any bytes as they were put, expiry to the instant, and lists by prefix in pages. */
import fc from "fast-check";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { limits } from "../../../../src/base/limits.ts";
import { kvList } from "../../../../src/model/kv/kv-list.ts";
import { kvDelete, kvGet, kvPut, kvSweep } from "../../../../src/model/kv/kv.ts";
import { ModelDatabase } from "../../../support/model-database.ts";

let database: ModelDatabase;

beforeEach(() => {
  database = new ModelDatabase();
});

afterEach(() => database.close());

const bytes = (text: string): Uint8Array => new TextEncoder().encode(text);
const put = (key: string, value = "v", ttlSecs?: number, ns = "ns") =>
  database.write((tx) => kvPut(tx, { ns, key, value: bytes(value), ...(ttlSecs === undefined ? {} : { ttlSecs }) }));
const get = (key: string, ns = "ns") => kvGet(database.view(), { ns, key })?.value;
const list = (input: { prefix?: string; limit?: number; cursor?: string } = {}) =>
  kvList(database.view(), { ns: "ns", ...input });

/** Every key of the listing, page by page. */
function listAll(prefix: string, limit: number): string[] {
  const keys: string[] = [];
  let cursor: string | undefined;
  do {
    const page = list({ prefix, limit, ...(cursor === undefined ? {} : { cursor }) });
    expect(page.keys.length).toBeLessThanOrEqual(limit);
    keys.push(...page.keys);
    cursor = page.nextCursor;
  } while (cursor !== undefined);
  return keys;
}

describe("values", () => {
  test("core-07, core-15: any bytes come back as they were put", () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 5000 }), (value) => {
        database.write((tx) => kvPut(tx, { ns: "ns", key: "k", value }));
        expect(Buffer.from(get("k")!)).toEqual(Buffer.from(value));
      }),
      { numRuns: 50 },
    );
    put("json", '{"a": 1}');
    expect(Buffer.from(get("json")!).toString()).toBe('{"a": 1}');
  });

  test("a put replaces value and lifetime; namespaces that differ only in case or punctuation stay apart", () => {
    put("k", "old", 10);
    put("k", "new");
    put("k", "other", undefined, "NS");
    put("k", "dash", undefined, "a-b");
    put("k", "line", undefined, "a_b");
    database.nowMs += 3_600_000;
    expect(Buffer.from(get("k")!).toString()).toBe("new");
    expect(Buffer.from(get("k", "NS")!).toString()).toBe("other");
    expect(Buffer.from(get("k", "a-b")!).toString()).toBe("dash");
    expect(Buffer.from(get("k", "a_b")!).toString()).toBe("line");
  });

  test("the same value again changes nothing", () => {
    put("k", "v");
    expect(database.group((tx) => kvPut(tx, { ns: "ns", key: "k", value: bytes("v") }))[0]).toMatchObject({
      changed: false,
    });
    expect(database.group((tx) => kvPut(tx, { ns: "ns", key: "k", value: bytes("w") }))[0]).toMatchObject({
      changed: true,
    });
    expect(database.group((tx) => kvPut(tx, { ns: "ns", key: "k", value: bytes("w"), ttlSecs: 5 }))[0]).toMatchObject({
      changed: true,
    });
  });

  test("core-10: a deleted key is gone, and deleting what is not there changes nothing", () => {
    put("k");
    expect(database.write((tx) => kvDelete(tx, { ns: "ns", key: "k" }))).toEqual({ deleted: true });
    expect(get("k")).toBeUndefined();
    expect(database.group((tx) => kvDelete(tx, { ns: "ns", key: "k" }))[0]).toMatchObject({
      result: { deleted: false },
      changed: false,
    });
  });
});

describe("expiry", () => {
  test("core-09: ttl 0 is absent at once", () => {
    put("k", "v", 0);
    expect(get("k")).toBeUndefined();
    expect(list().keys).toEqual([]);
  });

  test("a key is there until the instant it expires, and a read removes nothing", () => {
    put("k", "v", 2);
    database.nowMs += 1999;
    expect(get("k")).toBeDefined();
    database.nowMs += 1;
    expect(get("k")).toBeUndefined();
    expect(list().keys).toEqual([]);
    expect(database.connection.get<{ n: number }>("SELECT count(*) AS n FROM __service_kv")!.n).toBe(1);
  });

  test("a sweep removes expired rows only, at most as many as allowed, by an index", () => {
    for (let at = 0; at < 10; at++) put(`dead-${at}`, "v", at % 3);
    put("alive", "v", 1000);
    put("forever");
    database.nowMs += 2000;
    const sweep = () => database.write((tx) => kvSweep(tx, { rowsMax: 6 })).removed;
    expect([sweep(), sweep(), sweep()]).toEqual([6, 4, 0]);
    expect(list().keys).toEqual(["alive", "forever"]);
    const plan = database.connection.all<{ detail: string }>(
      "EXPLAIN QUERY PLAN SELECT row FROM __service_kv WHERE expires_at IS NOT NULL AND expires_at <= 5 ORDER " +
        "BY expires_at, row LIMIT 5",
    );
    expect(plan.map((step) => step.detail).join()).toContain("__service_kv_expiry");
  });
});

describe("listing", () => {
  // Characters around every edge of the encodings, and those that LIKE and GLOB would read as patterns.
  const character = fc.constantFrom(
    "a",
    "b",
    "B",
    "%",
    "_",
    "*",
    "[",
    "\\",
    "\u0000",
    "\u007f",
    "\u0080",
    "é",
    "\u07ff",
    "\u0800",
    "\ud7ff",
    "\ue000",
    "\uffff",
    "\u{10000}",
    "😀",
    "\u{10ffff}",
  );
  const text = (minLength: number) =>
    fc.array(character, { minLength, maxLength: 4 }).map((characters) => characters.join(""));

  test("core-08: exactly the keys with the prefix, in bytewise order, on any page size", () => {
    fc.assert(
      fc.property(
        fc.uniqueArray(text(1), { maxLength: 30 }),
        text(0),
        fc.integer({ min: 1, max: 7 }),
        (keys, prefix, limit) => {
          database.connection.exec("DELETE FROM __service_kv");
          for (const key of keys) put(key);
          put("a", "v", undefined, "other");
          const expected = keys
            .filter((key) => key.startsWith(prefix))
            .sort((left, right) => Buffer.compare(Buffer.from(left), Buffer.from(right)));
          expect(listAll(prefix, limit)).toEqual(expected);
        },
      ),
      { numRuns: 150 },
    );
  });

  test("core-08: the end of a prefix is right at the edges of the code space", () => {
    for (const key of [
      "\ud7ff",
      "\ud7ffz",
      "\ue000",
      "\uffff",
      "\u{10ffff}",
      "\u{10ffff}a",
      "a\u{10ffff}",
      "a\u{10ffff}\u{10ffff}b",
      "b",
    ])
      put(key);
    expect(list({ prefix: "\ud7ff" }).keys).toEqual(["\ud7ff", "\ud7ffz"]);
    expect(list({ prefix: "\uffff" }).keys).toEqual(["\uffff"]);
    expect(list({ prefix: "\u{10ffff}" }).keys).toEqual(["\u{10ffff}", "\u{10ffff}a"]);
    expect(list({ prefix: "a\u{10ffff}" }).keys).toEqual(["a\u{10ffff}", "a\u{10ffff}\u{10ffff}b"]);
  });

  test("a page that ends with the last key has no cursor; limits above the most allowed are cut", () => {
    for (const key of ["a", "b", "c"]) put(key);
    expect(list({ limit: 3 })).toEqual({ keys: ["a", "b", "c"] });
    expect(list({ limit: 2 }).nextCursor).toBeDefined();
    expect(list({ limit: 10_000_000 }).keys).toHaveLength(3);
  });

  test("a page after the first enters the index at its cursor", () => {
    const plan = database.connection.all<{ detail: string }>(
      "EXPLAIN QUERY PLAN SELECT key FROM __service_kv WHERE ns = ? AND key > ? AND key < ? AND (expires_at " +
        "IS NULL OR expires_at > ?) ORDER BY key LIMIT ?",
      "ns",
      "a",
      "b",
      0,
      1,
    );
    expect(plan.map((step) => step.detail).join()).toMatch(/ns=\? AND key>\? AND key<\?/);
  });
});

describe("bad input", () => {
  test.each([
    ["empty namespace", { ns: "", key: "k" }, /^ns must/],
    ["namespace with a slash", { ns: "a/b", key: "k" }, /^ns must/],
    ["empty key", { ns: "ns", key: "" }, /^key must/],
    ["key too long in bytes", { ns: "ns", key: "é".repeat(257) }, /^key must be 1 to 512 bytes/],
    ["key with a lone surrogate", { ns: "ns", key: "\ud800" }, /^key must/],
  ])("%s", (_, key, message) => {
    expect(() => database.write((tx) => kvPut(tx, { ...key, value: bytes("v") }))).toThrow(message);
    expect(() => kvGet(database.view(), key)).toThrow(message);
    expect(() => database.write((tx) => kvDelete(tx, key))).toThrow(message);
  });

  test.each([-1, 0.5, Number.NaN, limits.ttlSecsMax + 1])("ttl %d", (ttlSecs) => {
    expect(() => put("k", "v", ttlSecs)).toThrow(/^ttl must be a whole number of seconds/);
  });

  test("limit, prefix and cursor", () => {
    expect(() => list({ limit: 0 })).toThrow(/^limit must/);
    expect(() => list({ limit: 1.5 })).toThrow(/^limit must/);
    expect(() => list({ prefix: "\udfff" })).toThrow(/^prefix must/);
    expect(() => list({ prefix: "x".repeat(513) })).toThrow(/^prefix must/);
    for (const cursor of ["not base64!", "gA", Buffer.from("b").toString("base64url")]) {
      expect(() => list({ prefix: "a", cursor })).toThrow(/^cursor must/);
    }
  });
});
