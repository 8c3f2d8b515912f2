/** What memories were derived from: kept, listed both ways, and gone with what is erased. */
import { monotonicFactory } from "ulid";
import { describe, expect, test } from "vitest";
import {
  checkLinks,
  ingestDerived,
  type DerivedInput,
  type LinkInput,
} from "../../../../src/model/lineage/derivation.ts";
import { erase } from "../../../../src/model/erasure.ts";
import type { ErasureTarget } from "../../../../src/format/erasure/erasure-receipt.ts";
import { checkList, listMemories, type ListInput } from "../../../../src/model/memory/memory-list.ts";
import { deleteMemory } from "../../../../src/model/memory/stored-memories.ts";
import { review } from "../../../../src/model/review.ts";
import { linksMax, strayLinks } from "../../../../src/model/standing/links.ts";
import { appendTurns } from "../../../../src/model/transcript/turn-batches.ts";
import { deleteTurns } from "../../../../src/model/transcript/turn-removal.ts";
import { draft, useMemoryDatabase, type Draft } from "../../../support/memory-database.ts";

const memory = useMemoryDatabase();
const { get } = memory;
/** Ids as a node makes them: an erasure looks for them. */
const newId = monotonicFactory();

function derive(summary: string, derivedFrom: readonly LinkInput[], more: Draft = {}): string {
  const one: DerivedInput = { ...draft({ summary, ...more }), derivedFrom };
  checkLinks("memories[0]", derivedFrom);
  return memory.database().write((tx) => ingestDerived({ ...tx, newId: () => newId(tx.nowMs) }, { memories: [one] }))
    .results[0]!.id;
}
const talk = (sessionId: string, ...turnIds: readonly string[]) =>
  memory
    .database()
    .write((tx) =>
      appendTurns(tx, { sessionId, turns: turnIds.map((turnId) => ({ role: "user", content: '"x"', turnId })) }),
    );
const listed = (input: ListInput): readonly string[] => {
  checkList(input);
  return listMemories(memory.database().view(), input).memories.map(({ id }) => id);
};
let coupons = 0;
const erased = (target: ErasureTarget): number | undefined =>
  memory.database().write((tx) => erase(tx, { couponId: `ers_${++coupons}`, target, traceKey: new Uint8Array(32) }))
    .derived;

