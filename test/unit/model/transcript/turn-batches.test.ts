/** Many turns at once: appended once each, deleted, put in the place of the last ones. */
import { createHash } from "node:crypto";
import fc from "fast-check";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { endSession, listSessions, turnsCountedMax } from "../../../../src/model/transcript/sessions.ts";
import { appendTurn, lastTurns, searchTurns, type NewTurn } from "../../../../src/model/transcript/transcript.ts";
import {
  appendTurns,
  hashContent,
  replaceTurns,
  turnsBatchBytesMax,
  turnsBatchMax,
  type ReplaceInput,
} from "../../../../src/model/transcript/turn-batches.ts";
import { strayTurnDetails } from "../../../../src/model/transcript/turn-details.ts";
import { listTurns, turnsLooksMax, type TurnListInput } from "../../../../src/model/transcript/turn-list.ts";
import { operationKeptMs, operationsMax } from "../../../../src/model/transcript/turn-operations.ts";
import { deleteTurns, turnsDeleteMax, type TurnChoice } from "../../../../src/model/transcript/turn-removal.ts";
import { searchTurnText, strayTurnText } from "../../../../src/model/transcript/turn-text.ts";
import { ModelDatabase } from "../../../support/model-database.ts";

let database: ModelDatabase;

beforeEach(() => {
  database = new ModelDatabase();
});

afterEach(() => database.close());

const said = (content: string, more: Partial<NewTurn> = {}): NewTurn => ({
  role: "user",
  content: JSON.stringify(content),
  ...more,
});
const append = (turns: readonly NewTurn[], operationId?: string, sessionId = "s") =>
  database.write((tx) => appendTurns(tx, { sessionId, turns, operationId })).turns;
const remove = (choice: TurnChoice, operationId?: string, sessionId = "s") =>
  database.write((tx) => deleteTurns(tx, { sessionId, operationId, ...choice }));
const replace = (input: Omit<ReplaceInput, "sessionId">) =>
  database.write((tx) => replaceTurns(tx, { sessionId: "s", ...input }));
const list = (input: Omit<TurnListInput, "sessionId"> = {}) => listTurns(database.view(), { sessionId: "s", ...input });
const seqs = (input: Omit<TurnListInput, "sessionId"> = {}) => list(input).turns.map(({ seq }) => seq);
/** Turns that a search gives for this word and that say it: neighbours come along. */
const saying = (of: ModelDatabase, word: string) => {
  const { hits } = searchTurnText(of.view(), { query: word, filters: {}, want: 100, coverageMin: undefined });
  return hits.filter(({ row }) =>
    of.connection.get("SELECT 1 FROM __service_turn WHERE row = ? AND content LIKE ?", row, `%${word}%`),
  ).length;
};
const found = (word: string) => saying(database, word);
const rowsOf = (table: string) => database.connection.get<{ n: number }>(`SELECT count(*) AS n FROM ${table}`)?.n ?? 0;
const many = (count: number, from = 0) => Array.from({ length: count }, (_, at) => said(`turn ${from + at}`));

