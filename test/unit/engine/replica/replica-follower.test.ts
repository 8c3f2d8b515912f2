/** Reads on a node that does not hold the database: what a copy answers, and how it comes to be new. */
import { existsSync, readdirSync } from "node:fs";
import { describe, expect, test } from "vitest";
import type { WriteInput, WriteKind } from "../../../../src/model/commands.ts";
import { manifestKey, segmentKey } from "../../../../src/format/keys/object-keys.ts";
import type { StoredObject } from "../../../../src/store/port/object-store.ts";
import { LeasedNode, describeOutcome, sharedTime } from "../../../support/leased-node.ts";
import { ReplicaNode } from "../../../support/replica-node.ts";
import { noise, type VirtualTime } from "../../../support/timed-engine.ts";
import { followIdleMs } from "../../../../src/engine/replica/manifest-watcher.ts";
import { replicaPatienceMs } from "../../../../src/engine/replica/replica-follower.ts";
import { idleCloseMs } from "../../../../src/server/config/settings.ts";

const longMs = 10_000_000;

/** A node that holds the database for as long as a test takes and has written one key, and one that reads it. */
async function pair(): Promise<{ time: VirtualTime; writer: LeasedNode; replica: ReplicaNode }> {
  const time = sharedTime();
  const [writer, replica] = [new LeasedNode(time, "writer"), new ReplicaNode(time)];
  await writer.hold(1, longMs);
  await writer.put("first", "main", { durable: true });
  return { time, writer, replica };
}

const durable = { durable: true };

describe("a copy", () => {
  test("replica-stream-1, distribution-06: a read wakes it; ships are then seen within three seconds", async () => {
    const { time, writer, replica } = await pair();
    expect(await replica.read("kv.list", { ns: "n" })).toMatchObject({
      value: { keys: ["first"] },
      txid: 1,
      durableTxid: 1,
    });
    const keys = ["first"];
    for (let round = 0; round < 5; round++) {
      for (let one = 0; one < 4; one++) {
        keys.push(`key ${round} ${one}`);
        await writer.put(keys.at(-1)!, "main");
      }
      await time.pass(3_000);
      expect(await replica.list()).toEqual(keys.toSorted());
    }
    expect(replica.integrity()).toBe("ok");
    expect(replica.notices).toEqual([]);
    expect(time.store.violations).toEqual([]);
    expect(time.manifest(writer.uuid)).toMatchObject({ node: "writer", epoch: 1 });
  });

  test("answers what the writer answers at the same transaction id, in the same bytes", async () => {
    const { time, writer, replica } = await pair();
    await replica.list();
    const write = <Kind extends WriteKind>(command: Kind, input: WriteInput<Kind>): Promise<unknown> =>
      time.of(writer.client.write(writer.at("main"), command, input, writer.soon(durable)));
    await write("docs.insert", {
      collection: "c",
      docs: Array.from({ length: 20 }, (_, n) => JSON.stringify({ _id: `d${n}`, n, text: noise(64, n) })),
    });
    await write("memory.ingest", {
      memories: [
        { type: "fact", summary: "the user likes tea", content: '"tea"', keywords: "tea", topicKey: "drink" },
        { type: "event", summary: "tea at five", content: "5" },
      ],
    });
    for (let n = 0; n < 20; n++)
      await write("vector.upsert", {
        collection: "v",
        id: `v${n}`,
        embedding: Float32Array.of(Math.cos(n), Math.sin(n)),
      });
    await writer.sql(["CREATE TABLE t (n)", "INSERT INTO t VALUES (1), (2)"]);
    const { txid } = await writer.sync();
    const reads: readonly [string, unknown][] = [
      ["kv.list", { ns: "n" }],
      ["kv.get", { ns: "n", key: "first" }],
      ["docs.find", { collection: "c", filter: '{"n":{"$gt":4}}', sort: [{ path: "n", direction: -1 }], limit: 7 }],
      ["memory.recall", { query: "tea", k: 5, explain: true }],
      ["memory.list", {}],
      ["vector.search", { collection: "v", vector: Float32Array.of(1, 0), k: 5 }],
    ];
    for (const [command, input] of reads) {
      const own = await time.of(writer.client.read(writer.at("main"), command as never, input as never, writer.soon()));
      const copied = await replica.read(command as never, input as never, { minTxid: txid });
      expect(copied, command).toEqual(own);
    }
    const rows = replica.inFile((connection) => connection.raw.prepare("SELECT n FROM t ORDER BY n").all());
    expect(rows).toEqual([{ n: 1 }, { n: 2 }]);
    expect(replica.integrity()).toBe("ok");
  });

  test("of a database that nobody has written yet is empty, and becomes the first writer's", async () => {
    const time = sharedTime();
    const [writer, replica] = [new LeasedNode(time, "writer"), new ReplicaNode(time)];
    expect(await replica.list()).toEqual([]);
    expect(await describeOutcome(time.of(replica.listing({ minTxid: 1 })))).toBe("behind");
    await writer.hold(1, longMs);
    const { txid } = await writer.put("first", "main", durable);
    replica.seen.forget();
    expect(await replica.list({ minTxid: txid })).toEqual(["first"]);
    // Its own empty file may be that of another build: the writer's image was fetched.
    const image = time.manifest(writer.uuid).refs.find(({ kind }) => kind === "image")!;
    expect(replica.seen.of("seg").map(({ key }) => key)).toContain(segmentKey(writer.uuid, image.id));
  });
});

