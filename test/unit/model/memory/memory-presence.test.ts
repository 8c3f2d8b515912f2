/** What policy lets go of is invisible to every command at once, whether or not a sweep has come by. */
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { ingest, type MemoryInput } from "../../../../src/model/memory/memory-ingest.ts";
import { deleteMemory, getMemory } from "../../../../src/model/memory/stored-memories.ts";
import { deleteMemories, listMemories } from "../../../../src/model/memory/memory-list.ts";
import { recall } from "../../../../src/model/recall.ts";
import type { MemoryRetention } from "../../../../src/model/core/retention.ts";
import type { Tx, View } from "../../../../src/model/core/transaction.ts";
import { ModelDatabase } from "../../../support/model-database.ts";

const minute = 60_000;
let database: ModelDatabase;
beforeEach(() => void (database = new ModelDatabase()));
afterEach(() => database.close());

const under = (retention: MemoryRetention): View => ({ ...database.view(), retention });

function store(...memories: readonly (Partial<MemoryInput> & { readonly summary: string })[]): string[] {
  const whole = memories.map((memory) => ({ type: "fact", content: "{}", ...memory }));
  return database.write((tx) => ingest(tx, { memories: whole })).results.map(({ id }) => id);
}

/** What each reading command shows. */
function shown(view: View, ids: readonly string[]): string[][] {
  const summaries = (memories: readonly { readonly summary: string }[]): string[] =>
    memories.map(({ summary }) => summary).sort();
  return [
    summaries(ids.flatMap((id) => getMemory(view, { id }) ?? [])),
    summaries(listMemories(view, { includeSuperseded: true }).memories),
    summaries(recall(view, { query: "said", topicKey: "t", includeSuperseded: true }).memories),
  ];
}

const thrice = <Value>(value: Value): Value[] => [value, value, value];

describe("what policy lets go of", () => {
  test("an event over its age is gone for get, list and recall, and nothing else is", () => {
    const ids = store({ summary: "said event", type: "event" }, { summary: "said fact" });
    database.nowMs += minute;
    expect(shown(under({ eventMaxAgeMs: minute + 1 }), ids)).toEqual(thrice(["said event", "said fact"]));
    expect(shown(under({ eventMaxAgeMs: minute }), ids)).toEqual(thrice(["said fact"]));
    expect(shown(database.view(), ids)).toEqual(thrice(["said event", "said fact"]));
  });

  test("of each topic the newest superseded memories stay, by count and by when they were superseded", () => {
    const ids = ["said v1", "said v2", "said v3", "said v4"].flatMap((summary) => {
      database.nowMs += minute;
      return store({ summary, topicKey: "t" });
    });
    const other = store({ summary: "said w1", topicKey: "u" }, { summary: "said w2", topicKey: "u" });
    expect(shown(under({ supersededMaxCount: 1 }), [...ids, ...other])).toEqual(
      thrice(["said v3", "said v4", "said w1", "said w2"]),
    );
    expect(shown(under({ supersededMaxAgeMs: minute }), [...ids, ...other])).toEqual(
      thrice(["said v3", "said v4", "said w1", "said w2"]),
    );
    expect(getMemory(under({ supersededMaxCount: 1 }), { id: ids[2]! })?.supersedes).toEqual([]);
    expect(getMemory(database.view(), { id: ids[2]! })?.supersedes).toEqual([ids[1]]);
  });

  test("it can neither be forgotten nor stand in the way of the same event again", () => {
    const [old] = store({ summary: "said event", type: "event" });
    database.nowMs += 2 * minute;
    const retained = (tx: Tx): Tx => ({ ...tx, retention: { eventMaxAgeMs: minute } });
    expect(database.write((tx) => deleteMemory(retained(tx), { id: old! }))).toEqual({ forgotten: false });
    expect(database.write((tx) => deleteMemories(retained(tx), { types: ["event"] })).ids).toEqual([]);
    const again = database.write((tx) =>
      ingest(retained(tx), { memories: [{ type: "event", summary: "said event", content: "{}" }] }),
    ).results[0]!;
    expect(again).toMatchObject({ status: "created" });
    expect(again.id).not.toBe(old);
    expect(database.connection.all("SELECT id FROM __service_memory")).toEqual([{ id: again.id }]);
  });
});