describe("appending", () => {
  test("turns get the next numbers in their order, with their ids, metadata, words and vectors", () => {
    append([said("zero")], undefined, "other");
    database.write((tx) => appendTurn(tx, { sessionId: "s", role: "user", content: '"first"' }));
    const given = append([
      said("heron", { turnId: "t-1", metadata: '{ "tool": "bash" }', embedding: Float32Array.of(1, 0) }),
      said("egret", { role: "assistant", embedding: Float32Array.of(1, 0, 0) }),
    ]);
    expect(given).toEqual([
      { seq: 2, status: "created", embedding: "stored" },
      { seq: 3, status: "created", embedding: "skipped_dimension" },
    ]);
    const at = { sessionId: "s", createdAt: database.nowMs };
    expect(list().turns).toEqual([
      { ...at, seq: 1, role: "user", content: '"first"' },
      { ...at, seq: 2, role: "user", content: '"heron"', turnId: "t-1", metadata: '{"tool":"bash"}' },
      { ...at, seq: 3, role: "assistant", content: '"egret"' },
    ]);
    expect(lastTurns(database.view(), { sessionId: "s", last: 2 }).turns).toEqual(list({ fromSeq: 2 }).turns);
    expect(found("heron")).toBe(1);
    const near = searchTurns(database.view(), { vector: Float32Array.of(1, 0) }).turns;
    expect(near).toMatchObject([{ seq: 2, turnId: "t-1", metadata: '{"tool":"bash"}', distance: 0 }]);
  });

  test("a turn whose id is there with the same content is given by its number and not written again", () => {
    append([said("a", { turnId: "t-1", metadata: '{"n":1,"m":2}' }), said("b", { turnId: "t-2" })]);
    const { lastActiveAt } = listSessions(database.view(), {}).sessions[0]!;
    database.nowMs += 1_000;
    const again = { turnId: "t-1", metadata: '{"m":2,"n":1}' };
    expect(append([said("a", again), said("b", { turnId: "t-2" })])).toEqual([
      { seq: 1, status: "duplicate" },
      { seq: 2, status: "duplicate" },
    ]);
    expect(listSessions(database.view(), {}).sessions[0]!.lastActiveAt).toBe(lastActiveAt);
    expect(append([said("c", { turnId: "t-3" }), said("a", again), said("c", { turnId: "t-3" })])).toEqual([
      { seq: 3, status: "created" },
      { seq: 1, status: "duplicate" },
      { seq: 3, status: "duplicate" },
    ]);
    expect(seqs()).toEqual([1, 2, 3]);
    // Another session has ids of its own.
    expect(append([said("x", { turnId: "t-1" })], undefined, "other")).toEqual([{ seq: 1, status: "created" }]);
  });

  test.each([
    ["content", said("b", { turnId: "t-1" })],
    ["role", said("a", { turnId: "t-1", role: "assistant" })],
    ["metadata", said("a", { turnId: "t-1", metadata: "{}" })],
  ])("the id of a turn with another %s is a conflict, and nothing of the call stays", (_field, turn) => {
    append([said("a", { turnId: "t-1" })]);
    expect(() => append([said("new"), turn])).toThrow(
      expect.objectContaining({ code: "conflict", message: expect.stringMatching(/^turns\[1\]\.turn_id is that of/) }),
    );
    expect(seqs()).toEqual([1]);
    expect(found("new")).toBe(0);
  });

  test("an operation gives its first answer for a day, also when its turns are gone; another request conflicts", () => {
    const first = append([said("a"), said("b")], "op-1");
    expect(append([said("a"), said("b")], "op-1")).toEqual(first);
    remove({ all: true });
    expect(append([said("a"), said("b")], "op-1")).toEqual(first);
    expect(seqs()).toEqual([]);
    expect(() => append([said("a")], "op-1")).toThrow(expect.objectContaining({ code: "conflict" }));
    expect(() => remove({ last: 1 }, "op-1")).toThrow(expect.objectContaining({ code: "conflict" }));
    expect(append([said("a")], "op-1", "other")).toEqual([{ seq: 1, status: "created" }]);
    database.nowMs += operationKeptMs;
    expect(append([said("c")], "op-1")).toEqual([{ seq: 3, status: "created" }]);
  });

  test("a failed operation is not remembered", () => {
    append([said("a", { turnId: "t-1" })]);
    expect(() => append([said("b", { turnId: "t-1" })], "op-1")).toThrow(/turn_id/);
    expect(append([said("c")], "op-1")).toEqual([{ seq: 2, status: "created" }]);
  });

  test("answers are kept for a day and in bounded number, and hold no content", () => {
    append([said("kingfisher")], "op-0");
    const [row] = database.connection.all<Record<string, unknown>>("SELECT * FROM __service_turn_operation");
    expect(JSON.stringify(row)).not.toContain("kingfisher");
    for (let at = 1; at < 40; at++) append([said("x")], `op-${at}`);
    expect(rowsOf("__service_turn_operation")).toBe(40);
    database.nowMs += operationKeptMs;
    for (let at = 0; at < 3; at++) append([said("y")], `late-${at}`);
    expect(rowsOf("__service_turn_operation")).toBe(3);
    // As if so many had come since.
    database.connection.run("UPDATE __service_turn_operation SET operation = ? WHERE operation_id = 'late-2'", 1e6);
    append([said("z")], "newest");
    expect(
      database.connection.all("SELECT operation_id AS id FROM __service_turn_operation ORDER BY operation"),
    ).toEqual([{ id: "late-2" }, { id: "newest" }]);
    expect(operationsMax).toBeLessThan(1e6);
  });

  test("bad turns fail the call and name what is wrong", () => {
    const large = JSON.stringify("x".repeat(1024 * 1024 - 2));
    for (const [turns, message] of [
      [[], /^turns must hold 1 to 1000/],
      [many(turnsBatchMax + 1), /^turns must hold at most 1000/],
      [[said("a"), said("b", { role: "" })], /^turns\[1\]\.role must be/],
      [[said("a", { content: "{" })], /^turns\[0\]\.content must be valid JSON/],
      [[said("a", { turnId: "x".repeat(129) })], /^turns\[0\]\.turn_id must be 1 to 128/],
      [[said("a", { metadata: "[]" })], /^turns\[0\]\.metadata must be an object/],
      [[said("a", { metadata: '{"$a":1}' })], /^turns\[0\]\.metadata has a field/],
      [[said("a", { embedding: Float32Array.of(0) })], /^turns\[0\]\.embedding/],
      [
        Array.from({ length: turnsBatchBytesMax / (1024 * 1024) + 1 }, () => ({ role: "user", content: large })),
        /bytes of content and metadata together$/,
      ],
    ] as const)
      expect(() => append(turns)).toThrow(expect.objectContaining({ message: expect.stringMatching(message) }));
    expect(() => append([said("a")], "")).toThrow(/^operation_id/);
    expect(() => append([said("a")], "op", "")).toThrow(/^session_id/);
    expect(listSessions(database.view(), {}).sessions).toEqual([]);
  });
});

