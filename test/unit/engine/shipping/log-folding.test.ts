/** The log behind the shipping: when it is folded in and cut, and that this never waits for a store that is away. */
import { cpSync, statSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { limits } from "../../../../src/base/limits.ts";
import { Connection } from "../../../../src/sqlite/connection/connection.ts";
import { temporaryDirectory } from "../../../support/temporary.ts";
import { noise, TimedEngine } from "../../../support/timed-engine.ts";
import { startAudited } from "../../../support/audited-node.ts";

const KiB = 1024;
const MiB = 1024 * KiB;

/** So many writers at once, each with a write every 20 ms until so much time has passed; resolves when all are done. */
async function writeFor(node: TimedEngine, count: number, forMs: number, written: () => void): Promise<void> {
  const { scheduler } = node.time;
  const until = scheduler.nowMs + forMs;
  const writers = Array.from({ length: count }, async (_, writer) => {
    for (let n = 0; scheduler.nowMs < until; n++) {
      await node.putting(`k${writer}-${n}`, "main", {}, noise(8 * KiB, n));
      written();
      await scheduler.sleep(20);
    }
  });
  await Promise.all(writers);
}

const logBytes = (node: TimedEngine): number => statSync(join(node.directory, "db", node.uuid, "main.db-wal")).size;

describe("the log", () => {
  test("is folded in only once it is shipped", async () => {
    const { time, node } = startAudited({ logCheckpointBytes: 256 * KiB, unshippedBytesMax: 64 * MiB });
    await node.put("k", "main", { durable: true });
    time.store.decideFate = () => "refused";
    for (let n = 0; n < 40; n++) await node.time.of(node.putting(`k${n}`, "main", {}, noise(64 * KiB, n)));
    await time.pass(10_000);
    expect(logBytes(node)).toBeGreaterThan(2 * MiB);
    time.store.decideFate = () => "fine";
    await node.sync();
    expect(logBytes(node)).toBe(0);
    expect(await node.keys()).toHaveLength(41);
  });

  test("F08: that was folded in is written over; what it holds then outlives the process", async () => {
    const { time, node } = startAudited({ logCheckpointBytes: 256 * KiB });
    const lengths: number[] = [];
    for (let n = 0; n < 100; n++) {
      await node.time.of(node.putting(`k${n}`, "main", { durable: true }, noise(8 * KiB, n)));
      lengths.push(logBytes(node));
    }
    expect(lengths.toSorted((a, b) => a - b)).toEqual(lengths);
    expect(lengths.at(-1)).toBe(lengths[50]);
    expect(lengths.at(-1)).toBeLessThan(2 * 256 * KiB);
    time.store.decideFate = () => "refused";
    for (let n = 0; n < 3; n++) await node.put(`late${n}`);
    expect(logBytes(node)).toBe(lengths.at(-1));
    const left = temporaryDirectory();
    cpSync(node.directory, left, { recursive: true });
    node.kill();
    time.store.decideFate = () => "fine";
    const again = new TimedEngine(time, {}, left);
    expect(await again.keys()).toHaveLength(103);
    await again.sync();
    expect(await (await again.again(true)).keys()).toHaveLength(103);
  });

  test("of a node that ships nothing is folded in as well", async () => {
    const { node } = startAudited({ shipping: false, logCheckpointBytes: 64 * KiB });
    for (let n = 0; n < 100; n++) await node.put(`k${n}`);
    expect(logBytes(node)).toBeLessThan(3 * 64 * KiB);
  });

  test("of a large transaction that was rolled back takes no room", async () => {
    const { time, node } = startAudited({ logCheckpointBytes: 256 * KiB });
    await node.sql(["CREATE TABLE big (n INTEGER PRIMARY KEY, body TEXT)"]);
    await node.sync();
    const rows = Array.from({ length: 60 }, (_, n) => `INSERT INTO big VALUES (${n}, '${noise(200 * KiB, n)}')`);
    await expect(node.sql([...rows, "INSERT INTO big VALUES (1, 'twice')"])).rejects.toThrow();
    await time.pass(10);
    expect(logBytes(node)).toBe(0);
    // Beside a write that is committed, in one round.
    await time.pass(2 * limits.checkpointRetryMs);
    const statements = [...rows, "INSERT INTO big VALUES (1, 'twice')"].map((text) => ({
      text,
      paramsJson: undefined,
    }));
    const failing = node.client.sqlWrite(node.at("main"), { statements, atomic: true, mayWrite: true }, node.soon());
    const beside = node.putting("beside");
    const [failed, written] = await time.of(Promise.allSettled([failing, beside]));
    expect([failed.status, written.status]).toEqual(["rejected", "fulfilled"]);
    await node.sync();
    expect(logBytes(node)).toBe(0);
  });

  test("is cut now and then, though it is never too long", async () => {
    const { node } = startAudited({ logCheckpointBytes: 64 * KiB });
    let cuts = 0;
    for (let n = 0, before = 0; n < 400; n++) {
      await node.put(`k${n}`, "main", { durable: true });
      if (logBytes(node) < before) cuts++;
      before = logBytes(node);
    }
    expect(cuts).toBeGreaterThan(1);
    expect(cuts).toBeLessThan(10);
  });

  test("is folded in under constant load too", async () => {
    const { time, node } = startAudited({ logCheckpointBytes: 256 * KiB });
    await node.put("k", "main", { durable: true });
    // The store is slower than the writers: without a hold there would always be something that is not shipped.
    time.store.decideFate = () => ({ held: time.scheduler.sleep(40) });
    let most = 0;
    await time.of(writeFor(node, 8, 6_000, () => (most = Math.max(most, logBytes(node)))));
    expect(node.engine.counters.groups).toBeGreaterThan(300);
    expect(most).toBeLessThan(4 * MiB);
  });

  test("F33: writers that wait for a fold go on when the store goes away just then", async () => {
    const { time, node } = startAudited({ logCheckpointBytes: 64 * KiB, unshippedMsMax: 60_000 });
    await node.put("k", "main", { durable: true });
    let down = false;
    time.store.decideFate = () => (down ? "refused" : { held: time.scheduler.sleep(300) });
    let done = 0;
    const writing = writeFor(node, 4, 8_000, () => done++);
    await time.pass(2_000);
    down = true;
    await time.pass(1_000);
    const before = done;
    await time.pass(4_000);
    expect(done - before).toBeGreaterThan(100);
    await time.of(writing);
  });

  test("F33: a store that hangs holds writers up for a moment, not until it answers", async () => {
    const { time, node } = startAudited({ logCheckpointBytes: 64 * KiB, unshippedMsMax: 60_000 });
    await node.put("k", "main", { durable: true });
    let hangs = false;
    time.store.decideFate = () => ({ held: time.scheduler.sleep(hangs ? 25_000 : 50) });
    let done = 0;
    const writing = writeFor(node, 4, 15_000, () => done++);
    await time.pass(2_000);
    hangs = true;
    await time.pass(3_000);
    const before = done;
    await time.pass(9_000);
    expect(done - before).toBeGreaterThan(100);
    await time.of(writing);
  });

  test("that a reader kept from being cut is begun anew over old frames and shipped in time", async () => {
    const { time, node } = startAudited({ logCheckpointBytes: 256 * KiB });
    await node.put("k", "main", { durable: true });
    time.store.decideFate = () => "refused";
    for (let n = 0; n < 20; n++) await node.time.of(node.putting(`k${n}`, "main", {}, noise(16 * KiB, n)));
    const reader = new Connection(join(node.directory, "db", node.uuid, "main.db"), {
      readonly: true,
      pageCacheKiB: 512,
    });
    reader.run("BEGIN");
    reader.get("SELECT count(*) FROM __service_kv");
    time.store.decideFate = () => "fine";
    await node.sync();
    reader.run("COMMIT");
    reader.close();
    const before = logBytes(node);
    expect(before).toBeGreaterThan(0);
    for (let n = 0; n < 5; n++) {
      const { txid } = await node.put(`again${n}`);
      await time.pass(2 * limits.shipIntervalMs);
      expect(time.manifest(node.uuid).txid).toBe(txid);
    }
    expect(logBytes(node)).toBe(before);
  });
});
