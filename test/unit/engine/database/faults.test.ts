/** What storage faults, deletions and shutdown at bad moments may not do. */
import { existsSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, onTestFinished, test, vi } from "vitest";
import type { ServiceError } from "../../../../src/base/faults/errors.ts";
import { realWorld } from "../../../../src/base/world.ts";
import { Engine } from "../../../../src/engine/engine.ts";
import type { EngineAnswer, FromEngine, Work } from "../../../../src/engine/api/protocol.ts";
import { writeCommands } from "../../../../src/model/commands.ts";
import { Connection } from "../../../../src/sqlite/connection/connection.ts";
import { MemoryStore } from "../../../../src/store/memory-store.ts";
import { threadedPress } from "../../../../src/format/core/compression.ts";
import { realDisk, type Disk } from "../../../../src/base/disk.ts";
import { inlineOptions, openInlineEngine, uuidOf } from "../../../support/inline-engine.ts";
import { temporaryDirectory } from "../../../support/temporary.ts";

const target = { uuid: uuidOf(1), branch: "main" };
const put = (key: string, value = key) => ({ ns: "n", key, value: Buffer.from(value) });

/**
 * A disk whose next fsyncs of the log fail as a broken device's do. What is synced beside it, as a restored state is,
 * takes none of them.
 */
class FailingDisk implements Disk {
  readonly write = realDisk.write;
  failures = 0;

  async fdatasync(descriptor: number, path: string): Promise<void> {
    if (path.endsWith("main.db-wal") && this.failures-- > 0)
      throw Object.assign(new Error("i/o error"), { code: "EIO" });
    await realDisk.fdatasync(descriptor, path);
  }

  syncDirectory(path: string): Promise<void> {
    return realDisk.syncDirectory(path);
  }
}

/** An engine spoken to in its own protocol, for what the client would never do by itself. */
function rawEngine(directory: string, disk: Disk = realDisk) {
  const waiting = new Map<number, (answer: EngineAnswer) => void>();
  const events: FromEngine[] = [];
  const { engine } = openInlineEngine(join(directory, "unused"));
  void engine;
  const world = realWorld();
  const own = new Engine({
    options: inlineOptions(join(directory, "unused"), { hotHandlesMax: 10, writeQueueDepth: 10 }),
    world,
    disk,
    store: new MemoryStore(world),
    press: threadedPress,
    indexBuilder: undefined,
    send: (message) => {
      events.push(message);
      if (message.kind === "answers") for (const answer of message.answers) waiting.get(answer.id)?.(answer);
    },
  });
  let next = 1;
  const call = (work: Work, uuid = uuidOf(1)): Promise<EngineAnswer> =>
    new Promise((resolve) => {
      const id = next++;
      waiting.set(id, resolve);
      own.receive([{ id, target: { uuid, branch: "main" }, work, budgetMs: 10_000, minTxid: 0, durable: false }]);
    });
  const write = (key: string): Promise<EngineAnswer> =>
    call({ kind: "write", command: "kv.put", input: put(key), bytes: 1 });
  const keys = (): Promise<EngineAnswer> => call({ kind: "read", command: "kv.list", input: { ns: "n" } });
  return { engine: own, events, call, write, keys };
}

test("whatever fails right after a commit ends the handle; the commit does not happen again", async () => {
  let isArmed = true;
  const world = realWorld((point) => {
    if (point !== "committed" || !isArmed) return;
    isArmed = false;
    throw Object.assign(new Error("i/o error"), { code: "EIO" });
  });
  const { client, soon } = openInlineEngine(temporaryDirectory(), { world });
  const writes = await Promise.allSettled(["k1", "k2"].map((key) => client.write(target, "kv.put", put(key), soon())));
  expect(writes.map((write) => write.status === "rejected" && (write.reason as ServiceError).code)).toEqual([
    "unavailable",
    "unavailable",
  ]);
  const { value, txid } = await client.read(target, "kv.list", { ns: "n" }, soon());
  expect({ keys: value.keys, txid }).toEqual({ keys: ["k1", "k2"], txid: 1 });
  await client.close();
});

describe("F19: a failed fsync", () => {
  test("right after a crash it takes nothing of the recovered log", async () => {
    const directory = temporaryDirectory();
    const store = new MemoryStore();
    const first = openInlineEngine(directory, { store });
    for (let step = 0; step < 5; step++) await first.client.write(target, "kv.put", put(`k${step}`), first.soon());
    // Not closed: the second engine finds what a killed process leaves, on a disk that fails at once, and again.
    const disk = new FailingDisk();
    disk.failures = 2;
    const second = openInlineEngine(directory, { disk, store });
    const { value, txid } = await second.client.read(target, "kv.list", { ns: "n" }, second.soon());
    expect({ keys: value.keys.length, txid, failures: disk.failures < 0 }).toEqual({
      keys: 5,
      txid: 5,
      failures: true,
    });
    await second.client.close();
  });

  test("beside a checkpoint that a reader held up, it leaves a sound file with everything acknowledged", async () => {
    const directory = temporaryDirectory();
    const disk = new FailingDisk();
    const { client, soon } = openInlineEngine(directory, { disk });
    await client.write(target, "kv.put", put("first"), soon());
    const path = join(directory, "db", uuidOf(1), "main.db");
    const reader = new Connection(path, { readonly: true, pageCacheKiB: 256 });
    reader.run("BEGIN");
    reader.all("SELECT * FROM __service_kv");
    const value = Buffer.alloc(1024 * 1024, 1);
    for (let step = 0; step < 20; step++)
      await client.write(target, "kv.put", { ns: "n", key: `big${step}`, value }, soon());
    disk.failures = 1;
    await expect(client.write(target, "kv.put", { ns: "n", key: "doubtful", value }, soon())).rejects.toMatchObject({
      code: "unavailable",
    });
    reader.close();
    expect(
      (await client.read(target, "kv.list", { ns: "n", limit: 100 }, soon())).value.keys.length,
    ).toBeGreaterThanOrEqual(21);
    await client.close();
    const connection = new Connection(path, { readonly: false, pageCacheKiB: 256 });
    onTestFinished(() => connection.close());
    expect(connection.raw.pragma("integrity_check", { simple: true })).toBe("ok");
  });

  test("with a read pinned, the read ends, the database comes back and the engine closes", async () => {
    const disk = new FailingDisk();
    const { engine, call, write, keys } = rawEngine(temporaryDirectory(), disk);
    await write("k");
    const pinned = (await call({ kind: "pin" })).value as { token: number };
    disk.failures = 1;
    expect((await write("doubtful")).refusal).toMatchObject({ code: "unavailable" });
    const unpinned = call({ kind: "unpin", token: pinned.token, seenTxid: 1 });
    expect((await unpinned).refusal).toBeUndefined();
    expect((await keys()).value).toMatchObject({ keys: expect.arrayContaining(["k"]) });
    await engine.close();
  });
});