describe("deleting", () => {
  beforeEach(() => void append([...many(4), said("owl", { turnId: "t-5" }), said("wren", { metadata: '{"a":1}' })]));

  test.each([
    [{ last: 2 }, [1, 2, 3, 4], 2],
    [{ last: 100 }, [], 6],
    [{ fromSeq: 3 }, [1, 2], 4],
    [{ seq: 2 }, [1, 3, 4, 5, 6], 1],
    [{ turnId: "t-5" }, [1, 2, 3, 4, 6], 1],
    [{ all: true }, [], 6],
    [{ seq: 7 }, [1, 2, 3, 4, 5, 6], 0],
    [{ turnId: "none" }, [1, 2, 3, 4, 5, 6], 0],
    [{ fromSeq: 7 }, [1, 2, 3, 4, 5, 6], 0],
  ])("%j leaves %j and says %i; numbers are not given again", (choice, left, deleted) => {
    expect(remove(choice)).toEqual({ deleted, more: false });
    expect(seqs()).toEqual(left);
    expect(append([said("next")])).toEqual([{ seq: 7, status: "created" }]);
    expect(remove({ all: true }).deleted).toBe(left.length + 1);
    expect(append([said("next")])).toEqual([{ seq: 8, status: "created" }]);
  });

  test("words, vectors and details go with their turn, and the session stays until it is ended", () => {
    append([said("heron", { turnId: "t-7", embedding: Float32Array.of(1, 0) })]);
    expect(remove({ fromSeq: 5 }).deleted).toBe(3);
    expect(found("heron") + found("owl") + found("wren")).toBe(0);
    expect(searchTurns(database.view(), { vector: Float32Array.of(1, 0) }).turns).toEqual([]);
    expect(rowsOf("__service_turn_detail")).toBe(0);
    expect(database.connection.all(strayTurnDetails(database.connection)!)).toEqual([]);
    // These few turns still wait for their index.
    expect(strayTurnText(database.connection)).toBeUndefined();
    expect(listSessions(database.view(), {}).sessions).toHaveLength(1);
    // The id of a turn that is gone is free.
    expect(append([said("other", { turnId: "t-7" })])).toEqual([{ seq: 8, status: "created" }]);
  });

  test("the end of a session takes the details along", () => {
    database.write((tx) => endSession(tx, { sessionId: "s", turns: true }));
    expect(rowsOf("__service_turn_detail")).toBe(0);
  });

  test("a repeated operation deletes once", () => {
    expect(remove({ last: 1 }, "pop")).toEqual({ deleted: 1, more: false });
    expect(remove({ last: 1 }, "pop")).toEqual({ deleted: 1, more: false });
    expect(seqs()).toEqual([1, 2, 3, 4, 5]);
  });

  test("one call deletes so many, newest first, and says that there are more", () => {
    for (let at = 0; at < turnsDeleteMax; at += turnsBatchMax) append(many(turnsBatchMax, at));
    expect(remove({ all: true })).toEqual({ deleted: turnsDeleteMax, more: true });
    expect(seqs()).toEqual([1, 2, 3, 4, 5, 6]);
    expect(remove({ all: true })).toEqual({ deleted: 6, more: false });
  });

  test("none or several choices are refused, and what no turn has", () => {
    for (const choice of [{}, { all: false }, { last: 1, all: true }, { seq: 1, turnId: "t" }])
      expect(() => remove(choice)).toThrow(/^give exactly one of/);
    for (const last of [0, 1.5, turnsDeleteMax + 1]) expect(() => remove({ last })).toThrow(/^last must be/);
    for (const seq of [0, -1, 2 ** 53]) expect(() => remove({ seq })).toThrow(/^seq must be/);
    expect(() => remove({ fromSeq: 0 })).toThrow(/^from_seq must be/);
    expect(() => remove({ turnId: "" })).toThrow(/^turn_id must be/);
  });
});

