/** From the log to object storage: when, in how many puts, and what happens while the store is away. */
import { describe, expect, test } from "vitest";
import { limits } from "../../../../src/base/limits.ts";
import { decodeManifest, encodeManifest } from "../../../../src/format/history/manifest.ts";
import { manifestKey, parsePoolId } from "../../../../src/format/keys/object-keys.ts";
import type { Fate } from "../../../support/scripted-store.ts";
import { noise, TimedEngine } from "../../../support/timed-engine.ts";
import { shipLogBytes } from "../../../../src/engine/shipping/shipper.ts";
import { startAudited } from "../../../support/audited-node.ts";

const KiB = 1024;
const MiB = 1024 * KiB;

describe("when groups are shipped", () => {
  test("a standard write is in object storage one interval after it, in one segment and one manifest", async () => {
    const { time, node } = startAudited();
    await node.put("first", "main", { durable: true });
    const before = { ...Object.fromEntries(time.store.counts) };
    await node.put("k");
    await time.pass(limits.shipIntervalMs / 2);
    expect(time.manifest(node.uuid).txid).toBe(1);
    await time.pass(limits.shipIntervalMs / 2 + 20);
    expect(time.manifest(node.uuid).txid).toBe(2);
    expect(time.store.count("put", "seg") - before["put seg"]!).toBe(1);
    expect(time.store.count("put", "head") - before["put head"]!).toBe(1);
    expect(time.store.violations).toEqual([]);
  });

  test("a log that grows fast is shipped before the interval is over", async () => {
    const { time, node } = startAudited();
    await node.put("first", "main", { durable: true });
    const startedMs = time.scheduler.nowMs;
    for (let n = 0; time.manifest(node.uuid).txid === 1; n++)
      await node.time.of(node.putting(`k${n}`, "main", {}, noise(128 * KiB, n)));
    expect(time.scheduler.nowMs - startedMs).toBeLessThan(limits.shipIntervalMs / 2);
    expect(time.manifest(node.uuid).refs.at(-1)!.rawBytes).toBeLessThan(2 * shipLogBytes);
  });

  test("a durable group costs at most 1.1 conditional puts, and the tail keeps its bounds", async () => {
    const { time, node } = startAudited();
    await node.put("first", "main", { durable: true });
    const before = time.store.count("put");
    const groups = node.engine.counters.groups;
    let spills = 0;
    for (let n = 0; n < 200; n++) {
      const { durableTxid, txid } = await time.of(node.putting(`key-${n}`, "main", { durable: true }, noise(KiB, n)));
      expect(durableTxid).toBeGreaterThanOrEqual(txid);
      const { tail } = time.manifest(node.uuid);
      if (tail.length === 0) spills++;
      expect(tail.length).toBeLessThanOrEqual(limits.tailSegmentsMax);
      expect(tail.reduce((sum, { bytes }) => sum + bytes.length, 0)).toBeLessThanOrEqual(limits.tailBytesMax);
    }
    expect(node.engine.counters.groups - groups).toBe(200);
    expect(spills).toBeGreaterThan(0);
    expect((time.store.count("put") - before) / 200).toBeLessThanOrEqual(1.1);
    expect(time.store.violations).toEqual([]);
    const again = await node.again(true);
    expect(await again.keys()).toHaveLength(201);
  });

  test("segments-01: the base once, then contiguous segments up to the manifest", async () => {
    const { time, node } = startAudited();
    for (let n = 0; n < 10; n++) {
      await node.put(`k${n}`);
      await time.pass(limits.shipIntervalMs + 20);
    }
    const { refs, txid, fromTxid } = time.manifest(node.uuid);
    expect(refs.map(({ kind }) => kind)).toEqual(["image", ...Array.from({ length: 10 }, () => "delta")]);
    expect(fromTxid).toBe(0);
    for (const [at, ref] of refs.entries()) if (at > 0) expect(ref.firstTxid).toBe(refs[at - 1]!.lastTxid + 1);
    expect(refs.at(-1)!.lastTxid).toBe(txid);
  });

  test("segments-03: the bytes put stay in proportion to the bytes changed", async () => {
    const { node } = startAudited();
    await node.put("first", "main", { durable: true });
    await node.sql([
      "CREATE TABLE big (body TEXT)",
      ...Array.from({ length: 30 }, (_, n) => `INSERT INTO big VALUES ('${noise(100 * KiB, n)}')`),
    ]);
    await node.sync();
    const before = node.engine.counters.bytesPut;
    for (let n = 0; n < 100; n++) {
      await node.put(`k${n}`);
      await node.sync();
    }
    // Three megabytes of database, a few pages changed each time.
    expect(node.engine.counters.bytesPut - before).toBeLessThan(100 * 48 * KiB);
  });

  test("a large transaction of user SQL is shipped in one segment, and is all there on an empty disk", async () => {
    const { time, node } = startAudited();
    await node.sql([
      "CREATE TABLE big (n INTEGER PRIMARY KEY, body TEXT)",
      ...Array.from({ length: 100 }, (_, n) => `INSERT INTO big VALUES (${n}, '${noise(200 * KiB, n)}')`),
    ]);
    await node.sync();
    expect(time.manifest(node.uuid).refs.filter(({ kind }) => kind === "delta")).toHaveLength(1);
    const again = await node.again(true);
    const { value } = await again.sql(["SELECT count(*), sum(length(body)) FROM big"]);
    expect((value as { rowsJson: string }[])[0]!.rowsJson).toBe(`[[100,${100 * 200 * KiB}]]`);
  });

  test("the reservation is extended long before it is used up", async () => {
    const { time, node } = startAudited();
    await node.put("k", "main", { durable: true });
    const { reservedTo } = time.manifest(node.uuid);
    expect(reservedTo).toBe(limits.txidReserve);
    for (let n = 0; n < 20; n++) await node.put(`k${n}`, "main", { durable: true });
    expect(time.manifest(node.uuid).reservedTo - time.manifest(node.uuid).txid).toBeGreaterThanOrEqual(
      limits.txidReserve / 2,
    );
  });

  test("what an earlier process has left is shipped without reserving more: no ids were given beyond", async () => {
    const { time, node } = startAudited();
    await node.put("k", "main", { durable: true });
    await node.put("on this disk only");
    node.kill();
    // As a writer leaves it whose last put, of all that a stop in order does, came through.
    time.store.spoil(manifestKey(node.uuid, "main"), (bytes) =>
      encodeManifest({ ...decodeManifest(bytes), reservedTo: 2 }),
    );
    const next = new TimedEngine(time, {}, node.directory);
    expect(await next.keys()).toHaveLength(2);
    await time.pass(10_000);
    expect(time.manifest(next.uuid)).toMatchObject({ txid: 2, reservedTo: 2 });
    await next.put("more", "main", { durable: true });
    expect(time.manifest(next.uuid).reservedTo).toBeGreaterThan(limits.txidReserve);
    expect(time.manifest(next.uuid).lost).toEqual([]);
  });

  test("what is being shipped when the branch is claimed is shipped again under another name", async () => {
    const { time, node } = startAudited();
    await node.put("k", "main", { durable: true });
    await node.put("on this disk only");
    node.kill();
    const next = new TimedEngine(time, {}, node.directory);
    let held = 0;
    time.store.decideFate = (verb, key): Fate =>
      verb === "put" && key.includes("/seg/") && held++ === 0 ? { held: time.scheduler.sleep(5_000) } : "fine";
    expect(await next.keys()).toHaveLength(2);
    while (held === 0) await time.pass(100);
    await next.put("claimed");
    const { epoch } = time.manifest(next.uuid);
    await time.pass(20_000);
    expect(time.manifest(next.uuid)).toMatchObject({ epoch: 2, txid: 3 });
    expect(epoch).toBe(2);
    const shipped = time.manifest(next.uuid).refs.filter(({ lastTxid }) => lastTxid >= 2);
    expect(shipped.map(({ id }) => parsePoolId(id)!.epoch)).toEqual(shipped.map(() => 2));
    expect(time.store.violations).toEqual([]);
  });
});

