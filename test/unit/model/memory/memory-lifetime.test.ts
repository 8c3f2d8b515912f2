/** How long a memory stays: tasks that expire, what is forgotten, and sessions that end. */
import { describe, expect, test } from "vitest";
import { ServiceError } from "../../../../src/base/faults/errors.ts";
import { deleteMemory, sweepMemories } from "../../../../src/model/memory/stored-memories.ts";
import { endSession, listSessions } from "../../../../src/model/transcript/sessions.ts";
import { useMemoryDatabase } from "../../../support/memory-database.ts";

const { database, ingestAll, ingestOne, changes, get, recalled, rows, worded } = useMemoryDatabase();

describe("tasks", () => {
  const computeTtl = (id: string): number => {
    const memory = get(id)!;
    return (memory.expiresAt! - memory.createdAt) / 1000;
  };

  test("a task lives for a day unless told otherwise; the policy's cap clamps both", () => {
    const plain = ingestAll([
      { type: "task", summary: "a" },
      { type: "task", summary: "b", ttlSecs: 120 },
    ]);
    expect(plain.map(({ id }) => computeTtl(id))).toEqual([86_400, 120]);
    const capped = ingestAll(
      [
        { type: "task", summary: "c" },
        { type: "task", summary: "d", ttlSecs: 99_999 },
        { type: "task", summary: "e", ttlSecs: 120 },
      ],
      600,
    );
    expect(capped.map(({ id }) => computeTtl(id))).toEqual([600, 600, 120]);
  });

  test("memory-14: what has expired is invisible at that instant, to recall, get and forget, without any sweep", () => {
    const { id } = ingestOne({ type: "task", summary: "water the plants", ttlSecs: 10 });
    database().nowMs += 9_999;
    expect([recalled({ query: "plants" }), get(id)?.id]).toEqual([[id], id]);
    database().nowMs += 1;
    expect([recalled({ query: "plants" }), get(id)]).toEqual([[], undefined]);
    expect(database().write((tx) => deleteMemory(tx, { id }))).toEqual({ forgotten: false });
  });

  test("an expired task never shadows the same one said again, not even within one batch", () => {
    const gone = { type: "task", summary: "ring the bell", ttlSecs: 0 };
    const [first, second] = ingestAll([gone, gone]);
    expect([first!.status, second!.status]).toEqual(["created", "created"]);
    const third = ingestOne({ ...gone, ttlSecs: 60 });
    expect(third.status).toBe("created");
    expect(recalled({ query: "bell" })).toEqual([third.id]);
    expect([rows("__service_memory"), worded()]).toEqual([1, 1]);
  });

  test("a sweep removes what has expired, the earliest first, no more than asked, and nothing else", () => {
    for (let ttlSecs = 5; ttlSecs > 0; ttlSecs--)
      ingestOne({ type: "task", summary: `task ${ttlSecs}`, ttlSecs, embedding: Float32Array.of(1, ttlSecs) });
    ingestOne({ summary: "a fact stays" });
    database().nowMs += 4_000;
    const sweep = (rowsMax: number): number => database().write((tx) => sweepMemories(tx, { rowsMax })).removed;
    expect([sweep(3), sweep(3), sweep(3)]).toEqual([3, 1, 0]);
    expect([rows("__service_memory"), worded(), rows("__service_vector"), rows("__service_memory_provenance")]).toEqual(
      [2, 2, 1, 0],
    );
  });
});

describe("forget", () => {
  test("memory-16: what is forgotten is gone from everything, and a second time there is nothing", () => {
    const { id } = ingestOne({ embedding: Float32Array.of(1, 0), source: "a" });
    const forgetIt = () => database().write((tx) => deleteMemory(tx, { id }));
    expect(forgetIt()).toEqual({ forgotten: true });
    expect([recalled({ query: "dark", embedding: Float32Array.of(1, 0) }), get(id)]).toEqual([[], undefined]);
    expect(
      ["__service_memory", "__service_memory_text", "__service_memory_provenance", "__service_vector"].map(rows),
    ).toEqual([0, 0, 0, 0]);
    expect(forgetIt()).toEqual({ forgotten: false });
    expect(ingestOne({}).status).toBe("created");
  });

  test("forgetting a superseder leaves what it superseded superseded", () => {
    const old = ingestOne({ topicKey: "ui", summary: "dark" });
    const next = ingestOne({ topicKey: "ui", summary: "light" });
    database().write((tx) => deleteMemory(tx, { id: next.id }));
    expect(get(old.id)).toMatchObject({ supersededBy: next.id });
    expect(recalled({ topicKey: "ui" })).toEqual([]);
    expect(ingestOne({ topicKey: "ui", summary: "dark" })).toMatchObject({ status: "created", superseded: [] });
  });
});

describe("sessions", () => {
  const sessions = (limit?: number) => listSessions(database().view(), limit === undefined ? {} : { limit }).sessions;

  test("memory-14: a session is listed from its first memory; its end removes tasks and row, not facts", () => {
    const fact = ingestOne({ sessionId: "s-1" });
    const task = ingestOne({ type: "task", summary: "task of the session", sessionId: "s-1" });
    const other = ingestOne({ type: "task", summary: "task of the session", sessionId: "s-2" });
    expect(sessions().map(({ id }) => id)).toEqual(["s-2", "s-1"]);
    const end = () => database().group((tx) => endSession(tx, { sessionId: "s-1", turns: false }))[0];
    expect(end()).toMatchObject({ changed: true, result: { removed: 1, turnsRemoved: 0 } });
    expect([get(fact.id)?.sessionId, get(task.id), get(other.id)?.id]).toEqual(["s-1", undefined, other.id]);
    expect(sessions().map(({ id }) => id)).toEqual(["s-2"]);
    expect(end()).toMatchObject({ changed: false });
  });

  test("the most recently active come first; no clock that falls back and no duplicate changes that", () => {
    const born = database().nowMs;
    ingestOne({ summary: "one", sessionId: "a" });
    database().nowMs += 10;
    ingestOne({ summary: "two", sessionId: "b" });
    database().nowMs += 10;
    ingestOne({ summary: "three", sessionId: "a" });
    database().nowMs -= 1000;
    ingestOne({ summary: "four", sessionId: "a" });
    database().nowMs += 5000;
    expect(changes({ summary: "two", sessionId: "b" })).toBe(false);
    expect(sessions()).toEqual([
      { id: "a", createdAt: born, lastActiveAt: born + 20 },
      { id: "b", createdAt: born + 10, lastActiveAt: born + 10 },
    ]);
    expect(sessions(1)).toHaveLength(1);
    expect(sessions(1_000_000)).toHaveLength(2);
    expect(() => sessions(0)).toThrow(ServiceError);
  });

  test("a duplicate brings back the session that said it and was ended", () => {
    ingestOne({ sessionId: "s-1" });
    database().write((tx) => endSession(tx, { sessionId: "s-1", turns: false }));
    expect(ingestOne({ sessionId: "s-1" }).status).toBe("duplicate");
    expect(sessions().map(({ id }) => id)).toEqual(["s-1"]);
  });
});
