/** memory-25: a database file of an older format stays readable, and reading it changes nothing. */
import { copyFileSync, mkdirSync, readFileSync } from "node:fs";
import { hash } from "node:crypto";
import { join } from "node:path";
import { expect, test } from "vitest";
import { StoreError } from "../../src/base/faults/errors.ts";
import { limits } from "../../src/base/limits.ts";
import { formats } from "../../src/format/core/versions.ts";
import { runRead, type ReadInput, type ReadKind, type ReadOutput } from "../../src/model/commands.ts";
import { readState, schemaFormat } from "../../src/model/schema.ts";
import type { View } from "../../src/model/core/transaction.ts";
import { VectorCache } from "../../src/model/index/vector-index.ts";
import { Connection } from "../../src/sqlite/connection/connection.ts";
import { goldenDatabasePath, goldenStartMs, goldenTxid, writeGolden } from "../support/make-golden.ts";
import { startService } from "../support/service.ts";
import { temporaryDirectory } from "../support/temporary.ts";

const everyFormat = formats.database.reads;

function copyGolden(format: number = schemaFormat): string {
  const path = join(temporaryDirectory(), "main.db");
  copyFileSync(goldenDatabasePath(format), path);
  return path;
}

function open(path: string, readonly: boolean): Connection {
  return new Connection(path, { readonly, pageCacheKiB: limits.pageCacheKiB });
}

const digest = (path: string): string => hash("sha256", readFileSync(path));

/** Reads the golden database a minute after its first commit. */
function reader(
  connection: Connection,
): <Kind extends ReadKind>(kind: Kind, input: ReadInput<Kind>) => ReadOutput<Kind> {
  const view: View = { connection, nowMs: goldenStartMs + 60_000, vectors: new VectorCache() };
  return (kind, input) => runRead(kind, view, input) as never;
}

test.each(everyFormat.flatMap((format) => [true, false].map((readonly) => ({ format, readonly }))))(
  "memory-25: every model reads the file of format $format (read-only: $readonly), and no byte of it changes",
  ({ format, readonly }) => {
    const path = copyGolden(format);
    const before = digest(path);
    const connection = open(path, readonly);
    expect(readState(connection)).toEqual({
      txid: goldenTxid,
      committedAtMs: goldenStartMs + (goldenTxid - 1) * 1_000,
    });
    const read = reader(connection);
    const chain = read("memory.recall", { topicKey: "ui.theme", includeSuperseded: true }).memories;
    expect(chain.map(({ summary, content, createdAt }) => [summary, content, createdAt])).toEqual([
      ["The user prefers the light theme", '{"theme":"light","id":9007199254740993}', goldenStartMs + 1_000],
      ["The user prefers the dark theme", '{"theme":"dark","id":9007199254740993}', goldenStartMs],
    ]);
    expect(read("memory.get", { id: chain[0]!.id })).toMatchObject({
      keywords: "appearance colours",
      sessionId: "s-1",
      source: "planner",
      supersededBy: null,
      supersedes: [chain[1]!.id],
    });
    expect(read("memory.recall", { query: "Lima" }).memories.map(({ type, channels }) => [type, channels])).toEqual([
      ["event", ["keyword"]],
    ]);
    expect(
      read("memory.recall", { embedding: Float32Array.from([0, 1, 0]) }).memories.map(({ summary }) => summary),
    ).toEqual(["The user prefers the light theme"]);
    expect(read("memory.recall", { query: "ferns" }).memories[0]).toMatchObject({
      type: "task",
      expiresAt: goldenStartMs + 3_600_000,
    });
    expect(read("session.list", {}).sessions).toEqual([
      { id: "s-1", createdAt: goldenStartMs, lastActiveAt: goldenStartMs + 3_000 },
    ]);
    expect(read("turn.last", { sessionId: "s-1" }).turns.map(({ seq, role, content }) => [seq, role, content])).toEqual(
      [
        [1, "user", '{"text":"hello"}'],
        [2, "assistant", '"good day"'],
      ],
    );
    expect(
      read("turn.search", { sessionId: "s-1", vector: Float32Array.from([0.6, 0.8]) }).turns[0]!.distance,
    ).toBeCloseTo(0, 6);
    expect(Array.from(read("kv.get", { ns: "n", key: "bytes" })!.value)).toEqual([0, 1, 254, 255]);
    expect(read("kv.list", { ns: "n" }).keys).toEqual(["bytes", "passing"]);
    expect(read("docs.find", { collection: "People", filter: '{"address.city":"Rome"}' }).docs).toEqual([
      '{"_id":"ann","n":18446744073709551615,"address":{"city":"Rome"}}',
    ]);
    expect(read("docs.find", { collection: "People", filter: '{"tags":1.5}' }).docs).toEqual([
      '{"_id":"bob","tags":["a",null,1.5]}',
    ]);
    expect(
      read("vector.search", { collection: "shapes", vector: Float32Array.from([1, 0.1]) }).hits.map(({ id }) => id),
    ).toEqual(["east", "north"]);
    expect(connection.all("SELECT * FROM measured")).toEqual([
      { at: 1, value: 0.5 },
      { at: 2, value: null },
    ]);
    expect(connection.raw.pragma("integrity_check", { simple: true })).toBe("ok");
    connection.close();
    expect(digest(path)).toBe(before);
  },
);

