/**
 * The failure matrix of the local side: what can befall a branch's file, the room that a node has, and the manifest it
 * follows.
 */
import {
  closeSync,
  cpSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
  writeSync,
} from "node:fs";
import { dirname, join } from "node:path";
import { describe, expect, test } from "vitest";
import { createFile, emptyDatabase } from "../../src/engine/local/database-files.ts";
import { listQuarantine } from "../../src/engine/local/quarantine.ts";
import { manifestKey } from "../../src/format/keys/object-keys.ts";
import { pageBytes } from "../../src/format/history/pages.ts";
import { realDisk, type Disk } from "../../src/base/disk.ts";
import { realWorld } from "../../src/base/world.ts";
import { MemoryStore } from "../../src/store/memory-store.ts";
import { openInlineEngine, uuidOf } from "../support/inline-engine.ts";
import {
  allowAll,
  getFilePath,
  keysInStore,
  listKeys,
  kill,
  meddle,
  putAll,
  reborn,
  refusePuts,
  start,
  withUnshipped,
} from "../support/mortal-node.ts";
import { temporaryDirectory } from "../support/temporary.ts";
import { VirtualTime } from "../support/timed-engine.ts";

/** Open descriptors of this process. */
function descriptors(): number {
  return readdirSync("/proc/self/fd").length;
}

