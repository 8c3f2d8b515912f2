/** The failure matrix of the local side: a node that was killed, and what can befall its log. */
import { closeSync, cpSync, existsSync, openSync, readSync, statSync, writeSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { decodeManifest } from "../../src/format/history/manifest.ts";
import { manifestKey } from "../../src/format/keys/object-keys.ts";
import { pageBytes } from "../../src/format/history/pages.ts";
import { Connection } from "../../src/sqlite/connection/connection.ts";
import { realDisk, type Disk } from "../../src/base/disk.ts";
import { MemoryStore } from "../../src/store/memory-store.ts";
import type { ObjectStore } from "../../src/store/port/object-store.ts";
import { openInlineEngine, uuidOf, type InlineEngine } from "../support/inline-engine.ts";
import {
  allowAll,
  getFilePath,
  keysInStore,
  listKeys,
  kill,
  meddle,
  reborn,
  start,
  withUnshipped,
} from "../support/mortal-node.ts";
import { temporaryDirectory } from "../support/temporary.ts";
import { type TimedEngine, VirtualTime } from "../support/timed-engine.ts";
import { walCheckpointBytes } from "../../src/server/node/open-engine.ts";
import { walBytesMax } from "../../src/engine/database/wal-checkpointer.ts";

/** What object storage holds now. */
async function copyStore(store: ObjectStore): Promise<ObjectStore> {
  const copy = new MemoryStore();
  for (const { key } of (await store.list("", { limit: 1_000 })).objects)
    await copy.put(key, (await store.get(key))!.bytes, { kind: "absent" });
  return copy;
}

describe("a killed node", () => {
  test("F02, F22: what was committed and not shipped is shipped by the next process's claim", async () => {
    const time = new VirtualTime();
    const node = await withUnshipped(time);
    const { epoch } = time.manifest(node.uuid);
    const next = reborn(node, time);
    expect(await next.keys()).toEqual(listKeys(1, 8));
    allowAll(time.store);
    expect((await next.put("k9", "main", { durable: true })).txid).toBe(9);
    expect(time.manifest(node.uuid)).toMatchObject({ txid: 9, epoch: epoch + 1, lost: [] });
    expect(await keysInStore(time)).toEqual(listKeys(1, 9));
  });

  test("F02: what the log held is shipped even when nobody asks", async () => {
    const time = new VirtualTime();
    const node = await withUnshipped(time);
    allowAll(time.store);
    reborn(node, time);
    await time.pass(5_000);
    expect(time.manifest(node.uuid).txid).toBe(8);
  });

  test("F22: it may die between each claim and the first commit under it, as often as it likes", async () => {
    const time = new VirtualTime();
    let node = await withUnshipped(time);
    for (let life = 0; life < 3; life++) {
      node = reborn(node, time);
      await node.keys();
      const { epoch } = time.manifest(node.uuid);
      // It is gone the moment its claim has landed.
      time.store.watch = () => kill(node);
      time.store.decideFate = (verb, key) => (verb === "put" && !key.includes("/head/") ? "refused" : "fine");
      node.putting("never").catch(() => {});
      await time.pass(50);
      expect(time.manifest(node.uuid)).toMatchObject({ epoch: epoch + 1, txid: 3 });
    }
    time.store.watch = () => {};
    allowAll(time.store);
    const last = reborn(node, time);
    expect(await last.keys()).toEqual(listKeys(1, 8));
    await last.sync();
    expect(time.manifest(last.uuid)).toMatchObject({ txid: 8, lost: [] });
    expect(await keysInStore(time)).toEqual(listKeys(1, 8));
  });

  test("F22: behind a claim that had to pass over ids, what its log holds is shipped group by group", async () => {
    const time = new VirtualTime();
    let node = start(time);
    await node.put("k1", "main", { durable: true });
    // A restored file knows of nothing that its node may have answered before, so its claim leaves a gap.
    kill(node);
    node = start(time);
    await node.keys();
    let manifests = 0;
    time.store.decideFate = (verb, key) =>
      verb === "put" && (!key.includes("/head/") || manifests++ > 0) ? "refused" : "fine";
    const first = await node.put("k2");
    const second = await node.put("k3");
    expect(second.txid).toBe(first.txid + 1);
    expect(first.txid).toBeGreaterThan(2);
    const next = reborn(node, time);
    allowAll(time.store);
    expect(await next.keys()).toEqual(listKeys(1, 3));
    await next.sync();
    expect(next.notices).toEqual([]);
    expect(time.manifest(next.uuid)).toMatchObject({
      txid: second.txid,
      lost: [{ firstTxid: 2, lastTxid: first.txid - 1 }],
    });
    expect((await next.branch({ act: "fork", name: "past", at: String(first.txid) })).forkTxid).toBe(first.txid);
    expect(await next.keys("past")).toEqual(listKeys(1, 2));
  });

  test("F22: a claim that lands before the recovered log is synced does not pass over what the log holds", async () => {
    const [directory, store] = [temporaryDirectory(), new MemoryStore()];
    const target = { uuid: uuidOf(1), branch: "main" };
    const put = ({ client, soon }: InlineEngine, key: string, durable = false): Promise<{ txid: number }> =>
      client.write(target, "kv.put", { ns: "n", key, value: Buffer.from(key) }, { ...soon(), durable });
    const before = openInlineEngine(directory, { store });
    await put(before, "k1", true);
    for (const key of ["k2", "k3"]) await put(before, key);
    const copy = join(temporaryDirectory(), "copy");
    cpSync(directory, copy, { recursive: true });
    const stored = await copyStore(store);
    await before.client.close();
    const { promise: released, resolve: release } = Promise.withResolvers<void>();
    const disk: Disk = {
      ...realDisk,
      fdatasync: (descriptor, path) => released.then(() => realDisk.fdatasync(descriptor, path)),
    };
    const after = openInlineEngine(copy, { store: stored, disk });
    const writing = put(after, "k4", true);
    while (decodeManifest((await stored.get(manifestKey(target.uuid, "main")))!.bytes).epoch < 2)
      await new Promise((resolve) => setImmediate(resolve));
    release();
    expect((await writing).txid).toBe(4);
    const manifest = decodeManifest((await stored.get(manifestKey(target.uuid, "main")))!.bytes);
    expect(manifest).toMatchObject({ txid: 4, lost: [] });
    await after.client.close();
  });

  test("F05: an ingest whose answer was lost finds itself again", async () => {
    const time = new VirtualTime();
    const node = start(time);
    const ingest = (engine: TimedEngine): Promise<any> =>
      time.of(
        engine.client.write(
          engine.at("main"),
          "memory.ingest",
          { memories: [{ type: "fact", topicKey: "t", summary: "said once", content: "null" }] },
          engine.soon({ durable: true }),
        ),
      );
    const first = await ingest(node);
    const next = reborn(node, time);
    const again = await ingest(next);
    expect(again.value.results[0]).toMatchObject({ id: first.value.results[0].id, status: "duplicate" });
  });
});

describe("the log", () => {
  test("F07: a bit that rots in unshipped writes ends the shipping before it; its ids go to nobody", async () => {
    const time = new VirtualTime();
    const node = await withUnshipped(time);
    const path = `${getFilePath(node)}-wal`;
    const descriptor = openSync(path, "r+");
    const at = statSync(path).size - 3 * pageBytes;
    const byte = Buffer.alloc(1);
    readSync(descriptor, byte, 0, 1, at);
    writeSync(descriptor, Buffer.from([byte[0]! ^ 1]), 0, 1, at);
    closeSync(descriptor);
    allowAll(time.store);
    await time.pass(20_000);
    expect(node.notices.join("\n")).toMatch(/storage failed|log/);
    const kept = await node.keys();
    expect(listKeys(1, 8).slice(0, kept.length)).toEqual(kept);
    expect(kept.length).toBeGreaterThanOrEqual(3);
    expect(kept.length).toBeLessThan(8);
    const { txid } = await node.put("after", "main", { durable: true });
    expect(txid).toBeGreaterThan(8);
    await expect(
      time.of(node.client.read(node.at("main"), "kv.list", { ns: "n" }, node.soon({ minTxid: 8 }))),
    ).rejects.toMatchObject({ code: "conflict" });
    expect(await keysInStore(time)).toEqual(["after", ...kept]);
  });

  test.each(["while the node runs", "while it is down"])(
    "F10: a foreign checkpoint that cuts off what is not shipped, %s, loses nothing: the difference is shipped",
    async (when) => {
      const time = new VirtualTime();
      let node = await withUnshipped(time);
      if (when === "while it is down") kill(node);
      meddle(getFilePath(node), (database) => database.pragma("wal_checkpoint(TRUNCATE)"));
      if (when === "while it is down") node = reborn(node, time);
      allowAll(time.store);
      await time.pass(20_000);
      expect(await node.keys()).toEqual(listKeys(1, 8));
      await node.put("k9", "main", { durable: true });
      expect(node.notices.join("\n")).toContain("groups are missing from the log");
      expect(await keysInStore(time)).toEqual(listKeys(1, 9));
      // What cannot be restored by itself any more was not lost for that: whoever has seen it is answered.
      expect(time.manifest(node.uuid).lost).not.toEqual([]);
      for (let seen = 1; seen <= 9; seen++)
        expect(
          (await time.of(node.client.read(node.at("main"), "kv.list", { ns: "n" }, node.soon({ minTxid: seen })))).txid,
        ).toBe(9);
    },
  );

  test("F10: nor does one that cuts off what several claims wrote: each has come as far as it did", async () => {
    const time = new VirtualTime();
    let node = reborn(await withUnshipped(time), time);
    let manifests = 1;
    time.store.decideFate = (verb, key) =>
      verb === "put" && (!key.includes("/head/") || manifests-- <= 0) ? "refused" : "fine";
    await node.put("k9");
    kill(node);
    meddle(getFilePath(node), (database) => database.pragma("wal_checkpoint(TRUNCATE)"));
    node = reborn(node, time);
    allowAll(time.store);
    expect(await node.keys()).toEqual(listKeys(1, 9));
    await node.sync();
    expect(node.notices.join("\n")).toContain("groups are missing from the log");
    expect(await keysInStore(time)).toEqual(listKeys(1, 9));
    expect(time.manifest(node.uuid).writerEpochs.length).toBeGreaterThan(1);
    for (let seen = 1; seen <= 9; seen++)
      expect(
        (await time.of(node.client.read(node.at("main"), "kv.list", { ns: "n" }, node.soon({ minTxid: seen })))).txid,
      ).toBe(9);
  });

  test("F11: our own close leaves the log when it holds what is not shipped", async () => {
    const time = new VirtualTime();
    const node = await withUnshipped(time);
    await node.close();
    expect(statSync(`${getFilePath(node)}-wal`).size).toBeGreaterThan(0);
    allowAll(time.store);
    const next = start(time, {}, node.directory);
    await time.pass(5_000);
    expect(time.manifest(next.uuid)).toMatchObject({ txid: 8, lost: [] });
  });

  test("F11: a log that somebody's last close has deleted is made good from the file", async () => {
    const time = new VirtualTime();
    const node = await withUnshipped(time);
    const directory = temporaryDirectory();
    cpSync(node.directory, directory, { recursive: true });
    kill(node);
    const path = join(directory, "db", node.uuid, "main.db");
    meddle(path, (database) => database.prepare("SELECT count(*) FROM sqlite_schema").get());
    expect(existsSync(`${path}-wal`)).toBe(false);
    allowAll(time.store);
    const next = start(time, {}, directory);
    expect(await next.keys()).toEqual(listKeys(1, 8));
    await next.sync();
    expect(time.manifest(next.uuid)).toMatchObject({ txid: 8, lost: [{ firstTxid: 4, lastTxid: 7 }] });
    expect(await keysInStore(time)).toEqual(listKeys(1, 8));
  });

  test("F13: a transaction far beyond the page cache, which rewrote its own pages, is restored", async () => {
    const time = new VirtualTime();
    const node = start(time);
    await node.sql(["CREATE TABLE t (n INTEGER PRIMARY KEY, body BLOB)"]);
    await node.sql([
      "INSERT INTO t SELECT value, randomblob(4000) FROM (WITH RECURSIVE c (value) AS (SELECT 1 UNION ALL " +
        "SELECT value + 1 FROM c WHERE value < 6000) SELECT value FROM c)",
      "UPDATE t SET body = randomblob(4000) WHERE n % 3 = 0",
      "DELETE FROM t WHERE n % 5 = 0",
      "UPDATE t SET body = randomblob(100) WHERE n % 7 = 0",
    ]);
    await node.sync();
    const print =
      "SELECT count(*), sum(length(body)), sum(instr(hex(substr(body, 1, 50)), 'A')), (SELECT " +
      "group_concat(hex(body)) FROM t WHERE n % 1000 = 1) FROM t";
    const before = (await node.sql([print])).value;
    const next = await node.again(true);
    expect((await next.sql([print])).value).toEqual(before);
    expect(JSON.stringify((await next.sql(["PRAGMA integrity_check"])).value)).toContain("ok");
  });

  test(
    "F26: under a reader that does not end the log grows to its bound; then writes are shed",
    { timeout: 600_000 },
    async () => {
      const time = new VirtualTime();
      const node = start(time);
      await node.put("first");
      const reader = new Connection(getFilePath(node), { readonly: true, pageCacheKiB: 256 });
      reader.run("BEGIN");
      reader.all("SELECT key FROM __service_kv");
      const valueBytes = 1024 * 1024;
      let writes = 0;
      const write = async (): Promise<string> => {
        const value = Buffer.alloc(valueBytes, ++writes);
        const answer = node.client.write(node.at("main"), "kv.put", { ns: "big", key: "k", value }, node.soon());
        return time.of(answer, 2_000).then(
          () => "done",
          (error: { code?: string }) => error.code ?? String(error),
        );
      };
      const outcomes: string[] = [];
      while (outcomes.at(-1) !== "overloaded" && outcomes.length < 1_000) outcomes.push(await write());
      expect(new Set(outcomes)).toEqual(new Set(["done", "overloaded"]));
      const log = `${getFilePath(node)}-wal`;
      expect(statSync(log).size).toBeGreaterThan(walBytesMax);
      expect(statSync(log).size).toBeLessThan(walBytesMax + 8 * valueBytes);
      expect(await write()).toBe("overloaded");
      expect(await node.keys()).toEqual(["first"]);
      reader.close();
      await time.pass(2_000);
      expect(await write()).toBe("done");
      await time.pass(2_000);
      expect(statSync(log).size).toBeLessThan(walCheckpointBytes);
    },
  );
});
