/**
 * Everything of one subject is erased, of every kind, and nothing of another's: nothing is left, and copies are found.
 */
import { readFileSync } from "node:fs";
import { ulid } from "ulid";
import fc from "fast-check";
import { afterEach, beforeEach, expect, test } from "vitest";
import { TraceSearch } from "../../../src/format/erasure/traces.ts";
import { straySubjects, subjectsAfter } from "../../../src/model/core/subjects.ts";
import type { Tx } from "../../../src/model/core/transaction.ts";
import { putDoc } from "../../../src/model/docs/doc-by-id.ts";
import { createDocIndex } from "../../../src/model/docs/docs-catalog.ts";
import { findDocs } from "../../../src/model/docs/docs-find.ts";
import { deleteDocs, insertDocs, updateDocs } from "../../../src/model/docs/docs.ts";
import { erase, heldMemories, type Erased } from "../../../src/model/erasure.ts";
import { heldRecords, recordWindows } from "../../../src/model/erasure-records.ts";
import { deleteFiles, moveFiles } from "../../../src/model/files/file-moves.ts";
import { getFile, listFileVersions, putFile } from "../../../src/model/files/files.ts";
import { kvGet, kvPut, kvSweep } from "../../../src/model/kv/kv.ts";
import { kvList } from "../../../src/model/kv/kv-list.ts";
import { ingest } from "../../../src/model/memory/memory-ingest.ts";
import { listMemories } from "../../../src/model/memory/memory-list.ts";
import { deleteMemory } from "../../../src/model/memory/stored-memories.ts";
import { listSessions } from "../../../src/model/transcript/sessions.ts";
import { appendTurns } from "../../../src/model/transcript/turn-batches.ts";
import { listTurns } from "../../../src/model/transcript/turn-list.ts";
import { deleteTurns } from "../../../src/model/transcript/turn-removal.ts";
import { listVectors } from "../../../src/model/vectors/vector-list.ts";
import { upsertVectors } from "../../../src/model/vectors/vector-collections.ts";
import { ModelDatabase } from "../../support/model-database.ts";
import { seeded } from "../../support/random.ts";
import { canary, residueIn } from "../../support/residue.ts";

const key = new Uint8Array(32).fill(5);
const encoder = new TextEncoder();
let database: ModelDatabase;

beforeEach(() => {
  database = new ModelDatabase();
  database.connection.raw.pragma("secure_delete = 1");
});

afterEach(() => database.close());

const write = <Result>(act: (tx: Tx) => Result): Result =>
  database.write((tx) => act({ ...tx, newId: () => ulid(database.nowMs) }));
const eraseSubject = (subject: string, couponId = `ers_${subject}`): Erased =>
  write((tx) => erase(tx, { couponId, target: { kind: "subject", subject }, traceKey: key }));

function bytes(): Buffer {
  database.connection.raw.pragma("wal_checkpoint(TRUNCATE)");
  return readFileSync(database.connection.path);
}

function countFound({ traces }: Erased, where: Uint8Array): number {
  let found = 0;
  new TraceSearch([traces]).search(where, () => found++);
  return found;
}

const numbers = (seed: number): Float32Array => Float32Array.from({ length: 64 }, (_, at) => Math.sin(seed + at * at));

/** One record of each kind with the word in it, about the subject; names of records have the given part. */
function writeAll(subject: string, name: string, word: string): void {
  write((tx) => {
    ingest(tx, {
      memories: [
        {
          type: "fact",
          summary: `about ${word}`,
          content: JSON.stringify(word),
          metadata: `{"tag":"${word}"}`,
          topicKey: `${name} topic`,
          sessionId: `${name} session`,
          embedding: numbers(word.charCodeAt(0)),
          subject,
        },
      ],
    });
    appendTurns(tx, {
      sessionId: `${name} session`,
      operationId: "once",
      turns: [
        { role: "user", content: JSON.stringify(word), turnId: `${name}-1`, metadata: `{"tag":"${word}"}`, subject },
        { role: "user", content: '"nobody"' },
      ],
    });
    kvPut(tx, { ns: "preferences", key: `${name}'s drink of choice`, value: encoder.encode(word), subject });
    createDocIndex(tx, { collection: "people", path: "word" });
    insertDocs(tx, { collection: "people", docs: [JSON.stringify({ _id: name, word })], subject });
    const vector = { id: name, embedding: numbers(word.charCodeAt(1)), metadata: `{"w":"${word}"}`, subject };
    upsertVectors(tx, { collection: "faces", vectors: [vector] });
    putFile(tx, { path: `people/${name}/notes.md`, text: `first ${word}`, subject });
    putFile(tx, { path: `people/${name}/notes.md`, text: `then ${word}` });
  });
}

const view = () => database.view();
const readAll = (name: string): object => ({
  memories: listMemories(view(), { includeSuperseded: true }).memories.filter(
    ({ topicKey }) => topicKey === `${name} topic`,
  ),
  turns: listTurns(view(), { sessionId: `${name} session` }).turns,
  key: kvGet(view(), { ns: "preferences", key: `${name}'s drink of choice` }),
  docs: findDocs(view(), { collection: "people", filter: JSON.stringify({ _id: name }) }).docs,
  vectors: listVectors(view(), { collection: "faces", includeVectors: true }).vectors.filter(({ id }) => id === name),
  versions: listFileVersions(view(), { path: `people/${name}/notes.md` }).versions,
});