describe("the file", () => {
  test.skipIf(process.env["PALIMPSEST_LONG"] !== "1")(
    "F15: a database that grows across the lock page at 1 GiB is restored whole elsewhere",
    { timeout: 1_800_000 },
    async () => {
      const time = new VirtualTime();
      const node = start(time);
      await node.sql(["CREATE TABLE t (n INTEGER PRIMARY KEY, body BLOB)"]);
      const row = 3 * 1024 * 1024;
      for (let n = 0; statSync(getFilePath(node)).size < 262_200 * pageBytes; n += 4) {
        await node.sql(
          [0, 1, 2, 3].map(
            (step) =>
              `INSERT INTO t VALUES (${n + step}, CAST(printf('%.*c', ${row}, char(${97 + ((n + step) % 26)})) ` +
              "AS BLOB))",
          ),
        );
        await node.sync();
      }
      const print = "SELECT count(*), sum(length(body)), sum(unicode(CAST(substr(body, -1) AS TEXT))) FROM t";
      const before = (await node.sql([print])).value;
      const next = await node.again(true);
      expect((await next.sql([print])).value).toEqual(before);
      expect(statSync(getFilePath(next)).size).toBeGreaterThan(262_145 * pageBytes);
      meddle(getFilePath(next), (database) => expect(database.pragma("quick_check", { simple: true })).toBe("ok"));
    },
  );

  test("F21: an older copy of it is rolled forward, and nothing of it is shipped", async () => {
    const time = new VirtualTime();
    const node = start(time);
    await putAll(node, listKeys(1, 3));
    // A copy with a log that holds what is not shipped yet, as a snapshot of the machine would have it.
    const old = temporaryDirectory();
    cpSync(node.directory, old, { recursive: true });
    await node.sync();
    await putAll(node, listKeys(4, 6));
    await node.close();
    const { txid, epoch, refs } = time.manifest(node.uuid);
    const next = start(time, {}, old);
    expect(await next.keys()).toEqual(listKeys(1, 6));
    await time.pass(5_000);
    expect(time.manifest(node.uuid)).toMatchObject({ txid, epoch, refs });
    expect((await next.put("k7")).txid).toBeGreaterThan(6);
    await next.sync();
    expect(await keysInStore(time)).toEqual(listKeys(1, 7));
  });

  test("F23: ahead of a manifest that another node claimed, it is set aside whole and never shipped", async () => {
    const time = new VirtualTime();
    const node = await withUnshipped(time);
    kill(node);
    allowAll(time.store);
    const other = start(time, { nodeId: "other" });
    const taken = await other.put("taken", "main", { durable: true });
    await other.close();
    const back = start(time, {}, node.directory);
    expect(await back.keys()).toEqual([...listKeys(1, 3), "taken"]);
    expect(back.notices.join("\n")).toContain("set aside under quarantine/");
    await expect(
      time.of(back.client.read(back.at("main"), "kv.list", { ns: "n" }, back.soon({ minTxid: 8 }))),
    ).rejects.toMatchObject({ code: "conflict" });
    expect((await back.put("k9", "main", { durable: true })).txid).toBeGreaterThan(taken.txid);
    expect(await keysInStore(time)).toEqual([...listKeys(1, 3), "k9", "taken"]);
    const folder = join(node.directory, "quarantine", node.uuid);
    const kept = readdirSync(folder).find((name) => name.endsWith(".db"))!;
    meddle(join(folder, kept), (database) => {
      expect(database.prepare("SELECT key FROM __service_kv ORDER BY key").pluck().all()).toEqual(listKeys(1, 8));
    });
  });

  test("F20: the folder of a restored file is on disk before anything is answered from it", async () => {
    const [directory, store] = [temporaryDirectory(), new MemoryStore()];
    const target = { uuid: uuidOf(1), branch: "main" };
    const first = openInlineEngine(temporaryDirectory(), { store });
    await first.client.write(
      target,
      "kv.put",
      { ns: "n", key: "k", value: Buffer.from("v") },
      { ...first.soon(), durable: true },
    );
    await first.client.close();
    const synced: string[] = [];
    const disk: Disk = {
      ...realDisk,
      syncDirectory: async (path) => {
        await realDisk.syncDirectory(path);
        synced.push(`${path} with ${readdirSync(path).sort().join()}`);
      },
    };
    const next = openInlineEngine(directory, { store, disk, options: { nodeId: "next" } });
    await next.client.read(target, "kv.get", { ns: "n", key: "k" }, next.soon());
    const folder = join(directory, "db");
    expect(synced).toContain(`${folder} with ${target.uuid}`);
    expect(synced.some((entry) => entry.startsWith(`${join(folder, target.uuid)} with main.db,`))).toBe(true);
    await next.client.close();
  });

  test("F17: a first file that an earlier build left cut on a full disk is set aside and made anew", async () => {
    const time = new VirtualTime();
    const node = start(time);
    const empty = emptyDatabase(temporaryDirectory(), realWorld());
    mkdirSync(dirname(getFilePath(node)), { recursive: true });
    writeFileSync(getFilePath(node), empty.subarray(0, 61_440));
    await putAll(node, listKeys(1, 3));
    expect(await node.keys()).toEqual(listKeys(1, 3));
    expect(
      readFileSync(
        join(node.directory, "quarantine", node.uuid, readdirSync(join(node.directory, "quarantine", node.uuid))[0]!),
      ),
    ).toEqual(Buffer.from(empty.subarray(0, 61_440)));
    expect(node.notices.join("\n")).toContain("set aside under quarantine/");
  });

  test("F17: a first file is written whole however little the disk takes at a time, or not at all", async () => {
    const directory = temporaryDirectory();
    const path = join(directory, "db", uuidOf(1), "main.db");
    const empty = emptyDatabase(temporaryDirectory(), realWorld());
    let room = 61_440;
    const small: Disk = {
      ...realDisk,
      write: (descriptor, name, bytes, position) => {
        if (room === 0) throw Object.assign(new Error("no room"), { code: "ENOSPC" });
        const written = realDisk.write(descriptor, name, bytes.subarray(0, Math.min(room, 10_000)), position);
        room -= written;
        return written;
      },
    };
    await expect(createFile(path, empty, small, realWorld())).rejects.toMatchObject({ code: "ENOSPC" });
    expect(readdirSync(dirname(path))).toEqual([]);
    room = Infinity;
    await createFile(path, empty, small, realWorld());
    expect(readFileSync(path)).toEqual(Buffer.from(empty));
  });

  test("a file that is no database is set aside, and the state comes from object storage", async () => {
    const time = new VirtualTime();
    const node = start(time);
    await putAll(node, listKeys(1, 3));
    await node.close();
    const descriptor = openSync(getFilePath(node), "r+");
    writeSync(descriptor, Buffer.alloc(100, 7), 0, 100, 0);
    closeSync(descriptor);
    const next = start(time, {}, node.directory);
    expect(await next.keys()).toEqual(listKeys(1, 3));
    expect(listQuarantine(node.directory)).toMatchObject([
      { uuid: node.uuid, label: { branchId: "main", why: expect.stringContaining("not a database") } },
    ]);
  });
});

