/** Metadata of memories: kept digit by digit, gone with its memory, and filtered by as a document is. */
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { erase } from "../../../../src/model/erasure.ts";
import {
  checkMemories,
  ingest,
  type IngestResult,
  type MemoryInput,
} from "../../../../src/model/memory/memory-ingest.ts";
import { deleteMemory, getMemory, sweepMemories } from "../../../../src/model/memory/stored-memories.ts";
import { strayMetadata, metadataBytesMax } from "../../../../src/model/docs/memory-metadata.ts";
import { checkRecall, recall, type RecallInput } from "../../../../src/model/recall.ts";
import { refusal } from "../../../support/docs-collection.ts";
import { matches, plainText, type PlainDoc } from "../../../support/docs-oracle.ts";
import { ModelDatabase } from "../../../support/model-database.ts";
import { seeded } from "../../../support/random.ts";

let database: ModelDatabase;

beforeEach(() => {
  database = new ModelDatabase();
});

afterEach(() => database.close());

type Draft = Partial<MemoryInput> & { readonly summary: string };

function say(...drafts: readonly Draft[]): IngestResult[] {
  const memories = drafts.map((draft) => ({ type: "event", content: "null", ...draft }));
  checkMemories(memories);
  // Ids as long as real ones: an erasure looks for them.
  return database.write((tx) => ingest({ ...tx, newId: () => tx.newId().replace("id-", "0".repeat(18)) }, { memories }))
    .results;
}

const ingestOne = (...drafts: readonly Draft[]): string => say(...drafts)[0]!.id;
const readMetadata = (id: string): string | undefined => getMemory(database.view(), { id })!.metadata;
const vector = (...values: number[]): Float32Array => Float32Array.from(values);

function ask(input: RecallInput) {
  checkRecall(input);
  return recall(database.view(), input).memories;
}

function rows(): { memory: number; id: string; metadata: string }[] {
  return database.connection.hasTable("__service_memory_metadata")
    ? database.connection.all("SELECT * FROM __service_memory_metadata ORDER BY memory")
    : [];
}

describe("metadata", () => {
  test("is given back digit by digit by get and recall, and not at all where there was none", () => {
    const metadata = '{"big":9007199254740993,"one":1.0,"deep":{"tags":["a","b"]},"__proto__":{"x":1}}';
    const tagged = ingestOne({ summary: "a tagged heron", metadata });
    const empty = ingestOne({ summary: "an empty heron", metadata: "{}" });
    const bare = ingestOne({ summary: "a bare heron" });
    expect([readMetadata(tagged), readMetadata(empty)]).toEqual([metadata, "{}"]);
    expect(getMemory(database.view(), { id: bare })).not.toHaveProperty("metadata");
    const found = new Map(ask({ query: "heron" }).map((memory) => [memory.id, memory]));
    expect([found.get(tagged)!.metadata, found.get(empty)!.metadata]).toEqual([metadata, "{}"]);
    expect(found.get(bare)).not.toHaveProperty("metadata");
  });

  test("its table is made by the first metadata and not before; reading a file without it finds everything", () => {
    const id = ingestOne({ summary: "a bare heron" });
    expect(database.connection.hasTable("__service_memory_metadata")).toBe(false);
    expect([
      ask({ query: "heron", filter: "{}" }).length,
      ask({ query: "heron", filter: '{"a":{"$exists":false}}' }).length,
      ask({ query: "heron", filter: '{"a":1}' }).length,
    ]).toEqual([1, 1, 0]);
    expect(database.write((tx) => deleteMemory(tx, { id }))).toEqual({ forgotten: true });
    expect(database.connection.hasTable("__service_memory_metadata")).toBe(false);
    say({ summary: "a tagged heron", metadata: '{"a":1}' });
    expect(rows()).toEqual([{ memory: 1, id: expect.stringMatching(/^mem_/), metadata: '{"a":1}' }]);
  });

  test("is no part of a memory's sameness: a duplicate changes none, and gives none to one without", () => {
    const [first] = say({ summary: "a tagged heron", metadata: '{"a":1}' });
    const [bare] = say({ summary: "a bare heron" });
    expect(say({ summary: "a tagged heron", metadata: '{"a":2}', source: "other" })).toEqual([
      { ...first, status: "duplicate" },
    ]);
    expect(say({ summary: "a tagged heron" })).toEqual([{ ...first, status: "duplicate" }]);
    expect(say({ summary: "a bare heron", metadata: '{"a":3}' })).toEqual([{ ...bare, status: "duplicate" }]);
    expect([readMetadata(first!.id), readMetadata(bare!.id)]).toEqual(['{"a":1}', undefined]);
    expect(ask({ query: "heron", source: "other" }).map(({ id }) => id)).toEqual([first!.id]);
  });

  test.each<[string, string]>([
    ["[]", "must be an object"],
    ['"a"', "must be an object"],
    ["null", "must be an object"],
    ["{", "must be valid JSON"],
    ['{"$a":1}', "has a field whose name starts with $"],
    ['{"a":"\\ud800"}', "has a string with half a surrogate pair"],
    [`${'{"a":'.repeat(65)}1${"}".repeat(65)}`, "is nested too deep"],
    [`{"a":"${"x".repeat(metadataBytesMax - 7)}"}`, "must be at most 16384 bytes of JSON"],
    [`{"a":"${"ä".repeat(metadataBytesMax / 2 - 3)}"}`, "must be at most 16384 bytes of JSON"],
  ])("refuses %.30s, naming the item and its field", (metadata, message) => {
    expect(refusal(() => say({ summary: "fine" }, { summary: "a heron", metadata }))).toMatch(
      `invalid_request: memories[1].metadata ${message}`,
    );
    expect(ask({ query: "fine heron" })).toEqual([]);
  });

  test("may be as large and as deep as allowed", () => {
    const largest = `{"a":"${"x".repeat(metadataBytesMax - 8)}"}`;
    const deepest = `${'{"a":'.repeat(64)}1${"}".repeat(64)}`;
    expect(
      say({ summary: "large", metadata: largest }, { summary: "deep", metadata: deepest }).map(({ id }) =>
        readMetadata(id),
      ),
    ).toEqual([largest, deepest]);
  });
});