test("everything of the subject is gone from the file, another's and nobody's stay, and a copy of it is found", () => {
  const [own, other] = [canary(seeded(1)), canary(seeded(2))];
  writeAll("user-7", "ada", own);
  writeAll("user-8", "bob", other);
  const stays = readAll("bob");
  const before = bytes();
  expect(residueIn(before, { words: [own], vectors: [] })).toBeGreaterThan(0);
  const what = eraseSubject("user-7");
  expect(what).toMatchObject({
    found: true,
    memoryIds: [expect.stringMatching(/^mem_/)],
    kinds: { memories: 1, turns: 1, keys: 1, documents: 1, vectors: 1, file_versions: 2 },
  });
  expect(what.records).toHaveLength(6);
  const after = bytes();
  expect(residueIn(after, { words: [own, "user-7"], vectors: [] })).toBe(0);
  expect(readAll("bob")).toEqual(stays);
  expect(readAll("ada")).toEqual({
    memories: [],
    turns: [expect.objectContaining({ content: '"nobody"' })],
    key: undefined,
    docs: [],
    vectors: [],
    versions: [],
  });
  expect(countFound(what, before)).toBeGreaterThan(5);
  expect(countFound(what, after)).toBe(0);
  expect(subjectsAfter(view(), "", 10)).toEqual(["user-8"]);
  expect(eraseSubject("user-7"), "the same coupon again").toEqual(what);
  expect(eraseSubject("user-7", "ers_2")).toMatchObject({ found: false });
});

test("a session in which nothing is left goes with the subject; one with others' turns stays", () => {
  write((tx) => {
    for (const [sessionId, subject] of [
      ["of ada alone", "ada"],
      ["of both", "ada"],
      ["of both", "bob"],
    ] as const)
      appendTurns(tx, { sessionId, turns: [{ role: "user", content: "1", subject }] });
    ingest(tx, { memories: [{ type: "event", summary: "x", content: "1", sessionId: "memories", subject: "ada" }] });
  });
  eraseSubject("ada");
  expect(listSessions(view(), {}).sessions.map(({ id }) => id)).toEqual(["of both"]);
  expect(database.connection.all("SELECT session_id FROM __service_turn_floor")).toEqual([{ session_id: "of both" }]);
});

test("a state that has it still, or again just as it was, holds it; another's of the same content does not", () => {
  writeAll("user-7", "ada", "tea");
  const ids = eraseSubject("user-7");
  const records = [{ target: { kind: "subject", subject: "user-7" } as const, ids: ids.records!, key }];
  const held = () => heldRecords(view(), { records }).held.length;
  expect(held()).toBe(0);
  write((tx) => kvPut(tx, { ns: "preferences", key: "ada's drink of choice", value: encoder.encode("tea") }));
  expect(held(), "not said to be the subject's").toBe(0);
  write((tx) => {
    const value = encoder.encode("tea");
    kvPut(tx, { ns: "preferences", key: "ada's drink of choice", value, subject: "user-7" });
  });
  expect(held()).toBe(1);
  expect(heldMemories(view(), { memoryIds: ids.memoryIds }).held).toEqual([]);
  expect([...recordWindows(view(), [records[0]!.target])].length).toBeGreaterThan(0);
});

test("memories of different subjects are different; the same of one subject is a duplicate", () => {
  const memory = { type: "event", summary: "likes tea", content: "1" };
  const status = (subject?: string) =>
    write((tx) => ingest(tx, { memories: [{ ...memory, ...(subject !== undefined && { subject }) }] })).results[0]!
      .status;
  expect([status(), status("a"), status("b"), status(), status("a")]).toEqual([
    "created",
    "created",
    "created",
    "duplicate",
    "duplicate",
  ]);
  expect(listMemories(view(), { subject: "a" }).memories).toMatchObject([{ subject: "a" }]);
  expect(eraseSubject("a").memoryIds).toHaveLength(1);
  expect(listMemories(view(), {}).memories).toHaveLength(2);
});

