/** A database of memories for each test of a file, and what such tests write into it and ask of it. */
import { afterEach, beforeEach } from "vitest";
import { checkMemories, ingest, type IngestResult, type MemoryInput } from "../../src/model/memory/memory-ingest.ts";
import { memoryWords } from "../../src/model/memory/keyword.ts";
import { searchedWords } from "../../src/model/ranking/pending-index.ts";
import { getMemory } from "../../src/model/memory/stored-memories.ts";
import { recall, type RecallInput } from "../../src/model/recall.ts";
import { ModelDatabase } from "./model-database.ts";

/** A memory of which a test says only what matters to it. */
export type Draft = Partial<MemoryInput>;

export function draft({
  type = "fact",
  summary = "user prefers dark mode",
  content = "{}",
  ...more
}: Draft): MemoryInput {
  return { type, summary, content, ...more };
}

export interface MemoryDatabase {
  /** The database of the test that runs. */
  readonly database: () => ModelDatabase;
  /** Ingests them as one command, after the checks that a call goes through. */
  readonly ingestAll: (drafts: readonly Draft[], taskTtlMaxSecs?: number) => readonly IngestResult[];
  readonly ingestOne: (one: Draft) => IngestResult;
  /** Whether the ingest changed anything that would need a transaction id. */
  readonly changes: (one: Draft) => boolean;
  readonly get: (id: string) => ReturnType<typeof getMemory>;
  /** The ids of what a recall finds, the best first. */
  readonly recalled: (input: RecallInput) => readonly string[];
  /** How many rows a table has. */
  readonly rows: (table: string) => number;
  /** How many memories have words to be found by. */
  readonly worded: () => number;
}

/** A new database before each test of a file, closed after it. */
export function useMemoryDatabase(): MemoryDatabase {
  let database: ModelDatabase;
  beforeEach(() => {
    database = new ModelDatabase();
  });
  afterEach(() => database.close());
  const ingestAll: MemoryDatabase["ingestAll"] = (drafts, taskTtlMaxSecs) => {
    const memories = drafts.map(draft);
    checkMemories(memories);
    return database.write((tx) => ingest(tx, { memories, ...(taskTtlMaxSecs === undefined ? {} : { taskTtlMaxSecs }) }))
      .results;
  };
  return {
    database: () => database,
    ingestAll,
    ingestOne: (one) => ingestAll([one])[0]!,
    changes(one) {
      const outcome = database.group((tx) => ingest(tx, { memories: [draft(one)] }))[0]!;
      return outcome.kind === "done" && outcome.changed;
    },
    get: (id) => getMemory(database.view(), { id }),
    recalled: (input) => recall(database.view(), input).memories.map(({ id }) => id),
    rows: (table) => database.connection.get<{ n: number }>(`SELECT count(*) AS n FROM ${table}`)!.n,
    worded: () => searchedWords(database.connection, memoryWords).size().rows,
  };
}
