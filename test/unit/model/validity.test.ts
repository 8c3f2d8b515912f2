/** When what is remembered holds in the world: what is shown at which time, and what follows what on a topic. */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { composeContext } from "../../../src/model/context-block.ts";
import { checkMemories, ingest } from "../../../src/model/memory/memory-ingest.ts";
import { listMemories } from "../../../src/model/memory/memory-list.ts";
import { deleteMemory } from "../../../src/model/memory/stored-memories.ts";
import { recall } from "../../../src/model/recall.ts";
import { review } from "../../../src/model/review.ts";
import { draft, useMemoryDatabase, type Draft } from "../../support/memory-database.ts";
import { ModelDatabase } from "../../support/model-database.ts";

const memory = useMemoryDatabase();
const { ingestOne, ingestAll, get, recalled } = memory;

const day = 86_400_000;
const shown = (nowMs: number): readonly string[] =>
  composeContext(memory.database().view(), { nowMs, query: "Alice" }).sections.flatMap(({ ids }) => ids);

describe("what says when it holds", () => {
  test("is shown then and at no other time, and says so", () => {
    const database = memory.database();
    const [from, until] = [database.nowMs + day, database.nowMs + 2 * day];
    const { id } = ingestOne({ type: "event", summary: "Alice is in Rome", validFromMs: from, validUntilMs: until });
    const { id: always } = ingestOne({ summary: "Alice likes tea" });
    expect(get(id)).toMatchObject({ validFrom: from, validUntil: until });
    expect(get(always)).not.toHaveProperty("validFrom");
    for (const [atMs, holds] of [
      [from - 1, false],
      [from, true],
      [until - 1, true],
      [until, false],
    ] as const) {
      const expected = holds ? [always, id].toSorted() : [always];
      expect(recalled({ query: "Alice", validAtMs: atMs }).toSorted(), `${atMs}`).toEqual(expected);
      const { memories } = listMemories(database.view(), { validAtMs: atMs });
      expect(memories.map((one) => one.id).toSorted()).toEqual(expected);
      expect(shown(atMs).toSorted()).toEqual(expected);
    }
    expect(recalled({ query: "Rome" }), "now").toEqual([]);
    expect(recalled({ query: "Rome", includeInvalid: true })).toEqual([id]);
    expect(recall(database.view(), { query: "Rome" }).emptyReason).toBe("filtered_out");
    expect(listMemories(database.view(), {}).memories).toHaveLength(2);
    database.nowMs = from;
    expect(recalled({ query: "Rome" })).toEqual([id]);
  });

  test("is the same only as what holds as long", () => {
    const one = { summary: "Alice is in Rome", validUntilMs: 9 };
    const { id } = ingestOne(one);
    expect(ingestOne(one)).toMatchObject({ id, status: "duplicate" });
    for (const other of [{}, { validUntilMs: 10 }, { validFromMs: 9 }, { validFromMs: -9, validUntilMs: 9 }])
      expect(ingestOne({ summary: one.summary, ...other })).toMatchObject({ status: "created" });
  });

  test("keeps its times through a review, and loses them with itself", () => {
    const database = memory.database();
    const { id } = ingestOne({ summary: "Alice is in Rome", validFromMs: -day, validUntilMs: day, proposed: true });
    database.write((tx) => review(tx, { ids: [id], verdict: "approve" }));
    expect(get(id)).toMatchObject({ validFrom: -day, validUntil: day });
    expect(recalled({ query: "Rome", validAtMs: 0 })).toEqual([id]);
    database.write((tx) => deleteMemory(tx, { id }));
    expect(memory.rows("__service_memory_validity")).toBe(0);
  });

  test.each<[Draft, string]>([
    [{ validFromMs: 2, validUntilMs: 2 }, "valid_from must be before valid_until"],
    [{ validFromMs: 1.5 }, "memories[0].valid_from must be a time"],
    [{ validUntilMs: 8.65e15 }, "memories[0].valid_until must be a time"],
  ])("%j is refused", (one, words) => {
    expect(() => checkMemories([draft(one)])).toThrow(words);
  });
});