describe("goes with its memory", () => {
  test("forgotten, expired, erased by id, topic and session; a superseded one keeps its own", () => {
    const metadata = '{"secret":"zyxwvut"}';
    const forgotten = ingestOne({ summary: "forgotten", metadata });
    const [old] = say({ summary: "old", type: "fact", topicKey: "t", metadata });
    const [fresh] = say({ summary: "fresh", type: "fact", topicKey: "t", metadata: "{}" });
    say({ summary: "expires", type: "task", ttlSecs: 1, metadata }, { summary: "said in s", sessionId: "s", metadata });
    const byId = ingestOne({ summary: "erased", metadata });
    expect([readMetadata(old!.id), readMetadata(fresh!.id), rows().length]).toEqual([metadata, "{}", 6]);

    database.write((tx) => deleteMemory(tx, { id: forgotten }));
    expect(rows()).toHaveLength(5);
    database.nowMs += 1_000;
    database.write((tx) => sweepMemories(tx, { rowsMax: 10 }));
    expect(rows()).toHaveLength(4);
    const targets = [
      { kind: "memory", memoryId: byId },
      { kind: "topic", topicKey: "t", type: "fact" },
      { kind: "session", sessionId: "s", turns: false },
    ] as const;
    targets.forEach((target, at) =>
      database.write((tx) => erase(tx, { couponId: `ers_${at}`, target, traceKey: Buffer.alloc(32, at + 1) })),
    );
    expect(rows()).toEqual([]);
  });

  test("a task that expired gives its own to nobody: said again, it has what is said now", () => {
    const task = { summary: "water the plants", type: "task", ttlSecs: 1, metadata: '{"a":1}' };
    say(task);
    database.nowMs += 1_000;
    expect(readMetadata(ingestOne({ ...task, metadata: '{"a":2}' }))).toBe('{"a":2}');
    database.nowMs += 1_000;
    expect(getMemory(database.view(), { id: ingestOne({ summary: task.summary, type: "task" }) })).not.toHaveProperty(
      "metadata",
    );
    expect(rows()).toEqual([]);
  });
});

test("a row without its memory is found by the SQL that looks for it", () => {
  const stray = (): unknown => {
    const sql = strayMetadata(database.connection);
    return sql === undefined ? "no table" : database.connection.get(sql);
  };
  expect(stray()).toBe("no table");
  say({ summary: "a tagged heron", metadata: "{}" });
  expect(stray()).toBeUndefined();
  database.connection.exec("DELETE FROM __service_memory");
  expect(stray()).toBeDefined();
});

