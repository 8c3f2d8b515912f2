/** A page without what SQLite has forgotten: every row stays, every deleted word goes, whatever the page was. */
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { AssertionFault } from "../../../../src/base/faults/assert.ts";
import { limits } from "../../../../src/base/limits.ts";
import { makeCanonical, pageBytes } from "../../../../src/format/history/pages.ts";
import { Connection } from "../../../../src/sqlite/connection/connection.ts";
import { seeded } from "../../../support/random.ts";
import { temporaryDirectory } from "../../../support/temporary.ts";

const open = (path: string): Connection => new Connection(path, { readonly: false, pageCacheKiB: limits.pageCacheKiB });
const tables = ["keyed", "counted", "indexed"] as const;

/** Everything that a database says about its rows. */
function readContent(path: string): unknown {
  const connection = open(path);
  const rows = tables.map((table) => connection.all(`SELECT * FROM ${table} ORDER BY 1`));
  const found = connection.all("SELECT rowid FROM texts WHERE texts MATCH 'w3' ORDER BY rowid");
  const integrity = connection.raw.pragma("integrity_check");
  connection.exec("INSERT INTO texts (texts) VALUES ('integrity-check')");
  connection.close();
  return { rows, found, integrity };
}

/** A database after much churn, and a token of every row that was deleted from it. */
function churned(path: string, seed: number): string[] {
  const random = seeded(seed);
  const word = () =>
    Math.floor(random() * 2 ** 32)
      .toString(36)
      .padStart(7, "0") +
    Math.floor(random() * 2 ** 32)
      .toString(36)
      .padStart(7, "0");
  const connection = open(path);
  connection.exec(
    "CREATE TABLE keyed (id TEXT PRIMARY KEY, body TEXT, k TEXT) WITHOUT ROWID; CREATE INDEX keyed_k ON keyed (k);" +
      "CREATE TABLE counted (id INTEGER PRIMARY KEY, body BLOB);" +
      "CREATE TABLE indexed (a TEXT, b REAL, c TEXT); CREATE INDEX indexed_a ON indexed (a, b); CREATE UNIQUE " +
      "INDEX indexed_c ON indexed (c);" +
      "CREATE VIRTUAL TABLE texts USING fts5 (body); INSERT INTO texts (texts, rank) VALUES ('secure-delete', 1)",
  );
  const rows: { readonly id: string; readonly token: string; readonly number: number }[] = [];
  const gone: string[] = [];
  for (let number = 1; number <= 4_000; number++) {
    if (number % 200 === 1) connection.exec("BEGIN");
    const token = `secret${word()}`;
    const id = word() + token;
    rows.push({ id, token, number });
    connection.run(
      "INSERT INTO keyed VALUES (?, ?, ?)",
      id,
      `${token} ${"p".repeat(10 + ((number * 37) % 300))}`,
      word() + token,
    );
    connection.run(
      "INSERT INTO counted VALUES (?, ?)",
      BigInt(number),
      number % 40 === 0 ? `${token}${"o".repeat(Math.floor(random() * 20_000))}` : token,
    );
    connection.run("INSERT INTO indexed VALUES (?, ?, ?)", token, random(), id);
    connection.run("INSERT INTO texts (rowid, body) VALUES (?, ?)", BigInt(number), `${token} w${number % 9}`);
    if (number % 3 === 0) {
      const row = rows[Math.floor(random() * rows.length)]!;
      connection.run(
        "UPDATE keyed SET body = ? WHERE id = ?",
        `${row.token}${"q".repeat(Math.floor(random() * 600))}`,
        row.id,
      );
    }
    if (number % 7 === 0) {
      const [{ id: lost, token: secret, number: of }] = rows.splice(Math.floor(random() * rows.length), 1) as [
        (typeof rows)[number],
      ];
      connection.run("DELETE FROM keyed WHERE id = ?", lost);
      connection.run("DELETE FROM counted WHERE id = ?", BigInt(of));
      connection.run("DELETE FROM indexed WHERE c = ?", lost);
      connection.run("DELETE FROM texts WHERE rowid = ?", BigInt(of));
      gone.push(secret);
    }
    if (number % 200 === 0) connection.exec("COMMIT");
  }
  connection.raw.pragma("wal_checkpoint(TRUNCATE)");
  connection.close();
  return gone;
}

