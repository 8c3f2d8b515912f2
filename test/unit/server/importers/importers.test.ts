/**
 * Memories of other programs, from files written by hand in their formats: what becomes of each, what is passed over,
 * and that all of it is taken, and nothing a second time.
 */
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import Database from "better-sqlite3";
import { expect, onTestFinished, test } from "vitest";
import { ForeignRecords } from "../../../../src/server/importers/foreign-records.ts";
import type { ImporterName } from "../../../../src/server/importers/importer-names.ts";
import { importers } from "../../../../src/server/importers/importers.ts";
import { ModelDatabase } from "../../../support/model-database.ts";
import { temporaryDirectory } from "../../../support/temporary.ts";
import { exportedLines, importLines, outcomesOf } from "../../../support/transferred.ts";

const timeMs = 1_700_000_000_000;

interface Made {
  readonly records: readonly Readonly<Record<string, unknown>>[];
  readonly skipped: Readonly<Record<string, number>>;
}

/** What the importer makes of the input, which a database has taken, and not taken again. */
function made(from: ImporterName, input: string): Made {
  const run = (): ReturnType<ForeignRecords["finish"]> => {
    const records = new ForeignRecords(from, timeMs);
    importers[from].run(input, records);
    return records.finish();
  };
  const { lines, skipped } = run();
  expect(run().lines).toEqual(lines);
  const database = new ModelDatabase();
  onTestFinished(() => database.close());
  expect(outcomesOf(importLines(database, lines))).toEqual({ created: lines.length });
  expect(outcomesOf(importLines(database, lines))).toEqual({ unchanged: lines.length });
  expect(exportedLines(database).lines.toSorted()).toEqual(lines.toSorted());
  return {
    records: lines.map((line) => JSON.parse(line) as Made["records"][number]),
    skipped: Object.fromEntries(skipped),
  };
}

const given = (name: string): string => readFileSync(join(import.meta.dirname, "given", name), "utf8");
const kindsOf = ({ records }: Made): readonly unknown[] => records.map(({ kind }) => kind);

test("the MCP memory server", () => {
  const result = made("server-memory", given("server-memory.jsonl"));
  expect(result.records).toMatchObject([
    {
      ...{ kind: "memory", type: "fact", topic_key: "entity.Ada", created_at: timeMs },
      summary: "Ada (person): likes tea; lives in London",
      content: { name: "Ada", entity_type: "person", observations: ["likes tea", "lives in London"] },
    },
    { kind: "memory", topic_key: "relation.Ada.works at.Acme", summary: "Ada works at Acme" },
  ]);
  expect(result.skipped).toEqual({
    "a line that is no JSON object": 1,
    "an entity without a name": 1,
    "a line of an unknown type": 1,
  });
});

test("mem0: the platform's export, and points of its vector store", () => {
  const result = made("mem0", given("mem0.json"));
  expect(kindsOf(result)).toEqual(["session", "memory"]);
  expect(result.records[1]).toMatchObject({
    ...{ type: "fact", summary: "Ada drinks tea", keywords: "food habits", session_id: "run-1", source: "helper" },
    created_at: Date.parse("2026-01-02T03:04:05.678-08:00"),
    metadata: { tag: "drink", user_id: "ada", imported_from: "mem0" },
  });
  expect(result.skipped).toEqual({ "a memory without its text or id": 1 });
  expect(made("mem0", given("qdrant.json")).records).toMatchObject([
    { kind: "memory", summary: "Ada likes the light theme", created_at: Date.parse("2026-01-02T03:04:05Z") },
  ]);
});

test("Letta's agent files", () => {
  const result = made("letta", given("letta.json"));
  expect(kindsOf(result)).toEqual(["session", "memory", "turn", "turn"]);
  expect(result.records.slice(1)).toMatchObject([
    { topic_key: "block.human", summary: "Ada, likes tea" },
    { session_id: "letta.helper", seq: 1, role: "user", content: "hello", turn_id: "message-0" },
    { session_id: "letta.helper", seq: 2, role: "assistant", content: "good morning" },
  ]);
  expect(result.skipped).toEqual({
    "a block without a label or a value": 1,
    "a message without text": 1,
    "tools: not memories": 1,
  });
});

test("conversations of ChatGPT: the path to the current message", () => {
  const result = made("chatgpt", given("chatgpt.json"));
  expect(kindsOf(result)).toEqual(["session", "memory", "turn", "turn"]);
  expect(result.records.slice(1)).toMatchObject([
    { type: "event", summary: "Conversation: Tea", session_id: "chatgpt.c-1", created_at: 1_767_323_045_500 },
    { role: "user", content: "which tea?" },
    { role: "assistant", content: "green", created_at: 1_767_323_048_000 },
  ]);
  expect(result.skipped).toEqual({
    "a message of a branch that was left": 1,
    "a conversation without an id or messages": 1,
  });
});

