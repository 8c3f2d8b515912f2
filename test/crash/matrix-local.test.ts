/** The failure matrix of the local side, one engine at a time: its log, its file, its head, and what others did to them. */
import { cpSync, existsSync, openSync, closeSync, readdirSync, readSync, rmSync, statSync, writeSync } from "node:fs";
import { join } from "node:path";
import Sqlite from "better-sqlite3";
import { describe, expect, test } from "vitest";
import { headKey } from "../../src/format/object-keys.ts";
import { pageBytes } from "../../src/format/pages.ts";
import type { ScriptedStore } from "../support/scripted-store.ts";
import { temporaryDirectory } from "../support/temporary.ts";
import { uuidOf } from "../support/inline-engine.ts";
import { TimedEngine, VirtualTime } from "../support/timed-engine.ts";

const keysOf = (from: number, to: number): string[] => Array.from({ length: to - from + 1 }, (_, index) => `k${from + index}`);

function fileOf(node: TimedEngine): string {
  return join(node.directory, "db", node.uuid, "main.db");
}

/** Nothing is put any more, and everything else is answered. */
function refusePuts(store: ScriptedStore): void {
  store.fateOf = (verb) => (verb === "put" ? "refused" : "fine");
}

function allowAll(store: ScriptedStore): void {
  store.fateOf = () => "fine";
}

async function putAll(node: TimedEngine, keys: readonly string[]): Promise<number> {
  let txid = 0;
  for (const key of keys) ({ txid } = await node.put(key));
  return txid;
}

/** A node whose log holds groups that object storage lacks: k1 to k3 are shipped, k4 to k8 are not. */
async function withUnshipped(time: VirtualTime, options: ConstructorParameters<typeof TimedEngine>[1] = {}): Promise<TimedEngine> {
  const node = new TimedEngine(time, options);
  await putAll(node, keysOf(1, 3));
  await node.sync();
  refusePuts(time.store);
  await putAll(node, keysOf(4, 8));
  return node;
}

/** What a node with nothing of its own finds in object storage. */
async function keysInStore(time: VirtualTime): Promise<readonly string[]> {
  const other = new TimedEngine(time, { nodeId: "onlooker" });
  const keys = await other.keys();
  const sound = await other.sql(["PRAGMA integrity_check"]);
  expect(JSON.stringify(sound.value)).toContain("ok");
  other.kill();
  return keys;
}

/** Open descriptors of this process. */
function descriptors(): number {
  return readdirSync("/proc/self/fd").length;
}

/** The node's process dies; another one starts on a copy of its directory as it is. */
function reborn(node: TimedEngine, time: VirtualTime, options: ConstructorParameters<typeof TimedEngine>[1] = {}): TimedEngine {
  const directory = temporaryDirectory();
  cpSync(node.directory, directory, { recursive: true });
  node.kill();
  return new TimedEngine(time, options, directory);
}

/** Opens the file with a plain SQLite, as an operator's tool would. */
function meddle(path: string, act: (database: Sqlite.Database) => void): void {
  const database = new Sqlite(path);
  act(database);
  database.close();
}

