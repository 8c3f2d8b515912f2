/** Files: conditions, folders, versions, moves, words and what is left after a purge. */
import { hash } from "node:crypto";
import { readFileSync } from "node:fs";
import { afterEach, beforeEach, expect, test } from "vitest";
import { deleteFiles, moveFiles } from "../../../../src/model/files/file-moves.ts";
import {
  editFile,
  getFile,
  listFiles,
  listFileVersions,
  putFile,
  searchFiles,
  type WrittenFile,
} from "../../../../src/model/files/files.ts";
import { fileVersionsBytesMax, fileVersionsMax, strayFiles } from "../../../../src/model/files/file-store.ts";
import type { Tx } from "../../../../src/model/core/transaction.ts";
import type { Expected } from "../../../../src/model/core/expected.ts";
import { ModelDatabase } from "../../../support/model-database.ts";

let database: ModelDatabase;

beforeEach(() => {
  database = new ModelDatabase();
});

afterEach(() => {
  const stray = strayFiles(database.connection);
  if (stray !== undefined) expect(database.connection.get(stray)).toBeUndefined();
  database.close();
});

const put = (path: string, text: string, expected: Expected = {}): WrittenFile =>
  database.write((tx) => putFile(tx, { path, text, ...expected }));
const get = (path: string, version?: number): string =>
  getFile(database.view(), { path, ...(version === undefined ? {} : { version }) }).text;
const list = (folder = "", recursive = false): string[] =>
  listFiles(database.view(), { folder, recursive, limit: 1_000 }).entries.map(({ path, kind }) =>
    kind === "folder" ? `${path}/` : path,
  );
const versions = (path: string) => listFileVersions(database.view(), { path }).versions;
const remove = (path: string, options: { recursive?: boolean; purge?: boolean; ifMatch?: string } = {}) =>
  database.write((tx) => deleteFiles(tx, { path, recursive: false, purge: false, ...options }));
const move = (path: string, to: string, overwrite = false) =>
  database.write((tx) => moveFiles(tx, { path, to, overwrite }));
const search = (query: string, folder = "") => searchFiles(database.view(), { query, folder, k: 10 }).hits;

test("a database without files answers, and gets no table by being asked", () => {
  expect([list(), versions("a"), search("x")]).toEqual([[], [], []]);
  expect(() => get("a")).toThrow("there is no file at the path");
  expect(remove("a", { purge: true })).toEqual({ deleted: 0, purgedVersions: 0 });
  expect(database.connection.hasTable("__service_file")).toBe(false);
});

test("a text is kept under its hash and the next number; the same again changes nothing", () => {
  expect(put("notes/a.md", "é\n")).toEqual({
    path: "notes/a.md",
    version: 1,
    hash: hash("sha256", "é\n"),
    size: 3,
    created: true,
  });
  const outcome = database.group((tx) => putFile(tx, { path: "notes/a.md", text: "é\n" }))[0]!;
  expect(outcome).toMatchObject({ kind: "done", changed: false, result: { version: 1, created: false } });
  expect(put("notes/a.md", "two").version).toBe(2);
  expect([get("notes/a.md"), get("notes/a.md", 1)]).toEqual(["two", "é\n"]);
  expect(() => get("notes/a.md", 3)).toThrow("version 3 of the path is not kept; kept are 1 to 2");
});

test("both spellings of a name are one file", () => {
  put("cafe\u0301.md", "one");
  expect(get("caf\u00e9.md")).toBe("one");
  expect(list()).toEqual(["caf\u00e9.md"]);
});

test.each([
  ["", "1 to 1024 bytes"],
  ["/a", "without a slash"],
  ["a/", "without a slash"],
  ["a//b", "empty part"],
  ["a/./b", "empty part"],
  ["a/../b", "empty part"],
  ["a\u0000b", "control characters"],
  ["a\nb", "control characters"],
  ["a\ud800", "valid UTF-8"],
  ["é".repeat(600), "1024 bytes"],
  ["é".repeat(128), "parts of at most 255 bytes"],
  [Array(33).fill("a").join("/"), "at most 32 parts"],
])("the path %j is refused", (path, message) => {
  expect(() => put(path, "x")).toThrow(message);
  expect(() => get(path)).toThrow(message);
});

test("a text of more than 1 MiB, or with U+0000, is refused", () => {
  expect(() => put("a", "x".repeat(1024 * 1024 + 1))).toThrow("text must be at most 1048576 bytes");
  expect(() => put("a", "\0")).toThrow("without U+0000");
  expect(put("a", "x".repeat(1024 * 1024)).size).toBe(1024 * 1024);
});