describe("links", () => {
  test("are shown on the memory in the order in which they were said, turns by their numbers", () => {
    talk("s-1", "a", "b");
    const base = derive("Alice is a doctor", [{ sessionId: "s-1", turnId: "b" }]);
    const id = derive("Alice works at night", [{ memoryId: base }, { sessionId: "s-1", seq: 1 }, { memoryId: base }]);
    expect(get(base)?.derivedFrom).toEqual([{ sessionId: "s-1", seq: 2 }]);
    expect(get(id)?.derivedFrom).toEqual([{ memoryId: base }, { sessionId: "s-1", seq: 1 }]);
    expect(get(derive("plain", []))).not.toHaveProperty("derivedFrom");
    expect(listed({ derivedFrom: { memoryId: base } })).toEqual([id]);
    expect(listed({ derivedFrom: { sessionId: "s-1" } })).toEqual([id, base]);
    expect(listed({ derivedFrom: { sessionId: "s-1", seq: 2 } })).toEqual([base]);
    expect(listed({ derivedFrom: { sessionId: "s-1" }, types: ["event"] })).toEqual([]);
    expect(listed({ derivedFrom: { sessionId: "s-1" }, order: "asc", limit: 1 })).toEqual([base]);
    expect(listed({ derivedFrom: { sessionId: "s-2" } })).toEqual([]);
  });

  test("of a duplicate are added to what is there, as far as there is room", () => {
    talk("s-1", ...Array.from({ length: linksMax + 2 }, (_, n) => `t${n}`));
    const link = (seq: number): LinkInput => ({ sessionId: "s-1", seq });
    const id = derive("Alice is a doctor", [link(1)]);
    expect(derive("Alice is a doctor", [link(1), link(2)])).toBe(id);
    expect(get(id)?.derivedFrom).toEqual([link(1), link(2)]);
    derive(
      "Alice is a doctor",
      Array.from({ length: linksMax }, (_, n) => link(n + 3)),
    );
    expect(get(id)?.derivedFrom).toHaveLength(linksMax);
    expect(memory.rows("__service_memory_link")).toBe(linksMax);
  });

  test("stay through a review, also to what has gone meanwhile", () => {
    talk("s-1", "a");
    const id = derive("Alice is a doctor", [{ sessionId: "s-1", seq: 1 }], { proposed: true });
    memory.database().write((tx) => deleteTurns(tx, { sessionId: "s-1", all: true }));
    memory.database().write((tx) => review(tx, { ids: [id], verdict: "approve" }));
    expect(get(id)?.derivedFrom).toEqual([{ sessionId: "s-1", seq: 1 }]);
    expect(listed({ derivedFrom: { sessionId: "s-1" } })).toEqual([id]);
  });

  test("go with their memory, and stay when what they name is forgotten", () => {
    const base = derive("Alice is a doctor", []);
    const id = derive("Alice works at night", [{ memoryId: base }]);
    memory.database().write((tx) => deleteMemory(tx, { id: base }));
    expect(get(id)?.derivedFrom).toEqual([{ memoryId: base }]);
    memory.database().write((tx) => deleteMemory(tx, { id }));
    expect(memory.rows("__service_memory_link")).toBe(0);
    const { connection } = memory.database();
    expect(connection.get(strayLinks(connection)!)).toBeUndefined();
  });

  test("to what is erased go with it, and the erasure says of how many memories", () => {
    talk("s-1", "a", "b");
    talk("s-2", "a");
    const base = derive("Alice is a doctor", [{ sessionId: "s-2", seq: 1 }]);
    const one = derive("one", [{ memoryId: base }, { sessionId: "s-1", seq: 1 }]);
    const two = derive("two", [
      { sessionId: "s-1", seq: 1 },
      { sessionId: "s-1", seq: 2 },
    ]);
    expect(erased({ kind: "turn", sessionId: "s-1", seq: 1 })).toBe(2);
    expect([get(one)?.derivedFrom, get(two)?.derivedFrom]).toEqual([
      [{ memoryId: base }],
      [{ sessionId: "s-1", seq: 2 }],
    ]);
    expect(erased({ kind: "session", sessionId: "s-1", turns: false })).toBe(1);
    expect(get(two)).not.toHaveProperty("derivedFrom");
    expect(erased({ kind: "memory", memoryId: base })).toBe(1);
    expect(get(one)).not.toHaveProperty("derivedFrom");
    expect(memory.rows("__service_memory_link")).toBe(0);
    expect(erased({ kind: "memory", memoryId: one })).toBe(0);
  });

  test("to what is of a subject go with an erasure of it", () => {
    talk("s-1", "a");
    const base = derive("Alice is a doctor", [], { subject: "user-7" });
    const id = derive("Alice works at night", [{ memoryId: base }, { sessionId: "s-1", seq: 1 }]);
    expect(erased({ kind: "subject", subject: "user-7" })).toBe(1);
    expect(get(id)?.derivedFrom).toEqual([{ sessionId: "s-1", seq: 1 }]);
  });

  test("to what is not there are refused, and nothing is taken in", () => {
    const one = (link: LinkInput) => () => derive("Alice is a doctor", [link]);
    for (const link of [
      { sessionId: "s-1", seq: 1 },
      { sessionId: "s-1", turnId: "a" },
    ])
      expect(one(link)).toThrow("memories[0].derived_from[0] names no turn");
    expect(one({ memoryId: "mem_none" })).toThrow("memories[0].derived_from[0] names no memory");
    expect(memory.rows("__service_memory")).toBe(0);
  });

  test.each<[readonly LinkInput[], string]>([
    [[{}], "either memory_id or session_id"],
    [[{ memoryId: "m", sessionId: "s", seq: 1 }], "either memory_id or session_id"],
    [[{ memoryId: "m", seq: 1 }], "seq belongs to a session_id"],
    [[{ sessionId: "s" }], "seq must be the number"],
    [[{ sessionId: "s", seq: 0 }], "seq must be the number"],
    [[{ sessionId: "s", seq: 1, turnId: "t" }], "turn_id goes with a session_id"],
    [[{ memoryId: "m", turnId: "t" }], "turn_id goes with a session_id"],
    [Array.from({ length: 33 }, () => ({ memoryId: "m" })), "at most 32"],
  ])("%j are refused", (links, words) => {
    expect(() => checkLinks("memories[0]", links)).toThrow(words);
  });

  test.each<[ListInput, string]>([
    [{ derivedFrom: { seq: 1 } }, "goes with derived_from_session"],
    [{ derivedFrom: { memoryId: "m", sessionId: "s" } }, "not both"],
    [{ derivedFrom: { sessionId: "s", seq: 0 } }, "the number of a turn"],
  ])("are not asked for by %j", (input, words) => {
    expect(() => checkList(input)).toThrow(words);
  });
});