describe("a killed node", () => {
  test("F02, F22: what was committed and not shipped is in the log, and is shipped by the next process under a new claim", async () => {
    const time = new VirtualTime();
    const node = await withUnshipped(time);
    const { epoch } = time.head(node.uuid);
    const next = reborn(node, time);
    expect(await next.keys()).toEqual(keysOf(1, 8));
    allowAll(time.store);
    expect((await next.put("k9", "main", { durable: true })).txid).toBe(9);
    expect(time.head(node.uuid)).toMatchObject({ txid: 9, epoch: epoch + 1, lost: [] });
    expect(await keysInStore(time)).toEqual(keysOf(1, 9));
  });

  test("F02: what the log held is shipped even when nobody asks", async () => {
    const time = new VirtualTime();
    const node = await withUnshipped(time);
    allowAll(time.store);
    reborn(node, time);
    await time.pass(5_000);
    expect(time.head(node.uuid).txid).toBe(8);
  });

  test("F22: it may die between each claim and the first commit under it, as often as it likes", async () => {
    const time = new VirtualTime();
    let node = await withUnshipped(time);
    for (let life = 0; life < 3; life++) {
      node = reborn(node, time);
      await node.keys();
      // Only the claim goes through.
      let claims = 0;
      time.store.fateOf = (verb, key) => (verb === "put" && (!key.includes("/head/") || claims++ > 0) ? "refused" : "fine");
      const writing = node.putting("never").catch(() => {});
      await time.pass(50 * (life % 2));
      void writing;
      refusePuts(time.store);
    }
    allowAll(time.store);
    const last = reborn(node, time);
    expect((await last.keys()).filter((key) => key !== "never")).toEqual(keysOf(1, 8));
    await last.sync();
    expect((await keysInStore(time)).filter((key) => key !== "never")).toEqual(keysOf(1, 8));
  });

  test("F05: an ingest whose answer was lost finds itself again", async () => {
    const time = new VirtualTime();
    const node = new TimedEngine(time);
    const ingest = (engine: TimedEngine): Promise<any> =>
      time.of(engine.client.write(engine.at("main"), "memory.ingest", { memories: [{ type: "fact", topicKey: "t", summary: "said once", content: "null" }] }, engine.soon({ durable: true })));
    const first = await ingest(node);
    const next = reborn(node, time);
    const again = await ingest(next);
    expect(again.value.results[0]).toMatchObject({ id: first.value.results[0].id, status: "duplicate" });
  });
});

describe("the log", () => {
  test("F07: a bit that rots in what is not shipped ends the shipping before it, says so, and gives its ids to nobody else", async () => {
    const time = new VirtualTime();
    const node = await withUnshipped(time);
    const path = `${fileOf(node)}-wal`;
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
    expect(keysOf(1, 8).slice(0, kept.length)).toEqual(kept);
    expect(kept.length).toBeGreaterThanOrEqual(3);
    expect(kept.length).toBeLessThan(8);
    const { txid } = await node.put("after", "main", { durable: true });
    expect(txid).toBeGreaterThan(8);
    await expect(time.of(node.client.read(node.at("main"), "kv.list", { ns: "n" }, node.soon({ minTxid: 8 })))).rejects.toMatchObject({ code: "conflict" });
    expect(await keysInStore(time)).toEqual(["after", ...kept]);
  });

  test.each(["while the node runs", "while it is down"])("F10: a foreign checkpoint that cuts off what is not shipped, %s, loses nothing: the difference is shipped", async (when) => {
    const time = new VirtualTime();
    let node = await withUnshipped(time);
    if (when === "while it is down") node.kill();
    meddle(fileOf(node), (database) => database.pragma("wal_checkpoint(TRUNCATE)"));
    if (when === "while it is down") node = reborn(node, time);
    allowAll(time.store);
    await time.pass(20_000);
    expect(await node.keys()).toEqual(keysOf(1, 8));
    await node.put("k9", "main", { durable: true });
    expect(node.notices.join("\n")).toContain("groups are missing from the log");
    expect(await keysInStore(time)).toEqual(keysOf(1, 9));
  });

  test("F11: our own close leaves the log when it holds what is not shipped", async () => {
    const time = new VirtualTime();
    const node = await withUnshipped(time);
    await node.close();
    expect(statSync(`${fileOf(node)}-wal`).size).toBeGreaterThan(0);
    allowAll(time.store);
    const next = new TimedEngine(time, {}, node.directory);
    await time.pass(5_000);
    expect(time.head(next.uuid)).toMatchObject({ txid: 8, lost: [] });
  });

  test("F11: a log that somebody's last close has deleted is made good from the file", async () => {
    const time = new VirtualTime();
    const node = await withUnshipped(time);
    const directory = temporaryDirectory();
    cpSync(node.directory, directory, { recursive: true });
    node.kill();
    const path = join(directory, "db", node.uuid, "main.db");
    meddle(path, (database) => database.prepare("SELECT count(*) FROM sqlite_schema").get());
    expect(existsSync(`${path}-wal`)).toBe(false);
    allowAll(time.store);
    const next = new TimedEngine(time, {}, directory);
    expect(await next.keys()).toEqual(keysOf(1, 8));
    await next.sync();
    expect(time.head(next.uuid)).toMatchObject({ txid: 8, lost: [{ firstTxid: 4, lastTxid: 7 }] });
    expect(await keysInStore(time)).toEqual(keysOf(1, 8));
  });

  test("F13: a transaction far beyond the page cache, which rewrote its own pages in the log, is restored as it ended", async () => {
    const time = new VirtualTime();
    const node = new TimedEngine(time);
    await node.sql(["CREATE TABLE t (n INTEGER PRIMARY KEY, body BLOB)"]);
    await node.sql([
      "INSERT INTO t SELECT value, randomblob(4000) FROM (WITH RECURSIVE c (value) AS (SELECT 1 UNION ALL SELECT value + 1 FROM c WHERE value < 6000) SELECT value FROM c)",
      "UPDATE t SET body = randomblob(4000) WHERE n % 3 = 0",
      "DELETE FROM t WHERE n % 5 = 0",
      "UPDATE t SET body = randomblob(100) WHERE n % 7 = 0",
    ]);
    await node.sync();
    const print = "SELECT count(*), sum(length(body)), sum(instr(hex(substr(body, 1, 50)), 'A')), (SELECT group_concat(hex(body)) FROM t WHERE n % 1000 = 1) FROM t";
    const before = (await node.sql([print])).value;
    const next = await node.again(true);
    expect((await next.sql([print])).value).toEqual(before);
    expect(JSON.stringify((await next.sql(["PRAGMA integrity_check"])).value)).toContain("ok");
  });
});