describe("Min-Txid", () => {
  test("distribution-06: is answered at once from a copy that is brought forward for it", async () => {
    const { time, writer, replica } = await pair();
    await replica.list();
    for (let round = 0; round < 5; round++) {
      const { txid } = await writer.put(`key ${round}`, "main", durable);
      const startedMs = time.scheduler.nowMs;
      const answer = await replica.read("kv.get", { ns: "n", key: `key ${round}` }, { minTxid: txid });
      expect(answer.txid).toBeGreaterThanOrEqual(txid);
      expect(time.scheduler.nowMs - startedMs).toBeLessThan(100);
    }
  });

  test("F82: of what the writer has not shipped is refused as behind in bounded time and requests", async () => {
    const { time, writer, replica } = await pair();
    await replica.list();
    time.store.decideFate = (verb, key) =>
      verb === "put" && key.includes("/head/") ? { held: new Promise(() => {}) } : "fine";
    const { txid } = await writer.put("logged");
    replica.seen.forget();
    const startedMs = time.scheduler.nowMs;
    const many = Array.from({ length: 50 }, () => describeOutcome(replica.listing({ minTxid: txid })));
    expect(new Set(await time.of(Promise.all(many)))).toEqual(new Set(["behind"]));
    expect(time.scheduler.nowMs - startedMs).toBeLessThanOrEqual(replicaPatienceMs + 50);
    expect(replica.seen.of("head").length).toBeLessThan(60);
    // The first look learns the version.
    expect(replica.seen.of("head").filter(({ isSame }) => !isSame).length).toBeLessThanOrEqual(1);
  });

  test("F82: far beyond what any writer may have given, one look is enough", async () => {
    const { time, replica } = await pair();
    await replica.list();
    replica.seen.forget();
    const startedMs = time.scheduler.nowMs;
    expect(await describeOutcome(time.of(replica.listing({ minTxid: 10 ** 9 })))).toBe("behind");
    expect(time.scheduler.nowMs - startedMs).toBeLessThan(50);
    expect(replica.seen.of("head")).toHaveLength(1);
  });

  test("F60, F82: of a write that was lost in a failover is refused as the writer refuses it", async () => {
    const { time, writer, replica } = await pair();
    await replica.list();
    time.store.decideFate = (verb, key) => (verb === "put" && key.includes("/head/") ? "refused" : "fine");
    const { txid: lostTxid } = await writer.put("lost");
    writer.kill();
    time.store.decideFate = () => "fine";
    const next = new LeasedNode(time, "next");
    await next.hold(2, longMs);
    await next.put("kept", "main", durable);
    expect(time.manifest(next.uuid).lost).toEqual([expect.objectContaining({ firstTxid: lostTxid })]);
    const refusals = [
      next.client.read(next.at("main"), "kv.list", { ns: "n" }, next.soon({ minTxid: lostTxid })),
      replica.listing({ minTxid: lostTxid }),
    ];
    expect(await time.of(Promise.all(refusals.map(describeOutcome)))).toEqual(["conflict", "conflict"]);
    expect(await replica.list()).toEqual(["first", "kept"]);
  });

  test("F60: of a lost write is refused once the next claim stands, before a write under it", async () => {
    const { time, writer, replica } = await pair();
    await replica.list();
    let manifestsLeft = 0;
    time.store.decideFate = (verb, key) =>
      verb === "put" && key.includes("/head/") && manifestsLeft-- <= 0 ? "refused" : "fine";
    const { txid: lostTxid } = await writer.put("lost");
    writer.kill();
    const next = new LeasedNode(time, "next");
    await next.hold(2, longMs);
    manifestsLeft = 1;
    await next.put("not shipped");
    expect(time.manifest(next.uuid)).toMatchObject({
      epoch: 2,
      txid: 1,
      lost: [expect.objectContaining({ firstTxid: lostTxid })],
    });
    expect(await describeOutcome(time.of(replica.listing({ minTxid: lostTxid })))).toBe("conflict");
    expect(await replica.list()).toEqual(["first"]);
  });
});

