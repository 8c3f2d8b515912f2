/** Records that are erased by their names: they are gone, nothing else is, and a copy of one is found and told. */
import { readFileSync } from "node:fs";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { TraceSearch } from "../../../src/format/erasure/traces.ts";
import type { RecordTarget } from "../../../src/format/erasure/erasure-receipt.ts";
import { insertDocs, deleteDocs } from "../../../src/model/docs/docs.ts";
import { createDocIndex } from "../../../src/model/docs/docs-catalog.ts";
import { findDocs } from "../../../src/model/docs/docs-find.ts";
import { erase, type Erased } from "../../../src/model/erasure.ts";
import { heldRecords, recordWindows } from "../../../src/model/erasure-records.ts";
import { moveFiles } from "../../../src/model/files/file-moves.ts";
import { getFile, listFileVersions, putFile } from "../../../src/model/files/files.ts";
import { kvGet, kvPut } from "../../../src/model/kv/kv.ts";
import { appendTurns } from "../../../src/model/transcript/turn-batches.ts";
import { listTurns } from "../../../src/model/transcript/turn-list.ts";
import { upsertVectors, getVector } from "../../../src/model/vectors/vector-collections.ts";
import type { Tx } from "../../../src/model/core/transaction.ts";
import { ModelDatabase } from "../../support/model-database.ts";
import { seeded } from "../../support/random.ts";
import { canary as newCanary, residueIn, type Secrets } from "../../support/residue.ts";

const key = new Uint8Array(32).fill(3);
let database: ModelDatabase;

beforeEach(() => {
  database = new ModelDatabase();
});

afterEach(() => database.close());

const erased = (target: RecordTarget): Erased =>
  database.write((tx) => erase(tx, { couponId: `ers_${JSON.stringify(target)}`, target, traceKey: key }));

/** The whole file, checkpointed. */
function bytes(): Buffer {
  database.connection.raw.pragma("wal_checkpoint(TRUNCATE)");
  return readFileSync(database.connection.path);
}

function countFound({ traces }: Erased, where: Uint8Array): number {
  let found = 0;
  new TraceSearch([traces]).search(where, () => found++);
  return found;
}

const held = (target: RecordTarget, { records: ids = [] }: Erased): readonly string[] =>
  heldRecords(database.view(), { records: [{ target, ids, key }] }).held;

const vector = (seed: number): Float32Array => Float32Array.from({ length: 64 }, (_, at) => Math.sin(seed + at * at));

/** What is written of each kind under a name, and how it is asked for. */
interface Case {
  readonly target: RecordTarget;
  /** Writes the record with a canary in it; and beside it others, the same each time. */
  readonly write: (tx: Tx, canary: string) => void;
  readonly beside: (tx: Tx) => void;
  readonly read: () => unknown;
  readonly readBeside: () => unknown;
}

const folder = "people/ada/private notes";

const cases: Readonly<Record<string, Case>> = {
  turn: {
    target: { kind: "turn", sessionId: "a session of ada", seq: 2 },
    beside: (tx) => {
      const said = { role: "user", content: '"what stays"' };
      appendTurns(tx, { sessionId: "a session of ada", turns: [said] });
    },
    write: (tx, canary) =>
      appendTurns(tx, {
        sessionId: "a session of ada",
        operationId: "once",
        turns: [{ role: "user", content: JSON.stringify(canary), turnId: "t2", metadata: `{"tag":"${canary}"}` }],
      }),
    read: () => listTurns(database.view(), { sessionId: "a session of ada", fromSeq: 2 }).turns[0],
    readBeside: () => listTurns(database.view(), { sessionId: "a session of ada", toSeq: 1 }).turns,
  },
  path: {
    target: { kind: "path", path: folder },
    beside: (tx) => putFile(tx, { path: "people/bob/private notes/health.md", text: "what stays" }),
    write: (tx, canary) => putFile(tx, { path: `${folder}/health.md`, text: `Ada has ${canary}` }),
    read: () => listFileVersions(database.view(), { path: `${folder}/health.md` }).versions[0],
    readBeside: () => getFile(database.view(), { path: "people/bob/private notes/health.md" }),
  },
  key: {
    target: { kind: "key", ns: "preferences", key: "ada's drink of choice" },
    beside: (tx) => kvPut(tx, { ns: "preferences", key: "bob's drink of choice", value: Buffer.from("what stays") }),
    write: (tx, canary) =>
      kvPut(tx, { ns: "preferences", key: "ada's drink of choice", value: Buffer.from(`${canary} and more`) }),
    read: () => kvGet(database.view(), { ns: "preferences", key: "ada's drink of choice" }),
    readBeside: () => kvGet(database.view(), { ns: "preferences", key: "bob's drink of choice" }),
  },
  document: {
    target: { kind: "document", collection: "people", id: "ada" },
    beside: (tx) => {
      createDocIndex(tx, { collection: "people", path: "email" });
      insertDocs(tx, { collection: "people", docs: ['{"_id":"bob","email":"what stays"}'] });
    },
    write: (tx, canary) => {
      deleteDocs(tx, { collection: "people", filter: '{"_id":"ada"}', multi: false });
      insertDocs(tx, { collection: "people", docs: [`{"_id":"ada","email":"${canary}"}`] });
    },
    read: () => findDocs(database.view(), { collection: "people", filter: '{"_id":"ada"}', limit: 1, skip: 0 }).docs[0],
    readBeside: () => findDocs(database.view(), { collection: "people", filter: '{"_id":"bob"}', limit: 1, skip: 0 }),
  },
  vector: {
    target: { kind: "vector", collection: "faces", id: "ada" },
    beside: (tx) =>
      upsertVectors(tx, { collection: "faces", vectors: [{ id: "bob", embedding: vector(1), metadata: "{}" }] }),
    write: (tx, canary) =>
      upsertVectors(tx, {
        collection: "faces",
        vectors: [{ id: "ada", embedding: vector(canary.length), metadata: `{"said":"${canary}"}` }],
      }),
    read: () => getVector(database.view(), { collection: "faces", id: "ada" }),
    readBeside: () => getVector(database.view(), { collection: "faces", id: "bob" }),
  },
};