describe("an outage of the store", () => {
  test("F33: standard writes go on to the bound, then 429; on its return all drains in order", async () => {
    const { time, node } = startAudited({ unshippedMsMax: 20_000 });
    await node.put("k", "main", { durable: true });
    time.store.decideFate = () => "refused";
    const acknowledged: string[] = ["k"];
    let refused: unknown;
    for (let n = 0; refused === undefined && n < 200; n++) {
      await node.put(`k${n}`).then(
        () => acknowledged.push(`k${n}`),
        (error: unknown) => (refused = error),
      );
      await time.pass(500);
    }
    expect(refused).toMatchObject({ code: "overloaded", detail: { retryAfterSecs: expect.any(Number) } });
    expect(acknowledged.length).toBeGreaterThan(30);
    expect(await node.keys()).toEqual(acknowledged.toSorted());
    time.store.decideFate = () => "fine";
    await node.sync();
    const { refs, txid } = time.manifest(node.uuid);
    for (const [at, ref] of refs.entries())
      if (at > 0) expect(ref.firstTxid).toBeLessThanOrEqual(refs[at - 1]!.lastTxid + 1);
    expect(txid).toBe(acknowledged.length);
    await node.put("after");
    const again = await node.again(true);
    expect(await again.keys()).toEqual([...acknowledged, "after"].toSorted());
    expect(time.store.violations).toEqual([]);
  });

  test("F33: the bound of bytes sheds as well, and a durable write is never answered as done", async () => {
    const { time, node } = startAudited({ unshippedBytesMax: 1 * MiB });
    await node.put("k", "main", { durable: true });
    time.store.decideFate = () => "refused";
    const durable = node.putting("never", "main", { durable: true, deadlineMs: node.world.monotonicMs() + 5_000 });
    const outcome = durable.then(
      () => "done",
      (error: { code: string }) => error.code,
    );
    let refused: unknown;
    for (let n = 0; refused === undefined && n < 100; n++) {
      await node.time
        .of(node.putting(`k${n}`, "main", {}, noise(100 * KiB, n)))
        .catch((error: unknown) => (refused = error));
    }
    expect(refused).toMatchObject({ code: "overloaded" });
    expect(await time.of(outcome)).toBe("request_timeout");
    time.store.decideFate = () => "fine";
    await node.sync();
    await node.put("after", "main", { durable: true });
    expect(time.store.violations).toEqual([]);
  });

  test("F29: a segment whose answer was lost is put once more under its name and stands there once", async () => {
    const { time, node } = startAudited();
    await node.put("k", "main", { durable: true });
    let lost = 0;
    time.store.decideFate = (verb, key): Fate =>
      verb === "put" && key.includes("/seg/") && lost++ < 1 ? "answerLost" : "fine";
    await node.put("k2");
    await time.pass(5_000);
    expect(lost).toBeGreaterThan(0);
    expect(time.manifest(node.uuid).txid).toBe(2);
    expect(time.store.keys(`db/${node.uuid}/seg/`)).toHaveLength(2);
    expect(time.store.violations).toEqual([]);
  });

  test("F30: a manifest whose answer was lost is recognised by its nonce, and acknowledges once", async () => {
    const { time, node } = startAudited();
    await node.put("k", "main", { durable: true });
    const { seq } = time.manifest(node.uuid);
    let lost = 0;
    time.store.decideFate = (verb, key): Fate =>
      verb === "put" && key.includes("/head/") && lost++ < 1 ? "answerLost" : "fine";
    expect((await node.put("k2", "main", { durable: true })).durableTxid).toBe(2);
    expect(time.manifest(node.uuid).seq).toBe(seq + 1);
    expect(lost).toBe(1);
  });
});

describe("what counts as not shipped", () => {
  test("nothing once all is shipped: an open branch that is only read still takes writes", async () => {
    const { time, node } = startAudited({ unshippedMsMax: 60_000 });
    for (let n = 0; n < 5; n++) await node.put(`k${n}`);
    await node.sync();
    for (let n = 0; n < 30; n++) {
      await time.pass(5_000);
      await node.keys();
    }
    await node.put("after");
  });

  test("nothing of a large transaction that was rolled back", async () => {
    const { time, node } = startAudited({ unshippedMsMax: 60_000 });
    await node.sql(["CREATE TABLE big (n INTEGER PRIMARY KEY, body TEXT)"]);
    const rows = Array.from({ length: 60 }, (_, n) => `INSERT INTO big VALUES (${n}, '${noise(200 * KiB, n)}')`);
    await expect(node.sql([...rows, "INSERT INTO big VALUES (1, 'twice')"])).rejects.toThrow();
    await node.put("k");
    await node.sync();
    for (let n = 0; n < 30; n++) {
      await time.pass(5_000);
      await node.keys();
    }
    await node.put("after");
  });
});
