/** Turns are found by their words when that is asked for, and the index behind it goes with them. */
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { searchedWords } from "../../../../src/model/ranking/pending-index.ts";
import { strayTurnText, turnWords } from "../../../../src/model/transcript/turn-text.ts";
import { erase } from "../../../../src/model/erasure.ts";
import { recall, type RecallInput } from "../../../../src/model/recall.ts";
import { endSession } from "../../../../src/model/transcript/sessions.ts";
import { appendTurn } from "../../../../src/model/transcript/transcript.ts";
import { ModelDatabase } from "../../../support/model-database.ts";

let database: ModelDatabase;

beforeEach(() => {
  database = new ModelDatabase();
});

afterEach(() => database.close());

const append = (sessionId: string, content: unknown, embedding?: readonly number[], role = "user") =>
  database.write((tx) =>
    appendTurn(tx, {
      sessionId,
      role,
      content: JSON.stringify(content),
      ...(embedding ? { embedding: Float32Array.from(embedding) } : {}),
    }),
  );
const found = (input: RecallInput): string[] =>
  recall(database.view(), { searchTurns: true, ...input }).turns.map(({ sessionId, seq }) => `${sessionId}/${seq}`);
const smallTalk = [
  "how was your week",
  "fine thanks, busy at work",
  "the weather has been awful",
  "it rained all day here",
  "see you tomorrow then",
  "bye for now",
];

describe("turns by their words", () => {
  test("are found by content, speaker and month, only when asked for", () => {
    for (const text of smallTalk) append("a", text);
    append("b", { deep: ["we adopted a parrot called Pico"] }, undefined, "Mia");
    expect(found({ query: "parrot" })).toEqual(["b/1"]);
    expect(found({ query: "Pico", k: 1 })).toEqual(["b/1"]);
    expect(found({ query: "what did Mia adopt in November 2023" })[0]).toBe("b/1");
    expect(found({ query: "parrot", searchTurns: false })).toEqual([]);
    expect(found({ query: "parrot", searchTurns: false, includeTurns: true })).toEqual([]);
    expect(found({ topicKey: "t" })).toEqual([]);
  });

  test("an answer beside the words that were asked for is found with them, never across sessions", () => {
    for (const text of smallTalk) append("a", text);
    append("b", "which instrument does your daughter practise");
    append("b", "she took up the cello last spring");
    append("c", "nothing of note");
    expect(found({ query: "daughter instrument" })).toEqual(["b/1", "b/2"]);
    expect(found({ query: "daughter instrument", sessionId: "c" })).toEqual([]);
    expect(found({ query: "daughter instrument cello", sessionId: "b", k: 1 })).toHaveLength(1);
  });

  test("a question about something else finds none; a floor on the request takes the gate's place", () => {
    for (const text of smallTalk) append("a", text);
    expect(found({ query: "quantum chromodynamics lecture in Uruguay" })).toEqual([]);
    expect(found({ query: "weather in Uruguay and quantum chromodynamics" })).toEqual([]);
    expect(found({ query: "weather in Uruguay and quantum chromodynamics", minScore: { keyword: 0 } })[0]).toBe("a/3");
    expect(found({ query: "the weather has been awful", minScore: { keyword: 1 } })).toEqual(["a/3"]);
  });

  test("a session's few turns are found among hundreds of others that match better", () => {
    for (let at = 0; at < 700; at++) append("crowd", "kiwi mango papaya lychee");
    append("quiet", "a kiwi, among many other fruits that were on the table in the kitchen");
    expect(found({ query: "kiwi mango papaya", sessionId: "quiet", minScore: { keyword: 0 } })).toEqual(["quiet/1"]);
    expect(found({ query: "kiwi mango papaya lychee", k: 1000 }).length).toBeGreaterThanOrEqual(500);
  });

  test("with a vector too both ways are fused, and a turn is given once", () => {
    for (const text of smallTalk) append("a", text);
    append("b", "we adopted a parrot called Pico", [1, 0]);
    append("c", "the bird is doing well", [0.9, 0.1]);
    const { turns } = recall(database.view(), {
      query: "parrot",
      embedding: Float32Array.from([1, 0]),
      includeTurns: true,
      searchTurns: true,
    });
    expect(turns.map(({ sessionId, distance }) => [sessionId, distance === undefined])).toEqual([
      ["b", false],
      ["c", false],
    ]);
    append("d", "another parrot altogether");
    const more = recall(database.view(), {
      query: "parrot",
      embedding: Float32Array.from([1, 0]),
      includeTurns: true,
      searchTurns: true,
    }).turns;
    expect(more[0]!.sessionId).toBe("b");
    expect(more.find(({ sessionId }) => sessionId === "d")).not.toHaveProperty("distance");
  });
});

describe("the index of turns", () => {
  const strays = () => database.connection.all(strayTurnText(database.connection)!);
  const rows = (): number => searchedWords(database.connection, turnWords).size().rows;

  test("is made by the first turn: a file of the first format without it is read", () => {
    database.close();
    database = new ModelDatabase(undefined, 1);
    expect(found({ query: "parrot" })).toEqual([]);
    expect(strayTurnText(database.connection)).toBeUndefined();
    database.connection.run(
      "INSERT INTO __service_turn (session_id, seq, created_at, role, content) VALUES ('old', 1, 0, 'user', " +
        "'\"a parrot of old\"')",
    );
    expect(found({ query: "parrot" })).toEqual([]);
    expect(database.write((tx) => endSession(tx, { sessionId: "old", turns: true })).turnsRemoved).toBe(1);
    append("a", "a parrot");
    expect(found({ query: "parrot" })).toEqual(["a/1"]);
  });

  test("loses a transcript with its session and by erasure, in the order of the commands of a group", () => {
    append("a", "a parrot");
    append("b", "a falcon");
    database.write((tx) => endSession(tx, { sessionId: "a", turns: false }));
    expect(rows()).toBe(2);
    database.group<unknown>(
      (tx) => appendTurn(tx, { sessionId: "a", role: "user", content: '"a heron"' }),
      (tx) => endSession(tx, { sessionId: "a", turns: true }),
      (tx) => appendTurn(tx, { sessionId: "c", role: "user", content: '"an egret"' }),
    );
    expect([found({ query: "parrot" }), found({ query: "heron" }), found({ query: "egret" })]).toEqual([
      [],
      [],
      ["c/1"],
    ]);
    database.write((tx) =>
      erase(tx, {
        couponId: "ers_1",
        target: { kind: "session", sessionId: "b", turns: true },
        traceKey: Buffer.alloc(32, 1),
      }),
    );
    expect(found({ query: "falcon" })).toEqual([]);
    expect(rows()).toBe(1);
    append("c", "long ".repeat(400));
    expect(strays()).toEqual([]);
    database.connection.run("DELETE FROM __service_turn");
    expect(strays()).toHaveLength(1);
  });

  test("is not made by a turn that is refused", () => {
    expect(() => append("a", "x", [])).toThrow(/^embedding/);
    expect(strayTurnText(database.connection)).toBeUndefined();
  });
});
