/** Many turns at once, over both wires, by several clients, and where they branch, rewind and are erased. */
import { createHash } from "node:crypto";
import { expect, test } from "vitest";
import { ok, useService } from "../support/service.ts";
import { type Wire, wireNames } from "../support/wires.ts";

const service = useService();
const onBoth = test.each(wireNames);
const said = (content: unknown, more: object = {}) => ({ role: "user", content, ...more });

async function seqs(wire: Wire, db: string, more: object = { order: "asc" }): Promise<number[]> {
  const { body } = await ok(wire.call("DataService.ListTurns", { db, session: "s", ...more }));
  return body.turns.map(({ seq }: { seq: number }) => seq);
}

onBoth("over %s: turns are appended once, listed both ways, replaced and deleted", async (name) => {
  const wire = service().wire(name);
  const db = await service().database();
  const at = { db, session: "s" };
  const turns = [
    said("hello", { turn_id: "t-1", metadata: { tool: "none" } }),
    said({ text: "hi" }, { role: "assistant", embedding: [1, 0] }),
  ];
  const first = await ok(wire.call("DataService.AppendTurns", { ...at, turns, operation_id: "op-1" }));
  const created = [
    { seq: 1, status: "created" },
    { seq: 2, status: "created" },
  ];
  expect(first.body).toEqual({ turns: created, txid: 1 });
  const repeated = await ok(wire.call("DataService.AppendTurns", { ...at, turns, operation_id: "op-1" }));
  expect(repeated.body).toEqual({ turns: created, txid: 1 });
  expect(await wire.call("DataService.AppendTurns", { ...at, turns: [said("x")], operation_id: "op-1" })).toMatchObject(
    { code: "conflict" },
  );
  expect((await ok(wire.call("DataService.AppendTurns", { ...at, turns: turns.slice(0, 1) }))).body.turns).toEqual([
    { seq: 1, status: "duplicate" },
  ]);
  const page = await ok(wire.call("DataService.ListTurns", { ...at, order: "desc", limit: 1 }));
  expect(page.body).toEqual({
    turns: [{ session_id: "s", seq: 2, role: "assistant", content: { text: "hi" }, created_at: expect.any(Number) }],
    txid: 1,
    next_cursor: expect.any(String),
  });
  const rest = await ok(
    wire.call("DataService.ListTurns", { ...at, order: "desc", limit: 1, cursor: page.body.next_cursor }),
  );
  expect(rest.body).toEqual({
    turns: [
      {
        session_id: "s",
        seq: 1,
        role: "user",
        content: "hello",
        created_at: expect.any(Number),
        turn_id: "t-1",
        metadata: { tool: "none" },
      },
    ],
    txid: 1,
  });
  expect(await seqs(wire, db, { filter: '{"tool":"none"}' })).toEqual([1]);
  expect(await seqs(wire, db, { role: "assistant" })).toEqual([2]);
  expect(await seqs(wire, db, { from_seq: 2, to_seq: 2 })).toEqual([2]);
  expect(await wire.call("DataService.ListTurns", { ...at, last: 2, order: "asc" })).toMatchObject({
    code: "invalid_request",
  });
  const expected = [{ seq: 2, content_sha256: createHash("sha256").update('{"text":"hi"}').digest("hex") }];
  const replacement = { ...at, expected, turns: [said("summary")], operation_id: "op-2" };
  const replaced = { removed: 1, turns: [{ seq: 3, status: "created" }], txid: 2 };
  expect((await ok(wire.call("DataService.ReplaceTurns", replacement))).body).toEqual(replaced);
  expect((await ok(wire.call("DataService.ReplaceTurns", replacement))).body).toEqual(replaced);
  expect(await wire.call("DataService.ReplaceTurns", { ...at, expected, turns: [] })).toMatchObject({
    code: "conflict",
  });
  expect((await ok(wire.call("DataService.DeleteTurns", { ...at, turn_id: "t-1" }))).body).toEqual({
    deleted: 1,
    more: false,
    txid: 3,
  });
  expect(await seqs(wire, db)).toEqual([3]);
  expect(await wire.call("DataService.DeleteTurns", { ...at, last: 1, all: true })).toMatchObject({
    code: "invalid_request",
  });
  expect((await ok(wire.call("DataService.DeleteTurns", { ...at, all: true }))).body.deleted).toBe(1);
  expect((await ok(wire.call("DataService.AppendTurns", { ...at, turns: [said("z")] }))).body.turns[0].seq).toBe(4);
});

