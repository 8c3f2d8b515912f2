/** When memories hold, what they were derived from and what was held before, over both wires. */
import { describe, expect, test } from "vitest";
import { namespacesOn } from "../support/governed-namespace.ts";
import { ok, useService } from "../support/service.ts";
import { wireNames } from "../support/wires.ts";

const service = useService();
const newNamespace = namespacesOn(service);
const day = 86_400_000;

describe.each(wireNames)("over %s", (name) => {
  const start = () => {
    const ns = newNamespace(name);
    const call = (method: string, request: object = {}) => ns.call(method, "alice", request);
    const ids = async (method: string, request: object): Promise<string[]> =>
      (await ok(call(method, request))).body.memories.map(({ id }: { id: string }) => id);
    const refused = async (method: string, request: object, words: string): Promise<void> => {
      const { code, message } = await call(method, request);
      expect({ code, message }).toMatchObject({ code: "invalid_request", message: expect.stringContaining(words) });
    };
    return { ns, call, ids, refused };
  };

  test("recall, listings and context blocks go by when a memory holds", async () => {
    const { ns, call, ids, refused } = start();
    const now = Date.now();
    const later = now + 30 * day;
    const [berlin, madrid, born] = await ns.ingest(
      "alice",
      { summary: "Alice lives in Berlin", topic_key: "home" },
      { summary: "Alice lives in Madrid", topic_key: "home", valid_from: later, valid_until: later + day },
      { type: "event", summary: "Alice goes to school", valid_from: -5_000 * day, valid_until: -day },
    );
    expect(await ids("Recall", { query: "Alice", topic_key: "home" })).toEqual([berlin]);
    expect(await ids("Recall", { query: "Alice", topic_key: "home", valid_at: later })).toEqual([madrid]);
    expect(await ids("Recall", { query: "school", valid_at: -2 * day })).toEqual([born]);
    expect((await ok(call("Recall", { query: "school" }))).body.empty_reason).toBe("filtered_out");
    expect(await ids("Recall", { query: "school", include_invalid: true })).toEqual([born]);
    expect(await ids("ListMemories", { valid_at: later })).toEqual([madrid]);
    expect(await ids("ListMemories", {})).toEqual([born, madrid]);
    const shown = async (at: number): Promise<string> => (await ok(call("GetContext", { now: at }))).body.text;
    expect([(await shown(now)).includes("Berlin"), (await shown(later)).includes("Berlin")]).toEqual([true, false]);
    expect((await ok(call("GetMemory", { id: madrid }))).body).toMatchObject({
      valid_from: later,
      valid_until: later + day,
    });
    expect((await ok(call("ForgetMemories", { types: ["event"], valid_at: -2 * day }))).body.ids).toEqual([born]);
    await refused("Recall", { query: "x", valid_at: 1, include_invalid: true }, "not both");
    const memory = { type: "fact", summary: "x", content: 1, valid_from: 2, valid_until: 2 };
    await refused("Ingest", { memories: [memory] }, "memories[0].valid_from must be before valid_until");
  });

  test("links lead both ways, and an erasure takes those to its target", async () => {
    const { ns, call, ids, refused } = start();
    const wire = service().wire(name);
    const db = `${ns.name}--alice`;
    await ns.ingest("alice", { summary: "first" });
    await ok(
      wire.call("DataService.AppendTurns", {
        db,
        session: "chat",
        turns: [{ role: "user", content: "I am a doctor", turn_id: "m-1" }],
      }),
    );
    const [fact] = await ns.ingest("alice", {
      summary: "Alice is a doctor",
      derived_from: [{ session_id: "chat", turn_id: "m-1" }],
    });
    const [event] = await ns.ingest("alice", {
      type: "event",
      summary: "Alice works at night",
      derived_from: [{ memory_id: fact }, { session_id: "chat", seq: 1 }],
    });
    const from = async (id: string | undefined): Promise<unknown> =>
      (await ok(call("GetMemory", { id }))).body.derived_from;
    expect(await from(fact)).toEqual([{ session_id: "chat", seq: 1 }]);
    expect(await from(event)).toEqual([{ memory_id: fact }, { session_id: "chat", seq: 1 }]);
    expect(await ids("ListMemories", { derived_from_memory: fact })).toEqual([event]);
    expect(await ids("ListMemories", { derived_from_session: "chat" })).toEqual([event, fact]);
    expect(await ids("ListMemories", { derived_from_session: "chat", derived_from_seq: 2 })).toEqual([]);
    const link = (derived_from: object) => ({
      memories: [{ type: "fact", summary: "x", content: 1, derived_from: [derived_from] }],
    });
    await refused("Ingest", link({ session_id: "chat", seq: 9 }), "memories[0].derived_from[0] names no turn");
    await refused("Ingest", link({ memory_id: "mem_x" }), "memories[0].derived_from[0] names no memory");
    await refused("Ingest", link({}), "exactly one of memory_id and session_id");
    await refused("ListMemories", { derived_from_seq: 1 }, "goes with derived_from_session");

    const { body: coupon } = await ok(call("CreateErasure", { session_id: "chat", turns: true }));
    expect(coupon).toMatchObject({ memory_ids: [], derived: 2 });
    expect([await from(fact), await from(event)]).toEqual([undefined, [{ memory_id: fact }]]);
    expect((await ok(call("CreateErasure", { memory_id: fact }))).body.derived).toBe(1);
    expect(await from(event)).toBeUndefined();
    expect((await ok(call("GetErasure", { id: coupon.id }))).body).not.toHaveProperty("derived");
  });

  test("a history has what was held, page by page", async () => {
    const { ns, call, refused } = start();
    const summaries = ["Berlin", "Madrid", "Rome"];
    const [berlin, madrid, rome] = await ns.ingest(
      "alice",
      ...summaries.map((summary) => ({ summary, topic_key: "home", source: "mail" })),
    );
    const home = { topic_key: "home", type: "fact" };
    const { body } = await ok(call("GetHistory", { ...home, limit: 2 }));
    expect(body.states).toMatchObject([
      { id: berlin, summary: "Berlin", source: "mail", superseded_by: madrid, superseded_at: expect.any(Number) },
      { id: madrid, topic_key: "home", type: "fact", superseded_by: rome, active_from: expect.any(Number) },
    ]);
    const { body: rest } = await ok(call("GetHistory", { ...home, cursor: body.next_cursor }));
    expect(rest.states).toMatchObject([{ id: rome }]);
    expect(rest.states[0]).not.toHaveProperty("superseded_by");
    expect(rest.next_cursor).toBeNull();
    await ok(call("ForgetMemory", { id: madrid }));
    const { body: left } = await ok(call("GetHistory", { id: rome }));
    expect(left.states.map(({ id }: { id: string }) => id)).toEqual([berlin, rome]);
    expect((await call("GetHistory", { id: madrid })).code).toBe("not_found");
    await refused("GetHistory", {}, "either id, or topic_key");
    expect((await ok(ns.call("GetHistory", "nobody", home))).body).toEqual({ states: [], next_cursor: null, txid: 0 });
  });
});