test("a condition that does not hold is refused with 412, and changes nothing", () => {
  const refused = { code: "conflict", detail: { httpStatus: 412 } };
  const thrown = (act: () => unknown): unknown => {
    try {
      return act();
    } catch (error) {
      return error;
    }
  };
  expect(thrown(() => put("a", "x", { ifMatch: "*" }))).toMatchObject(refused);
  const { hash: first } = put("a", "one", { ifAbsent: true });
  expect(thrown(() => put("a", "x", { ifAbsent: true }))).toMatchObject(refused);
  put("a", "two", { ifMatch: first });
  expect(thrown(() => put("a", "x", { ifMatch: first }))).toMatchObject(refused);
  expect(thrown(() => remove("a", { ifMatch: first }))).toMatchObject(refused);
  const edits = [{ oldText: "two", text: "x" }];
  expect(thrown(() => database.write((tx) => editFile(tx, { path: "a", edits, ifMatch: first })))).toMatchObject(
    refused,
  );
  expect(get("a")).toBe("two");
  expect(() => put("a", "x", { ifMatch: "two" })).toThrow("if_match must be the hash");
});

test("an edit of several changes is one version, or none", () => {
  put("a", "1\n2\n");
  const edit = (...edits: { oldText: string; text: string }[]) =>
    database.write((tx) => editFile(tx, { path: "a", edits }));
  expect(() => edit({ oldText: "1", text: "one" }, { oldText: "absent", text: "" })).toThrow("edits[1].old_text");
  expect(get("a")).toBe("1\n2\n");
  expect(edit({ oldText: "1", text: "one" }, { oldText: "2", text: "two" })).toMatchObject({ version: 2 });
  expect(get("a")).toBe("one\ntwo\n");
});

test("some lines of a file are given with the number of all", () => {
  put("a", "1\n2\n3");
  const lines = (firstLine: number, lastLine: number) => getFile(database.view(), { path: "a", firstLine, lastLine });
  expect(lines(2, 2)).toMatchObject({ text: "2\n", lines: 3, size: 5 });
  expect(lines(2, 9).text).toBe("2\n3");
  expect(() => lines(2, 1)).toThrow("last_line not before it");
});

test("nothing is both a file and a folder", () => {
  put("a/b", "x");
  expect(() => put("a", "x")).toThrow("there is a folder at the path");
  expect(() => put("a/b/c", "x")).toThrow("a part of the path before its last is a file");
  put("c", "x");
  expect(() => move("c", "a/b/c")).toThrow("a part of the path before its last is a file");
  expect(() => move("c", "a", true)).toThrow("there is a folder at the path");
  expect(() => move("a", "a/b/c")).toThrow("nor lie within it or around it");
  expect(list("", true)).toEqual(["a/b", "c"]);
});

test("a level lists files and folders, all of it lists files, both page by page", () => {
  for (const path of ["b/x", "b/y/z", "a.md", "b.md", "b-c/d", "c"]) put(path, path);
  expect(list()).toEqual(["a.md", "b-c/", "b.md", "b/", "c"]);
  expect(list("b")).toEqual(["b/x", "b/y/"]);
  expect(list("b", true)).toEqual(["b/x", "b/y/z"]);
  expect(list("none")).toEqual([]);
  for (const recursive of [false, true]) {
    const paged: string[] = [];
    for (let cursor: string | undefined; ;) {
      const page = listFiles(database.view(), { folder: "", recursive, limit: 1, ...(cursor ? { cursor } : {}) });
      paged.push(...page.entries.map(({ path, kind }) => (kind === "folder" ? `${path}/` : path)));
      cursor = page.nextCursor;
      if (!cursor) break;
    }
    expect(paged).toEqual(list("", recursive));
  }
  expect(() => listFiles(database.view(), { folder: "b", recursive: false, limit: 1, cursor: "YQ" })).toThrow("cursor");
});

test("a move takes the text along, leaves the versions, and says in both places where", () => {
  put("a/x", "one");
  put("a/x", "two");
  put("a/y/z", "three");
  database.txid = 7;
  expect(move("a", "b/a")).toEqual({ moved: 2 });
  expect(list("", true)).toEqual(["b/a/x", "b/a/y/z"]);
  expect(versions("a/x").map(({ change, otherPath }) => [change, otherPath])).toEqual([
    ["moved_away", "b/a/x"],
    ["written", undefined],
    ["written", undefined],
  ]);
  expect(versions("b/a/x")).toMatchObject([{ version: 1, change: "moved_here", otherPath: "a/x", writtenTxid: 7 }]);
  expect([get("b/a/x"), get("a/x", 1)]).toEqual(["two", "one"]);
  expect(() => get("a/x", 3)).toThrow("version 3 has no text");
  put("c", "old");
  expect(() => move("b/a/x", "c")).toThrow("there is a file where one is to be moved");
  move("b/a/x", "c", true);
  expect([get("c"), get("c", 1)]).toEqual(["two", "old"]);
  expect(() => move("absent", "d")).toThrow("there is no file at the path");
});