describe("replacing", () => {
  beforeEach(() => void append([said("a"), said("b", { turnId: "t-2" }), said("c")]));

  test("the expected end goes and the new turns come, with higher numbers", () => {
    const expected = [{ turnId: "t-2" }, { seq: 3, contentSha256: createHash("sha256").update('"c"').digest("hex") }];
    expect(replace({ expected, turns: [said("summary"), said("b", { turnId: "t-2" })] })).toEqual({
      removed: 2,
      turns: [
        { seq: 4, status: "created" },
        { seq: 5, status: "created" },
      ],
    });
    expect(list().turns.map(({ content }) => content)).toEqual(['"a"', '"summary"', '"b"']);
  });

  test.each([
    ["seq", [{ seq: 2 }]],
    ["turn_id", [{ turnId: "t-2" }]],
    ["turn_id", [{ turnId: "t-2" }, { turnId: "t-3" }]],
    ["content_sha256", [{ contentSha256: hashContent('"d"') }]],
  ])("another %s than expected is a conflict without any change", (field, expected) => {
    const before = list().turns;
    expect(() => replace({ expected, turns: [said("x")], operationId: "op" })).toThrow(
      expect.objectContaining({ code: "conflict", message: expect.stringContaining(`.${field} differs`) }),
    );
    expect(list().turns).toEqual(before);
    expect(replace({ expected: [{ seq: 3 }], turns: [], operationId: "op" })).toEqual({ removed: 1, turns: [] });
  });

  test("more turns than there are, and an id that stays, are conflicts", () => {
    const four = Array.from({ length: 4 }, (_, at) => ({ seq: at + 1 }));
    expect(() => replace({ expected: four, turns: [] })).toThrow(/the session has 3$/);
    const turns = [said("x"), said("b", { turnId: "t-2" })];
    expect(() => replace({ expected: [{ seq: 3 }], turns })).toThrow(/^turns\[1\]\.turn_id is that of a turn/);
    expect(seqs()).toEqual([1, 2, 3]);
  });

  test("a repeated operation replaces once; expecting nothing appends", () => {
    const input = { expected: [{ seq: 3 }], turns: [said("x")], operationId: "op" };
    const first = replace(input);
    expect(replace(input)).toEqual(first);
    expect(seqs()).toEqual([1, 2, 4]);
    expect(replace({ expected: [], turns: [said("y")] })).toEqual({
      removed: 0,
      turns: [{ seq: 5, status: "created" }],
    });
  });

  test("a row number that is used again brings nothing of the turn before it", () => {
    replace({
      expected: [{ seq: 3 }],
      turns: [said("heron", { turnId: "t-3", metadata: '{"a":1}', embedding: Float32Array.of(1, 0) })],
    });
    replace({ expected: [{ turnId: "t-3" }], turns: [said("egret")] });
    expect(list({ fromSeq: 4 }).turns).toEqual([
      { sessionId: "s", seq: 5, role: "user", content: '"egret"', createdAt: database.nowMs },
    ]);
    expect([found("heron"), found("egret")]).toEqual([0, 1]);
    expect(searchTurns(database.view(), { vector: Float32Array.of(1, 0) }).turns).toEqual([]);
  });

  test("the hash of a content is that of its canonical form", () => {
    expect(hashContent('{"b": 1.0, "a": [12345678901234567890, "é"]}')).toBe(
      createHash("sha256").update('{"a":[12345678901234567000,"é"],"b":1}').digest("hex"),
    );
    expect(hashContent('{"id":9007199254740993}')).toBe(
      createHash("sha256").update('{"id":9007199254740993}').digest("hex"),
    );
  });

  test("an expectation of nothing, or none that can be, is refused", () => {
    for (const [input, message] of [
      [{ expected: [], turns: [] }, /^give expected, turns or both/],
      [{ expected: [{}], turns: [] }, /^expected\[0\] must have at least one/],
      [{ expected: [{ seq: 0 }], turns: [] }, /^expected\[0\]\.seq must be/],
      [{ expected: [{ contentSha256: "AB" }], turns: [] }, /^expected\[0\]\.content_sha256 must be/],
      [{ expected: [{ turnId: "" }], turns: [] }, /^expected\[0\]\.turn_id must be/],
      [{ expected: Array.from({ length: 1001 }, () => ({ seq: 1 })), turns: [] }, /^expected must hold at most 1000/],
    ] as const)
      expect(() => replace(input)).toThrow(expect.objectContaining({ message: expect.stringMatching(message) }));
  });
});