function canonical(file: Buffer): Buffer {
  const bytes = Buffer.from(file);
  for (let at = 0; at < bytes.length; at += pageBytes)
    makeCanonical(bytes.subarray(at, at + pageBytes), at / pageBytes + 1);
  return bytes;
}

/** How many pages of a file have this type. */
const countPagesOfKind = (file: Buffer, type: number): number =>
  Array.from({ length: file.length / pageBytes }, (_, page) => file[page * pageBytes + (page === 0 ? 100 : 0)]!).filter(
    (one) => one === type,
  ).length;

describe("a database with every kind of page", () => {
  test.each([5, 9])("keeps every row and loses every deleted word (seed %i)", (seed) => {
    const directory = temporaryDirectory();
    const [original, copy] = [join(directory, "a.db"), join(directory, "b.db")];
    const gone = churned(original, seed);
    const file = readFileSync(original);
    for (const type of [0, 2, 5, 10, 13])
      expect(countPagesOfKind(file, type), `pages of type ${type}`).toBeGreaterThan(0);
    const clean = canonical(file);
    writeFileSync(copy, clean);
    const content = readContent(copy);
    expect(content).toMatchObject({ integrity: [{ integrity_check: "ok" }] });
    expect(content).toEqual(readContent(original));
    expect(gone.filter((token) => clean.includes(token))).toEqual([]);
    expect(Buffer.compare(canonical(clean), clean)).toBe(0);
  });

  test("loses what nothing but its pages forgot: deleted rows of a database without secure_delete", () => {
    const path = join(temporaryDirectory(), "a.db");
    const connection = open(path);
    connection.raw.pragma("secure_delete = 0");
    connection.exec(
      "CREATE TABLE t (id TEXT PRIMARY KEY, body TEXT) WITHOUT ROWID; CREATE INDEX t_body ON t (body); CREATE " +
        "TABLE u (id INTEGER PRIMARY KEY, body TEXT)",
    );
    const random = seeded(4);
    const tokens = Array.from(
      { length: 3_000 },
      (_, index) =>
        `secret${String(index).padStart(5, "0")}${Math.floor(random() * 2 ** 32)
          .toString(36)
          .padStart(7, "0")}`,
    );
    connection.exec("BEGIN");
    for (const [index, token] of tokens.entries()) {
      connection.run("INSERT INTO t VALUES (?, ?)", `${random()}`, token);
      connection.run("INSERT INTO u VALUES (?, ?)", BigInt(index), token);
    }
    connection.exec("COMMIT");
    // A third of the rows and none of the last page: no page becomes so empty that it is freed, as secure_delete is
    // what wipes those.
    const gone = tokens.filter((_, index) => index % 3 === 0 && index < 2_700);
    for (const token of gone)
      for (const table of ["t", "u"]) connection.run(`DELETE FROM ${table} WHERE body = ?`, token);
    expect(connection.raw.pragma("freelist_count", { simple: true })).toBe(0);
    connection.raw.pragma("wal_checkpoint(TRUNCATE)");
    connection.close();
    const file = readFileSync(path);
    const left = (bytes: Buffer): number => gone.filter((token) => bytes.includes(token)).length;
    expect(left(file)).toBeGreaterThan(gone.length / 2);
    expect(left(canonical(file))).toBe(0);
  });

  test("goes on being written after its pages were made canonical", () => {
    const directory = temporaryDirectory();
    const path = join(directory, "a.db");
    churned(path, 3);
    writeFileSync(path, canonical(readFileSync(path)));
    const connection = open(path);
    connection.exec(
      "UPDATE keyed SET body = body || 'longer'; DELETE FROM indexed WHERE b < 0.5; INSERT INTO counted " +
        "(body) SELECT body FROM keyed; UPDATE texts SET body = body || ' w3'",
    );
    expect(connection.raw.pragma("integrity_check", { simple: true })).toBe("ok");
    connection.exec("INSERT INTO texts (texts) VALUES ('integrity-check')");
    connection.close();
  });
});

/** A page of the byte 0xff with the header of a b-tree at `start`. */
function pageWith(given: {
  start?: number;
  type?: number;
  freeblock?: number;
  cells?: number;
  content?: number;
  blocks?: readonly [at: number, next: number, size: number][];
}): Uint8Array {
  const page = Buffer.alloc(pageBytes, 0xff);
  const start = given.start ?? 0;
  page[start] = given.type ?? 13;
  page.writeUInt16BE(given.freeblock ?? 0, start + 1);
  page.writeUInt16BE(given.cells ?? 3, start + 3);
  page.writeUInt16BE(given.content ?? 1000, start + 5);
  for (const [at, next, size] of given.blocks ?? []) {
    page.writeUInt16BE(next, at);
    page.writeUInt16BE(size, at + 2);
  }
  return new Uint8Array(page);
}