test("a move is refused as a whole where one of its files cannot go", () => {
  put("a/1", "x");
  put("a/2", "y");
  put("b/2", "in the way");
  expect(() => move("a", "b")).toThrow("there is a file where one is to be moved");
  expect(list("", true)).toEqual(["a/1", "a/2", "b/2"]);
});

test("a folder is deleted only when asked for, and its versions stay until they are purged", () => {
  put("a/1", "x");
  put("a/2", "y");
  expect(() => remove("a")).toThrow("recursive deletes it");
  expect(remove("a", { recursive: true })).toEqual({ deleted: 2, purgedVersions: 0 });
  expect(get("a/1", 1)).toBe("x");
  expect(versions("a/1")[0]).toMatchObject({ version: 2, change: "deleted" });
  expect(put("a/1", "back")).toMatchObject({ version: 3, created: true });
  expect(remove("a", { recursive: true, purge: true })).toEqual({ deleted: 1, purgedVersions: 5 });
  expect([versions("a/1"), versions("a/2"), list()]).toEqual([[], [], []]);
  expect(database.connection.get("SELECT count(*) AS n FROM __service_file_text")).toEqual({ n: 0 });
});

test("no more files than one call changes, and then none", () => {
  database.group(...Array.from({ length: 1_001 }, (_, n) => (tx: Tx) => putFile(tx, { path: `a/${n}`, text: "x" })));
  expect(() => move("a", "b")).toThrow("more than 1000 files");
  expect(() => remove("a", { recursive: true })).toThrow("more than 1000 files");
  remove("a/7", { purge: true });
  expect(move("a", "b")).toEqual({ moved: 1_000 });
  expect(() => remove("a", { recursive: true, purge: true })).not.toThrow();
});

test("the oldest versions go at the bounds of their number and of their bytes", () => {
  for (let n = 1; n <= fileVersionsMax + 5; n++) put("a", `text ${n}`);
  expect(versions("a").map(({ version }) => version)).toEqual(
    Array.from({ length: fileVersionsMax }, (_, at) => fileVersionsMax + 5 - at),
  );
  const large = 1024 * 1024 - 10;
  for (let n = 1; n <= 20; n++) put("b", `${n} ${"x".repeat(large)}`);
  expect(versions("b")).toHaveLength(1 + Math.floor(fileVersionsBytesMax / large));
});

test("words of text and path are found with their lines, within a folder, and only of what is there now", () => {
  put(
    "travel/tokyo.md",
    `# Plan\n${"and so on\n".repeat(20)}We stay at the Hotel Okura in Toranomon.\nThree nights.\n`,
  );
  put("work/plan.md", "The quarterly budget is due in March.\n");
  expect(search("where is the hotel okura?")[0]).toMatchObject({
    path: "travel/tokyo.md",
    passage: { firstLine: 22, lastLine: 22, text: "We stay at the Hotel Okura in Toranomon.\n" },
  });
  expect(search("hotel okura", "work")).toEqual([]);
  expect(search("tokyo")[0]).toMatchObject({ path: "travel/tokyo.md" });
  put("travel/tokyo.md", "We stay with friends.\n");
  expect(search("hotel okura")).toEqual([]);
  move("work", "office");
  expect(search("quarterly budget").map(({ path }) => path)).toEqual(["office/plan.md"]);
  remove("office/plan.md");
  expect(search("quarterly budget")).toEqual([]);
});

test.each([1, 2])("a purged file leaves nothing in the file of the database, of format %i", (format) => {
  const own = new ModelDatabase(undefined, format);
  own.connection.raw.pragma("secure_delete = 1");
  const secret = "xqzwvkjplmnt";
  own.write((tx) => putFile(tx, { path: "keep/a", text: "plain" }));
  for (const text of [`${secret} once`, `${secret} ${"long ".repeat(4_000)}`, "later"])
    own.write((tx) => putFile(tx, { path: `folder/${secret}`, text }));
  own.write((tx) => moveFiles(tx, { path: "folder", to: "other", overwrite: false }));
  own.connection.raw.pragma("wal_checkpoint(TRUNCATE)");
  expect(readFileSync(`${own.directory}/main.db`).includes(secret)).toBe(true);
  for (const path of ["folder", "other"]) own.write((tx) => deleteFiles(tx, { path, recursive: true, purge: true }));
  own.connection.raw.pragma("wal_checkpoint(TRUNCATE)");
  const bytes = readFileSync(`${own.directory}/main.db`);
  // What is freed within a page is zeroed by the engine's scrub (engine/database/scrub).
  for (const table of ["__service_file_version", "__service_file_text", "__service_file_words_content"])
    expect(
      JSON.stringify(own.connection.hasTable(table) ? own.connection.all(`SELECT * FROM ${table}`) : ""),
    ).not.toContain(secret);
  expect(bytes.includes("plain")).toBe(true);
  expect(bytes.includes(secret)).toBe(false);
  own.close();
});
