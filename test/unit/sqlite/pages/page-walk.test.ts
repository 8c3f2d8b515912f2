/**
 * Damage to a file is found by a walk over its pages, at least what SQLite's own quick_check finds, and a sound file is
 * let alone.
 */
import { copyFileSync, readFileSync, rmSync, statSync, truncateSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { StoreError } from "../../../../src/base/faults/errors.ts";
import { makeCanonical, pageBytes } from "../../../../src/format/history/pages.ts";
import { Connection } from "../../../../src/sqlite/connection/connection.ts";
import { checkFile } from "../../../../src/sqlite/soundness.ts";
import { seeded } from "../../../support/random.ts";
import { temporaryDirectory } from "../../../support/temporary.ts";

/** The file's trees of every kind, with long rows, large and negative rowids, free pages and holes. */
function makeFile(path: string, seed: number, rows: number): void {
  const random = seeded(seed);
  const upTo = (most: number): number => Math.floor(random() * most);
  const connection = new Connection(path, { readonly: false, pageCacheKiB: 8_192 });
  connection.exec(
    "CREATE TABLE t (k INTEGER PRIMARY KEY, v, w); CREATE INDEX t_v ON t (v, w); CREATE TABLE wide (id TEXT " +
      "PRIMARY KEY, body) WITHOUT ROWID; CREATE TABLE none (x)",
  );
  connection.exec(`CREATE TABLE many (${Array.from({ length: 300 }, (_, at) => `c${at}`).join(", ")}); BEGIN`);
  for (let row = 0; row < rows; row++) {
    const key = random() < 0.02 ? BigInt(upTo(2 ** 30)) * 2n ** 33n * (random() < 0.5 ? -1n : 1n) : BigInt(row);
    connection.run(
      "INSERT OR IGNORE INTO t VALUES (?, ?, ?)",
      key,
      "v".repeat(upTo(random() < 0.05 ? 9_000 : 120)),
      random(),
    );
    connection.run(
      "INSERT OR IGNORE INTO wide VALUES (?, zeroblob(?))",
      `${random()}${"i".repeat(upTo(random() < 0.05 ? 3_000 : 40))}`,
      BigInt(upTo(random() < 0.03 ? 20_000 : 60)),
    );
    if (row % 50 === 0) connection.run("INSERT INTO many (c0, c299) VALUES (?, ?)", row, "end");
  }
  connection.exec("COMMIT");
  connection.exec("DELETE FROM t WHERE k % 3 = 0 AND k > 100");
  connection.exec(
    "DELETE FROM t WHERE k BETWEEN 200 AND 400; UPDATE wide SET body = 'short' WHERE length(body) > 5000",
  );
  connection.raw.pragma("wal_checkpoint(TRUNCATE)");
  connection.close();
}

/** What the walk says of the file; undefined when it finds nothing. */
function found(path: string): string | undefined {
  try {
    for (const _turn of checkFile(path));
    return undefined;
  } catch (error) {
    if (
      !(error instanceof StoreError) &&
      !(error instanceof Error && /^SQLITE_(CORRUPT|NOTADB|ERROR)/.test((error as { code?: string }).code ?? ""))
    )
      throw error;
    return error.message;
  }
}

/** What quick_check says that is not of the values alone. */
function foundBySqlite(path: string): string | undefined {
  let connection: Connection | undefined;
  try {
    connection = new Connection(path, { readonly: true, pageCacheKiB: 8_192 });
    const lines = connection.raw.pragma("quick_check(1000)") as { quick_check: string }[];
    return lines.map((line) => line.quick_check).find((line) => line !== "ok" && !/PRIMARY KEY order/.test(line));
  } catch (error) {
    return (error as Error).message;
  } finally {
    connection?.close();
  }
}

function withoutCompanions(path: string): void {
  for (const suffix of ["-wal", "-shm"]) rmSync(path + suffix, { force: true });
}

/** Something happens to the bytes of a file. */
const damages: Readonly<Record<string, (bytes: Buffer, upTo: (most: number) => number) => void>> = {
  "a byte of a page's header": (bytes, upTo) =>
    void (bytes[upTo(bytes.length / pageBytes) * pageBytes + upTo(12)] = upTo(256)),
  "a byte of the cell pointers": (bytes, upTo) =>
    void (bytes[upTo(bytes.length / pageBytes) * pageBytes + 8 + upTo(60)] = upTo(256)),
  "a byte anywhere": (bytes, upTo) => void (bytes[upTo(bytes.length)] = upTo(256)),
  "sixteen bytes anywhere": (bytes, upTo) => {
    const at = upTo(bytes.length - 16);
    for (let byte = at; byte < at + 16; byte++) bytes[byte] = upTo(256);
  },
  "the database's header": (bytes, upTo) => void (bytes[24 + upTo(32)] = upTo(256)),
  "a page of zeroes": (bytes, upTo) => void bytes.fill(0, ...measurePage(bytes, upTo)),
  "a page of noise": (bytes, upTo) => {
    const [from, to] = measurePage(bytes, upTo);
    for (let at = from; at < to; at++) bytes[at] = upTo(256);
  },
  "a page that is another one": (bytes, upTo) => {
    const [from, to] = measurePage(bytes, upTo);
    bytes.copy(bytes, measurePage(bytes, upTo)[0], from, to);
  },
  "a page that is older than the others": (bytes, upTo) => {
    const [from, to] = measurePage(bytes, upTo);
    const cells = bytes.readUInt16BE(from + 3);
    if (cells > 1 && to > from) bytes.writeUInt16BE(cells - 1, from + 3);
  },
};

/** Any page but the first. */
function measurePage(bytes: Buffer, upTo: (most: number) => number): [number, number] {
  const page = 1 + upTo(bytes.length / pageBytes - 1);
  return [page * pageBytes, (page + 1) * pageBytes];
}

describe("a walk over the pages", () => {
  test.each([1, 2, 3, 4])("finds nothing in a sound file, made canonical or not (seed %i)", (seed) => {
    const path = join(temporaryDirectory(), "sound.db");
    makeFile(path, seed, seed * 700);
    expect(found(path)).toBeUndefined();
    const bytes = readFileSync(path);
    for (let page = 1; page <= bytes.length / pageBytes; page++)
      makeCanonical(bytes.subarray((page - 1) * pageBytes, page * pageBytes), page);
    writeFileSync(path, bytes);
    expect(found(path)).toBeUndefined();
    expect(foundBySqlite(path)).toBeUndefined();
  });

  test.each(Object.keys(damages))("finds what quick_check finds: %s", { timeout: 120_000 }, (kind) => {
    const folder = temporaryDirectory();
    const [sound, broken] = [join(folder, "sound.db"), join(folder, "broken.db")];
    makeFile(sound, 11, 1_200);
    const random = seeded(kind.length);
    const upTo = (most: number): number => Math.floor(random() * most);
    let both = 0;
    for (let round = 0; round < 150; round++) {
      const bytes = readFileSync(sound);
      damages[kind]!(bytes, upTo);
      writeFileSync(broken, bytes);
      const theirs = foundBySqlite(broken);
      withoutCompanions(broken);
      const ours = found(broken);
      withoutCompanions(broken);
      if (theirs !== undefined) expect([round, theirs, ours]).toEqual([round, theirs, expect.any(String)]);
      if (theirs !== undefined && ours !== undefined) both++;
    }
    expect(both).toBeGreaterThan(0);
  });

  test("finds a file that was cut, and one that goes on is none", () => {
    const folder = temporaryDirectory();
    const [sound, cut] = [join(folder, "sound.db"), join(folder, "cut.db")];
    makeFile(sound, 5, 300);
    for (const bytes of [1, pageBytes, 5 * pageBytes]) {
      copyFileSync(sound, cut);
      truncateSync(cut, statSync(sound).size - bytes);
      expect(found(cut)).toEqual(expect.any(String));
      withoutCompanions(cut);
    }
  });

  test("takes its turns: no step reads more than its share of pages, chains of one long row included", () => {
    const path = join(temporaryDirectory(), "long.db");
    const connection = new Connection(path, { readonly: false, pageCacheKiB: 8_192 });
    connection.exec("CREATE TABLE t (v); INSERT INTO t VALUES (zeroblob(8000000))");
    connection.raw.pragma("wal_checkpoint(TRUNCATE)");
    connection.close();
    const pages = statSync(path).size / pageBytes;
    expect([...checkFile(path)].length).toBeGreaterThanOrEqual(Math.floor(pages / 256));
  });
});
