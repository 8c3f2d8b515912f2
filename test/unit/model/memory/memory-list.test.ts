/** Lists of memories: pages that miss none and repeat none, conditions, refusals; and forgetting many at once. */
import fc from "fast-check";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import {
  checkDeletion,
  checkList,
  deleteMemories,
  listMemories,
  type ListInput,
  memoriesListDefault,
  memoriesLooksMax,
} from "../../../../src/model/memory/memory-list.ts";
import { memoryWords } from "../../../../src/model/memory/keyword.ts";
import { searchedWords } from "../../../../src/model/ranking/pending-index.ts";
import { ingest, type MemoryInput } from "../../../../src/model/memory/memory-ingest.ts";
import { deleteMemory, getMemory } from "../../../../src/model/memory/stored-memories.ts";
import { refusal } from "../../../support/docs-collection.ts";
import { ModelDatabase } from "../../../support/model-database.ts";
import { contentBytesMax } from "../../../../src/model/core/content.ts";

let database: ModelDatabase;

beforeEach(() => {
  database = new ModelDatabase();
});

afterEach(() => database.close());

type Draft = Partial<MemoryInput> & { readonly summary: string };

function say(...drafts: readonly Draft[]): string[] {
  const memories = drafts.map((draft) => ({ type: "event", content: "null", ...draft }));
  return database.write((tx) => ingest(tx, { memories })).results.map(({ id }) => id);
}

const many = (count: number, draft: (at: number) => Partial<MemoryInput> = () => ({})): string[] =>
  say(...Array.from({ length: count }, (_, at) => ({ summary: `number ${at}`, ...draft(at) })));

function page(input: ListInput = {}) {
  checkList(input);
  return listMemories(database.view(), input);
}

const summaries = (input: ListInput = {}): string[] => page(input).memories.map(({ summary }) => summary);

function forgetAll(input: ListInput) {
  checkDeletion(input);
  return database.write((tx) => deleteMemories(tx, input));
}

/** All pages one after the other; `between` happens after each. */
function listed(input: ListInput, between: () => void = () => {}): string[] {
  const ids: string[] = [];
  for (let cursor: string | undefined; ;) {
    const { memories, nextCursor } = page({ ...input, ...(cursor !== undefined && { cursor }) });
    ids.push(...memories.map(({ id }) => id));
    if (nextCursor === undefined) return ids;
    cursor = nextCursor;
    between();
  }
}

describe("order and pages", () => {
  test("newest first, or oldest first when asked; 50 when nobody says how many", () => {
    const ids = many(60);
    expect(page().memories.map(({ id }) => id)).toEqual(ids.toReversed().slice(0, memoriesListDefault));
    expect(page({ order: "asc", limit: 3 }).memories.map(({ id }) => id)).toEqual(ids.slice(0, 3));
    expect(page({ limit: 60 })).not.toHaveProperty("nextCursor");
    expect(page({ limit: 59 })).toHaveProperty("nextCursor");
    expect(page({ limit: 4_000_000_000 }).memories).toHaveLength(60);
  });

  test("a memory is listed as a get gives it, but for what it superseded", () => {
    say({
      summary: "heron",
      type: "fact",
      topicKey: "t",
      content: '{"n":9007199254740993}',
      keywords: "bird",
      sessionId: "s",
      source: "me",
      metadata: '{"a":1}',
    });
    const [memory] = page().memories;
    const { supersedes, ...got } = getMemory(database.view(), { id: memory!.id })!;
    expect([memory, supersedes]).toEqual([got, []]);
  });

  test("an empty database has none", () => {
    expect([page(), page({ order: "asc", createdFromMs: 3, createdToMs: 5 })]).toEqual([
      { memories: [] },
      { memories: [] },
    ]);
  });

  test("pages of any size give each memory once, in order, and miss none that stays, whatever is written", () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 40 }),
        fc.integer({ min: 1, max: 12 }),
        fc.constantFrom("asc", "desc"),
        fc.array(fc.tuple(fc.boolean(), fc.nat()), { maxLength: 30 }),
        (count, limit, order, writes) => {
          const fresh = new ModelDatabase();
          const before = database;
          database = fresh;
          try {
            const ids = many(count);
            const gone = new Set<string>();
            const later = [...ids];
            const inOrder = (all: readonly string[]): readonly string[] => (order === "asc" ? all : all.toReversed());
            const found = listed({ limit, order }, () => {
              const [adds, at] = writes.pop() ?? [false, 0];
              if (adds) return void later.push(...say({ summary: `later ${later.length}` }));
              // Often the newest: then its row number is given again.
              const id = at % 2 === 0 ? later.findLast((one) => !gone.has(one)) : later[at % later.length];
              if (id === undefined) return;
              fresh.write((tx) => deleteMemory(tx, { id }));
              gone.add(id);
            });
            expect(found).toEqual(inOrder(later).filter((id) => found.includes(id)));
            expect(ids.filter((id) => !gone.has(id) && !found.includes(id))).toEqual([]);
          } finally {
            database = before;
            fresh.close();
          }
        },
      ),
      { numRuns: 40 },
    );
  });

  test("an oldest-first listing goes on with the memory that was given the number of its last one", () => {
    const ids = many(3);
    const { nextCursor } = page({ order: "asc", limit: 2 });
    for (const id of ids.slice(1)) database.write((tx) => deleteMemory(tx, { id }));
    const [later] = say({ summary: "later" });
    expect(page({ order: "asc", cursor: nextCursor! }).memories.map(({ id }) => id)).toEqual([later]);
  });

  test("a page ends when it has bytes enough, and has at least one memory", () => {
    const content = JSON.stringify("x".repeat(contentBytesMax - 2));
    const ids = many(4, (at) => ({ content, source: String(at) }));
    const first = page({ limit: 10 });
    expect([first.memories.map(({ id }) => id), first.nextCursor === undefined]).toEqual([ids.slice(3), false]);
    expect(listed({ limit: 10 })).toEqual(ids.toReversed());
    const small = many(300, (at) => ({
      keywords: "k".repeat(8_000),
      metadata: `{"a":"${"x".repeat(8_000)}"}`,
      source: `s${at}`,
    }));
    const { memories } = page({ limit: 1_000 });
    expect(memories.length).toBeGreaterThan(100);
    expect(memories.length).toBeLessThan(small.length / 2);
  });

  test("a page that has looked at enough memories ends, and the next one goes on", () => {
    const rare = say({ summary: "rare", type: "instruction", metadata: '{"rare":true}' });
    for (let at = 0; at < memoriesLooksMax + 1_000; at += 1_000) many(1_000, (n) => ({ summary: `common ${at + n}` }));
    for (const input of [{ types: ["instruction"] }, { filter: '{"rare":true}' }]) {
      const { memories, nextCursor } = page(input);
      expect([memories, typeof nextCursor]).toEqual([[], "string"]);
      expect(page({ ...input, cursor: nextCursor! })).toMatchObject({ memories: [{ id: rare[0] }] });
      expect(listed(input)).toEqual(rare);
    }
    expect(listed({ limit: 1_000, types: ["event"] })).toHaveLength(memoriesLooksMax + 1_000);
  });
});