describe("on a topic", () => {
  const home = { topicKey: "home" };

  test("what holds later takes its place later, and what holds for a while gives it back", () => {
    const now = memory.database().nowMs;
    const [berlin, madrid, rome] = ingestAll([
      { ...home, summary: "Alice lives in Berlin" },
      { ...home, summary: "Alice lives in Madrid", validFromMs: now + 30 * day },
      { ...home, summary: "Alice is in Rome", validFromMs: now + day, validUntilMs: now + 2 * day },
    ]).map(({ id }) => id) as [string, string, string];
    expect(get(berlin)).toMatchObject({ supersededBy: madrid });
    for (const [after, id] of [
      [0, berlin],
      [day, rome],
      [2 * day, berlin],
      [31 * day, madrid],
    ] as const) {
      expect(recalled({ topicKey: "home", validAtMs: now + after })).toEqual([id]);
      expect(recalled({ query: "Alice lives Rome", validAtMs: now + after })).toEqual([id]);
      expect(shown(now + after)).toEqual([id]);
    }
    expect(recalled({ topicKey: "home", includeSuperseded: true }).toSorted()).toEqual(
      [berlin, madrid, rome].filter((id) => id === berlin),
    );
  });

  test("what is said again of other times has an end from then on, and what holds in turns has none of it", () => {
    const now = memory.database().nowMs;
    const said = { ...home, summary: "Alice lives in Berlin" };
    const [, ended] = ingestAll([said, { ...said, validUntilMs: now + day }]).map(({ id }) => id) as [string, string];
    expect(recalled({ topicKey: "home" })).toEqual([ended]);
    expect(recalled({ topicKey: "home", validAtMs: now + day })).toEqual([]);
    const shift = { topicKey: "shift", summary: "Alice is on call" };
    const [first, third] = ingestAll([
      { ...shift, validFromMs: now, validUntilMs: now + day },
      { ...shift, validFromMs: now + 2 * day, validUntilMs: now + 3 * day },
    ]).map(({ id }) => id) as [string, string];
    expect([0, day, 2 * day].map((after) => recalled({ topicKey: "shift", validAtMs: now + after }))).toEqual([
      [first],
      [],
      [third],
    ]);
  });

  test("what was forgotten in between leaves what it superseded superseded", () => {
    const now = memory.database().nowMs;
    const [berlin, madrid] = ingestAll([
      { ...home, summary: "Alice lives in Berlin" },
      { ...home, summary: "Alice lives in Madrid", validFromMs: now + day },
    ]).map(({ id }) => id) as [string, string];
    expect(recalled({ topicKey: "home" })).toEqual([berlin]);
    memory.database().write((tx) => deleteMemory(tx, { id: madrid }));
    expect(recalled({ topicKey: "home" })).toEqual([]);
  });

  test("what holds in turns can be said again without end", () => {
    const now = memory.database().nowMs;
    const all = [
      { ...home, summary: "Alice lives in Bonn", validUntilMs: now - 9 * day },
      { ...home, summary: "Alice lives in Berlin", validFromMs: now - 9 * day, validUntilMs: now + day },
      { ...home, summary: "Alice lives in Madrid", validFromMs: now + day },
    ];
    const ids = ingestAll(all).map(({ id }) => id);
    expect(ingestAll(all)).toMatchObject(ids.map((id) => ({ id, status: "duplicate", superseded: [] })));
  });

  test("an instruction that is held over is shown, however old it is", () => {
    const now = memory.database().nowMs;
    const plan = { type: "instruction", topicKey: "tone" };
    const [old] = ingestAll([
      { ...plan, summary: "Alice wants it short" },
      { ...plan, summary: "Alice wants it long", validFromMs: now + day },
    ]).map(({ id }) => id);
    expect(shown(now)).toEqual([old]);
  });
});

