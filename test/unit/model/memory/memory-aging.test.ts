/** What policy lets go of, held against the same rules said in a few lines over plain records. */
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { limits } from "../../../../src/base/limits.ts";
import { ageMemories, type AgingPosition } from "../../../../src/model/memory/memory-aging.ts";
import type { MemoryRetention } from "../../../../src/model/core/retention.ts";
import { ingest, type MemoryInput } from "../../../../src/model/memory/memory-ingest.ts";
import { deleteMemory } from "../../../../src/model/memory/stored-memories.ts";
import { recall } from "../../../../src/model/recall.ts";
import { ModelDatabase } from "../../../support/model-database.ts";
import { seeded } from "../../../support/random.ts";
import { sweepRowsMax } from "../../../../src/engine/maintenance/expired-row-sweeper.ts";

let database: ModelDatabase;
let position: AgingPosition;

beforeEach(() => {
  database = new ModelDatabase();
  position = {};
});

afterEach(() => database.close());

function take(...memories: readonly (Partial<MemoryInput> & { readonly summary: string })[]): string[] {
  return database
    .write((tx) => ingest(tx, { memories: memories.map((memory) => ({ type: "fact", content: "{}", ...memory })) }))
    .results.map(({ id }) => id);
}

/** One sweep: turns until there is no more to do; gives how many it took. */
function age(retention: MemoryRetention, rowsMax: number = sweepRowsMax): number {
  for (let turns = 1; ; turns++) {
    const aged = database.write((tx) => ageMemories(tx, retention, position, rowsMax));
    position = aged.position;
    if (!aged.more) return turns;
    if (turns > 1_000) throw new Error("the sweep does not end");
  }
}

const left = (): string[] =>
  database.connection
    .all<{ summary: string }>("SELECT summary FROM __service_memory ORDER BY row")
    .map(({ summary }) => summary);
const minute = 60_000;

describe("superseded_max_count", () => {
  test("governance-08: of three generations, 1 removes exactly the oldest superseded one", () => {
    take({ summary: "v1", topicKey: "plan" }, { summary: "v2", topicKey: "plan" }, { summary: "v3", topicKey: "plan" });
    take(
      { summary: "other type", type: "instruction", topicKey: "plan" },
      { summary: "other topic", topicKey: "name" },
      { summary: "no topic" },
    );
    age({ supersededMaxCount: 2 });
    expect(left()).toEqual(["v1", "v2", "v3", "other type", "other topic", "no topic"]);
    age({ supersededMaxCount: 1 });
    expect(left()).toEqual(["v2", "v3", "other type", "other topic", "no topic"]);
    expect(recall(database.view(), { query: "v1", includeSuperseded: true }).memories).toEqual([]);
  });

  test("counts the superseded ones of a topic whose active memory was forgotten", () => {
    const [, , active] = take(
      { summary: "v1", topicKey: "plan" },
      { summary: "v2", topicKey: "plan" },
      { summary: "v3", topicKey: "plan" },
    );
    database.write((tx) => deleteMemory(tx, { id: active! }));
    age({ supersededMaxCount: 2 });
    expect(left()).toEqual(["v1", "v2"]);
    age({ supersededMaxCount: 1 });
    expect(left()).toEqual(["v2"]);
  });

  test("goes over any number of topics in turns of bounded size", () => {
    for (let topic = 0; topic < 25; topic++)
      for (let n = 0; n < 4; n++) take({ summary: `${topic} ${n}`, topicKey: `topic ${topic}` });
    expect(age({ supersededMaxCount: 1 }, 4)).toBeGreaterThan((25 * 2) / 4);
    expect(left()).toEqual(Array.from({ length: 25 }, (_, topic) => [`${topic} 2`, `${topic} 3`]).flat());
    expect(position).toEqual({});
  });
});

