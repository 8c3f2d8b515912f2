/**
 * Nothing that a database keeps is forgotten by an export: each table of its schema, and each column, is in a record or
 * is left out with a reason. Whoever adds a table makes it here in `fill`, and says in src/model/transfer what becomes
 * of it.
 */
import { globSync, readFileSync } from "node:fs";
import { afterAll, expect, test } from "vitest";
import { runWrite, type WriteInput, type WriteKind } from "../../src/model/commands.ts";
import { sealTransaction } from "../../src/model/core/change-log.ts";
import { VectorCache } from "../../src/model/index/vector-index.ts";
import { leftOut, recordKinds } from "../../src/model/transfer/kinds.ts";
import type { TableUse } from "../../src/model/transfer/record.ts";
import { ModelDatabase } from "../support/model-database.ts";

const databases = [1, 2, 3].map((format) => new ModelDatabase(new VectorCache(), format));
afterAll(() => databases.forEach((database) => database.close()));

/** Makes every table that is made on first need. */
function fill(database: ModelDatabase): void {
  const write = <Kind extends WriteKind>(kind: Kind, input: WriteInput<Kind>): void => {
    const newId = (): string => "01JD8Z3K5N0V6W4X2Y1Z0A9B8C";
    database.write((tx) => runWrite(kind, { ...tx, newId }, input));
  };
  const embedding = Float32Array.of(1, 2);
  const embeddedBy = { name: "model/a", floor: 0 };
  const memory = {
    ...{ type: "instruction", summary: "tea", content: "{}", metadata: '{"a":1}', pinned: true },
    ...{ subject: "ada", validFromMs: 1, derivedFrom: [{ sessionId: "s-1", seq: 1 }] },
  };
  const filler = Array.from({ length: 40 }, (_, n) => ({ role: "user", content: `"turn ${n}"`, turnId: `t-${n}` }));
  write("turn.append_many", { sessionId: "s-1", turns: filler, operationId: "op-1" });
  write("memory.ingest", { memories: [{ ...memory, embedding, embeddedBy }] });
  write("docs.insert", { collection: "people", docs: ['{"tag":1}'] });
  write("docs.index", { collection: "people", path: "tag" });
  write("vector.upsert", { collection: "faces", id: "ada", embedding, metadata: "{}", metric: "dot" });
  for (let n = 0; n < 40; n++) write("file.put", { path: `notes/${n}.md`, text: "tea" });
  write("repeatable", {
    ...{ key: new Uint8Array(16), request: new Uint8Array(32) },
    ...{ command: "kv.put", input: { ns: "prefs", key: "drink", value: new Uint8Array(1) } },
  });
  write("memory.erase", {
    couponId: "ers_01JD8Z3K5N0V6W4X2Y1Z0A9B8C",
    target: { kind: "key", ns: "prefs", key: "drink" },
    traceKey: new Uint8Array(32).fill(1),
  });
}

databases.forEach(fill);
// Changes of transactions move to their table once there are many of them.
for (let txid = 1; txid <= 3; txid++) {
  const state = { txid, committedAtMs: txid, writerEpochId: undefined, changesKeptMs: 86_400_000 };
  const notes = Array.from({ length: 100 }, (_, n) => JSON.stringify(["kv", "put", "prefs", `key ${n}`]));
  sealTransaction(databases.at(-1)!.connection, state, notes);
}

interface SchemaObject {
  readonly type: string;
  readonly name: string;
}

function schemaOf({ connection }: ModelDatabase): readonly SchemaObject[] {
  return connection.all<SchemaObject>("SELECT type, name FROM sqlite_schema WHERE name NOT LIKE 'sqlite_%'");
}

/** A table by the form of its name: those of collections and of indexes have numbers. */
const formOf = (name: string): string => name.replace(/_\d+$/, "_#");
/** The tables that FTS5 keeps an index in. */
const isShadow = (name: string): boolean => /_(text|words)_(config|content|data|docsize|idx)$/.test(name);

const used = new Map<string, TableUse>(recordKinds.flatMap(({ tables }) => Object.entries(tables)));

test("each table is in a record or is left out with a reason", () => {
  const tables = databases.flatMap(schemaOf).filter(({ type, name }) => type === "table" && !isShadow(name));
  const forgotten = [...new Set(tables.map(({ name }) => formOf(name)))].filter((name) => {
    return !used.has(name) && leftOut[name] === undefined;
  });
  expect(forgotten, "say in src/model/transfer what an export does with them").toEqual([]);
});

test("each column of a table that is exported is in a record or follows from others", () => {
  const forgotten = databases.flatMap(({ connection, ...rest }) =>
    schemaOf({ connection, ...rest } as ModelDatabase).flatMap(({ name }) => {
      const use = used.get(formOf(name));
      if (!use) return [];
      const columns = connection.all<{ name: string }>(`SELECT name FROM pragma_table_info('${name}')`);
      const known = new Set([...use.exported, ...Object.keys(use.derived)]);
      return columns.filter((column) => !known.has(column.name)).map((column) => `${name}.${column.name}`);
    }),
  );
  expect(forgotten, "add them to their kind in src/model/transfer").toEqual([]);
});

test("no table is known that is not there, and this test makes all that src/model names", () => {
  const names = new Set(databases.flatMap(schemaOf).map(({ name }) => name));
  const forms = new Set([...names].map(formOf));
  expect([...used.keys(), ...Object.keys(leftOut)].filter((name) => !forms.has(name))).toEqual([]);
  const named = globSync("src/model/**/*.ts").flatMap(
    (path) => readFileSync(path, "utf8").match(/__service_[a-z_]*[a-z](?![a-z_$])/g) ?? [],
  );
  const unmade = [...new Set(named)].filter((name) => !names.has(name) && !forms.has(`${name}_#`));
  expect(unmade, "make them in `fill`").toEqual([]);
});
