/** What was held on a topic, one after the other. */
import { describe, expect, test } from "vitest";
import { deleteMemory, updateMemory } from "../../../../src/model/memory/stored-memories.ts";
import { review } from "../../../../src/model/review.ts";
import {
  checkHistory,
  listHistory,
  type HeldState,
  type HistoryInput,
} from "../../../../src/model/lineage/topic-history.ts";
import { useMemoryDatabase, type Draft } from "../../../support/memory-database.ts";

const memory = useMemoryDatabase();
const { ingestOne } = memory;
const home = { topicKey: "home", type: "fact" };

function say(summary: string, more: Draft = {}): string {
  memory.database().nowMs += 1_000;
  return ingestOne({ ...home, summary, ...more }).id;
}
const held = (input: HistoryInput): readonly HeldState[] => listHistory(memory.database().view(), input)!.states;
const ids = (input: HistoryInput): readonly string[] => held(input).map(({ id }) => id);

describe("a history", () => {
  test("has each state with when it began, by whom, and what followed it", () => {
    const database = memory.database();
    const one = say("Berlin", { source: "mail", sessionId: "s-1" });
    const began = database.nowMs;
    const two = say("Madrid", { validFromMs: 5, validUntilMs: 9 });
    say("other", { topicKey: "work" });
    say("an instruction", { type: "instruction" });
    expect(held(home)).toEqual([
      {
        id: one,
        ...home,
        summary: "Berlin",
        source: "mail",
        sessionId: "s-1",
        activeFrom: began,
        supersededAt: began + 1_000,
        supersededBy: two,
      },
      { id: two, ...home, summary: "Madrid", activeFrom: began + 1_000, validFrom: 5, validUntil: 9 },
    ]);
    expect([ids({ id: one }), ids({ id: two })]).toEqual([
      [one, two],
      [one, two],
    ]);
    expect(ids({ topicKey: "nothing", type: "fact" })).toEqual([]);
  });

  test("has no proposals before they are approved, and nothing that was forgotten", () => {
    const database = memory.database();
    const proposed = say("Rome", { proposed: true });
    const one = say("Berlin");
    expect(ids(home)).toEqual([one]);
    expect(listHistory(database.view(), { id: proposed })).toBeUndefined();
    database.nowMs += 1_000;
    database.write((tx) => review(tx, { ids: [proposed], verdict: "approve" }));
    expect(held(home)).toMatchObject([
      { id: one, supersededBy: proposed },
      { id: proposed, activeFrom: database.nowMs },
    ]);
    const three = say("Bonn");
    database.write((tx) => deleteMemory(tx, { id: proposed }));
    expect(ids(home)).toEqual([one, three]);
    expect(listHistory(database.view(), { id: proposed })).toBeUndefined();
  });

  test("of a memory without a topic is that one", () => {
    const { id } = ingestOne({ type: "task", summary: "call" });
    memory.database().write((tx) => updateMemory(tx, { id, completed: true }));
    expect(held({ id })).toEqual([
      { id, type: "task", summary: "call", activeFrom: memory.database().nowMs, completedAt: memory.database().nowMs },
    ]);
  });

  test("comes in pages, which miss nothing and repeat nothing", () => {
    const said = Array.from({ length: 7 }, (_, n) => say(`home ${n}`));
    const seen: string[] = [];
    for (let cursor: string | undefined; ;) {
      const page = listHistory(memory.database().view(), {
        ...home,
        limit: 3,
        ...(cursor !== undefined && { cursor }),
      })!;
      seen.push(...page.states.map(({ id }) => id));
      if (seen.length === 3) memory.database().write((tx) => deleteMemory(tx, { id: said[2]! }));
      cursor = page.nextCursor;
      if (cursor === undefined) break;
      checkHistory({ ...home, cursor });
    }
    expect(seen).toEqual(said);
  });

  test.each<[HistoryInput, string]>([
    [{}, "either id, or topic_key"],
    [{ id: "m", ...home }, "either id, or topic_key"],
    [{ topicKey: "home" }, "go together"],
    [{ id: "m", type: "fact" }, "go together"],
    [{ topicKey: "home", type: "thing" }, "type must be one of"],
    [{ ...home, limit: 0 }, "limit must be a whole number"],
    [{ ...home, cursor: "x" }, "cursor must be"],
  ])("of %j is refused", (input, words) => {
    expect(() => checkHistory(input)).toThrow(words);
  });
});