describe("room", () => {
  test("F18: while object storage is away, writes go on to the bound, then are shed; none is lost", async () => {
    const time = new VirtualTime();
    const node = start(time, { unshippedMsMax: 60_000 });
    await putAll(node, listKeys(1, 3));
    await node.sync();
    refusePuts(time.store);
    await putAll(node, listKeys(4, 8));
    await time.pass(61_000);
    await expect(node.put("shed")).rejects.toMatchObject({
      code: "overloaded",
      detail: { retryAfterSecs: expect.any(Number) },
    });
    expect(await node.keys()).toEqual(listKeys(1, 8));
    allowAll(time.store);
    await time.pass(20_000);
    await node.put("k9", "main", { durable: true });
    expect(await keysInStore(time)).toEqual(listKeys(1, 9));
  });

  test("F28: with few handles and much not shipped, eviction ships before it closes; all are served", async () => {
    const time = new VirtualTime();
    const node = start(time, { hotHandlesMax: 3 });
    const write = (index: number): Promise<{ txid: number }> =>
      node.client.write(
        { uuid: uuidOf(index), branch: "main" },
        "kv.put",
        { ns: "n", key: "k", value: Buffer.from(String(index)) },
        node.soon(),
      );
    const count = descriptors();
    await time.of(Promise.all(Array.from({ length: 24 }, (_, index) => write(index))));
    expect(node.engine.counters.opened - node.engine.counters.evicted).toBeLessThanOrEqual(3);
    // Five descriptors for each open handle at most.
    expect(descriptors() - count).toBeLessThanOrEqual(3 * 5);
    for (let index = 0; index < 24; index++) {
      const { value } = await time.of(
        node.client.read({ uuid: uuidOf(index), branch: "main" }, "kv.get", { ns: "n", key: "k" }, node.soon()),
      );
      expect(Buffer.from(value!.value).toString()).toBe(String(index));
    }
    await node.close();
    expect(descriptors()).toBeLessThanOrEqual(count);
  });

  test("F28: when none can be closed, with object storage away, the next database is refused in time", async () => {
    const time = new VirtualTime();
    const node = start(time, { hotHandlesMax: 1 });
    await node.put("k1");
    refusePuts(time.store);
    await node.put("k2");
    const other = { uuid: uuidOf(2), branch: "main" };
    const read = (): Promise<unknown> => time.of(node.client.read(other, "kv.list", { ns: "n" }, node.soon()));
    await expect(read()).rejects.toMatchObject({ code: "overloaded" });
    allowAll(time.store);
    await time.pass(10_000);
    await read();
  });
});

describe("the manifest", () => {
  test.each(["with its file", "without its file"])(
    "F39: when it was deleted, a restarted node %s refuses; it is never taken for an empty database",
    async (which) => {
      const time = new VirtualTime();
      const node = start(time);
      await putAll(node, listKeys(1, 3));
      await node.close();
      const key = manifestKey(node.uuid, "main");
      const bytes = time.store.read(key)!.bytes;
      time.store.spoil(key, () => undefined);
      if (which === "without its file") rmSync(join(node.directory, "db", node.uuid), { recursive: true });
      const next = start(time, {}, node.directory);
      await expect(next.keys()).rejects.toMatchObject({ code: "unavailable" });
      await expect(next.put("k4")).rejects.toMatchObject({ code: "unavailable" });
      expect(next.notices.join("\n")).toContain("manifest is missing");
      expect(time.store.read(key)).toBeUndefined();
      // Put back, everything is there again.
      await time.of(time.store.put(key, bytes, { kind: "absent" }));
      expect(await next.keys()).toEqual(listKeys(1, 3));
    },
  );

  test("F40: put back to an older version, it stops its writer, says so, and is not written over", async () => {
    const time = new VirtualTime();
    const node = start(time);
    await putAll(node, listKeys(1, 3));
    await node.sync();
    const key = manifestKey(node.uuid, "main");
    const old = time.store.read(key)!.bytes;
    await putAll(node, listKeys(4, 6));
    await node.sync();
    const newest = time.store.read(key)!.bytes;
    time.store.spoil(key, () => old);
    await expect(node.put("k7", "main", { durable: true })).rejects.toMatchObject({ code: "unavailable" });
    expect(node.notices.join("\n")).toMatch(/claimed the branch|older/);
    await time.pass(10_000);
    expect(time.store.read(key)!.bytes).toEqual(old);
    await expect(node.put("k8", "main", { durable: true })).rejects.toMatchObject({ code: "unavailable" });
    // Started anew, the node remembers that it has seen a newer one: it refuses, and its file stays as it is.
    const next = reborn(node, time);
    await expect(next.keys()).rejects.toMatchObject({
      code: "unavailable",
      message: expect.stringContaining("put back"),
    });
    await expect(next.put("k9")).rejects.toMatchObject({ code: "unavailable" });
    expect(next.notices.join("\n")).toContain("--accept-rollback");
    expect(listQuarantine(next.directory)).toEqual([]);
    // With the newest one put in its place again, all is there, also what was never shipped.
    time.store.spoil(key, () => newest);
    expect(await next.keys()).toEqual(expect.arrayContaining(listKeys(1, 6)));
    await next.put("k10", "main", { durable: true });
    expect(await keysInStore(time)).toEqual(expect.arrayContaining([...listKeys(1, 6), "k10"]));
  });
});