describe("the file", () => {
  test("F21: an older copy of it is rolled forward, and nothing of it is shipped", async () => {
    const time = new VirtualTime();
    const node = new TimedEngine(time);
    await putAll(node, keysOf(1, 3));
    // A copy with a log that holds what is not shipped yet, as a snapshot of the machine would have it.
    const old = temporaryDirectory();
    cpSync(node.directory, old, { recursive: true });
    await node.sync();
    await putAll(node, keysOf(4, 6));
    await node.close();
    const { txid, epoch, refs } = time.head(node.uuid);
    const next = new TimedEngine(time, {}, old);
    expect(await next.keys()).toEqual(keysOf(1, 6));
    await time.pass(5_000);
    expect(time.head(node.uuid)).toMatchObject({ txid, epoch, refs });
    expect((await next.put("k7")).txid).toBeGreaterThan(6);
    await next.sync();
    expect(await keysInStore(time)).toEqual(keysOf(1, 7));
  });

  test("F23: ahead of a head that another node has claimed, it is set aside whole, reported, and never shipped", async () => {
    const time = new VirtualTime();
    const node = await withUnshipped(time);
    node.kill();
    allowAll(time.store);
    const other = new TimedEngine(time, { nodeId: "other" });
    const taken = await other.put("taken", "main", { durable: true });
    await other.close();
    const back = new TimedEngine(time, {}, node.directory);
    expect(await back.keys()).toEqual([...keysOf(1, 3), "taken"]);
    expect(back.notices.join("\n")).toContain("set aside under quarantine/");
    await expect(time.of(back.client.read(back.at("main"), "kv.list", { ns: "n" }, back.soon({ minTxid: 8 })))).rejects.toMatchObject({ code: "conflict" });
    expect((await back.put("k9", "main", { durable: true })).txid).toBeGreaterThan(taken.txid);
    expect(await keysInStore(time)).toEqual([...keysOf(1, 3), "k9", "taken"]);
    const folder = join(node.directory, "quarantine", node.uuid);
    const kept = readdirSync(folder).find((name) => name.endsWith(".db"))!;
    meddle(join(folder, kept), (database) => {
      expect(database.prepare("SELECT key FROM __service_kv ORDER BY key").pluck().all()).toEqual(keysOf(1, 8));
    });
  });

  test("a file that is no database is set aside, and the state comes from object storage", async () => {
    const time = new VirtualTime();
    const node = new TimedEngine(time);
    await putAll(node, keysOf(1, 3));
    await node.close();
    const descriptor = openSync(fileOf(node), "r+");
    writeSync(descriptor, Buffer.alloc(100, 7), 0, 100, 0);
    closeSync(descriptor);
    const next = new TimedEngine(time, {}, node.directory);
    expect(await next.keys()).toEqual(keysOf(1, 3));
    expect(readdirSync(join(node.directory, "quarantine", node.uuid))).toHaveLength(1);
  });
});