describe("listing", () => {
  test("both directions, ranges, roles and metadata, page by page to the end", () => {
    for (let at = 0; at < 2_500; at += 500)
      append(
        Array.from({ length: 500 }, (_, step) =>
          said("x", {
            role: step % 2 === 0 ? "user" : "assistant",
            ...(step % 5 === 0 && { metadata: JSON.stringify({ n: at + step }) }),
          }),
        ),
      );
    const all = (input: Omit<TurnListInput, "sessionId">): number[] => {
      const got: number[] = [];
      for (let cursor: string | undefined; ;) {
        const page = list({ ...input, ...(cursor !== undefined && { cursor }) });
        got.push(...page.turns.map(({ seq }) => seq));
        if (page.nextCursor === undefined) return got;
        cursor = page.nextCursor;
      }
    };
    const numbers = Array.from({ length: 2_500 }, (_, at) => at + 1);
    expect(all({ limit: 1_000 })).toEqual(numbers);
    expect(all({ order: "desc", limit: 7 })).toEqual(numbers.toReversed());
    expect(all({ fromSeq: 10, toSeq: 2_000, limit: 999 })).toEqual(numbers.slice(9, 2_000));
    expect(all({ order: "desc", fromSeq: 10, toSeq: 12 })).toEqual([12, 11, 10]);
    expect(all({ role: "assistant" })).toEqual(numbers.filter((seq) => seq % 2 === 0));
    expect(all({ filter: '{"n":{"$gte":2400}}', order: "desc" })).toEqual(
      numbers.filter((seq) => seq > 2_400 && seq % 5 === 1).toReversed(),
    );
    expect(all({ filter: '{"n":{"$exists":false}}', role: "user" })).toEqual(
      numbers.filter((seq) => seq % 5 !== 1 && seq % 2 === 1),
    );
    expect(list().turns).toHaveLength(100);
    expect(list({ limit: 5_000 }).turns).toHaveLength(1_000);
  });

  test("a page that finds nothing says where to go on", () => {
    for (let at = 0; at <= turnsLooksMax; at += turnsBatchMax) append(many(turnsBatchMax));
    const page = list({ role: "assistant" });
    expect(page.turns).toEqual([]);
    expect(list({ role: "assistant", cursor: page.nextCursor! })).toEqual({ turns: [] });
    expect(listTurns(database.view(), { sessionId: "none" })).toEqual({ turns: [] });
  });

  test("a page is bounded in bytes, but has one turn at least", () => {
    append(Array.from({ length: 5 }, () => said("x".repeat(900_000))));
    expect(list().turns).toHaveLength(2);
    append([said("y".repeat(1_000_000))]);
    expect(list({ order: "desc", limit: 1 }).turns).toHaveLength(1);
  });

  test("what no listing can be is refused", () => {
    append(many(3));
    const { nextCursor } = list({ limit: 1 });
    for (const [input, message] of [
      [{ order: "up" }, /^order/],
      [{ limit: 0 }, /^limit/],
      [{ fromSeq: 0 }, /^from_seq/],
      [{ toSeq: 1.5 }, /^to_seq/],
      [{ role: "" }, /^role/],
      [{ filter: "{" }, /^filter/],
      [{ cursor: "zz" }, /^cursor/],
      [{ cursor: nextCursor!, order: "desc" }, /^cursor/],
    ] as const)
      expect(() => list(input)).toThrow(expect.objectContaining({ message: expect.stringMatching(message) }));
  });
});

