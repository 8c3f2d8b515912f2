/** What an answer of recall says beside what it found, and what narrows it, over every wire. */
import { expect, test } from "vitest";
import { fact, event, task, theme, MemoryProfile } from "../support/memory-profile.ts";
import { ok, useService } from "../support/service.ts";
import { type WireName, wireNames } from "../support/wires.ts";

const service = useService();
const onBoth = test.each(wireNames);

class Profile extends MemoryProfile {
  constructor(name: WireName, at = service().profile()) {
    super(service().wire(name), at);
  }

  async answer(request: object): Promise<any> {
    return (await ok(this.recall(request))).body;
  }
}

const long = "which of the colleagues repaired the espresso machine in the basement kitchen last Wednesday evening";

onBoth("over %s an empty answer says why, and one that is explained what came near", async (name) => {
  const profile = new Profile(name);
  const notes = Array.from({ length: 20 }, (_, at) => event(`note ${at} of the weekly report about team ${at}`));
  const added = await profile.add(...notes, fact("the espresso tastes fine", { embedding: [1, 5] }), theme("dark"));
  const { id } = added[20]!;
  const gated = await profile.answer({ query: long });
  expect(gated).toEqual({ memories: [], turns: [], txid: expect.any(Number), empty_reason: "below_gate" });
  expect((await profile.answer({ query: long, explain: true })).near_misses).toContainEqual({
    id,
    reasons: [{ channel: "keyword", reason: "below_gate", value: expect.any(Number), needed: expect.any(Number) }],
    matched_terms: ["espresso"],
  });
  const far = await profile.answer({ embedding: [1, 0], explain: true });
  expect(far).toMatchObject({
    empty_reason: "below_gate",
    near_misses: [
      {
        id,
        reasons: [
          {
            channel: "vector",
            reason: "vector_below_floor",
            value: expect.closeTo(0.196, 3),
            needed: expect.any(Number),
          },
        ],
        matched_terms: [],
      },
    ],
  });
  // A near miss tells no content; its id leads there.
  expect(JSON.stringify(far)).not.toContain("tastes fine");
  expect((await ok(profile.get(id))).body.summary).toBe("the espresso tastes fine");
  const found = await profile.answer({ query: "espresso", explain: true });
  expect(found.memories).toHaveLength(1);
  expect(found.empty_reason).toBeUndefined();
  expect(found.near_misses).toEqual([]);
  expect((await profile.answer({ query: "submarine" })).empty_reason).toBe("no_match");
  expect((await profile.answer({ query: "espresso", types: ["task"] })).empty_reason).toBe("filtered_out");
});

onBoth("over %s a superseded memory says which one holds now", async (name) => {
  const profile = new Profile(name);
  const [dark] = await profile.add(theme("dark"));
  const [light] = await profile.add(theme("light"));
  const [blue] = await profile.add(theme("blue"));
  const found = await profile.found({ topic_key: "ui.theme", include_superseded: true });
  const told = new Map(found.map((memory) => [memory.id, [memory.superseded_by, memory.current_id]]));
  expect([dark, light, blue].map((item) => told.get(item!.id))).toEqual([
    [light!.id, blue!.id],
    [blue!.id, blue!.id],
    [null, undefined],
  ]);
});

onBoth("over %s since and until are times of storing, the first inclusive, the second not", async (name) => {
  const profile = new Profile(name);
  await profile.add(event("kiwi"));
  const db = `${profile.at.ns}--${profile.at.profile}`;
  await ok(profile.wire.call("DataService.AppendTurn", { db, session: "s", role: "user", content: "kiwi" }));
  const asked = { query: "kiwi", search_turns: true };
  const whole = await profile.answer(asked);
  const memoryAt: number = whole.memories[0].created_at;
  const turnAt: number = whole.turns[0].created_at;
  const counts = async (span: object): Promise<number[]> => {
    const { memories, turns } = await profile.answer({ ...asked, ...span });
    return [memories.length, turns.length];
  };
  expect(await counts({ since: memoryAt, until: turnAt + 1 })).toEqual([1, 1]);
  expect(await counts({ since: turnAt + 1 })).toEqual([0, 0]);
  expect(await counts({ until: memoryAt })).toEqual([0, 0]);
  expect((await counts({ since: memoryAt, until: memoryAt + 1 }))[0]).toBe(1);
  const { message, code } = await profile.recall({ ...asked, since: 5, until: 5 });
  expect([code, message]).toEqual([
    "invalid_request",
    "since must be before until: what is stored at since is given, what is stored at until is not",
  ]);
  expect((await profile.recall({ ...asked, since: -1 })).message).toBe(
    "since must be a whole number from 0 to 9007199254740991",
  );
});

