/** No transaction writes more than it may, whoever asks for it; what it may is shipped and comes back byte for byte. */
import { readFileSync, rmSync, statSync } from "node:fs";
import { join } from "node:path";
import { afterEach, describe, expect, onTestFinished, test } from "vitest";
import { realDisk } from "../../../../src/base/disk.ts";
import { StoreError } from "../../../../src/base/faults/errors.ts";
import { limits } from "../../../../src/base/limits.ts";
import { realWorld } from "../../../../src/base/world.ts";
import { segmentWorker } from "../../../../src/engine/threads/thread-spawner.ts";
import type { SegmentMaker } from "../../../../src/engine/segments/segment-maker.ts";
import { ThreadedMaker } from "../../../../src/engine/segments/threaded-maker.ts";
import { makeCanonical, pageBytes } from "../../../../src/format/history/pages.ts";
import { threadedPress } from "../../../../src/format/core/compression.ts";
import { computeSha256 } from "../../../../src/format/core/seal.ts";
import { readState, writeState } from "../../../../src/model/schema.ts";
import { Connection } from "../../../../src/sqlite/connection/connection.ts";
import { runAlone } from "../../../../src/sqlite/group.ts";
import { WalFile } from "../../../../src/sqlite/wal/wal.ts";
import { MemoryStore } from "../../../../src/store/memory-store.ts";
import type { ObjectStore } from "../../../../src/store/port/object-store.ts";
import { openInlineEngine, uuidOf, type InlineEngine } from "../../../support/inline-engine.ts";
import { MortalSql } from "../../../support/mortal-sql.ts";
import { temporaryDirectory } from "../../../support/temporary.ts";
import { TimedEngine, VirtualTime } from "../../../support/timed-engine.ts";
import { walCheckpointBytes } from "../../../../src/server/node/open-engine.ts";
import { logSpareSteps } from "../../../../src/engine/database/wal-checkpointer.ts";

const MiB = 2 ** 20;
const target = { uuid: uuidOf(1), branch: "main" };
const other = { uuid: uuidOf(2), branch: "main" };
/** What a bound is seen late by: a tick of the watcher at the speed of the page cache, and a busy machine. */
const lateBytes = 96 * MiB;

let open: InlineEngine | undefined;
afterEach(async () => open?.client.close());

function setup(given: { directory?: string; store?: ObjectStore; maker?: SegmentMaker } = {}) {
  const directory = given.directory ?? temporaryDirectory();
  // As a node runs it: user SQL in a process of its own.
  const processes = new MortalSql(directory, 1);
  onTestFinished(() => processes.close());
  const engine = (open = openInlineEngine(directory, { sql: processes, ...given }));
  const { client, soon } = engine;
  const sql = (texts: readonly string[], atomic = true) =>
    client.run(
      target,
      {
        kind: "sql-write",
        batch: { statements: texts.map((text) => ({ text, paramsJson: undefined })), atomic, mayWrite: true },
      },
      { ...soon(), bytes: 200 },
    );
  const put = (at: typeof target, key: string) =>
    client.write(at, "kv.put", { ns: "n", key, value: Buffer.from(key) }, soon());
  const databasePath = join(directory, "db", target.uuid, "main.db");
  return { ...engine, sql, put, databasePath, logBytes: () => statSync(`${databasePath}-wal`).size };
}

/** Inserts about so many MiB of what cannot be compressed. */
const insertNoise = (mib: number): string =>
  `WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < ${mib * 8}) INSERT INTO t(b) ` +
  "SELECT randomblob(131072) FROM c";
const tooMuch = { code: "invalid_request", message: expect.stringContaining(String(limits.transactionLogBytesMax)) };