describe("filters", () => {
  test("mean what they mean of documents; a memory without metadata counts as an empty object", () => {
    const random = seeded(7);
    const pick = <Item>(items: readonly Item[]): Item => items[Math.floor(random() * items.length)]!;
    const value = () =>
      pick([null, true, 0, 1, 2, 1.5, "a", "b", [1, 2], ["a", { b: 1 }], { b: 1 }, { b: [1, "a"] }, 2n ** 53n + 1n]);
    const docs = Array.from({ length: 150 }, (_, at): PlainDoc | undefined =>
      at % 5 === 0 ? undefined : { ...(random() < 0.7 && { a: value() }), ...(random() < 0.5 && { b: value() }) },
    );
    const ids = say(
      ...docs.map((doc, at) => ({ summary: `heron ${at}`, ...(doc && { metadata: plainText(doc) }) })),
    ).map(({ id }) => id);
    const condition = (): PlainDoc =>
      pick([
        { $eq: value() },
        { $ne: value() },
        { $gte: pick([0, 1, "a"]) },
        { $in: [value(), value()] },
        { $nin: [value()] },
        { $exists: random() < 0.5 },
        { $not: { $lt: 2 } },
      ]);
    const single = (): PlainDoc => ({ [pick(["a", "b", "a.b", "b.0", "a.1.b"])]: condition() });
    for (let round = 0; round < 150; round++) {
      const filter = pick<() => PlainDoc>([
        single,
        () => ({ ...single(), b: value() }),
        () => ({ $or: [single(), single()] }),
        () => ({ $not: single() }),
        () => ({}),
      ])();
      const expected = ids.filter((_, at) => matches(docs[at] ?? {}, filter)).toReversed();
      const found = ask({ query: "heron", k: 1_000, filter: plainText(filter) }).map(({ id }) => id);
      expect(found.toSorted(), plainText(filter)).toEqual(expected.toSorted());
    }
  });

  test("5,000 memories that match better and are not meant starve no channel", () => {
    const crowd = Array.from({ length: 5_000 }, (_, at) => ({
      summary: `deploy deploy ${at}`,
      embedding: vector(1, at / 1e6),
      metadata: '{"team":"crowd"}',
    }));
    for (let at = 0; at < crowd.length; at += 1_000) say(...crowd.slice(at, at + 1_000));
    const id = ingestOne({
      summary: "some day deploy it all and then write a long report about how it went",
      embedding: vector(0.5, 1),
      metadata: '{"team":"quiet"}',
    });
    for (const filter of ['{"team":"quiet"}', '{"team":{"$ne":"crowd"}}', '{"team":{"$in":["quiet","other"]}}']) {
      for (const asked of [
        { query: "deploy" },
        { embedding: vector(1, 0) },
        { query: "deploy", embedding: vector(1, 0) },
      ]) {
        expect(ask({ ...asked, k: 1, filter }).map((memory) => memory.id)).toEqual([id]);
      }
    }
  });

  test("hold for the topic channel, and together with every other filter", () => {
    say(
      { summary: "one", type: "fact", topicKey: "t", metadata: '{"v":1}' },
      { summary: "two", type: "fact", topicKey: "t", metadata: '{"v":2}' },
    );
    const found = (input: Partial<RecallInput>): string[] =>
      ask({ topicKey: "t", includeSuperseded: true, ...input }).map(({ summary }) => summary);
    expect([
      found({ filter: '{"v":1}' }),
      found({ filter: '{"v":{"$gt":0}}' }),
      found({ filter: '{"v":1}', includeSuperseded: false }),
    ]).toEqual([["one"], ["two", "one"], []]);
    expect([found({ filter: '{"v":2}', types: ["event"] }), found({ filter: '{"v":2}', types: ["fact"] })]).toEqual([
      [],
      ["two"],
    ]);
  });

  test("may be as wide as for documents, in every channel at once", () => {
    const id = ingestOne({
      summary: "heron",
      type: "fact",
      topicKey: "t",
      embedding: vector(1, 0),
      metadata: '{"f989":989,"x":{"a":1}}',
    });
    const everywhere = (filter: object): string[] =>
      ask({ query: "heron", topicKey: "t", embedding: vector(1, 0), filter: JSON.stringify(filter) }).map(
        (memory) => memory.id,
      );
    const wide = (count: number, make: (index: number) => object) => ({
      $or: Array.from({ length: count }, (_, index) => make(index)),
    });
    expect(everywhere(wide(990, (index) => ({ [`f${index}`]: index })))).toEqual([id]);
    let deep: object = wide(900, (index) => ({ f989: { $lt: index + 100 } }));
    for (let depth = 0; depth < 14; depth++) deep = { $and: [{ $not: deep }, { f989: 989 }] };
    expect(everywhere(deep)).toEqual([id]);
  });

  test.each<[string, string]>([
    ["[]", "filter must be an object"],
    ['{"$where":"1"}', "filter.$where is not an operator that can stand here"],
    ['{"a":{"$near":"x"}}', "filter.a.$near is not an operator of a field"],
    [
      JSON.stringify({ a: { $in: Array.from({ length: 1_001 }, (_, at) => at) } }),
      "filter.a.$in must have at most 1000 values, not 1001",
    ],
    [
      `${'{"$not":'.repeat(33)}{}${"}".repeat(33)}`,
      "filter nests $and, $or, $nor, $not, $all and $elemMatch more than 32 deep",
    ],
    [JSON.stringify({ $or: Array.from({ length: 2_001 }, () => ({ a: 1 })) }), "filter is too large"],
  ])("%.40s is refused before anything is read", (filter, message) => {
    expect(refusal(() => checkRecall({ query: "x", filter }))).toContain(`invalid_request: ${message}`);
  });
});