onBoth("over %s a preferred session comes first among what is as relevant", async (name) => {
  const profile = new Profile(name);
  const [first, second] = await profile.add(
    fact("the kiwi is ripe", { session_id: "s-1" }),
    fact("the kiwi is green", { session_id: "s-2" }),
  );
  const order = async (request: object): Promise<string[]> =>
    (await profile.found({ query: "kiwi", ...request })).map(({ id }) => id);
  expect(await order({ prefer_session_id: "s-1" })).toEqual([first!.id, second!.id]);
  expect(await order({ prefer_session_id: "s-2" })).toEqual([second!.id, first!.id]);
  expect((await profile.recall({ query: "kiwi", prefer_session_id: "" })).message).toMatch(/^prefer_session_id /);
});

onBoth("over %s k_per_type fills each type to its own count", async (name) => {
  const profile = new Profile(name);
  await profile.add(
    ...Array.from({ length: 60 }, (_, at) => event(`kiwi kiwi ${at}`)),
    fact("a kiwi is a fruit"),
    task("some day buy a kiwi on the way home from work"),
  );
  const types = async (request: object): Promise<string[]> =>
    (await profile.found({ query: "kiwi", ...request })).map(({ type }) => type).toSorted();
  expect(await types({ k_per_type: { event: 2, task: 3 } })).toEqual(["event", "event", "task"]);
  expect(await types({ k_per_type: { event: 2, task: 3 }, types: ["fact", "task"] })).toEqual(["task"]);
  expect(await types({ k_per_type: { event: 20, fact: 1 }, k: 3 })).toHaveLength(3);
  for (const [counts, message] of [
    [{}, /^k_per_type must name at least one of fact, event, instruction, task/],
    [{ task: 0 }, /^k_per_type\.task must be a whole number from 1/],
  ] as const)
    expect(await profile.recall({ query: "kiwi", k_per_type: counts })).toMatchObject({
      code: "invalid_request",
      message: expect.stringMatching(message),
    });
});

test("over REST a type that there is not is refused by name", async () => {
  const profile = new Profile("rest");
  expect((await profile.recall({ query: "kiwi", k_per_type: { opinion: 3 } })).message).toMatch(/k_per_type\.opinion/);
  expect((await profile.recall({ query: "kiwi", k_per_type: [3] })).message).toMatch(/^k_per_type must be an object/);
});

test("over Connect the same is said", async () => {
  const profile = new Profile("rest");
  await profile.add(theme("dark"), fact("a walrus", { embedding: [1, 0] }));
  await profile.add(theme("light"));
  const recall = async (request: object): Promise<any> => {
    const response = await fetch(`${service().address}/palimpsest.v1.MemoryService/Recall`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ ...profile.at, ...request }),
    });
    return response.json();
  };
  expect(await recall({ query: "submarine", embedding: { values: [1] }, explain: true })).toMatchObject({
    embedding: "skipped_dimension",
    emptyReason: "no_match",
    nearMisses: {},
  });
  const { memories } = await recall({ query: "theme", includeSuperseded: true, kPerType: { fact: 2 }, since: "0" });
  expect(memories.map(({ currentId }: { currentId?: string }) => currentId)).toContain(
    memories.find(({ supersededBy }: { supersededBy?: string }) => supersededBy === undefined).id,
  );
  expect(await recall({ query: "x", since: "5", until: "5" })).toMatchObject({
    code: "invalid_argument",
    message: expect.stringMatching(/^since must be before until/),
  });
});