/** The stretches that became zero. */
function zeroed(page: Uint8Array, pageNumber: number): [from: number, to: number][] {
  const after = page.slice();
  makeCanonical(after, pageNumber);
  const stretches: [number, number][] = [];
  for (const at of page.keys()) {
    if (after[at] === page[at]) continue;
    expect(after[at]).toBe(0);
    const last = stretches.at(-1);
    if (last?.[1] === at) last[1]++;
    else stretches.push([at, at + 1]);
  }
  return stretches;
}

test.each([
  [2, 12],
  [5, 12],
  [10, 8],
  [13, 8],
])("a page of type %i: the gap between its pointers and its cells", (type, header) => {
  expect(zeroed(pageWith({ type }), 2)).toEqual([[header + 6, 1000]]);
  expect(zeroed(pageWith({ type, start: 100 }), 1)).toEqual([[100 + header + 6, 1000]]);
});

test("the bodies of freeblocks go, their headers stay", () => {
  const page = pageWith({
    freeblock: 1200,
    blocks: [
      [1200, 1204, 4],
      [1204, 4000, 20],
      [4000, 0, 96],
    ],
  });
  expect(zeroed(page, 2)).toEqual([
    [14, 1000],
    [1208, 1224],
    [4004, 4096],
  ]);
});

test("no gap and no freeblock: nothing to do", () => {
  expect(zeroed(pageWith({ cells: 496, content: 1000 }), 2)).toEqual([]);
  expect(zeroed(pageWith({ cells: 0, content: 4096 }), 2)).toEqual([[8, 4096]]);
});

test.each<[string, Parameters<typeof pageWith>[0]]>([
  ["an overflow or freelist page", { type: 0 }],
  ["another of a database above 2^24 pages", { type: 1 }],
  ["a type that is none", { type: 14 }],
  ["pointers that reach into the cells", { cells: 497 }],
  ["cells beyond the page", { content: 4097 }],
  ["cells at 65536", { content: 0 }],
  ["a freeblock before the cells", { freeblock: 996, blocks: [[996, 0, 8]] }],
  ["a freeblock of 3 bytes", { freeblock: 1200, blocks: [[1200, 0, 3]] }],
  ["a freeblock beyond the page", { freeblock: 4090, blocks: [[4090, 0, 7]] }],
  ["a freeblock whose header is beyond the page", { freeblock: 4094 }],
  [
    "a chain that goes back",
    {
      freeblock: 1300,
      blocks: [
        [1300, 1200, 8],
        [1200, 0, 8],
      ],
    },
  ],
  ["a chain in a circle", { freeblock: 1200, blocks: [[1200, 1200, 8]] }],
  [
    "freeblocks that overlap",
    {
      freeblock: 1200,
      blocks: [
        [1200, 1204, 8],
        [1204, 0, 8],
      ],
    },
  ],
])("%s stays as it is", (_name, given) => {
  expect(zeroed(pageWith(given), 2)).toEqual([]);
});

test("any bytes at all end, stay outside zeroed places, and are canonical afterwards", () => {
  const bytes = fc.uint8Array({ minLength: pageBytes, maxLength: pageBytes });
  fc.assert(
    fc.property(
      bytes,
      fc.constantFrom(2, 5, 10, 13),
      fc.nat(600),
      fc.nat(4200),
      fc.nat(4200),
      fc.boolean(),
      (page, type, cells, content, freeblock, isFirst) => {
        const start = isFirst ? 100 : 0;
        page.set(
          [type, freeblock >> 8, freeblock & 0xff, cells >> 8, cells & 0xff, content >> 8, content & 0xff],
          start,
        );
        const pageNumber = isFirst ? 1 : 9;
        const once = page.slice();
        zeroed(page, pageNumber);
        makeCanonical(once, pageNumber);
        expect(zeroed(once, pageNumber)).toEqual([]);
        expect(once.subarray(0, start + 8)).toEqual(page.subarray(0, start + 8));
      },
    ),
    { numRuns: 50 },
  );
});

test("half a page is a bug", () => {
  expect(() => makeCanonical(new Uint8Array(2048), 2)).toThrow(AssertionFault);
});