interface Said {
  readonly summary: string;
  readonly from: number | undefined;
  readonly until: number | undefined;
}

interface Held extends Said {
  readonly id: string;
  by: string | undefined;
}

/** One topic as it should be. */
class Topic {
  held: Held[] = [];

  #holds({ from = -Infinity, until = Infinity }: Said, at: number): boolean {
    return from <= at && at < until;
  }

  /** Whether it says the other again, of a time that overlaps. */
  #isAgain(later: Said, one: Said): boolean {
    const { from = -Infinity, until = Infinity } = one;
    return later.summary === one.summary && (later.from ?? -Infinity) < until && from < (later.until ?? Infinity);
  }

  stands(one: Held, at: number): boolean {
    if (!this.#holds(one, at)) return false;
    for (let by = one.by; by !== undefined;) {
      const later = this.held.find(({ id }) => id === by);
      if (!later || this.#holds(later, at) || this.#isAgain(later, one)) return false;
      by = later.by;
    }
    return true;
  }

  /** The memory that the said one is the same as. */
  same(said: Said, now: number): Held | undefined {
    const times = [
      now,
      ...(said.from === undefined ? [] : [said.from]),
      ...(said.until === undefined ? [] : [said.until - 1]),
    ];
    return this.held.findLast(
      (one) =>
        one.summary === said.summary &&
        one.from === said.from &&
        one.until === said.until &&
        (one.by === undefined || times.some((at) => this.stands(one, at))),
    );
  }
}

const base = 1_700_000_000_000;
const hour = fc.option(
  fc.integer({ min: 1, max: 6 }).map((n) => base + n),
  { nil: undefined },
);
const step = fc.oneof(
  {
    weight: 4,
    arbitrary: fc
      .record({ do: fc.constant("say" as const), summary: fc.constantFrom("one", "two"), from: hour, until: hour })
      .filter(({ from, until }) => from === undefined || until === undefined || from < until),
  },
  fc.record({ do: fc.constant("forget" as const), which: fc.nat({ max: 20 }) }),
);

test.each([1, 2])("whatever is said and forgotten in whatever order, in a file of format %i", (format) => {
  fc.assert(
    fc.property(fc.array(step, { minLength: 1, maxLength: 25 }), (steps) => {
      const database = new ModelDatabase(undefined, format);
      try {
        const topic = new Topic();
        for (const one of steps) {
          if (one.do === "forget") {
            const chosen = topic.held[one.which % (topic.held.length || 1)];
            if (chosen) database.write((tx) => deleteMemory(tx, { id: chosen.id }));
            topic.held = topic.held.filter((held) => held !== chosen);
            continue;
          }
          const { summary, from, until } = one;
          const times = {
            ...(from !== undefined && { validFromMs: from }),
            ...(until !== undefined && { validUntilMs: until }),
          };
          const [result] = database.write((tx) =>
            ingest(tx, { memories: [{ ...draft({ summary, topicKey: "home" }), ...times }] }),
          ).results;
          const same = topic.same(one, database.nowMs);
          expect(result!.status).toBe(same ? "duplicate" : "created");
          if (same) continue;
          const active = topic.held.find(({ by }) => by === undefined);
          if (active) active.by = result!.id;
          topic.held.push({ id: result!.id, summary, from, until, by: undefined });
        }
        for (let at = base; at <= base + 7; at++) {
          const expected = topic.held.filter((one) => topic.stands(one, at)).map(({ id }) => id);
          const view = { ...database.view(), nowMs: at };
          expect(recall(view, { topicKey: "home" }).memories.map(({ id }) => id)).toEqual(expected);
          expect(listMemories(view, { validAtMs: at }).memories.map(({ id }) => id)).toEqual(expected);
          const { sections } = composeContext(view, { nowMs: at, sections: [{ name: "facts" }] });
          expect(sections[0]!.ids).toEqual(expected);
        }
      } finally {
        database.close();
      }
    }),
    { numRuns: 60 },
  );
});
