/** One engine, on the test's own thread, with a disk that can be held or made to fail. */
import { existsSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { TrustedTime } from "../../../src/base/trusted-time.ts";
import { realWorld, type World } from "../../../src/base/world.ts";
import { MemoryStore } from "../../../src/store/memory-store.ts";
import { realDisk, type Disk } from "../../../src/base/disk.ts";
import { openInlineEngine, uuidOf } from "../../support/inline-engine.ts";
import { temporaryDirectory } from "../../support/temporary.ts";

const target = { uuid: uuidOf(1), branch: "main" };
const put = (key: string, value = key) => ({ ns: "n", key, value: Buffer.from(value) });
const turns = async (count: number): Promise<void> => {
  for (let turn = 0; turn < count; turn++) await new Promise((resolve) => setImmediate(resolve));
};

/** A disk whose fsync waits until it is let go, or fails. */
class HeldDisk implements Disk {
  readonly write = realDisk.write;
  held = false;
  failure: Error | undefined;
  #gates: (() => void)[] = [];

  async fdatasync(descriptor: number, path: string): Promise<void> {
    if (this.failure) throw this.failure;
    if (this.held) await new Promise<void>((resolve) => this.#gates.push(resolve));
    if (this.failure) throw this.failure;
    await realDisk.fdatasync(descriptor, path);
  }

  syncDirectory(path: string): Promise<void> {
    return realDisk.syncDirectory(path);
  }

  release(): void {
    this.held = false;
    for (const open of this.#gates.splice(0)) open();
  }
}

/** The real world with a clock that the test can move. */
function movableWorld(): World & { skipMs: number } {
  const real = realWorld();
  const nowMs = (): number => real.nowMs() + world.skipMs;
  const monotonicMs = (): number => real.monotonicMs() + world.skipMs;
  const world = { ...real, skipMs: 0, nowMs, wallMs: nowMs, monotonicMs };
  return Object.assign(world, { time: new TrustedTime(nowMs, monotonicMs) });
}

describe("transaction ids", () => {
  test("core-04, core-05: the first effective write is 1, each later one 1 more; no change takes none", async () => {
    const { client, soon } = openInlineEngine(temporaryDirectory());
    expect((await client.read(target, "kv.get", { ns: "n", key: "k" }, soon())).txid).toBe(0);
    expect((await client.write(target, "kv.delete", { ns: "n", key: "k" }, soon())).txid).toBe(0);
    expect((await client.write(target, "kv.put", put("k"), soon())).txid).toBe(1);
    expect((await client.write(target, "kv.delete", { ns: "n", key: "none" }, soon())).txid).toBe(1);
    expect((await client.write(target, "kv.put", put("k", "2"), soon())).txid).toBe(2);
    expect((await client.read(target, "kv.get", { ns: "n", key: "k" }, soon())).txid).toBe(2);
    await client.close();
  });

  test("hardening-10: writes that wait together share a group and a txid; a bad one fails alone", async () => {
    const { client, engine, soon } = openInlineEngine(temporaryDirectory());
    await client.write(target, "docs.insert", { collection: "c", docs: ['{"_id":"taken"}'] }, soon());
    const before = engine.counters.groups;
    const [first, bad, last] = await Promise.allSettled([
      client.write(target, "kv.put", put("a"), soon()),
      client.write(target, "docs.insert", { collection: "c", docs: ['{"_id":"new"}', '{"_id":"taken"}'] }, soon()),
      client.write(target, "kv.put", put("b"), soon()),
    ]);
    expect(engine.counters.groups - before).toBe(1);
    expect(first).toMatchObject({ status: "fulfilled", value: { txid: 2 } });
    expect(last).toMatchObject({ status: "fulfilled", value: { txid: 2 } });
    expect(bad).toMatchObject({ status: "rejected", reason: { code: "already_exists" } });
    expect((await client.read(target, "docs.find", { collection: "c" }, soon())).value.docs).toHaveLength(1);
    await client.close();
  });

  test("a Min-Txid that the branch never gave is refused with where it stands", async () => {
    const { client, soon } = openInlineEngine(temporaryDirectory());
    await client.write(target, "kv.put", put("k"), soon());
    expect((await client.read(target, "kv.get", { ns: "n", key: "k" }, { ...soon(), minTxid: 1 })).txid).toBe(1);
    await expect(client.read(target, "kv.get", { ns: "n", key: "k" }, { ...soon(), minTxid: 2 })).rejects.toThrow(
      /2 was never given.*stands at 1/,
    );
    await client.close();
  });
});

describe("the fsync", () => {
  test("no answer, of a write or of a read that saw it, leaves before the fsync has returned", async () => {
    const disk = new HeldDisk();
    const { client, soon } = openInlineEngine(temporaryDirectory(), { disk });
    await client.write(target, "kv.put", put("k", "old"), soon());
    disk.held = true;
    const settled: string[] = [];
    const writing = client.write(target, "kv.put", put("k", "new"), soon()).then(() => settled.push("write"));
    await turns(20);
    const reading = client
      .read(target, "kv.get", { ns: "n", key: "k" }, soon())
      .then(({ value }) => settled.push(Buffer.from(value!.value).toString()));
    await turns(20);
    expect(settled).toEqual([]);
    disk.release();
    await Promise.all([writing, reading]);
    expect(settled.sort()).toEqual(["new", "write"]);
    await client.close();
  });

  test("another database of the thread goes on while one waits for its disk", async () => {
    const disk = new HeldDisk();
    const { client, soon } = openInlineEngine(temporaryDirectory(), { disk });
    const other = { uuid: uuidOf(2), branch: "main" };
    await client.write(other, "kv.put", put("k"), soon());
    disk.held = true;
    const stuck = client.write(target, "kv.put", put("k"), soon());
    await turns(20);
    expect((await client.read(other, "kv.get", { ns: "n", key: "k" }, soon())).txid).toBe(1);
    disk.release();
    await stuck;
    await client.close();
  });

  test("F19: a failed fsync ends the handle: nothing of it is acknowledged, the database goes on", async () => {
    const disk = new HeldDisk();
    const directory = temporaryDirectory();
    const { client, soon } = openInlineEngine(directory, { disk });
    await client.write(target, "kv.put", put("safe"), soon());
    disk.failure = Object.assign(new Error("i/o error"), { code: "EIO" });
    await expect(client.write(target, "kv.put", put("lost"), soon())).rejects.toMatchObject({ code: "unavailable" });
    disk.failure = undefined;
    expect((await client.read(target, "kv.get", { ns: "n", key: "safe" }, soon())).value).toBeDefined();
    // "Not known" was the answer: the log was proven anew and the write turned out to be there.
    const { txid } = await client.read(target, "kv.get", { ns: "n", key: "lost" }, soon());
    expect((await client.write(target, "kv.put", put("after"), soon())).txid).toBe(txid + 1);
    await client.close();
  });

  test("many clients on one database share fsyncs", async () => {
    const { client, engine, soon } = openInlineEngine(temporaryDirectory());
    await Promise.all(
      Array.from({ length: 64 }, async (_, index) => {
        for (let step = 0; step < 10; step++) await client.write(target, "kv.put", put(`${index}-${step}`), soon());
      }),
    );
    const { writes, fsyncs } = engine.counters;
    expect(writes).toBe(640);
    expect(writes / fsyncs).toBeGreaterThanOrEqual(16);
    await client.close();
  });
});

describe("room", () => {
  test("hardening-10: with a queue of one, the second write is shed at once with Retry-After", async () => {
    const disk = new HeldDisk();
    const { client, soon } = openInlineEngine(temporaryDirectory(), { disk, options: { writeQueueDepth: 1 } });
    await client.write(target, "kv.put", put("warm"), soon());
    disk.held = true;
    const running = client.write(target, "kv.put", put("a"), soon());
    await turns(10);
    const waiting = client.write(target, "kv.put", put("b"), soon());
    await turns(10);
    await expect(client.write(target, "kv.put", put("c"), soon())).rejects.toMatchObject({
      code: "overloaded",
      detail: { retryAfterSecs: expect.any(Number) },
    });
    disk.release();
    await Promise.all([running, waiting]);
    expect((await client.read(target, "kv.list", { ns: "n" }, soon())).value.keys).toEqual(["a", "b", "warm"]);
    await client.close();
  });

  test("a write whose time is over before its turn is refused and does not happen", async () => {
    const world = movableWorld();
    const disk = new HeldDisk();
    const { client, soon } = openInlineEngine(temporaryDirectory(), { disk, world });
    await client.write(target, "kv.put", put("warm"), soon());
    disk.held = true;
    const running = client.write(target, "kv.put", put("a"), soon());
    await turns(10);
    const late = client.write(target, "kv.put", put("late"), { deadlineMs: world.monotonicMs() + 1_000 });
    await turns(10);
    world.skipMs += 2_000;
    disk.release();
    await expect(late).rejects.toMatchObject({ code: "request_timeout" });
    await running;
    expect((await client.read(target, "kv.list", { ns: "n" }, soon())).value.keys).toEqual(["a", "warm"]);
    await client.close();
  });

  test("core-11, F28: with room for one handle, alternating between two databases loses nothing", async () => {
    const { client, engine, soon } = openInlineEngine(temporaryDirectory(), { options: { hotHandlesMax: 1 } });
    const targets = [1, 2, 3].map((number) => ({ uuid: uuidOf(number), branch: "main" }));
    for (let step = 0; step < 10; step++)
      for (const one of targets) await client.write(one, "kv.put", put(`k${step}`), soon());
    for (const one of targets) {
      const { value, txid } = await client.read(one, "kv.list", { ns: "n" }, soon());
      expect(value.keys).toHaveLength(10);
      expect(txid).toBe(10);
    }
    expect(engine.counters.evicted).toBeGreaterThan(20);
    await client.close();
  });

  test("F28: more databases than handles, all at once: everyone is served", async () => {
    const { client, soon } = openInlineEngine(temporaryDirectory(), { options: { hotHandlesMax: 3 } });
    await Promise.all(
      Array.from({ length: 30 }, (_, index) =>
        client.write({ uuid: uuidOf(index), branch: "main" }, "kv.put", put("k"), soon()),
      ),
    );
    await client.close();
  });

  test("an idle database is closed, its log folded in, and opens again with all it had", async () => {
    const directory = temporaryDirectory();
    const world = movableWorld();
    const { client, engine, soon } = openInlineEngine(directory, { world, options: { idleCloseMs: 5_000 } });
    await client.write(target, "kv.put", put("k"), soon());
    const files = (): string[] => readdirSync(join(directory, "db", target.uuid));
    expect(files()).toContain("main.db-wal");
    world.skipMs += 10_000;
    for (let look = 0; look < 400 && files().includes("main.db-wal"); look++)
      await new Promise((resolve) => setTimeout(resolve, 10));
    expect(files()).toEqual(["main.db"]);
    expect((await client.read(target, "kv.get", { ns: "n", key: "k" }, soon())).txid).toBe(1);
    expect(engine.counters.opened).toBe(2);
    await client.close();
  });
});

describe("life", () => {
  test("core-01: nothing is on disk before the first use; drop removes what there is", async () => {
    const directory = temporaryDirectory();
    const { client, soon } = openInlineEngine(directory);
    expect(readdirSync(join(directory, "db"))).toEqual([]);
    await client.write(target, "kv.put", put("k"), soon());
    expect(existsSync(join(directory, "db", target.uuid, "main.db"))).toBe(true);
    await client.deleteTarget(target, soon());
    expect(existsSync(join(directory, "db", target.uuid))).toBe(false);
    await client.close();
  });

  test("crash and recovery 1: what was acknowledged is there after a start that finds only the log", async () => {
    const directory = temporaryDirectory();
    const store = new MemoryStore();
    const first = openInlineEngine(directory, { store });
    for (let step = 0; step < 50; step++) await first.client.write(target, "kv.put", put(`k${step}`), first.soon());
    // Not closed: the second engine finds the files as a killed process leaves them.
    const second = openInlineEngine(directory, { store });
    const { value, txid } = await second.client.read(target, "kv.list", { ns: "n", limit: 1000 }, second.soon());
    expect(value.keys).toHaveLength(50);
    expect(txid).toBe(50);
    await second.client.close();
  });

  test("a large log is folded into the file between groups, and nothing is lost by it", async () => {
    const { client, soon } = openInlineEngine(temporaryDirectory());
    const value = Buffer.alloc(512 * 1024, 7);
    for (let step = 0; step < 24; step++)
      await client.write(target, "kv.put", { ns: "n", key: `k${step}`, value }, soon());
    for (let step = 0; step < 24; step++) {
      const read = await client.read(target, "kv.get", { ns: "n", key: `k${step}` }, soon());
      expect(Buffer.compare(read.value!.value, value)).toBe(0);
    }
    await client.close();
  });

  test("a file with a newer format than this build is refused, not guessed at", async () => {
    const directory = temporaryDirectory();
    const store = new MemoryStore();
    const { client, soon } = openInlineEngine(directory, { store });
    await client.write(target, "kv.put", put("k"), soon());
    await client.close();
    const { Connection } = await import("../../../src/sqlite/connection/connection.ts");
    const connection = new Connection(join(directory, "db", target.uuid, "main.db"), {
      readonly: false,
      pageCacheKiB: 256,
    });
    connection.run("UPDATE __service_state SET format = 99");
    connection.close();
    const again = openInlineEngine(directory, { store });
    await expect(again.client.read(target, "kv.get", { ns: "n", key: "k" }, again.soon())).rejects.toThrow(
      "format version 99, written by a newer build",
    );
    await again.client.close();
  });
});