describe("looking", () => {
  test("costs a request that says same, is rarer the longer nobody reads, and ends", async () => {
    const { time, replica } = await pair();
    await replica.list();
    replica.seen.forget();
    await time.pass(5_000);
    const eager = replica.seen.of("head").length;
    expect(eager).toBeGreaterThan(15);
    expect(eager).toBeLessThan(22);
    // The first look learns the version.
    expect(replica.seen.got.filter(({ isSame }) => !isSame).length).toBeLessThanOrEqual(2);
    replica.seen.forget();
    await time.pass(60_000);
    expect(replica.seen.of("head").length).toBeLessThan(12);
    replica.seen.forget();
    await time.pass(600_000);
    expect(replica.seen.got).toEqual([]);
  });

  test("a manifest of the same state costs no exchange", async () => {
    const { time, writer, replica } = await pair();
    await replica.list();
    const { opened } = replica.engine.counters;
    await writer.branch({ act: "checkpoint", name: "c" });
    await time.pass(1_000);
    expect(await replica.list()).toEqual(["first"]);
    expect(replica.engine.counters.opened).toBe(opened);
  });

  test("a read of a copy that was left alone brings looking back at once", async () => {
    const { time, writer, replica } = await pair();
    await replica.list();
    await time.pass(25_000);
    await writer.put("second", "main", durable);
    await replica.list();
    await time.pass(500);
    expect(await replica.list()).toEqual(["first", "second"]);
  });

  test("F84: a hint makes it look at once; hints that come twice, late or never change only when", async () => {
    const { time, writer, replica } = await pair();
    await replica.list();
    await time.pass(20_000);
    await writer.put("second", "main", durable);
    replica.client.notify(writer.uuid);
    await time.pass(50);
    expect(await replica.list()).toEqual(["first", "second"]);

    await time.pass(20_000);
    replica.seen.forget();
    for (let one = 0; one < 1_000; one++) replica.client.notify(writer.uuid);
    replica.client.notify("00000000-0000-4000-8000-00000000ffff");
    await time.pass(100);
    expect(replica.seen.of("head").length).toBeLessThanOrEqual(3);
    await writer.put("third", "main", durable);
    // The hint of it is lost.
    await replica.list();
    await time.pass(3_000);
    expect(await replica.list()).toEqual(["first", "second", "third"]);
  });

  test("a hint that comes during a look is not taken for answered by it", async () => {
    const { time, writer, replica } = await pair();
    await replica.list();
    await time.pass(25_000);
    const arrives = Promise.withResolvers<void>();
    // The manifest as it was when it was asked for.
    replica.seen.between = async (key, found) => {
      if (key.includes("/head/")) await arrives.promise;
      return found;
    };
    replica.client.notify(writer.uuid);
    await time.pass(10);
    await writer.put("second", "main", durable);
    replica.client.notify(writer.uuid);
    await time.pass(10);
    replica.seen.between = undefined;
    arrives.resolve();
    await time.pass(50);
    expect(await replica.list()).toEqual(["first", "second"]);
  });

  test("cached reads look at nothing, and are answered while object storage is away", async () => {
    const { time, writer, replica } = await pair();
    await replica.list();
    await time.pass(followIdleMs - idleCloseMs);
    await writer.put("second", "main", durable);
    time.store.decideFate = () => "refused";
    expect(await replica.list({ consistency: "cached" })).toContain("first");
  });

  test("while object storage is away reads go on from here, and what must be newer is unavailable", async () => {
    const { time, writer, replica } = await pair();
    await replica.list();
    await writer.put("second", "main", durable);
    time.store.decideFate = () => "refused";
    for (let round = 0; round < 20; round++) {
      expect(await replica.list()).toEqual(["first"]);
      await time.pass(1_000);
    }
    expect(await describeOutcome(time.of(replica.listing({ minTxid: 2 })))).toBe("unavailable");
    time.store.decideFate = () => "fine";
    expect(await replica.list({ minTxid: 2 })).toEqual(["first", "second"]);
    expect(replica.notices).toEqual([]);
  });

  test("what is held is not followed", async () => {
    const { time, writer, replica } = await pair();
    await replica.list();
    await writer.releaseDatabase();
    replica.client.renewLease({ monotonicMs: longMs, wallMs: Number.MAX_SAFE_INTEGER });
    await time.of(replica.client.hold(replica.uuid, 2, replica.soon()));
    await replica.put("own", "main", durable);
    expect(time.manifest(replica.uuid)).toMatchObject({ node: "replica", txid: 2, lost: [] });
    replica.seen.forget();
    for (let round = 0; round < 10; round++) {
      await replica.list();
      await time.pass(500);
    }
    expect(replica.seen.of("head")).toEqual([]);
  });
});

