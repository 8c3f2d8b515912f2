/** When a database is to be swept next, told by its rows: never later than something expires. */
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { runWrite } from "../../../src/model/commands.ts";
import { nextDue, type DueQuestion } from "../../../src/model/next-expiry.ts";
import { kvPut } from "../../../src/model/kv/kv.ts";
import type { MemoryRetention } from "../../../src/model/core/retention.ts";
import { ingest, type MemoryInput } from "../../../src/model/memory/memory-ingest.ts";
import { ModelDatabase } from "../../support/model-database.ts";
import { seeded } from "../../support/random.ts";

let database: ModelDatabase;

beforeEach(() => {
  database = new ModelDatabase();
});

afterEach(() => database.close());

const day = 86_400_000;
type Swept = { readonly more: boolean; readonly position: object; readonly dueAtMs: number | undefined };

const take = (...memories: readonly Partial<MemoryInput>[]): void =>
  void database.write((tx) =>
    ingest(tx, {
      memories: memories.map((memory, at) => ({
        type: "fact",
        summary: `memory ${database.nowMs} ${at}`,
        content: "{}",
        ...memory,
      })),
    }),
  );
const put = (key: string, ttlSecs?: number): void =>
  void database.write((tx) =>
    kvPut(tx, { ns: "n", key, value: Uint8Array.of(1), ...(ttlSecs !== undefined && { ttlSecs }) }),
  );
const due = (question: Partial<DueQuestion> = {}): number | undefined =>
  nextDue(database.view(), { isSwept: false, ...question }).dueAtMs;
const rows = (): number =>
  database.connection.get<{ n: number }>(
    "SELECT (SELECT count(*) FROM __service_kv) + (SELECT count(*) FROM __service_memory) AS n",
  )!.n;
const sweep = (position: object, retention?: MemoryRetention): Swept =>
  database.write((tx) => runWrite("sweep", tx, { rowsMax: 500, position, ...(retention && { retention }) })) as Swept;

/** Sweeps until nothing is left to do. */
function sweepAll(retention?: MemoryRetention, position: object = {}): Swept {
  for (let swept = sweep(position, retention); ; swept = sweep(swept.position, retention))
    if (!swept.more) return swept;
}

describe("what is due", () => {
  test("is nothing where nothing expires", () => {
    expect(due()).toBeUndefined();
    put("stays");
    take({ type: "fact", topicKey: "t" }, { type: "event" });
    take({ type: "fact", topicKey: "t" });
    expect(due()).toBeUndefined();
    expect(due({ retention: { eventMaxAgeMs: day }, isSwept: true })).toBeDefined();
  });

  test("is the earliest end of a key or a task, also one that is over", () => {
    const { nowMs } = database;
    put("late", 500);
    take({ type: "task", ttlSecs: 300 });
    expect(due()).toBe(nowMs + 300_000);
    put("early", 100);
    expect(due()).toBe(nowMs + 100_000);
    database.nowMs += 200_000;
    expect(due()).toBe(nowMs + 100_000);
    expect(sweepAll().dueAtMs).toBe(nowMs + 300_000);
  });

  test("is when the oldest event, or what was superseded first, is too old", () => {
    const { nowMs } = database;
    take({ type: "fact", topicKey: "t" });
    database.nowMs += 1_000;
    take({ type: "event" });
    database.nowMs += 1_000;
    take({ type: "fact", topicKey: "t" }, { type: "event" });
    expect(due({ retention: { eventMaxAgeMs: day } })).toBe(nowMs + 1_000 + day);
    expect(due({ retention: { supersededMaxAgeMs: day } })).toBe(nowMs + 2_000 + day);
    expect(due({ retention: { eventMaxAgeMs: 2 * day, supersededMaxAgeMs: day } })).toBe(nowMs + 2_000 + day);
  });

  test("is now where a topic may have too many and no sweep has been through since", () => {
    take({ type: "fact", topicKey: "t" });
    expect(due({ retention: { supersededMaxCount: 1 } })).toBeUndefined();
    database.nowMs += 1;
    take({ type: "fact", topicKey: "t" });
    expect(due({ retention: { supersededMaxCount: 1 } })).toBe(database.nowMs);
    expect(due({ retention: { supersededMaxCount: 1 }, isSwept: true })).toBeUndefined();
  });

  test("is bounded by what was looked at, however much stands before it; a sweep goes on from there", () => {
    const { nowMs } = database;
    for (let batch = 0; batch < 5; batch++)
      take(...Array.from({ length: 500 }, (_, at) => ({ type: "fact", summary: `fact ${batch} ${at}` })));
    database.nowMs += 10 * day;
    const eventAtMs = database.nowMs;
    take({ type: "event" });
    expect(due({ retention: { eventMaxAgeMs: day } })).toBe(nowMs + day);
    const swept = sweepAll({ eventMaxAgeMs: day });
    expect(swept.dueAtMs).toBe(eventAtMs + day);
    expect(due({ retention: { eventMaxAgeMs: day }, position: swept.position })).toBe(eventAtMs + day);
  });

  test("comes before anything that a sweep removes, whatever happened; sweeps at these times end", () => {
    const random = seeded(7);
    const retention = { eventMaxAgeMs: 3_000_000, supersededMaxAgeMs: 2_000_000, supersededMaxCount: 2 };
    let position: object = {};
    for (let round = 0; round < 150; round++) {
      const pick = random();
      if (pick < 0.3) put(`k${Math.floor(random() * 20)}`, random() < 0.5 ? Math.floor(random() * 4_000) : undefined);
      else if (pick < 0.5) take({ type: "event" });
      else if (pick < 0.6) take({ type: "task", ttlSecs: Math.floor(random() * 4_000) });
      else if (pick < 0.8) take({ type: "fact", topicKey: `t${Math.floor(random() * 5)}` });
      else {
        const swept = sweepAll(retention, position);
        position = swept.position;
        const before = rows();
        // Nothing goes before it is due.
        if (swept.dueAtMs !== undefined && swept.dueAtMs > database.nowMs) {
          database.nowMs = swept.dueAtMs - 1;
          sweepAll(retention, position);
          expect(rows()).toBe(before);
        }
        if (swept.dueAtMs === undefined) {
          database.nowMs += 100 * day;
          sweepAll(retention, position);
          expect(rows()).toBe(before);
        }
      }
      database.nowMs += Math.floor(random() * 400_000);
    }
    // From now on nobody writes: sweeps at the times that they name themselves come to an end.
    let sweeps = 0;
    for (
      let swept = sweepAll(retention, position);
      swept.dueAtMs !== undefined;
      swept = sweepAll(retention, swept.position)
    ) {
      expect(++sweeps).toBeLessThan(1_000);
      database.nowMs = Math.max(database.nowMs + 1, swept.dueAtMs);
    }
    expect(
      database.connection.get(
        "SELECT 1 FROM __service_memory WHERE type = 'event' OR superseded_at IS NOT NULL AND superseded_at < ?",
        database.nowMs - retention.supersededMaxAgeMs,
      ),
    ).toBeUndefined();
  });
});
