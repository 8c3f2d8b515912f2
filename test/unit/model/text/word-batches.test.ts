/** Words that wait for a batch are found like others, and leave with their rows; few wait, and none that is long. */
import { afterEach, beforeEach, expect, test } from "vitest";
import { erase } from "../../../../src/model/erasure.ts";
import { memoryWords, strayMemoryText } from "../../../../src/model/memory/keyword.ts";
import { ingest, type MemoryInput } from "../../../../src/model/memory/memory-ingest.ts";
import { listMemories } from "../../../../src/model/memory/memory-list.ts";
import { deleteMemory } from "../../../../src/model/memory/stored-memories.ts";
import { searchedWords } from "../../../../src/model/ranking/pending-index.ts";
import { recall } from "../../../../src/model/recall.ts";
import { batchRows, pendingCharsMax, pendingRows } from "../../../../src/model/text/word-batches.ts";
import { strayTurnText, turnWords } from "../../../../src/model/transcript/turn-text.ts";
import { endSession } from "../../../../src/model/transcript/sessions.ts";
import { appendTurn } from "../../../../src/model/transcript/transcript.ts";
import type { Tx } from "../../../../src/model/core/transaction.ts";
import { ModelDatabase } from "../../../support/model-database.ts";
import { seeded } from "../../../support/random.ts";

let database: ModelDatabase;
beforeEach(() => void (database = new ModelDatabase()));
afterEach(() => database.close());

const event = (summary: string): MemoryInput => ({ type: "event", summary, content: "null" });
const say = (...summaries: readonly string[]): readonly string[] =>
  database.write((tx) => ingest(tx, { memories: summaries.map(event) })).results.map(({ id }) => id);
const find = (query: string): string[] => recall(database.view(), { query }).memories.map(({ summary }) => summary);
const waiting = (one: ModelDatabase = database): number => pendingRows(one.connection, memoryWords).length;
const entered = (one: ModelDatabase): number =>
  one.connection.get<{ n: number }>("SELECT count(*) AS n FROM __service_memory_text_docsize")!.n;

test("rows wait until there are enough of them, and are found all the while", () => {
  for (let at = 1; at < batchRows; at++) {
    say(`sparrow number${at}`);
    expect([waiting(), find(`number${at}`)]).toEqual([at, [`sparrow number${at}`]]);
  }
  say("sparrow last");
  expect([waiting(), entered(database)]).toEqual([0, batchRows]);
  say("sparrow after");
  expect([waiting(), find("after"), find("last")]).toEqual([1, ["sparrow after"], ["sparrow last"]]);
  say(...Array.from({ length: 100 }, (_, at) => `heron ${at}`));
  expect(waiting()).toBe(0);
});

test("a long row does not wait, and takes along those before it", () => {
  say("a sparrow");
  say(`a heron ${"x ".repeat(pendingCharsMax / 2)}`);
  expect([waiting(), entered(database)]).toEqual([0, 2]);
});

test("in the first format nothing waits", () => {
  database.close();
  database = new ModelDatabase(undefined, 1);
  say("a sparrow");
  expect([waiting(), entered(database), find("sparrow")]).toEqual([0, 1, ["a sparrow"]]);
});

test("what is forgotten or erased while it waits is not found; a changed origin is", () => {
  const [first] = say("a sparrow", "a heron");
  database.write((tx) => deleteMemory(tx, { id: first! }));
  expect([find("sparrow"), find("heron")]).toEqual([[], ["a heron"]]);
  const told = { type: "fact", summary: "an egret", content: "{}" } as const;
  database.write((tx) => ingest(tx, { memories: [{ ...told, sessionId: "s", source: "marten" }] }));
  database.write((tx) => ingest(tx, { memories: [{ ...told, source: "weasel" }] }));
  expect(find("marten")).toEqual(["an egret"]);
  const target = { kind: "session", sessionId: "s", turns: true } as const;
  database.write((tx) => erase(tx, { couponId: "c", target, traceKey: new Uint8Array(32) }));
  expect([find("marten"), find("weasel")]).toEqual([[], ["an egret"]]);
});

const words = "sparrow heron falcon egret owl wren finch robin eagle kite swift crane stork raven magpie".split(" ");

/** What a client can do to memories and turns, the same in each format. */
function randomCommand(random: () => number, ids: readonly string[]): (tx: Tx) => unknown {
  const pick = (most: number): number => Math.floor(random() * most);
  const text = (): string =>
    Array.from({ length: 2 + pick(random() < 0.05 ? 300 : 6) }, () => words[pick(15)]).join(" ");
  const kind = random();
  if (kind < 0.6) {
    const session = random() < 0.5 ? {} : { sessionId: `s-${pick(3)}` };
    const memories = Array.from({ length: kind < 0.05 ? 40 : 1 }, () => ({ ...event(text()), ...session }));
    return (tx) => ingest(tx, { memories });
  }
  const id = ids.at(-1 - pick(4)) ?? "mem_none";
  const sessionId = `s-${pick(3)}`;
  const content = JSON.stringify(text());
  if (kind < 0.8) return (tx) => appendTurn(tx, { sessionId, role: "user", content });
  if (kind < 0.9) return (tx) => deleteMemory(tx, { id });
  if (kind < 0.95) return (tx) => endSession(tx, { sessionId, turns: true });
  const target = { kind: "session", sessionId, turns: true } as const;
  const couponId = `coupon-${random()}`;
  return (tx) => erase(tx, { couponId, target, traceKey: new Uint8Array(32) }).memoryIds;
}

test.each([1, 2])("an index with waiting rows answers as one without, whatever happens (seed %s)", (seed) => {
  const first = new ModelDatabase(undefined, 1);
  const random = seeded(seed);
  for (let turn = 0; turn < 200; turn++) {
    const ids = listMemories(first.view(), { order: "asc", limit: 1_000 }).memories.map(({ id }) => id);
    const commands = Array.from({ length: 1 + Math.floor(random() * 3) }, () => randomCommand(random, ids));
    expect(database.group(...commands)).toEqual(first.group(...commands));
    const input = { query: `${words[turn % 15]} ${words[(turn * 7) % 15]}`, searchTurns: true, k: 20, explain: true };
    expect(recall(database.view(), input)).toEqual(recall(first.view(), input));
    for (const table of [memoryWords, turnWords]) {
      const pending = pendingRows(database.connection, table);
      expect(pending.length).toBeLessThan(batchRows);
      const [batched, direct] = [database, first].map(({ connection }) => searchedWords(connection, table));
      expect(batched!.firstRows(5_000)).toEqual(direct!.firstRows(5_000));
      expect(batched!.size()).toEqual(direct!.size());
    }
    for (const one of [database, first]) one.nowMs += 1_000;
  }
  for (const { connection } of [database, first])
    for (const stray of [strayMemoryText, strayTurnText]) expect(connection.all(stray(connection)!)).toEqual([]);
  first.close();
});