test("conversations of Claude", () => {
  const result = made("claude", given("claude.json"));
  expect(result.records.slice(1)).toMatchObject([
    { summary: "Conversation: Tea", session_id: "claude.u-1" },
    { role: "user", content: "which tea?", turn_id: "m-1" },
    { role: "assistant", content: "green", created_at: Date.parse("2026-01-02T03:04:06Z") },
  ]);
  expect(result.skipped).toEqual({ "a message without text": 1 });
});

test("LangGraph's SQLite store, and mem0's history", () => {
  const folder = temporaryDirectory();
  const store = join(folder, "store.db");
  const graph = new Database(store);
  graph.exec(`
    CREATE TABLE store (prefix TEXT, key TEXT, value TEXT, created_at TEXT, updated_at TEXT, expires_at TEXT,
      ttl_minutes REAL, PRIMARY KEY (prefix, key));
    INSERT INTO store (prefix, key, value, created_at) VALUES
      ('users.ada', 'theme', '{"value":"light"}', '2026-01-02 03:04:05'), ('users.ada', 'bad', 'no json', NULL);
    CREATE TABLE checkpoints (thread_id TEXT);
    INSERT INTO checkpoints VALUES ('t-1');
  `);
  graph.close();
  const items = made("langgraph", store);
  expect(items.records).toMatchObject([
    {
      ...{
        topic_key: "lg:users.ada/theme",
        content: { value: "light" },
        metadata: { ns: ["users", "ada"], key: "theme" },
      },
      created_at: Date.parse("2026-01-02T03:04:05Z"),
    },
  ]);
  expect(items.skipped).toEqual({
    "an item without a key or a JSON value": 1,
    "checkpoints: state of a graph, no memory": 1,
  });
  const history = join(folder, "history.db");
  const mem0 = new Database(history);
  mem0.exec(`
    CREATE TABLE history (id TEXT PRIMARY KEY, memory_id TEXT, old_memory TEXT, new_memory TEXT, event TEXT,
      created_at DATETIME, updated_at DATETIME, is_deleted INTEGER, actor_id TEXT, role TEXT);
    INSERT INTO history VALUES
      ('1', 'm-1', NULL, 'dark theme', 'ADD', '2026-01-01T00:00:00Z', NULL, 0, NULL, NULL),
      ('2', 'm-1', 'dark theme', 'light theme', 'UPDATE',
       '2026-01-01T00:00:00Z', '2026-01-02T00:00:00Z', 0, NULL, NULL),
      ('3', 'm-2', NULL, 'gone', 'ADD', '2026-01-01T00:00:00Z', NULL, 0, NULL, NULL),
      ('4', 'm-2', 'gone', NULL, 'DELETE', '2026-01-02T00:00:00Z', NULL, 1, NULL, NULL);
  `);
  mem0.close();
  const versions = made("mem0-history", history);
  expect(versions.records).toMatchObject([
    { summary: "dark theme", superseded_at: Date.parse("2026-01-02T00:00:00Z") },
    { summary: "light theme" },
  ]);
  expect(versions.records[0]!["superseded_by"]).toBe(versions.records[1]!["id"]);
  expect(versions.skipped).toEqual({ "a memory that was deleted": 1 });
});

test("texts that agents are told by become files, and their sections instructions", () => {
  const folder = temporaryDirectory();
  mkdirSync(join(folder, "docs"));
  writeFileSync(
    join(folder, "CLAUDE.md"),
    "Be brief.\n\n# Style\n\nTabs.\n```\n# not a heading\n```\n## Tests\nRun them.\n",
  );
  writeFileSync(join(folder, "docs", "notes.md"), "# Notes\n");
  writeFileSync(join(folder, "empty.md"), "");
  writeFileSync(join(folder, "image.png"), "x");
  const result = made("texts", folder);
  expect(result.records.map(({ kind, path, topic_key }) => [kind, path ?? topic_key])).toEqual([
    ["file", "CLAUDE.md"],
    ["memory", "CLAUDE.md#"],
    ["memory", "CLAUDE.md#Style"],
    ["memory", "CLAUDE.md#Tests"],
    ["file", "docs/notes.md"],
  ]);
  expect(result.records[2]).toMatchObject({ summary: "Style: Tabs.\n```\n# not a heading\n```" });
  expect(result.skipped).toEqual({ "an empty file": 1 });
});
