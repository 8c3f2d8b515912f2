/**
 * Schemas that a tenant may make and nobody else should run: expressions that fail, that never end, or that only their
 * writer's connection meets, wherever SQL takes one; under names that look like somebody else's.
 */

/** A statement and its parameters. */
export interface HostileStatement {
  readonly q: string;
  readonly params?: readonly unknown[];
}

/** Two texts that `trim` compares for about a minute. */
const slowBytes = 300_000;
const slowPair = ["x".repeat(slowBytes), `${"y".repeat(slowBytes)}x`];
/** A query without an end. */
const endless = "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r) SELECT n FROM r";

/** By what is hostile about it, made of a quoted name and of others that begin with it. */
const kinds: Readonly<Record<string, (name: (suffix?: string) => string) => readonly HostileStatement[]>> = {
  "a constraint that only its writer's connection meets": (t) => [
    { q: `CREATE TABLE ${t()} (a CHECK (total_changes() > 0 OR a = 0))` },
    { q: `INSERT INTO ${t()} VALUES (0)` },
    { q: `INSERT INTO ${t()} VALUES (1)` },
  ],
  "a constraint on the last row of the connection": (t) => [
    { q: `CREATE TABLE ${t()} (a CHECK (last_insert_rowid() <> 0))` },
    { q: `CREATE TABLE ${t("b")} (x)` },
    { q: `INSERT INTO ${t("b")} VALUES (1)` },
    { q: `INSERT INTO ${t()} VALUES (1)` },
  ],
  "a constraint that chance decides": (t) => [
    { q: `CREATE TABLE ${t()} (a CHECK (a IS NULL OR changes() >= 0 AND random() % 2 IN (-1, 0, 1)))` },
    { q: `INSERT INTO ${t()} VALUES (1)` },
  ],
  "a generated column that fails": (t) => [
    { q: `CREATE TABLE ${t()} (a)` },
    { q: `INSERT INTO ${t()} VALUES ('no JSON')` },
    { q: `ALTER TABLE ${t()} ADD COLUMN c TEXT AS (json_extract(a, '$'))` },
  ],
  "a generated column of a minute": (t) => [
    { q: `CREATE TABLE ${t()} (a, b)` },
    { q: `INSERT INTO ${t()} VALUES (?, ?)`, params: slowPair },
    { q: `ALTER TABLE ${t()} ADD COLUMN c TEXT AS (trim(a, b))` },
  ],
  "a generated column of a generated column": (t) => [
    { q: `CREATE TABLE ${t()} (a, b)` },
    { q: `INSERT INTO ${t()} VALUES (?, ?)`, params: slowPair },
    { q: `ALTER TABLE ${t()} ADD COLUMN c AS (trim(a, b)) ` },
    { q: `ALTER TABLE ${t()} ADD COLUMN d INTEGER AS (length(c) + length(trim(b, a)))` },
  ],
  "a stored generated column": (t) => [
    { q: `CREATE TABLE ${t()} (a INTEGER PRIMARY KEY, b TEXT NOT NULL AS (hex(a)) STORED) STRICT` },
    { q: `INSERT INTO ${t()} (a) VALUES (1)` },
  ],
  "an index on expressions, of some rows": (t) => [
    { q: `CREATE TABLE ${t()} (a, b)` },
    {
      q:
        `CREATE UNIQUE INDEX ${t("i")} ON ${t()} (json_extract(a, '$.x'), b COLLATE NOCASE) WHERE json_valid(a) ` +
        "AND b <> ''",
    },
    { q: `INSERT INTO ${t()} VALUES ('{"x":1}', 'b'), ('no JSON', 'B')` },
  ],
  "an index on a generated column": (t) => [
    { q: `CREATE TABLE ${t()} (a, c AS (upper(a) || length(a)))` },
    { q: `CREATE INDEX ${t("i")} ON ${t()} (c DESC) WHERE c IS NOT NULL` },
    { q: `INSERT INTO ${t()} VALUES ('x'), (NULL)` },
  ],
  "a default that fails": (t) => [
    { q: `CREATE TABLE ${t()} (a, b DEFAULT (json('[')), c DEFAULT (random()))` },
    { q: `INSERT INTO ${t()} (a, b) VALUES (1, 2)` },
  ],
  "views that fail or never end": (t) => [
    { q: `CREATE VIEW ${t()} AS SELECT json('[') AS x` },
    { q: `CREATE VIEW ${t("v")} AS ${endless}` },
    { q: `CREATE VIEW ${t("w")} AS SELECT * FROM ${t("v")} JOIN ${t()}` },
  ],
  "triggers that refuse everything": (t) => [
    { q: `CREATE TABLE ${t()} (a)` },
    { q: `INSERT INTO ${t()} VALUES (1)` },
    ...["INSERT", "UPDATE", "DELETE"].map((act) => ({
      q: `CREATE TRIGGER ${t(act)} BEFORE ${act} ON ${t()} BEGIN SELECT RAISE(ABORT, 'no'); END`,
    })),
  ],
  "a trigger on a view": (t) => [
    { q: `CREATE VIEW ${t()} AS SELECT 1 AS x` },
    { q: `CREATE TRIGGER ${t("i")} INSTEAD OF INSERT ON ${t()} BEGIN SELECT json('['); END` },
  ],
  "foreign keys, one to nowhere": (t) => [
    { q: `CREATE TABLE ${t()} (a PRIMARY KEY)` },
    { q: `INSERT INTO ${t()} VALUES (1)` },
    { q: `CREATE TABLE ${t("b")} (x REFERENCES ${t()} ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED)` },
    { q: `INSERT INTO ${t("b")} VALUES (1)` },
    { q: `CREATE TABLE ${t("c")} (y REFERENCES ${t("none")} (z) ON UPDATE SET NULL)` },
  ],
  "a search index over a view that never ends": (t) => [
    { q: `CREATE VIEW ${t("v")} AS SELECT n AS rowid, n AS x FROM (${endless})` },
    { q: `CREATE VIRTUAL TABLE ${t()} USING fts5(x, content=${t("v")})` },
    { q: `INSERT INTO ${t()} (rowid, x) VALUES (1, 'word')` },
  ],
  "a search index without content, and one with": (t) => [
    { q: `CREATE VIRTUAL TABLE ${t()} USING fts5(x, content='')` },
    { q: `INSERT INTO ${t()} (rowid, x) VALUES (1, 'word')` },
    { q: `CREATE VIRTUAL TABLE ${t("b")} USING fts5(x, prefix='2 3')` },
    { q: `INSERT INTO ${t("b")} (x) VALUES ('word')` },
  ],
  "a search index whose shadow lies": (t) => [
    { q: `CREATE VIRTUAL TABLE ${t()} USING fts5(x, content=${t("c")})` },
    { q: `CREATE TABLE ${t("c")} (x)` },
    { q: `INSERT INTO ${t()} (rowid, x) VALUES (5, 'never there')` },
  ],
  "a tree of rectangles": (t) => [
    { q: `CREATE VIRTUAL TABLE ${t()} USING rtree(id, a, b, +more)` },
    { q: `INSERT INTO ${t()} VALUES (1, 0.5, 1.5, 'x')` },
  ],
  "a table without rowids under another order": (t) => [
    {
      q:
        `CREATE TABLE ${t()} (a TEXT COLLATE NOCASE, b, c CHECK (total_changes() >= b), PRIMARY KEY (a, b)) ` +
        "WITHOUT ROWID",
    },
    { q: `INSERT INTO ${t()} VALUES ('x', -1, 0), ('Y', 0, 0)` },
  ],
  "a strict table, whose column was dropped": (t) => [
    { q: `CREATE TABLE ${t()} (a ANY, b TEXT CHECK (length(b) > total_changes() - total_changes()), c INT) STRICT` },
    { q: `INSERT INTO ${t()} VALUES (1, 'x', 2)` },
    { q: `ALTER TABLE ${t()} DROP COLUMN c` },
  ],
};

/** Names that mean something to somebody else, or nothing. */
const names = [
  "t",
  "service_kv",
  "_service_state",
  "__servicememory",
  "memory",
  "main",
  "temp",
  "quick_check",
  "sqlite",
  "json",
  "x') ; --",
  "it's",
  'a "quoted" one',
  "a b",
  "名前",
  "%",
  "0",
  "select",
  "rowid",
  "pragma",
];

/** Every kind, each under a name of its own, in an order of chance. */
export function hostileSchema(
  random: () => number,
): readonly { readonly what: string; readonly statements: readonly HostileStatement[] }[] {
  const shuffled = <Item>(items: readonly Item[]): Item[] =>
    items
      .map((item) => ({ item, at: random() }))
      .sort((a, b) => a.at - b.at)
      .map(({ item }) => item);
  const free = shuffled(names);
  return shuffled(Object.entries(kinds)).map(([what, make], at) => {
    const name = free[at % free.length]!;
    return {
      what,
      statements: make(
        (suffix = "") => `"${`${name}${at < free.length ? "" : at} ${suffix}`.trim().replaceAll('"', '""')}"`,
      ),
    };
  });
}
