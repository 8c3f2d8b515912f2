/** Whose vectors a space holds, what has none yet, and how a space is given up. */
import { afterEach, beforeEach, expect, test } from "vitest";
import {
  fillIn,
  memoryText,
  spaceStates,
  turnText,
  unembedded,
  embedTextBytesMax,
  embedStepItemsMax,
  embedStepLooksMax,
} from "../../../../src/model/embedding.ts";
import { ingest, type MemoryInput } from "../../../../src/model/memory/memory-ingest.ts";
import { deleteMemory } from "../../../../src/model/memory/stored-memories.ts";
import {
  embeddedSpace,
  findMaker,
  removeOutdatedSpaces,
  type Maker,
} from "../../../../src/model/memory/memory-vectors.ts";
import { recall } from "../../../../src/model/recall.ts";
import { endSession } from "../../../../src/model/transcript/sessions.ts";
import { appendTurn } from "../../../../src/model/transcript/transcript.ts";
import { ModelDatabase } from "../../../support/model-database.ts";
import { contentBytesMax } from "../../../../src/model/core/content.ts";

let db: ModelDatabase;
beforeEach(() => {
  db = new ModelDatabase();
});
afterEach(() => db.close());

const a: Maker = { name: "openai/a", floor: 0.5 };
const b: Maker = { name: "openai/b", floor: 0.2 };

function take(...memories: readonly Partial<MemoryInput>[]) {
  return db.write((tx) =>
    ingest(tx, { memories: memories.map((memory) => ({ type: "fact", summary: "s", content: "null", ...memory })) }),
  ).results;
}

function vector(...numbers: number[]): Float32Array {
  return Float32Array.from(numbers);
}

/** Rows of vectors whose owner is gone. */
function strays(): number {
  return db.connection.get<{ n: number }>(
    `SELECT count(*) AS n FROM __service_vector JOIN __service_vector_space USING (space)
     WHERE (kind = 'memory' AND owner NOT IN (SELECT row FROM __service_memory))
       OR (kind = 'turn' AND owner NOT IN (SELECT row FROM __service_turn))`,
  )!.n;
}

test("an embedder's first vector makes the space its own, with its floor; a caller's makes it the callers'", () => {
  expect(spaceStates(db.view())).toEqual({
    memory: { exists: false, embeddedBy: undefined },
    turn: { exists: false, embeddedBy: undefined },
  });
  expect(take({ summary: "one", embedding: vector(1, 0), embeddedBy: a })[0]!.embedding).toBe("stored");
  expect(findMaker(db.view(), embeddedSpace(db.view(), "memory")!)).toEqual(a);
  db.write((tx) => appendTurn(tx, { sessionId: "s", role: "r", content: '"x"', embedding: vector(1, 0, 0) }));
  expect(spaceStates(db.view())).toEqual({
    memory: { exists: true, embeddedBy: a.name },
    turn: { exists: true, embeddedBy: undefined },
  });
});

test("another embedder's vector is skipped though its dimension fits; a caller's is taken", () => {
  take({ summary: "one", embedding: vector(1, 0), embeddedBy: a });
  const results = take(
    { summary: "two", embedding: vector(0, 1), embeddedBy: b },
    { summary: "three", embeddedBy: b },
    { summary: "four", embedding: vector(0, 1) },
    { summary: "five", embeddedBy: a },
  );
  expect(results.map(({ embedding }) => embedding)).toEqual(["skipped_model", "skipped_model", "stored", undefined]);
  expect(
    take({ summary: "one", embedding: vector(0, 1), embeddedBy: b })[0]!.embedding,
    "it has one already",
  ).toBeUndefined();
});

test("an embedder's query finds only its own space, above that space's floor; a caller's finds any", () => {
  take(
    { summary: "near", embedding: vector(1, 0), embeddedBy: a },
    { summary: "far", embedding: vector(0.4, 1), embeddedBy: a },
  );
  const found = (input: object): string[] =>
    recall(db.view(), { embedding: vector(1, 0), ...input }).memories.map(({ summary }) => summary);
  expect(found({ embeddedBy: a.name })).toEqual(["near"]);
  expect(found({})).toEqual(["near"]);
  expect(found({ minScore: { vector: 0.3 } })).toEqual(["near", "far"]);
  expect(found({ embeddedBy: b.name })).toEqual([]);
});