describe.each(Object.entries(cases))("%s", (_, { target, beside, write, read, readBeside }) => {
  const canary = newCanary(seeded(7));
  const secrets: Secrets = { words: [canary], vectors: [] };

  beforeEach(() => {
    database.connection.raw.pragma("secure_delete = 1");
    database.write(beside);
    database.nowMs++;
    database.write((tx) => write(tx, canary));
  });

  test("it is gone from the file, with all that was made of it, and what is beside it stays", () => {
    const stays = readBeside();
    expect(read()).toBeDefined();
    expect(residueIn(bytes(), secrets)).toBeGreaterThan(0);
    expect(erased(target)).toMatchObject({ found: true, memoryIds: [] });
    expect(read()).toBeUndefined();
    expect(readBeside()).toEqual(stays);
    expect(residueIn(bytes(), secrets)).toBe(0);
  });

  test("a copy of it is found by its traces, which are not in what is left", () => {
    const before = bytes();
    const what = erased(target);
    expect(countFound(what, before)).toBeGreaterThan(0);
    expect(countFound(what, bytes())).toBe(0);
  });

  test("a state that has it still, or again just as it was, holds it; one that has something else does not", () => {
    const what = erased(target);
    expect(what.records).toHaveLength(1);
    expect(held(target, what)).toEqual([]);
    database.write((tx) => write(tx, `${canary} is another`));
    expect(held(target, what)).toEqual([]);
  });

  test("asked twice with a coupon it is erased once; what is not there is not found", () => {
    const what = erased(target);
    expect(erased(target)).toEqual(what);
    const again = database.write((tx) => erase(tx, { couponId: "ers_2", target, traceKey: key }));
    expect(again).toMatchObject({ found: false, memoryIds: [] });
  });
});

test("a key that is written again as it was is held; a name alone holds nothing", () => {
  const target: RecordTarget = { kind: "key", ns: "n", key: "k" };
  const put = (value: string) =>
    database.write((tx) => kvPut(tx, { ns: "n", key: "k", value: Buffer.from(value), ttlSecs: 100 }));
  put("1");
  const what = erased(target);
  // Too short for a window.
  expect(what.traces.windowsTotal).toBe(0);
  put("2");
  expect(held(target, what)).toEqual([]);
  put("1");
  expect(held(target, what)).toEqual(what.records);
});

test("windows that records of other names have too are told", () => {
  const named = (name: string): void => {
    database.write((tx) =>
      kvPut(tx, { ns: "settings", key: `${name} of the whole house`, value: Buffer.alloc(40, 7) }),
    );
  };
  named("light");
  named("heating");
  const target: RecordTarget = { kind: "key", ns: "settings", key: "light of the whole house" };
  const what = erased(target);
  expect(countFound(what, bytes())).toBe(1);
  const alike = [...recordWindows(database.view(), [target])];
  expect(alike.filter((window) => countFound(what, window) > 0)).toHaveLength(1);
});

test("a folder goes with all versions of its files, and other paths no longer name it", () => {
  const put = (path: string, text: string) => database.write((tx) => putFile(tx, { path, text }));
  put("a/one.md", "first");
  put("a/one.md", "second");
  put("a/b/two.md", "kept elsewhere");
  database.write((tx) => moveFiles(tx, { path: "a/b", to: "c", overwrite: false }));
  const what = erased({ kind: "path", path: "a" });
  // Two of one.md; two.md was written and moved away.
  expect(what.records).toHaveLength(4);
  expect(getFile(database.view(), { path: "c/two.md" }).text).toBe("kept elsewhere");
  const [moved] = listFileVersions(database.view(), { path: "c/two.md" }).versions;
  expect(moved).not.toHaveProperty("otherPath");
});

test("a folder of too many versions is refused, and stays", () => {
  database.write((tx) => {
    for (let at = 0; at < 10_001; at++) putFile(tx, { path: `many/${at}`, text: "" });
  });
  expect(() => erased({ kind: "path", path: "many" })).toThrow("more than 10000 records; erase it in parts");
  expect(getFile(database.view(), { path: "many/1" }).text).toBe("");
});