describe("conditions", () => {
  test("types, topic, session, source, superseded and expired", () => {
    say(
      { summary: "old", type: "fact", topicKey: "t" },
      { summary: "new", type: "fact", topicKey: "t" },
      { summary: "rule", type: "instruction", topicKey: "t" },
      { summary: "other", type: "fact", topicKey: "u" },
    );
    say(
      { summary: "a in s", sessionId: "s", source: "a" },
      { summary: "b", source: "b" },
      { summary: "task", type: "task", ttlSecs: 1, sessionId: "s", source: "a" },
    );
    say({ summary: "a in s", sessionId: "s2", source: "b" });
    expect(summaries()).toEqual(["task", "b", "a in s", "other", "rule", "new"]);
    expect(summaries({ includeSuperseded: true, types: ["fact"] })).toEqual(["other", "new", "old"]);
    expect([summaries({ types: [] }), summaries({ types: ["task", "instruction"] })]).toEqual([[], ["task", "rule"]]);
    expect([
      summaries({ topicKey: "t" }),
      summaries({ topicKey: "t", includeSuperseded: true, order: "asc" }),
      summaries({ topicKey: "none" }),
    ]).toEqual([["rule", "new"], ["old", "new", "rule"], []]);
    expect([
      summaries({ sessionId: "s" }),
      summaries({ sessionId: "s2" }),
      summaries({ sessionId: "s", source: "a" }),
      summaries({ sessionId: "s", source: "b" }),
    ]).toEqual([["task", "a in s"], ["a in s"], ["task", "a in s"], []]);
    expect([summaries({ source: "b" }), summaries({ topicKey: "t", sessionId: "s" })]).toEqual([["b", "a in s"], []]);
    database.nowMs += 1_000;
    expect([summaries({ sessionId: "s" }), summaries({ types: ["task"] })]).toEqual([["a in s"], []]);
  });

  test("times are from, inclusive, to, exclusive, wherever memories are missing between", () => {
    const times: number[] = [];
    for (let at = 0; at < 40; at++) {
      database.nowMs += at % 3 === 0 ? 0 : 10 * at;
      times.push(database.nowMs);
      say({ summary: String(at) });
    }
    const kept = times.map((time, at) => ({ time, at })).filter(({ at }) => at % 4 !== 1);
    for (let at = 1; at < 40; at += 4)
      forgetAll({ createdFromMs: times[at]!, createdToMs: times[at]! + 1, filter: "{}", limit: 1_000 });
    const survivors = kept.filter(({ time }) => !times.some((other, at) => at % 4 === 1 && other === time));
    for (const from of [undefined, 0, times[0]!, times[7]! + 1, times[20]!, times[39]!, times[39]! + 1]) {
      for (const to of [undefined, 0, times[3]!, times[20]!, times[21]!, times[39]! + 1]) {
        if ((from ?? 0) >= (to ?? Infinity)) continue;
        const expected = survivors
          .filter(({ time }) => time >= (from ?? 0) && time < (to ?? Infinity))
          .map(({ at }) => String(at));
        const input = {
          ...(from !== undefined && { createdFromMs: from }),
          ...(to !== undefined && { createdToMs: to }),
        };
        expect(summaries({ ...input, order: "asc" }), `${from} ${to}`).toEqual(expected);
        expect(listed({ ...input, limit: 3 })).toHaveLength(expected.length);
      }
    }
  });

  test("a filter over metadata counts one without as empty, with every other condition", () => {
    say(
      { summary: "a", metadata: '{"v":1}', sessionId: "s" },
      { summary: "b", metadata: '{"v":2}' },
      { summary: "c", sessionId: "s" },
    );
    expect([
      summaries({ filter: '{"v":1}' }),
      summaries({ filter: '{"v":{"$ne":1}}' }),
      summaries({ filter: '{"v":{"$ne":1}}', sessionId: "s" }),
    ]).toEqual([["a"], ["c", "b"], ["c"]]);
  });
});