describe("sessions", () => {
  test("newest first, page by page, with their turns where they are asked for", () => {
    for (const id of ["a", "b", "c"]) {
      database.nowMs += 10;
      append(many(2), undefined, id);
    }
    database.nowMs += 10;
    append([said("x")], undefined, "a");
    remove({ all: true }, undefined, "b");
    const first = listSessions(database.view(), { limit: 2, includeTurns: true });
    const start = database.nowMs - 40;
    expect(first.sessions).toEqual([
      {
        id: "a",
        createdAt: start + 10,
        lastActiveAt: start + 40,
        turns: 3,
        firstTurnAt: start + 10,
        lastTurnAt: start + 40,
      },
      {
        id: "c",
        createdAt: start + 30,
        lastActiveAt: start + 30,
        turns: 2,
        firstTurnAt: start + 30,
        lastTurnAt: start + 30,
      },
    ]);
    expect(listSessions(database.view(), { includeTurns: true, cursor: first.nextCursor! })).toEqual({
      sessions: [{ id: "b", createdAt: start + 20, lastActiveAt: start + 20, turns: 0 }],
    });
    expect(Object.keys(listSessions(database.view(), {}).sessions[0]!)).toEqual(["id", "createdAt", "lastActiveAt"]);
    expect(() => listSessions(database.view(), { cursor: "x" })).toThrow(/^cursor/);
    expect(turnsCountedMax).toBeGreaterThan(1_000);
  });
});