test("keys, documents and vectors keep their subject until another is named; files have one a version", () => {
  const of = (subject?: string) => (subject === undefined ? {} : { subject });
  const put = (subject?: string) =>
    write((tx) => {
      kvPut(tx, { ns: "n", key: "k", value: encoder.encode(String(subject)), ...of(subject) });
      putDoc(tx, { collection: "c", id: "d", doc: "{}", ...of(subject) });
      upsertVectors(tx, { collection: "v", vectors: [{ id: "x", embedding: Float32Array.of(1, 2), ...of(subject) }] });
      putFile(tx, { path: "f", text: `text ${subject}`, ...of(subject) });
    });
  const told = () => [
    kvList(view(), { ns: "n", include: "details" }).entries![0]!.subject,
    listVectors(view(), { collection: "v" }).vectors[0]!.subject,
    getFile(view(), { path: "f" }).subject,
  ];
  put("a");
  put();
  write((tx) => updateDocs(tx, { collection: "c", filter: "{}", update: '{"$set":{"n":1}}', multi: true }));
  expect(told()).toEqual(["a", "a", "a"]);
  put("b");
  expect(told()).toEqual(["b", "b", "b"]);
  put("");
  expect(told()).toEqual([undefined, undefined, undefined]);
  expect(eraseSubject("a").kinds).toEqual({ file_versions: 2 });
  expect(listFileVersions(view(), { path: "f" }).versions.map(({ version }) => version)).toEqual([4, 3]);
  expect(eraseSubject("b").kinds).toEqual({ file_versions: 1 });
  expect(getFile(view(), { path: "f" }).text).toBe("text ");
});

test("a file that is moved and ended takes its subject along, and its path is named nowhere afterwards", () => {
  write((tx) => putFile(tx, { path: "a/secret", text: "x", subject: "ada" }));
  write((tx) => putFile(tx, { path: "b", text: "of bob", subject: "bob" }));
  write((tx) => moveFiles(tx, { path: "a/secret", to: "b", overwrite: true }));
  write((tx) => deleteFiles(tx, { path: "b", recursive: false, purge: false }));
  expect(eraseSubject("ada").kinds).toEqual({ file_versions: 4 });
  expect(listFileVersions(view(), { path: "b" }).versions).toHaveLength(1);
  expect(bytes().includes("a/secret")).toBe(false);
});

test("too many records are refused and stay", () => {
  write((tx) => {
    for (let from = 0; from < 10_001; from += 1_000)
      appendTurns(tx, {
        sessionId: "s",
        turns: Array.from({ length: Math.min(1_000, 10_001 - from) }, () => ({
          role: "u",
          content: "1",
          subject: "a",
        })),
      });
  });
  expect(() => eraseSubject("a")).toThrow("more than 10000 records");
  expect(listTurns(view(), { sessionId: "s", subject: "a", limit: 5 }).turns).toHaveLength(5);
});

test("a subject of more bytes than a transaction's log holds is refused before anything is written", () => {
  const value = new Uint8Array((1 << 20) - 1_000).fill(7);
  for (let n = 0; n < 129; n++) write((tx) => kvPut(tx, { ns: "big", key: `k${n}`, value, subject: "a" }));
  expect(() => eraseSubject("a")).toThrow("the target's records have more than 134217728 bytes");
  expect(kvList(view(), { ns: "big", limit: 1_000 }).keys).toHaveLength(129);
  write((tx) => erase(tx, { couponId: "ers_one", target: { kind: "key", ns: "big", key: "k0" }, traceKey: key }));
  expect(eraseSubject("a")).toMatchObject({ found: true, kinds: { keys: 128 } });
  expect(kvList(view(), { ns: "big" }).keys).toEqual([]);
});

test("whatever removes a record removes its subject, and numbers that are given again have none", () => {
  const step = fc.record({ act: fc.integer({ min: 0, max: 9 }), n: fc.integer({ min: 0, max: 2 }) });
  fc.assert(
    fc.property(fc.array(step, { maxLength: 25 }), (steps) => {
      const fresh = new ModelDatabase();
      try {
        const run = (act: (tx: Tx) => unknown) => fresh.write((tx) => act({ ...tx, newId: () => ulid(fresh.nowMs) }));
        const memories: string[] = [];
        for (const { act, n } of steps) {
          fresh.nowMs += 1_000;
          const of = n === 0 ? {} : { subject: `s${n}` };
          run((tx) => {
            if (act === 0) kvPut(tx, { ns: "n", key: `k${n}`, value: encoder.encode(`${act}`), ttlSecs: n, ...of });
            else if (act === 1) kvSweep(tx, { rowsMax: 10 });
            else if (act === 2) appendTurns(tx, { sessionId: "s", turns: [{ role: "u", content: "1", ...of }] });
            else if (act === 3) deleteTurns(tx, { sessionId: "s", last: 1 });
            else if (act === 4) insertDocs(tx, { collection: `c${n}`, docs: ["{}"], ...of });
            else if (act === 5) deleteDocs(tx, { collection: `c${n}`, filter: "{}", multi: false });
            else if (act === 6) putFile(tx, { path: `f${n}`, text: String(fresh.nowMs), ...of });
            else if (act === 7) deleteFiles(tx, { path: `f${n}`, recursive: true, purge: n === 1 });
            else if (act === 8 || memories.length === 0) {
              const memory = { type: "event", summary: String(fresh.nowMs), content: "1", ...of };
              memories.push(ingest(tx, { memories: [memory] }).results[0]!.id);
            } else deleteMemory(tx, { id: memories.pop()! });
          });
          const stray = straySubjects(fresh.connection);
          expect(stray === undefined ? undefined : fresh.connection.get(stray)).toBeUndefined();
        }
      } finally {
        fresh.close();
      }
    }),
    { numRuns: 25 },
  );
});