onBoth("over %s: several clients at once leave no gap, no repeat, and one winner of a replacement", async (name) => {
  const wire = service().wire(name);
  const db = await service().database();
  const at = { db, session: "s" };
  const clients = Array.from({ length: 6 }, (_, client) => client);
  await Promise.all(
    clients.flatMap((client) =>
      Array.from({ length: 5 }, (_, step) => {
        // Two clients each send the same turns.
        const turns = [0, 1, 2].map((n) => said(`turn ${n}`, { turn_id: `t-${client >> 1}-${step}-${n}` }));
        return ok(wire.call("DataService.AppendTurns", { ...at, turns }));
      }),
    ),
  );
  const { body } = await ok(wire.call("DataService.ListTurns", { ...at, limit: 1000 }));
  const given: { seq: number; turn_id: string }[] = body.turns;
  expect(given.map(({ seq }) => seq)).toEqual(Array.from({ length: 45 }, (_, step) => step + 1));
  expect(new Set(given.map(({ turn_id }) => turn_id)).size).toBe(45);
  // Those of one call stand side by side.
  for (let first = 0; first < 45; first += 3)
    expect(given.slice(first, first + 3).map(({ turn_id }) => turn_id.at(-1))).toEqual(["0", "1", "2"]);
  const expected = [{ seq: 44 }, { seq: 45 }];
  const replies = await Promise.all(
    clients.map((client) =>
      wire.call("DataService.ReplaceTurns", { ...at, expected, turns: [said(`a ${client}`), said(`b ${client}`)] }),
    ),
  );
  expect(replies.map(({ code }) => code).toSorted()).toEqual([...Array.from({ length: 5 }, () => "conflict"), "ok"]);
  const winner = replies.findIndex(({ code }) => code === "ok");
  const end = await ok(wire.call("DataService.ListTurns", { ...at, last: 3 }));
  expect(end.body.turns.map(({ seq, content }: { seq: number; content: string }) => [seq, content])).toEqual([
    [43, "turn 0"],
    [46, `a ${winner}`],
    [47, `b ${winner}`],
  ]);
});

test("ids of turns and of operations branch and rewind with their turns", async () => {
  const wire = service().wire("rest");
  const db = await service().database();
  const at = { db, session: "s" };
  const turns = [said("a", { turn_id: "t-1" })];
  const { txid } = (await ok(wire.call("DataService.AppendTurns", { ...at, turns: [said("first")] }))).body;
  await ok(wire.call("DataService.AppendTurns", { ...at, turns, operation_id: "op" }));
  await ok(wire.call("BranchService.CreateBranch", { db, name: "side" }));
  await ok(wire.call("BranchService.RewindBranch", { db, branch: "main", to: String(txid) }));
  const again = await ok(wire.call("DataService.AppendTurns", { ...at, turns, operation_id: "op" }));
  expect(again.body.turns).toEqual([{ seq: 2, status: "created" }]);
  const there = await ok(wire.call("DataService.AppendTurns", { ...at, db: `${db}@side`, turns }));
  expect(there.body.turns).toEqual([{ seq: 2, status: "duplicate" }]);
});

test("sessions are paged with their counts, and an erased session leaves nothing that tells of its turns", async () => {
  const wire = service().wire("rest");
  const profile = { ns: "turns", profile: "batches" };
  const db = "turns--batches";
  await ok(
    wire.call("MemoryService.Ingest", { ...profile, memories: [{ type: "event", summary: "begun", content: {} }] }),
  );
  for (const session of ["one", "two", "three"])
    await ok(
      wire.call("DataService.AppendTurns", {
        db,
        session,
        turns: [said("x", { turn_id: "t-1", metadata: { a: 1 } }), said("y")],
        operation_id: "op",
      }),
    );
  const first = await ok(wire.call("MemoryService.ListSessions", { ...profile, limit: 2, include_turns: true }));
  expect(first.body.sessions.map(({ turns }: { turns: number }) => turns)).toEqual([2, 2]);
  const rest = await ok(wire.call("MemoryService.ListSessions", { ...profile, cursor: first.body.next_cursor }));
  expect(rest.body.sessions).toHaveLength(1);
  expect(rest.body).not.toHaveProperty("next_cursor");
  await ok(wire.call("MemoryService.CreateErasure", { ...profile, session_id: "two", turns: true }));
  const again = await ok(
    wire.call("DataService.AppendTurns", { db, session: "two", turns: [said("new")], operation_id: "op" }),
  );
  expect(again.body.turns).toEqual([{ seq: 1, status: "created" }]);
});
