/** The newest memories of a type: instructions whatever their age, facts among the newest and those with a topic. */
import { afterEach, beforeEach, expect, test } from "vitest";
import { ingest, type MemoryInput } from "../../../../src/model/memory/memory-ingest.ts";
import { latestLooksMax, latestMemories } from "../../../../src/model/memory/latest-memories.ts";
import { deleteMemory } from "../../../../src/model/memory/stored-memories.ts";
import { ModelDatabase } from "../../../support/model-database.ts";

let database: ModelDatabase;

beforeEach(() => {
  database = new ModelDatabase();
});

afterEach(() => database.close());

function say(...drafts: (Partial<MemoryInput> & { summary: string })[]): string[] {
  const memories = drafts.map((draft) => ({ type: "event", content: "null", ...draft }));
  return database.write((tx) => ingest(tx, { memories })).results.map(({ id }) => id);
}

function latest(type: "fact" | "instruction", most = 10) {
  const { memories, more } = latestMemories(database.view(), type, most, database.nowMs);
  return { ids: memories.map(({ id }) => id), more };
}

/** Many rows at once, as no test has the time to ingest them. */
function crowd(rows: number): void {
  database.connection.run(
    `INSERT INTO __service_memory (id, type, created_at, fingerprint, summary, content)
     WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?)
     SELECT 'mem_' || hex(randomblob(8)), 'event', 1, randomblob(32), 'crowd', 'null' FROM n`,
    rows,
  );
}

const plan = (sql: string): string =>
  database.connection
    .all<{ detail: string }>(`EXPLAIN QUERY PLAN ${sql}`)
    .map(({ detail }) => detail)
    .join("; ");

test("instructions are found whatever their age, without a look at what came since", () => {
  const [first] = say({ summary: "be brief", type: "instruction" });
  crowd(2 * latestLooksMax);
  const [second] = say({ summary: "be kind", type: "instruction" });
  expect(latest("instruction")).toEqual({ ids: [second, first], more: false });
  expect(latest("instruction", 1)).toEqual({ ids: [second], more: true });
  expect(
    plan(
      `SELECT m.row FROM __service_memory AS m INDEXED BY __service_memory_instruction
       WHERE m.type = 'instruction' AND m.superseded_by IS NULL ORDER BY m.row DESC`,
    ),
  ).toBe("SEARCH m USING INDEX __service_memory_instruction (type=?)");
});

test("superseded, forgotten and other memories are not among them", () => {
  const topic = { type: "instruction", topicKey: "style" };
  const [, gone] = say(
    { summary: "a", ...topic },
    { summary: "b", type: "instruction" },
    { summary: "c", type: "fact" },
  );
  const [current] = say({ summary: "d", ...topic });
  database.write((tx) => deleteMemory(tx, { id: gone! }));
  expect(latest("instruction")).toEqual({ ids: [current], more: false });
});

test("a file without the index gives the newest instructions, and those with a topic", () => {
  const [old, withTopic] = say(
    { summary: "be brief", type: "instruction" },
    { summary: "be kind", type: "instruction", topicKey: "style" },
  );
  const [fresh] = say({ summary: "be true", type: "instruction" });
  database.connection.exec("DROP INDEX __service_memory_instruction");
  expect(latest("instruction")).toEqual({ ids: [fresh, withTopic, old], more: false });
  crowd(latestLooksMax - 1);
  expect(latest("instruction")).toEqual({ ids: [fresh, withTopic], more: true });
  // The next one brings the index, and with it all of them.
  const [next] = say({ summary: "be there", type: "instruction" });
  expect(latest("instruction")).toEqual({ ids: [next, fresh, withTopic, old], more: false });
});

test("facts are the newest among the last memories, and of older ones those with a topic", () => {
  const [plain, withTopic] = say({ summary: "x", type: "fact" }, { summary: "y", type: "fact", topicKey: "y" });
  expect(latest("fact")).toEqual({ ids: [withTopic, plain], more: false });
  expect(latest("fact", 1)).toEqual({ ids: [withTopic], more: true });
  crowd(latestLooksMax);
  const [fresh] = say({ summary: "z", type: "fact" });
  expect(latest("fact")).toEqual({ ids: [fresh, withTopic], more: true });
});