describe("governance-14: event_max_age and superseded_max_age", () => {
  test("remove events by their own age, and no memory of another type", () => {
    take(
      { summary: "old event", type: "event" },
      { summary: "old fact" },
      { summary: "old instruction", type: "instruction" },
      { summary: "old task", type: "task", ttlSecs: 86_400 },
    );
    database.nowMs += minute;
    take({ summary: "young event", type: "event" });
    age({ eventMaxAgeMs: minute + 1 });
    expect(left()).toHaveLength(5);
    age({ eventMaxAgeMs: minute });
    expect(left()).toEqual(["old fact", "old instruction", "old task", "young event"]);
    database.nowMs += minute;
    age({ eventMaxAgeMs: minute });
    expect(left()).toEqual(["old fact", "old instruction", "old task"]);
  });

  test("remove what was superseded long ago, however old it was then, and no active memory", () => {
    take({ summary: "v1", topicKey: "plan" }, { summary: "old", topicKey: "name" });
    database.nowMs += minute;
    take({ summary: "v2", topicKey: "plan" });
    database.nowMs += minute;
    take({ summary: "v3", topicKey: "plan" });
    age({ supersededMaxAgeMs: minute + 1 });
    expect(left()).toEqual(["v1", "old", "v2", "v3"]);
    age({ supersededMaxAgeMs: minute });
    expect(left()).toEqual(["old", "v2", "v3"]);
    database.nowMs += 1_000 * minute;
    age({ supersededMaxAgeMs: minute });
    expect(left()).toEqual(["old", "v3"]);
  });

  test("F42: an event of a clock that was ahead stands in nobody's way, and goes with those after it", () => {
    take({ summary: "first", type: "event" });
    const rightMs = database.nowMs;
    database.nowMs += 8 * 365 * 86_400_000;
    take({ summary: "ahead", type: "event" }, { summary: "ahead fact" });
    database.nowMs = rightMs + 1_000;
    take({ summary: "after", type: "event" });
    database.nowMs = rightMs + minute;
    age({ eventMaxAgeMs: minute });
    expect(left()).toEqual(["ahead", "ahead fact", "after"]);
    database.nowMs = rightMs + 1_000 + minute;
    take({ summary: "young", type: "event" });
    age({ eventMaxAgeMs: minute });
    expect(left()).toEqual(["ahead fact", "young"]);
  });

  test("F42: more such events than one turn looks at are passed over", () => {
    const rightMs = database.nowMs;
    database.nowMs += 8 * 365 * 86_400_000;
    for (let n = 0; n < limits.sweepLooksMax + 10; n += 500)
      take(...Array.from({ length: 500 }, (_, at) => ({ summary: `${n} ${at}`, type: "event" }) as never));
    database.nowMs = rightMs;
    take({ summary: "after", type: "event" });
    database.nowMs = rightMs + minute;
    age({ eventMaxAgeMs: minute });
    expect(left()).not.toContain("after");
  });

  test("an event whose row was given again after others were forgotten is swept like any other", () => {
    const [, last] = take({ summary: "kept" }, { summary: "forgotten" });
    database.nowMs += 2 * minute;
    age({ eventMaxAgeMs: minute });
    expect(position.event).toBeDefined();
    database.write((tx) => deleteMemory(tx, { id: last! }));
    take({ summary: "event", type: "event" });
    database.nowMs += 2 * minute;
    age({ eventMaxAgeMs: minute });
    expect(left()).toEqual(["kept"]);
  });

  test("a second sweep looks past what the first has passed, and turns are bounded", () => {
    for (let n = 0; n < 30; n++)
      take(
        ...Array.from(
          { length: 100 },
          (_, at) => ({ summary: `${n} ${at}`, type: at % 10 === 0 ? "event" : "fact", topicKey: undefined }) as never,
        ),
      );
    database.nowMs += minute;
    expect(age({ eventMaxAgeMs: minute }, 50)).toBeGreaterThan(5);
    expect(left()).toHaveLength(2_700);
    const passed = position.event!.row;
    expect(passed).toBeGreaterThan(2_990);
    expect(age({ eventMaxAgeMs: minute }, 50)).toBe(1);
    expect(position.event!.row).toBe(passed);
  });
});

test("bounds that let nothing go change nothing: no transaction id is spent", () => {
  take({ summary: "v1", topicKey: "plan" }, { summary: "v2", topicKey: "plan" }, { summary: "event", type: "event" });
  const outcome = database.group((tx) =>
    ageMemories(tx, { eventMaxAgeMs: minute, supersededMaxAgeMs: minute, supersededMaxCount: 1 }, {}, 10),
  )[0]!;
  expect(outcome).toMatchObject({ kind: "done", changed: false });
});

test("governance-08 and governance-14: a random history keeps what the rules say, whatever bounds come and go", () => {
  const random = seeded(20_261_121);
  interface Kept {
    readonly id: string;
    readonly type: string;
    readonly topicKey?: string;
    readonly createdAtMs: number;
    supersededAtMs?: number;
  }
  let model: Kept[] = [];
  for (let step = 0; step < 400; step++) {
    database.nowMs += Math.floor(random() * minute);
    const nowMs = database.nowMs;
    const draw = random();
    if (draw < 0.7) {
      const type = ["fact", "event", "instruction"][Math.floor(random() * 3)]!;
      const topicKey = type === "event" || random() < 0.2 ? undefined : `topic ${Math.floor(random() * 5)}`;
      const [id] = take({ type, summary: `memory ${step}`, ...(topicKey === undefined ? {} : { topicKey }) });
      for (const kept of model)
        if (topicKey !== undefined && kept.type === type && kept.topicKey === topicKey) kept.supersededAtMs ??= nowMs;
      model.push({ id: id!, type, createdAtMs: nowMs, ...(topicKey === undefined ? {} : { topicKey }) });
    } else if (draw < 0.8 && model.length > 0) {
      const gone = random() < 0.5 ? model.at(-1)! : model[Math.floor(random() * model.length)]!;
      database.write((tx) => deleteMemory(tx, { id: gone.id }));
      model = model.filter((kept) => kept !== gone);
    } else {
      // A file that is opened anew starts from the beginning.
      if (random() < 0.1) position = {};
      const retention: MemoryRetention = {
        ...(random() < 0.6 && { eventMaxAgeMs: Math.floor(random() * 40 * minute) }),
        ...(random() < 0.5 && { supersededMaxAgeMs: Math.floor(random() * 60 * minute) }),
        ...(random() < 0.5 && { supersededMaxCount: 1 + Math.floor(random() * 4) }),
      };
      age(retention, 1 + Math.floor(random() * 20));
      const { eventMaxAgeMs = Infinity, supersededMaxAgeMs = Infinity, supersededMaxCount = Infinity } = retention;
      model = model.filter(
        ({ type, createdAtMs, supersededAtMs = Infinity }) =>
          !(type === "event" && createdAtMs <= nowMs - eventMaxAgeMs) &&
          !(supersededAtMs <= nowMs - supersededMaxAgeMs),
      );
      const places = new Map<string, number>();
      model = model
        .toReversed()
        .filter(({ type, topicKey, supersededAtMs }) => {
          if (supersededAtMs === undefined) return true;
          const place = (places.get(`${type} ${topicKey}`) ?? 0) + 1;
          places.set(`${type} ${topicKey}`, place);
          return place <= supersededMaxCount;
        })
        .reverse();
    }
    const ids = database.connection
      .all<{ id: string }>("SELECT id FROM __service_memory ORDER BY row")
      .map(({ id }) => id);
    expect(ids, `step ${step}`).toEqual(model.map(({ id }) => id));
  }
});