describe("pins", () => {
  test("one that the engine does not know is refused, and the engine goes on", async () => {
    const { engine, call, write } = rawEngine(temporaryDirectory());
    expect((await call({ kind: "unpin", token: 99, seenTxid: 0 })).refusal).toMatchObject({ code: "unavailable" });
    expect((await write("k")).txid).toBe(1);
    await engine.close();
  });

  test("shutdown takes the end of a running read and then closes", async () => {
    const { engine, call, write } = rawEngine(temporaryDirectory());
    await write("k");
    const { token } = (await call({ kind: "pin" })).value as { token: number };
    const closing = engine.close();
    expect((await write("late")).refusal).toMatchObject({ code: "unavailable" });
    expect((await call({ kind: "unpin", token, seenTxid: 1 })).refusal).toBeUndefined();
    await closing;
  });
});

describe("deletion", () => {
  test("a call that waited for the deletion does not bring the database back", async () => {
    const directory = temporaryDirectory();
    const { client, soon } = openInlineEngine(directory);
    await client.write(target, "kv.put", put("k"), soon());
    const dropping = client.deleteTarget(target, soon());
    const late = client.write(target, "kv.put", put("late"), soon());
    await expect(late).rejects.toMatchObject({ code: "database_not_found" });
    await dropping;
    await expect(client.write(target, "kv.put", put("later"), soon())).rejects.toMatchObject({
      code: "database_not_found",
    });
    expect(existsSync(join(directory, "db", uuidOf(1)))).toBe(false);
    await client.close();
  });
});

describe("commands", () => {
  test("a derived cache that fails after the commit neither repeats the commit nor loses it", async () => {
    const { client, soon } = openInlineEngine(temporaryDirectory());
    const original = writeCommands["turn.append"];
    const append = vi
      .spyOn(writeCommands as { "turn.append": typeof original }, "turn.append")
      .mockImplementation((tx, input) => {
        tx.afterCommit(() => {
          throw new Error("cache fault");
        });
        return original(tx, input);
      });
    onTestFinished(() => append.mockRestore());
    const turn = (content: string) =>
      client.write(target, "turn.append", { sessionId: "s", role: "user", content }, soon());
    const answers = await Promise.all([turn('"a"'), turn('"b"')]);
    expect(answers.map(({ value, txid }) => [value.seq, txid])).toEqual([
      [1, 1],
      [2, 1],
    ]);
    expect((await client.read(target, "turn.last", { sessionId: "s" }, soon())).value.turns).toHaveLength(2);
    await client.close();
  });

  test("one that breaks the group as a whole does not take its neighbours along", async () => {
    const { client, soon } = openInlineEngine(temporaryDirectory());
    const original = writeCommands["kv.delete"];
    const remove = vi.spyOn(writeCommands as { "kv.delete": typeof original }, "kv.delete").mockImplementation((tx) => {
      tx.atGroupEnd(() => {
        throw new Error("fault at the group's end");
      });
      return original(tx, { ns: "n", key: "a" });
    });
    onTestFinished(() => remove.mockRestore());
    await client.write(target, "kv.put", put("a"), soon());
    const [left, broken, right] = await Promise.allSettled([
      client.write(target, "kv.put", put("b"), soon()),
      client.write(target, "kv.delete", { ns: "n", key: "a" }, soon()),
      client.write(target, "kv.put", put("c"), soon()),
    ]);
    expect([left.status, broken.status, right.status]).toEqual(["fulfilled", "rejected", "fulfilled"]);
    expect((await client.read(target, "kv.list", { ns: "n" }, soon())).value.keys).toEqual(["a", "b", "c"]);
    await client.close();
  });
});

test("F28: a burst of first uses does not pass the cap on open handles", async () => {
  const directory = temporaryDirectory();
  const { client, engine, soon } = openInlineEngine(directory, { options: { hotHandlesMax: 4 } });
  await Promise.all(
    Array.from({ length: 40 }, (_, index) =>
      client.write({ uuid: uuidOf(index), branch: "main" }, "kv.put", put("k"), soon()),
    ),
  );
  expect(engine.counters.opened - engine.counters.evicted).toBeLessThanOrEqual(4);
  expect(readdirSync(join(directory, "db"))).toHaveLength(40);
  await client.close();
});