test("a query finds turns of its own embedder only", () => {
  db.write((tx) =>
    appendTurn(tx, { sessionId: "s", role: "r", content: '"x"', embedding: vector(1, 0), embeddedBy: a }),
  );
  const turns = (embeddedBy: string | undefined): number =>
    recall(db.view(), {
      embedding: vector(1, 0),
      ...(embeddedBy === undefined ? {} : { embeddedBy }),
      includeTurns: true,
    }).turns.length;
  expect([turns(a.name), turns(b.name), turns(undefined)]).toEqual([1, 0, 1]);
});

test("what has no vector is given page by page, without tasks and without texts that say nothing", () => {
  take(
    ...Array.from({ length: embedStepItemsMax + 3 }, (_, at) => ({
      summary: `m${at}`,
      content: `{"t":"c${at}"}`,
    })),
    { type: "task", summary: "task" },
    { summary: "has one", embedding: vector(1), embeddedBy: a },
  );
  const first = unembedded(db.view(), { kind: "memory", embeddedBy: a.name, after: 0 });
  expect(first.items).toHaveLength(embedStepItemsMax);
  expect(first.items[0]!.text).toBe("m0\nc0");
  const second = unembedded(db.view(), { kind: "memory", embeddedBy: a.name, after: first.next! });
  expect(second.items.map(({ text }) => text)).toEqual([64, 65, 66].map((at) => `m${at}\nc${at}`));
  expect(second.next).toBeUndefined();
  expect(unembedded(db.view(), { kind: "memory", embeddedBy: b.name, after: 0 })).toEqual({
    items: [],
    next: undefined,
  });
  for (const content of ['"said"', "42", '{"text":"more"}'])
    db.write((tx) => appendTurn(tx, { sessionId: "s", role: "r", content }));
  expect(unembedded(db.view(), { kind: "turn", embeddedBy: a.name, after: 0 }).items.map(({ text }) => text)).toEqual([
    "r: said",
    "r: more",
  ]);
});

test("a page ends where it has looked at enough rows or read enough, and the next goes on from there", () => {
  const row = (summary: string): Partial<MemoryInput> => ({ summary, embedding: vector(1), embeddedBy: a });
  for (let at = 0; at < embedStepLooksMax; at += 500)
    take(...Array.from({ length: 500 }, (_, more) => row(`${at + more}`)));
  take({ summary: "behind" });
  const first = unembedded(db.view(), { kind: "memory", embeddedBy: a.name, after: 0 });
  expect([first.items.length, first.next]).toEqual([0, embedStepLooksMax]);
  expect(
    unembedded(db.view(), { kind: "memory", embeddedBy: a.name, after: first.next! }).items.map(({ text }) => text),
  ).toEqual(["behind"]);
  const large = JSON.stringify("x".repeat(contentBytesMax - 10));
  take(...Array.from({ length: 6 }, (_, at) => ({ summary: `large ${at}`, content: large })));
  const page = unembedded(db.view(), { kind: "memory", embeddedBy: a.name, after: embedStepLooksMax + 1 });
  expect(page.items.length).toBeLessThan(6);
  expect(page.next).toBe(page.items.at(-1)!.row);
});

test("filling in gives vectors to what is still there without one, and changes nothing else", () => {
  take({ summary: "one" }, { summary: "two" }, { summary: "three", embedding: vector(0, 1), embeddedBy: a });
  const { items } = unembedded(db.view(), { kind: "memory", embeddedBy: a.name, after: 0 });
  expect(items.map(({ text }) => text)).toEqual(["one", "two"]);
  const [id] = db.connection.all<{ id: string }>("SELECT id FROM __service_memory WHERE summary = 'two'");
  db.write((tx) => deleteMemory(tx, id!));
  const fillings = [
    ...items.map((item) => ({ ...item, embedding: vector(1, 0) })),
    { row: 3, createdAt: db.nowMs, embedding: vector(1, 0) },
    { row: 1, createdAt: 5, embedding: vector(1, 0) },
  ];
  expect(db.write((tx) => fillIn(tx, { kind: "memory", embeddedBy: a, items: fillings }))).toEqual({ filled: 1 });
  expect(db.write((tx) => fillIn(tx, { kind: "memory", embeddedBy: b, items: fillings }))).toEqual({ filled: 0 });
  expect(recall(db.view(), { embedding: vector(0, 1) }).memories.map(({ summary }) => summary)).toEqual(["three"]);
  expect(strays()).toBe(0);
});

