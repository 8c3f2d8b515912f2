/** Commands whose time slice is over, at any of their statements: undone, run by a process, and come to the same. */
import { expect, onTestFinished, test } from "vitest";
import type { SqlWriter } from "../../../../src/engine/process-calls/sql-write.ts";
import { openInlineEngine, uuidOf } from "../../../support/inline-engine.ts";
import { hastySlices } from "../../../support/hasty-slices.ts";
import { MortalSql } from "../../../support/mortal-sql.ts";
import { temporaryDirectory } from "../../../support/temporary.ts";

const target = { uuid: uuidOf(1), branch: "main" };
const memories = (from: number, count: number) =>
  Array.from({ length: count }, (_, n) => ({
    type: "fact" as const,
    topicKey: `topic ${(from + n) % 7}`,
    summary: `number ${from + n}`,
    content: JSON.stringify({ n: from + n }),
    embedding: Float32Array.of(1, from + n, 2),
  }));

/** An engine whose next command is over at its `at`th look. */
function setup() {
  const directory = temporaryDirectory();
  const sql = new MortalSql(directory, 1);
  let looks = 0;
  let overAt = Infinity;
  let stopped = 0;
  let isShared = false;
  const slices = hastySlices(
    () => ++looks === overAt && ++stopped > 0,
    () => isShared,
  );
  const engine = openInlineEngine(directory, { sql, slices });
  onTestFinished(async () => {
    await engine.client.close();
    await sql.close();
  });
  return {
    ...engine,
    sql,
    stopAt: (at: number) => void ([looks, overAt] = [0, at]),
    share: () => void (isShared = true),
    looks: () => looks,
    stopped: () => stopped,
  };
}

test("stopped at any look, a write happens once, as if it had not been stopped", { timeout: 60_000 }, async () => {
  const { client, soon, stopAt, looks, stopped } = setup();
  stopAt(Infinity);
  await client.write(target, "memory.ingest", { memories: memories(0, 5) }, soon());
  const all = looks();
  expect(all).toBeGreaterThan(3);
  let txid = (await client.write(target, "kv.put", { ns: "n", key: "a", value: Buffer.from("1") }, soon())).txid;
  for (let at = 1; at <= all; at++) {
    stopAt(at);
    const answer = await client.write(target, "memory.ingest", { memories: memories(at * 5, 5) }, soon());
    stopAt(Infinity);
    expect(stopped()).toBe(at);
    expect(answer.txid).toBe(++txid);
    expect(answer.value.results.map(({ status }) => status)).toEqual([
      "created",
      "created",
      "created",
      "created",
      "created",
    ]);
    const ids = answer.value.results.map(({ id }) => id);
    expect(ids.toSorted()).toEqual(ids);
    // The cache of vectors follows: it was made by the search before.
    const near = await client.read(
      target,
      "memory.recall",
      { embedding: Float32Array.of(1, at * 5 + 4, 2), k: 1 },
      soon(),
    );
    expect(near.value.memories[0]!.summary).toBe(`number ${at * 5 + 4}`);
    expect(near.txid).toBe(txid);
  }
  const { value } = await client.read(target, "memory.recall", { topicKey: "topic 3", k: 50 }, soon());
  expect(value.memories).toHaveLength(1);
});

test("of a group that takes too long each is run alone, in their order", { timeout: 60_000 }, async () => {
  const { client, soon, stopAt, stopped } = setup();
  await client.write(target, "kv.put", { ns: "n", key: "a", value: Buffer.from("0") }, soon());
  stopAt(3);
  const puts = Array.from({ length: 40 }, (_, n) =>
    client.write(target, "kv.put", { ns: "n", key: "a", value: Buffer.from(String(n)) }, soon()),
  );
  const txids = (await Promise.all(puts)).map(({ txid }) => txid);
  expect(stopped()).toBe(1);
  expect(txids.toSorted((a, b) => a - b)).toEqual(txids);
  const { value } = await client.read(target, "kv.get", { ns: "n", key: "a" }, soon());
  expect(Buffer.from(value!.value!).toString()).toBe("39");
});