describe("room", () => {
  test("F18: while object storage is away, writes go on to the bound, are then shed, and nothing of them is lost", async () => {
    const time = new VirtualTime();
    const node = new TimedEngine(time, { unshippedMsMax: 60_000 });
    await putAll(node, keysOf(1, 3));
    await node.sync();
    refusePuts(time.store);
    await putAll(node, keysOf(4, 8));
    await time.pass(61_000);
    await expect(node.put("shed")).rejects.toMatchObject({ code: "overloaded", detail: { retryAfterSecs: expect.any(Number) } });
    expect(await node.keys()).toEqual(keysOf(1, 8));
    allowAll(time.store);
    await time.pass(20_000);
    await node.put("k9", "main", { durable: true });
    expect(await keysInStore(time)).toEqual(keysOf(1, 9));
  });

  test("F28: with few handles and much that is not shipped, eviction ships before it closes, and everybody is served", async () => {
    const time = new VirtualTime();
    const node = new TimedEngine(time, { hotHandlesMax: 3 });
    const write = (index: number): Promise<{ txid: number }> =>
      node.client.write({ uuid: uuidOf(index), branch: "main" }, "kv.put", { ns: "n", key: "k", value: Buffer.from(String(index)) }, node.soon());
    const count = descriptors();
    await time.of(Promise.all(Array.from({ length: 24 }, (_, index) => write(index))));
    expect(node.engine.counters.opened - node.engine.counters.evicted).toBeLessThanOrEqual(3);
    // Five descriptors for each open handle at most.
    expect(descriptors() - count).toBeLessThanOrEqual(3 * 5);
    for (let index = 0; index < 24; index++) {
      const { value } = await time.of(node.client.read({ uuid: uuidOf(index), branch: "main" }, "kv.get", { ns: "n", key: "k" }, node.soon()));
      expect(Buffer.from(value!.value).toString()).toBe(String(index));
    }
    await node.close();
    expect(descriptors()).toBeLessThanOrEqual(count);
  });

  test("F28: when none of them can be closed because object storage is away, the next database is refused in good time", async () => {
    const time = new VirtualTime();
    const node = new TimedEngine(time, { hotHandlesMax: 1 });
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

describe("the head", () => {
  test.each(["with its file", "without its file"])("F39: when it was deleted, a restarted node %s refuses; it is never taken for an empty database", async (which) => {
    const time = new VirtualTime();
    const node = new TimedEngine(time);
    await putAll(node, keysOf(1, 3));
    await node.close();
    const key = headKey(node.uuid, "main");
    const bytes = time.store.read(key)!.bytes;
    time.store.spoil(key, () => undefined);
    if (which === "without its file") rmSync(join(node.directory, "db", node.uuid), { recursive: true });
    const next = new TimedEngine(time, {}, node.directory);
    await expect(next.keys()).rejects.toMatchObject({ code: "unavailable" });
    await expect(next.put("k4")).rejects.toMatchObject({ code: "unavailable" });
    expect(next.notices.join("\n")).toContain("head is missing");
    expect(time.store.read(key)).toBeUndefined();
    // Put back, everything is there again.
    await time.of(time.store.put(key, bytes, { kind: "absent" }));
    expect(await next.keys()).toEqual(keysOf(1, 3));
  });

  test("F40: when it was put back to an older version, its writer stops and says so, and nothing is written over it", async () => {
    const time = new VirtualTime();
    const node = new TimedEngine(time);
    await putAll(node, keysOf(1, 3));
    await node.sync();
    const key = headKey(node.uuid, "main");
    const old = time.store.read(key)!.bytes;
    await putAll(node, keysOf(4, 6));
    await node.sync();
    time.store.spoil(key, () => old);
    await expect(node.put("k7", "main", { durable: true })).rejects.toMatchObject({ code: "unavailable" });
    expect(node.notices.join("\n")).toMatch(/claimed the branch|older/);
    await time.pass(10_000);
    expect(time.store.read(key)!.bytes).toEqual(old);
    await expect(node.put("k8", "main", { durable: true })).rejects.toMatchObject({ code: "unavailable" });
  });
});