interface Installed {
  readonly db: string;
  readonly path: string;
}

/** Puts a file in the place of a database that a node has not opened yet. */
async function install(service: Awaited<ReturnType<typeof startService>>, file: string): Promise<Installed> {
  const db = await service.database();
  const { databases } = (await service.call("GET", "/v1/databases")).json as {
    databases: { name: string; uuid: string }[];
  };
  const directory = join(service.directory, "db", databases.find(({ name }) => name === db)!.uuid);
  mkdirSync(directory, { recursive: true });
  const path = join(directory, "main.db");
  copyFileSync(file, path);
  return { db, path };
}

/** What has expired is swept from a file as soon as it is open: here nothing does, for many thousand years. */
function postponeExpiries(path: string): void {
  const connection = open(path, false);
  for (const table of ["__service_memory", "__service_kv"])
    connection.run(`UPDATE ${table} SET expires_at = 8000000000000000 WHERE expires_at IS NOT NULL`);
  connection.close();
}

test.each(everyFormat)("memory-25: a node serves the file of format %s, and writes only when asked", async (format) => {
  const directory = join(temporaryDirectory(), "data");
  let service = await startService({}, directory);
  const { db, path } = await install(service, goldenDatabasePath(format));
  postponeExpiries(path);
  const before = digest(path);
  const value = await service.call("GET", `/v1/db/${db}/kv/n/bytes`);
  expect([value.status, value.headers.get("service-txid")]).toEqual([200, String(goldenTxid)]);
  const { json } = await service.call("POST", `/v1/db/${db}/sql`, { stmts: [{ q: "SELECT value FROM measured" }] });
  expect(json.results[0].rows).toEqual([[0.5], [null]]);
  await service.close();
  expect(digest(path)).toBe(before);
  service = await startService({}, directory);
  const put = await service.call("PUT", `/v1/db/${db}/kv/n/new`, "x", { "content-type": "text/plain" });
  expect([put.status, put.json.txid]).toEqual([200, goldenTxid + 1]);
  expect((await service.call("POST", `/v1/db/${db}/docs/People/find`, {})).json.docs).toHaveLength(2);
  await service.close();
  expect(digest(path)).not.toBe(before);
});

test("memory-25: a file of a newer format is refused, and hurts no other database", async () => {
  const path = copyGolden();
  const connection = open(path, false);
  connection.run("UPDATE __service_state SET format = ?", BigInt(schemaFormat + 1));
  connection.raw.pragma("wal_checkpoint(TRUNCATE)");
  const refusal = (): unknown => {
    try {
      return readState(connection);
    } catch (error) {
      return error;
    }
  };
  expect(refusal()).toBeInstanceOf(StoreError);
  expect(refusal()).toMatchObject({
    kind: "misconfigured",
    message: expect.stringContaining(String(schemaFormat + 1)),
  });
  connection.close();
  const service = await startService();
  const { db, path: installed } = await install(service, path);
  const before = digest(installed);
  const { status, json } = await service.call("GET", `/v1/db/${db}/kv/n/bytes`);
  expect([status, json.code]).toEqual([503, "unavailable"]);
  const other = await service.database();
  expect((await service.call("PUT", `/v1/db/${other}/kv/n/k`, "v", { "content-type": "text/plain" })).status).toBe(200);
  expect(digest(installed)).toBe(before);
  await service.close();
});

test.each(everyFormat)("the tables are those of the golden file for as long as the format is %s", (format) => {
  // But for the words of turns and the index of instructions, which are made when the first one comes: files from
  // before them have none.
  const readSchema = (connection: Connection): unknown =>
    connection.all(
      "SELECT type, name, tbl_name, sql FROM sqlite_schema WHERE name GLOB '__service_*' AND name NOT GLOB " +
        "'__service_turn_text*' AND name <> '__service_memory_instruction' ORDER BY type, name",
    );
  const golden = open(copyGolden(format), true);
  const freshPath = join(temporaryDirectory(), "main.db");
  writeGolden(freshPath, format);
  const fresh = open(freshPath, true);
  expect(
    readSchema(fresh),
    "the tables have changed: raise schemaFormat, keep reading the old one, add a golden file",
  ).toEqual(readSchema(golden));
  for (const connection of [golden, fresh]) connection.close();
});