describe("user SQL", () => {
  test(
    "a short statement that would write without end is stopped in time, and nothing of it stays",
    { timeout: 60_000 },
    async () => {
      const { sql, put, logBytes, client, soon } = setup();
      await sql(["CREATE TABLE t (n INTEGER PRIMARY KEY, b BLOB)"]);
      await put(other, "before");
      await client.run(target, { kind: "sync" }, soon());
      const rss = process.memoryUsage().rss;
      const startedMs = performance.now();
      let servedMs = Infinity;
      const served = put(other, "meanwhile").then(() => (servedMs = performance.now() - startedMs));
      const endless = sql([insertNoise(100_000)]);
      const behind = put(other, "behind").then(() => (servedMs = performance.now() - startedMs));
      await expect(endless).rejects.toMatchObject(tooMuch);
      await Promise.all([served, behind]);
      expect(servedMs).toBeLessThan(limits.sqlWriteBudgetMs);
      expect(process.memoryUsage().rss - rss).toBeLessThan(64 * MiB);
      expect(logBytes()).toBeLessThan(limits.transactionLogBytesMax + lateBytes);
      // The next round finds the file far longer than its log.
      await put(target, "after");
      await client.run(target, { kind: "sync" }, soon());
      await put(target, "and after that");
      expect(logBytes()).toBeLessThan(logSpareSteps * walCheckpointBytes);
      expect(await sql(["SELECT count(*) FROM t"])).toMatchObject({ value: [{ rowsJson: "[[0]]" }] });
    },
  );

  test("what changes old pages without making the database larger is bounded too", { timeout: 120_000 }, async () => {
    const { sql, logBytes, client, soon } = setup();
    await sql(["CREATE TABLE t (n INTEGER PRIMARY KEY, b BLOB)"]);
    for (let part = 0; part < 2; part++) {
      await sql([insertNoise(100)]);
      // The log is folded in when it is shipped, however busy the machine.
      await client.run(target, { kind: "sync" }, soon());
    }
    const sum = "SELECT count(*), max(hex(substr(b, 1, 8))) FROM t";
    const before = await sql([sum]);
    await expect(sql(["UPDATE t SET b = randomblob(131072)"])).rejects.toMatchObject(tooMuch);
    expect(await sql([sum])).toMatchObject({ value: before.value });
    expect(logBytes()).toBeLessThan(limits.transactionLogBytesMax + logSpareSteps * walCheckpointBytes + lateBytes);
  });

  test(
    "statements that have room each, but not together, are one transaction, which is refused",
    { timeout: 60_000 },
    async () => {
      const { sql } = setup();
      await sql(["CREATE TABLE t (n INTEGER PRIMARY KEY, b BLOB)"]);
      for (const atomic of [true, false])
        await expect(
          sql([insertNoise(90), insertNoise(90), "INSERT INTO t VALUES (1, 'x')"], atomic),
        ).rejects.toMatchObject(tooMuch);
      expect(await sql(["SELECT count(*) FROM t"])).toMatchObject({ value: [{ rowsJson: "[[0]]" }] });
    },
  );
});

describe("our own commands", () => {
  test(
    "an update of many documents is stopped while it runs, and only it: what waited with it is written",
    { timeout: 120_000 },
    async () => {
      const { client, soon, put, logBytes } = setup();
      const collection = "c";
      await client.write(
        target,
        "docs.insert",
        { collection, docs: Array.from({ length: 500 }, (_, n) => JSON.stringify({ n })) } as never,
        soon(),
      );
      await client.run(target, { kind: "sync" }, soon());
      const update = client.write(
        target,
        "docs.update",
        {
          collection,
          filter: "{}",
          update: JSON.stringify({ $set: { a: "x".repeat(512 * 1024) } }),
          multi: true,
        } as never,
        soon(),
      );
      const beside = put(target, "beside");
      await expect(update).rejects.toMatchObject(tooMuch);
      await beside;
      expect(logBytes()).toBeLessThan(2 * limits.transactionLogBytesMax);
      const found = await client.read(
        target,
        "docs.find",
        { collection, filter: '{"a":{"$exists":true}}' } as never,
        soon(),
      );
      expect(found.value).toEqual({ docs: [] });
    },
  );
});

test(
  "a store that is away does not let refused transactions make the log's file ever longer",
  { timeout: 60_000 },
  async () => {
    const time = new VirtualTime();
    const node = new TimedEngine(time, {});
    await node.sql(["CREATE TABLE t (n INTEGER PRIMARY KEY, b BLOB)"]);
    await node.sync();
    time.store.decideFate = (verb) => (verb === "put" ? "refused" : "fine");
    for (let round = 0; round < 6; round++) {
      await node.put(`k${round}`);
      await expect(node.sql([insertNoise(100_000)])).rejects.toMatchObject(tooMuch);
    }
    await node.put("last");
    expect(statSync(join(node.directory, "db", node.uuid, "main.db-wal")).size).toBeLessThan(
      limits.transactionLogBytesMax + lateBytes,
    );
    time.store.decideFate = () => "fine";
    await node.sync();
    expect(await (await node.again(true)).keys()).toHaveLength(7);
  },
);