test("a space given up is found by nothing at once and goes in steps; removals leave nothing in it", () => {
  take(...Array.from({ length: 10 }, (_, at) => ({ summary: `m${at}`, embedding: vector(1, at / 10), embeddedBy: a })));
  for (let at = 0; at < 4; at++)
    db.write((tx) =>
      appendTurn(tx, { sessionId: "s", role: "r", content: '"x"', embedding: vector(1, 0), embeddedBy: a }),
    );
  const step = (kind: "memory" | "turn", embeddedBy: string) =>
    db.write((tx) => removeOutdatedSpaces(tx, { kind, embeddedBy, rowsMax: 4 })).more;
  expect(step("memory", a.name), "its own space is not given up").toBe(false);
  expect(step("memory", b.name)).toBe(true);
  expect(step("turn", b.name)).toBe(true);
  expect(recall(db.view(), { embedding: vector(1, 0), includeTurns: true })).toEqual({
    memories: [],
    turns: [],
    emptyReason: "no_match",
  });
  expect(
    take({ summary: "new", embedding: vector(1, 0, 0), embeddedBy: b })[0]!.embedding,
    "of another dimension too",
  ).toBe("stored");
  const gone = db.connection.all<{ id: string }>("SELECT id FROM __service_memory WHERE summary IN ('m8', 'm9')");
  for (const id of gone) db.write((tx) => deleteMemory(tx, id));
  db.write((tx) => endSession(tx, { sessionId: "s", turns: true }));
  expect(strays()).toBe(0);
  while (step("memory", b.name) || step("turn", b.name));
  expect(db.connection.get<{ n: number }>("SELECT count(*) AS n FROM __service_vector")!.n).toBe(1);
  expect(
    recall(db.view(), { embedding: vector(1, 0, 0), embeddedBy: b.name }).memories.map(({ summary }) => summary),
  ).toEqual(["new"]);
});

test("a text is cut to what is embedded, never within a letter", () => {
  const text = memoryText({
    summary: "é",
    content: JSON.stringify(["x".repeat(embedTextBytesMax - 5), "日本"]),
  });
  expect(Buffer.byteLength(text)).toBeLessThanOrEqual(embedTextBytesMax);
  expect(text.isWellFormed()).toBe(true);
  expect(text.startsWith("é\nxxx")).toBe(true);
  expect(turnText({ role: "Ann", content: "42" })).toBe("");
});

test("times and numbers are not embedded beside a text", () => {
  const content = JSON.stringify({ date: "1:56 pm on 8 May, 2023", id: "D1:3", text: "to Oslo, with 2 cats" });
  expect(memoryText({ summary: "I moved", content })).toBe("I moved\nto Oslo, with 2 cats");
  expect(turnText({ content: '"2023-05-08"' })).toBe("2023-05-08");
  expect(turnText({ content: JSON.stringify(["2023年5月8日", "हिन्दी में बात"]) })).toBe("हिन्दी में बात");
});

test("who said it is embedded too, where that is a name", () => {
  const said = { summary: "I moved to Oslo", content: "null" };
  expect(memoryText({ ...said, source: "Ann" })).toBe("Ann: I moved to Oslo");
  expect(memoryText(said)).toBe("I moved to Oslo");
  expect(memoryText({ ...said, source: "-" })).toBe("I moved to Oslo");
  expect(turnText({ role: "Ann", content: '"to Oslo"' })).toBe("Ann: to Oslo");
  for (const role of ["user", "Assistant", "tool"]) expect(turnText({ role, content: '"to Oslo"' })).toBe("to Oslo");
});
