/** Turns of a session: their numbers and their window, the search among them, and the end of the session. */
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { ServiceError } from "../../../../src/base/faults/errors.ts";
import { endSession, listSessions } from "../../../../src/model/transcript/sessions.ts";
import { appendTurn, lastTurns, searchTurns } from "../../../../src/model/transcript/transcript.ts";
import { ModelDatabase } from "../../../support/model-database.ts";
import { contentBytesMax } from "../../../../src/model/core/content.ts";

let database: ModelDatabase;

beforeEach(() => {
  database = new ModelDatabase();
});

afterEach(() => database.close());

const append = (sessionId: string, content: string, embedding?: number[], role = "user") =>
  database.write((tx) =>
    appendTurn(tx, { sessionId, role, content, ...(embedding ? { embedding: Float32Array.from(embedding) } : {}) }),
  );
const last = (sessionId: string, count?: number) =>
  lastTurns(database.view(), { sessionId, ...(count === undefined ? {} : { last: count }) }).turns;
const search = (vector: number[], sessionId?: string, k?: number) =>
  searchTurns(database.view(), {
    vector: Float32Array.from(vector),
    ...(sessionId === undefined ? {} : { sessionId }),
    ...(k === undefined ? {} : { k }),
  }).turns;
const end = (sessionId: string, turns: boolean) => database.write((tx) => endSession(tx, { sessionId, turns }));

describe("the window", () => {
  test("docs-06: turns are numbered from 1 in each session, and the last ones come oldest first, word for word", () => {
    expect(append("a", '{"text": "hello", "id": 9007199254740993}')).toEqual({ seq: 1 });
    expect(append("a", '"two"', [1, 0], "assistant")).toEqual({ seq: 2, embedding: "stored" });
    expect(append("b", "null").seq).toBe(1);
    expect(append("a", "[3]").seq).toBe(3);
    expect(last("a", 2)).toEqual([
      { sessionId: "a", seq: 2, role: "assistant", content: '"two"', createdAt: database.nowMs },
      { sessionId: "a", seq: 3, role: "user", content: "[3]", createdAt: database.nowMs },
    ]);
    expect(last("a")[0]!.content).toBe('{"text":"hello","id":9007199254740993}');
    expect(last("unknown")).toEqual([]);
    expect(listSessions(database.view(), {}).sessions.map(({ id }) => id)).toEqual(["b", "a"]);
  });

  test("without a count it is the last 20; a count above the limit is cut to it; one below 1 is refused", () => {
    for (let at = 0; at < 30; at++) append("a", String(at));
    expect(last("a").map(({ seq }) => seq)).toEqual(Array.from({ length: 20 }, (_, at) => at + 11));
    expect(last("a", 10_000_000)).toHaveLength(30);
    for (const count of [0, -1, 1.5]) expect(() => last("a", count)).toThrow(/^last must be/);
  });

  test("contents that are too large for one answer are refused, fewer of them are given", () => {
    const large = JSON.stringify("x".repeat(contentBytesMax - 2));
    for (let at = 0; at < 33; at++) append("a", large);
    expect(() => last("a", 33)).toThrow(/^last must be lower/);
    expect(last("a", 32)).toHaveLength(32);
  });

  test("a bad role, content, session or vector is refused and nothing is kept", () => {
    expect(() => append("a", '"x"', undefined, "")).toThrow(/^role /);
    expect(() => append("a", "{")).toThrow(/^content /);
    expect(() => append("", '"x"')).toThrow(/^session_id /);
    expect(() => append("a", '"x"', [])).toThrow(/^embedding /);
    expect(last("a")).toEqual([]);
    expect(listSessions(database.view(), {}).sessions).toEqual([]);
  });
});

describe("the end of a session", () => {
  test("turns go only when asked to, and a number is never given twice", () => {
    append("a", '"one"', [1, 0]);
    append("a", '"two"', [0, 1]);
    append("b", '"other"', [1, 1]);
    expect(end("a", false)).toEqual({ removed: 0, turnsRemoved: 0 });
    expect(last("a")).toHaveLength(2);
    expect(append("a", '"three"').seq).toBe(3);
    expect(end("a", true)).toEqual({ removed: 0, turnsRemoved: 3 });
    expect(last("a")).toEqual([]);
    expect(search([1, 0]).map(({ sessionId }) => sessionId)).toEqual(["b"]);
    expect(append("a", '"four"').seq).toBe(4);
    expect(end("a", true)).toMatchObject({ turnsRemoved: 1 });
    expect(append("a", '"five"').seq).toBe(5);
  });

  test("an unknown session has nothing to end", () => {
    const outcome = database.group((tx) => endSession(tx, { sessionId: "never", turns: true }))[0]!;
    expect(outcome).toEqual({ kind: "done", changed: false, result: { removed: 0, turnsRemoved: 0 } });
  });
});

describe("search", () => {
  test("docs-06: the nearest turns of a session come first with their distance; another session is empty", () => {
    append("a", '"east"', [1, 0]);
    append("a", '"north"', [0, 1]);
    append("a", '"without a vector"');
    append("b", '"east too"', [2, 0.1]);
    expect(search([0, 3], "a", 1)).toEqual([
      {
        sessionId: "a",
        seq: 2,
        role: "user",
        content: '"north"',
        createdAt: database.nowMs,
        distance: expect.closeTo(0, 6),
      },
    ]);
    expect(search([1, 0], "a").map(({ content, distance }) => [content, Math.round(distance!)])).toEqual([
      ['"east"', 0],
      ['"north"', 1],
    ]);
    expect(search([1, 0]).map(({ content }) => content)).toEqual(['"east"', '"east too"', '"north"']);
    expect(search([1, 0], "c")).toEqual([]);
  });

  test("a session's few turns are found among many of others", () => {
    for (let at = 0; at < 300; at++) append("crowd", String(at), [1, at / 10_000]);
    append("quiet", '"here"', [0, 1]);
    expect(search([1, 0], "quiet", 3).map(({ content }) => content)).toEqual(['"here"']);
  });

  test("an odd vector is left out of a turn and refused in a search", () => {
    expect(search([1, 0, 0])).toEqual([]);
    append("a", '"x"', [1, 0]);
    expect(append("a", '"y"', [1, 0, 0])).toEqual({ seq: 2, embedding: "skipped_dimension" });
    expect(() => search([1, 0, 0])).toThrow(/^vector has 3 numbers, but .* 2/);
    expect(() => search([])).toThrow(ServiceError);
    expect(() => search([1, 0], "a", 0)).toThrow(/^k must be/);
    expect(search([1, 0], "a", 10_000_000)).toHaveLength(1);
  });
});