test(
  "a process that is killed under a long write leaves it whole or not at all, and the answer says which",
  { timeout: 60_000 },
  async () => {
    const { client, soon, sql, stopAt } = setup();
    await client.write(target, "kv.put", { ns: "n", key: "a", value: Buffer.from("0") }, soon());
    let happened = 0;
    for (let round = 0; round < 8; round++) {
      stopAt(1);
      sql.killAfterMs = round * 6;
      const outcome = await client
        .write(target, "memory.ingest", { memories: memories(round * 100, 100) }, soon())
        .then(
          () => "written",
          (error: Error) => error.message,
        );
      sql.killAfterMs = undefined;
      stopAt(Infinity);
      const found = await client.read(
        target,
        "memory.list",
        { types: ["fact"], limit: 1_000, includeSuperseded: true },
        soon(),
      );
      const now = found.value.memories.length;
      const wasWritten = outcome === "written" || outcome.includes("the batch was written");
      expect(now - happened, outcome).toBe(wasWritten ? 100 : 0);
      happened = now;
    }
  },
);

test("what a long write is refused for is told as it would be here", { timeout: 60_000 }, async () => {
  const { client, soon, stopAt, stopped } = setup();
  await client.write(target, "memory.ingest", { memories: memories(0, 5) }, soon());
  stopAt(2);
  const bad = [
    ...memories(10, 5),
    { type: "fact" as const, summary: "late", content: "{", embedding: Float32Array.of(1, 2, 3) },
  ];
  const refusal = await client
    .write(target, "memory.ingest", { memories: bad }, soon())
    .catch((error: unknown) => error);
  expect(stopped()).toBe(1);
  expect(refusal).toMatchObject({ code: "invalid_request" });
  stopAt(Infinity);
  const { value } = await client.read(target, "memory.list", { types: ["fact"], limit: 100 }, soon());
  expect(value.memories).toHaveLength(5);
});

test(
  "a read between a process's commit and its answer finds the vectors of the state that it speaks of",
  { timeout: 60_000 },
  async () => {
    const directory = temporaryDirectory();
    const mortal = new MortalSql(directory, 1);
    const [committed, go] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    const sql: SqlWriter = {
      async run(call) {
        const end = await mortal.run(call);
        committed.resolve();
        await go.promise;
        return end;
      },
    };
    let stops = false;
    const { client, soon } = openInlineEngine(directory, { sql, slices: hastySlices(() => stops) });
    onTestFinished(async () => {
      await client.close();
      await mortal.close();
    });
    await client.write(target, "memory.ingest", { memories: memories(0, 5) }, soon());
    const nearest = (n: number) =>
      client.read(target, "memory.recall", { embedding: Float32Array.of(1, n, 2), k: 1 }, soon());
    const before = (await nearest(4)).txid;
    stops = true;
    const writing = client.write(target, "memory.ingest", { memories: memories(100, 5) }, soon());
    await committed.promise;
    stops = false;
    const reading = nearest(104);
    await new Promise((resolve) => setTimeout(resolve, 50));
    go.resolve();
    const { value, txid } = await reading;
    expect(txid).toBe(before + 1);
    expect(value.memories[0]!.summary).toBe("number 104");
    await writing;
  },
);

test(
  "beside another tenant a write as large as a stopped one is not begun; alone any is",
  { timeout: 60_000 },
  async () => {
    const { client, soon, stopAt, looks, share } = setup();
    const ingest = async (from: number, count: number): Promise<number> => {
      const before = looks();
      const { value } = await client.write(
        target,
        "memory.ingest",
        { memories: memories(from, count) },
        { ...soon(), bytes: count * 100 },
      );
      expect(value.results).toHaveLength(count);
      return looks() - before;
    };
    expect(await ingest(0, 20)).toBeGreaterThan(0);
    stopAt(3);
    expect(await ingest(100, 20)).toBeGreaterThan(0);
    stopAt(Infinity);
    expect(await ingest(200, 20)).toBeGreaterThan(0);
    share();
    expect(await ingest(300, 20)).toBe(0);
    expect(await ingest(400, 5)).toBeGreaterThan(0);
  },
);