describe("what is refused", () => {
  const encodeCursor = (text: string): string => Buffer.from(text).toString("base64url");
  const bad = "cursor must be the next_cursor of an earlier page in the same order";

  test.each<[ListInput, string]>([
    [{ types: ["facts"] }, "types must be among"],
    [{ topicKey: "" }, "topic_key"],
    [{ sessionId: "x".repeat(200) }, "session_id"],
    [{ source: "x".repeat(300) }, "source"],
    [{ createdFromMs: -1 }, "since must be a time"],
    [{ createdToMs: 2 ** 53 }, "until must be a time"],
    [{ createdFromMs: 5, createdToMs: 5 }, "since must be before until"],
    [{ order: "newest" }, "order must be desc, newest first, or asc, oldest first"],
    [{ limit: 0 }, "limit must be a whole number from 1"],
    [{ filter: '{"a":{"$x":1}}' }, "filter.a.$x is not an operator"],
    [{ filter: "" }, "filter must be valid JSON"],
    [{ cursor: "" }, bad],
    [{ cursor: "!!!" }, bad],
    [{ cursor: encodeCursor("a5 mem_x") }, bad],
    [{ cursor: encodeCursor("d5") }, bad],
    [{ cursor: encodeCursor("d05 mem_x") }, bad],
    [{ cursor: encodeCursor("d-5 mem_x") }, bad],
    [{ cursor: encodeCursor("d9999999999999999 mem_x") }, bad],
    [{ cursor: `${encodeCursor("d5 mem_x")}=` }, bad],
  ])("%j", (input, message) => {
    expect(refusal(() => checkList(input))).toContain(`invalid_request: ${message}`);
    expect(refusal(() => checkDeletion({ filter: "{}", ...input }))).toContain(`invalid_request: ${message}`);
  });
});

describe("forgetting many", () => {
  test("forgets exactly what is listed with the same conditions, and nothing of what stays", () => {
    say(
      { summary: "old", type: "fact", topicKey: "t", metadata: '{"v":1}' },
      { summary: "new", type: "fact", topicKey: "t", metadata: '{"v":1}' },
      { summary: "kept", metadata: '{"v":2}' },
      { summary: "bare" },
    );
    const { memories } = page({ filter: '{"v":1}' });
    expect(forgetAll({ filter: '{"v":1}' })).toEqual({ ids: memories.map(({ id }) => id) });
    expect(summaries({ includeSuperseded: true })).toEqual(["bare", "kept", "old"]);
    expect(forgetAll({ filter: '{"v":1}' })).toEqual({ ids: [] });
    expect(forgetAll({ filter: '{"v":1}', includeSuperseded: true }).ids).toHaveLength(1);
    expect(database.connection.all("SELECT memory FROM __service_memory_metadata")).toEqual([{ memory: 3 }]);
    expect(searchedWords(database.connection, memoryWords).firstRows(9)).toEqual([3, 4]);
  });

  test("goes on from its cursor until all are gone", () => {
    const ids = many(25, (at) => ({ source: at % 2 === 0 ? "even" : "odd" }));
    const gone: string[] = [];
    let calls = 0;
    for (let cursor: string | undefined; ; calls++) {
      const answer = forgetAll({ source: "even", limit: 4, ...(cursor !== undefined && { cursor }) });
      expect(answer.ids.length).toBeLessThanOrEqual(4);
      gone.push(...answer.ids);
      cursor = answer.nextCursor;
      if (cursor === undefined) break;
    }
    expect([gone, calls]).toEqual([ids.toReversed().filter((_, at) => at % 2 === 0), 3]);
    expect(page({ limit: 100 }).memories).toHaveLength(12);
  });

  test("an empty filter is a condition and holds of all; none at all is refused, whatever else is said", () => {
    many(3);
    for (const input of [{}, { limit: 5 }, { includeSuperseded: true }])
      expect(refusal(() => checkDeletion(input))).toContain("invalid_request: give at least one of types, topic_key,");
    expect(forgetAll({ filter: "{}" }).ids).toHaveLength(3);
  });
});