describe("a cache that lags", () => {
  test("F81: never takes a copy back: not in a look, not in an exchange, not when it is opened again", async () => {
    const { time, writer, replica } = await pair();
    const key = manifestKey(writer.uuid, "main");
    const manifests: StoredObject[] = [time.store.read(key)!];
    await replica.list();
    for (let round = 0; round < 20; round++) {
      await writer.put(`key ${String(round).padStart(2, "0")}`, "main", durable);
      manifests.push(time.store.read(key)!);
    }
    // Every other answer is an old one, and a cached absence comes too.
    let answers = 0;
    replica.seen.between = (asked, found) => {
      if (asked !== key || ++answers % 2 === 0) return found;
      return answers % 3 === 0 ? undefined : manifests[answers % manifests.length];
    };
    let most = 0;
    for (let round = 0; round < 40; round++) {
      const { txid } = await replica.read("kv.list", { ns: "n" }, round % 4 === 0 ? { consistency: "cached" } : {});
      expect(txid).toBeGreaterThanOrEqual(most);
      most = txid;
      // Long enough that the handle is closed, now and then.
      await time.pass(round % 5 === 0 ? idleCloseMs + followIdleMs + 5_000 : 400);
    }
    expect(most).toBe(21);
    expect(existsSync(`${replica.directory}/quarantine`)).toBe(false);
    expect(replica.integrity()).toBe("ok");
  });

  test("F81: that gives only old manifests makes a closed copy unavailable, and leaves its file", async () => {
    const { time, writer, replica } = await pair();
    const key = manifestKey(writer.uuid, "main");
    const old = time.store.read(key)!;
    const { txid } = await writer.put("second", "main", durable);
    expect(await replica.list({ minTxid: txid })).toEqual(["first", "second"]);
    await time.pass(idleCloseMs + followIdleMs + 5_000);
    replica.seen.between = (asked, found) => (asked === key ? old : found);
    expect(await describeOutcome(time.of(replica.listing()))).toBe("unavailable");
    replica.seen.between = undefined;
    replica.seen.forget();
    expect(await replica.list()).toEqual(["first", "second"]);
    expect(replica.seen.of("seg")).toEqual([]);
    expect(readdirSync(replica.directory).toSorted()).toEqual(["db", "scratch", "seen"]);
  });
});
