/** Lists of rows read from the pages of an index against what queries give, whatever was written and removed. */
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { seeded } from "../../../../src/base/seeded.ts";
import { readRowsOf } from "../../../../src/model/ranking/fts5-doclist.ts";
import { searchedWords } from "../../../../src/model/ranking/pending-index.ts";
import { memoryWords } from "../../../../src/model/memory/keyword.ts";
import { ingest } from "../../../../src/model/memory/memory-ingest.ts";
import { tokenizer } from "../../../../src/model/text/words.ts";
import { ModelDatabase } from "../../../support/model-database.ts";

let database: ModelDatabase;

beforeEach(() => {
  database = new ModelDatabase();
  database.connection.exec(`CREATE VIRTUAL TABLE t USING fts5 (a, b, tokenize = "${tokenizer}")`);
});

afterEach(() => database.close());

const words = ["w", "wa", "wab", "wabc", "v", "u", "x9", "zebu"];

const asked = (word: string): unknown =>
  database.connection.prepared("SELECT rowid FROM t WHERE t MATCH ?").pluck().all(`"${word}"`);

function compare(): void {
  for (const word of [...words, "none", "0"])
    expect(readRowsOf(database.connection, "t", word), word).toEqual(asked(word));
}

describe.each([false, true])("with removed words taken out of the pages: %s", (isSecure) => {
  test.each([64, 200, 4050])("pages of %d bytes", (pageBytes) => {
    const { connection } = database;
    const random = seeded(pageBytes + Number(isSecure));
    const below = (most: number): number => Math.floor(random() * most);
    connection.exec(`INSERT INTO t (t, rank) VALUES ('secure-delete', ${Number(isSecure)})`);
    connection.exec(`INSERT INTO t (t, rank) VALUES ('pgsz', ${pageBytes})`);
    connection.exec("INSERT INTO t (t, rank) VALUES ('automerge', 2)");
    /** Now and then a text that fills pages by itself. */
    const text = (): string =>
      Array.from({ length: random() < 0.02 ? 2_000 : below(6) }, () => words[Math.floor(words.length * random() ** 2)])
        .join(" ")
        .concat(random() < 0.3 ? ` n${below(500)}` : "");
    const change = (): void => {
      const row = BigInt(1 + below(random() < 0.9 ? 400 : 2 ** 40));
      connection.run("DELETE FROM t WHERE rowid = ?", row);
      if (random() < 0.7) connection.run("INSERT INTO t (rowid, a, b) VALUES (?, ?, ?)", row, text(), text());
    };
    for (let round = 0; round < 60; round++) {
      connection.exec("BEGIN");
      for (let at = below(30); at >= 0; at--) change();
      connection.exec("COMMIT");
      if (round % 10 === 9) connection.exec("INSERT INTO t (t, rank) VALUES ('merge', 20)");
      if (round === 45) connection.exec("INSERT INTO t (t) VALUES ('optimize')");
      compare();
    }
    connection.run("DELETE FROM t WHERE rowid > ?", 0n);
    compare();
  });
});

test("an index of nothing, and one of another form, which is asked by a query", () => {
  compare();
  database.connection.exec("INSERT INTO t (a) VALUES ('zebu')");
  compare();
  const { connection } = database;
  for (const part of ["config", "data", "idx"]) connection.exec(`CREATE TABLE copy_${part} AS SELECT * FROM t_${part}`);
  const read = (): unknown => readRowsOf(connection, "copy", "zebu");
  expect(read()).toEqual([1]);
  connection.exec("UPDATE copy_config SET v = v + 99 WHERE k = 'version'");
  expect(read()).toBeUndefined();
  connection.exec("UPDATE copy_config SET v = v - 99 WHERE k = 'version'; DELETE FROM copy_data WHERE id > 10");
  expect(read()).toBeUndefined();
  connection.exec("DELETE FROM copy_data");
  expect(read()).toBeUndefined();
});

test("a common word of memories is found in all of them, whatever its ending", () => {
  const memories = Array.from({ length: 3_000 }, (_, at) => ({
    type: "event",
    summary: at % 3 === 0 ? `the relations of ${at}` : `a relational note ${at}`,
    content: "null",
  }));
  database.write((tx) => ingest(tx, { memories }));
  const index = searchedWords(database.connection, memoryWords);
  const rows = (match: string): readonly number[] => index.rowsOf({ word: match, match: `"${match}"`, isPair: false });
  for (const word of ["relations", "relating", "relational", "note", "notes"]) {
    const { name } = memoryWords;
    const query = database.connection.prepared(`SELECT rowid FROM ${name} WHERE ${name} MATCH ?`).pluck();
    expect(rows(word), word).toEqual(query.all(`"${word}"`));
    expect(rows(word).length, word).toBeGreaterThan(900);
  }
});
