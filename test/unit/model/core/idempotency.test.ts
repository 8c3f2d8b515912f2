/** Writes that may be repeated: one execution, one answer, for a day, and nothing of the erased in what is kept. */
import { createHash } from "node:crypto";
import { afterEach, beforeEach, expect, test } from "vitest";
import { runWrite, type RepeatableWrite } from "../../../../src/model/commands.ts";
import { erase } from "../../../../src/model/erasure.ts";
import {
  answerCharsMax,
  answersKeptMs,
  answersMax,
  runRepeatable,
  type RepeatableAnswer,
} from "../../../../src/model/core/idempotency.ts";
import { ModelDatabase } from "../../../support/model-database.ts";

let database: ModelDatabase;

beforeEach(() => {
  database = new ModelDatabase();
});

afterEach(() => database.close());

const digest = (text: string): Uint8Array => createHash("sha256").update(text).digest();

function repeatable(key: string, act: () => unknown, request = key): RepeatableAnswer {
  const asked = { key: digest(key).subarray(0, 16), request: digest(request) };
  return database.write((tx) => runRepeatable(tx, asked, act));
}

const rows = (): readonly { request: Uint8Array | null; answer: string | null }[] =>
  database.connection.all("SELECT request, answer FROM __service_idempotency ORDER BY row");

test("the first call acts, and every later one has its answer and its transaction id", () => {
  let acts = 0;
  const first = repeatable("k", () => ({ acts: ++acts }));
  expect(first).toEqual({ value: { acts: 1 }, txid: first.txid, isRepeat: false });
  database.txid += 5;
  expect(repeatable("k", () => ({ acts: ++acts }))).toEqual({ ...first, isRepeat: true });
  expect(() => repeatable("k", () => ({ acts: ++acts }), "another")).toThrow(
    expect.objectContaining({ code: "conflict", message: expect.stringContaining("another request") }),
  );
  expect(acts).toBe(1);
  expect(repeatable("nothing", () => undefined).value).toBeUndefined();
  expect(repeatable("nothing", () => undefined).value).toBeNull();
});

test("what threw is not known", () => {
  expect(() =>
    repeatable("k", () => {
      throw new Error("refused");
    }),
  ).toThrow("refused");
  expect(repeatable("k", () => 1)).toMatchObject({ value: 1, isRepeat: false });
});

test("a day later the key is free; what is older goes with the writes that come", () => {
  for (let n = 0; n < 40; n++) repeatable(`old ${n}`, () => n);
  database.nowMs += answersKeptMs - 1;
  expect(repeatable("old 0", () => "new").isRepeat).toBe(true);
  database.nowMs += 1;
  expect(repeatable("old 0", () => "new")).toMatchObject({ value: "new", isRepeat: false });
  expect(repeatable("old 0", () => "newer", "old 0")).toMatchObject({ value: "new", isRepeat: true });
  for (let n = 0; n < 4; n++) repeatable(`later ${n}`, () => n);
  expect(rows()).toHaveLength(5);
});

test(`beyond ${answersMax} keys the oldest goes`, () => {
  repeatable("first", () => 1);
  database.connection.run("UPDATE __service_idempotency SET row = 1");
  repeatable("second", () => 2);
  database.connection.run("UPDATE __service_idempotency SET row = ? WHERE row = 2", answersMax);
  expect(repeatable("first", () => 3).isRepeat).toBe(true);
  repeatable("third", () => 3);
  expect(rows()).toHaveLength(2);
  expect(repeatable("first", () => 4).isRepeat).toBe(false);
});

test("of an answer that is too long only is kept that it was given", () => {
  const { txid } = repeatable("long", () => "x".repeat(answerCharsMax));
  expect(() => repeatable("long", () => "again")).toThrow(
    expect.objectContaining({ code: "conflict", message: expect.stringContaining(`as transaction ${txid}`) }),
  );
});

test("an erasure takes all that was asked and answered, and not that it was", () => {
  const write = (key: string, command: string, input: unknown): RepeatableWrite => ({
    key: digest(key).subarray(0, 16),
    request: digest(key),
    command,
    input,
  });
  const put = write("put", "file.put", { path: "secret.md", text: "secret" });
  const insert = write("insert", "docs.insert", { collection: "c", docs: ["{}"] });
  for (const one of [put, insert]) database.write((tx) => runWrite("repeatable", tx, one));
  expect(rows()[0]!.answer).toContain("secret.md");
  database.write((tx) =>
    erase(tx, { couponId: "ers_1", target: { kind: "path", path: "secret.md" }, traceKey: new Uint8Array(32) }),
  );
  expect(rows()).toEqual([
    { request: null, answer: null },
    { request: null, answer: null },
  ]);
  for (const one of [put, insert])
    expect(() => database.write((tx) => runWrite("repeatable", tx, one))).toThrow("its answer is not kept any more");
  expect(database.connection.get("SELECT count(*) AS n FROM __service_file")).toEqual({ n: 0 });
});