test.each([1, 2])("any acts of several clients on a file of format %i leave what a list of them would", (format) => {
  const id = fc.integer({ min: 0, max: 5 });
  const act = fc.oneof(
    fc.record({ kind: fc.constant("append" as const), ids: fc.array(id, { minLength: 1, maxLength: 4 }) }),
    fc.record({ kind: fc.constant("pop" as const), n: fc.integer({ min: 1, max: 3 }) }),
    fc.record({ kind: fc.constant("replace" as const), n: fc.integer({ min: 0, max: 3 }), right: fc.boolean() }),
  );
  fc.assert(
    fc.property(fc.array(fc.array(act, { minLength: 1, maxLength: 4 }), { maxLength: 12 }), (groups) => {
      const fresh = new ModelDatabase(undefined, format);
      try {
        let model: { seq: number; text: string }[] = [];
        let next = 1;
        for (const group of groups) {
          const commands = group.map((step) => (tx: Parameters<typeof appendTurns>[0]): unknown => {
            if (step.kind === "append")
              return appendTurns(tx, {
                sessionId: "s",
                turns: step.ids.map((n) => said(`word${n}`, { turnId: `t-${n}`, embedding: Float32Array.of(n, 1) })),
              });
            if (step.kind === "pop") return deleteTurns(tx, { sessionId: "s", last: step.n });
            const tail = listTurns(tx, { sessionId: "s", order: "desc", limit: step.n + 1 }).turns.slice(0, step.n);
            const expected = tail.reverse().map(({ seq }) => ({ seq: seq + (step.right ? 0 : 1) }));
            return replaceTurns(tx, { sessionId: "s", expected, turns: [said("summary")] });
          });
          const outcomes = fresh.group(...commands);
          for (const [at, step] of group.entries()) {
            if (step.kind === "append")
              for (const n of step.ids)
                if (!model.some(({ text }) => text === `word${n}`)) model.push({ seq: next++, text: `word${n}` });
            if (step.kind === "pop") model = model.slice(0, Math.max(0, model.length - step.n));
            if (step.kind !== "replace") continue;
            const wins = step.right || step.n === 0 || model.length === 0;
            expect(outcomes[at]!.kind).toBe(wins ? "done" : "failed");
            if (!wins) continue;
            model = [...model.slice(0, Math.max(0, model.length - step.n)), { seq: next++, text: "summary" }];
          }
          const there = listTurns(fresh.view(), { sessionId: "s" }).turns;
          expect(there.map(({ seq, content }) => ({ seq, text: JSON.parse(content) as string }))).toEqual(model);
          const words = model.filter(({ text }) => text !== "summary").map(({ text }) => text);
          for (let n = 0; n <= 5; n++) {
            expect(saying(fresh, `word${n}`)).toBe(words.includes(`word${n}`) ? 1 : 0);
          }
          const near = searchTurns(fresh.view(), { vector: Float32Array.of(1, 1), k: 100 }).turns;
          expect(near).toHaveLength(words.length);
          expect(fresh.connection.all(strayTurnText(fresh.connection) ?? "SELECT 1 WHERE 0")).toEqual([]);
          expect(fresh.connection.all(strayTurnDetails(fresh.connection) ?? "SELECT 1 WHERE 0")).toEqual([]);
        }
      } finally {
        fresh.close();
      }
    }),
    { numRuns: 25 },
  );
});

test("an earlier build that ends a session knows nothing of details, and leaves none behind", () => {
  append([said("a", { turnId: "t-1", metadata: '{"a":1}' })]);
  database.connection.exec("DELETE FROM __service_turn WHERE session_id = 's'");
  expect(rowsOf("__service_turn_detail")).toBe(0);
});
