/** Which table a statement of user SQL names as the one that it changes. */
import { expect, test } from "vitest";
import { findChangedTable } from "../../../src/sqlite/sql-changed-table.ts";
import { parseTokens } from "../../../src/sqlite/sql-tokens.ts";

test.each([
  ["INSERT INTO t VALUES (1)", "T"],
  ['insert or ignore into "My t" (a) select 1', "My t"],
  ["REPLACE INTO [t] VALUES (1)", "t"],
  ["INSERT INTO t(a) VALUES (1)", "T"],
  ["UPDATE t SET a = 1", "T"],
  ["UPDATE OR ROLLBACK main.`t` SET a = (SELECT 1)", "t"],
  ["DELETE FROM main.t WHERE a IN (SELECT a FROM u)", "T"],
  ["WITH x AS (SELECT 1), y(a) AS (SELECT 2) DELETE FROM t", "T"],
  ["WITH insert_ AS (SELECT 1) INSERT INTO t SELECT * FROM insert_", "T"],
  ["CREATE TABLE IF NOT EXISTS t (a)", "T"],
  ["CREATE VIRTUAL TABLE t USING fts5(a)", "T"],
  ["DROP TABLE IF EXISTS t", "T"],
  ["ALTER TABLE t RENAME TO u", "T"],
  ["CREATE INDEX i ON t (a)", undefined],
  ["CREATE TRIGGER g AFTER INSERT ON t BEGIN DELETE FROM u; END", undefined],
  ["CREATE VIEW v AS SELECT 1", undefined],
  ["SELECT * FROM t", undefined],
  ["INSERT", undefined],
  ["UPDATE OR", undefined],
  ["WITH x AS (SELECT 1", undefined],
])("%s names %s", (sql, table) => {
  expect(findChangedTable(parseTokens(sql))).toBe(table);
});