describe("what a transaction may write", () => {
  /** The database's pages, without what no cell owns. */
  function hashPages(path: string): string {
    const file = readFileSync(path);
    for (let at = 0; at < file.length; at += pageBytes)
      makeCanonical(file.subarray(at, at + pageBytes), at / pageBytes + 1);
    return Buffer.from(computeSha256(file)).toString("hex");
  }

  test(
    "sixty MiB in one are shipped on the segments' thread and come back byte for byte",
    { timeout: 120_000 },
    async () => {
      const maker = new ThreadedMaker(threadedPress, segmentWorker);
      onTestFinished(() => maker.close());
      const directory = temporaryDirectory();
      const store = new MemoryStore(realWorld());
      const { client, soon, sql, databasePath } = setup({ directory, store, maker });
      await sql(["CREATE TABLE t (n INTEGER PRIMARY KEY, b BLOB)"]);
      await sql([insertNoise(60)]);
      await client.run(target, { kind: "sync" }, soon());
      await client.close();
      const before = hashPages(databasePath);
      rmSync(join(directory, "db"), { recursive: true });
      const again = setup({ directory, store });
      expect(await again.sql(["SELECT count(*), sum(length(b)) FROM t"])).toMatchObject({
        value: [{ rowsJson: `[[480,${480 * 131_072}]]` }],
      });
      await again.client.close();
      open = undefined;
      expect(hashPages(again.databasePath)).toBe(before);
    },
  );

  test(
    "an older build's log with a transaction above today's bound is shipped in bounded memory",
    { timeout: 180_000 },
    async () => {
      const directory = temporaryDirectory();
      const memory = new MemoryStore(realWorld());
      let isAway = false;
      const store: ObjectStore = {
        get: (key) => memory.get(key),
        put: (...given) => (isAway ? Promise.reject(new StoreError("unavailable", "away")) : memory.put(...given)),
        delete: (key) => memory.delete(key),
        list: (...given) => memory.list(...given),
        purgeVersions: () => memory.purgeVersions(),
      };
      const first = setup({ directory, store });
      await first.sql(["CREATE TABLE t (n INTEGER PRIMARY KEY, b BLOB)"]);
      await first.client.run(target, { kind: "sync" }, first.soon());
      const { databasePath } = first;
      // What it has reserved stays reserved, as after a crash.
      isAway = true;
      await first.client.close();
      isAway = false;
      // As the engine would: in the same writer epoch, the next transaction id.
      const connection = new Connection(databasePath, { readonly: false, pageCacheKiB: limits.pageCacheKiB });
      const { txid, writerEpochId, committedAtMs } = readState(connection);
      const mib = 300;
      // One part in ten is noise.
      runAlone(
        connection,
        () =>
          connection.run(
            `WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < ${mib}) INSERT INTO t(b) ` +
              "SELECT CAST(randomblob(100000) || zeroblob(948576) AS BLOB) FROM c",
          ),
        () => writeState(connection, { txid: txid + 1, committedAtMs, writerEpochId }),
      );
      new WalFile(databasePath, realDisk).closeKeeping(connection);
      expect(statSync(`${databasePath}-wal`).size).toBeGreaterThan(mib * MiB);
      const maker = new ThreadedMaker(threadedPress, segmentWorker);
      onTestFinished(() => maker.close());
      const rss = process.memoryUsage().rss;
      let most = rss;
      const looking = setInterval(() => (most = Math.max(most, process.memoryUsage().rss)), 5);
      const again = setup({ directory, store, maker });
      await again.client.run(target, { kind: "sync" }, again.soon());
      await again.put(target, "k");
      clearInterval(looking);
      await again.client.run(target, { kind: "sync" }, again.soon());
      // What is pressed is a tenth, and the store of the test keeps a copy; a thread more takes some 40 MiB.
      expect(most - rss).toBeLessThan(0.7 * mib * MiB);
      await again.client.close();
      rmSync(join(directory, "db"), { recursive: true });
      const restored = setup({ directory, store });
      expect(await restored.sql(["SELECT count(*) FROM t"])).toMatchObject({ value: [{ rowsJson: `[[${mib}]]` }] });
    },
  );
});
