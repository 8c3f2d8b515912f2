/** What the main thread answers by a permit, and what it leaves to the engine: over a real file. */
import { afterEach, beforeEach, expect, test } from "vitest";
import { realWorld } from "../../../../src/base/world.ts";
import { DirectReaders } from "../../../../src/engine/direct-reads/direct-readers.ts";
import { PermitWords } from "../../../../src/engine/direct-reads/permit-words.ts";
import { kvPut } from "../../../../src/model/kv/kv.ts";
import { writeState } from "../../../../src/model/schema.ts";
import { ModelDatabase } from "../../../support/model-database.ts";

const world = realWorld();
const target = { uuid: "u", branch: "main" };
let database: ModelDatabase;
let readers: DirectReaders;
let words: PermitWords;

/** Commits the value as that transaction. */
function commit(txid: number, value: string, committedAtMs = 1): void {
  database.write((tx) => {
    kvPut(tx, { ns: "n", key: "k", value: Buffer.from(value) });
    writeState(tx.connection, { txid, committedAtMs, writerEpochId: undefined });
  });
}

function permit(lostTxidMax = 0, expiresAtMs = Infinity): void {
  words = new PermitWords();
  const file = { ...target, path: database.connection.path, expiresAtMs, lostTxidMax, retention: undefined };
  readers.hear(0, { kind: "read-permit", id: 1, file, shared: words.shared });
}

const read = (minTxid = 0) => {
  const answer = readers.read(target, { command: "kv.get", input: { ns: "n", key: "k" }, minTxid });
  const value = answer?.value as { value: Uint8Array } | undefined;
  return value && { text: Buffer.from(value.value).toString(), txid: answer!.txid, durableTxid: answer!.durableTxid };
};

beforeEach(() => {
  database = new ModelDatabase();
  readers = new DirectReaders(world);
});

afterEach(() => {
  readers.closeAll();
  database.close();
});

test("a state that is on disk is answered, with how far object storage is; a newer one is not", () => {
  commit(5, "five");
  permit();
  expect(read()).toBeUndefined();
  words.raise(5, 3);
  expect(read()).toEqual({ text: "five", txid: 5, durableTxid: 3 });
  commit(6, "six");
  expect(read()).toBeUndefined();
  words.raise(6, 5);
  expect(read()).toEqual({ text: "six", txid: 6, durableTxid: 5 });
});

test("a caller who has seen a newer state, or one that may be lost, is left to the engine", () => {
  commit(9, "nine");
  permit(4);
  words.raise(9, 9);
  expect(read(9)?.text).toBe("nine");
  expect(read(5)?.text).toBe("nine");
  expect(read(10)).toBeUndefined();
  expect(read(4)).toBeUndefined();
});

test("so is a clock behind the newest commit, and a branch whose time is over", () => {
  commit(1, "later", world.nowMs() + 60_000);
  permit();
  words.raise(1, 1);
  expect(read()).toBeUndefined();
  commit(2, "now");
  permit(0, world.nowMs() - 1);
  words.raise(2, 2);
  expect(read()).toBeUndefined();
});

test("only reads of one row are direct", () => {
  commit(1, "one");
  permit();
  words.raise(1, 1);
  expect(readers.read(target, { command: "kv.list", input: { ns: "n" }, minTxid: 0 })).toBeUndefined();
  expect(readers.read({ ...target, branch: "other" }, { command: "kv.get", input: {}, minTxid: 0 })).toBeUndefined();
});

test("what the read refuses is left to the engine", () => {
  commit(1, "one");
  permit();
  words.raise(1, 1);
  expect(readers.read(target, { command: "kv.get", input: { ns: "", key: "k" }, minTxid: 0 })).toBeUndefined();
  expect(read()?.text).toBe("one");
});

test("nothing is answered by a revoked permit, and its engine hears that the file is closed", () => {
  commit(1, "one");
  permit();
  words.raise(1, 1);
  expect(read()?.text).toBe("one");
  words.revoke();
  expect(read()).toBeUndefined();
  expect(words.isClosed).toBe(false);
  readers.hear(0, { kind: "read-permit-ended", id: 1 });
  expect(words.waitUntilClosed(0)).toBe(true);
  // No other connection is left: the last one to close removes the log.
  expect(database.connection.raw.pragma("wal_checkpoint(TRUNCATE)")).toEqual([{ busy: 0, log: 0, checkpointed: 0 }]);
});

test("one that is revoked before it arrives opens nothing; one of a lost thread is closed", () => {
  commit(1, "one");
  const late = new PermitWords();
  late.revoke();
  const file = {
    ...target,
    path: database.connection.path,
    expiresAtMs: Infinity,
    lostTxidMax: 0,
    retention: undefined,
  };
  readers.hear(0, { kind: "read-permit", id: 7, file, shared: late.shared });
  expect(late.isClosed).toBe(true);
  permit();
  words.raise(1, 1);
  readers.lost(1);
  expect(read()?.text).toBe("one");
  readers.lost(0);
  expect([read(), words.isClosed]).toEqual([undefined, true]);
});

test("a file that cannot be opened is left to the engine", () => {
  const absent = new PermitWords();
  const file = { ...target, path: "/nonexistent/file.db", expiresAtMs: Infinity, lostTxidMax: 0, retention: undefined };
  readers.hear(0, { kind: "read-permit", id: 1, file, shared: absent.shared });
  expect([absent.isClosed, read()]).toEqual([true, undefined]);
});

test("a file that cannot be read is given back at once, and not tried at each read", () => {
  commit(5, "five");
  permit();
  words.raise(5, 3);
  expect(read()?.text).toBe("five");
  database.connection.run("ALTER TABLE __service_state RENAME TO elsewhere");
  expect(read()).toBeUndefined();
  expect(words.isClosed).toBe(true);
});
