/** Transcripts over both wires. */
import { expect, test } from "vitest";
import { ok, useService } from "../support/service.ts";
import { type Reply, type Wire, wireNames } from "../support/wires.ts";

const service = useService();
const onBoth = test.each(wireNames);

function append(
  wire: Wire,
  db: string,
  session: string,
  content: unknown,
  embedding?: readonly number[],
): Promise<Reply> {
  return wire.call("DataService.AppendTurn", {
    db,
    session,
    role: "user",
    content,
    ...(embedding ? { embedding } : {}),
  });
}

async function contents(reply: Promise<Reply>): Promise<unknown[]> {
  return (await ok(reply)).body.turns.map((turn: { content: unknown }) => turn.content);
}

onBoth(
  "documents-06 over %s: turns come back in their order, are searched by vector, and stay in their session",
  async (name) => {
    const wire = service().wire(name);
    const db = await service().database();
    expect((await ok(append(wire, db, "s-1", "first"))).body).toEqual({ seq: 1, txid: 1 });
    expect((await ok(append(wire, db, "s-1", { text: "second" }, [1, 0, 0]))).body).toEqual({ seq: 2, txid: 2 });
    expect((await ok(append(wire, db, "s-1", ["third", null], [0, 1, 0]))).body).toEqual({ seq: 3, txid: 3 });
    const window = await ok(wire.call("DataService.ListTurns", { db, session: "s-1", last: 2 }));
    expect(window.body).toEqual({
      turns: [
        { session_id: "s-1", seq: 2, role: "user", content: { text: "second" }, created_at: expect.any(Number) },
        { session_id: "s-1", seq: 3, role: "user", content: ["third", null], created_at: expect.any(Number) },
      ],
      txid: 3,
    });
    const found = await ok(wire.call("DataService.SearchTurns", { db, session: "s-1", vector: [0.1, 0.9, 0], k: 1 }));
    expect(found.body.turns).toEqual([
      {
        session_id: "s-1",
        seq: 3,
        role: "user",
        content: ["third", null],
        created_at: expect.any(Number),
        distance: expect.any(Number),
      },
    ]);
    expect(found.body.turns[0].distance).toBeLessThan(0.1);
    expect(await contents(wire.call("DataService.ListTurns", { db, session: "s-2" }))).toEqual([]);
    expect(await contents(wire.call("DataService.SearchTurns", { db, session: "s-2", vector: [1, 0, 0] }))).toEqual([]);
  },
);

onBoth("over %s a window is 20 turns unless asked otherwise, and a search 5", async (name) => {
  const wire = service().wire(name);
  const db = await service().database();
  for (let turn = 1; turn <= 25; turn++) await ok(append(wire, db, "long", turn, [1, turn]));
  expect(await contents(wire.call("DataService.ListTurns", { db, session: "long" }))).toEqual(
    Array.from({ length: 20 }, (_, at) => at + 6),
  );
  expect(await contents(wire.call("DataService.SearchTurns", { db, session: "long", vector: [1, 1] }))).toEqual([
    1, 2, 3, 4, 5,
  ]);
  expect(await contents(wire.call("DataService.ListTurns", { db, session: "long", last: 100_000 }))).toHaveLength(25);
});

onBoth("over %s seq numbers are each session's own, unique under concurrency, and not given again", async (name) => {
  const wire = service().wire(name);
  const { ns, profile } = service().profile();
  await ok(
    wire.call("MemoryService.Ingest", {
      ns,
      profile,
      memories: [{ type: "event", summary: "profile is there", content: null }],
    }),
  );
  const db = `${ns}--${profile}`;
  const replies = await Promise.all(
    Array.from({ length: 20 }, (_, at) => ok(append(wire, db, at % 2 === 0 ? "even" : "odd", at))),
  );
  const given = (session: number): number[] =>
    replies
      .filter((_, at) => at % 2 === session)
      .map(({ body }) => body.seq)
      .sort((left, right) => left - right);
  for (const session of [0, 1]) expect(given(session)).toEqual([1, 2, 3, 4, 5, 6, 7, 8, 9, 10]);
  await ok(wire.call("MemoryService.EndSession", { ns, profile, sid: "even", turns: true }));
  expect(await contents(wire.call("DataService.ListTurns", { db, session: "even" }))).toEqual([]);
  expect(await contents(wire.call("DataService.ListTurns", { db, session: "odd" }))).toHaveLength(10);
  expect((await ok(append(wire, db, "even", "again"))).body.seq).toBe(11);
});

onBoth(
  "over %s a turn with a bad vector, role or content is refused; a search of the wrong dimension too",
  async (name) => {
    const wire = service().wire(name);
    const db = await service().database();
    await ok(append(wire, db, "s", "x", [1, 0]));
    const turn = { db, session: "s", role: "user", content: "x" };
    const bad: readonly (readonly [object, string])[] = [
      [{ embedding: [] }, "embedding"],
      [{ embedding: [0, 0] }, "embedding"],
      [{ role: "" }, "role"],
      [{ role: "r".repeat(65) }, "role"],
      [{ session: "s".repeat(129) }, "session"],
    ];
    for (const [fields, field] of bad) {
      expect(await wire.call("DataService.AppendTurn", { ...turn, ...fields }), field).toMatchObject({
        code: "invalid_request",
        message: expect.stringContaining(field),
      });
    }
    expect(await wire.call("DataService.SearchTurns", { db, session: "s", vector: [1, 0, 0] })).toMatchObject({
      code: "invalid_request",
      message: expect.stringContaining("vector"),
      txid: 1,
    });
    expect(await wire.call("DataService.ListTurns", { db, session: "s", last: 0 })).toMatchObject({
      code: "invalid_request",
      message: expect.stringContaining("last"),
    });
    expect(await contents(wire.call("DataService.ListTurns", { db, session: "s" }))).toEqual(["x"]);
  },
);

test("over REST a turn's content keeps every digit, and a session's name any character", async () => {
  const session = encodeURIComponent("a/b?c#d e&ü");
  const path = `/v1/db/${await service().database()}/memory/${session}/turns`;
  expect((await service().call("POST", path, '{"role":"user","content":{"id":9007199254740993}}')).status).toBe(200);
  const { text, json } = await service().call("GET", path);
  expect(text).toContain('{"id":9007199254740993}');
  expect(json.turns[0].session_id).toBe("a/b?c#d e&ü");
});
