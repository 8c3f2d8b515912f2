/** What happens when more comes than fits: group commit, a full write queue, the concurrency cap. */
import { expect, test } from "vitest";
import { untilUnanswered } from "../support/patience.ts";
import { ok, startService, useService } from "../support/service.ts";
import { type Reply, type Wire, wireNames } from "../support/wires.ts";

const service = useService();
const onBoth = test.each(wireNames);

/** Holds the database's writer for a good part of a second, and then commits. */
const slowWrite =
  "INSERT INTO t WITH RECURSIVE c (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < 3000000) " +
  "SELECT count(*) FROM c";

function put(wire: Wire, db: string, key: string): Promise<Reply> {
  return wire.call("DataService.PutValue", { db, ns: "n", key, value: Buffer.from(key) });
}

/** Makes the writer busy, waits until a write shows it, which is the first to wait, and runs `act` meanwhile. */
async function whileWriting<T>(wire: Wire, db: string, act: () => Promise<T>): Promise<T> {
  await ok(wire.call("DataService.ExecuteSql", { db, stmts: [{ q: "CREATE TABLE IF NOT EXISTS t (n)" }] }));
  const writing = ok(wire.call("DataService.ExecuteSql", { db, stmts: [{ q: slowWrite }] }));
  const first = await untilUnanswered(() =>
    wire.call("DataService.PutValue", { db, ns: "first", key: "k", value: Buffer.from("v") }),
  );
  const result = await act();
  await writing;
  // One that is shed, by a queue of one and late on a busy machine, says as well that the write was under way.
  expect(["ok", "overloaded"]).toContain((await first.answer).code);
  return result;
}

onBoth("hardening-10 over %s: three parked writes land in one round with one shared txid", async (name) => {
  const wire = service().wire(name);
  const db = await service().database();
  const replies = await whileWriting(wire, db, () => Promise.all(["a", "b", "c"].map((key) => ok(put(wire, db, key)))));
  expect(new Set(replies.map(({ txid }) => txid)).size).toBe(1);
});

onBoth("hardening-10 over %s: one bad of three fails alone, with its own message", async (name) => {
  const wire = service().wire(name);
  const db = await service().database();
  await ok(wire.call("DataService.InsertDocs", { db, coll: "c", docs: [{ _id: "taken" }] }));
  const [first, bad, last] = await whileWriting(wire, db, () =>
    Promise.all([
      put(wire, db, "a"),
      wire.call("DataService.InsertDocs", { db, coll: "c", docs: [{ _id: "new" }, { _id: "taken" }] }),
      put(wire, db, "b"),
    ]),
  );
  expect([first!.code, last!.code, last!.txid]).toEqual(["ok", "ok", first!.txid]);
  expect(bad).toMatchObject({ code: "already_exists", message: expect.stringContaining("_id"), txid: first!.txid });
  expect((await ok(wire.call("DataService.FindDocs", { db, coll: "c" }))).body.docs).toEqual([{ _id: "taken" }]);
});

onBoth(
  "hardening-10 over %s: with a queue of one, the first write lands and further ones are shed at once with Retry-After",
  async (name) => {
    const small = await startService({ SERVICE_WRITE_QUEUE_DEPTH: "1" });
    try {
      const wire = small.wire(name);
      const db = await small.database();
      const keys = Array.from({ length: 12 }, (_, at) => `k${String(at).padStart(2, "0")}`);
      const replies = await whileWriting(wire, db, () => Promise.all(keys.map((key) => put(wire, db, key))));
      const landed = keys.filter((_, at) => replies[at]!.code === "ok");
      const shed = replies.filter(({ code }) => code === "overloaded");
      expect(landed.length + shed.length).toBe(keys.length);
      expect(shed.length).toBeGreaterThanOrEqual(1);
      for (const { retryAfterSecs, txid } of shed) {
        expect(retryAfterSecs).toBeGreaterThanOrEqual(1);
        expect(txid).toBeGreaterThanOrEqual(1);
      }
      // What was shed was not written, what was answered was; and the queue takes writes again.
      expect((await ok(wire.call("DataService.ListKeys", { db, ns: "n" }))).body.keys).toEqual(landed);
      await ok(put(wire, db, "after"));
    } finally {
      await small.close();
    }
  },
);

onBoth(
  "over %s the concurrency cap lets as many again wait and sheds the rest; health answers meanwhile",
  async (name) => {
    const small = await startService({ SERVICE_MAX_CONCURRENCY: "2" });
    try {
      const wire = small.wire(name);
      const db = await small.database();
      const replies = await whileWriting(wire, db, async () => {
        const puts = Promise.all(Array.from({ length: 7 }, (_, at) => put(wire, db, `k${at}`)));
        expect((await small.call("GET", "/health")).text).toBe("ok");
        return puts;
      });
      // The slow write and the first put behind it run, and two puts wait.
      expect(replies.filter(({ code }) => code === "ok")).toHaveLength(2);
      const shed = replies.filter(({ code }) => code === "overloaded");
      expect(shed).toHaveLength(5);
      for (const { retryAfterSecs } of shed) expect(retryAfterSecs).toBeGreaterThanOrEqual(1);
      await Promise.all(Array.from({ length: 4 }, (_, at) => ok(put(wire, db, `after${at}`))));
    } finally {
      await small.close();
    }
  },
);
